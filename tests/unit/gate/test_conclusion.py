"""What a verdict says beside the judge: circumstances, what a duet does not show, and where."""

from __future__ import annotations

from support import records
from support.prepared import (
    FULL,
    Candidate,
    RecordedDuel,
    duel,
    expect,
    outcome_of,
    screen,
    slower,
)

from perfgate.gate import Policy, check
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Stage

# Circumstances


def remarks_of(then: Machine, now: Machine) -> tuple[str, ...]:
    series = Candidate(*records.runs(12.33, 12.35, 12.34), on=now)
    return check(expect(records.baseline(on=then), on=now), Policy(), series).verdict.remarks


def test_other_versions_are_remarked_upon_as_the_worker_loaded_them() -> None:
    now = records.machine(driver="570.86.10").model_copy(update={"torch": None, "cuda": "12.8"})
    assert remarks_of(records.machine(), now) == (
        "The baseline was measured with driver 550.54.15, this with driver 570.86.10.",
        "The baseline was measured with torch 2.6.0, this with torch unknown.",
        "The baseline was measured with CUDA 12.4, this with CUDA 12.8.",
    )


def test_another_clock_of_the_gpu_is_told_once() -> None:
    """The judge's remark, not one more of the gate's."""
    run = slower(0, clock_mhz=1755)
    remarks = check(expect(records.baseline()), Policy(), Candidate(run)).verdict.remarks
    assert [remark for remark in remarks if "SM clock" in remark] == [
        "the SM clock was 1980 MHz in the baseline and 1755 MHz now: kernel time follows it"
    ]


# What a duet does not show


def test_another_torch_is_judged_by_what_was_blessed() -> None:
    """Both sides of a duet would run with the new one."""
    updated = records.machine().model_copy(update={"torch": "2.99.0"})
    series = Candidate(*(slower(13.5, number) for number in range(12)), on=updated)
    other = duel(13.5, 13.5)
    checked = check(expect(FULL, on=updated), Policy(), series, other)
    assert outcome_of(checked)[:2] == (Outcome.REGRESSED, Stage.STORED)
    assert not other.opened
    assert checked.verdict.caveats[0].startswith(
        "No A/B run: the baseline was measured with torch 2.6.0, this with torch 2.99.0"
    )
    prepared = check(expect(FULL, on=updated), Policy(), series, other, own_environment=True)
    assert prepared.verdict.stage is Stage.DUET


def test_another_torch_on_another_driver_is_not_passed_over_in_silence() -> None:
    updated = records.machine(driver="570.86.10").model_copy(update={"torch": "2.99.0"})
    checked = check(
        expect(FULL, on=updated), Policy(), Candidate(slower(0), on=updated), duel(0, 0)
    )
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 3, 3)
    assert any("both sides ran with that" in caveat for caveat in checked.verdict.caveats)


# Where it happened


def test_a_loss_against_a_commit_says_where() -> None:
    before = slower(0)
    ranges = [
        records.RANGES[0].model_copy(
            update={"values": {**records.RANGES[0].values, Metric.KERNEL_MS: 3.52}}
        ),
        *records.RANGES[1:],
    ]
    values = {**records.VALUES, Metric.KERNEL_MS: 9.6}
    after = records.run(processes=[records.process(values, ranges=ranges)])
    checked = check(
        expect(None), Policy(), screen(0.0), RecordedDuel([before], [after]), against=True
    )
    assert checked.verdict.outcome is Outcome.REGRESSED
    assert checked.verdict.where == {Metric.KERNEL_MS: "+0.5 ms: +0.5 under forward"}
