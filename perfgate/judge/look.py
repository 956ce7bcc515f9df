"""What one time metric comes to at one look.

`look_at` takes the runs of one gate or of many at once: `benchmarks/decision` simulates with it.
Formulas and their sources, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from perfgate.judge.compare import (
    Comparison,
    Flags,
    Floats,
    SideSums,
    beyond_stored,
    compared,
    in_blocks,
    of_occasions,
    variance_of,
)
from perfgate.judge.looks import FEWEST_WITH_EXTREMES, PASS_CONFIDENCE
from perfgate.judge.outliers import Sides, Slow, hides_nothing, may_be_chance, slow_runs
from perfgate.judge.times import TimeRule
from perfgate.model.verdict import Stage

COSTLESS_CONFIDENCE: Final = 0.9975
"""Of the step's upper bound, below which idle time costs nothing: another way to pass, which may be
wrong a tenth as often as the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What runs of a stage come to before they are held against a budget; one value a gate."""

    comparison: Comparison
    """By which it passes."""
    against: Comparison
    """By which it fails."""
    kept: tuple[Flags, Flags]
    slow: Slow
    middle: Floats
    """Between the means of both sides."""
    run_sd: Floats
    """Of kept runs: of both sides together, or of the candidate's own where that is more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What the runs so far say of one time metric; arrays of one value a gate."""

    compared: Compared
    slow: Slow
    """Those of the stages so far."""
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


def as_today(blessed: Floats, there: Floats) -> Floats:
    """Blessed runs as they would be today, by what the other commit's take longer now."""
    now, then = (np.median(side, axis=-1, keepdims=True) for side in (there, blessed))
    return blessed + np.maximum(now - then, 0.0)


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
    plan, limit, runs = rule.plan, rule.limit, sides[1].shape[-1]
    found = _pairs(rule, *sides) if plan.in_pairs else _runs(rule, *sides)
    comparison, against, slow = found.comparison, found.against, found.slow
    if alone is not None:
        there, here = slow_runs(alone, rule.keep(*alone).threshold)
        slow = np.concatenate((there, slow[0]), axis=-1), np.concatenate((here, slow[1]), axis=-1)
    within = comparison.upper(plan.pass_confidence(runs)) < limit
    lost_by_chance = may_be_chance(sides, found.kept, between=found.middle)
    gained_by_chance = may_be_chance(sides[::-1], found.kept[::-1], between=found.middle)
    too_good = gained_by_chance & (comparison.estimate < -limit)
    passes = within & hides_nothing(slow, chance=plan.slow_chance if is_last else None) & ~too_good
    costs_nothing = ~passes & bool(periods)
    for one in periods:
        longest = one.compared.comparison.upper(COSTLESS_CONFIDENCE)
        costs_nothing = costs_nothing & one.passes & (longest < np.log1p(limit))
    within, passes = within | costs_nothing, passes | costs_nothing
    can_lose = ~within & ~lost_by_chance & (against.estimate > rule.least_loss)
    if periods and not is_last:  # the next look may show that it costs nothing
        can_lose &= ~np.all([one.within for one in periods], axis=0)
    if plan.stage is Stage.AB_RUN and runs < FEWEST_WITH_EXTREMES:
        for flags in (*found.kept, *(() if screened is None else rule.keep(*screened).flags)):
            can_lose &= np.all(flags, axis=-1)
    can_lose &= plan.may_fail(runs)
    p_slower = against.p_value(slower=True)
    level, is_loss = np.where(can_lose, p_slower / plan.alpha, np.inf), p_slower <= rule.loss_alpha
    is_gain = comparison.p_value(slower=False) <= rule.loss_alpha
    return Look(
        compared=found,
        slow=slow,
        within=within,
        by_chance=too_good | (~within & lost_by_chance & is_loss),
        passes=passes,
        costs_nothing=costs_nothing,
        loses=level * rule.shares <= 1,
        gains=passes & is_gain & (comparison.lower(PASS_CONFIDENCE) < -limit),
        level=level,
    )


def _pairs(rule: TimeRule, before: Floats, after: Floats) -> Compared:
    """Of pairs of blocks, of which nothing is dropped."""
    differences = after - before
    comparison = in_blocks(differences, prior_sd=rule.spec.block_sd)
    everything = np.ones_like(differences, dtype=np.bool_)
    threshold = rule.keep(differences, in_pairs=True).threshold[..., None]
    return Compared(
        comparison=comparison,
        against=comparison,
        kept=(everything, everything),
        slow=(-differences > threshold, differences > threshold),
        middle=np.zeros_like(comparison.estimate),
        run_sd=comparison.standard_error * np.sqrt(differences.shape[-1]),
    )


def _runs(rule: TimeRule, before: Floats, after: Floats) -> Compared:
    found = rule.keep(before, after)
    kept = (found.flags[0], found.flags[1])
    one, other = SideSums.of(before, kept[0]), SideSums.of(after, kept[1])
    if rule.plan.is_ab_run:
        comparison = against = compared(one, other)
    else:
        tau, tau_df = rule.tau(before, kept[0])
        occasions = len(rule.occasion_runs)
        passing = np.maximum(tau, rule.spec.occasion_sd) if rule.plan.fails else tau
        comparison = against = compared(
            one,
            other,
            prior_sd=rule.spec.prior_sd,
            between=of_occasions(passing, occasions),
        )
        if rule.plan.fails:
            against = beyond_stored(
                one, other, between=of_occasions(tau, occasions), between_df=tau_df
            )
    return Compared(
        comparison=comparison,
        against=against,
        kept=kept,
        slow=slow_runs((before, after), found.threshold),
        middle=one.mean / 2 + other.mean / 2,
        run_sd=np.sqrt(np.maximum(other.variance, variance_of(one, other)[0])),
    )
