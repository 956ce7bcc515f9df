"""Outliers, chance mixes of two modes, and slow runs: what lies too far from its own side's median;
knows no metric.

As in `compare`: one gate, values of shape (runs,), or many, shape (gates, runs). Formulas and their
sources, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.judge.compare import PRIOR_DF, Flags, Floats, special

Counts = NDArray[np.int64]
Sides = tuple[Floats, Floats]
"""x of the other side's runs, and of the candidate's."""
Slow = tuple[Flags, Flags]
"""Which runs of either side are slow."""

_SCALES = 5.0
_BUDGETS = 2.0
_MOST = 0.5
"""Of a side's runs, more than which must be near its median for the others to be outliers."""
_CHANCE = 0.0025
"""How often a look may call a chance mix of two modes a loss."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """Which runs are kept; the others are extreme."""

    flags: tuple[Flags, ...]
    """Side by side."""
    threshold: Floats
    """Farther than this from the median of its side a run is extreme."""


def keep(sides: Sequence[Floats], *, prior_sd: float, budget: Floats | float) -> Kept:
    """Mark the runs to keep: those within r <= max(5 scale, 2 D), r = |x - median of their own
    side|.

    scale^2 = (d0 s0^2 + nu s_mad^2)/(d0 + nu), s_mad = 1.4826 median(r) N/(N - 0.9 G) (Hampel 1974,
    with the correction for few values of Croux and Rousseeuw 1992), nu = 0.4 max(N - G, 1); N runs
    of G sides. A side of which half or more lies beyond is kept as it is: these are no outliers.
    """
    away = [np.abs(side - np.median(side, axis=-1, keepdims=True)) for side in sides]
    runs, groups = sum(side.shape[-1] for side in sides), len(sides)
    mad = 1.4826 * np.median(np.concatenate(away, axis=-1), axis=-1) * runs / (runs - 0.9 * groups)
    df = 0.4 * max(runs - groups, 1)
    scale = np.sqrt((PRIOR_DF * prior_sd**2 + df * np.square(mad)) / (PRIOR_DF + df))
    threshold = np.maximum(_SCALES * scale, _BUDGETS * budget)
    near = [distance <= threshold[..., None] for distance in away]
    flags = tuple(flags | ~(np.mean(flags, axis=-1, keepdims=True) > _MOST) for flags in near)
    return Kept(flags=flags, threshold=threshold)


def may_be_chance(sides: Sides, kept: tuple[Flags, Flags], *, between: Floats) -> Flags:
    """Whether the second side may only have met the slower of two modes more often than the first,
    by chance.

    Where extreme runs lie on the other side's side of `between`, the middle of both means: Fisher's
    exact test of how many runs keep to their own side, one-sided.
    """
    fast, slow = sides
    mid, runs = between[..., None], slow.shape[-1]
    strayed = np.sum(~kept[0] & (fast > mid), axis=-1)
    stayed = runs - np.sum(~kept[1] & (slow < mid), axis=-1)
    mixed = (strayed > 0) | (stayed < runs)
    chance = as_many_by_chance(stayed, strayed, runs, fast.shape[-1])
    return np.asarray(mixed & (chance > _CHANCE))


def slow_runs(sides: Sides, threshold: Floats) -> Slow:
    """Mark the runs of either side that lie above the other side's median by more than this."""
    limit = np.median(sides[0], axis=-1, keepdims=True) + threshold[..., None]
    return sides[0] > limit, sides[1] > limit


def hides_nothing(slow: Slow, *, chance: float | None) -> Flags:
    """Whether the candidate has no more slow runs than the other side, run for run, or, at a
    `chance`, but for that (Fisher's exact test)."""
    there, here = (np.sum(flags, axis=-1) for flags in slow)
    others, runs = (flags.shape[-1] for flags in slow)
    no_more: Flags = here * others <= there * runs
    if chance is not None:
        no_more = no_more | (as_many_by_chance(here, there, runs, others) > chance)
    return no_more


def as_many_by_chance(here: Counts, there: Counts, runs: int, others: int) -> Floats:
    """How probable it is that chance puts `here` or more of all `here + there` such runs among
    these `runs`, and the rest among the `others` (hypergeometric)."""
    number, such = np.arange(runs + 1), (here + there)[..., None]
    comb = special().comb
    ways = comb(such, number) * comb(runs + others - such, runs - number)
    as_many = np.where(number >= (here)[..., None], ways, 0.0)
    return np.asarray(as_many.sum(axis=-1) / comb(runs + others, runs))
