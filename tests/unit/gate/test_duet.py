"""Pairs of another commit and the candidate."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from support import records
from support.prepared import (
    FULL,
    NOISY,
    Candidate,
    RecordedDuel,
    duel,
    expect,
    gated,
    in_bouts,
    moody,
    noisy_baseline,
    outcome_of,
    screen,
    slower,
)

from perfgate.gate import Pair, Policy, check
from perfgate.model.metric import GATED_CLOCKS, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import Stage

# Interleaved, where runs differ too much


def test_what_the_mood_of_a_host_has_made_faster_is_no_gain() -> None:
    """Measured on an H200: 7.3 ms a step when it was blessed, 5.3 ms a minute later, of the same code."""
    blessed = (7.355, 6.332, 8.222, 7.311, 5.755)
    baseline = records.baseline([{Metric.STEP_MS: ms, Metric.GAP_MS: ms - 0.6} for ms in blessed])
    now = [
        records.run({Metric.STEP_MS: ms, Metric.GAP_MS: ms - 0.6}) for ms in (5.414, 5.357, 5.159)
    ]
    interleaved = RecordedDuel(moody(-60.0), moody(-60.0, wobble=2))
    checked = check(
        expect(baseline), Policy(), Candidate(*now), duel(0, 0), interleaved=interleaved
    )
    assert interleaved.opened
    assert checked.verdict.stage is Stage.INTERLEAVED
    alone = check(expect(baseline), Policy(), Candidate(*now), None)
    assert alone.verdict.outcome is Outcome.INCONCLUSIVE


def test_runs_that_differ_too_much_are_interleaved() -> None:
    alternate, interleaved = duel(0, 0), RecordedDuel(moody(0.0), moody(2.5, wobble=2))
    checked = check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(*moody(2.5)),
        alternate,
        interleaved=interleaved,
    )
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.INTERLEAVED, 4, 3)
    assert (len(checked.interleaved_runs), checked.verdict.runs) == (3, 7)
    assert interleaved.alone_asked == 1
    assert not alternate.opened
    assert [planned for _, planned in interleaved.asked] == [3, 3, 3]
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert row.change == pytest.approx(0.025, abs=5e-4)


def test_an_unchanged_noisy_loop_passes_interleaved() -> None:
    interleaved = RecordedDuel(moody(0.0), moody(0.0, wobble=2))
    checked = check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(*moody(2.5)),
        duel(0, 0),
        interleaved=interleaved,
    )
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 4, 3)


def kernels(*percent: float) -> list[Run]:
    """Runs in the mood of their pair, whose kernels take so much longer than the baseline's."""
    return [
        records.run(
            {Metric.STEP_MS: 12.34 * (1 + mood / 100), Metric.KERNEL_MS: 9.1 * (1 + more / 100)}
        )
        for mood, more in zip(NOISY, percent, strict=False)
    ]


@pytest.mark.parametrize(
    ("pairs", "outcome", "number"),
    [
        ((0.88, 0.76, 0.87, -0.35, 0.29, 0.0, 0.14, -0.02), Outcome.PASSED, 5),
        ((-0.78, -0.63, -0.80, 0.20, -0.02), Outcome.PASSED, 3),
        ((2.1, 1.9, 2.0, 2.1, 1.9), Outcome.REGRESSED, 3),
    ],
)
def test_kernels_of_processes_that_share_a_gpu_by_turns_differ_by_process(
    pairs: Sequence[float], outcome: Outcome, number: int
) -> None:
    """Measured on an H200: of unchanged kernels, three pairs that by chance all fell the same way, and others."""
    interleaved = RecordedDuel(kernels(*(0.0,) * 8), kernels(*pairs))
    checked = check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(*kernels(0.0)),
        duel(0, 0),
        interleaved=interleaved,
    )
    assert outcome_of(checked) == (outcome, Stage.INTERLEAVED, 4, number)


def test_interleaved_runs_are_judged_from_bout_to_bout() -> None:
    """By their medians one side was far slower: it met the slow one of its core's two speeds more often."""
    moods = [7.7, 7.7, 7.7, 5.1, 5.1]
    there = [in_bouts(run, moods, begins=n % 2 == 0) for n, run in enumerate(moody(40.0))]
    here = [in_bouts(run, moods, begins=n % 2 == 1) for n, run in enumerate(moody(0.0, wobble=2))]
    checked = check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(*moody(2.5)),
        None,
        interleaved=RecordedDuel(there, here),
    )
    assert outcome_of(checked)[:2] == (Outcome.PASSED, Stage.INTERLEAVED)
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert row.change == pytest.approx(0.0)
    # What was measured is kept as it was.
    assert checked.interleaved_runs[0].value(Metric.STEP_MS) == here[0].value(Metric.STEP_MS)
    as_wholes = RecordedDuel(moody(40.0), moody(0.0, wobble=2))
    checked = check(
        expect(noisy_baseline()), Policy(), Candidate(*moody(2.5)), None, interleaved=as_wholes
    )
    assert outcome_of(checked)[:2] == (Outcome.IMPROVED, Stage.INTERLEAVED)


def test_quiet_runs_are_not_interleaved() -> None:
    interleaved = duel(0, 2.5)
    checked = check(expect(FULL), Policy(), screen(2.5), duel(0, 2.5), interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 6, 3)
    assert not interleaved.opened


def test_interleaving_is_all_there_is_where_it_was_asked_for() -> None:
    interleaved = duel(0, 2.5)
    checked = check(expect(FULL), Policy(), screen(2.5), None, interleaved=interleaved)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.INTERLEAVED, 4, 3)


def test_against_a_commit_both_sides_are_measured_alone_first() -> None:
    pair = Pair(reference=slower(0), candidate=slower(1), cores=(2.0, 2.0))
    interleaved = RecordedDuel(moody(-15.0), moody(-15.0, wobble=2), alone=pair)
    checked = check(expect(), Policy(), Candidate(), None, interleaved=interleaved, against=True)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 1, 3)
    assert interleaved.alone_asked == 1
    slow = RecordedDuel(moody(20.0), moody(20.0, wobble=2), alone=pair)
    refused = check(expect(), Policy(), Candidate(), None, interleaved=slow, against=True)
    assert refused.verdict.outcome is Outcome.NOT_MEASURED
    assert refused.verdict.reason.startswith(
        "a step of the other commit takes 14.81 ms on one CPU core"
    )
    assert (
        refused.verdict.next_step
        == 'Compare runs that are alone: duet = "alternate" in [tool.perfgate].'
    )


def test_interleaved_runs_are_not_blessed() -> None:
    """On one core a step takes another time, which is not to be compared with what was blessed."""
    shorter = [slower(-17.0, n) for n in range(8)]
    checked = check(
        expect(noisy_baseline()),
        Policy(runs=3, stops_early=False),
        Candidate(*moody(2.5)),
        None,
        interleaved=RecordedDuel(shorter, shorter),
    )
    assert checked.verdict.outcome is Outcome.PASSED
    alone = [*moody(2.5)[:3], slower(0, 1)]
    assert [run.value(Metric.STEP_MS) for run in checked.runs] == [
        run.value(Metric.STEP_MS) for run in alone
    ]


# What may be spent


def test_runs_that_leave_no_room_for_three_pairs_leave_no_duet() -> None:
    other = duel(0, 2.5)
    checked = gated(screen(2.5), other, policy=Policy(max_runs=8))
    assert checked.verdict.stage is Stage.STORED
    assert (
        "No A/B run: 8 runs leave no room for 3 pairs.\nAllow 9: --perfgate-max-runs=9"
        in checked.verdict.caveats
    )
    assert other.asked == []


def test_a_duet_ends_where_the_runs_are_spent() -> None:
    jumpy = [slower(percent) for percent in (0.0, 5.0, -4.0, 3.0, -5.0, 4.0, -3.0, 2.0)]
    checked = gated(screen(2.5), RecordedDuel(jumpy, jumpy[::-1]), policy=Policy(max_runs=12))
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.DUET, 7, 4)


def test_the_runs_alone_are_within_the_budget_of_time_as_well() -> None:
    asked: list[int] = []

    def affords(runs: int, _seconds: float) -> bool:
        asked.append(runs)
        return False

    interleaved = RecordedDuel(moody(0.0), moody(0.0))
    check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(*moody(0.0)),
        None,
        interleaved=interleaved,
        affords=affords,
    )
    assert asked[0] == 2 + 2 * 3
    assert not interleaved.opened


def test_a_budget_of_time_ends_a_duet_between_its_looks() -> None:
    jumpy = [slower(percent) for percent in (0.0, 5.0, -4.0, 3.0, -5.0, 4.0, -3.0, 2.0)]
    spent = iter([True, False])
    checked = check(
        expect(FULL),
        Policy(),
        screen(2.5),
        RecordedDuel(jumpy, jumpy[::-1]),
        affords=lambda _runs, _s: next(spent),
    )
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.DUET, 6, 3)
    assert "The time budget ended this after 9 runs" in checked.verdict.remarks


# Slow runs


@pytest.mark.behaviour
def test_one_slow_run_in_three_pairs_is_not_excused_by_chance_since_no_more_may_be_made() -> None:
    def duel(pairs: int) -> RecordedDuel:
        there, here = ([slower(0, n + shift) for n in range(pairs)] for shift in (0, 2))
        return RecordedDuel(there, [*here[:1], slower(40), *here[2:]])

    few = gated(screen(2.5), duel(3), policy=Policy(max_runs=9))
    assert outcome_of(few) == (Outcome.INCONCLUSIVE, Stage.DUET, 6, 3)
    assert "--perfgate-max-runs=27" in few.verdict.next_step
    spent = iter([True, False])
    no_time = check(
        expect(FULL), Policy(), screen(2.5), duel(3), affords=lambda _runs, _s: next(spent)
    )
    assert outcome_of(no_time) == (Outcome.INCONCLUSIVE, Stage.DUET, 6, 3)
    assert outcome_of(gated(screen(2.5), duel(12))) == (Outcome.PASSED, Stage.DUET, 15, 12)


@pytest.mark.behaviour
@pytest.mark.parametrize("mhz", [1980, 1755])
def test_a_slow_run_of_the_screen_keeps_few_pairs_from_passing_at_any_clock(mhz: float) -> None:
    series = Candidate(*(slower(40 if n == 1 else 0, n, clock_mhz=mhz) for n in range(5)))
    sides = [[slower(0, n + shift) for n in range(12)] for shift in (0, 2)]
    assert outcome_of(gated(series, RecordedDuel(*sides)))[1:] == (Stage.DUET, 15, 12)


# How many pairs it takes


@pytest.mark.parametrize(("runs", "most"), [(3, 9), (5, 11)])
def test_how_many_runs_would_do_counts_those_that_the_screen_takes(runs: int, most: int) -> None:
    noisy = [
        records.run({Metric.STEP_MS: 12.34 * (1.012 + wobble / 100)}) for wobble in (0, 1.3, -1.3)
    ]
    series = Candidate(*noisy, *noisy[: runs - 3], *noisy)
    checked = gated(
        series, RecordedDuel(noisy, noisy[::-1]), policy=Policy(runs=runs, max_runs=most)
    )
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.DUET, runs + 3, 3)
    told = re.search(
        r"Allow (\d+) pairs: pytest --perfgate --perfgate-max-runs=(\d+)", checked.verdict.next_step
    )
    assert told is not None
    assert int(told[2]) == 2 * int(told[1]) + runs > most


def test_against_a_commit_a_count_that_rose_ends_it_once_it_is_known_to_be_exact() -> None:
    other = RecordedDuel([slower(0)], [records.run({Metric.SYNCS: 2})])
    checked = check(expect(None), Policy(), screen(0.0), other, against=True)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 3, 3)


def test_in_a_duet_a_count_that_rose_and_was_blessed_as_exact_ends_it_after_two_pairs() -> None:
    risen = [slower(30, number) for number in range(2)]
    risen = [
        one.model_copy(
            update={"processes": (records.process({**records.VALUES, Metric.SYNCS: 2.0}),)}
        )
        for one in risen
    ]
    other = RecordedDuel([slower(0)], risen)
    checked = gated(Candidate(*(slower(1.9, number) for number in range(3))), other)
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 5, 2)
    times = [row for row in checked.verdict.metrics if row.metric in GATED_CLOCKS]
    assert {row.outcome for row in times} <= {None, Outcome.PASSED}
