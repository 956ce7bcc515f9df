"""What holds of the judge whatever the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.judging import Columns, blessed, judged, measured

from perfgate.judge.looks import (
    AB_PLAN,
    INTERLEAVED_PLAN,
    SCREEN_PLAN,
    STORED_PLAN,
    Plan,
)
from perfgate.model.baseline import Baseline
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict, Verdict

CLOCKS = (Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS, Metric.H2D_MS, Metric.NCCL_MS)
COUNTS = (Metric.SYNCS, Metric.LAUNCHES)

SEVERITY = (Outcome.IMPROVED, Outcome.PASSED, Outcome.INCONCLUSIVE, Outcome.REGRESSED)

times = st.floats(min_value=0.5, max_value=20.0)
close_times = st.floats(min_value=9.7, max_value=10.3)
anything = st.one_of(
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, 1.0, 10.0, 1e308, 5e-324]),
)


@st.composite
def columns_of(
    draw: st.DrawFn, values: st.SearchStrategy[float | None], *, least: int = 1
) -> Columns:
    """Draw some metrics over equally many runs."""
    runs = draw(st.integers(least, 12))
    metrics = draw(st.lists(st.sampled_from((*CLOCKS, *COUNTS)), unique=True, min_size=1))
    return {metric: draw(st.lists(values, min_size=runs, max_size=runs)) for metric in metrics}


ordinary: st.SearchStrategy[Columns] = columns_of(st.one_of(times, close_times))
plans = st.sampled_from([SCREEN_PLAN, STORED_PLAN, AB_PLAN, INTERLEAVED_PLAN])


@st.composite
def sides(draw: st.DrawFn) -> Columns:
    """Draw one side of an A/B run: the same metrics on both, over some runs."""
    runs = draw(st.integers(1, 8))
    values = st.lists(st.one_of(times, close_times), min_size=runs, max_size=runs)
    return {metric: draw(values) for metric in (Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS)}


def verdict_of(
    before: Baseline, now: Columns, *, max_runs: int = 10, plan: Plan = STORED_PLAN
) -> Verdict:
    return judged(before, measured(now), plan, max_runs=max_runs)


@given(
    before=columns_of(anything),
    now=columns_of(anything, least=0),
    max_runs=st.integers(1, 12),
    spread=st.integers(1, 3),
    plan=plans,
)
@settings(max_examples=400)
def test_no_input_raises_or_passes_without_evidence(
    before: Columns, now: Columns, max_runs: int, spread: int, plan: Plan
) -> None:
    runs = len(next(iter(now.values())))
    baseline = blessed(before, occasions=min(spread, len(next(iter(before.values())))))
    verdict = verdict_of(baseline, now, max_runs=max_runs, plan=plan)
    assert verdict.reason.endswith(".")
    if verdict.outcome in (Outcome.PASSED, Outcome.IMPROVED):
        gated = [row for row in verdict.metrics if row.outcome is not None]
        assert runs > 0
        assert gated
        assert not verdict.more
        assert all(row.outcome in (Outcome.PASSED, Outcome.IMPROVED) for row in gated)
        compared = baseline.runs[:runs] if plan.is_ab_run else baseline.runs
        expected = {
            metric
            for metric in before
            if METRICS[metric].gated and all(metric in run.values for run in compared)
        }
        assert {row.metric for row in gated} == expected
    if verdict.outcome is not Outcome.INCONCLUSIVE:
        assert not verdict.more
    assert verdict.runs + verdict.more <= max(runs, max_runs, 10)


@given(before=ordinary, now=ordinary, plan=plans, data=st.data())
@settings(max_examples=200)
def test_the_order_of_runs_changes_nothing(
    before: Columns, now: Columns, plan: Plan, data: st.DataObject
) -> None:
    orders: dict[int, list[int]] = {}
    if plan.is_ab_run:
        fewer = min(len(next(iter(side.values()))) for side in (before, now))
        before, now = ({m: side[m][:fewer] for m in side} for side in (before, now))

    def shuffled(columns: Columns) -> Columns:
        runs = len(next(iter(columns.values())))
        # Pairs are shuffled as pairs.
        order = (
            data.draw(st.permutations(range(runs)))
            if not (plan.in_pairs and runs in orders)
            else orders[runs]
        )
        orders[runs] = order
        return {metric: [values[run] for run in order] for metric, values in columns.items()}

    one = verdict_of(blessed(before), now, plan=plan)
    other = verdict_of(blessed(shuffled(before)), shuffled(now), plan=plan)
    assert one.more == other.more
    assert _without_indices(one) == _without_indices(other)


def _without_indices(verdict: Verdict) -> object:
    """Leave out which run was dropped: its index moves with it."""
    drops = sorted((drop.side, drop.metric.value, drop.distance) for drop in verdict.dropped)
    return verdict.model_dump(exclude={"dropped"}), drops


@given(
    before=ordinary, now=ordinary, plan=plans, factor=st.sampled_from([2.0**-20, 0.5, 4.0, 1024.0])
)
@settings(max_examples=200)
def test_scaling_all_times_changes_nothing(
    before: Columns, now: Columns, plan: Plan, factor: float
) -> None:
    # Powers of two, so that no rounding is in play: what is tested is the rule, not the floating
    # point.
    def scaled(columns: Columns) -> Columns:
        return {
            metric: [None if value is None else value * factor for value in values]
            if METRICS[metric].kind is Kind.TIME
            else values
            for metric, values in columns.items()
        }

    one = verdict_of(blessed(before), now, plan=plan)
    other = verdict_of(blessed(scaled(before)), scaled(now), plan=plan)
    assert one.more == other.more
    assert one.dropped == other.dropped
    shown = ("outcome", "change", "low", "high", "p_value", "smallest")
    assert [[getattr(row, name) for name in shown] for row in one.metrics] == [
        [getattr(row, name) for name in shown] for row in other.metrics
    ]
    assert one.outcome == other.outcome


@given(data=st.data(), runs=st.integers(1, 12))
@settings(max_examples=150)
def test_host_noise_that_the_sides_of_each_pair_share_changes_nothing(
    data: st.DataObject, runs: int
) -> None:
    drawn = st.lists(close_times, min_size=runs, max_size=runs)
    before, now = data.draw(drawn), data.draw(drawn)
    noise = data.draw(
        st.lists(st.floats(min_value=-0.2, max_value=0.2), min_size=runs, max_size=runs)
    )

    def row(pair: tuple[list[float], list[float]]) -> MetricVerdict:
        found = verdict_of(
            blessed({Metric.STEP_MS: pair[0]}), {Metric.STEP_MS: pair[1]}, plan=INTERLEAVED_PLAN
        ).of(Metric.STEP_MS)
        assert found is not None
        return found

    one = row((before, now))
    noisy = [
        [ms * math.exp(shared) for ms, shared in zip(side, noise, strict=True)]
        for side in (before, now)
    ]
    other = row((noisy[0], noisy[1]))
    assert one.change == pytest.approx(other.change, abs=1e-9)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-6, abs=1e-12)


@given(before=sides(), now=sides(), shift=st.floats(min_value=-0.2, max_value=0.2))
@settings(max_examples=150)
def test_a_shift_of_the_occasion_that_both_sides_of_an_ab_run_share_changes_nothing(
    before: Columns, now: Columns, shift: float
) -> None:
    """Times change by a factor, and idle time, which is taken as a share of the other side's step,
    by the same one."""

    def shifted(columns: Columns) -> Columns:
        return {
            m: [None if v is None else v * math.exp(shift) for v in values]
            for m, values in columns.items()
        }

    one = verdict_of(blessed(before), now, plan=AB_PLAN)
    other = verdict_of(blessed(shifted(before)), shifted(now), plan=AB_PLAN)
    for row, there in zip(one.metrics, other.metrics, strict=True):
        assert row.change == pytest.approx(there.change, abs=1e-9)
        assert row.p_value == pytest.approx(there.p_value, rel=1e-6, abs=1e-12)
    # Outcomes may only differ where a bound lies on its limit to the last bits.
    on_the_limit = any(
        row.high is not None and row.budget is not None and abs(row.high - row.budget) < 1e-9
        for row in one.metrics
    )
    assert on_the_limit or one.outcome is other.outcome


@pytest.mark.parametrize("plan", [SCREEN_PLAN, STORED_PLAN, AB_PLAN], ids=lambda plan: plan.stage)
@pytest.mark.parametrize("metric", [Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS])
@given(
    before=st.lists(close_times, min_size=1, max_size=10),
    now=st.lists(close_times, min_size=1, max_size=10),
    slowdowns=st.lists(st.floats(min_value=-0.2, max_value=0.5), min_size=2, max_size=6),
)
@settings(max_examples=60)
def test_a_larger_slowdown_never_gets_a_milder_verdict(
    metric: Metric, plan: Plan, before: list[float], now: list[float], slowdowns: Sequence[float]
) -> None:
    baseline = blessed({Metric.STEP_MS: [10.0] * len(before), metric: before})
    steps: Columns = {Metric.STEP_MS: [10.0] * len(now)}

    def severity(slowdown: float) -> tuple[int, int] | None:
        slower = [
            value * (1 + slowdown) if metric is not Metric.GAP_MS else value + slowdown
            for value in now
        ]
        verdict = verdict_of(baseline, {**steps, metric: slower}, plan=plan)
        row = verdict.of(metric)
        assert row is not None
        assert row.outcome is not None
        if row.high is None and (row.change or 0.0) < 0:
            return None  # a gain that chance may have made: it decides nothing
        return SEVERITY.index(row.outcome), SEVERITY.index(verdict.outcome)

    # Slowdowns closer than rounding can separate are not separated here either.
    ordered = sorted({round(slowdown, 6) for slowdown in slowdowns})
    found = [one for slowdown in ordered if (one := severity(slowdown)) is not None]
    assert [row for row, _ in found] == sorted(row for row, _ in found)
    assert [verdict for _, verdict in found] == sorted(verdict for _, verdict in found)


@pytest.mark.parametrize(
    "plan", [STORED_PLAN, AB_PLAN, INTERLEAVED_PLAN], ids=lambda plan: plan.stage
)
@given(side=ordinary)
@settings(max_examples=60)
def test_the_same_on_both_sides_never_fails(plan: Plan, side: Columns) -> None:
    verdict = verdict_of(blessed(side), side, max_runs=29, plan=plan)
    assert all(row.outcome is not Outcome.REGRESSED for row in verdict.metrics)


@pytest.mark.parametrize("plan", [SCREEN_PLAN, STORED_PLAN, AB_PLAN], ids=lambda plan: plan.stage)
@given(
    before=st.lists(close_times, min_size=3, max_size=10),
    now=st.lists(close_times, min_size=3, max_size=10),
    slower=st.floats(min_value=0.0, max_value=30.0),
)
@settings(max_examples=150)
def test_the_slowest_run_made_slower_never_opens_a_gate(
    plan: Plan, before: list[float], now: list[float], slower: float
) -> None:
    """Before the last look, where chance may excuse a slow run that the other side has as well."""
    worse = sorted(now)
    worse[-1] += slower
    one, other = (
        verdict_of(
            blessed({Metric.STEP_MS: before}), {Metric.STEP_MS: runs}, max_runs=29, plan=plan
        )
        for runs in (now, worse)
    )
    opens = (Outcome.PASSED, Outcome.IMPROVED)
    assert one.outcome in opens or other.outcome not in opens or len(now) > plan.looks[-2]
