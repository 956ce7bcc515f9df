"""CUDA graphs that came in place of kernels launched one by one: what of that is no loss, and what is no gain.

A graph that is traced whole is one span of kernel time, from end to end, in which nobody sees what runs. So kernel time
means something else than before, and so does all that ran beside it; the step means what it meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from perfgate.judge.clocks import ClockJudgement
from perfgate.judge.compare import middle
from perfgate.judge.counts import CountJudgement, same
from perfgate.judge.words import amount
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import WHOLE_GRAPHS, Run
from perfgate.model.verdict import MetricVerdict
from perfgate.model.words import inflected

IN_GRAPHS: Final = "CUDA graphs that are traced whole hold what is between their kernels"
MAY_BE_IN_GRAPHS: Final = "CUDA graphs that are traced whole may hold or hide it"
_EXPOSED: Final = frozenset({Metric.H2D_EXPOSED_MS, Metric.NCCL_EXPOSED_MS, Metric.MEM_EXPOSED_MS})
_COPIED_TO_DEVICE: Final = frozenset({Metric.H2D_MS, Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.PAGEABLE_COPIES})
_COPIED_TO_HOST: Final = frozenset({Metric.D2H_COPIES, Metric.PAGEABLE_COPIES})


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphsForLaunches:
    """In every run the host launched graphs, of which there were none, and less in all than in any blessed run."""

    graphs: float
    launches: float
    """Fewer per step: the difference of the medians."""
    hold_kernels: bool
    """Whether they were traced whole in every run, and take no less than kernel time rose by.

    What rose by more is not for what lies between kernels of theirs.
    """
    unseen: frozenset[Metric]
    """What may be in their spans, or hidden by them, so that a fall of it is no gain.

    Of copies those of a direction in which there are fewer in every run; and all time that is exposed where no kernel
    runs, as a span counts as one also where it idles.
    """

    @property
    def told(self) -> str:
        """What became of the count."""
        launches = f"{amount(self.launches)} {inflected(self.launches, 'launch', 'launches')}"
        return f"rose from 0 to {amount(self.graphs)} per step in place of {launches}"

    def count(self, judged: CountJudgement) -> CountJudgement:
        """Let graphs pass that took the place of launches, and copies that may be in them.

        A host that launches less does less for the same work.
        """
        row = judged.row
        if row.metric is Metric.GRAPH_LAUNCHES and row.outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
            row = row.model_copy(update={"outcome": Outcome.PASSED, "reason": self.told})
            return CountJudgement(row=row, remark=f"{row.metric} {self.told}")
        if row.metric in self.unseen and row.outcome is Outcome.IMPROVED:
            row = _no_gain(row, MAY_BE_IN_GRAPHS)
            return replace(judged, row=row, remark=f"{row.metric} {row.reason}")
        return judged

    def clock(self, judged: ClockJudgement, *, step: Outcome | None) -> ClockJudgement:
        """Let the step, of which `step` tells, speak for kernel time and less idle time; leave what graphs may hold."""
        row = judged.row
        match row.metric:
            case Metric.KERNEL_MS if self.hold_kernels and step is not None and row.outcome is not Outcome.PASSED:
                row = MetricVerdict(
                    metric=row.metric,
                    outcome=None,
                    baseline=row.baseline,
                    now=row.now,
                    basis=row.basis,
                    change=row.change,
                    reason=f"shown, not gated: {IN_GRAPHS}, and step_ms is what tells",
                )
                return ClockJudgement(row=row, rule=judged.rule, remark=f"{row.metric} is {row.reason}")
            case Metric.GAP_MS if self.hold_kernels and step is not Outcome.IMPROVED:
                why = f"no gain of step_ms: {IN_GRAPHS}"
            case metric if metric in self.unseen:
                why = MAY_BE_IN_GRAPHS
            case _:
                return judged
        if row.outcome is not Outcome.IMPROVED:
            return judged
        row = _no_gain(row, why)
        return replace(judged, row=row, remark=f"{row.metric} {row.reason}")


def _no_gain(row: MetricVerdict, why: str) -> MetricVerdict:
    return row.model_copy(update={"outcome": Outcome.PASSED, "reason": f"{row.reason}; {why}"})


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
    spans = [_spans_ms(run) for run in runs]
    whole = all(span > 0 for span in spans)
    to_device = _COPIED_TO_DEVICE if _fell(Metric.H2D_COPIES, baseline, runs) else frozenset[Metric]()
    to_host = _COPIED_TO_HOST if _fell(Metric.D2H_COPIES, baseline, runs) else frozenset[Metric]()
    return GraphsForLaunches(
        graphs=middle([graphs for _, graphs in known]),
        launches=middle(before) - middle([kernels for kernels, _ in known]),
        hold_kernels=whole and _rise_ms(baseline, runs) <= middle(spans),
        unseen=_EXPOSED | to_device | to_host if whole else frozenset[Metric](),
    )


def _rise_ms(baseline: Baseline, runs: Sequence[Run]) -> float:
    """By how much more kernel time is there; 0 where it is not known of both sides."""
    then = baseline.values(Metric.KERNEL_MS)
    now = [value for run in runs if (value := run.value(Metric.KERNEL_MS)) is not None]
    return middle(now) - middle(then) if then and now else 0.0


def _fell(metric: Metric, baseline: Baseline, runs: Sequence[Run]) -> bool:
    """Whether a count is less in every run than in any blessed one."""
    then = baseline.values(metric)
    now = [value for run in runs if (value := run.value(metric)) is not None]
    return bool(then and now) and max(now) < min(then) and not same((max(now), min(then)))


def _spans_ms(run: Run) -> float:
    """What whole graphs take per step in the process in which they take most; they hold no more than that."""
    spans = (sum(row.gpu_ms for row in one.kernels if row.name == WHOLE_GRAPHS) for one in run.processes)
    return max(spans, default=0.0)
