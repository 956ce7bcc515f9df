"""Judges one time metric at one look; of other metrics it knows only how many share alpha.

`look_at` takes the runs of one gate or of many at once: `benchmarks/decision` simulates with it.
Formulas and their sources, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfgate.judge.compare import (
    Comparison,
    Flags,
    Floats,
    SideSums,
    beyond_stored,
    in_ab_run,
    in_blocks,
    variance_of,
    with_stored,
)
from perfgate.judge.looks import FEWEST_WITH_EXTREMES, PASS_CONFIDENCE
from perfgate.judge.outliers import Slow, keep, may_be_chance, slow_runs
from perfgate.judge.rule import TimeRule
from perfgate.model.verdict import Stage


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
    loses: Flags
    gains: Flags
    level: Floats
    """Of a loss: p over alpha, at most 1 over all that share it where it is shown; else infinite.

    What is shown to be within budget is no loss, clear as it may be that something got slower.
    """


Sides = tuple[Floats, Floats]
"""x of the other side's runs, and of the candidate's."""


def look_at(
    rule: TimeRule,
    sides: Sides,
    *,
    is_last: bool,
    alone: Sides | None = None,
    screened: Sides | None = None,
) -> Look:
    """Judge runs.

    Args:
        rule: how; its plan says what they are.
        sides: runs of the baseline, or of each pair's other side, and of the candidate.
        is_last: whether no further look is to come.
        alone: of an A/B run, the candidate's runs made alone before it, next to what is usual:
            slow ones still count.
        screened: the same next to blessed runs: any that is extreme puts off a loss.
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
    within = comparison.upper(PASS_CONFIDENCE) < limit
    too_good = found.gained_by_chance & (comparison.estimate < -limit)
    passes = within & slow.hides_nothing(chance=plan.slow_chance if is_last else None) & ~too_good
    can_lose = ~within & ~found.lost_by_chance & (against.estimate > rule.least_loss)
    if plan.stage is Stage.AB_RUN and runs < FEWEST_WITH_EXTREMES:
        can_lose &= ~extreme
    can_lose &= plan.fails and runs >= plan.fewest_to_fail
    level = np.where(can_lose, against.p_slower / plan.alpha, np.inf)
    is_loss = against.p_slower <= rule.loss_alpha
    is_gain = comparison.p_faster <= rule.loss_alpha
    return Look(
        compared=found,
        slow=slow,
        within=np.asarray(within),
        by_chance=np.asarray(too_good | (~within & found.lost_by_chance & is_loss)),
        passes=np.asarray(passes),
        loses=np.asarray(level * rule.shares <= 1),
        gains=np.asarray(passes & is_gain & (comparison.lower(PASS_CONFIDENCE) < -limit)),
        level=level,
    )


def _pairs(rule: TimeRule, before: Floats, after: Floats) -> Compared:
    """Of pairs of blocks, of which nothing is dropped."""
    differences, prior_sd = after - before, rule.spec.block_sd
    comparison = in_blocks(differences, prior_sd=prior_sd)
    everything = np.ones_like(differences, dtype=np.bool_)
    nothing = np.zeros(differences.shape[:-1], dtype=np.bool_)
    threshold = keep((differences,), prior_sd=prior_sd, budget=rule.limit).threshold
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
