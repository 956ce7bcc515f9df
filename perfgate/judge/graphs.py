"""CUDA graphs that came in place of kernels launched one by one: what of that is no loss, and what is no gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from perfgate.judge.clocks import ClockJudgement, judge_clock
from perfgate.judge.compare import middle
from perfgate.judge.counts import CountJudgement, same
from perfgate.judge.words import amount
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import WHOLE_GRAPHS, Run
from perfgate.model.words import listed

IN_GRAPHS: Final = "CUDA graphs that are traced whole hold what is between their kernels"
OUT_OF_SIGHT: Final = "CUDA graphs that are traced whole may hold it, so that it is no gain"
_LOSSES: Final = (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
_COPIED_TO_DEVICE: Final = frozenset(
    {Metric.H2D_MS, Metric.H2D_EXPOSED_MS, Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.PAGEABLE_COPIES}
)
_COPIED_TO_HOST: Final = frozenset({Metric.D2H_COPIES, Metric.PAGEABLE_COPIES})


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldTogether:
    """Kernel time and all that spans of graphs may hold beside it, ms of each run: what went into them counts once."""

    blessed: Sequence[float]
    now: Sequence[float]
    share: float
    """Of kernel time in the blessed ones: together they may lose no more ms than kernels may."""
    beside: tuple[Metric, ...]
    """What is there beside kernel time, where it is not 0 in all runs."""

    @property
    def change(self) -> float:
        """Of the medians, as a fraction of kernel time."""
        return (middle(self.now) / middle(self.blessed) - 1) / self.share


@dataclass(frozen=True, kw_only=True)
class GraphsForLaunches:
    """In every run the host launched graphs, of which there were none, and less in all than in any blessed run."""

    baseline: Baseline
    runs: Sequence[Run]
    graphs: float
    launches: float
    """Fewer per step: the difference of the medians."""

    @property
    def told(self) -> str:
        """What became of the count."""
        return f"rose from 0 to {amount(self.graphs)} per step in place of {amount(self.launches)} launches"

    @cached_property
    def held_ms(self) -> float:
        """What graphs that were traced whole take per step, each one span from end to end: they hold no more than that.

        0 where in some run none was traced so.
        """
        return middle(spans) if all(spans := [_spans_ms(run) for run in self.runs]) else 0.0

    @cached_property
    def unseen(self) -> frozenset[Metric]:
        """What may have gone into graphs that were traced whole, where nobody sees it: a fall of these is no gain.

        Of copies those of a direction in which there are fewer in every run. Memsets and copies within the device are
        not counted, and may always be some of it.
        """
        if not self.held_ms:
            return frozenset()
        to_device = _COPIED_TO_DEVICE if self._fell(Metric.H2D_COPIES) else frozenset[Metric]()
        to_host = _COPIED_TO_HOST if self._fell(Metric.D2H_COPIES) else frozenset[Metric]()
        return frozenset({Metric.MEM_EXPOSED_MS}) | to_device | to_host

    def _fell(self, metric: Metric) -> bool:
        found = self._found(metric)
        return found is not None and max(found[1]) < min(found[0]) and not same((max(found[1]), min(found[0])))

    @cached_property
    def together(self) -> HeldTogether | None:
        """Kernel time with all that may have gone into graphs, which may be why there is more of it.

        None where no graph was traced whole, where a run lacks kernel or idle time, and where there is more of kernel
        time than the spans of the graphs take.
        """
        kernels, gaps = self._found(Metric.KERNEL_MS), self._found(Metric.GAP_MS)
        if not self.held_ms or kernels is None or gaps is None:
            return None
        then = middle(kernels[0])
        if then <= 0 or middle(kernels[1]) - then > self.held_ms:
            return None
        beside = {Metric.GAP_MS: gaps}
        for metric in (Metric.H2D_EXPOSED_MS, Metric.MEM_EXPOSED_MS):
            if metric in self.unseen and (found := self._found(metric)) is not None and any((*found[0], *found[1])):
                beside[metric] = found
        blessed, now = (
            [sum(run) for run in zip(*side, strict=True)] for side in zip(kernels, *beside.values(), strict=True)
        )
        return HeldTogether(blessed=blessed, now=now, share=then / middle(blessed), beside=tuple(beside))

    def _found(self, metric: Metric) -> tuple[list[float], list[float]] | None:
        """A metric of all blessed runs, and of all others; None where one lacks it."""
        then = self.baseline.values(metric)
        now = [value for run in self.runs if (value := run.value(metric)) is not None]
        known = (len(then), len(now)) == (len(self.baseline.runs), len(self.runs))
        return (list(then), now) if known else None

    # What is made of the rows that were judged by themselves

    def count(self, judged: CountJudgement) -> CountJudgement:
        """Let graphs pass that took the place of launches, and copies that may be in them.

        A host that launches less does less for the same work.
        """
        row = judged.row
        if row.metric is Metric.GRAPH_LAUNCHES and row.outcome in _LOSSES:
            reason = self.told
        elif row.metric in self.unseen and row.outcome is Outcome.IMPROVED:
            reason = f"{row.reason}; {OUT_OF_SIGHT}"
        else:
            return judged
        row = row.model_copy(update={"outcome": Outcome.PASSED, "reason": reason})
        return CountJudgement(row=row, remark=f"{row.metric} {reason}")

    def clock(self, judged: ClockJudgement, *, step_ms: float | None) -> ClockJudgement:
        """Judge more kernel time or less idle time with all that spans hold; leave a fall of what is unseen."""
        if judged.row.metric is Metric.KERNEL_MS and judged.row.outcome in _LOSSES:
            return self._kernels(judged)
        if judged.row.outcome is not Outcome.IMPROVED:
            return judged
        if judged.row.metric is Metric.GAP_MS:
            return self._idle(judged, step_ms=step_ms)
        return _passed(judged, OUT_OF_SIGHT) if judged.row.metric in self.unseen else judged

    def _kernels(self, alone: ClockJudgement) -> ClockJudgement:
        """Judge kernel time together with what was between kernels: that is in a span now, and no kernel is slower.

        The row shows kernel time alone; what is measured next, and how much of it, goes by all together.
        """
        if (sums := self.together) is None:
            return alone
        rule = replace(alone.rule, budget=alone.rule.budget * sums.share)
        together = judge_clock(rule, sums.blessed, sums.now, step_ms=None)
        within = together.row.outcome in (Outcome.PASSED, Outcome.IMPROVED)
        if not within and not _may_be_within(alone, together):
            return alone
        names = listed(sums.beside)
        told = f"within it together with {names}" if within else f"together with {names} {together.row.reason}"
        reason = f"{alone.row.reason}; {told}: {IN_GRAPHS}"
        outcome = Outcome.PASSED if within else Outcome.INCONCLUSIVE
        row = alone.row.model_copy(update={"outcome": outcome, "reason": reason})
        dropped = {(one.side, one.index): one for one in (*together.dropped, *alone.dropped)}
        remark = f"{row.metric} {reason}" if within else None
        return replace(together, row=row, dropped=tuple(dropped.values()), remark=remark)

    def _idle(self, alone: ClockJudgement, *, step_ms: float | None) -> ClockJudgement:
        """Leave a gain of idle time that is none together with kernel time: it went into the spans of graphs."""
        if (sums := self.together) is None:
            return alone
        if judge_clock(alone.rule, sums.blessed, sums.now, step_ms=step_ms).row.outcome is Outcome.IMPROVED:
            return alone
        names = listed([Metric.KERNEL_MS, *(metric for metric in sums.beside if metric is not Metric.GAP_MS)])
        return _passed(alone, f"not shown to be less together with {names}: {IN_GRAPHS}")


def _passed(judged: ClockJudgement, why: str) -> ClockJudgement:
    reason = f"{judged.row.reason}; {why}"
    row = judged.row.model_copy(update={"outcome": Outcome.PASSED, "reason": reason})
    return replace(judged, row=row, remark=f"{row.metric} {reason}")


def _may_be_within(alone: ClockJudgement, together: ClockJudgement) -> bool:
    """Whether a loss of kernels may be none together with the rest: that is not settled, and is none by its size."""
    comparison, rule = together.comparison, together.rule
    if alone.row.outcome is not Outcome.REGRESSED or together.row.outcome is not Outcome.INCONCLUSIVE:
        return False
    return comparison is not None and comparison.estimate < rule.plan.told.budgets * rule.budget_in_basis


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
        baseline=baseline,
        runs=runs,
        graphs=middle([graphs for _, graphs in known]),
        launches=middle(before) - middle([kernels for kernels, _ in known]),
    )


def _spans_ms(run: Run) -> float:
    """What whole graphs take in the process in which they take most."""
    spans = (
        sum(row.gpu_ms for row in one.kernels if row.name == WHOLE_GRAPHS and row.kind == "kernel")
        for one in run.processes
    )
    return max(spans, default=0.0)
