"""What the judge says: one verdict a workload, one row a metric."""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.model.metric import Basis, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record


class MetricVerdict(Record):
    """One metric of one workload, judged.

    `change`, `low`, `high`, `budget` and `smallest` are fractions in `basis`: relative, or of the baseline's step.
    Counts have neither interval nor p-value; their change is relative to the baseline, None where that was zero.
    """

    metric: Metric
    outcome: Outcome | None
    """None: shown, not gated (new, or a clock without a budget)."""
    baseline: float | None = None
    now: float | None = None
    basis: Basis | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    """Ends of the 98.75 % interval, shown as "95 %, adjusted for looking more than once"."""
    budget: float | None = None
    p_value: float | None = None
    """One-sided, of the change being above zero."""
    smallest: float | None = None
    """The smallest change that these runs could have shown as a loss."""
    exact: bool | None = None
    """Of a count: whether it was the same in every baseline run."""
    reason: str = ""


class Dropped(Record):
    """A run set aside as a gross outlier, for the metric and by the distance that did it; its other metrics stay in."""

    side: str
    """`baseline` or `candidate`."""
    index: int
    """Of the run on its side, from 0."""
    metric: Metric
    distance: float
    """From the median of its side, as a fraction in the metric's basis; below zero: faster."""


class Verdict(Record):
    """What the gate says of one workload."""

    workload: str
    outcome: Outcome
    reason: str
    """One or two sentences: subject left out, fact and expectation."""
    next_step: str = ""
    metrics: tuple[MetricVerdict, ...] = ()
    runs: int = 0
    baseline_runs: int = 0
    dropped: tuple[Dropped, ...] = ()
    where: Mapping[Metric, str] = {}
    """For metrics that moved: under which range, in which kernel or call."""
    remarks: tuple[str, ...] = ()

    def of(self, metric: Metric) -> MetricVerdict | None:
        """The row of one metric."""
        return next((row for row in self.metrics if row.metric is metric), None)
