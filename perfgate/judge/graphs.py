"""CUDA graphs that came in place of kernels launched one by one: what of that is no loss, and what is no gain.

A graph that is traced whole is one span of kernel time, from end to end, in which nobody sees what runs. So kernel time
means something else than before, and so does all that ran beside it; the step means what it meant, in the median and in
the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from perfgate.judge.clocks import ClockJudgement
from perfgate.judge.compare import middle
from perfgate.judge.counts import CountJudgement, same
from perfgate.judge.whole import BARE, NO_LOSS, MeanSteps, mean_steps
from perfgate.judge.words import amount, percent
from perfgate.model.baseline import Baseline
from perfgate.model.metric import EXPOSED, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import WHOLE_GRAPHS, ProcessSample, Run
from perfgate.model.verdict import MetricVerdict
from perfgate.model.words import inflected

IN_GRAPHS: Final = "CUDA graphs that are traced whole hold what is between their kernels"
MAY_BE_IN_GRAPHS: Final = "CUDA graphs that are traced whole may hold or hide it"
WITH_ALL_BETWEEN: Final = "with all that is between kernels"
_COPIED_TO_DEVICE: Final = frozenset({Metric.H2D_MS, Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.PAGEABLE_COPIES})
_COPIED_TO_HOST: Final = frozenset({Metric.D2H_COPIES, Metric.PAGEABLE_COPIES})


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphsForLaunches:
    """In every run the host launched graphs, and less in all than in any blessed run.

    Where there were graphs before, there are no more of them, and launches are at most half as many in all.
    """

    graphs: float | None
    """None where there were some before."""
    launches: float | None
    """Fewer per step: the difference of the medians; None of several ranks, which are not known apart in a baseline."""
    hold_kernels: bool
    """Whether they were traced whole in every run, in the process whose kernel time is judged, and take no less than
    that rose by.

    What rose by more is not for what lies between kernels of theirs.
    """
    mean_steps: MeanSteps | None
    """None where they are not known of all."""
    unseen: frozenset[Metric]
    """What may be in their spans, or hidden by them, so that a fall of it is no gain.

    Of copies those of a direction in which there are fewer in every run; and all time that is exposed where no kernel
    runs, as a span counts as one also where it idles.
    """

    @property
    def told(self) -> str:
        """What became of the count where there were none."""
        launches = "launches"
        if self.launches is not None:
            launches = f"{amount(self.launches)} {inflected(self.launches, 'launch', 'launches')}"
        return f"rose from 0 to {amount(self.graphs or 0.0)} per step in place of {launches}"

    def count(self, judged: CountJudgement) -> CountJudgement:
        """Let graphs pass that took the place of launches, and copies that may be in them.

        A host that launches less does less for the same work.
        """
        row = judged.row
        is_rise = row.metric is Metric.GRAPH_LAUNCHES and row.outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
        if is_rise and self.graphs is not None:
            row = row.model_copy(update={"outcome": Outcome.PASSED, "reason": self.told})
            return CountJudgement(row=row, remark=f"{row.metric} {self.told}")
        if row.metric in self.unseen and row.outcome is Outcome.IMPROVED:
            row = _no_gain(row, MAY_BE_IN_GRAPHS)
            return replace(judged, row=row, remark=f"{row.metric} {row.reason}")
        return judged

    def clock(
        self, judged: ClockJudgement, *, step: Outcome | None, mean_step: ClockJudgement | None
    ) -> ClockJudgement:
        """Let the step, of which `step` tells, speak for kernel time and less idle time; leave what graphs may hold.

        `mean_step` is what `mean_steps` came to by the rule of step_ms: what happens in less than half of the steps
        shows in kernel time, and would in no median.
        """
        row = judged.row
        match row.metric:
            case Metric.KERNEL_MS if self.hold_kernels and mean_step and step and row.outcome is not Outcome.PASSED:
                return self._kernels(judged, step=step, mean_step=mean_step)
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

    def _kernels(self, judged: ClockJudgement, *, step: Outcome, mean_step: ClockJudgement) -> ClockJudgement:
        row, mean = judged.row, mean_step.row
        rose = row.change is None or row.change > 0
        # Where step_ms itself tells of a loss, or may, there is no more to ask.
        if rose and step in NO_LOSS and mean.outcome not in NO_LOSS:
            if mean.outcome is Outcome.REGRESSED:
                return judged
            reason = f"{WITH_ALL_BETWEEN} {mean.reason}"
            by_mean = {"estimate": mean.change, "budget": mean.budget}
            told = {"outcome": Outcome.INCONCLUSIVE, "reason": reason}
            row = row.model_copy(update={**BARE, **by_mean, **told})
            return replace(mean_step, row=row, rule=replace(mean_step.rule, metric=row.metric), level=None)
        reason = f"shown, not gated: {IN_GRAPHS}, and step_ms is what tells"
        row = row.model_copy(update={**BARE, "outcome": None, "reason": reason})
        moved = "" if row.change is None else f"{'rose' if rose else 'fell'} {percent(abs(row.change))} % and "
        return ClockJudgement(row=row, rule=judged.rule, remark=f"{row.metric} {moved}is {reason}")


def _no_gain(row: MetricVerdict, why: str) -> MetricVerdict:
    return row.model_copy(update={"outcome": Outcome.PASSED, "reason": f"{row.reason}; {why}"})


def graphs_for_launches(baseline: Baseline, runs: Sequence[Run]) -> GraphsForLaunches | None:
    """Return the graphs that took the place of launches; None where some run launched none, or as much as before.

    Of graphs that were there before, a rise may be a graph that broke in two, whatever else fell; no more of them take
    the place of launches where not half as much is launched as before.
    """
    then = launched([run.values.get for run in baseline.runs])
    now = launched([run.value for run in runs])
    if not (then and now and all(graphs for _, graphs in now)):
        return None
    least, most = min(map(sum, then)), max(map(sum, now))
    were_there = any(graphs for _, graphs in then)
    if were_there and max(graphs for _, graphs in now) > min(graphs for _, graphs in then):
        return None
    if most >= least or (were_there and most > least / 2):
        return None
    judged = [max(run.processes, key=lambda one: one.values.get(Metric.KERNEL_MS, 0.0)) for run in runs]
    spans = [_spans_ms(process) for process in judged]
    whole = all(any(map(_spans_ms, run.processes)) for run in runs)
    to_device = _COPIED_TO_DEVICE if _fell(Metric.H2D_COPIES, baseline, runs) else frozenset[Metric]()
    to_host = _COPIED_TO_HOST if _fell(Metric.D2H_COPIES, baseline, runs) else frozenset[Metric]()
    known_apart = all(len(run.processes) == 1 for run in runs)
    return GraphsForLaunches(
        graphs=None if were_there else middle([graphs for _, graphs in now]),
        launches=middle([kernels for kernels, _ in then]) - middle([kernels for kernels, _ in now])
        if known_apart
        else None,
        hold_kernels=all(span > 0 for span in spans) and _rise_ms(baseline, runs) <= middle(spans),
        mean_steps=mean_steps(baseline, runs),
        unseen=frozenset(EXPOSED) | to_device | to_host if whole else frozenset[Metric](),
    )


def launched(of_runs: Iterable[Callable[[Metric], float | None]]) -> list[tuple[float, float]]:
    """Kernels and graphs that each run launched; empty where they are not known of all."""
    told = [(value(Metric.LAUNCHES), value(Metric.GRAPH_LAUNCHES)) for value in of_runs]
    known = [(kernels, graphs) for kernels, graphs in told if kernels is not None and graphs is not None]
    return known if len(known) == len(told) else []


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


def _spans_ms(process: ProcessSample) -> float:
    """What whole graphs take per step in a process; they hold no more than that."""
    return sum(row.gpu_ms for row in process.kernels if row.name == WHOLE_GRAPHS)
