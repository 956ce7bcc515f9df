"""CUDA graphs that came in place of kernels launched one by one: what of that is no loss; judges nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from perfgate.judge.compare import middle
from perfgate.judge.words import amount
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.sample import WHOLE_GRAPHS, Run

IN_GRAPHS: Final = "CUDA graphs that are traced whole hold the time between their kernels"


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphsForLaunches:
    """In every run the host launched graphs, of which there were none, and less in all than in any blessed run."""

    graphs: float
    launches: float
    """Fewer per step: the difference of the medians."""
    held_ms: float
    """What graphs that were traced whole take per step, each one span from end to end: no more idle time is in them.

    0 where in some run none was traced so.
    """

    @property
    def told(self) -> str:
        """What became of the count."""
        return f"rose from 0 to {amount(self.graphs)} per step in place of {amount(self.launches)} launches"


def graphs_for_launches(baseline: Baseline, runs: Sequence[Run]) -> GraphsForLaunches | None:
    """Return the graphs that took the place of launches; None where some run launched none, or as much as before.

    Of graphs that were there before, a rise may be a graph that broke in two, whatever else fell.
    """
    before, after = baseline.values(Metric.LAUNCHES), [run.value(Metric.LAUNCHES) for run in runs]
    then, now = baseline.values(Metric.GRAPH_LAUNCHES), [run.value(Metric.GRAPH_LAUNCHES) for run in runs]
    known = [(kernels, graphs) for kernels, graphs in zip(after, now, strict=True) if kernels is not None and graphs]
    if not (before and then and known) or any(then) or len(known) < len(runs):
        return None
    if max(kernels + graphs for kernels, graphs in known) >= min(before):
        return None
    return GraphsForLaunches(
        graphs=middle([graphs for _, graphs in known]),
        launches=middle(before) - middle([kernels for kernels, _ in known]),
        held_ms=middle(spans) if all(spans := [_spans_ms(run) for run in runs]) else 0.0,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class WithIdleTime:
    """Kernel time and idle time together, ms of each run: idle time that went into a graph's span is in both, once."""

    blessed: Sequence[float]
    now: Sequence[float]
    share: float
    """Of kernel time in the blessed ones: together they may lose no more ms than kernels may."""

    @property
    def change(self) -> float:
        """Of the medians, as a fraction of kernel time."""
        return (middle(self.now) / middle(self.blessed) - 1) / self.share


def with_idle_time(came: GraphsForLaunches, baseline: Baseline, runs: Sequence[Run]) -> WithIdleTime | None:
    """Return `kernel_ms` and `gap_ms` together, where idle time within graphs may be why there is more of `kernel_ms`.

    None where a run lacks either, and where there is more than the spans of the graphs take.
    """
    then = [_together(run.values.get(Metric.KERNEL_MS), run.values.get(Metric.GAP_MS)) for run in baseline.runs]
    now = [_together(run.value(Metric.KERNEL_MS), run.value(Metric.GAP_MS)) for run in runs]
    blessed, found = ([value for value in side if value is not None] for side in (then, now))
    if (len(blessed), len(found)) != (len(then), len(now)):
        return None
    kernels = middle(baseline.values(Metric.KERNEL_MS))
    more = middle([run.value(Metric.KERNEL_MS) or 0.0 for run in runs]) - kernels
    if kernels <= 0 or more > came.held_ms:
        return None
    return WithIdleTime(blessed=blessed, now=found, share=kernels / middle(blessed))


def _together(kernel_ms: float | None, gap_ms: float | None) -> float | None:
    return None if kernel_ms is None or gap_ms is None else kernel_ms + gap_ms


def _spans_ms(run: Run) -> float:
    """What whole graphs take in the process in which they take most."""
    spans = (
        sum(row.gpu_ms for row in one.kernels if row.name == WHOLE_GRAPHS and row.kind == "kernel")
        for one in run.processes
    )
    return max(spans, default=0.0)
