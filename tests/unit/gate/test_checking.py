"""The path of one workload: screen, duet, further looks, or another commit."""

from __future__ import annotations

import pytest
from support import records
from support.prepared import (
    COPIED,
    FULL,
    SHA,
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
    told,
)

from perfgate import gate
from perfgate.gate import Pair, Policy, check
from perfgate.model.errors import (
    CodeUnproven,
    PerfgateError,
    RevisionMissing,
    WorkloadFailed,
    WorktreeFailed,
)
from perfgate.model.machine import Gpu
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Duet, Stage

# Without a duet


def test_an_unreadable_baseline_is_incomparable_and_nothing_is_measured() -> None:
    trouble = "baselines/nvidia-h200/mlp.json: it is of format 2. This perfgate reads format 1.\nUpdate perfgate."
    series = Candidate(records.run())
    checked = check(expect(None, trouble=trouble), Policy(), series)
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        "baselines/nvidia-h200/mlp.json: it is of format 2. This perfgate reads format 1.",
        "Update perfgate.",
    )
    assert series.asked == []
    assert (checked.runs, checked.verdict.runs) == ((), 0)


def test_unchanged_runs_pass_after_five() -> None:
    baseline = records.baseline()
    series = Candidate(*records.runs(12.33, 12.35, 12.34))
    checked = check(expect(baseline), Policy(), series)
    judged = checked.verdict.model_copy(
        update={"classified": None}
    )  # which is explained, not judged
    assert (judged.outcome, judged.why.code) == (Outcome.PASSED, "within-budget")
    assert checked.verdict.outcome is Outcome.PASSED
    assert series.asked == [(0, 3), (1, 3), (2, 3), (3, 5), (4, 5)]


def test_a_clear_loss_is_regressed() -> None:
    checked = check(
        expect(records.baseline()), Policy(), Candidate(*map(slower, (20.0, 20.1, 19.9)))
    )
    assert (checked.verdict.outcome, checked.verdict.runs) == (Outcome.REGRESSED, 5)


def test_a_gain_is_improved() -> None:
    checked = check(
        expect(records.baseline()), Policy(), Candidate(*map(slower, (-20.0, -20.1, -19.9)))
    )
    assert (checked.verdict.outcome, checked.verdict.runs) == (Outcome.IMPROVED, 5)


def test_a_wider_budget_of_the_policy_reaches_the_judge() -> None:
    series = Candidate(*map(slower, (4.0, 4.1, 3.9)))
    assert (
        check(expect(records.baseline()), Policy(), series).verdict.outcome is Outcome.INCONCLUSIVE
    )
    assert (
        check(
            expect(records.baseline()), Policy(budgets={Metric.STEP_MS: 0.2}), series
        ).verdict.outcome
        is Outcome.PASSED
    )


# When there is a duet, and what comes of it


def test_what_the_screen_passes_needs_no_duet() -> None:
    other = duel(0, 0)
    assert outcome_of(gated(screen(0.0), other)) == (Outcome.PASSED, Stage.SCREEN, 5, 0)
    assert not other.opened


def test_a_screen_fails_nobody_however_slow_its_runs_are() -> None:
    assert outcome_of(gated(screen(8.0), duel(8.0, 8.0))) == (Outcome.PASSED, Stage.DUET, 6, 3)


def test_a_loss_is_shown_by_a_duet() -> None:
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
    (caveat,) = checked.verdict.caveats
    assert "2.5 % longer" in caveat
    assert not gated(screen(1.5), duel(1.5, 1.5)).verdict.caveats


def test_a_duet_that_stays_in_doubt_looks_after_3_5_8_and_12_pairs() -> None:
    jumpy = [
        slower(percent)
        for percent in (0.0, 5.0, -4.0, 3.0, -5.0, 4.0, -3.0, 2.0, 1.0, -2.0, 5.0, -1.0)
    ]
    other = RecordedDuel(jumpy, jumpy[::-1])
    assert outcome_of(gated(screen(2.5), other)) == (Outcome.INCONCLUSIVE, Stage.DUET, 15, 12)
    assert [planned for _, planned in other.asked] == [3] * 3 + [5] * 2 + [8] * 3 + [12] * 4


def test_without_a_duet_the_looks_against_the_stored_baseline_go_on() -> None:
    assert outcome_of(gated(screen(0.9), None)) == (Outcome.INCONCLUSIVE, Stage.STORED, 10, 0)


def test_a_varying_count_that_the_screen_leaves_open_goes_on_to_a_duet() -> None:
    other = RecordedDuel(copying(*COPIED), copying(1008, 992, 1001))
    checked = gated(Candidate(*copying(1011, 1012, 1013)), other, baseline=copied())
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 6, 3)
    more = RecordedDuel(copying(*COPIED), copying(1030, 1032, 1028, 1031, 1029))
    checked = gated(Candidate(*copying(1030, 1032, 1028)), more, baseline=copied())
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 8, 5)
    alone = check(expect(copied()), Policy(), Candidate(*copying(1030, 1032, 1028, 1031, 1029)))
    assert outcome_of(alone) == (Outcome.REGRESSED, Stage.STORED, 5, 0)


# Straight to the duet


def test_another_gpu_of_the_model_goes_to_the_screen() -> None:
    elsewhere = records.machine().model_copy(
        update={"gpus": (Gpu(name="NVIDIA H200", uuid="GPU-9"),)}
    )
    checked = check(
        expect(FULL, on=elsewhere), Policy(), Candidate(slower(0), on=elsewhere), duel(0, 0)
    )
    assert outcome_of(checked) == (Outcome.PASSED, Stage.SCREEN, 5, 0)


@pytest.mark.parametrize(("asked", "pairs"), [(1, 3), (4, 4), (20, 12)])
def test_where_runs_were_asked_for_a_duet_makes_so_many_which_a_bless_takes(
    asked: int, pairs: int
) -> None:
    updated = records.machine(driver="570.86.10")
    policy = Policy(runs=asked, stops_early=False)
    prepared = duel(0, 0)
    checked = check(expect(FULL, on=updated), policy, Candidate(slower(0), on=updated), prepared)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, pairs, pairs)
    assert {planned for _, planned in prepared.asked} == {pairs}


def test_runs_that_were_asked_for_and_made_before_the_duet_need_no_further_pairs() -> None:
    policy = Policy(runs=5, stops_early=False)
    checked = check(
        expect(FULL),
        policy,
        Candidate(*(slower(0, n, clock_mhz=1755) for n in range(5))),
        duel(0, 0),
    )
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 8, 3)


def test_another_driver_goes_straight_to_the_duet() -> None:
    updated = records.machine(driver="570.86.10")
    checked = check(
        expect(FULL, on=updated), Policy(), Candidate(slower(0), on=updated), duel(0, 0)
    )
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 3, 3)
    assert (
        "Straight to the duet: the baseline was measured with driver 550.54.15, this is driver 570.86.10"
        in checked.verdict.remarks
    )


def test_what_a_screen_says_at_another_sm_clock_is_not_believed() -> None:
    series = Candidate(*(slower(0, number, clock_mhz=1755) for number in range(5)))
    checked = gated(series, duel(0, 0))
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 8, 3)
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


def test_on_another_driver_a_loop_that_is_known_to_be_noisy_is_interleaved() -> None:
    updated = records.machine(driver="570.86.10")
    alternate, interleaved = duel(0, 0), RecordedDuel(moody(0), moody(0, wobble=2))
    series = Candidate(*moody(0), on=updated)
    checked = check(
        expect(noisy_baseline(), on=updated), Policy(), series, alternate, interleaved=interleaved
    )
    assert (alternate.opened, checked.verdict.stage) == (False, Stage.INTERLEAVED)


def test_runs_that_were_asked_for_are_made_before_a_noisy_loop_is_interleaved() -> None:
    interleaved = RecordedDuel(moody(0.0), moody(0.0, wobble=2))
    policy = Policy(runs=5, stops_early=False)
    checked = check(
        expect(noisy_baseline()),
        policy,
        Candidate(*moody(2.5)),
        duel(0, 0),
        interleaved=interleaved,
    )
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 6, 3)


# Where the other commit cannot be run


@pytest.mark.parametrize("error", [RevisionMissing, WorktreeFailed, CodeUnproven])
def test_a_duet_that_cannot_be_had_is_a_sentence_and_the_stored_looks_go_on(
    error: type[PerfgateError],
) -> None:
    opening = error(
        subject="commit 0123456789ab", fact="it is not here", next_step="git fetch --unshallow"
    )
    checked = gated(screen(1.5), RecordedDuel([], [], opening=opening))
    assert outcome_of(checked) == (Outcome.INCONCLUSIVE, Stage.STORED, 10, 0)
    assert (
        "No A/B run: commit 0123456789ab: it is not here.\ngit fetch --unshallow"
        in checked.verdict.caveats
    )
    assert checked.verdict.next_step == "git fetch --unshallow"


def test_a_workload_that_fails_in_the_other_commit_is_no_failure_of_the_candidate() -> None:
    failing = WorktreeFailed(
        subject="mlp at 0123456789ab", fact="it does not run there", next_step="See the log."
    )
    other = RecordedDuel([slower(0), failing], [slower(2.5)])
    checked = gated(screen(2.5), other)
    assert checked.verdict.stage is Stage.STORED
    assert checked.reference_runs == ()
    assert any(
        remark.startswith("No A/B run: mlp at 0123456789ab: it does not run there")
        for remark in checked.verdict.caveats
    )


def test_a_candidate_that_fails_in_a_duet_is_not_measured() -> None:
    failing = WorkloadFailed(subject="mlp", fact="it raised RuntimeError", next_step="See the log.")
    checked = gated(screen(2.5), RecordedDuel([slower(0)], [slower(2.5), failing]))
    assert (checked.verdict.outcome, checked.verdict.reason) == (
        Outcome.NOT_MEASURED,
        "it raised RuntimeError.",
    )


def test_what_cannot_be_interleaved_is_run_alternately() -> None:
    failing = WorktreeFailed(
        subject="mlp at 0123456789ab", fact="out of memory", next_step="See the log."
    )
    other = RecordedDuel([slower(0)], [slower(0)])
    checked = check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(*moody(2.5)),
        other,
        interleaved=RecordedDuel([failing], [slower(0)]),
    )
    assert checked.verdict.stage is Stage.DUET
    assert (
        "No interleaved duet: mlp at 0123456789ab: out of memory.\nSee the log."
        in checked.verdict.remarks
    )


def test_a_candidate_that_ran_alone_and_does_not_stand_interleaving_is_run_alternately() -> None:
    failing = WorkloadFailed(
        subject="mlp", fact="it raised StopIteration", next_step="See the log."
    )
    checked = check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(*moody(2.5)),
        RecordedDuel([slower(0)], [slower(0)]),
        interleaved=RecordedDuel([slower(0)], [failing]),
    )
    assert checked.verdict.stage is Stage.DUET
    assert (
        "No interleaved duet: mlp: it raised StopIteration.\nSee the log."
        in checked.verdict.remarks
    )


def test_a_form_of_the_duet_that_came_to_nothing_leaves_nothing_to_the_next() -> None:
    failing = WorktreeFailed(
        subject="mlp at 0123456789ab", fact="out of memory", next_step="See the log."
    )
    interleaved = RecordedDuel([slower(0), slower(0), failing], [slower(50)])
    other = RecordedDuel([slower(0)], [slower(0)])
    checked = check(
        expect(noisy_baseline()), Policy(), Candidate(*moody(2.5)), other, interleaved=interleaved
    )
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 7, 3)
    assert checked.interleaved_runs == ()
    interleaved = RecordedDuel([slower(0), slower(0), failing], [slower(50)])
    stored = check(
        expect(noisy_baseline()), Policy(), Candidate(*moody(0)), None, interleaved=interleaved
    )
    assert outcome_of(stored) == (Outcome.INCONCLUSIVE, Stage.STORED, 10, 0)
    assert stored.interleaved_runs == ()


# Against another commit


def test_against_a_commit_no_baseline_is_needed() -> None:
    checked = check(expect(None), Policy(), screen(0.0), duel(0.0, 0.0), against=True)
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 3, 3)
    assert checked.verdict.duet is not None
    assert checked.verdict.duet.screen_runs == 0


def test_a_workload_that_the_other_commit_lacks_has_no_baseline_there() -> None:
    gone = RevisionMissing(
        subject="mlp",
        fact="it did not exist at 0123456789ab",
        next_step="Compare with a later commit.",
    )
    checked = check(
        expect(None), Policy(), screen(0.0), RecordedDuel([gone], [slower(0)]), against=True
    )
    assert (checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step) == (
        Outcome.NO_BASELINE,
        "it did not exist at 0123456789ab.",
        "Compare with a later commit.",
    )
    assert len(checked.runs) == 5


def test_a_commit_that_cannot_be_checked_out_leaves_nothing_to_compare_with() -> None:
    opening = WorktreeFailed(
        subject="commit 0123456789ab", fact="the disk is full", next_step="Free some space."
    )
    checked = check(
        expect(None), Policy(), screen(0.0), RecordedDuel([], [], opening=opening), against=True
    )
    assert (checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step) == (
        Outcome.NOT_MEASURED,
        "commit 0123456789ab: the disk is full.",
        "Free some space.",
    )


def test_against_a_commit_a_loop_that_is_known_to_be_noisy_is_interleaved() -> None:
    pair = Pair(reference=slower(0), candidate=slower(1))
    alternate, interleaved = (
        duel(0, 0),
        RecordedDuel(moody(-15.0), moody(-12.0, wobble=2), alone=pair),
    )
    expected = expect(noisy_baseline())
    checked = check(
        expected, Policy(), Candidate(), alternate, interleaved=interleaved, against=True
    )
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.INTERLEAVED, 1, 3)
    assert not alternate.opened
    assert gate.forecast(
        expected, Policy(), run_s=10.0, duet=True, interleaved=True, against="HEAD"
    ) == (
        "1 pair (about 20 s) and 3 interleaved pairs (about 60 s) with HEAD",
        "if that does not do, up to 12 interleaved pairs (about 240 s)",
    )
    quiet = RecordedDuel(moody(0.0), moody(0.0), alone=pair)
    assert (
        check(
            expect(FULL), Policy(), Candidate(), alternate, interleaved=quiet, against=True
        ).verdict.stage
        is Stage.DUET
    )


def test_against_a_commit_what_is_not_judged_on_one_core_is_run_alternately() -> None:
    pair = Pair(reference=slower(0), candidate=slower(1), cores=(1.9, 1.9))
    interleaved = RecordedDuel(moody(90.0), moody(90.0, wobble=2), alone=pair)
    checked = check(
        expect(noisy_baseline()),
        Policy(),
        Candidate(),
        duel(0, 90),
        interleaved=interleaved,
        against=True,
    )
    assert (checked.verdict.outcome, checked.verdict.stage) == (Outcome.REGRESSED, Stage.DUET)
    assert checked.verdict.remarks[0].startswith(
        "No interleaved duet: a step of the other commit takes 23.45 ms"
    )
