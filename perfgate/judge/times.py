"""Judges one time metric at one look; knows no count, and of other metrics only how many share alpha.

`look_at` takes the runs of one gate or of many at once: `benchmarks/decision` simulates with the very same function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from scipy.special import stdtrit

from perfgate.judge.compare import (
    LARGEST,
    Comparison,
    Flags,
    Floats,
    Occasions,
    Side,
    beyond_stored,
    in_ab_run,
    in_blocks,
    middle,
    occasions_of,
    with_stored,
)
from perfgate.judge.looks import FEWEST_WITH_EXTREMES, PASS_CONFIDENCE, STORED_PLAN, Plan
from perfgate.judge.outliers import Slow, keep, may_be_chance, slow_pairs, slow_runs
from perfgate.judge.words import milliseconds, told_change
from perfgate.model.metric import Basis, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Dropped, MetricVerdict, Stage
from perfgate.model.words import plural

BASELINE_SIDE = "baseline"
CANDIDATE_SIDE = "candidate"
PART_OF_STEP = 0.1
"""Of the step's budget: what any one time metric may lose of a step."""
_FARTHEST_LOG = 700.0
"""exp() of more than this is no double."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeRule:
    """How one time metric of one gate is judged; all fractions in `basis`."""

    metric: Metric
    basis: Basis
    budget: float
    prior_sd: float
    """Of runs, s0."""
    occasion_sd: float
    """tau0, what occasions differ by where nothing is known."""
    block_sd: float
    """Of pairs of blocks."""
    least_loss: Floats | float = 0.0
    """A loss of so much fails nobody: of kernel time a tenth of what the step may lose."""
    occasion_runs: tuple[int, ...] = (1,)
    """How many of the baseline's runs each of its occasions has, in order."""
    known_occasions: tuple[float, float] | None = None
    """tau as `perfgate calibrate` measured it, and its degrees of freedom."""
    shares: int = 1
    """Among how many alpha is shared: time metrics times workloads."""
    plan: Plan = STORED_PLAN

    @property
    def loss_alpha(self) -> float:
        """What a p-value may be at most to show a loss at one look."""
        return self.plan.alpha / self.shares

    @property
    def limit(self) -> Floats:
        """What the upper bound must be below, on the scale of `x`: 2 % slower is log(1.02)."""
        return np.maximum(self.in_basis(self.budget), self.least_loss)

    def in_basis(self, fraction: float) -> float:
        """Turn a fraction into a difference of `x`."""
        return math.log1p(fraction) if self.basis is Basis.LOG else fraction

    def as_fraction(self, x: float) -> float:
        """Turn a difference of `x` into what is shown: log(1.02) is 2 % slower."""
        return math.expm1(min(x, _FARTHEST_LOG)) if self.basis is Basis.LOG else x

    def occasions(self, before: Floats, kept: Flags) -> Occasions:
        """What occasions differ by, by the runs that are kept."""
        found = occasions_of(before, kept, self.occasion_runs, default_sd=self.occasion_sd)
        if self.known_occasions is None or self.known_occasions[1] <= found.df:
            return found
        sd, df = self.known_occasions
        return Occasions(sd=np.full_like(found.sd, sd), df=df, number=found.number)


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What the runs so far say of one time metric; arrays of one value a gate."""

    comparison: Comparison
    """By which it passes."""
    against: Comparison
    """By which it fails."""
    kept: tuple[Flags, Flags]
    extreme: Flags
    """Whether a run of either side was dropped."""
    slow: Slow
    """Slow runs of the stages so far."""
    within: Flags
    """Whether it is shown to be within budget, but for slow runs."""
    by_chance: Flags
    """Whether it proves nothing, as two modes may have been met so by chance."""
    passes: Flags
    loses: Flags
    gains: Flags
    run_sd: Floats
    """Of kept runs: of both sides together, or of the candidate's own where that is more."""
    level: Floats
    """Of a loss: p over alpha, at most 1 over all that share it where the loss is shown; infinite where there is none.

    What is shown to be within budget is none, clear as it may be that something got slower.
    """


def look_at(
    rule: TimeRule,
    before: Floats,
    after: Floats,
    *,
    is_last: bool,
    slow_before: Slow | None = None,
    extreme_before: Flags | bool = False,
) -> Look:
    """Judge so many runs: `before` of the baseline, or of the other side of each pair, and `after` of the candidate.

    Args:
        rule: how; its plan says what they are.
        before: x of each run, shape (runs,) or (gates, runs).
        after: the same of the candidate.
        is_last: whether no further look is to come.
        slow_before: slow runs of an earlier stage of this gate.
        extreme_before: whether a run of that stage was extreme.
    """
    plan, limit, runs = rule.plan, rule.limit, after.shape[-1]
    if plan.in_pairs:
        differences = after - before
        comparison = against = in_blocks(differences, prior_sd=rule.block_sd)
        everything = np.ones_like(differences, dtype=np.bool_)
        kept = (everything, everything)
        extreme = lost_by_chance = gained_by_chance = np.zeros(
            differences.shape[:-1], dtype=np.bool_
        )
        threshold = keep((differences,), prior_sd=rule.block_sd, budget=limit).threshold
        slow = slow_pairs(differences, threshold)
        run_sd = comparison.run_sd
    else:
        found = keep((before, after), prior_sd=rule.prior_sd, budget=limit)
        kept, extreme = (found.flags[0], found.flags[1]), found.any_extreme
        sides = Side.of(before, kept[0]), Side.of(after, kept[1])
        comparison, against = _compared(rule, before, kept[0], *sides)
        between = np.asarray(sides[0].mean / 2 + sides[1].mean / 2)
        lost_by_chance = may_be_chance(before, after, kept, between=between)
        gained_by_chance = may_be_chance(after, before, (kept[1], kept[0]), between=between)
        slow = slow_runs(before, after, found.threshold)
        own = np.sqrt(sides[1].squares / np.maximum(sides[1].runs - 1, 1))
        run_sd = np.maximum(own, in_ab_run(*sides).run_sd)
    slow = slow if slow_before is None else slow_before + slow
    within = comparison.upper(PASS_CONFIDENCE) < limit
    too_good = gained_by_chance & (comparison.estimate < -limit)
    passes = within & slow.hides_nothing(chance=plan.slow_chance if is_last else None) & ~too_good
    can_lose = ~within & ~lost_by_chance & (against.estimate > rule.least_loss) & plan.fails
    if plan.stage is Stage.DUET and runs < FEWEST_WITH_EXTREMES:
        can_lose &= ~(extreme | extreme_before)
    if runs < plan.fewest_to_fail:
        can_lose &= False
    level = np.where(can_lose, against.p_slower / plan.alpha, np.inf)
    gains = (
        passes
        & (comparison.p_faster <= rule.loss_alpha)
        & (comparison.lower(PASS_CONFIDENCE) < -limit)
    )
    return Look(
        comparison=comparison,
        against=against,
        kept=kept,
        extreme=extreme,
        slow=slow,
        within=np.asarray(within),
        by_chance=np.asarray(
            too_good | (~within & lost_by_chance & (against.p_slower <= rule.loss_alpha))
        ),
        passes=np.asarray(passes),
        loses=np.asarray(level * rule.shares <= 1),
        gains=np.asarray(gains),
        run_sd=run_sd,
        level=level,
    )


def _compared(
    rule: TimeRule, before: Floats, kept: Flags, one: Side, other: Side
) -> tuple[Comparison, Comparison]:
    if rule.plan.stage is Stage.DUET:
        return (pooled := in_ab_run(one, other)), pooled
    occasions = rule.occasions(before, kept)
    if rule.plan.stage is Stage.SCREEN:
        return (
            screened := with_stored(one, other, prior_sd=rule.prior_sd, occasions=occasions)
        ), screened
    at_least = Occasions(
        sd=np.maximum(occasions.sd, rule.occasion_sd), df=occasions.df, number=occasions.number
    )
    return (
        with_stored(one, other, prior_sd=rule.prior_sd, occasions=at_least),
        beyond_stored(one, other, occasions=occasions),
    )


# One gate, as a row of its verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeJudgement:
    """One time metric's row, the runs dropped for it, and the look behind it."""

    row: MetricVerdict
    rule: TimeRule
    dropped: tuple[Dropped, ...] = ()
    look: Look | None = None
    """None where zeros or the size of the numbers left nothing to compare."""
    is_last: bool = False

    @property
    def level(self) -> float | None:
        """Of the clearest loss, where there is one: at most 1 over all that share alpha, and it is shown."""
        if self.look is None or not np.isfinite(self.look.level):
            return None
        return float(self.look.level)

    @property
    def by_chance(self) -> bool:
        """Whether it proves nothing, as two modes may have been met so by chance."""
        return self.look is not None and bool(self.look.by_chance)

    @property
    def slow(self) -> Slow | None:
        """The slow runs that keep it from passing; None where they do not."""
        if (
            self.look is None
            or not self.look.within
            or self.row.outcome is not Outcome.INCONCLUSIVE
        ):
            return None
        chance = self.rule.plan.slow_chance if self.is_last else None
        return None if self.look.slow.hides_nothing(chance=chance) else self.look.slow


def judge_time(
    rule: TimeRule,
    blessed: Sequence[float],
    now: Sequence[float],
    *,
    step_ms: float | None,
    why_no_step: str | None = None,
    is_last: bool = True,
    slow_before: Slow | None = None,
    extreme_before: bool = False,
) -> TimeJudgement:
    """Judge one time metric; both sides hold at least one value in ms, one per run.

    `step_ms` is the baseline's median step, which metrics on the step's basis are measured against; `why_no_step` says
    why the runs have none either. The rest is as `look_at` takes it.
    """
    if rule.plan.in_pairs and len(blessed) != len(now):
        return _incomparable(
            rule, blessed, now, Outcome.INCONCLUSIVE, "not every run has the other of its pair"
        )
    told = (
        _zeros(blessed, now, fewest=rule.plan.fewest_to_fail) if rule.basis is Basis.LOG else None
    )
    if told is not None:
        return _incomparable(rule, blessed, now, *told)
    if rule.basis is Basis.STEP and (step_ms is None or step_ms <= 0):
        reason = "the baseline holds no step time to measure it against"
        if why_no_step is not None:
            reason = f"neither side holds a step time to measure it against: {why_no_step}"
        return _incomparable(rule, blessed, now, Outcome.NOT_MEASURED, reason)
    reference = middle(blessed) if rule.basis is Basis.LOG else step_ms or math.nan
    before, after = (in_basis(np.asarray(side), rule.basis, reference) for side in (blessed, now))
    if not np.all(
        np.abs(np.concatenate([before, after])) < LARGEST
    ):  # so that a NaN is caught as well
        return _incomparable(
            rule, blessed, now, Outcome.INCONCLUSIVE, "its values lie too far apart to be compared"
        )
    look = look_at(
        rule, before, after, is_last=is_last, slow_before=slow_before, extreme_before=extreme_before
    )
    dropped = (
        *_dropped(rule, BASELINE_SIDE, before, look.kept[0]),
        *_dropped(rule, CANDIDATE_SIDE, after, look.kept[1]),
    )
    return TimeJudgement(
        row=_row(rule, look, blessed, now), rule=rule, dropped=dropped, look=look, is_last=is_last
    )


def in_basis(values: Floats, basis: Basis, reference: Floats | float) -> Floats:
    """Turn times into x: log(ms over the baseline's median), or ms over the baseline's median step.

    Against a reference, as the log of a ratio: scaling all times then changes no bit of what follows.
    """
    with np.errstate(all="ignore"):
        match basis:
            case Basis.LOG:
                return np.asarray(np.log(values / reference))
            case Basis.STEP:
                return np.asarray(values / reference)
            case _:
                assert_never(basis)


def _row(
    rule: TimeRule, look: Look, blessed: Sequence[float], now: Sequence[float]
) -> MetricVerdict:
    outcome = Outcome.INCONCLUSIVE
    if look.passes:
        outcome = Outcome.IMPROVED if look.gains else Outcome.PASSED
    elif look.loses:
        outcome = Outcome.REGRESSED
    comparison, against = look.comparison, look.against
    change = rule.as_fraction(float(comparison.estimate))
    low: float | None = rule.as_fraction(float(against.lower(1 - rule.loss_alpha)))
    high: float | None = rule.as_fraction(float(comparison.upper(PASS_CONFIDENCE)))
    if look.by_chance:
        low = high = None  # it does not decide
    smallest = max(float(np.max(rule.least_loss)), float(against.margin(1 - rule.loss_alpha)))
    return MetricVerdict(
        metric=rule.metric,
        outcome=outcome,
        baseline=_centre(blessed, look.kept[0], rule.basis),
        now=_centre(now, look.kept[1], rule.basis),
        basis=rule.basis,
        change=change,
        low=low,
        high=high,
        standard_error=float(against.standard_error),
        df=float(against.df),
        budget=rule.as_fraction(float(rule.limit)),
        p_value=float(against.p_slower),
        smallest=rule.as_fraction(smallest) if len(now) >= rule.plan.fewest_to_fail else None,
        reason=told_change(
            change, low, high, budget=rule.as_fraction(float(rule.limit)), basis=rule.basis
        ),
    )


def at_level(row: MetricVerdict, alpha: float) -> MetricVerdict:
    """The row with the lower end that shows a loss at this level."""
    if row.low is None or row.change is None or row.standard_error is None or row.df is None:
        return row
    margin = float(stdtrit(row.df, 1 - alpha)) * row.standard_error
    low = (
        math.expm1(math.log1p(row.change) - margin)
        if row.basis is Basis.LOG
        else row.change - margin
    )
    return row.model_copy(update={"low": low})


def _zeros(
    blessed: Sequence[float], now: Sequence[float], *, fewest: int
) -> tuple[Outcome, str] | None:
    """Judge what has no logarithm; None where every value has one. A loss takes `fewest` runs."""
    sides = (blessed, now)
    if all(value > 0 for side in sides for value in side):
        return None
    if all(value == 0 for side in sides for value in side):
        return Outcome.PASSED, "0 in every run, as in the baseline"
    if all(value == 0 for value in blessed) and all(value > 0 for value in now):
        rise = f"rose from 0 to {milliseconds(middle(now))} ms per step"
        return (Outcome.REGRESSED if len(now) >= fewest else Outcome.INCONCLUSIVE), rise
    if all(value > 0 for value in blessed) and all(value == 0 for value in now):
        # Not a gain: work that vanished from the capture is rather lost to the profiler than to the program.
        was = milliseconds(middle(blessed))
        return Outcome.NOT_MEASURED, f"{was} ms per step in the baseline, 0 in every run"
    told = [
        f"{sum(value <= 0 for value in side)} of {plural(len(side), name)}"
        for side, name in zip(sides, ("baseline run", "run"), strict=True)
        if any(value <= 0 for value in side)
    ]
    return (
        Outcome.INCONCLUSIVE,
        f"not above 0 in {' and '.join(told)}, which leaves no relative change to judge",
    )


def _incomparable(
    rule: TimeRule, blessed: Sequence[float], now: Sequence[float], outcome: Outcome, reason: str
) -> TimeJudgement:
    return TimeJudgement(
        row=MetricVerdict(
            metric=rule.metric,
            outcome=outcome,
            baseline=middle(blessed),
            now=middle(now),
            basis=rule.basis,
            budget=rule.budget,
            reason=reason,
        ),
        rule=rule,
    )


def _centre(values: Sequence[float], kept: Flags, basis: Basis) -> float:
    """Return what the estimate compares, in ms, so that a shown row adds up: geometric mean on a log basis."""
    sample = np.sort(np.asarray(values)[kept])
    scale = float(np.max(np.abs(sample))) or 1.0
    with np.errstate(all="ignore"):
        shares = sample / scale
        mean = np.exp(np.mean(np.log(shares))) if basis is Basis.LOG else np.mean(shares)
    return float(mean) * scale


def _dropped(rule: TimeRule, side: str, x: Floats, kept: Flags) -> tuple[Dropped, ...]:
    own = float(np.median(x))
    return tuple(
        Dropped(
            side=side,
            index=int(run),
            metric=rule.metric,
            distance=rule.as_fraction(float(x[run]) - own),
        )
        for run in np.flatnonzero(~kept)
    )
