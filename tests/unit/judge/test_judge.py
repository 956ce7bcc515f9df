"""From runs to a verdict: stages, order of outcomes, whole messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from scipy.stats import norm
from support.judging import MOMENT, Columns, blessed, measured

from perfgate.judge.creep import creep
from perfgate.judge.judge import Judgement, judge
from perfgate.judge.rows import Terms
from perfgate.judge.stages import DUET_PLAN, INTERLEAVED_PLAN, SCREEN_PLAN, Plan
from perfgate.model.baseline import BlessedRun, Occasion, Spread
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, ProcessSample, Run

M = Metric
JITTER = [1.0, 1.002, 0.998, 1.001, 0.999] * 2
BASE: Columns = {
    M.STEP_MS: [10.0 * j for j in JITTER],
    M.KERNEL_MS: [8.0 + 0.1 * (10 * j - 10) for j in JITTER],
    M.GAP_MS: list(JITTER),
    M.SYNCS: [1.0] * 10,
}
BASELINE = blessed(BASE, occasions=5)


def columns(
    runs: int = 3,
    *,
    step: float = 1.0,
    kernel: float = 1.0,
    gap: float = 0.0,
    syncs: Sequence[float] | None = None,
) -> Columns:
    return {
        M.STEP_MS: [10.0 * step * j for j in JITTER[:runs]],
        M.KERNEL_MS: [8.0 * kernel] * runs,
        M.GAP_MS: [1.0 + gap] * runs,
        M.SYNCS: syncs or [1.0] * runs,
    }


def judged(now: Columns, *, max_runs: int = 10) -> Judgement:
    return judge(BASELINE, measured(now), Terms(max_runs=max_runs))


def told(judgement: Judgement) -> tuple[Outcome, int, str, str]:
    verdict = judgement.verdict
    return verdict.outcome, judgement.wanted_runs, verdict.reason, verdict.next_step


ACCEPT = (
    "If this is meant, gate with --perfgate-runs=5 (what a baseline needs) and bless it: "
    'perfgate bless matmul --reason "..." --accept-regression'
)
BLESS = 'perfgate bless matmul --reason "..."'
HOLD = f"To hold the gain, gate with --perfgate-runs=5 (what a baseline needs) and bless it: {BLESS}"
NEITHER = "neither shown to be within it nor beyond it"
AGAIN = (
    "Gate the code that was blessed again: if it moved too, it was the machine. Then delete the baseline's file, "
    f"gate once more and bless anew: {BLESS}"
)
FULLER = (
    "Bless a fuller baseline of its code (this one has 5 runs; 10 are wanted): delete its file, "
    f"gate that code twice, and bless: {BLESS}"
)


@pytest.mark.parametrize(
    ("plan", "budgets", "expected"),
    [
        (SCREEN_PLAN, {}, 0.01),
        (SCREEN_PLAN, {M.STEP_MS: 0.05}, 0.01),
        (INTERLEAVED_PLAN, {}, 0.02),
        (INTERLEAVED_PLAN, {M.STEP_MS: 0.05}, 0.05),
        (INTERLEAVED_PLAN, {M.STEP_MS: 0.005}, 0.01),
        (INTERLEAVED_PLAN, {M.GAP_MS: 0.003}, 0.003),
    ],
)
def test_in_turns_idle_time_is_held_to_no_less_than_the_step(
    plan: Plan, budgets: dict[Metric, float], expected: float
) -> None:
    judgement = judge(
        blessed({m: v[:3] for m, v in BASE.items()}), measured(columns()), Terms(plan=plan, budgets=budgets)
    )
    row = judgement.verdict.of(M.GAP_MS)
    assert row is not None
    assert row.budget == expected


def test_a_difference_that_two_modes_may_have_made_is_told_as_that() -> None:
    there = {M.STEP_MS: [5.30, 5.31, 5.29, 5.30, 5.32, 5.28, 5.30, 8.21]}
    here = {M.STEP_MS: [8.20, 8.21, 8.19, 8.20, 8.22, 8.18, 5.31, 5.30]}
    outcome, wanted, reason, next_step = told(judge(blessed(there), measured(here), Terms(plan=DUET_PLAN, max_runs=8)))
    assert (outcome, wanted) == (Outcome.INCONCLUSIVE, 8)
    assert reason == (
        "step_ms +54.7 %, budget 2 %; yet runs of one side lie far apart, as where a workload has "
        "two modes, or its machine two speeds, and one of them was met more often by chance."
    )
    assert next_step == ("Gate again. If it stays so, steady the workload or its machine: what do its slow runs share?")


@pytest.mark.parametrize("runs", [1, 2, 3, 10])
def test_unchanged_runs_pass_at_any_number_of_runs(runs: int) -> None:
    noun = "run" if runs == 1 else "runs"
    reason = f"Within budget: 3 clocks and 1 count, {runs} {noun} against 10 blessed."
    assert told(judged(columns(runs))) == (Outcome.PASSED, runs, reason, "")
    assert judged(columns(runs)).settled


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (columns(kernel=1.031), "+3.1 % kernel_ms (8.000 to 8.248 ms); step_ms unchanged (10.000 ms)."),
        (columns(gap=0.41), "+4.1 pp gap_ms (1.000 to 1.410 ms); step_ms unchanged (10.000 ms)."),
        (columns(syncs=[2.0] * 3), "syncs 1 to 2; step_ms unchanged (10.000 ms)."),
        (columns(2, syncs=[2.0] * 2), "syncs 1 to 2; +0.10 % step_ms (10.000 to 10.01 ms)."),
        (
            columns(step=1.05, kernel=1.06, gap=0.5),
            "+5.0 % step_ms (10.000 to 10.50 ms): gap_ms 1.000 to 1.500 ms. Also regressed: kernel_ms.",
        ),
        (
            columns(step=1.5, syncs=[2.0] * 3),
            "+50.0 % step_ms (10.000 to 15.00 ms): syncs 1 to 2.",
        ),
    ],
)
def test_a_loss_says_what_the_step_lost_and_the_worst_cause_counts_first(now: Columns, reason: str) -> None:
    runs = len(now[M.STEP_MS])
    assert told(judged(now)) == (Outcome.REGRESSED, runs, reason, ACCEPT)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (columns(step=0.95), "-5.0 % step_ms (10.000 to 9.500 ms)."),
        (columns(syncs=[0.0] * 3), "syncs 1 to 0; step_ms unchanged (10.000 ms)."),
        (
            columns(kernel=0.9, syncs=[0.0] * 3),
            "syncs 1 to 0; step_ms unchanged (10.000 ms). Also improved: kernel_ms.",
        ),
    ],
)
def test_a_gain_says_which_bless_would_record_it(now: Columns, reason: str) -> None:
    assert told(judged(now)) == (Outcome.IMPROVED, 3, reason, HOLD)


@pytest.mark.parametrize(("runs", "wanted"), [(1, 3), (2, 3), (3, 5), (4, 5), (5, 8), (8, 10)])
def test_what_is_not_settled_goes_on_to_the_next_look(runs: int, wanted: int) -> None:
    judgement = judged(columns(runs, step=1.015))
    assert (judgement.verdict.outcome, judgement.wanted_runs) == (Outcome.INCONCLUSIVE, wanted)
    assert not judgement.settled


def test_what_is_not_settled_says_so() -> None:
    assert told(judged(columns(step=1.016))) == (
        Outcome.INCONCLUSIVE,
        5,
        "Not settled by 3 runs: step_ms +1.6 % [-0.2, +2.7], budget 2 %.",
        "Measure up to 5 runs and judge again.",
    )


def test_one_run_never_fails_on_a_clock_however_slow() -> None:
    assert told(judged(columns(1, step=2.0))) == (
        Outcome.INCONCLUSIVE,
        3,
        "Not settled by 1 run: step_ms +100 % [+96, +102], budget 2 %.",
        "Measure up to 3 runs and judge again.",
    )
    assert told(judged(columns(2, step=2.0), max_runs=2)) == (
        Outcome.INCONCLUSIVE,
        2,
        "step_ms +100 % [+97, +102], budget 2 %: 2 runs can pass a clock, never fail it.",
        "Allow at least 3 runs: pytest --perfgate --perfgate-max-runs=3",
    )


def test_a_rise_of_a_count_is_confirmed_by_a_second_run_before_the_clocks_go_on() -> None:
    assert told(judged(columns(1, step=2.0, syncs=[2.0]))) == (
        Outcome.INCONCLUSIVE,
        2,
        "Not settled by 1 run: syncs rose from 1 to 2 per step (exact), to be confirmed by a second run.",
        "Measure up to 2 runs and judge again.",
    )
    assert judged(columns(2, step=2.0, syncs=[2.0, 2.0])).verdict.outcome is Outcome.REGRESSED
    assert judged(columns(1, syncs=[2.0]), max_runs=1).verdict.outcome is Outcome.REGRESSED


def test_an_unconfirmed_rise_is_remarked_on_and_the_looks_go_on() -> None:
    judgement = judged(columns(2, syncs=[2.0, 1.0]))
    assert told(judgement)[:2] == (Outcome.PASSED, 2)
    assert judgement.verdict.remarks == ("syncs rose from 1 to 2 per step (exact) in 1 of 2 runs, not confirmed",)
    assert told(judged(columns(2, step=1.05, syncs=[2.0, 1.0])))[:2] == (Outcome.INCONCLUSIVE, 3)


def test_a_loss_comes_before_what_is_missing_and_that_before_what_is_unsettled() -> None:
    lost = {**columns(step=1.016, syncs=[2.0] * 3), M.GAP_MS: [None] * 3}
    assert judged(lost).verdict.outcome is Outcome.REGRESSED
    assert told(judged({**columns(step=1.016), M.GAP_MS: [None] * 3}))[:2] == (Outcome.NOT_MEASURED, 3)
    assert told(judged(columns(step=1.016, syncs=[0.0] * 3)))[:2] == (Outcome.INCONCLUSIVE, 5)


def test_a_metric_that_runs_lack_is_not_measured_with_the_runs_own_reason() -> None:
    now = {**columns(), M.GAP_MS: [1.0, None, 1.0]}
    judgement = judge(BASELINE, measured(now, absent={M.GAP_MS: "no GPU operation"}), Terms())
    assert told(judgement) == (
        Outcome.NOT_MEASURED,
        3,
        "Not all that the baseline gates could be judged: gap_ms (not measured in 1 of 3 runs: no GPU operation).",
        (
            "See the runs' captures and logs for the cause. If this is meant, delete the baseline's file, gate once "
            f"more and bless anew: {BLESS}"
        ),
    )
    row = judgement.verdict.of(M.GAP_MS)
    assert row is not None
    assert (row.outcome, row.baseline, row.now) == (Outcome.NOT_MEASURED, 1.0, None)


def test_only_three_missing_metrics_are_told() -> None:
    assert judged({M.NCCL_MS: [1.0] * 3}).verdict.reason == (
        "Not all that the baseline gates could be judged: step_ms, kernel_ms and gap_ms (not measured in 3 of 3 runs) "
        "and 1 more."
    )


def test_of_too_few_steps_on_both_sides_it_is_told_how_many_there_were_and_how_many_it_takes() -> None:
    then: Columns = {M.KERNEL_MS: [8.0] * 10, M.H2D_MS: [1.0] * 10, M.H2D_EXPOSED_MS: [1.0] * 10}
    now: Columns = {metric: values[:3] for metric, values in then.items()}
    why = "needs 3 steps, the capture holds 2"
    judgement = judge(blessed(then, occasions=5), measured(now, absent={M.STEP_MS: why, M.GAP_MS: why}), Terms())
    assert told(judgement)[0] is Outcome.NOT_MEASURED
    assert judgement.verdict.reason == (
        "Not all that the baseline gates could be judged: h2d_ms and h2d_exposed_ms (neither side holds a step time to "
        "measure it against: needs 3 steps, the capture holds 2)."
    )


def test_a_run_without_processes_measures_nothing() -> None:
    empty = Run(started_at=MOMENT, wall_s=1.0, processes=())
    assert judge(BASELINE, [empty], Terms()).verdict.outcome is Outcome.NOT_MEASURED


def test_no_run_is_not_a_pass() -> None:
    assert told(judge(BASELINE, [], Terms())) == (
        Outcome.NOT_MEASURED,
        0,
        "There is no run to judge.",
        "Measure again: pytest --perfgate",
    )


def test_a_baseline_without_gated_metrics_is_not_a_pass() -> None:
    shown_only = blessed({M.NCCL_MS: [1.0]})
    assert told(judge(shown_only, measured({**columns(), M.NCCL_MS: [1.0] * 3}), Terms())) == (
        Outcome.NOT_MEASURED,
        3,
        "The baseline holds no metric that is gated.",
        'Delete its file, gate once more and bless one that does: perfgate bless matmul --reason "..."',
    )


def test_a_baseline_of_counts_alone_is_judged_by_counts_alone() -> None:
    assert told(judge(blessed({M.SYNCS: [1.0]}), measured({M.SYNCS: [1.0] * 3}), Terms())) == (
        Outcome.PASSED,
        3,
        "Within budget: 1 count, 3 runs against 1 blessed.",
        "",
    )


def test_what_is_new_or_has_no_budget_is_shown_and_shuts_nothing() -> None:
    before = blessed({M.STEP_MS: [10.0, 10.0], M.NCCL_MS: [1.0, 1.0], M.SYNCS: [1.0, None]})
    now = {
        M.STEP_MS: [10.0] * 3,
        M.KERNEL_MS: [8.0] * 3,
        M.NCCL_MS: [3.0] * 3,
        M.SYNCS: [5.0] * 3,
    }
    verdict = judge(before, measured(now), Terms(budgets={M.NCCL_MS: 0.01})).verdict
    assert verdict.outcome is Outcome.PASSED
    assert [
        (row.metric, row.outcome, row.baseline, row.now, row.change, row.reason)
        for row in verdict.metrics
        if row.outcome is None
    ] == [
        (M.KERNEL_MS, None, None, 8.0, None, "new, not gated: bless to gate it"),
        (M.NCCL_MS, None, 1.0, 3.0, 2.0, "shown, not gated"),
        (M.SYNCS, None, None, 5.0, None, "in 1 of 2 baseline runs only, not gated: bless to gate it"),
    ]


def test_nccls_clocks_are_zero_where_none_of_its_kernels_ran() -> None:
    before = blessed({M.STEP_MS: [10.0] * 5, M.NCCL_EXPOSED_MS: [1.0] * 5})

    def outcome(why: str) -> Outcome | None:
        runs = measured({M.STEP_MS: [9.0] * 5})
        absent = {M.NCCL_EXPOSED_MS: why}
        told = [
            run.model_copy(update={"processes": tuple(p.model_copy(update={"absent": absent}) for p in run.processes)})
            for run in runs
        ]
        row = judge(before, told, Terms()).verdict.of(M.NCCL_EXPOSED_MS)
        assert row is not None
        return row.outcome

    assert outcome(NO_NCCL) is Outcome.IMPROVED
    assert outcome(f"{NO_NCCL} outside the CUDA graphs, which were traced whole") is Outcome.NOT_MEASURED


def test_what_is_shown_only_may_be_new_or_missing() -> None:
    step = {M.STEP_MS: [10.0]}
    new = judge(blessed(step), measured(step | {M.NCCL_MS: [1.0]}), Terms()).verdict.of(M.NCCL_MS)
    gone = judge(blessed(step | {M.NCCL_MS: [1.0]}), measured(step), Terms()).verdict.of(M.NCCL_MS)
    partly = judge(blessed({M.STEP_MS: [10.0, 10.0], M.NCCL_MS: [1.0, None]}), measured(step), Terms()).verdict.of(
        M.NCCL_MS
    )
    assert new is not None
    assert gone is not None
    assert partly is not None
    assert (new.now, new.reason) == (1.0, "new; shown, not gated")
    assert (gone.now, gone.reason) == (None, "not measured in 1 of 1 run")
    assert (partly.now, partly.reason) == (None, "in 1 of 2 baseline runs only; shown, not gated")


def test_budgets_override_the_defaults() -> None:
    runs = measured(columns(step=1.05))
    assert judge(BASELINE, runs, Terms()).verdict.outcome is Outcome.REGRESSED
    assert judge(BASELINE, runs, Terms(budgets={M.STEP_MS: 0.08})).verdict.outcome is Outcome.PASSED


@pytest.mark.parametrize("budget", [-0.01, float("nan"), float("inf")])
def test_a_budget_that_is_none_is_refused(budget: float) -> None:
    with pytest.raises(ValueError, match=rf"^budget of step_ms is {budget}, expected a fraction of at least 0$"):
        judge(BASELINE, measured(columns()), Terms(budgets={M.STEP_MS: budget}))


def test_a_calibrated_baseline_is_judged_by_its_own_spread() -> None:
    spread = Spread(run_sd=0.05, occasion_sd=0.03, runs=20, at=MOMENT)
    calibrated = blessed(BASE, occasions=5, calibration={M.STEP_MS: spread})
    runs = measured(columns(step=1.05))
    assert judge(calibrated, runs, Terms()).verdict.outcome is Outcome.INCONCLUSIVE


def test_alpha_is_shared_by_the_clocks_that_the_baseline_has() -> None:
    alone = judge(blessed({M.STEP_MS: [10.0] * 10}), measured({M.STEP_MS: [10.0] * 3}), Terms()).verdict.metrics[0]
    shared = judge(
        blessed({M.STEP_MS: [10.0] * 10, M.GAP_MS: [1.0] * 10}),
        measured({M.STEP_MS: [10.0] * 3, M.GAP_MS: [1.0] * 3}),
        Terms(),
    ).verdict.metrics[0]
    assert alone.smallest is not None
    assert shared.smallest is not None
    assert alone.smallest < shared.smallest


def test_the_slowest_process_of_a_run_is_judged() -> None:
    ranks = tuple(
        ProcessSample(pid=rank, rank=rank, steps=30, values={M.STEP_MS: ms}, window_ms=300.0)
        for rank, ms in enumerate((10.0, 12.0))
    )
    runs = [Run(started_at=MOMENT, wall_s=1.0, processes=ranks)] * 3
    verdict = judge(blessed({M.STEP_MS: [10.0] * 10}), runs, Terms()).verdict
    assert verdict.outcome is Outcome.REGRESSED


def of_ranks(*syncs: float) -> Run:
    ranks = tuple(
        ProcessSample(pid=rank, rank=rank, steps=30, values={M.STEP_MS: 10.0, M.SYNCS: made}, window_ms=300.0)
        for rank, made in enumerate(syncs)
    )
    return Run(started_at=MOMENT, wall_s=1.0, processes=ranks)


@pytest.mark.parametrize(
    ("now", "outcome", "reason"),
    [
        ((1.0, 0.0, 0.0), Outcome.PASSED, "unchanged (exact)"),
        ((0.0, 0.0, 1.0), Outcome.PASSED, "unchanged (exact)"),
        ((2.0, 0.0, 0.0), Outcome.REGRESSED, "rose from 1 to 2 per step (exact)"),
        (
            (1.0, 0.0, 1.0),
            Outcome.REGRESSED,
            "rose from 0 to 1 per step (exact), in a process that had less of it than the most of the 3",
        ),
        (
            (1.0, 1.0, 1.0),
            Outcome.REGRESSED,
            "rose from 0 to 1 per step (exact), in a process that had less of it than the most of the 3",
        ),
        ((0.0, 0.0, 0.0), Outcome.IMPROVED, "fell from 1 to 0 per step (exact)"),
    ],
)
def test_a_slip_that_one_rank_always_made_is_a_rise_where_others_make_it_too(
    now: tuple[float, ...], outcome: Outcome, reason: str
) -> None:
    occasion = Occasion(measured_at=MOMENT, runs=tuple(BlessedRun.of(of_ranks(1.0, 0.0, 0.0)) for _ in range(5)))
    baseline = BASELINE.model_copy(update={"occasions": (occasion,)})
    row = judge(baseline, [of_ranks(*now)] * 3, Terms()).verdict.of(M.SYNCS)
    assert row is not None
    assert (row.outcome, row.reason) == (outcome, reason)
    # A second run must confirm a rise.
    assert (judge(baseline, [of_ranks(*now)], Terms()).wanted_runs == 2) == (outcome is Outcome.REGRESSED)


def test_a_baseline_that_does_not_have_each_ranks_counts_is_judged_by_the_most() -> None:
    occasion = Occasion(measured_at=MOMENT, runs=(BlessedRun(values={M.STEP_MS: 10.0, M.SYNCS: 1.0}),) * 5)
    baseline = BASELINE.model_copy(update={"occasions": (occasion,)})
    row = judge(baseline, [of_ranks(1.0, 1.0, 1.0)] * 3, Terms()).verdict.of(M.SYNCS)
    assert row is not None
    assert row.outcome is Outcome.PASSED


def test_a_varying_count_of_one_rank_does_not_hide_an_exact_one_of_another() -> None:
    then = tuple(BlessedRun.of(of_ranks(4.0 + n % 2, 0.0)) for n in range(5))
    baseline = BASELINE.model_copy(update={"occasions": (Occasion(measured_at=MOMENT, runs=then),)})
    row = judge(baseline, [of_ranks(6.0, 1.0)] * 3, Terms()).verdict.of(M.SYNCS)
    assert row is not None
    told = "rose from 0 to 1 per step (exact), in a process that had less of it than the most of the 2"
    assert (row.outcome, row.reason) == (Outcome.REGRESSED, told)


VARYING: Columns = {**BASE, M.SYNCS: [4.0, 5.0] * 5}


def test_what_a_varying_count_leaves_open_more_runs_settle() -> None:
    few = blessed({metric: values[:5] for metric, values in VARYING.items()})
    rise = (
        "syncs rose from 5 to 6 per step (not exact: 4 to 5 in the baseline) in 3 of 3 runs, "
        "as chance alone has it in 1.8 % of gates"
    )
    now = measured(columns(syncs=[6.0] * 3))
    assert told(judge(few, now, Terms())) == (
        Outcome.INCONCLUSIVE,
        5,
        f"Not settled by 3 runs: {rise}.",
        "Measure up to 5 runs and judge again.",
    )
    assert told(judge(few, now, Terms(max_runs=3))) == (
        Outcome.INCONCLUSIVE,
        3,
        f"{rise}.",
        "Allow 5 runs: pytest --perfgate --perfgate-max-runs=5",
    )
    assert told(judge(few, measured(columns(5, syncs=[6.0] * 5)), Terms()))[0] is Outcome.REGRESSED
    assert told(judge(few, measured(columns(5, syncs=[6.0] * 4 + [5.0])), Terms()))[:2] == (Outcome.PASSED, 5)
    assert told(judge(blessed(VARYING), now, Terms()))[0] is Outcome.REGRESSED


def test_what_no_number_of_runs_of_one_gate_can_show_of_a_varying_count_is_said() -> None:
    one = blessed({metric: values[:2] for metric, values in VARYING.items()})
    verdict = judge(one, measured(columns(10, syncs=[6.0] * 10)), Terms()).verdict
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.next_step == "Fix what makes it vary from run to run: seeds, shapes, batch lengths."


@pytest.mark.parametrize(
    ("there", "here", "stored", "exact"),
    [
        ([1.0, 1.0], [3.0, 3.0], None, False),
        ([1.0, 1.0, 1.0], [3.0, 3.0, 3.0], None, True),
        ([1.0, 1.0, 1.0], [3.0, 3.0, 4.0], None, False),
        ([1.0, 1.0], [3.0, 4.0], [1.0] * 5, True),
        ([1.0, 1.0, 1.0], [3.0, 3.0, 3.0], [1.0, 1.0, 2.0, 1.0, 1.0], False),
        ([1.0, 1.0, 2.0], [3.0, 3.0, 3.0], [1.0] * 5, False),
        ([1.0, 1.0, 1.0], [3.0, 3.0, 3.0], [None] * 5, True),
    ],
)
def test_in_a_duet_a_count_is_exact_by_what_is_blessed_or_by_three_runs(
    there: list[float], here: list[float], stored: list[float | None] | None, exact: bool
) -> None:
    def of(syncs: Sequence[float | None]) -> Columns:
        return {M.STEP_MS: [10.0] * len(syncs), M.SYNCS: syncs}

    terms = Terms(plan=DUET_PLAN, stored=None if stored is None else blessed(of(stored)))
    row = judge(blessed(of(there)), measured(of(here)), terms).verdict.of(M.SYNCS)
    assert row is not None
    assert row.exact is exact
    assert row.outcome is (Outcome.REGRESSED if exact else Outcome.INCONCLUSIVE)


def test_runs_and_drops_are_counted() -> None:
    verdict = judged({**columns(4), M.STEP_MS: [10.0, 13.0, 10.0, 10.01]}).verdict
    assert (verdict.runs, verdict.baseline_runs) == (4, 10)
    assert [(drop.side, drop.index, drop.metric) for drop in verdict.dropped] == [("candidate", 1, M.STEP_MS)]


# -- INCONCLUSIVE to the end: how small a change, how many runs more, what to do

SMALLEST = "The smallest loss that {} runs can show here is {} %."


def normal_ms(sd: float, runs: int, *, shift: float = 0.0) -> list[float]:
    """Quantiles of normal values, as far apart as that many are by chance."""
    return [10.0 * (1 + shift + sd * float(norm.ppf((run + 0.5) / runs))) for run in range(runs)]


def noisy_ms(spread: float, runs: int, shift: float = 0.0) -> list[float]:
    return [10.0 * (1 + shift + spread * (-1 if run % 2 else 1)) for run in range(runs)]


def test_more_runs_are_asked_for_where_they_would_show_it_within_budget() -> None:
    baseline = blessed({M.STEP_MS: noisy_ms(0.008, 10)}, occasions=5)
    now = {M.STEP_MS: noisy_ms(0.008, 4, shift=0.006)}
    reason = f"step_ms +0.6 % [-1.6, +2.1], budget 2 %: {NEITHER}. {SMALLEST.format(4, '2.2')}"
    assert told(judge(baseline, measured(now), Terms(max_runs=4))) == (
        Outcome.INCONCLUSIVE,
        4,
        f"{reason} About 3 runs more would settle it.",
        "Allow 7 runs: pytest --perfgate --perfgate-max-runs=7",
    )


def test_more_runs_are_asked_for_where_they_would_show_the_loss() -> None:
    baseline = blessed({M.STEP_MS: noisy_ms(0.008, 10)}, occasions=5)
    now = {M.STEP_MS: noisy_ms(0.008, 4, shift=0.02)}
    reason = f"step_ms +2.0 % [-0.2, +3.5], budget 2 %: {NEITHER}. {SMALLEST.format(4, '2.2')}"
    assert told(judge(baseline, measured(now), Terms(max_runs=4))) == (
        Outcome.INCONCLUSIVE,
        4,
        f"{reason} About 3 runs more would settle it.",
        "Allow 7 runs: pytest --perfgate --perfgate-max-runs=7",
    )


@pytest.mark.parametrize(
    ("before", "occasions", "now", "reason", "next_step"),
    [
        pytest.param(
            [10.0] * 10,
            1,
            [10.13] * 10,
            f"step_ms +1.3 % [-0.7, +2.7], budget 2 %: {NEITHER}. {SMALLEST.format(10, '2')}"
            " No number of runs would settle it: 99 % of its variance lies between occasions, of which the baseline"
            " spans 1.",
            AGAIN,
            id="one occasion",
        ),
        pytest.param(
            [10.0] * 10,
            5,
            [10.13] * 10,
            f"step_ms +1.3 % [-0.3, +2.4], budget 2 %: {NEITHER}. {SMALLEST.format(10, '1.6')}"
            " No number of runs would settle it: 98.4 % of its variance lies between occasions.",
            AGAIN,
            id="five occasions",
        ),
        pytest.param(
            [10.0] * 10,
            5,
            noisy_ms(0.006, 10, shift=0.0085),
            f"step_ms +0.8 % [-0.8, +2.0], budget 2 %: {NEITHER}. {SMALLEST.format(10, '1.7')}"
            " It would take about 14 runs, more than the 10 of one gate.",
            AGAIN,
            id="occasions and more runs than one gate has",
        ),
        pytest.param(
            noisy_ms(0.01, 5),
            5,
            noisy_ms(0.02, 10, shift=0.001),
            f"step_ms -0.1 % [-3.7, +2.3], budget 2 %: {NEITHER}. {SMALLEST.format(10, '3.7')}"
            " It would take about 31 runs, more than the 10 of one gate.",
            FULLER,
            id="more runs than one gate has",
        ),
    ],
)
def test_where_the_runs_of_one_gate_would_not_do_it_says_why_and_what_to_do(
    before: list[float], occasions: int, now: list[float], reason: str, next_step: str
) -> None:
    judgement = judge(blessed({M.STEP_MS: before}, occasions=occasions), measured({M.STEP_MS: now}), Terms())
    assert told(judgement) == (Outcome.INCONCLUSIVE, 10, reason, next_step)


@pytest.mark.parametrize(
    ("runs", "next_step"),
    [
        pytest.param(5, FULLER, id="few baseline runs"),
        pytest.param(
            10,
            "Its runs differ by 5.3 % (SD): steady the workload, or set a wider budget for step_ms.",
            id="a noisy workload",
        ),
    ],
)
def test_where_no_number_of_runs_would_do_it_says_what_to_do(runs: int, next_step: str) -> None:
    known = Spread(run_sd=0.05, occasion_sd=0.005, runs=20, occasions=5, at=MOMENT)
    baseline = blessed({M.STEP_MS: noisy_ms(0.05, runs)}, calibration={M.STEP_MS: known})
    verdict = judge(baseline, measured({M.STEP_MS: noisy_ms(0.05, 10)}), Terms()).verdict
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reason.endswith(" Not even 60 runs would settle it.")
    assert verdict.next_step == next_step


@pytest.mark.parametrize(("runs", "gated"), [(20, 10), (8, 7)])
def test_where_the_machine_has_become_noisier_it_says_so_and_blames_no_baseline(runs: int, gated: int) -> None:
    known = Spread(run_sd=0.002, occasion_sd=0.0, runs=20, occasions=5, at=MOMENT)
    baseline = blessed({M.STEP_MS: normal_ms(0.002, runs)}, calibration={M.STEP_MS: known})
    now = measured({M.STEP_MS: normal_ms(0.03, gated, shift=0.012)})
    verdict = judge(baseline, now, Terms(max_runs=gated)).verdict
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert re.search(r" Runs differ by (2.\d|3) % \(SD\), those of the baseline by 0.(19|2|18) %\.$", verdict.reason)
    assert verdict.next_step == (
        'Let a duet settle it (duet = "auto" in [tool.perfgate], and a baseline of a commit), or steady what has '
        "become noisier, the workload or "
        "its machine."
    )


def test_where_runs_differ_by_more_than_the_budget_stored_values_say_little() -> None:
    judgement = judge(blessed({M.STEP_MS: noisy_ms(0.05, 10)}), measured({M.STEP_MS: noisy_ms(0.05, 10)}), Terms())
    reason = (
        f"step_ms +0.0 % [-34.6, +34.5], budget 2 %: {NEITHER}. {SMALLEST.format(10, '52.8')} "
        "Runs differ by 5.3 % (SD), and occasions rather more: stored values say little."
    )
    assert told(judgement) == (
        Outcome.INCONCLUSIVE,
        10,
        reason,
        (
            'Let a duet settle it (duet = "auto" in [tool.perfgate], and a baseline of a commit), steady the workload, '
            "or set a wider budget for "
            "step_ms."
        ),
    )


def test_what_more_runs_cannot_settle_is_said_to_be_so() -> None:
    now = measured({**columns(10), M.KERNEL_MS: [8.0] * 9 + [0.0]})
    assert told(judge(BASELINE, now, Terms())) == (
        Outcome.INCONCLUSIVE,
        10,
        "kernel_ms not above 0 in 1 of 10 runs, which leaves no relative change to judge.",
        "More runs do not help while this lasts: see the runs' captures and logs for the cause.",
    )


# -- Remarks


@pytest.mark.parametrize(
    ("before", "now", "remarks"),
    [
        (1980.0, 1980.0, ()),
        (1980.0, 1975.0, ()),
        (1980.0, None, ()),
        (None, 1980.0, ()),
        (0.0, 1980.0, ()),
        (1980.0, 1755.0, ("the SM clock was 1980 MHz in the baseline and 1755 MHz now: kernel time follows it",)),
    ],
)
def test_another_sm_clock_is_remarked_on(before: float | None, now: float | None, remarks: tuple[str, ...]) -> None:
    baseline = blessed(BASE, occasions=5, sm_clock_mhz=before)
    assert judge(baseline, measured(columns(), sm_clock_mhz=now), Terms()).verdict.remarks == remarks


# -- Creep


def test_steps_too_far_from_the_anchor_to_be_compared_have_not_crept() -> None:
    baseline = blessed({M.STEP_MS: [1e308] * 3}, anchor_ms=1e-300)
    assert creep(baseline, [1e308] * 3, Terms(), anchor_budget=0.05) is None


def test_fewer_than_three_runs_have_not_crept() -> None:
    baseline = blessed({M.STEP_MS: [10.0] * 3}, anchor_ms=5.0)
    assert creep(baseline, [10.0] * 2, Terms(), anchor_budget=0.05) is None
    found = creep(baseline, [10.0] * 3, Terms(), anchor_budget=0.05)
    assert found is not None
    assert found.shown
    assert found.change == pytest.approx(1.0)


def test_a_budget_beyond_the_anchors_does_not_hide_a_creep() -> None:
    baseline = blessed({M.STEP_MS: [10.0] * 5}, anchor_ms=9.9)
    terms = Terms(budgets={M.STEP_MS: 0.2})
    shown = [found.shown for ms in (10.3, 11.0) if (found := creep(baseline, [ms] * 5, terms, anchor_budget=0.05))]
    assert shown == [False, True]


def test_medians_that_a_step_was_reckoned_by_are_in_its_distance_from_the_anchor() -> None:
    """Of 10 and of 3 runs: what is shown to be beyond the budget is not, where those may be off."""
    baseline = blessed({M.STEP_MS: [10.4 * (1 + 4 * (j - 1)) for j in JITTER]}, anchor_ms=10.0)
    found = [
        creep(baseline, [10.80, 10.66, 10.88], Terms(), anchor_budget=0.05, medians=of) for of in ((), (10,), (10, 3))
    ]
    assert [one.shown for one in found if one is not None] == [True, True, False]
    assert [round(100 * (one.high - one.low), 1) for one in found if one is not None] == [4.9, 5.2, 6.0]


def test_occasions_that_belie_what_is_believed_of_them_do_so_before_the_anchor_as_well() -> None:
    """As against the baseline itself: unchanged code whose occasions differ by 2 % met a fast one at its anchor."""
    apart = [10.0 * (1 + hour / 100) * j for j in JITTER[:2] for hour in (-2, 2, 0, 3, -1)]
    alike = [10.0 * j for j in JITTER[:2] for _ in range(5)]
    shown = [
        found.shown
        for steps in (alike, apart)
        if (
            found := creep(
                blessed({M.STEP_MS: steps}, occasions=5, anchor_ms=9.5), [10.4] * 5, Terms(), anchor_budget=0.05
            )
        )
    ]
    assert shown == [True, False]


def test_outliers_that_had_to_be_kept_do_not_become_the_prior_of_the_duet() -> None:
    """Four of thirteen runs are far off, and no more than two may be set aside."""
    before = [10.0 * j for j in JITTER]
    before[0], before[3], before[6] = 13.0, 14.0, 13.5
    found = judge(
        blessed({M.STEP_MS: before}, occasions=5),
        measured({M.STEP_MS: [10.0, 10.01, 14.0]}),
        Terms(plan=SCREEN_PLAN),
    )
    assert found.verdict.outcome is Outcome.INCONCLUSIVE
    assert found.priors[M.STEP_MS].sd < 0.02
    assert found.priors[M.STEP_MS].df == 4


def test_runs_that_differ_by_more_than_the_budget_belie_a_guess_of_what_occasions_differ_by() -> None:
    moods = [7.355, 6.332, 8.222, 7.311, 5.755]
    now = measured({M.STEP_MS: [5.414, 5.357, 5.159]})
    assert judge(blessed({M.STEP_MS: moods}), now, Terms()).verdict.outcome is Outcome.INCONCLUSIVE
    spread = Spread(run_sd=0.15, occasion_sd=0.001, runs=20, occasions=5, at=MOMENT)
    believed = blessed({M.STEP_MS: moods}, calibration={M.STEP_MS: spread})
    assert judge(believed, now, Terms()).verdict.outcome is Outcome.PASSED


def test_a_wider_budget_makes_no_host_steadier() -> None:
    # Runs differ by 3 %, and another hour made them 13 % slower; nothing was changed.
    now = measured({M.STEP_MS: [11.3 * by for by in (0.97, 1.0, 1.03, 0.98, 1.02)]})
    then = blessed({M.STEP_MS: [10 * by for by in (0.97, 1.0, 1.03, 0.98, 1.02)]})
    for budget in (0.02, 0.05):
        found = judge(then, now, Terms(budgets={M.STEP_MS: budget}))
        assert found.verdict.outcome is Outcome.INCONCLUSIVE, budget


def test_an_interval_that_a_gate_asks_more_than_is_not_shown() -> None:
    then = blessed({M.STEP_MS: [6.6, 9.9, 7.5, 8.8, 7.0]})
    found = judge(then, measured({M.STEP_MS: [19.6, 22.5, 20.4, 21.7, 21.0]}), Terms(max_runs=5))
    (row,) = found.verdict.metrics
    assert (found.verdict.outcome, found.settled) == (Outcome.INCONCLUSIVE, True)
    assert row.low is not None
    assert row.p_value is not None
    assert 0.0025 < row.p_value < 0.01
    assert row.low < 0
