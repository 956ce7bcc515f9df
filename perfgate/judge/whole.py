"""What a step takes as a whole: in the mean beside the median, and where one part of it gave up what another takes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from perfgate.judge.clocks import ClockJudgement, ClockRule, judge_clock
from perfgate.judge.compare import middle
from perfgate.judge.words import percent
from perfgate.model.baseline import Baseline
from perfgate.model.metric import EXPOSED, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run
from perfgate.model.verdict import MetricVerdict

MeanSteps = tuple[Sequence[float], Sequence[float]]
"""What a step takes in the mean, in ms: of each blessed run, and of each of these."""

NO_LOSS: Final = frozenset({Outcome.PASSED, Outcome.IMPROVED})
BARE: Final[Mapping[str, None]] = dict.fromkeys(("low", "high", "budget", "p_value", "smallest"))
"""What a row does not tell whose clock is not judged by its own numbers."""
LEFT_OVER: Final = frozenset({Metric.GAP_MS, *EXPOSED})
"""Time in which a GPU waits for something else to end: it grows by itself where that something gets faster."""
_PART_OF: Final[Mapping[Metric, Metric | None]] = {
    Metric.H2D_EXPOSED_MS: Metric.H2D_MS,
    Metric.NCCL_EXPOSED_MS: Metric.NCCL_MS,
    Metric.MEM_EXPOSED_MS: None,
}
"""The work that all of it but idle time is a part of, which does not grow by that: NCCL's spins as well, but least on
the rank that waits least. None where no metric tells how long it takes altogether.
"""
_MADE_ROOM: Final = 0.5
"""Share of what waiting grew by that a whole step may have grown by: of more, nothing else gave it up."""
LIKELY: Final = 0.05
"""A mean step beyond its budget with a p-value of at most this is looked at again, however busy its host."""


def mean_steps(baseline: Baseline, runs: Sequence[Run]) -> MeanSteps | None:
    """What a step takes in the mean, before and now, run by run; None where it is not known of all.

    Of a baseline that does not hold it, the sum of its parts, which is all but what kernels save by running beside one
    another.
    """
    return _sums((Metric.STEP_MEAN_MS,), baseline, runs) or _parts(baseline, runs)


def _parts(baseline: Baseline, runs: Sequence[Run]) -> MeanSteps | None:
    """Kernel time and all time in which no kernel ran."""
    if not (baseline.values(Metric.KERNEL_MS) and baseline.values(Metric.GAP_MS)):
        return None
    parts = (Metric.KERNEL_MS, Metric.GAP_MS, *EXPOSED)
    return _sums([metric for metric in parts if baseline.values(metric)], baseline, runs)


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeSteps:
    """What the steps of a gate came to, once their rows are judged."""

    means: MeanSteps
    parts: MeanSteps
    step_ms: float | None
    """The baseline's median step."""
    outcomes: tuple[Outcome | None, ...]
    """Of the median step, and of the mean where it is gated."""
    work: float
    """What the work grew by that it is a part of, as a share of the baseline's step; infinite if nobody knows."""

    @classmethod
    def of(
        cls,
        waiting: Metric,
        baseline: Baseline,
        runs: Sequence[Run],
        *,
        step_ms: float | None,
        rows: Sequence[MetricVerdict],
    ) -> WholeSteps | None:
        """None where no waiting can be excused: the mean, or a part of it, is not known of all runs of both sides.

        A sum of parts alone does not show that kernels no longer run side by side.
        """
        means, parts = _sums((Metric.STEP_MEAN_MS,), baseline, runs), _parts(baseline, runs)
        if means is None or parts is None:
            return None
        of = {row.metric: row.outcome for row in rows}
        mean = of.get(Metric.STEP_MEAN_MS)
        outcomes = (of.get(Metric.STEP_MS), *(() if mean is None else (mean,)))
        work = _grown(_PART_OF[waiting], baseline, runs, step_ms=step_ms) if waiting in _PART_OF else 0.0
        return cls(means=means, parts=parts, step_ms=step_ms, outcomes=outcomes, work=work)


def _grown(work: Metric | None, baseline: Baseline, runs: Sequence[Run], *, step_ms: float | None) -> float:
    sides = None if work is None else _sums((work,), baseline, runs)
    return math.inf if sides is None or not step_ms else (middle(sides[1]) - middle(sides[0])) / step_ms


def _sums(metrics: Collection[Metric], baseline: Baseline, runs: Sequence[Run]) -> MeanSteps | None:
    if not all(baseline.values(metric) for metric in metrics):
        return None
    now: list[float] = []
    for run in runs:
        values = [0.0 if run.why_absent(metric) == NO_NCCL else run.value(metric) for metric in metrics]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        now.append(sum(known))
    return [sum(run.values[metric] for metric in metrics) for run in baseline.runs], now


def beside_median(mean: ClockJudgement, median: Outcome | None, *, is_quiet: bool, is_last: bool) -> ClockJudgement:
    """Gate the mean step where the median step does not tell the same: what less than half of the steps take longer.

    Where it is not quiet, only a loss that is shown counts: without a GPU, where a busy host makes single steps many
    times as long, and in turns, where that is what such a duet is for. A likely one is looked for once more, as long as
    this is not the last look, and then said.
    """
    told = mean.row.outcome
    is_open_beside_a_loss = (told, median) == (Outcome.INCONCLUSIVE, Outcome.REGRESSED)
    if told is Outcome.REGRESSED and median is not Outcome.REGRESSED:
        return mean
    if is_quiet and (told is Outcome.PASSED or (told is not median and not is_open_beside_a_loss)):
        return mean
    is_likely = not is_quiet and told is Outcome.INCONCLUSIVE and median in NO_LOSS and _is_likely(mean.row)
    if is_likely and not is_last:
        return mean
    why = f"{Metric.STEP_MS} tells" if is_quiet or told is median else "a busy host moves it"
    told_likely = f"{mean.row.metric} {mean.row.reason}: likely a loss, that a busy host may also make"
    own = {**BARE, "budget": mean.row.budget}
    row = mean.row.model_copy(update={**own, "outcome": None, "reason": f"shown, not gated: {why}"})
    return replace(mean, row=row, level=None, may_be_modes=False, remark=told_likely if is_likely else None)


def _is_likely(row: MetricVerdict) -> bool:
    """Whether a row is beyond its budget, and hardly so by chance."""
    return row.p_value is not None and row.p_value <= LIKELY and (row.change or 0.0) > (row.budget or 0.0)


def displaced(judged: ClockJudgement, whole: WholeSteps | None, *, rule: ClockRule) -> ClockJudgement:
    """Let waiting pass that something else of the step made room for: no step takes longer, in the median or the mean.

    Kernels that get faster leave idle what the CPU needs in any case, and bare the copies that they hid. So where
    waiting grew, and by half as much at most both the mean step and the sum of what it is made of (of several GPUs all
    kernels and their mean waiting), the mean is judged as waiting is, against the same budget; and the steps' own rows
    must be shown to have lost nothing. Where it may as well be more work, since what it is a part of grew, or may have,
    they must be shown to be faster. While that is open, so is this.
    """
    row = judged.row
    if whole is None or row.outcome not in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
        return judged
    mean, parts = (judge_clock(rule, *each, step_ms=whole.step_ms) for each in (whole.means, whole.parts))
    rose, longer = row.change or 0.0, max(each.row.change or 0.0 for each in (mean, parts))
    if rose <= 0 or longer > _MADE_ROOM * rose:
        return judged
    if whole.work > _MADE_ROOM * rose and set(whole.outcomes) != {Outcome.IMPROVED}:
        return judged
    outcomes = {*whole.outcomes, mean.row.outcome}
    if outcomes <= NO_LOSS:
        more = "more" if mean.row.outcome is Outcome.IMPROVED else "as much"
        made_room = f"steps take no longer for it: what else is in them fell by {more}"
        row = row.model_copy(update={"outcome": Outcome.PASSED, "reason": f"{row.reason}; {made_room}"})
        remark = f"{row.metric} rose by {percent(rose)} % of a step, and {made_room}"
        return replace(judged, row=row, level=None, may_be_modes=False, remark=remark)
    if not outcomes <= {*NO_LOSS, Outcome.INCONCLUSIVE}:
        return judged
    by_mean = {"estimate": mean.row.change, "budget": mean.row.budget}
    if row.outcome is Outcome.INCONCLUSIVE:
        return replace(judged, row=row.model_copy(update=by_mean), level=None)
    reason = f"rose by {percent(rose)} % of a step, for which something else in it made room; of a whole step:"
    told = {"outcome": Outcome.INCONCLUSIVE, "reason": f"{reason} {mean.row.reason}"}
    return replace(mean, row=row.model_copy(update={**BARE, **by_mean, **told}), level=None)
