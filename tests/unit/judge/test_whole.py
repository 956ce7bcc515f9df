"""The step as a whole: slow steps that no median sees, and waiting that something else of the step made room for."""

from __future__ import annotations

import pytest
from support.judging import MOMENT, Columns, blessed, measured

from perfgate.judge.compare import Prior
from perfgate.judge.judge import judge
from perfgate.judge.rows import Terms
from perfgate.judge.stages import DUET_PLAN, INTERLEAVED_PLAN, INTERLEAVED_SDS, SCREEN_PLAN
from perfgate.model.baseline import Spread
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL
from perfgate.model.verdict import MetricVerdict, Verdict

M = Metric
TURNS = {metric: Prior(sd=sd) for metric, sd in INTERLEAVED_SDS.items()}
WOBBLE = (1.0, 1.0003, 0.9997, 1.0001, 0.9999)


def loop(runs: int, **each: float) -> Columns:
    """So many runs that differ by next to nothing, with these values."""
    return {M(name): [value * WOBBLE[run % len(WOBBLE)] for run in range(runs)] for name, value in each.items()}


def verdict_of(before: Columns, now: Columns, terms: Terms | None = None) -> Verdict:
    return judge(blessed(before), measured(now), terms or Terms()).verdict


def row_of(verdict: Verdict, metric: Metric) -> MetricVerdict:
    row = verdict.of(metric)
    assert row is not None
    return row


BEFORE = loop(10, step_ms=10.0, step_mean_ms=10.0, kernel_ms=8.0, gap_ms=2.0)
ONE_SLOWER_RUN: Columns = {M.STEP_MS: [1.561, 1.519, 1.518], M.STEP_MEAN_MS: [1.564, 1.521, 1.520]}
"""As an H100 measured it: one run of three met a slower host."""


# The mean beside the median


def test_steps_that_take_longer_in_less_than_half_of_the_turns_are_a_loss() -> None:
    # Two kernels that ran side by side run one after the other in every third step: no more kernel or idle time.
    verdict = verdict_of(BEFORE, loop(3, step_ms=10.0, step_mean_ms=13.3, kernel_ms=8.0, gap_ms=2.0))
    assert (verdict.outcome, row_of(verdict, M.STEP_MS).outcome) == (Outcome.REGRESSED, Outcome.PASSED)
    assert verdict.reason.startswith("+33.0 % step_mean_ms")
    assert verdict.loss_by is M.STEP_MEAN_MS


@pytest.mark.parametrize(
    ("median", "mean", "outcomes"),
    [
        pytest.param(11.0, 11.0, (Outcome.REGRESSED, None), id="both slower"),
        pytest.param(9.0, 9.0, (Outcome.IMPROVED, None), id="both faster"),
        pytest.param(10.0, 10.0, (Outcome.PASSED, Outcome.PASSED), id="neither"),
        pytest.param(11.0, 10.0, (Outcome.REGRESSED, Outcome.PASSED), id="the median alone slower"),
        pytest.param(9.0, 11.0, (Outcome.IMPROVED, Outcome.REGRESSED), id="faster, and now and then much slower"),
        pytest.param(10.0, 9.0, (Outcome.PASSED, Outcome.IMPROVED), id="the mean alone faster"),
        pytest.param(10.2, 10.2, (Outcome.INCONCLUSIVE, None), id="both open"),
        pytest.param(11.0, 10.2, (Outcome.REGRESSED, None), id="open beside a loss"),
        pytest.param(10.2, 11.0, (Outcome.INCONCLUSIVE, Outcome.REGRESSED), id="a loss beside what is open"),
    ],
)
def test_the_mean_is_gated_where_the_median_does_not_tell_the_same(
    median: float, mean: float, outcomes: tuple[Outcome | None, Outcome | None]
) -> None:
    now = loop(3, step_ms=median, step_mean_ms=mean, kernel_ms=8.0, gap_ms=2.0)
    verdict = verdict_of(BEFORE, now)
    rows = row_of(verdict, M.STEP_MS), row_of(verdict, M.STEP_MEAN_MS)
    assert tuple(row.outcome for row in rows) == outcomes
    if rows[1].outcome is None:
        assert (rows[1].reason, rows[1].budget) == ("shown, not gated: step_ms tells", 0.02)
        assert rows[1].now == pytest.approx(mean, rel=1e-3)


@pytest.mark.parametrize(
    ("median", "mean", "outcomes", "why"),
    [
        pytest.param(10.0, 14.0, (Outcome.PASSED, Outcome.REGRESSED), "", id="every n-th step longer"),
        pytest.param(10.0, 10.2, (Outcome.PASSED, None), "a busy host moves it", id="open"),
        pytest.param(10.0, 9.0, (Outcome.PASSED, None), "a busy host moves it", id="faster"),
        pytest.param(10.0, 10.0, (Outcome.PASSED, None), "step_ms tells", id="neither"),
        pytest.param(11.0, 11.0, (Outcome.REGRESSED, None), "step_ms tells", id="both slower"),
    ],
)
def test_without_a_gpu_only_a_loss_of_the_mean_counts(
    median: float, mean: float, outcomes: tuple[Outcome | None, Outcome | None], why: str
) -> None:
    verdict = verdict_of(loop(10, step_ms=10.0, step_mean_ms=10.0), loop(3, step_ms=median, step_mean_ms=mean))
    rows = row_of(verdict, M.STEP_MS), row_of(verdict, M.STEP_MEAN_MS)
    assert tuple(row.outcome for row in rows) == outcomes
    assert verdict.outcome is (Outcome.REGRESSED if Outcome.REGRESSED in outcomes else Outcome.PASSED)
    if why:
        assert rows[1].reason == f"shown, not gated: {why}"


@pytest.mark.parametrize("workloads", [1, 7])
def test_in_turns_a_likely_loss_of_the_mean_is_looked_for_again(workloads: int) -> None:
    # Kernels that lost their overlap now and then: neither the median nor idle or kernel time moves.
    turns = Terms(plan=INTERLEAVED_PLAN, priors=TURNS, workloads=workloads)
    for pairs, outcome in ((3, Outcome.INCONCLUSIVE), (5, Outcome.REGRESSED)):
        before = loop(pairs, step_ms=10.0, step_mean_ms=10.0, kernel_ms=3.0, gap_ms=7.0)
        now = loop(pairs, step_ms=10.0, step_mean_ms=10.75, kernel_ms=3.0, gap_ms=7.0)
        judgement = judge(blessed(before), measured(now), turns)
        assert judgement.verdict.outcome is outcome
        assert row_of(judgement.verdict, M.STEP_MEAN_MS).outcome is outcome
        assert (judgement.wanted_runs > pairs) is (outcome is Outcome.INCONCLUSIVE)


def test_at_the_screen_without_a_gpu_a_likely_loss_of_the_mean_opens_the_duet() -> None:
    before, now = loop(10, step_ms=10.0, step_mean_ms=10.0), loop(3, step_ms=10.0, step_mean_ms=10.4)
    verdict = verdict_of(before, now, Terms(plan=SCREEN_PLAN))
    assert (verdict.outcome, row_of(verdict, M.STEP_MEAN_MS).outcome) == (Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE)


def test_a_likely_loss_of_the_mean_that_no_look_has_shown_is_told() -> None:
    before = loop(3, step_ms=10.0, step_mean_ms=10.0, kernel_ms=3.0, gap_ms=7.0)
    now = loop(3, step_ms=10.0, step_mean_ms=10.75, kernel_ms=3.0, gap_ms=7.0)
    verdict = verdict_of(before, now, Terms(plan=INTERLEAVED_PLAN, priors=TURNS, workloads=7, max_runs=3))
    assert (verdict.outcome, row_of(verdict, M.STEP_MEAN_MS).outcome) == (Outcome.PASSED, None)
    (remark,) = verdict.remarks
    assert remark.startswith("step_mean_ms +7.5 % [")
    assert remark.endswith("], budget 2 %: likely a loss, that a busy host may also make")


@pytest.mark.parametrize(
    ("mean", "outcome"),
    [pytest.param(10.3, Outcome.INCONCLUSIVE, id="p 0.031"), pytest.param(10.22, None, id="p 0.066")],
)
def test_how_likely_a_loss_of_the_mean_has_to_be(mean: float, outcome: Outcome | None) -> None:
    before = loop(3, step_ms=10.0, step_mean_ms=10.0, kernel_ms=3.0, gap_ms=7.0)
    now = loop(3, step_ms=10.0, step_mean_ms=mean, kernel_ms=3.0, gap_ms=7.0)
    priors = {**TURNS, M.STEP_MEAN_MS: Prior(sd=0.02)}
    row = row_of(verdict_of(before, now, Terms(plan=INTERLEAVED_PLAN, priors=priors)), M.STEP_MEAN_MS)
    assert row.outcome is outcome


def test_beside_a_median_that_is_open_or_lost_the_mean_asks_for_nothing() -> None:
    turns = Terms(plan=INTERLEAVED_PLAN, priors=TURNS, workloads=7, max_runs=3)
    before = loop(3, step_ms=10.0, step_mean_ms=10.0, kernel_ms=3.0, gap_ms=7.0)
    for median, outcome in ((10.25, Outcome.INCONCLUSIVE), (11.0, Outcome.REGRESSED)):
        now = loop(3, step_ms=median, step_mean_ms=10.75, kernel_ms=3.0, gap_ms=7.0)
        verdict = verdict_of(before, now, turns)
        assert row_of(verdict, M.STEP_MS).outcome is outcome
        assert (row_of(verdict, M.STEP_MEAN_MS).outcome, verdict.remarks) == (None, ())


def test_against_another_day_a_mean_that_a_busy_host_moves_asks_for_nothing() -> None:
    before, now = loop(10, step_ms=10.0, step_mean_ms=10.0), loop(3, step_ms=10.0, step_mean_ms=10.21)
    judgement = judge(blessed(before), measured(now), Terms())
    assert (judgement.verdict.outcome, judgement.wanted_runs) == (Outcome.PASSED, 3)
    assert "likely a loss" in judgement.verdict.remarks[0]


def test_a_mean_that_is_slower_by_chance_opens_nothing() -> None:
    now: Columns = {M.STEP_MS: [10.0, 10.001, 9.999], M.STEP_MEAN_MS: [10.0, 13.0, 9.9]}
    verdict = verdict_of(loop(10, step_ms=10.0, step_mean_ms=10.0), now)
    assert (verdict.outcome, verdict.remarks) == (Outcome.PASSED, ())


def test_a_budget_of_the_step_is_that_of_its_mean_unless_it_has_its_own() -> None:
    now = loop(3, step_ms=10.0, step_mean_ms=10.6, kernel_ms=8.0, gap_ms=2.0)
    assert row_of(verdict_of(BEFORE, now), M.STEP_MEAN_MS).outcome is Outcome.REGRESSED
    wide = Terms(budgets={M.STEP_MS: 0.1})
    assert row_of(verdict_of(BEFORE, now, wide), M.STEP_MEAN_MS).outcome is Outcome.PASSED
    own = Terms(budgets={M.STEP_MS: 0.1, M.STEP_MEAN_MS: 0.02})
    assert row_of(verdict_of(BEFORE, now, own), M.STEP_MEAN_MS).outcome is Outcome.REGRESSED


def test_a_baseline_without_it_gates_as_before_and_says_that_it_is_new() -> None:
    before = loop(10, step_ms=10.0, kernel_ms=8.0, gap_ms=2.0)
    verdict = verdict_of(before, loop(3, step_ms=10.0, step_mean_ms=13.3, kernel_ms=8.0, gap_ms=2.0))
    row = row_of(verdict, M.STEP_MEAN_MS)
    assert (verdict.outcome, row.outcome, row.reason) == (Outcome.PASSED, None, "new, not gated: bless to gate it")


# Waiting that something else made room for


@pytest.mark.parametrize(
    ("now", "by"),
    [
        pytest.param({"step_ms": 10.0, "kernel_ms": 7.0, "gap_ms": 3.0}, "as much", id="launch-bound, faster kernels"),
        pytest.param({"step_ms": 6.0, "kernel_ms": 2.0, "gap_ms": 4.0}, "more", id="GPU-bound until now"),
    ],
)
@pytest.mark.parametrize("terms", [Terms(), Terms(plan=DUET_PLAN)], ids=["stored", "duet"])
def test_idle_time_that_faster_kernels_leave_is_no_loss(now: dict[str, float], by: str, *, terms: Terms) -> None:
    before = BEFORE
    if terms.plan is DUET_PLAN:
        before = {metric: values[:3] for metric, values in before.items()}
    verdict = verdict_of(before, loop(3, **now, step_mean_ms=now["step_ms"]), terms)
    row = row_of(verdict, M.GAP_MS)
    size = {"as much": 10, "more": 20}[by]
    assert (verdict.outcome, row.outcome) == (Outcome.IMPROVED, Outcome.PASSED)
    made_room = f"steps take no longer for it: what else is in them fell by {by}"
    assert row.reason.endswith(f"budget 1 pp; {made_room}")
    assert verdict.remarks == (f"gap_ms rose by {size} % of a step, and {made_room}",)
    assert (verdict.loss_level, verdict.loss_by) == (None, None)


def test_while_it_is_open_whether_steps_take_longer_it_is_open_whether_waiting_is_a_loss() -> None:
    before = loop(10, step_ms=1.518, step_mean_ms=1.523, kernel_ms=2.224, gap_ms=0.3865)
    now: Columns = {
        **ONE_SLOWER_RUN,
        M.KERNEL_MS: [1.106, 1.107, 1.106],
        M.GAP_MS: [0.9612, 0.9456, 0.9449],
    }
    judgement = judge(blessed(before), measured(now), Terms())
    row = row_of(judgement.verdict, M.GAP_MS)
    assert (judgement.verdict.outcome, row.outcome, row.low) == (Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE, None)
    # Idle time rose by 37 budgets; what decides is how much longer the whole step takes.
    assert row.estimate == pytest.approx(-0.0016, abs=0.0005)
    assert judgement.verdict.beyond == ()
    assert row.reason.startswith(
        "rose by 37.2 % of a step, for which something else in it made room; of a whole step: "
    )
    assert judgement.wanted_runs > 3
    assert judgement.verdict.reason.startswith("Not settled by 3 runs: step_ms +1.0 % [")
    assert (judgement.verdict.loss_level, judgement.verdict.loss_by) == (None, None)
    steady = {metric: [*values, *[values[1]] * 5] for metric, values in now.items()}
    assert judge(blessed(before), measured(steady), Terms()).verdict.outcome is Outcome.IMPROVED


def test_copies_that_faster_kernels_bare_are_no_loss() -> None:
    before = loop(10, step_ms=10.0, step_mean_ms=10.0, kernel_ms=9.0, gap_ms=1.0, h2d_ms=4.0, h2d_exposed_ms=0.5)
    now = loop(3, step_ms=7.5, step_mean_ms=7.5, kernel_ms=5.0, gap_ms=1.0, h2d_ms=4.0, h2d_exposed_ms=2.0)
    verdict = verdict_of(before, now)
    assert row_of(verdict, M.H2D_EXPOSED_MS).outcome is Outcome.PASSED
    assert verdict.outcome is Outcome.IMPROVED


def test_copies_and_memsets_in_place_of_kernels_are_work_and_no_waiting() -> None:
    before = loop(10, step_ms=10.0, step_mean_ms=10.0, kernel_ms=3.0, gap_ms=6.9, mem_exposed_ms=0.1)
    now = loop(3, step_ms=10.0, step_mean_ms=10.0, kernel_ms=1.5, gap_ms=6.9, mem_exposed_ms=1.6)
    verdict = verdict_of(before, now)
    assert {row.metric for row in verdict.metrics if row.outcome is Outcome.REGRESSED} == {M.MEM_EXPOSED_MS}
    # Where the steps got faster, kernels may have bared what they hid.
    faster = loop(3, step_ms=9.0, step_mean_ms=9.0, kernel_ms=1.0, gap_ms=6.9, mem_exposed_ms=1.1)
    assert verdict_of(before, faster).outcome is Outcome.IMPROVED
    mean_alone = loop(3, step_ms=10.0, step_mean_ms=9.0, kernel_ms=1.0, gap_ms=6.9, mem_exposed_ms=1.1)
    assert row_of(verdict_of(before, mean_alone), M.MEM_EXPOSED_MS).outcome is Outcome.REGRESSED


def test_copies_that_take_longer_themselves_are_not_bared_by_kernels() -> None:
    before = loop(10, step_ms=10.0, step_mean_ms=10.0, kernel_ms=8.0, gap_ms=1.5, h2d_ms=0.5, h2d_exposed_ms=0.5)
    now = loop(3, step_ms=10.0, step_mean_ms=10.0, kernel_ms=6.0, gap_ms=1.5, h2d_ms=2.5, h2d_exposed_ms=2.5)
    assert row_of(verdict_of(before, now), M.H2D_EXPOSED_MS).outcome is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("nccl_ms", "outcome"),
    [pytest.param(2.0, Outcome.PASSED, id="bared"), pytest.param(4.0, Outcome.REGRESSED, id="longer")],
)
def test_what_nccl_sends_for_longer_is_a_loss_and_what_kernels_bared_of_it_none(
    nccl_ms: float, outcome: Outcome
) -> None:
    before = loop(10, step_ms=10.0, step_mean_ms=10.0, kernel_ms=8.0, gap_ms=1.5, nccl_ms=2.0, nccl_exposed_ms=0.5)
    now = loop(3, step_ms=10.0, step_mean_ms=10.0, kernel_ms=6.0, gap_ms=1.5, nccl_ms=nccl_ms, nccl_exposed_ms=2.5)
    verdict = verdict_of(before, now)
    assert row_of(verdict, M.NCCL_EXPOSED_MS).outcome is outcome
    nowhere: Columns = {metric: values for metric, values in before.items() if metric is not M.NCCL_MS}
    assert row_of(verdict_of(nowhere, now), M.NCCL_EXPOSED_MS).outcome is Outcome.REGRESSED


@pytest.mark.parametrize(
    ("now", "blamed"),
    [
        pytest.param({"step_ms": 11.0, "kernel_ms": 7.0, "gap_ms": 4.0}, {M.STEP_MS, M.GAP_MS}, id="a longer step"),
        pytest.param(
            {"step_ms": 10.0, "kernel_ms": 7.0, "gap_ms": 3.3}, {M.GAP_MS, M.STEP_MEAN_MS}, id="more than kernels gave"
        ),
        pytest.param({"step_ms": 10.0, "kernel_ms": 9.0, "gap_ms": 1.0}, {M.KERNEL_MS}, id="longer kernels"),
        pytest.param({"step_ms": 10.0, "kernel_ms": 8.0, "gap_ms": 2.4}, {M.GAP_MS, M.STEP_MEAN_MS}, id="no room"),
        pytest.param({"step_ms": 10.0, "kernel_ms": 7.95, "gap_ms": 2.25}, {M.GAP_MS}, id="hardly any room"),
    ],
)
def test_whatever_else_grows_is_a_loss(now: dict[str, float], blamed: set[Metric]) -> None:
    verdict = verdict_of(BEFORE, loop(3, **now, step_mean_ms=now["kernel_ms"] + now["gap_ms"]))
    assert {row.metric for row in verdict.metrics if row.outcome is Outcome.REGRESSED} == blamed


def test_a_mean_that_is_lost_excuses_nothing() -> None:
    now = loop(3, step_ms=10.0, step_mean_ms=10.5, kernel_ms=7.0, gap_ms=3.0)
    verdict = verdict_of(BEFORE, now)
    lost = {row.metric for row in verdict.metrics if row.outcome is Outcome.REGRESSED}
    assert lost == {M.STEP_MEAN_MS, M.GAP_MS}


def test_where_a_part_of_the_step_is_not_known_of_all_runs_nothing_is_excused() -> None:
    # Kernel time in not all of the runs, and none in the baseline.
    now = loop(3, step_ms=10.0, step_mean_ms=10.0, kernel_ms=7.0, gap_ms=3.0)
    assert row_of(verdict_of(BEFORE, {**now, M.KERNEL_MS: [7.0, None, 7.0]}), M.GAP_MS).outcome is Outcome.REGRESSED
    without = loop(10, step_ms=10.0, step_mean_ms=10.0, gap_ms=2.0)
    assert row_of(verdict_of(without, now), M.GAP_MS).outcome is Outcome.REGRESSED


def test_ranks_that_send_nothing_any_more_have_no_time_that_nccl_takes() -> None:
    before = loop(10, step_ms=10.0, step_mean_ms=10.0, kernel_ms=6.0, gap_ms=2.0, nccl_ms=2.0, nccl_exposed_ms=2.0)
    absent = {M.NCCL_MS: NO_NCCL, M.NCCL_EXPOSED_MS: NO_NCCL}
    alone = measured(loop(3, step_ms=9.0, step_mean_ms=9.0, kernel_ms=6.0, gap_ms=3.0), absent=absent)
    verdict = judge(blessed(before), alone, Terms()).verdict
    assert row_of(verdict, M.GAP_MS).outcome is Outcome.PASSED


def test_a_sum_of_parts_does_not_show_that_kernels_no_longer_run_side_by_side() -> None:
    # 4 ms of kernels ran beside others, and in some steps do no longer; the baseline does not tell its mean step.
    now = loop(5, step_ms=10.0, step_mean_ms=14.0, kernel_ms=8.0, gap_ms=6.0)
    verdict = verdict_of(loop(10, step_ms=10.0, kernel_ms=10.0, gap_ms=4.0), now)
    assert (verdict.outcome, row_of(verdict, M.GAP_MS).outcome) == (Outcome.REGRESSED, Outcome.REGRESSED)


def test_idle_time_of_several_gpus_is_excused_only_by_what_fell_on_them() -> None:
    before = loop(10, step_ms=10.0, step_mean_ms=10.0, kernel_ms=40.0, gap_ms=40.0)
    verdict = verdict_of(before, loop(5, step_ms=10.03, step_mean_ms=10.03, kernel_ms=40.0, gap_ms=40.24))
    assert row_of(verdict, M.GAP_MS).outcome is Outcome.REGRESSED


def test_in_turns_only_a_loss_of_the_mean_counts() -> None:
    before = {metric: values[:8] for metric, values in BEFORE.items()}
    for mean, outcome in ((10.05, None), (14.0, Outcome.REGRESSED)):
        now = loop(8, step_ms=10.0, step_mean_ms=mean, kernel_ms=8.0, gap_ms=2.0)
        row = row_of(verdict_of(before, now, Terms(plan=INTERLEAVED_PLAN)), M.STEP_MEAN_MS)
        assert row.outcome is outcome


def test_in_turns_nothing_is_excused() -> None:
    before = {metric: values[:8] for metric, values in BEFORE.items()}
    now = loop(8, step_ms=10.0, step_mean_ms=10.0, kernel_ms=7.0, gap_ms=3.0)
    verdict = verdict_of(before, now, Terms(plan=INTERLEAVED_PLAN))
    assert row_of(verdict, M.GAP_MS).outcome is Outcome.REGRESSED


def test_what_is_open_only_as_others_share_the_error_is_no_loss_to_be_told_later() -> None:
    before = loop(10, step_ms=1.518, step_mean_ms=1.523, kernel_ms=1.1, gap_ms=0.423)
    now: Columns = {
        **ONE_SLOWER_RUN,
        M.KERNEL_MS: [1.08, 1.081, 1.08],
        M.GAP_MS: [0.45, 0.445, 0.44],
    }
    judgement = judge(blessed(before), measured(now), Terms(workloads=50))
    assert row_of(judgement.verdict, M.GAP_MS).outcome is Outcome.INCONCLUSIVE
    assert judgement.verdict.loss_by is not M.GAP_MS


def test_the_mean_is_as_calibrated_as_the_median_where_nobody_calibrated_it() -> None:
    spread = Spread(run_sd=0.005, occasion_sd=0.02, runs=10, occasions=5, at=MOMENT)
    before = blessed(BEFORE, occasions=2, calibration={M.STEP_MS: spread})
    now = measured(loop(3, step_ms=10.35, step_mean_ms=10.35, kernel_ms=8.0, gap_ms=2.0))
    rows = judge(before, now, Terms()).verdict
    assert [row_of(rows, metric).outcome for metric in (M.STEP_MS, M.STEP_MEAN_MS)] == [Outcome.INCONCLUSIVE, None]
