"""One time metric at one look: what passes, what fails, and what stays open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from support.cases import named
from support.judging import MOMENT, blessed, judged, measured

from perfgate.judge.look import look_at
from perfgate.judge.looks import AB_PLAN, INTERLEAVED_PLAN, SCREEN_PLAN, STORED_PLAN, Plan
from perfgate.judge.rows import at_level
from perfgate.judge.times import SPECS, TimeRule, columns, rule_of
from perfgate.model.baseline import Spread
from perfgate.model.metric import Basis, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict, Verdict

STEADY = (10.0, 10.02, 9.98, 10.01, 9.99)
NO_STEPS = {Metric.STEP_MS: note("no-steps")}
PLANS = (SCREEN_PLAN, STORED_PLAN, AB_PLAN, INTERLEAVED_PLAN)


def rule(plan: Plan, **changed: object) -> TimeRule:
    step = Metric.STEP_MS
    made = TimeRule(metric=step, budget=SPECS[step].budget, occasion_runs=(5,), shares=4, plan=plan)
    return replace(made, **changed)  # type: ignore[arg-type]


def verdict_of(
    plan: Plan,
    now: Sequence[float],
    *,
    before: Sequence[float] = STEADY,
    metric: Metric = Metric.STEP_MS,
    max_runs: int = 29,
) -> tuple[Verdict, MetricVerdict]:
    """Judge one time metric of steps of 10 ms, and of what idles longer of longer ones."""
    longer = metric is Metric.GAP_MS and max(now) > max(before)
    then = blessed({Metric.STEP_MS: [10.0] * len(before), metric: before})
    runs = measured({Metric.STEP_MS: [10.5 if longer else 10.0] * len(now), metric: now})
    verdict = judged(then, runs, plan, max_runs=max_runs)
    row = verdict.of(metric)
    assert row is not None
    return verdict, row


def outcome(
    plan: Plan,
    now: Sequence[float],
    *,
    before: Sequence[float] = STEADY,
    metric: Metric = Metric.STEP_MS,
) -> Outcome | None:
    return verdict_of(plan, now, before=before, metric=metric)[1].outcome


def times(factor: float, values: Sequence[float] = STEADY) -> list[float]:
    return [factor * one for one in values]


@pytest.mark.parametrize(
    ("plan", "factor", "expected"),
    [
        *((plan, 1.0, Outcome.PASSED) for plan in PLANS),
        *((plan, 1 / 1.5, Outcome.IMPROVED) for plan in PLANS),
        (SCREEN_PLAN, 1.5, Outcome.INCONCLUSIVE),
        *((plan, 1.5, Outcome.REGRESSED) for plan in PLANS if plan.fails),
        # An A/B run shows three per cent, one occasion does not.
        (AB_PLAN, 1.03, Outcome.REGRESSED),
        (STORED_PLAN, 1.03, Outcome.INCONCLUSIVE),
    ],
)
def test_steps_that_change_by_a_factor(plan: Plan, factor: float, expected: Outcome) -> None:
    assert outcome(plan, times(factor)) is expected


EXTREME = [*STEADY, *STEADY[:2], 14.0]
IDLE = [1.0, 1.01, 0.99]
M, KERNELS = Metric, times(0.05)


@pytest.mark.parametrize(
    ("before", "now", "metric", "expected"),
    named(
        {
            "two pairs": ([10.0, 10.01], [20.0, 20.1], M.STEP_MS, Outcome.INCONCLUSIVE),
            "an extreme run, from five pairs on": (
                [*STEADY, *STEADY[:3]],
                times(1.05, EXTREME),
                M.STEP_MS,
                Outcome.REGRESSED,
            ),
            "a tenth of the step's": (KERNELS, times(1.03, KERNELS), M.KERNEL_MS, Outcome.PASSED),
            "more of the kernels": (KERNELS, times(1.06, KERNELS), M.KERNEL_MS, Outcome.REGRESSED),
            "idle": (IDLE, IDLE, M.GAP_MS, Outcome.PASSED),
            "5 % of a step": (IDLE, [ms + 0.5 for ms in IDLE], M.GAP_MS, Outcome.REGRESSED),
            "0 on both sides": ([0.0] * 3, [0.0] * 3, M.KERNEL_MS, Outcome.PASSED),
            "from 0": ([0.0] * 3, [1.0] * 3, M.KERNEL_MS, Outcome.REGRESSED),
            "from 0 in two": ([0.0] * 3, [1.0] * 2, M.KERNEL_MS, Outcome.INCONCLUSIVE),
            "to 0": ([1.0] * 3, [0.0] * 3, M.KERNEL_MS, Outcome.NOT_MEASURED),
            "0 in some": ([1.0, 0.0, 1.0], [1.0] * 3, M.KERNEL_MS, Outcome.INCONCLUSIVE),
            "beyond all numbers": ([1e-300] * 3, [1e300] * 3, M.KERNEL_MS, Outcome.INCONCLUSIVE),
            "and in a share": ([1.0] * 3, [1e300] * 3, M.GAP_MS, Outcome.INCONCLUSIVE),
        }
    ),
)
def test_pairs_are_judged(
    before: list[float], now: list[float], metric: Metric, expected: Outcome
) -> None:
    assert outcome(AB_PLAN, now, before=before, metric=metric) is expected


def test_neither_a_slow_block_passes_nor_a_screen_fails_kernels_that_came_from_nothing() -> None:
    assert outcome(INTERLEAVED_PLAN, [*STEADY[:4], 14.0]) is Outcome.INCONCLUSIVE
    found = outcome(SCREEN_PLAN, [1.0] * 5, before=[0.0] * 5, metric=Metric.KERNEL_MS)
    assert found is Outcome.INCONCLUSIVE


def test_what_is_within_budget_is_no_loss_however_clear() -> None:
    verdict, row = verdict_of(AB_PLAN, [1.005 * ms for ms in STEADY])
    assert (row.outcome, verdict.loss_level) == (Outcome.PASSED, None)


@pytest.mark.parametrize("plan", [SCREEN_PLAN, STORED_PLAN, AB_PLAN], ids=lambda plan: plan.stage)
def test_a_slow_run_keeps_it_from_passing(plan: Plan) -> None:
    now = (*STEADY[:4], 30.0)
    verdict, row = verdict_of(plan, now)
    assert row.outcome is Outcome.INCONCLUSIVE
    assert [(drop.side, drop.index) for drop in verdict.dropped] == [("candidate", 4)]


@pytest.mark.parametrize("gain", [False, True])
def test_modes_that_may_have_been_met_by_chance_decide_nothing(gain: bool) -> None:
    mostly_fast, mostly_slow = [5.3, 5.31, 5.29, 5.3, 5.32, 8.2], [8.2, 8.21, 8.19, 8.2, 5.31, 8.22]
    before, now = (mostly_slow, mostly_fast) if gain else (mostly_fast, mostly_slow)
    verdict, row = verdict_of(AB_PLAN, now, before=before, max_runs=6)
    assert (row.outcome, row.low, row.high) == (Outcome.INCONCLUSIVE, None, None)
    assert verdict.why.code == "open-two-modes"


def test_a_rule_is_made_of_what_the_baseline_knows() -> None:
    known = Spread(run_sd=0.003, occasion_sd=0.01, runs=20, occasions=10, at=MOMENT)
    calibration = {Metric.STEP_MS: known}
    baseline = blessed({Metric.STEP_MS: [10.0] * 4}, occasions=2, calibration=calibration)
    made = rule_of(Metric.STEP_MS, columns(baseline.runs), {}, baseline=baseline)
    assert made.occasion_runs == (2, 2)
    assert made.learnt.df == 9
    assert float(made.learnt.squares) == pytest.approx(9 * 0.01**2)
    kernels = {Metric.KERNEL_MS: np.array([8.0])}
    assert rule_of(Metric.KERNEL_MS, kernels, {}).least_loss == 0


@pytest.mark.parametrize("why", [{}, NO_STEPS])
def test_a_share_of_no_step_is_not_measured(why: dict[Metric, Note]) -> None:
    idle = {Metric.GAP_MS: STEADY}
    row = judged(blessed(idle), measured(idle, absent=why), AB_PLAN).of(Metric.GAP_MS)
    assert row is not None
    assert row.note is not None
    assert (row.outcome, row.note.code) == (Outcome.NOT_MEASURED, "without-step")


def test_a_row_adds_up() -> None:
    _, row = verdict_of(AB_PLAN, [1.03 * ms for ms in STEADY])
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
    verdict, row = verdict_of(AB_PLAN, [1.03 * ms for ms in STEADY], metric=metric)
    assert verdict.loss_alpha is not None
    assert at_level(row, verdict.loss_alpha).low == pytest.approx(row.low)
    wider = at_level(row, verdict.loss_alpha / 10).low
    assert wider is not None
    assert row.low is not None
    assert wider < row.low
    nothing = MetricVerdict(metric=metric, outcome=None)
    assert at_level(nothing, 0.01) is nothing
    gone = verdict_of(AB_PLAN, [1e-20] * 5, metric=Metric.KERNEL_MS)[1]
    assert (gone.change, at_level(gone, 0.01).low) == (-1, -1)


def test_many_gates_at_once_are_each_judged_as_one_alone() -> None:
    rng = np.random.default_rng(11)
    before, after = (
        rng.normal(scale=0.01, size=(50, 5)),
        rng.normal(loc=0.01, scale=0.01, size=(50, 5)),
    )
    for plan in PLANS:
        many = look_at(rule(plan), (before, after), is_last=True)
        alone = [
            look_at(rule(plan), (one, other), is_last=True)
            for one, other in zip(before, after, strict=True)
        ]
        assert many.passes.tolist() == [bool(found.passes) for found in alone]
        assert many.loses.tolist() == [bool(found.loses) for found in alone]
