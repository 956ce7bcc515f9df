"""One time metric at one look: what passes, what fails, and what stays open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from perfgate.judge.looks import AB_PLAN, INTERLEAVED_PLAN, SCREEN_PLAN, STORED_PLAN, Plan
from perfgate.judge.outliers import Slow
from perfgate.judge.time_rows import TimeJudgement, Times, at_level, judge_time
from perfgate.judge.times import TimeRule, look_at
from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict

STEADY = (10.0, 10.02, 9.98, 10.01, 9.99)
PLANS = (SCREEN_PLAN, STORED_PLAN, AB_PLAN, INTERLEAVED_PLAN)


def rule(plan: Plan, metric: Metric = Metric.STEP_MS, **changed: object) -> TimeRule:
    spec = METRICS[metric].clock
    assert spec is not None
    made = TimeRule(
        metric=metric,
        basis=spec.basis,
        budget=spec.budget,
        prior_sd=spec.prior_sd,
        occasion_sd=spec.occasion_sd,
        block_sd=spec.block_sd,
        occasion_runs=(5,),
        shares=4,
        plan=plan,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def row_of(
    made: TimeRule, before: Sequence[float], now: Sequence[float], **more: object
) -> TimeJudgement:
    times = Times(blessed=before, now=now, step_ms=10.0)
    return judge_time(made, replace(times, **more))  # type: ignore[arg-type]


def outcome(
    plan: Plan,
    now: Sequence[float],
    *,
    before: Sequence[float] = STEADY,
    metric: Metric = Metric.STEP_MS,
    slow: Slow | None = None,
    last: bool = False,
) -> Outcome | None:
    made = rule(plan, metric, occasion_runs=(len(before),))
    return row_of(made, before, now, is_last=last, slow_before=slow).row.outcome


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stage)
def test_unchanged_runs_pass(plan: Plan) -> None:
    assert outcome(plan, STEADY) is Outcome.PASSED


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stage)
def test_half_as_fast_again_is_a_loss_but_for_a_screen(plan: Plan) -> None:
    lost = outcome(plan, [1.5 * ms for ms in STEADY])
    assert lost is (Outcome.INCONCLUSIVE if plan is SCREEN_PLAN else Outcome.REGRESSED)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stage)
def test_a_third_faster_is_a_gain(plan: Plan) -> None:
    assert outcome(plan, [ms / 1.5 for ms in STEADY]) is Outcome.IMPROVED


def test_three_percent_are_shown_by_an_ab_run_and_not_by_one_occasion() -> None:
    now = [1.03 * ms for ms in STEADY]
    assert outcome(AB_PLAN, now) is Outcome.REGRESSED
    assert outcome(STORED_PLAN, now) is Outcome.INCONCLUSIVE


def test_what_is_within_budget_is_no_loss_however_clear() -> None:
    found = row_of(rule(AB_PLAN), STEADY, [1.005 * ms for ms in STEADY])
    assert (found.row.outcome, found.level) == (Outcome.PASSED, None)


@pytest.mark.parametrize("plan", [SCREEN_PLAN, STORED_PLAN, AB_PLAN], ids=lambda plan: plan.stage)
def test_a_slow_run_keeps_it_from_passing(plan: Plan) -> None:
    found = row_of(rule(plan), STEADY, (10.0, 10.0, 30.0), is_last=False)
    assert found.row.outcome is Outcome.INCONCLUSIVE
    assert found.slow is not None
    assert int(found.slow.candidate) == 1
    assert [(drop.side, drop.index) for drop in found.dropped] == [("candidate", 2)]


def test_at_the_last_look_one_slow_run_of_many_passes_and_half_of_them_do_not() -> None:
    one, half = [*STEADY, *STEADY[1:], 30.0], [*STEADY, 30.0, 30.0, 30.0, 30.0]
    assert outcome(AB_PLAN, one, before=[*STEADY, *STEADY], last=True) is Outcome.PASSED
    assert outcome(AB_PLAN, half, before=[*STEADY, *STEADY], last=True) is Outcome.INCONCLUSIVE


def test_a_slow_run_of_the_screen_still_counts_in_the_ab_run() -> None:
    slow = Slow(candidate=np.asarray(1), other=np.asarray(0), candidates=3, others=5)
    assert outcome(AB_PLAN, STEADY, slow=slow) is Outcome.INCONCLUSIVE
    assert outcome(AB_PLAN, STEADY, slow=slow, last=True) is Outcome.PASSED


def test_a_slow_block_keeps_a_pair_from_passing() -> None:
    found = row_of(rule(INTERLEAVED_PLAN), STEADY, [*STEADY[:4], 14.0], is_last=False)
    assert found.row.outcome is Outcome.INCONCLUSIVE


def test_before_five_pairs_an_extreme_run_leaves_a_loss_open() -> None:
    now = [1.05 * ms for ms in (10.0, 10.01, 14.0)]
    assert outcome(AB_PLAN, now, before=STEADY[:3]) is Outcome.INCONCLUSIVE
    now = [1.05 * ms for ms in (*STEADY, *STEADY[:2], 14.0)]
    assert outcome(AB_PLAN, now, before=[*STEADY, *STEADY[:3]]) is Outcome.REGRESSED


@pytest.mark.parametrize("gain", [False, True])
def test_modes_that_may_have_been_met_by_chance_decide_nothing(gain: bool) -> None:
    mostly_fast, mostly_slow = [5.3, 5.31, 5.29, 5.3, 5.32, 8.2], [8.2, 8.21, 8.19, 8.2, 5.31, 8.22]
    before, now = (mostly_slow, mostly_fast) if gain else (mostly_fast, mostly_slow)
    found = row_of(rule(AB_PLAN), before, now)
    assert found.row.outcome is Outcome.INCONCLUSIVE
    assert found.look is not None
    assert bool(found.look.by_chance)
    assert (found.row.low, found.row.high) == (None, None)


def test_fewer_runs_than_the_first_look_never_fail() -> None:
    assert outcome(AB_PLAN, (20.0, 20.1), before=(10.0, 10.01)) is Outcome.INCONCLUSIVE


def test_kernels_may_lose_a_tenth_of_what_the_step_may() -> None:
    small = rule(AB_PLAN, Metric.KERNEL_MS, least_loss=0.03)
    within, beyond = [1.02 * ms for ms in STEADY], [1.05 * ms for ms in STEADY]
    assert row_of(small, STEADY, within, step_ms=100.0).row.outcome is Outcome.PASSED
    assert row_of(small, STEADY, beyond, step_ms=100.0).row.outcome is Outcome.REGRESSED


def test_idle_time_is_a_share_of_the_step() -> None:
    idle = [1.0, 1.01, 0.99]
    assert outcome(AB_PLAN, idle, before=idle, metric=Metric.GAP_MS) is Outcome.PASSED
    more = [ms + 0.5 for ms in idle]
    assert outcome(AB_PLAN, more, before=idle, metric=Metric.GAP_MS) is Outcome.REGRESSED


def test_calibrated_occasions_count_where_they_are_known_better() -> None:
    now = STEADY
    known = rule(STORED_PLAN, known_occasions=(0.03, 20.0))
    guessed = rule(STORED_PLAN, known_occasions=(0.03, 1.0))
    assert row_of(known, STEADY, now).row.outcome is Outcome.INCONCLUSIVE
    assert row_of(guessed, STEADY, now).row.outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param([0.0] * 3, [0.0] * 3, Outcome.PASSED, id="0 on both sides"),
        pytest.param([0.0] * 3, [1.0] * 3, Outcome.REGRESSED, id="from 0"),
        pytest.param([0.0] * 3, [1.0] * 2, Outcome.INCONCLUSIVE, id="from 0, too few runs"),
        pytest.param([1.0] * 3, [0.0] * 3, Outcome.NOT_MEASURED, id="to 0"),
        pytest.param([1.0, 0.0, 1.0], [1.0] * 3, Outcome.INCONCLUSIVE, id="0 in some"),
        pytest.param(
            [1e-300] * 3, [1e300] * 3, Outcome.INCONCLUSIVE, id="farther apart than numbers go"
        ),
    ],
)
def test_zeros_have_no_logarithm(before: list[float], now: list[float], expected: Outcome) -> None:
    assert outcome(AB_PLAN, now, before=before, metric=Metric.KERNEL_MS) is expected


def test_a_screen_calls_no_kernels_that_came_from_nothing_a_loss() -> None:
    found = outcome(SCREEN_PLAN, [1.0] * 5, before=[0.0] * 5, metric=Metric.KERNEL_MS)
    assert found is Outcome.INCONCLUSIVE


def test_values_that_lie_too_far_apart_are_not_compared() -> None:
    assert (
        outcome(AB_PLAN, [1e300] * 3, before=[1.0] * 3, metric=Metric.GAP_MS)
        is Outcome.INCONCLUSIVE
    )


@pytest.mark.parametrize(
    ("why", "code"), [(None, "baseline-without-step"), ("no steps", "sides-without-step")]
)
def test_a_share_of_no_step_is_not_measured(why: str | None, code: str) -> None:
    found = row_of(rule(AB_PLAN, Metric.GAP_MS), STEADY, STEADY, step_ms=None, why_no_step=why)
    assert found.row.outcome is Outcome.NOT_MEASURED
    assert found.row.note is not None
    assert found.row.note.code == code
    assert (found.slow, found.level) == (None, None)


def test_blocks_without_their_other_side_are_open() -> None:
    assert outcome(INTERLEAVED_PLAN, STEADY[:3]) is Outcome.INCONCLUSIVE


def test_a_row_adds_up() -> None:
    row = row_of(rule(AB_PLAN), STEADY, [1.03 * ms for ms in STEADY]).row
    assert row.baseline is not None
    assert row.now == pytest.approx(row.baseline * 1.03)
    assert row.change == pytest.approx(0.03)
    assert row.low is not None
    assert row.high is not None
    assert 0 < row.low < 0.03 < row.high
    assert row.budget == pytest.approx(0.02)
    assert row.smallest is not None
    assert row.low == pytest.approx(np.expm1(np.log1p(0.03) - np.log1p(row.smallest)))


@pytest.mark.parametrize("basis", [Basis.LOG, Basis.STEP])
def test_the_lower_end_at_another_level_is_that_of_its_t(basis: Basis) -> None:
    metric = Metric.STEP_MS if basis is Basis.LOG else Metric.GAP_MS
    made = rule(AB_PLAN, metric)
    row = row_of(made, STEADY, [1.03 * ms for ms in STEADY]).row
    assert at_level(row, made.loss_alpha).low == pytest.approx(row.low)
    wider = at_level(row, made.loss_alpha / 10).low
    assert wider is not None
    assert row.low is not None
    assert wider < row.low
    nothing = MetricVerdict(metric=metric, outcome=None)
    assert at_level(nothing, 0.01) is nothing


def test_many_gates_at_once_are_each_judged_as_one_alone() -> None:
    rng = np.random.default_rng(11)
    before, after = (
        rng.normal(scale=0.01, size=(50, 5)),
        rng.normal(loc=0.01, scale=0.01, size=(50, 5)),
    )
    for plan in PLANS:
        many = look_at(rule(plan), before, after, is_last=True)
        alone = [
            look_at(rule(plan), one, other, is_last=True)
            for one, other in zip(before, after, strict=True)
        ]
        assert many.passes.tolist() == [bool(found.passes) for found in alone]
        assert many.loses.tolist() == [bool(found.loses) for found in alone]
