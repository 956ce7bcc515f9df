"""One time metric: its values as x, what is compared; by what rule it is judged, and what it comes
to at one look. Of other metrics it knows only how many share alpha.

`look_at` takes the runs of one gate or of many at once: `benchmarks/decision` simulates with it.
Formulas and their sources, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from perfgate.judge.compare import (
    Comparison,
    Flags,
    Floats,
    Learnt,
    Occasions,
    SideSums,
    beyond_stored,
    in_ab_run,
    in_blocks,
    occasions_of,
    variance_of,
    with_stored,
)
from perfgate.judge.looks import FEWEST_WITH_EXTREMES, PASS_CONFIDENCE, STORED_PLAN, Plan
from perfgate.judge.outliers import Kept, Slow, keep, may_be_chance, slow_runs
from perfgate.model.baseline import Baseline, BlessedRun
from perfgate.model.metric import METRICS, Basis, Metric, TimeSpec, budget_of
from perfgate.model.verdict import Stage

SPECS: Final[Mapping[Metric, TimeSpec]] = {
    metric: spec.time for metric, spec in METRICS.items() if spec.time is not None
}
"""How each time metric that is gated is judged."""
Columns = Mapping[Metric, Floats]
"""ms, or counts, per step: one value a run, shape (runs,) or (gates, runs)."""

COSTLESS_CONFIDENCE: Final = 0.9975
"""Of the step's upper bound, below which idle time costs nothing: another way to pass, which may be
wrong a tenth as often as the first."""
_LARGEST = 1e150
"""x must stay below this, so that squares stay finite."""
_PART_OF_STEP = 0.1
"""Of the step's budget: what kernel time may lose of a step."""
_FARTHEST_LOG = 700.0
"""exp() of more than this is no double."""


# From runs to x


def columns(runs: Sequence[BlessedRun]) -> dict[Metric, Floats]:
    """Return each metric that every run has."""
    return {
        metric: np.array([run.values[metric] for run in runs])
        for metric in METRICS
        if runs and all(metric in run.values for run in runs)
    }


def as_x(metric: Metric, values: Floats, there: Columns) -> Floats:
    """Turn times into x: ln(ms / median of the other side), or ms over the other side's median
    step.

    As the log of a ratio: scaling all times then changes no bit of what follows. NaN where the
    other side leaves nothing to compare with.
    """
    is_log = METRICS[metric].basis is Basis.LOG
    reference = there.get(metric if is_log else Metric.STEP_MS, np.array([math.nan]))
    with np.errstate(all="ignore"):
        middle = np.median(reference, axis=-1, keepdims=True)
        ratio = values / np.where(middle > 0, middle, math.nan)
        return np.asarray(np.log(ratio) if is_log else ratio)


def is_usable(*x: Floats) -> bool:
    """Whether all can be reckoned with; NaN cannot."""
    return all(bool(np.all(np.abs(side) < _LARGEST)) for side in x)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeRule:
    """How one time metric of one gate is judged."""

    metric: Metric
    budget: float
    """A fraction in the metric's basis."""
    least_loss: Floats | float = 0.0
    """A loss of so much, as x, fails nobody."""
    plan: Plan = STORED_PLAN
    occasion_runs: tuple[int, ...] = (1,)
    """How many of the baseline's runs each of its occasions has, in order."""
    learnt: Learnt = field(default_factory=Learnt)
    """What else is known of the machine's occasions: of other workloads, of a calibration."""
    shares: int = 1
    """Among how many alpha is shared: time metrics times workloads."""

    @property
    def spec(self) -> TimeSpec:
        """Basis and priors."""
        return SPECS[self.metric]

    @property
    def loss_alpha(self) -> float:
        """What a p-value may be at most to show a loss at one look."""
        return self.plan.alpha / self.shares

    @property
    def limit(self) -> Floats:
        """What the upper bound must be below, as x: 2 % slower is log(1.02)."""
        is_log = self.spec.basis is Basis.LOG
        return np.maximum(math.log1p(self.budget) if is_log else self.budget, self.least_loss)

    def as_fraction(self, x: Floats | float) -> float:
        """Turn a difference of x into what is shown: log(1.02) is 2 % slower."""
        is_log = self.spec.basis is Basis.LOG
        return math.expm1(min(float(x), _FARTHEST_LOG)) if is_log else float(x)

    def keep(self, *sides: Floats, in_pairs: bool = False) -> Kept:
        """Mark the runs to keep, or the differences of pairs: a part of the step is extreme, and
        slow, by so much at least as makes a step so."""
        spec, is_part = self.spec, self.spec.basis is Basis.STEP
        return keep(
            sides,
            prior_sd=spec.block_sd if in_pairs else spec.prior_sd,
            budget=np.maximum(self.limit, SPECS[Metric.STEP_MS].budget if is_part else 0.0),
        )

    def occasions(self, before: Floats, kept: Flags) -> Occasions:
        """What occasions differ by, by the baseline's runs that are kept."""
        return occasions_of(
            before,
            kept,
            self.occasion_runs,
            default_sd=self.spec.occasion_sd,
            learnt=self.learnt,
        )


def rule_of(
    metric: Metric,
    there: Columns,
    budgets: Mapping[Metric, float],
    *,
    plan: Plan = STORED_PLAN,
    baseline: Baseline | None = None,
) -> TimeRule:
    """Return how a time metric is judged against `there`; a `baseline`'s occasions count, and what
    a calibration found of them.

    Kernel time may lose a tenth of what the step may, whatever its own budget.
    """
    spread = None if baseline is None else baseline.calibration.get(metric)
    learnt = Learnt()
    if spread is not None:
        free = spread.occasions - 1
        learnt = Learnt(squares=free * spread.occasion_sd**2, df=free)
    return TimeRule(
        metric=metric,
        budget=budgets.get(metric, SPECS[metric].budget),
        least_loss=least_loss(there, budgets) if metric is Metric.KERNEL_MS else 0.0,
        plan=plan,
        occasion_runs=tuple(len(one.runs) for one in baseline.occasions) if baseline else (1,),
        learnt=learnt,
    )


def least_loss(there: Columns, budgets: Mapping[Metric, float]) -> Floats | float:
    """What kernel time may lose, as x: a tenth of what the step may, in ms."""
    budget = budget_of(Metric.STEP_MS, budgets) or 0.0
    if Metric.STEP_MS not in there or Metric.KERNEL_MS not in there:
        return 0.0
    step, kernel = (np.median(there[one], axis=-1) for one in (Metric.STEP_MS, Metric.KERNEL_MS))
    with np.errstate(all="ignore"):
        share = np.maximum(step, 0.0) / kernel
        return np.where(kernel > 0, np.log1p(_PART_OF_STEP * budget * share), 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What runs of a stage come to before they are held against a budget; one value a gate."""

    comparison: Comparison
    """By which it passes."""
    against: Comparison
    """By which it fails."""
    kept: tuple[Flags, Flags]
    extreme: Flags
    """Whether a run of either side was dropped."""
    slow: Slow
    lost_by_chance: Flags
    gained_by_chance: Flags
    run_sd: Floats
    """Of kept runs: of both sides together, or of the candidate's own where that is more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What the runs so far say of one time metric; arrays of one value a gate."""

    compared: Compared
    slow: Slow
    """Slow runs of the stages so far."""
    within: Flags
    """Whether it is shown to be within budget, but for slow runs."""
    by_chance: Flags
    """Whether it proves nothing, as two modes may have been met so by chance."""
    passes: Flags
    costs_nothing: Flags
    """Of idle time: whether it passes only since the step did not become longer by so much."""
    loses: Flags
    gains: Flags
    level: Floats
    """Of a loss: p over alpha, at most 1 over all that share it where it is shown; else infinite.

    What is shown to be within budget is no loss, clear as it may be that something got slower.
    """


Sides = tuple[Floats, Floats]
"""x of the other side's runs, and of the candidate's."""


def as_today(blessed: Floats, there: Floats) -> Floats:
    """Blessed runs as they would be today, by what the other commit's take longer now."""
    now, then = (np.median(side, axis=-1, keepdims=True) for side in (there, blessed))
    return np.asarray(blessed + np.maximum(now - then, 0.0))


def look_at(
    rule: TimeRule,
    sides: Sides,
    *,
    is_last: bool,
    alone: Sides | None = None,
    screened: Sides | None = None,
    periods: Sequence[Look] = (),
) -> Look:
    """Judge runs.

    Idle time is within its budget also where the whole step is, stalls and all: what does not make
    it longer costs nobody anything, as when kernels got faster and the host did not.

    Args:
        rule: how; its plan says what they are.
        sides: runs of the baseline, or of each pair's other side, and of the candidate.
        is_last: whether no further look is to come.
        alone: of an A/B run, the candidate's runs made alone before it, next to what is usual:
            slow ones still count.
        screened: the same next to blessed runs: any that is extreme puts off a loss.
        periods: of idle time, what the same runs say of the step, and of its mean with all stalls.
    """
    plan, limit = rule.plan, rule.limit
    found = _pairs(rule, *sides) if plan.in_pairs else _runs(rule, *sides)
    comparison, against = found.comparison, found.against
    slow, extreme, runs = found.slow, found.extreme, sides[1].shape[-1]
    if alone is not None:
        usual = np.median(alone[0], axis=-1)
        slow = slow_runs(*alone, usual + rule.keep(*alone).threshold) + slow
    if screened is not None:
        extreme = extreme | rule.keep(*screened).any_extreme
    within = comparison.upper(plan.pass_confidence(runs)) < limit
    too_good = found.gained_by_chance & (comparison.estimate < -limit)
    passes = within & slow.hides_nothing(chance=plan.slow_chance if is_last else None) & ~too_good
    costs_nothing = np.zeros_like(passes)
    if periods:
        costs_nothing = ~passes
        for one in periods:
            longest = one.compared.comparison.upper(COSTLESS_CONFIDENCE)
            costs_nothing = costs_nothing & one.passes & (longest < np.log1p(limit))
        within, passes = within | costs_nothing, passes | costs_nothing
    can_lose = ~within & ~found.lost_by_chance & (against.estimate > rule.least_loss)
    if periods and not is_last:  # the next look may show that it costs nothing
        can_lose &= ~np.all([one.within for one in periods], axis=0)
    if plan.stage is Stage.AB_RUN and runs < FEWEST_WITH_EXTREMES:
        can_lose &= ~extreme
    can_lose &= plan.fails and runs >= plan.fewest_to_fail
    p_slower = against.p_value(slower=True)
    level, is_loss = np.where(can_lose, p_slower / plan.alpha, np.inf), p_slower <= rule.loss_alpha
    is_gain = comparison.p_value(slower=False) <= rule.loss_alpha
    return Look(
        compared=found,
        slow=slow,
        within=np.asarray(within),
        by_chance=np.asarray(too_good | (~within & found.lost_by_chance & is_loss)),
        passes=np.asarray(passes),
        costs_nothing=np.asarray(costs_nothing),
        loses=np.asarray(level * rule.shares <= 1),
        gains=np.asarray(passes & is_gain & (comparison.lower(PASS_CONFIDENCE) < -limit)),
        level=level,
    )


def _pairs(rule: TimeRule, before: Floats, after: Floats) -> Compared:
    """Of pairs of blocks, of which nothing is dropped."""
    differences = after - before
    comparison = in_blocks(differences, prior_sd=rule.spec.block_sd)
    everything = np.ones_like(differences, dtype=np.bool_)
    nothing = np.zeros(differences.shape[:-1], dtype=np.bool_)
    threshold = rule.keep(differences, in_pairs=True).threshold
    return Compared(
        comparison=comparison,
        against=comparison,
        kept=(everything, everything),
        extreme=nothing,
        slow=slow_runs(-differences, differences, threshold),
        lost_by_chance=nothing,
        gained_by_chance=nothing,
        run_sd=comparison.standard_error * np.sqrt(differences.shape[-1]),
    )


def _runs(rule: TimeRule, before: Floats, after: Floats) -> Compared:
    found = rule.keep(before, after)
    kept = (found.flags[0], found.flags[1])
    one, other = SideSums.of(before, kept[0]), SideSums.of(after, kept[1])
    if rule.plan.is_ab_run:
        comparison = against = in_ab_run(one, other)
    else:
        occasions = passing = rule.occasions(before, kept[0])
        if rule.plan.fails:
            passing = replace(occasions, sd=np.maximum(occasions.sd, rule.spec.occasion_sd))
        prior_sd = rule.spec.prior_sd
        comparison = against = with_stored(one, other, prior_sd=prior_sd, occasions=passing)
        if rule.plan.fails:
            against = beyond_stored(one, other, occasions=occasions)
    between = np.asarray(one.mean / 2 + other.mean / 2)
    return Compared(
        comparison=comparison,
        against=against,
        kept=kept,
        extreme=found.any_extreme,
        slow=slow_runs(before, after, np.median(before, axis=-1) + found.threshold),
        lost_by_chance=may_be_chance(before, after, kept, between=between),
        gained_by_chance=may_be_chance(after, before, (kept[1], kept[0]), between=between),
        run_sd=np.sqrt(np.maximum(other.variance, variance_of(one, other)[0])),
    )
