"""What another SM clock than at the blessing leaves open: stored times are not what they would be
now."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.gate.notes import because
from perfgate.judge.clock import clock_moved, clock_rise, longer_by_clock
from perfgate.model.baseline import Baseline
from perfgate.model.metric import PERIODS, Metric
from perfgate.model.note import note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict, Verdict

_FOLLOW_CLOCK = (*PERIODS, Metric.KERNEL_MS)
"""Of which all, or nearly all, may take longer at a lower clock; copies and the host do not."""


def beyond_clock(verdict: Verdict, baseline: Baseline, runs: Sequence[Run]) -> Verdict:
    """Leave open what a lower SM clock alone would make of the code that was blessed."""
    longer = longer_by_clock(baseline.runs, runs)
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
        clock=clock_moved(baseline.runs, runs),
        longer=longer,
        metrics=tuple(row.metric for row in lost),
    )
    rows = tuple(_opened(row) if row in lost else row for row in verdict.metrics)
    opened = verdict.model_copy(update={"metrics": rows, "loss_level": None, "loss_by": None})
    return because(opened, Outcome.INCONCLUSIVE, why)


def unhidden_by_clock(verdict: Verdict, baseline: Baseline, runs: Sequence[Run]) -> Verdict:
    """Leave open what a higher SM clock may hide: a loss within what it makes faster."""
    rise = clock_rise(baseline.runs, runs)
    # All follow the clock, and whichever is held closest must not lose unseen.
    budgets = [row.budget for row in verdict.metrics if row.metric in _FOLLOW_CLOCK]
    closest = min((budget for budget in budgets if budget is not None), default=0.0)
    if verdict.outcome not in (Outcome.PASSED, Outcome.IMPROVED) or rise <= closest:
        return verdict
    why = note(
        "clock-may-hide-a-loss",
        workload=verdict.workload,
        clock=clock_moved(baseline.runs, runs),
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
