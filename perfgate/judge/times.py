"""Judges one time metric at one look; of other metrics it knows only how many share alpha.

`look_at` takes the runs of one gate or of many at once: `benchmarks/decision` simulates with it.
Formulas and their sources, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from perfgate.judge.compare import (
    NOTHING_LEARNT,
    Comparison,
    Flags,
    Floats,
    Learnt,
    Occasions,
    Side,
    beyond_stored,
    in_ab_run,
    in_blocks,
    occasions_of,
    with_stored,
)
from perfgate.judge.looks import FEWEST_WITH_EXTREMES, PASS_CONFIDENCE, STORED_PLAN, Plan
from perfgate.judge.outliers import Slow, keep, may_be_chance, slow_pairs, slow_runs
from perfgate.model.metric import Basis, Metric
from perfgate.model.verdict import Stage

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
    learnt: Learnt = NOTHING_LEARNT
    """What other workloads of the machine say of its occasions."""
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
        found = occasions_of(
            before,
            kept,
            self.occasion_runs,
            default_sd=self.occasion_sd,
            learnt=self.learnt,
        )
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
    """Of a loss: p over alpha, at most 1 over all that share it where it is shown; else infinite.

    What is shown to be within budget is no loss, clear as it may be that something got slower.
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
    """Judge runs: `before` of the baseline, or of each pair's other side, `after` of the candidate.

    Args:
        rule: how; its plan says what they are.
        before: x of each run, shape (runs,) or (gates, runs).
        after: the same of the candidate.
        is_last: whether no further look is to come.
        slow_before: slow runs of an earlier stage of this gate.
        extreme_before: whether a run of that stage was extreme.
    """
    plan, limit, runs = rule.plan, rule.limit, after.shape[-1]
    seen = _pairs(rule, after - before) if plan.in_pairs else _runs(rule, before, after)
    comparison, against = seen.comparison, seen.against
    slow = seen.slow if slow_before is None else slow_before + seen.slow
    within = comparison.upper(PASS_CONFIDENCE) < limit
    too_good = seen.gained_by_chance & (comparison.estimate < -limit)
    passes = within & slow.hides_nothing(chance=plan.slow_chance if is_last else None) & ~too_good
    can_lose = ~within & ~seen.lost_by_chance & (against.estimate > rule.least_loss)
    if plan.stage is Stage.AB_RUN and runs < FEWEST_WITH_EXTREMES:
        can_lose &= ~(seen.extreme | extreme_before)
    can_lose &= plan.fails and runs >= plan.fewest_to_fail
    level = np.where(can_lose, against.p_slower / plan.alpha, np.inf)
    is_loss = against.p_slower <= rule.loss_alpha
    is_gain = comparison.p_faster <= rule.loss_alpha
    return Look(
        comparison=comparison,
        against=against,
        kept=seen.kept,
        extreme=seen.extreme,
        slow=slow,
        within=np.asarray(within),
        by_chance=np.asarray(too_good | (~within & seen.lost_by_chance & is_loss)),
        passes=np.asarray(passes),
        loses=np.asarray(level * rule.shares <= 1),
        gains=np.asarray(passes & is_gain & (comparison.lower(PASS_CONFIDENCE) < -limit)),
        run_sd=seen.run_sd,
        level=level,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """What runs of a stage come to before they are held against a budget."""

    comparison: Comparison
    against: Comparison
    kept: tuple[Flags, Flags]
    extreme: Flags
    slow: Slow
    lost_by_chance: Flags
    gained_by_chance: Flags
    run_sd: Floats


def _pairs(rule: TimeRule, differences: Floats) -> _Seen:
    """Of pairs of blocks, of which nothing is dropped."""
    comparison = in_blocks(differences, prior_sd=rule.block_sd)
    everything = np.ones_like(differences, dtype=np.bool_)
    nothing = np.zeros(differences.shape[:-1], dtype=np.bool_)
    threshold = keep((differences,), prior_sd=rule.block_sd, budget=rule.limit).threshold
    return _Seen(
        comparison=comparison,
        against=comparison,
        kept=(everything, everything),
        extreme=nothing,
        slow=slow_pairs(differences, threshold),
        lost_by_chance=nothing,
        gained_by_chance=nothing,
        run_sd=comparison.run_sd,
    )


def _runs(rule: TimeRule, before: Floats, after: Floats) -> _Seen:
    found = keep((before, after), prior_sd=rule.prior_sd, budget=rule.limit)
    kept = (found.flags[0], found.flags[1])
    one, other = Side.of(before, kept[0]), Side.of(after, kept[1])
    comparison, against = _compared(rule, before, kept[0], one, other)
    between = np.asarray(one.mean / 2 + other.mean / 2)
    own = np.sqrt(other.squares / np.maximum(other.runs - 1, 1))
    return _Seen(
        comparison=comparison,
        against=against,
        kept=kept,
        extreme=found.any_extreme,
        slow=slow_runs(before, after, found.threshold),
        lost_by_chance=may_be_chance(before, after, kept, between=between),
        gained_by_chance=may_be_chance(after, before, (kept[1], kept[0]), between=between),
        run_sd=np.maximum(own, in_ab_run(one, other).run_sd),
    )


def _compared(
    rule: TimeRule, before: Floats, kept: Flags, one: Side, other: Side
) -> tuple[Comparison, Comparison]:
    """Return what passes and what fails: the same in an A/B run, and at the screen."""
    if rule.plan.stage is Stage.AB_RUN:
        pooled = in_ab_run(one, other)
        return pooled, pooled
    occasions = rule.occasions(before, kept)
    if not rule.plan.fails:
        screened = with_stored(one, other, prior_sd=rule.prior_sd, occasions=occasions)
        return screened, screened
    at_least = replace(occasions, sd=np.maximum(occasions.sd, rule.occasion_sd))
    return (
        with_stored(one, other, prior_sd=rule.prior_sd, occasions=at_least),
        beyond_stored(one, other, occasions=occasions),
    )


def in_basis(values: Floats, basis: Basis, reference: Floats | float) -> Floats:
    """Turn times into x: log(ms over the baseline's median), or ms over its median step.

    As the log of a ratio: scaling all times then changes no bit of what follows.
    """
    with np.errstate(all="ignore"):
        match basis:
            case Basis.LOG:
                return np.asarray(np.log(values / reference))
            case Basis.STEP:
                return np.asarray(values / reference)
            case _:
                assert_never(basis)
