"""A gate with another commit at hand: when it is run again, what is believed of it, and what is done without it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import pytest
from support import records

from perfgate import gate
from perfgate.gate import Checked, Expectation, Pair, Policy, check
from perfgate.model.baseline import Anchor, Baseline, Milestone
from perfgate.model.errors import CodeUnproven, PerfgateError, RevisionMissing, WorkloadFailed, WorktreeFailed
from perfgate.model.machine import Gpu, Machine
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import BoutSample, Run
from perfgate.model.verdict import Duet, Stage

BLESS = 'perfgate bless mlp --reason "..."'
SHA = "0123456789abcdef0123456789abcdef01234567"
WOBBLE = (0.0, 0.02, -0.02, 0.01, -0.01)
"""Per cent by which runs differ, so that no side is all alike."""


def slower(percent: float, number: int = 0, *, clock_mhz: float = 1980) -> Run:
    """A run whose step takes so much longer than the baseline's."""
    run = records.run({Metric.STEP_MS: 12.34 * (1 + (percent + WOBBLE[number % len(WOBBLE)]) / 100)})
    gpu = run.conditions.gpus[0].model_copy(update={"sm_clock_mhz": clock_mhz})
    return run.model_copy(update={"conditions": run.conditions.model_copy(update={"gpus": (gpu,)})})


class Candidate:
    """Fresh runs of the candidate, all so much slower."""

    def __init__(self, *made: Run | BaseException, on: Machine | None = None) -> None:
        self._made = made
        self.machine = on or records.machine()
        self.asked = 0

    def measure(self, index: int, planned: int) -> Run:
        del planned
        self.asked += 1
        made = self._made[min(index, len(self._made) - 1)]
        if isinstance(made, BaseException):
            raise made
        return made


class Recorded:
    """A duet of prepared pairs, which remembers what was asked of it; `opened` says whether it was begun at all."""

    revision = "the baseline's commit 0123456789ab"
    commit = SHA

    def __init__(
        self,
        reference: Sequence[Run | BaseException],
        candidate: Sequence[Run | BaseException],
        *,
        opening: PerfgateError | None = None,
        alone: Pair | None = None,
    ) -> None:
        self._sides = (reference, candidate)
        self._alone = alone
        self.alone_asked = 0
        self._opening = opening
        self.asked: list[tuple[int, int]] = []
        self.opened = self.closed = False

    @contextmanager
    def __call__(self) -> Iterator[Recorded]:
        self.opened = True
        if self._opening is not None:
            raise self._opening
        try:
            yield self
        finally:
            self.closed = True

    def pair(self, index: int, planned: int) -> Pair:
        self.asked.append((index, planned))
        made = [side[min(index, len(side) - 1)] for side in self._sides]
        for run in made:
            if isinstance(run, BaseException):
                raise run
        reference, candidate = made
        assert isinstance(reference, Run)
        assert isinstance(candidate, Run)
        return Pair(reference=reference, candidate=candidate)

    def alone(self) -> Pair:
        self.alone_asked += 1
        return self._alone or Pair(reference=slower(0), candidate=slower(0, 1), cores=(1.0, 1.0))


def duel(there: float, here: float) -> Recorded:
    return Recorded([slower(there, n) for n in range(8)], [slower(here, n + 2) for n in range(8)])


def screen(percent: float) -> Candidate:
    return Candidate(*(slower(percent, number) for number in range(12)))


def expect(baseline: Baseline | None = None, *, on: Machine | None = None) -> Expectation:
    return Expectation(workload=records.workload(), machine=on or records.machine(), baseline=baseline)


FULL = records.baseline(*([{Metric.STEP_MS: 12.34 * (1 + w / 100)} for w in WOBBLE] for _ in range(2)))
"""Ten runs over two occasions."""


def gated(
    series: Candidate, other: Recorded | None, baseline: Baseline = FULL, *, policy: Policy | None = None
) -> Checked:
    return check(expect(baseline), policy or Policy(), series, other)


def outcome_of(checked: Checked) -> tuple[Outcome, Stage | None, int, int]:
    verdict = checked.verdict
    return verdict.outcome, verdict.stage, len(checked.runs), len(checked.reference_runs)


# When there is a duet, and what comes of it


def test_what_the_screen_passes_needs_no_duet() -> None:
    other = duel(0, 0)
    assert outcome_of(gated(screen(0.0), other)) == (Outcome.PASSED, Stage.SCREEN, 3, 0)
    assert not other.opened


def test_what_is_clearly_slower_at_the_screen_needs_no_duet() -> None:
    other = duel(0, 0)
    assert outcome_of(gated(screen(8.0), other)) == (Outcome.REGRESSED, Stage.SCREEN, 3, 0)
    assert not other.opened


def test_a_loss_that_is_not_clear_is_shown_by_a_duet() -> None:
    other = duel(0.0, 2.5)
    checked = gated(screen(2.5), other)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 6, 3)
    assert other.asked == [(0, 3), (1, 3), (2, 3)]
    assert other.closed
    assert checked.verdict.duet == Duet(
        revision="the baseline's commit 0123456789ab", commit=SHA, pairs=3, screen_runs=3
    )
    assert (checked.verdict.runs, checked.verdict.baseline_runs) == (6, 3)
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert row.baseline == pytest.approx(12.34, rel=2e-4)
    assert row.now == pytest.approx(12.34 * 1.025, rel=2e-4)


def test_a_machine_that_moved_both_sides_alike_passes_by_a_duet() -> None:
    """The same shift of the occasion that would look like a loss against the stored baseline."""
    checked = gated(screen(2.5), duel(2.5, 2.5))
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 6, 3)
    assert checked.verdict.reason == (
        "Within budget: 5 clocks and 7 counts, 3 pairs. But the baseline's commit itself takes 2.5 % longer now than "
        "when it was blessed: the machine or its software has become slower, not the code."
    )
    assert checked.verdict.next_step == ""
    assert "But" not in gated(screen(1.5), duel(1.5, 1.5)).verdict.reason


def test_a_duet_that_stays_in_doubt_looks_after_3_5_and_8_pairs_and_says_so() -> None:
    jumpy = [slower(percent) for percent in (0.0, 5.0, -4.0, 3.0, -5.0, 4.0, -3.0, 2.0)]
    other = Recorded(jumpy, jumpy[::-1])
    checked = gated(screen(2.5), other)
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.DUET, 11, 8)
    assert [planned for _, planned in other.asked] == [3, 3, 3, 5, 5, 8, 8, 8]
    assert "8 pairs can show here is" in checked.verdict.reason
    assert checked.verdict.next_step.startswith("Its runs differ by ")


def test_without_a_duet_the_looks_against_the_stored_baseline_go_on() -> None:
    assert outcome_of(gated(screen(0.9), None)) == (Outcome.INCONCLUSIVE, Stage.STORED, 10, 0)


# Interleaved, where runs differ too much


NOISY = (0.0, 6.0, -5.0, 3.0, -7.0, 4.0, -2.0, 5.0, -4.0, 1.0, 6.0, -6.0)
"""Per cent by which runs of a launch-bound loop differ; both sides of an interleaved pair share it."""


def noisy_baseline() -> Baseline:
    return records.baseline(*([{Metric.STEP_MS: 12.34 * (1 + n / 100)} for n in NOISY[:5]] for _ in range(2)))


def moody(percent: float, *, wobble: int = 0) -> list[Run]:
    """Runs of a side so much slower, in the mood of their pair."""
    return [slower((1 + percent / 100) * (1 + mood / 100) * 100 - 100, n + wobble) for n, mood in enumerate(NOISY)]


def test_what_the_mood_of_a_host_has_made_faster_is_no_gain() -> None:
    """Measured on an H200: 7.3 ms a step when it was blessed, 5.3 ms a minute later, of the same code."""
    blessed = (7.355, 6.332, 8.222, 7.311, 5.755)
    baseline = records.baseline([{Metric.STEP_MS: ms, Metric.GAP_MS: ms - 0.6} for ms in blessed])
    now = [records.run({Metric.STEP_MS: ms, Metric.GAP_MS: ms - 0.6}) for ms in (5.414, 5.357, 5.159)]
    interleaved = Recorded(moody(-60.0), moody(-60.0, wobble=2))
    checked = check(expect(baseline), Policy(), Candidate(*now), duel(0, 0), interleaved=interleaved)
    assert interleaved.opened
    assert checked.verdict.stage is Stage.INTERLEAVED
    alone = check(expect(baseline), Policy(), Candidate(*now), None)
    assert alone.verdict.outcome is Outcome.INCONCLUSIVE


def test_runs_that_differ_too_much_are_interleaved() -> None:
    alternate, interleaved = duel(0, 0), Recorded(moody(0.0), moody(2.5, wobble=2))
    checked = check(expect(noisy_baseline()), Policy(), Candidate(*moody(2.5)), alternate, interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.INTERLEAVED, 1, 5)
    assert len(checked.interleaved_runs) == 5
    assert interleaved.alone_asked == 1
    assert not alternate.opened
    assert [planned for _, planned in interleaved.asked] == [3, 3, 3, 5, 5]
    assert checked.verdict.runs == 6
    assert "Straight to the duet: its blessed runs differ by more than what it is held to" in checked.verdict.remarks
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert row.change == pytest.approx(0.025, abs=5e-4)


def test_an_unchanged_noisy_loop_passes_interleaved() -> None:
    interleaved = Recorded(moody(0.0), moody(0.0, wobble=2))
    checked = check(expect(noisy_baseline()), Policy(), Candidate(*moody(2.5)), duel(0, 0), interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 1, 3)


def kernels(*percent: float) -> list[Run]:
    """Runs in the mood of their pair, whose kernels take so much longer than the baseline's."""
    return [
        records.run({Metric.STEP_MS: 12.34 * (1 + mood / 100), Metric.KERNEL_MS: 9.1 * (1 + more / 100)})
        for mood, more in zip(NOISY, percent, strict=False)
    ]


@pytest.mark.parametrize(
    ("pairs", "outcome", "number"),
    [
        ((0.88, 0.76, 0.87, -0.35, 0.29, 0.0, 0.14, -0.02), Outcome.PASSED, 8),
        ((-0.78, -0.63, -0.80, 0.20, -0.02), Outcome.PASSED, 3),
        ((2.1, 1.9, 2.0, 2.1, 1.9), Outcome.REGRESSED, 5),
    ],
)
def test_kernels_of_processes_that_share_a_gpu_by_turns_differ_by_process(
    pairs: Sequence[float], outcome: Outcome, number: int
) -> None:
    """Measured on an H200: of unchanged kernels, three pairs that by chance all fell the same way, and others."""
    interleaved = Recorded(kernels(*(0.0,) * 8), kernels(*pairs))
    checked = check(expect(noisy_baseline()), Policy(), Candidate(*kernels(0.0)), duel(0, 0), interleaved=interleaved)
    assert outcome_of(checked) == (outcome, Stage.INTERLEAVED, 1, number)


def in_bouts(run: Run, steps: Sequence[float], *, begins: bool) -> Run:
    """The run with what its bouts took, ms a step."""
    bouts = tuple(BoutSample(number=number, step_ms=ms) for number, ms in enumerate(steps))
    (process,) = run.processes
    return run.model_copy(update={"processes": (process.model_copy(update={"bouts": bouts}),), "begins": begins})


def test_interleaved_runs_are_judged_from_bout_to_bout() -> None:
    """By their medians one side was far slower: it met the slow one of its core's two speeds more often."""
    moods = [7.7, 7.7, 7.7, 5.1, 5.1]
    there = [in_bouts(run, moods, begins=n % 2 == 0) for n, run in enumerate(moody(40.0))]
    here = [in_bouts(run, moods, begins=n % 2 == 1) for n, run in enumerate(moody(0.0, wobble=2))]
    checked = check(expect(noisy_baseline()), Policy(), Candidate(*moody(2.5)), None, interleaved=Recorded(there, here))
    assert outcome_of(checked)[:2] == (Outcome.PASSED, Stage.INTERLEAVED)
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert row.change == pytest.approx(0.0)
    # What was measured is kept as it was.
    assert checked.interleaved_runs[0].value(Metric.STEP_MS) == here[0].value(Metric.STEP_MS)
    as_wholes = Recorded(moody(40.0), moody(0.0, wobble=2))
    checked = check(expect(noisy_baseline()), Policy(), Candidate(*moody(2.5)), None, interleaved=as_wholes)
    assert outcome_of(checked)[:2] == (Outcome.IMPROVED, Stage.INTERLEAVED)


def test_runs_that_were_asked_for_are_made_before_a_noisy_loop_is_interleaved() -> None:
    interleaved = Recorded(moody(0.0), moody(0.0, wobble=2))
    policy = Policy(runs=5, stops_early=False)
    checked = check(expect(noisy_baseline()), policy, Candidate(*moody(2.5)), duel(0, 0), interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 6, 3)


def test_quiet_runs_are_not_interleaved() -> None:
    interleaved = duel(0, 2.5)
    checked = check(expect(FULL), Policy(), screen(2.5), duel(0, 2.5), interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 6, 3)
    assert not interleaved.opened


def test_what_cannot_be_interleaved_is_run_alternately() -> None:
    failing = WorktreeFailed(subject="mlp at 0123456789ab", fact="out of memory", next_step="See the log.")
    other = Recorded([slower(0)], [slower(0)])
    checked = check(
        expect(noisy_baseline()), Policy(), Candidate(*moody(2.5)), other, interleaved=Recorded([failing], [slower(0)])
    )
    assert checked.verdict.stage is Stage.DUET
    assert "No interleaved duet: mlp at 0123456789ab: out of memory.\nSee the log." in checked.verdict.remarks


def test_a_candidate_that_ran_alone_and_does_not_stand_interleaving_is_run_alternately() -> None:
    failing = WorkloadFailed(subject="mlp", fact="it raised StopIteration", next_step="See the log.")
    checked = check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(*moody(2.5)),
        Recorded([slower(0)], [slower(0)]),
        interleaved=Recorded([slower(0)], [failing]),
    )
    assert checked.verdict.stage is Stage.DUET
    assert "No interleaved duet: mlp: it raised StopIteration.\nSee the log." in checked.verdict.remarks


def test_a_form_of_the_duet_that_came_to_nothing_leaves_nothing_to_the_next() -> None:
    failing = WorktreeFailed(subject="mlp at 0123456789ab", fact="out of memory", next_step="See the log.")
    interleaved = Recorded([slower(0), slower(0), failing], [slower(50)])
    other = Recorded([slower(0)], [slower(0)])
    checked = check(expect(noisy_baseline()), Policy(), Candidate(*moody(2.5)), other, interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 4, 3)
    assert checked.interleaved_runs == ()
    interleaved = Recorded([slower(0), slower(0), failing], [slower(50)])
    stored = check(expect(noisy_baseline()), Policy(), Candidate(*moody(0)), None, interleaved=interleaved)
    assert outcome_of(stored) == (Outcome.INCONCLUSIVE, Stage.STORED, 10, 0)
    assert stored.interleaved_runs == ()


def test_interleaving_is_all_there_is_where_it_was_asked_for() -> None:
    interleaved = duel(0, 2.5)
    checked = check(expect(FULL), Policy(), screen(2.5), None, interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.INTERLEAVED, 4, 5)


def test_a_loop_that_needs_several_cores_is_not_judged_on_one() -> None:
    """Two threads became one: 90 % slower alone, and no slower on the one core that both sides then have."""
    alone = Pair(reference=slower(0), candidate=slower(90), cores=(1.9, 1.0))
    interleaved = Recorded(moody(90.0), moody(86.0, wobble=2), alone=alone)
    alternate = Recorded(moody(0.0), moody(90.0))
    checked = check(expect(noisy_baseline()), Policy(), Candidate(*moody(90.0)), alternate, interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 4, 3)
    assert checked.verdict.remarks[0].startswith(
        "No interleaved duet: a step of the other commit takes 23.45 ms on one CPU core and at most 13.08 ms alone, "
        "where it keeps 1.9 busy: "
    )
    assert len(interleaved.asked) == 1


def test_a_loop_of_one_core_is_judged_on_one_whatever_the_mood_of_its_runs_alone() -> None:
    alone = Pair(reference=slower(-30), candidate=slower(-30), cores=(1.05, 1.0))
    interleaved = Recorded(moody(20.0), moody(20.0, wobble=2), alone=alone)
    checked = check(expect(noisy_baseline()), Policy(), Candidate(), duel(0, 0), interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 1, 3)


def test_a_loop_of_several_cores_that_loses_nothing_on_one_is_judged_there() -> None:
    """A thread that spins while it waits keeps a core busy to no purpose."""
    alone = Pair(reference=slower(0), candidate=slower(0), cores=(2.0, 2.0))
    interleaved = Recorded(moody(-17.0), moody(-17.0, wobble=2), alone=alone)
    checked = check(expect(noisy_baseline()), Policy(), Candidate(), duel(0, 0), interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 1, 3)


def test_a_candidate_that_came_to_use_several_cores_is_not_judged_on_one() -> None:
    faster = moody(-45.0)
    alone = Pair(reference=slower(0), candidate=slower(-45), cores=(1.0, 1.9))
    interleaved = Recorded(moody(0.0), moody(3.0, wobble=2), alone=alone)
    alternate = Recorded(moody(0.0), faster)
    checked = check(expect(noisy_baseline()), Policy(), Candidate(*faster), alternate, interleaved=interleaved)
    assert checked.verdict.outcome is Outcome.IMPROVED
    assert "a step of the candidate takes" in checked.verdict.remarks[0]


def test_against_a_commit_both_sides_are_measured_alone_first() -> None:
    pair = Pair(reference=slower(0), candidate=slower(1), cores=(2.0, 2.0))
    interleaved = Recorded(moody(-15.0), moody(-15.0, wobble=2), alone=pair)
    checked = check(expect(), Policy(), Candidate(), None, interleaved=interleaved, against=True)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 1, 3)
    assert interleaved.alone_asked == 1
    slow = Recorded(moody(20.0), moody(20.0, wobble=2), alone=pair)
    refused = check(expect(), Policy(), Candidate(), None, interleaved=slow, against=True)
    assert refused.verdict.outcome is Outcome.NOT_MEASURED
    assert refused.verdict.reason.startswith("a step of the other commit takes 14.81 ms on one CPU core")
    assert refused.verdict.next_step == 'Compare runs that are alone: duet = "alternate" in [tool.perfgate].'


def test_against_a_commit_a_loop_that_is_known_to_be_noisy_is_interleaved() -> None:
    pair = Pair(reference=slower(0), candidate=slower(1))
    alternate, interleaved = duel(0, 0), Recorded(moody(-15.0), moody(-12.0, wobble=2), alone=pair)
    expected = expect(noisy_baseline())
    checked = check(expected, Policy(), Candidate(), alternate, interleaved=interleaved, against=True)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.INTERLEAVED, 1, 5)
    assert not alternate.opened
    assert gate.forecast(expected, Policy(), run_s=10.0, duet=True, interleaved=True, against="HEAD") == (
        "1 pair (about 20 s) and 3 interleaved pairs (about 60 s) with HEAD",
        "if that does not do, up to 12 interleaved pairs (about 240 s)",
    )
    quiet = Recorded(moody(0.0), moody(0.0), alone=pair)
    assert (
        check(expect(FULL), Policy(), Candidate(), alternate, interleaved=quiet, against=True).verdict.stage
        is Stage.DUET
    )


def test_against_a_commit_what_is_not_judged_on_one_core_is_run_alternately() -> None:
    pair = Pair(reference=slower(0), candidate=slower(1), cores=(1.9, 1.9))
    interleaved = Recorded(moody(90.0), moody(90.0, wobble=2), alone=pair)
    checked = check(expect(noisy_baseline()), Policy(), Candidate(), duel(0, 90), interleaved=interleaved, against=True)
    assert (checked.verdict.outcome, checked.verdict.stage) == (Outcome.REGRESSED, Stage.DUET)
    assert checked.verdict.remarks[0].startswith("No interleaved duet: a step of the other commit takes 23.45 ms")


def test_a_commit_that_is_not_there_is_not_asked_for_twice() -> None:
    opening = RevisionMissing(subject="commit 0123456789ab", fact="it is not here", next_step="git fetch")
    alternate, interleaved = duel(0, 0), Recorded([], [], opening=opening)
    checked = check(expect(noisy_baseline()), Policy(), screen(0.0), alternate, interleaved=interleaved, against=True)
    assert checked.verdict.outcome is Outcome.NO_BASELINE
    assert not alternate.opened


def test_another_torch_is_judged_by_what_was_blessed() -> None:
    """Both sides of a duet would run with the new one."""
    updated = records.machine().model_copy(update={"torch": "2.99.0"})
    series = Candidate(*(slower(3.5, number) for number in range(12)), on=updated)
    other = duel(3.5, 3.5)
    checked = check(expect(FULL, on=updated), Policy(), series, other)
    assert outcome_of(checked)[:2] == (Outcome.REGRESSED, Stage.STORED)
    assert not other.opened
    assert checked.verdict.remarks[0].startswith(
        "No duet: the baseline was measured with torch 2.6.0, this with torch 2.99.0"
    )
    prepared = check(expect(FULL, on=updated), Policy(), series, other, own_environment=True)
    assert prepared.verdict.stage is Stage.DUET


def test_another_torch_on_another_driver_is_not_passed_over_in_silence() -> None:
    updated = records.machine(driver="570.86.10").model_copy(update={"torch": "2.99.0"})
    checked = check(expect(FULL, on=updated), Policy(), Candidate(slower(0), on=updated), duel(0, 0))
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 3, 3)
    assert checked.verdict.reason.endswith(
        " But the baseline was measured with torch 2.6.0, this with torch 2.99.0: both sides ran with that, and what "
        "it costs is not in this."
    )


def test_another_torch_in_an_interleaved_duet_is_not_passed_over_in_silence() -> None:
    updated = records.machine().model_copy(update={"torch": "2.99.0"})
    interleaved = Recorded(moody(0.0), moody(0.0, wobble=2))
    checked = check(
        expect(noisy_baseline(), on=updated), Policy(), Candidate(on=updated), None, interleaved=interleaved
    )
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 1, 3)
    assert "torch 2.99.0: both sides ran with that, and what it costs is not in this." in checked.verdict.reason


def test_what_the_machine_lost_since_the_anchor_is_no_creep() -> None:
    """The baseline is 2 % above its anchor, the code unchanged, and everything 4 % slower today."""
    today = 100 * (1.02 * 1.04 - 1)
    baseline = crept(12.34 * 1.01, 12.34 * 1.02)
    updated = records.machine(driver="570.86.10")
    for machine, mhz in ((updated, 1980.0), (records.machine(), 1900.0)):
        made = [slower(today, number, clock_mhz=mhz) for number in range(12)]
        checked = check(expect(baseline, on=machine), Policy(), Candidate(*made, on=machine), Recorded(made, made[2:]))
        assert (checked.verdict.outcome, checked.verdict.stage) == (Outcome.PASSED, Stage.DUET)
        assert checked.verdict.creep is not None
        assert checked.verdict.creep.change == pytest.approx(0.02, abs=1e-3)


def test_interleaved_runs_are_not_blessed() -> None:
    """On one core a step takes another time, which is not to be compared with what was blessed."""
    shorter = [slower(-17.0, n) for n in range(8)]
    checked = check(
        expect(noisy_baseline()),
        Policy(runs=3, stops_early=False),
        Candidate(*moody(2.5)),
        None,
        interleaved=Recorded(shorter, shorter),
    )
    assert checked.verdict.outcome is Outcome.PASSED
    alone = [*moody(2.5)[:3], slower(0, 1)]
    assert [run.value(Metric.STEP_MS) for run in checked.runs] == [run.value(Metric.STEP_MS) for run in alone]


# Straight to the duet


def test_another_gpu_of_the_model_goes_straight_to_the_duet() -> None:
    elsewhere = records.machine().model_copy(update={"gpus": (Gpu(name="NVIDIA H200", uuid="GPU-9"),)})
    checked = check(expect(FULL, on=elsewhere), Policy(), Candidate(slower(0), on=elsewhere), duel(0, 0))
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 3, 3)
    assert "Straight to the duet: another GPU of the same model than the baseline's" in checked.verdict.remarks


def test_another_driver_goes_straight_to_the_duet() -> None:
    updated = records.machine(driver="570.86.10")
    checked = check(expect(FULL, on=updated), Policy(), Candidate(slower(0), on=updated), duel(0, 0))
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 3, 3)
    assert (
        "Straight to the duet: the baseline was measured with driver 550.54.15, this is driver 570.86.10"
        in checked.verdict.remarks
    )


def test_what_a_screen_says_at_another_sm_clock_is_not_believed() -> None:
    series = Candidate(*(slower(0, number, clock_mhz=1755) for number in range(5)))
    checked = gated(series, duel(0, 0))
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 6, 3)
    assert (
        "Straight to the duet: the SM clock was 1980 MHz in the baseline and 1755 MHz now, "
        "so the stored times are not what they would be now"
    ) in checked.verdict.remarks


def test_a_count_that_rose_is_believed_at_any_clock() -> None:
    risen = slower(0, clock_mhz=1755)
    more = {**records.VALUES, Metric.SYNCS: 2.0}
    risen = risen.model_copy(update={"processes": (records.process(more),)})
    other = duel(0, 0)
    assert outcome_of(gated(Candidate(risen), other)) == (Outcome.REGRESSED, Stage.SCREEN, 2, 0)
    assert not other.opened


# Where the other commit cannot be run


@pytest.mark.parametrize("error", [RevisionMissing, WorktreeFailed, CodeUnproven])
def test_a_duet_that_cannot_be_had_is_a_sentence_and_the_stored_looks_go_on(error: type[PerfgateError]) -> None:
    opening = error(subject="commit 0123456789ab", fact="it is not here", next_step="git fetch --unshallow")
    checked = gated(screen(1.5), Recorded([], [], opening=opening))
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.STORED, 10, 0)
    assert "No duet: commit 0123456789ab: it is not here.\ngit fetch --unshallow" in checked.verdict.remarks


def test_a_loss_that_the_stored_looks_show_at_three_runs_takes_no_more_where_there_is_no_duet() -> None:
    opening = RevisionMissing(subject="commit 0123456789ab", fact="it is not here", next_step="git fetch")
    checked = gated(screen(2.5), Recorded([], [], opening=opening))
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.STORED, 3, 0)


def test_a_workload_that_fails_in_the_other_commit_is_no_failure_of_the_candidate() -> None:
    failing = WorktreeFailed(subject="mlp at 0123456789ab", fact="it does not run there", next_step="See the log.")
    other = Recorded([slower(0), failing], [slower(2.5)])
    checked = gated(screen(2.5), other)
    assert checked.verdict.stage is Stage.STORED
    assert checked.reference_runs == ()
    assert any(
        remark.startswith("No duet: mlp at 0123456789ab: it does not run there") for remark in checked.verdict.remarks
    )


def test_a_candidate_that_fails_in_a_duet_is_not_measured() -> None:
    failing = WorkloadFailed(subject="mlp", fact="it raised RuntimeError", next_step="See the log.")
    checked = gated(screen(2.5), Recorded([slower(0)], [slower(2.5), failing]))
    assert (checked.verdict.outcome, checked.verdict.reason) == (Outcome.NOT_MEASURED, "it raised RuntimeError.")


def test_a_throttled_run_of_either_side_is_invalid() -> None:
    hot = records.run(throttled=["hardware thermal slowdown"])
    there = gated(screen(2.5), Recorded([hot], [slower(2.5)]))
    assert (there.verdict.outcome, there.verdict.reason) == (
        Outcome.INVALID,
        "a run of the other commit does not count: GPU GPU-0 was throttled (hardware thermal slowdown).",
    )
    here = gated(screen(2.5), Recorded([slower(0)], [hot]))
    assert (here.verdict.outcome, here.verdict.reason) == (
        Outcome.INVALID,
        "run 4 does not count: GPU GPU-0 was throttled (hardware thermal slowdown).",
    )


def test_a_run_of_the_other_commit_that_lost_steps_ends_the_duet_and_not_the_gate() -> None:
    torn = slower(0).model_copy(update={"complaints": ("steps were lost: process 1 shows 3 of 30 measured steps",)})
    checked = gated(screen(2.5), Recorded([torn], [slower(2.5)]))
    assert checked.verdict.stage is Stage.STORED
    assert (
        "No duet: a run of the other commit does not count: steps were lost: process 1 shows 3 of 30 measured steps"
        in checked.verdict.remarks
    )


def test_a_metric_that_some_runs_of_the_other_commit_lack_is_not_left_out_of_the_gate() -> None:
    lacks = records.run(absent={Metric.KERNEL_MS: "the capture does not say how long any of the kernels took"})
    for references in ([lacks, slower(0)], [slower(0), lacks]):
        checked = check(expect(), Policy(), Candidate(), Recorded(references, [slower(0)]), against=True)
        assert (checked.verdict.outcome, checked.verdict.reason) == (
            Outcome.NOT_MEASURED,
            "of the other commit's runs, some measured kernel_ms and some did not.",
        )


def test_another_number_of_processes_in_the_other_commit_ends_the_duet() -> None:
    two = records.run(processes=[records.process(), records.process(pid=2)])
    checked = gated(screen(2.5), Recorded([two], [slower(2.5)]))
    assert "No duet: steps of 2 processes were found in the other commit, of 1 process in the candidate" in (
        checked.verdict.remarks
    )


def test_a_commit_that_no_longer_does_what_was_blessed_ends_the_duet() -> None:
    other_work = records.run({Metric.LAUNCHES: 58})
    checked = gated(screen(2.5), Recorded([other_work], [slower(2.5)]))
    assert (
        "No duet: the baseline's commit does not do what it did when it was blessed: launches was 46 and is 58. "
        "Something beside the code has changed"
    ) in checked.verdict.remarks


def stepping(run: Run, *names: str) -> Run:
    """A run whose steps are ranges of these names."""
    processes = tuple(
        process.model_copy(update={"step_names": dict.fromkeys(names, 1 / max(len(names), 1))})
        for process in run.processes
    )
    return run.model_copy(update={"processes": processes})


def blessed_steps(*names: str) -> Baseline:
    runs = tuple(run.model_copy(update={"step_names": names}) for run in FULL.occasions[0].runs)
    return FULL.model_copy(update={"occasions": tuple(one.model_copy(update={"runs": runs}) for one in FULL.occasions)})


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
        Recorded([stepping(slower(0), "turn #")], [now]),
    )
    assert (checked.verdict.outcome, checked.verdict.reason) == (Outcome.INCOMPARABLE, OTHER_STEPS)
    assert checked.verdict.next_step == (
        f"Correct the pattern of the steps (workloads/mlp.py), or bless what they are now: {BLESS}"
    )
    assert len(checked.runs) == 5


def test_other_steps_than_those_of_the_commit_that_was_asked_for_are_no_comparison() -> None:
    other = Recorded([stepping(slower(0), "turn #")], [stepping(slower(-24), "half #", "turn #")])
    checked = check(expect(), Policy(), Candidate(slower(0)), other, against=True)
    assert (checked.verdict.outcome, checked.verdict.reason) == (Outcome.INCOMPARABLE, OTHER_STEPS)
    assert checked.verdict.next_step == (
        "Correct the pattern of the steps (workloads/mlp.py), so that both sides have the same."
    )
    assert (len(checked.runs), len(checked.reference_runs)) == (2, 2)


def test_names_that_hold_ids_are_no_other_steps() -> None:
    there, here = (
        [stepping(slower(0, n), "decode", f"req-{side}{n}a", f"req-{side}{n}b") for n in range(8)] for side in "xy"
    )
    checked = check(expect(), Policy(), Candidate(slower(0)), Recorded(there, here), against=True)
    assert checked.verdict.outcome is Outcome.PASSED


def test_steps_of_a_commit_are_known_by_what_is_blessed_from_its_first_run_on() -> None:
    now = stepping(slower(-24), "half #", "turn #")
    elsewhere = records.machine(driver="570.86.10")
    other = Recorded([stepping(slower(0), "turn #")], [now])
    checked = check(expect(blessed_steps("turn #"), on=elsewhere), Policy(), Candidate(now, on=elsewhere), other)
    assert (checked.verdict.outcome, checked.verdict.reason) == (Outcome.INCOMPARABLE, OTHER_STEPS)
    assert len(checked.reference_runs) == 1


def test_a_commit_whose_steps_are_not_those_that_were_blessed_ends_the_duet() -> None:
    now = [stepping(slower(2.5, n), "turn #") for n in range(12)]
    other = Recorded([stepping(slower(0), "half #")], now)
    checked = gated(Candidate(*now), other, blessed_steps("turn #"))
    assert checked.verdict.stage is Stage.STORED
    assert (
        "No duet: in the baseline's commit, the steps of the baseline are ranges named 'turn #', these are 'half #'. "
        "Their times are not comparable."
    ) in checked.verdict.remarks


def test_a_run_of_the_commit_that_does_not_count_tells_what_explains_it() -> None:
    lost = slower(0).model_copy(
        update={
            "complaints": ("steps were lost: process 7 shows 7 of 20 measured steps",),
            "remarks": ("3 step ranges were never closed and are not counted",),
        }
    )
    checked = gated(screen(2.5), Recorded([lost], [slower(2.5)]))
    assert (
        "No duet: a run of the other commit does not count: steps were lost: process 7 shows 7 of 20 measured steps; "
        "3 step ranges were never closed and are not counted"
    ) in checked.verdict.remarks


def test_a_metric_that_both_sides_lack_is_missed_and_not_passed() -> None:
    without = records.run(absent={Metric.KERNEL_MS: "no kernel was recorded"})
    elsewhere = records.machine(driver="570.86.10")
    checked = check(
        expect(FULL, on=elsewhere), Policy(), Candidate(without, on=elsewhere), Recorded([without], [without])
    )
    assert checked.verdict.outcome is Outcome.NOT_MEASURED
    assert "No duet: the baseline gates kernel_ms, which a run of its commit did not measure here" in (
        checked.verdict.remarks
    )


def test_a_process_that_both_sides_lost_is_missed_and_not_passed() -> None:
    occasion = FULL.occasions[0]
    of_two = tuple(run.model_copy(update={"processes": 2}) for run in occasion.runs)
    baseline = FULL.model_copy(update={"occasions": (occasion.model_copy(update={"runs": of_two}),)})
    elsewhere = records.machine(driver="570.86.10")
    checked = check(expect(baseline, on=elsewhere), Policy(), Candidate(slower(0), on=elsewhere), duel(0, 0))
    assert checked.verdict.outcome is Outcome.INCOMPARABLE


# What may be spent


def test_runs_that_leave_no_room_for_three_pairs_leave_no_duet() -> None:
    other = duel(0, 2.5)
    checked = gated(screen(2.5), other, policy=Policy(max_runs=8))
    assert checked.verdict.stage is Stage.STORED
    assert "No duet: 8 runs leave no room for 3 pairs.\nAllow 9: --perfgate-max-runs=9" in checked.verdict.remarks
    assert other.asked == []


def test_more_runs_are_not_advised_where_the_commit_is_not_there() -> None:
    opening = RevisionMissing(subject="commit 0123456789ab", fact="it is not here", next_step="git fetch")
    checked = gated(screen(2.5), Recorded([], [], opening=opening), policy=Policy(max_runs=8))
    assert "No duet: commit 0123456789ab: it is not here.\ngit fetch" in checked.verdict.remarks


def test_a_duet_ends_where_the_runs_are_spent() -> None:
    jumpy = [slower(percent) for percent in (0.0, 5.0, -4.0, 3.0, -5.0, 4.0, -3.0, 2.0)]
    checked = gated(screen(2.5), Recorded(jumpy, jumpy[::-1]), policy=Policy(max_runs=12))
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.DUET, 7, 4)


def test_a_budget_of_time_ends_a_gate_where_it_is_spent() -> None:
    other = duel(0, 2.5)
    asked: list[tuple[int, float]] = []

    def affords(runs: int, seconds: float) -> bool:
        asked.append((runs, seconds))
        return False

    checked = check(expect(FULL), Policy(), screen(1.5), other, affords=affords)
    assert asked == [(6, 7.5), (2, 7.5)]
    assert not other.opened
    assert (checked.verdict.outcome, len(checked.runs)) == (Outcome.INCONCLUSIVE, 3)
    assert "The time budget ended this after 3 runs" in checked.verdict.remarks
    assert checked.verdict.next_step == "Allow more time: --perfgate-time-budget"


def test_the_runs_alone_are_within_the_budget_of_time_as_well() -> None:
    asked: list[int] = []

    def affords(runs: int, _seconds: float) -> bool:
        asked.append(runs)
        return False

    interleaved = Recorded(moody(0.0), moody(0.0))
    check(expect(noisy_baseline()), Policy(), Candidate(*moody(0.0)), None, interleaved=interleaved, affords=affords)
    assert asked[0] == 2 + 2 * 3
    assert not interleaved.opened


def test_a_budget_of_time_ends_a_duet_between_its_looks() -> None:
    jumpy = [slower(percent) for percent in (0.0, 5.0, -4.0, 3.0, -5.0, 4.0, -3.0, 2.0)]
    spent = iter([True, False])
    checked = check(
        expect(FULL), Policy(), screen(2.5), Recorded(jumpy, jumpy[::-1]), affords=lambda _runs, _s: next(spent)
    )
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.DUET, 6, 3)
    assert "The time budget ended this after 9 runs" in checked.verdict.remarks


# Against another commit


def test_against_a_commit_no_baseline_is_needed() -> None:
    checked = check(expect(None), Policy(), screen(0.0), duel(0.0, 0.0), against=True)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 3, 3)
    assert checked.verdict.duet is not None
    assert checked.verdict.duet.screen_runs == 0


def test_against_a_commit_what_would_settle_it_is_told_as_pairs_with_that_commit() -> None:
    noisy = [records.run({Metric.STEP_MS: 12.34 * (1 + wobble / 100)}) for wobble in (0, 1.2, -1.2)]
    checked = check(expect(None), Policy(max_runs=7), screen(0.0), Recorded(noisy, noisy[::-1]), against=True)
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.DUET, 3, 3)
    assert checked.verdict.next_step == (
        "Allow 5 pairs: pytest --perfgate --perfgate-against='the baseline'\"'\"'s commit 0123456789ab' "
        "--perfgate-max-runs=10"
    )


@pytest.mark.parametrize(("runs", "most"), [(3, 9), (5, 11)])
def test_how_many_runs_would_do_counts_those_that_the_screen_takes(runs: int, most: int) -> None:
    noisy = [records.run({Metric.STEP_MS: 12.34 * (1.012 + wobble / 100)}) for wobble in (0, 1.3, -1.3)]
    series = Candidate(*noisy, *noisy[: runs - 3], *noisy)
    checked = gated(series, Recorded(noisy, noisy[::-1]), policy=Policy(runs=runs, max_runs=most))
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.DUET, runs + 3, 3)
    told = re.search(r"Allow (\d+) pairs: pytest --perfgate --perfgate-max-runs=(\d+)", checked.verdict.next_step)
    assert told is not None
    assert int(told[2]) == 2 * int(told[1]) + runs > most


def test_against_a_commit_a_count_that_rose_ends_it_once_it_is_known_to_be_exact() -> None:
    other = Recorded([slower(0)], [records.run({Metric.SYNCS: 2})])
    checked = check(expect(None), Policy(), screen(0.0), other, against=True)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 3, 3)


def test_in_a_duet_a_count_that_rose_and_was_blessed_as_exact_ends_it_after_two_pairs() -> None:
    risen = [slower(30, number) for number in range(2)]
    risen = [
        one.model_copy(update={"processes": (records.process({**records.VALUES, Metric.SYNCS: 2.0}),)}) for one in risen
    ]
    other = Recorded([slower(0)], risen)
    checked = gated(Candidate(*(slower(1.9, number) for number in range(3))), other)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 5, 2)
    clocks = [row for row in checked.verdict.metrics if METRICS[row.metric].kind is Kind.CLOCK and row.outcome is None]
    assert {row.reason for row in clocks} <= {"not judged: a count settled the gate after 2 runs"}


def copying(*sizes: int) -> list[Run]:
    return [records.run({Metric.H2D_BYTES: size}) for size in sizes]


COPIED = (1000, 1010, 990, 1005, 995)


def copied() -> Baseline:
    return records.baseline([{Metric.H2D_BYTES: size} for size in COPIED])


def test_a_varying_count_that_the_screen_leaves_open_goes_on_to_a_duet() -> None:
    other = Recorded(copying(*COPIED), copying(1008, 992, 1001))
    checked = gated(Candidate(*copying(1011, 1012, 1013)), other, baseline=copied())
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 6, 3)
    more = Recorded(copying(*COPIED), copying(1030, 1032, 1028, 1031, 1029))
    checked = gated(Candidate(*copying(1030, 1032, 1028)), more, baseline=copied())
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 8, 5)
    far = gated(Candidate(*copying(1100, 1110, 1090)), Recorded((), ()), baseline=copied())
    assert outcome_of(far) == (Outcome.REGRESSED, Stage.SCREEN, 3, 0)
    alone = check(expect(copied()), Policy(), Candidate(*copying(1030, 1032, 1028, 1031, 1029)))
    assert outcome_of(alone) == (Outcome.REGRESSED, Stage.STORED, 5, 0)


@pytest.mark.parametrize(("there", "stage"), [(1025, Stage.DUET), (980, Stage.DUET), (1031, Stage.STORED)])
def test_a_varying_count_of_the_commit_may_differ_from_the_blessed_ones_by_their_spread(
    there: int, stage: Stage
) -> None:
    other = Recorded(copying(there), copying(there))
    checked = gated(Candidate(*copying(1011, 1012, 1013, 1000)), other, baseline=copied())
    assert checked.verdict.stage is stage
    assert checked.verdict.outcome is Outcome.PASSED


def test_a_loss_against_a_commit_says_where() -> None:
    before = slower(0)
    ranges = [
        records.RANGES[0].model_copy(update={"values": {**records.RANGES[0].values, Metric.KERNEL_MS: 3.52}}),
        *records.RANGES[1:],
    ]
    values = {**records.VALUES, Metric.KERNEL_MS: 9.6}
    after = records.run(processes=[records.process(values, ranges=ranges)])
    checked = check(expect(None), Policy(), screen(0.0), Recorded([before], [after]), against=True)
    assert checked.verdict.outcome is Outcome.REGRESSED
    assert checked.verdict.where == {Metric.KERNEL_MS: "+0.5 ms: +0.5 under forward"}


def test_a_workload_that_the_other_commit_lacks_has_no_baseline_there() -> None:
    gone = RevisionMissing(
        subject="mlp", fact="it did not exist at 0123456789ab", next_step="Compare with a later commit."
    )
    checked = check(expect(None), Policy(), screen(0.0), Recorded([gone], [slower(0)]), against=True)
    assert (checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step) == (
        Outcome.NO_BASELINE,
        "it did not exist at 0123456789ab.",
        "Compare with a later commit.",
    )
    assert len(checked.runs) == 5


def test_a_commit_that_cannot_be_checked_out_leaves_nothing_to_compare_with() -> None:
    opening = WorktreeFailed(subject="commit 0123456789ab", fact="the disk is full", next_step="Free some space.")
    checked = check(expect(None), Policy(), screen(0.0), Recorded([], [], opening=opening), against=True)
    assert (checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step) == (
        Outcome.NOT_MEASURED,
        "commit 0123456789ab: the disk is full.",
        "Free some space.",
    )


# Creep


def crept(*steps: float, anchor: float = 12.34) -> Baseline:
    """A baseline whose step has come from the anchor's in small losses."""
    now = steps[-1]
    path = tuple(
        Milestone(step_ms=ms, at=records.NOON + timedelta(days=day), commit=records.COMMIT, reason="small")
        for day, ms in enumerate(steps, start=1)
    )
    return records.baseline(
        [{Metric.STEP_MS: now * (1 + w / 100)} for w in WOBBLE] * 2,
        anchor=Anchor(step_ms=anchor, at=records.NOON, commit=records.COMMIT, runs=10, occasions=2, path=path),
    )


def test_many_small_losses_end_in_a_large_one_and_the_way_there_is_told() -> None:
    steps = [12.34 * 1.01**n for n in range(1, 8)]
    other = duel(0, 0)
    checked = gated(screen(100 * (1.01**8 - 1)), other, crept(*steps))
    assert not other.opened
    assert len(checked.runs) == 3
    assert checked.verdict.outcome is Outcome.REGRESSED
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert row.change == pytest.approx(0.01, abs=1e-4)
    assert row.outcome is not Outcome.REGRESSED
    assert checked.verdict.creep is not None
    assert checked.verdict.creep.shown
    assert checked.verdict.reason == (
        "step_ms is 8.3 % (95 % interval 6.6 to 10 %) above the best ever blessed, budget 5 %: small losses, each of "
        "which was let through, have added up. 12.34 ms (2026-03-02, 0123456) -> 12.46 ms (2026-03-03, 0123456) (1 %) "
        "-> 12.59 ms (2026-03-04, 0123456) (1 %) -> 12.71 ms (2026-03-05, 0123456) (1 %) -> "
        "12.84 ms (2026-03-06, 0123456) (1 %) -> 12.97 ms (2026-03-07, 0123456) (1 %) -> "
        "13.1 ms (2026-03-08, 0123456) (1 %) -> 13.23 ms (2026-03-09, 0123456) (1 %) -> 13.36 ms now."
    )
    assert checked.verdict.next_step == (
        "Win it back, or accept where it has come to: gate with --perfgate-runs=5 (what a baseline needs) and bless "
        'it: perfgate bless mlp --reason "..." --accept-regression'
    )


def noisy_crept(anchor: float) -> Baseline:
    """The noisy baseline of 12.34 ms, with an anchor."""
    told = Anchor(step_ms=anchor, at=records.NOON, commit=records.COMMIT, runs=10, occasions=5)
    return noisy_baseline().model_copy(update={"anchor": told})


@pytest.mark.parametrize(("core", "lost"), [(0.0, 0.0), (-40.0, 0.0), (-40.0, 1.0)])
def test_an_interleaved_duet_is_held_against_the_anchor_by_its_pairs_ratio(core: float, lost: float) -> None:
    """What a step takes on one core is not beside what was blessed; what the candidate's differs by is."""
    slow = 100 * ((1 + core / 100) * (1 + lost / 100) - 1)
    interleaved = Recorded(moody(core), moody(slow, wobble=2))
    checked = check(expect(noisy_crept(7.0)), Policy(), Candidate(), duel(0, 0), interleaved=interleaved)
    assert (checked.verdict.outcome, checked.verdict.stage) == (Outcome.REGRESSED, Stage.INTERLEAVED)
    assert checked.verdict.creep is not None
    assert checked.verdict.creep.shown
    assert checked.verdict.creep.change == pytest.approx(12.34 / 7.0 * (1 + lost / 100) - 1, rel=1e-3)
    assert checked.verdict.reason.endswith(
        "have added up. 7 ms (2026-03-02, 0123456) -> 12.34 ms (2026-03-02, 0123456) (76.3 %) -> "
        f"{12.34 * (1 + lost / 100):.2f} ms now."
    )
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert row.outcome is not Outcome.REGRESSED


def test_bouts_are_held_against_the_anchor_as_they_are_judged() -> None:
    """By their medians the candidate was 28 % faster, and so within the anchor's budget."""
    moods = [7.7, 7.7, 7.7, 5.1, 5.1]
    there = [in_bouts(run, moods, begins=n % 2 == 0) for n, run in enumerate(moody(40.0))]
    here = [in_bouts(run, moods, begins=n % 2 == 1) for n, run in enumerate(moody(0.0, wobble=2))]
    checked = check(expect(noisy_crept(7.0)), Policy(), Candidate(), None, interleaved=Recorded(there, here))
    assert checked.verdict.creep is not None
    assert checked.verdict.creep.now == pytest.approx(12.34)
    assert checked.verdict.outcome is Outcome.REGRESSED


def test_an_unchanged_noisy_loop_near_its_anchor_passes_interleaved() -> None:
    interleaved = Recorded(moody(30.0), moody(30.0, wobble=2))
    checked = check(expect(noisy_crept(12.0)), Policy(), Candidate(slower(30)), None, interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 1, 3)
    assert checked.verdict.creep is not None
    assert checked.verdict.creep.change == pytest.approx(12.34 / 12.0 - 1, abs=1e-3)
    assert not checked.verdict.creep.shown


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("other", [None, duel(0, 0)])
def test_few_runs_beyond_the_anchor_are_made_three_before_the_gate_opens(runs: int, other: Recorded | None) -> None:
    policy = Policy(runs=runs, stops_early=False)
    steps = [12.34 * 1.01**n for n in range(1, 9)]
    checked = gated(screen(100 * (1.01**8 - 1)), other, crept(*steps), policy=policy)
    assert checked.verdict.outcome is Outcome.REGRESSED
    assert len(checked.runs) == 3
    assert checked.verdict.creep is not None
    assert checked.verdict.creep.shown
    within = gated(screen(100 * (1.01**4 - 1)), other, crept(*steps[:4]), policy=policy)
    assert (within.verdict.outcome, len(within.runs)) == (Outcome.PASSED, runs)
    assert within.verdict.remarks == ()


def test_after_a_screen_at_another_clock_few_runs_are_made_three_as_well() -> None:
    """At that clock the screen's word does not count, and no duet can be had: the stored looks begin with its run."""
    steps = [12.34 * 1.01**n for n in range(1, 10)]
    made = [slower(100 * (1.01**9 - 1), number, clock_mhz=1960) for number in range(3)]
    checked = gated(
        Candidate(*made),
        Recorded([], [], opening=WorktreeFailed(subject="x", fact="the disk is full", next_step="Free some space.")),
        crept(*steps),
        policy=Policy(runs=1, stops_early=False),
    )
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.STORED, 3, 0)
    assert "above the best ever blessed" in checked.verdict.reason


def test_what_a_lower_clock_may_account_for_is_no_loss_against_the_anchor() -> None:
    steps = [12.34 * 1.01**n for n in range(1, 9)]
    made = [slower(100 * (1.01**8 - 1), number, clock_mhz=1940) for number in range(3)]
    checked = gated(Candidate(*made), None, crept(*steps))
    assert checked.verdict.outcome is Outcome.PASSED
    assert checked.verdict.creep is None
    (told,) = [remark for remark in checked.verdict.remarks if "small losses" in remark]
    assert told.endswith("budget 5 %, and the SM clock was 1980 MHz in the baseline and 1940 MHz now")
    at_its_clock = [slower(100 * (1.01**8 - 1), number, clock_mhz=1980) for number in range(3)]
    assert gated(Candidate(*at_its_clock), None, crept(*steps)).verdict.outcome is Outcome.REGRESSED


NOT_KNOWN = (
    "Whether small losses have added up is not known: by {} step_ms is 6.2 % above the best ever blessed (12.34 ms), "
    "budget 5 %, and it takes 3"
)


@pytest.mark.parametrize(("most", "told"), [(1, "1 run"), (2, "2 runs")])
def test_where_no_third_run_may_be_made_it_is_said_that_the_anchor_was_not_judged(most: int, told: str) -> None:
    steps = [12.34 * 1.01**n for n in range(1, 7)]
    policy = Policy(runs=1, max_runs=most, stops_early=False)
    checked = gated(screen(100 * (1.01**6 - 1)), None, crept(*steps), policy=policy)
    assert (checked.verdict.outcome, len(checked.runs)) == (Outcome.PASSED, most)
    assert checked.verdict.creep is None
    assert checked.verdict.remarks == (NOT_KNOWN.format(told),)


def test_where_time_ends_before_a_third_run_it_is_said_that_the_anchor_was_not_judged() -> None:
    steps = [12.34 * 1.01**n for n in range(1, 7)]
    checked = check(
        expect(crept(*steps)),
        Policy(runs=1, stops_early=False),
        screen(100 * (1.01**6 - 1)),
        affords=lambda _runs, _s: False,
    )
    assert (checked.verdict.outcome, len(checked.runs)) == (Outcome.PASSED, 1)
    assert checked.verdict.remarks == ("The time budget ended this after 1 runs", NOT_KNOWN.format("1 run"))


def test_a_blessed_step_that_took_no_time_leaves_the_anchor_unjudged_and_says_so() -> None:
    baseline = crept(12.34 * 1.06)
    first = baseline.occasions[0].runs[0]
    zero = first.model_copy(update={"values": {**first.values, Metric.STEP_MS: 0.0}})
    occasion = baseline.occasions[0].model_copy(update={"runs": (zero, *baseline.occasions[0].runs[1:])})
    checked = gated(screen(6.0), None, baseline.model_copy(update={"occasions": (occasion, *baseline.occasions[1:])}))
    assert checked.verdict.outcome is Outcome.INCONCLUSIVE
    assert checked.verdict.remarks == (
        (
            "Whether small losses have added up is not known: by 10 runs step_ms is 6 % above the best ever blessed "
            "(12.34 ms), budget 5 %, and there are steps that took no time at all"
        ),
    )


def test_one_small_loss_is_no_creep() -> None:
    checked = gated(screen(1.0), None, crept(12.34 * 1.01))
    assert checked.verdict.outcome is Outcome.PASSED
    assert checked.verdict.creep is not None
    assert not checked.verdict.creep.shown


def test_a_wider_anchor_budget_lets_more_through() -> None:
    steps = [12.34 * 1.01**n for n in range(1, 9)]
    assert gated(screen(8.3), None, crept(*steps)).verdict.outcome is Outcome.REGRESSED
    wider = gated(screen(8.3), None, crept(*steps), policy=Policy(anchor_budget=0.1))
    assert wider.verdict.outcome is Outcome.PASSED
    assert wider.verdict.remarks == ()


def test_a_step_just_beyond_the_anchors_budget_is_told_and_lets_through_what_is_not_shown() -> None:
    checked = gated(screen(5.2), None, crept(*[12.34 * 1.01**n for n in range(1, 6)]))
    assert checked.verdict.outcome is Outcome.PASSED
    assert checked.verdict.creep is not None
    assert not checked.verdict.creep.shown
    (told,) = checked.verdict.remarks
    assert told.startswith(
        "Small losses have added up to 5.2 % above the best step_ms ever blessed (12.34 ms), which does not show yet "
        "that it is more than the budget of 5 % ("
    )


def test_what_runs_differ_by_is_known_from_the_baselines_runs_however_many_the_anchor_had() -> None:
    """The anchor's own runs are not at hand, and bring no degrees of freedom."""
    steps = [12.34 * 1.01**n for n in range(1, 9)]
    few = crept(*steps)
    assert few.anchor is not None
    many = few.model_copy(update={"anchor": few.anchor.model_copy(update={"runs": 30})})
    spans = []
    for baseline in (few, many):
        found = gated(screen(8.3), None, baseline).verdict.creep
        assert found is not None
        spans.append(found.high - found.low)
    assert 0.9 < spans[1] / spans[0] < 1


def test_a_baseline_that_is_its_own_anchor_has_not_crept() -> None:
    assert gated(screen(0.0), None, crept(12.34, anchor=12.4)).verdict.creep is None
    assert gated(screen(0.0), None).verdict.creep is None


def test_an_anchor_without_a_path_shows_the_present_baseline() -> None:
    baseline = crept(12.34 * 1.06)
    anchor = baseline.anchor
    assert anchor is not None
    baseline = baseline.model_copy(update={"anchor": anchor.model_copy(update={"path": ()})})
    checked = gated(screen(6.0), None, baseline)
    assert checked.verdict.creep is not None
    assert [round(point.step_ms, 2) for point in checked.verdict.creep.path] == [12.34, 13.08]


# Before anything is spent


def test_it_is_said_before_what_is_to_be_spent_and_what_it_can_show() -> None:
    assert gate.forecast(expect(FULL), Policy(), run_s=10.0, duet=True) == (
        "3 runs (about 30 s): can show 2.1 % of step_ms and 0.5 % of kernel_ms",
        (
            "if that does not do, up to 8 pairs (about 160 s) with the baseline's commit: "
            "can show 1 % of step_ms and 0.5 % of kernel_ms"
        ),
    )


def test_on_another_gpu_no_screen_is_promised() -> None:
    there = expect(FULL).model_copy(update={"machine": records.machine(driver="570.86.10")})
    assert gate.forecast(there, Policy(), run_s=10.0, duet=True) == (
        "3 pairs (about 60 s) with the baseline's commit",
        "if that does not do, up to 8 pairs (about 160 s): can show 1 % of step_ms and 0.5 % of kernel_ms",
    )


def test_of_fewer_runs_than_can_fail_a_clock_nothing_is_promised() -> None:
    few = "can pass, and never fail on a clock, however slow: that takes 3 (--perfgate-max-runs=3)"
    for duet in (True, False):
        one = gate.forecast(expect(FULL), Policy(runs=1, max_runs=1), run_s=10.0, duet=duet, interleaved=True)
        assert one == ("1 run (about 10 s)", f"1 run {few}")
    two = gate.forecast(expect(noisy_baseline()), Policy(runs=1, max_runs=2), run_s=None, duet=True, interleaved=True)
    assert two == ("1 run", f"2 runs {few}")
    assert len(gate.forecast(expect(FULL), Policy(runs=3, max_runs=3), run_s=10.0, duet=False)) == 1


def test_what_interleaved_pairs_show_is_less_where_workloads_share_the_error() -> None:
    alone, shared = (
        gate.forecast(expect(noisy_baseline()), Policy(workloads=n), run_s=None, duet=True, interleaved=True)[1]
        for n in (1, 10)
    )
    assert "can show 1.3 % of step_ms" in alone
    assert "can show 1.6 % of step_ms" in shared


def test_what_a_run_takes_is_left_out_where_nobody_knows_it() -> None:
    first, more = gate.forecast(expect(FULL), Policy(), run_s=None, duet=False)
    assert first.startswith("3 runs: can show ")
    assert more.startswith("if that does not do, up to 7 runs more: can show ")
    (only,) = gate.forecast(expect(FULL), Policy(runs=10, max_runs=10), run_s=None, duet=False)
    assert only.startswith("10 runs: ")


def test_a_noisy_loop_is_promised_what_interleaved_pairs_show() -> None:
    assert gate.forecast(expect(noisy_baseline()), Policy(), run_s=10.0, duet=True, interleaved=True) == (
        "1 pair (about 20 s) and 3 interleaved pairs (about 60 s) with the baseline's commit",
        (
            "if that does not do, up to 12 interleaved pairs (about 240 s): "
            "can show 1.3 % of step_ms and 0.72 % of kernel_ms"
        ),
    )
    asked = gate.forecast(expect(noisy_baseline()), Policy(stops_early=False), run_s=None, duet=False, interleaved=True)
    assert asked[0].startswith("3 runs: can show ")
    assert asked[1].startswith("if that does not do, up to 11 interleaved pairs with the baseline's commit: can show ")
    alternately = gate.forecast(expect(noisy_baseline()), Policy(), run_s=None, duet=True)
    assert alternately[1].startswith("if that does not do, up to 8 pairs with the baseline's commit: can show ")
    quiet = gate.forecast(expect(FULL), Policy(), run_s=None, duet=True, interleaved=True)
    assert quiet[1].startswith("if that does not do, up to 8 pairs ")
    assert gate.forecast(expect(None), Policy(), run_s=None, duet=False, interleaved=True, against="HEAD") == (
        "1 pair and 3 interleaved pairs with HEAD",
        "if that does not do, up to 12 interleaved pairs",
    )


def test_a_baseline_without_clocks_promises_nothing() -> None:
    counted = records.baseline([{}])
    bare = tuple(
        occasion.model_copy(update={"runs": tuple(run.model_copy(update={"values": {}}) for run in occasion.runs)})
        for occasion in counted.occasions
    )
    told = gate.forecast(expect(counted.model_copy(update={"occasions": bare})), Policy(), run_s=None, duet=True)
    assert told[0] == "3 runs"


def test_what_has_nothing_to_compare_with_says_so() -> None:
    assert gate.forecast(expect(None), Policy(), run_s=None, duet=True) == (
        "5 runs, to be shown: there is nothing to compare with",
    )
    broken = expect(None).model_copy(update={"trouble": "it is broken"})
    assert gate.forecast(broken, Policy(), run_s=None, duet=True) == (
        "nothing to measure while its baseline cannot be read",
    )
    assert gate.forecast(expect(None), Policy(), run_s=10.0, duet=True, against="HEAD~1") == (
        "3 pairs (about 60 s) with HEAD~1",
        "if that does not do, up to 8 pairs (about 160 s)",
    )


# Many workloads


def test_workloads_of_one_gate_share_the_error() -> None:
    checked = gated(screen(2.5), None, policy=Policy(workloads=4))
    alone = gated(screen(2.5), None)
    assert checked.verdict.workloads == 4
    shared, own = checked.verdict.of(Metric.STEP_MS), alone.verdict.of(Metric.STEP_MS)
    assert shared is not None
    assert own is not None
    assert shared.smallest is not None
    assert own.smallest is not None
    assert shared.smallest > own.smallest


def test_a_loss_missed_for_sharing_is_told_once_the_others_are_known() -> None:
    lost = {"loss_by": Metric.STEP_MS}
    clear = records.verdict(Outcome.REGRESSED, name="a").model_copy(update={"loss_level": 0.001, **lost})
    row = records.clock(Metric.STEP_MS, Outcome.INCONCLUSIVE, was=10, now=10.4, change=0.04, around=0.01)
    other = records.clock(Metric.GAP_MS, Outcome.INCONCLUSIVE, was=1, now=1.8, change=0.08, around=0.2)
    close = records.verdict(Outcome.INCONCLUSIVE, name="b", metrics=[row, other])
    close = close.model_copy(update={"loss_level": 0.8, **lost})
    changed = gate.step_down_clocks({"a": clear, "b": close}, workloads=2)
    assert {name: (verdict.outcome, verdict.reason) for name, verdict in changed.items()} == {
        "b": (
            Outcome.REGRESSED,
            (
                "step_ms rose 4 % (95 % interval 3 to 5 %), budget 2 %: shown now that the other workloads' losses are "
                "(Holm)."
            ),
        )
    }
    assert [row.outcome for row in changed["b"].metrics] == [Outcome.REGRESSED, Outcome.INCONCLUSIVE]
    assert changed["b"].next_step == (
        "If this is meant, gate with --perfgate-runs=5 (what a baseline needs) and bless it: "
        'perfgate bless b --reason "..." --accept-regression'
    )
    assert gate.step_down_clocks({"a": clear, "b": close}, workloads=3) == {}
