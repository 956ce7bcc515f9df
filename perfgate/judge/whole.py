"""What a step takes as a whole: in the mean beside the median, and where one part of it gave up what another takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from perfgate.judge.clocks import ClockJudgement, ClockRule, judge_clock
from perfgate.judge.words import percent
from perfgate.model.baseline import Baseline
from perfgate.model.metric import EXPOSED, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run

MeanSteps = tuple[Sequence[float], Sequence[float]]
"""What a step takes in the mean, in ms: of each blessed run, and of each of these."""

NO_LOSS: Final = frozenset({Outcome.PASSED, Outcome.IMPROVED})
BARE: Final[Mapping[str, None]] = dict.fromkeys(("low", "high", "budget", "p_value", "smallest"))
"""What a row does not tell whose clock is not judged by its own numbers."""
_LEFT_OVER: Final = frozenset({Metric.GAP_MS, *EXPOSED})
"""Time in which a GPU waits for something else to end: it grows by itself where that something gets faster."""
_MADE_ROOM: Final = 0.5
"""Share of what waiting grew by that a whole step may have grown by: of more, nothing else gave it up."""


def mean_steps(baseline: Baseline, runs: Sequence[Run]) -> MeanSteps | None:
    """What a step takes in the mean, before and now, run by run; None where it is not known of all.

    Of a baseline that does not hold it, kernel time and all time in which no kernel ran, which is all but what kernels
    save by running beside one another.
    """
    measured = _sums((Metric.STEP_MEAN_MS,), baseline, runs)
    if measured is not None or not (baseline.values(Metric.KERNEL_MS) and baseline.values(Metric.GAP_MS)):
        return measured
    parts = (Metric.KERNEL_MS, Metric.GAP_MS, *EXPOSED)
    return _sums([metric for metric in parts if baseline.values(metric)], baseline, runs)


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


def beside_median(mean: ClockJudgement, median: Outcome | None, *, on_gpu: bool) -> ClockJudgement:
    """Gate the mean step where the median step does not tell the same: what less than half of the steps take longer.

    Without a GPU, where a busy host makes single steps many times as long, only a loss that is shown counts.
    """
    told = mean.row.outcome
    is_open_beside_a_loss = (told, median) == (Outcome.INCONCLUSIVE, Outcome.REGRESSED)
    if told is Outcome.REGRESSED and median is not Outcome.REGRESSED:
        return mean
    if on_gpu and (told is Outcome.PASSED or (told is not median and not is_open_beside_a_loss)):
        return mean
    why = f"{Metric.STEP_MS} tells" if on_gpu or told is median else "a busy host moves it"
    row = mean.row.model_copy(update={**BARE, "outcome": None, "reason": f"shown, not gated: {why}"})
    return replace(mean, row=row, level=None, may_be_modes=False)


def displaced(
    judged: ClockJudgement,
    steps: MeanSteps | None,
    *,
    rule: ClockRule,
    step_ms: float | None,
    outcome_of: Callable[[Metric], Outcome | None],
) -> ClockJudgement:
    """Let waiting pass that something else of the step made room for: no step takes longer, in the median or the mean.

    Kernels that get faster leave idle what the CPU needs in any case, and bare the copies that they hid. So where
    waiting grew, and the mean step by half as much at most, that is judged as waiting is, against the same budget; and
    the steps' own rows, of which `outcome_of` tells, must be shown to have lost nothing. While that is open, this is.
    """
    row = judged.row
    if steps is None or row.metric not in _LEFT_OVER or row.outcome not in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
        return judged
    whole = judge_clock(rule, *steps, step_ms=step_ms)
    rose, longer = row.change or 0.0, whole.row.change
    if longer is None or rose <= 0 or longer > _MADE_ROOM * rose:
        return judged
    mean = outcome_of(Metric.STEP_MEAN_MS)
    outcomes = {outcome_of(Metric.STEP_MS), whole.row.outcome, *([] if mean is None else [mean])}
    if outcomes <= NO_LOSS:
        more = "more" if whole.row.outcome is Outcome.IMPROVED else "as much"
        made_room = f"steps take no longer for it: what else is in them fell by {more}"
        row = row.model_copy(update={"outcome": Outcome.PASSED, "reason": f"{row.reason}; {made_room}"})
        remark = f"{row.metric} rose by {percent(rose)} % of a step, and {made_room}"
        return replace(judged, row=row, level=None, may_be_modes=False, remark=remark)
    if row.outcome is Outcome.INCONCLUSIVE or not outcomes <= {*NO_LOSS, Outcome.INCONCLUSIVE}:
        return judged
    reason = f"rose by {percent(rose)} % of a step, for which something else in it made room; of a whole step:"
    row = row.model_copy(update={**BARE, "outcome": Outcome.INCONCLUSIVE, "reason": f"{reason} {whole.row.reason}"})
    return replace(whole, row=row, level=None)
