"""What another SM clock than at the blessing leaves open: stored times are not what they would be
now."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.gate.notes import because
from perfgate.judge.clock import by_clock, clock_moved
from perfgate.model.baseline import Baseline
from perfgate.model.metric import PERIODS, Metric
from perfgate.model.note import note
from perfgate.model.outcome import PASSING, Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict, Verdict

_FOLLOW_CLOCK = (*PERIODS, Metric.KERNEL_MS)
"""Of which all, or nearly all, may take longer at a lower clock; copies and the host do not."""


def left_open_by_clock(verdict: Verdict, baseline: Baseline, runs: Sequence[Run]) -> Verdict:
    """Leave open what a lower SM clock alone would make of the code that was blessed, and a loss
    that a higher one may hide."""
    moved, longer = clock_moved(baseline.runs, runs), by_clock(baseline.runs, runs)
    lost = [row for row in verdict.metrics if row.outcome is Outcome.REGRESSED]
    if moved is not None and lost and all(_is_by_clock(row, longer) for row in lost):
        why = note(
            "clock-may-be-the-loss",
            workload=verdict.workload,
            clock=moved,
            longer=longer,
            metrics=tuple(row.metric for row in lost),
        )
        rows = [_opened(row) if row in lost else row for row in verdict.metrics]
        no_loss = {"metrics": tuple(rows), "loss_level": None, "loss_by": None}
        return because(verdict.model_copy(update=no_loss), Outcome.INCONCLUSIVE, why)
    # All follow the clock, and whichever is held closest must not lose unseen.
    following = [
        row
        for row in verdict.metrics
        if row.metric in _FOLLOW_CLOCK and row.change is not None and row.budget is not None
    ]
    closest = min((row.budget or 0.0 for row in following), default=0.0)
    rise = 1 / (1 + longer) - 1
    if verdict.outcome not in PASSING or rise <= closest:
        return verdict
    why = note("clock-may-hide-a-loss", workload=verdict.workload, clock=moved, rise=rise)
    rows = [
        _opened(row, estimate=(1 + (row.change or 0.0)) * (1 + rise) - 1)
        if row in following
        else row
        for row in verdict.metrics
    ]
    opened = verdict.model_copy(update={"metrics": tuple(rows)})
    return because(opened, Outcome.INCONCLUSIVE, why)


def _is_by_clock(row: MetricVerdict, longer: float) -> bool:
    return row.metric in _FOLLOW_CLOCK and row.low is not None and row.low <= longer


def _opened(row: MetricVerdict, **more: float) -> MetricVerdict:
    return row.model_copy(update={"outcome": Outcome.INCONCLUSIVE, **more})
