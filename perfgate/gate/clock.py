"""What another SM clock than at the blessing leaves open: stored times are not what they would be now."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.gate.worded import because
from perfgate.judge.compare import middle
from perfgate.model.baseline import Baseline
from perfgate.model.metric import PERIODS, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict, Verdict

_CHANGE = 0.005
"""Kernel time follows the SM clock: beyond this, stored kernel times are not what they would be."""
_FOLLOW_CLOCK = (*PERIODS, Metric.KERNEL_MS)
"""Of which all, or nearly all, may take longer at a lower clock; copies and the host do not."""


def clock_moved(baseline: Baseline, runs: Sequence[Run]) -> Note | None:
    """Note that the GPU ran at another SM clock than when it was blessed."""
    clocks = _clocks(baseline, runs)
    if clocks is None or abs(clocks[1] / clocks[0] - 1) <= _CHANGE:
        return None
    return note("clock-moved", then_mhz=clocks[0], now_mhz=clocks[1])


def longer_by_clock(baseline: Baseline, runs: Sequence[Run]) -> float:
    """By which fraction kernels may take longer at a lower clock; 0 where it is not, or unknown."""
    clocks = _clocks(baseline, runs)
    if clocks is None or clocks[1] <= 0 or clock_moved(baseline, runs) is None:
        return 0.0
    return max(0.0, clocks[0] / clocks[1] - 1)


def _clocks(baseline: Baseline, runs: Sequence[Run]) -> tuple[float, float] | None:
    """The SM clock in MHz, then and now, where both are known."""
    before = [run.sm_clock_mhz for run in baseline.runs if run.sm_clock_mhz is not None]
    after = [run.conditions.sm_clock_mhz for run in runs if run.conditions.sm_clock_mhz is not None]
    if not before or not after or middle(before) <= 0:
        return None
    return middle(before), middle(after)


def beyond_clock(verdict: Verdict, baseline: Baseline, runs: Sequence[Run]) -> Verdict:
    """Leave open what a lower SM clock alone would make of the code that was blessed."""
    longer = longer_by_clock(baseline, runs)
    lost = [row for row in verdict.metrics if row.outcome is Outcome.REGRESSED]
    by_clock = [
        row
        for row in lost
        if row.metric in _FOLLOW_CLOCK and row.low is not None and row.low <= longer
    ]
    if not longer or not lost or by_clock != lost:
        return verdict
    why = note(
        "clock-may-be-the-loss",
        workload=verdict.workload,
        clock=clock_moved(baseline, runs),
        longer=longer,
        metrics=tuple(row.metric for row in lost),
    )
    rows = tuple(_opened(row) if row in lost else row for row in verdict.metrics)
    opened = verdict.model_copy(update={"metrics": rows, "loss_level": None, "loss_by": None})
    return because(opened, Outcome.INCONCLUSIVE, why)


def unhidden_by_clock(verdict: Verdict, baseline: Baseline, runs: Sequence[Run]) -> Verdict:
    """Leave open what a higher SM clock may hide: a loss within what it makes faster."""
    clocks = _clocks(baseline, runs)
    rise = 0.0 if clocks is None else clocks[1] / clocks[0] - 1
    # All follow the clock, and whichever is held closest must not lose unseen.
    budgets = [row.budget for row in verdict.metrics if row.metric in _FOLLOW_CLOCK]
    closest = min((budget for budget in budgets if budget is not None), default=0.0)
    if verdict.outcome not in (Outcome.PASSED, Outcome.IMPROVED) or rise <= max(closest, 0.0):
        return verdict
    why = note(
        "clock-may-hide-a-loss",
        workload=verdict.workload,
        clock=clock_moved(baseline, runs),
        rise=rise,
    )
    rows = tuple(
        _opened(row, estimate=(1 + row.change) * (1 + rise) - 1)
        if row.metric in _FOLLOW_CLOCK
        and row.outcome is not None
        and row.change is not None
        and row.budget is not None
        else row
        for row in verdict.metrics
    )
    opened = verdict.model_copy(update={"metrics": rows})
    return because(opened, Outcome.INCONCLUSIVE, why)


def _opened(row: MetricVerdict, **more: float) -> MetricVerdict:
    return row.model_copy(update={"outcome": Outcome.INCONCLUSIVE, **more})
