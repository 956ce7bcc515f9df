"""What is asked of the other commit's runs."""

from __future__ import annotations

import pytest
from support import records
from support.prepared import (
    BLESS,
    FULL,
    Candidate,
    RecordedDuel,
    copied,
    copying,
    duel,
    expect,
    gated,
    moody,
    noisy_baseline,
    outcome_of,
    screen,
    slower,
    stepping,
)

from perfgate.gate import Checked, Pair, Policy, check
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Stage

# One core or several

UPDATED = records.machine(driver="570.86.10")


def without_screen(
    series: Candidate, alternate: RecordedDuel, interleaved: RecordedDuel
) -> Checked:
    """What comes of a noisy loop on another driver, of which stored times say nothing."""
    return check(
        expect(noisy_baseline(), on=UPDATED), Policy(), series, alternate, interleaved=interleaved
    )


def test_a_loop_that_needs_several_cores_is_not_judged_on_one() -> None:
    """Two threads became one: 90 % slower alone, and no slower on the one core that both sides then have."""
    alone = Pair(reference=slower(0), candidate=slower(90), cores=(1.9, 1.0))
    interleaved = RecordedDuel(moody(90.0), moody(86.0, wobble=2), alone=alone)
    alternate = RecordedDuel(moody(0.0), moody(90.0))
    checked = check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(*moody(90.0)),
        alternate,
        interleaved=interleaved,
    )
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 7, 3)
    assert checked.verdict.remarks[0].startswith(
        "No interleaved duet: a step of the other commit takes 23.45 ms on one CPU core and at most 13.08 ms alone, "
        "where it keeps 1.9 busy: "
    )
    assert len(interleaved.asked) == 1


def test_a_loop_of_one_core_is_judged_on_one_whatever_the_mood_of_its_runs_alone() -> None:
    alone = Pair(reference=slower(-30), candidate=slower(-30), cores=(1.05, 1.0))
    interleaved = RecordedDuel(moody(20.0), moody(20.0, wobble=2), alone=alone)
    checked = without_screen(Candidate(on=UPDATED), duel(0, 0), interleaved)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 1, 3)


def test_a_loop_of_several_cores_that_loses_nothing_on_one_is_judged_there() -> None:
    """A thread that spins while it waits keeps a core busy to no purpose."""
    alone = Pair(reference=slower(0), candidate=slower(0), cores=(2.0, 2.0))
    interleaved = RecordedDuel(moody(-17.0), moody(-17.0, wobble=2), alone=alone)
    checked = without_screen(Candidate(on=UPDATED), duel(0, 0), interleaved)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 1, 3)


def test_a_candidate_that_came_to_use_several_cores_is_not_judged_on_one() -> None:
    faster = moody(-45.0)
    alone = Pair(reference=slower(0), candidate=slower(-45), cores=(1.0, 1.9))
    interleaved = RecordedDuel(moody(0.0), moody(3.0, wobble=2), alone=alone)
    alternate = RecordedDuel(moody(0.0), faster)
    checked = without_screen(Candidate(*faster, on=UPDATED), alternate, interleaved)
    assert checked.verdict.outcome is Outcome.IMPROVED
    assert "a step of the candidate takes" in checked.verdict.remarks[0]


# Runs of the other commit that do not count


def test_a_throttled_run_of_either_side_is_invalid() -> None:
    hot = records.run(throttled=["hardware thermal slowdown"])
    there = gated(screen(2.5), RecordedDuel([hot], [slower(2.5)]))
    assert (there.verdict.outcome, there.verdict.reason) == (
        Outcome.INVALID,
        "a run of the other commit does not count: GPU GPU-0 was throttled (hardware thermal slowdown).",
    )
    here = gated(screen(2.5), RecordedDuel([slower(0)], [hot]))
    assert (here.verdict.outcome, here.verdict.reason) == (
        Outcome.INVALID,
        "run 4 does not count: GPU GPU-0 was throttled (hardware thermal slowdown).",
    )


def test_a_run_of_the_other_commit_that_lost_steps_ends_the_duet_and_not_the_gate() -> None:
    torn = slower(0).model_copy(
        update={"complaints": ("steps were lost: process 1 shows 3 of 30 measured steps",)}
    )
    checked = gated(screen(2.5), RecordedDuel([torn], [slower(2.5)]))
    assert checked.verdict.stage is Stage.STORED
    assert (
        "No A/B run: a run of the other commit does not count: steps were lost: process 1 shows 3 of 30 measured steps"
        in checked.verdict.caveats
    )


def test_a_metric_that_some_runs_of_the_other_commit_lack_is_not_left_out_of_the_gate() -> None:
    lacks = records.run(
        absent={Metric.KERNEL_MS: "the capture does not say how long any of the kernels took"}
    )
    for references in ([lacks, slower(0)], [slower(0), lacks]):
        checked = check(
            expect(), Policy(), Candidate(), RecordedDuel(references, [slower(0)]), against=True
        )
        assert (checked.verdict.outcome, checked.verdict.reason) == (
            Outcome.NOT_MEASURED,
            "of the other commit's runs, some measured kernel_ms and some did not.",
        )


def test_another_number_of_processes_in_the_other_commit_ends_the_duet() -> None:
    two = records.run(processes=[records.process(), records.process(pid=2)])
    checked = gated(screen(2.5), RecordedDuel([two], [slower(2.5)]))
    assert (
        "No A/B run: steps of 2 processes were found in the other commit, of 1 process in the candidate"
        in (checked.verdict.caveats)
    )


def test_a_commit_that_no_longer_does_what_was_blessed_ends_the_duet() -> None:
    other_work = records.run({Metric.LAUNCHES: 58})
    checked = gated(screen(2.5), RecordedDuel([other_work], [slower(2.5)]))
    assert (
        "No A/B run: the baseline's commit does not do what it did when it was blessed: launches was 46 and is 58. "
        "Something beside the code has changed"
    ) in checked.verdict.caveats


def test_a_run_of_the_commit_that_does_not_count_tells_what_explains_it() -> None:
    lost = slower(0).model_copy(
        update={
            "complaints": ("steps were lost: process 7 shows 7 of 20 measured steps",),
            "remarks": ("step ranges were never closed and are not counted (3)",),
        }
    )
    checked = gated(screen(2.5), RecordedDuel([lost], [slower(2.5)]))
    assert (
        "No A/B run: a run of the other commit does not count: steps were lost: process 7 shows 7 of 20 measured steps; "
        "step ranges were never closed and are not counted (3)"
    ) in checked.verdict.caveats


def test_a_metric_that_both_sides_lack_is_missed_and_not_passed() -> None:
    without = records.run(absent={Metric.KERNEL_MS: "no kernel was recorded"})
    elsewhere = records.machine(driver="570.86.10")
    checked = check(
        expect(FULL, on=elsewhere),
        Policy(),
        Candidate(without, on=elsewhere),
        RecordedDuel([without], [without]),
    )
    assert checked.verdict.outcome is Outcome.NOT_MEASURED
    assert (
        "No A/B run: the baseline gates kernel_ms, which a run of its commit did not measure here"
        in (checked.verdict.caveats)
    )


def test_a_process_that_both_sides_lost_is_missed_and_not_passed() -> None:
    occasion = FULL.occasions[0]
    of_two = tuple(run.model_copy(update={"processes": 2}) for run in occasion.runs)
    baseline = FULL.model_copy(
        update={"occasions": (occasion.model_copy(update={"runs": of_two}),)}
    )
    elsewhere = records.machine(driver="570.86.10")
    checked = check(
        expect(baseline, on=elsewhere), Policy(), Candidate(slower(0), on=elsewhere), duel(0, 0)
    )
    assert checked.verdict.outcome is Outcome.INCOMPARABLE


@pytest.mark.parametrize(
    ("there", "stage"), [(1025, Stage.DUET), (980, Stage.DUET), (1031, Stage.STORED)]
)
def test_a_varying_count_of_the_commit_may_differ_from_the_blessed_ones_by_their_spread(
    there: int, stage: Stage
) -> None:
    other = RecordedDuel(copying(there), copying(there))
    checked = gated(Candidate(*copying(1011, 1012, 1013, 1000)), other, baseline=copied())
    assert checked.verdict.stage is stage
    assert checked.verdict.outcome is Outcome.PASSED


# Other steps


def blessed_steps(*names: str) -> Baseline:
    runs = tuple(run.model_copy(update={"step_names": names}) for run in FULL.occasions[0].runs)
    return FULL.model_copy(
        update={"occasions": tuple(one.model_copy(update={"runs": runs}) for one in FULL.occasions)}
    )


OTHER_STEPS = (
    "the steps of the other commit are ranges named 'turn #', these are 'half #' and 'turn #'. "
    "Their times are not comparable."
)


def test_other_steps_than_those_of_an_old_baselines_commit_are_no_comparison() -> None:
    elsewhere = records.machine(driver="570.86.10")
    now = stepping(slower(-24), "half #", "turn #")
    checked = check(
        expect(FULL, on=elsewhere),
        Policy(),
        Candidate(now, on=elsewhere),
        RecordedDuel([stepping(slower(0), "turn #")], [now]),
    )
    assert (checked.verdict.outcome, checked.verdict.reason) == (Outcome.INCOMPARABLE, OTHER_STEPS)
    assert checked.verdict.next_step == (
        f"Correct the pattern of the steps (workloads/mlp.py), or bless what they are now: {BLESS}"
    )
    assert len(checked.runs) == 5


def test_other_steps_than_those_of_the_commit_that_was_asked_for_are_no_comparison() -> None:
    other = RecordedDuel(
        [stepping(slower(0), "turn #")], [stepping(slower(-24), "half #", "turn #")]
    )
    checked = check(expect(), Policy(), Candidate(slower(0)), other, against=True)
    assert (checked.verdict.outcome, checked.verdict.reason) == (Outcome.INCOMPARABLE, OTHER_STEPS)
    assert checked.verdict.next_step == (
        "Correct the pattern of the steps (workloads/mlp.py), so that both sides have the same."
    )
    assert (len(checked.runs), len(checked.reference_runs)) == (2, 2)


def test_a_candidate_most_of_whose_steps_launch_nothing_is_not_compared_with_another_commit() -> (
    None
):
    gone = records.run({**records.VALUES, Metric.LAUNCHES: 0})
    other = RecordedDuel([records.run()], [gone])
    checked = check(expect(), Policy(), Candidate(slower(0)), other, against=True)
    assert (checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step) == (
        Outcome.INCOMPARABLE,
        (
            "most of its steps launch nothing on a GPU, those it is compared with 46 kernels or graphs. Their values "
            "are not comparable."
        ),
        "Gate again: the profiler may have lost records.",
    )


def test_names_that_hold_ids_are_no_other_steps() -> None:
    there, here = (
        [stepping(slower(0, n), "decode", f"req-{side}{n}a", f"req-{side}{n}b") for n in range(8)]
        for side in "xy"
    )
    checked = check(
        expect(), Policy(), Candidate(slower(0)), RecordedDuel(there, here), against=True
    )
    assert checked.verdict.outcome is Outcome.PASSED


def test_steps_of_a_commit_are_known_by_what_is_blessed_from_its_first_run_on() -> None:
    now = stepping(slower(-24), "half #", "turn #")
    elsewhere = records.machine(driver="570.86.10")
    other = RecordedDuel([stepping(slower(0), "turn #")], [now])
    checked = check(
        expect(blessed_steps("turn #"), on=elsewhere), Policy(), Candidate(now, on=elsewhere), other
    )
    assert (checked.verdict.outcome, checked.verdict.reason) == (Outcome.INCOMPARABLE, OTHER_STEPS)
    assert len(checked.reference_runs) == 1


def test_a_commit_whose_steps_are_not_those_that_were_blessed_ends_the_duet() -> None:
    now = [stepping(slower(2.5, n), "turn #") for n in range(12)]
    other = RecordedDuel([stepping(slower(0), "half #")], now)
    checked = gated(Candidate(*now), other, blessed_steps("turn #"))
    assert checked.verdict.stage is Stage.STORED
    assert (
        "No A/B run: in the baseline's commit, the steps of the baseline are ranges named 'turn #', these are 'half #'. "
        "Their times are not comparable."
    ) in checked.verdict.caveats
