"""Says which runs are gross outliers of their group, and which differences two modes could make; knows no metric.

Formulas and their sources, with all others: `.github/docs/decision.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.judge.compare import Floats, Prior

Flags = NDArray[np.bool_]

_SCALES = 5.0
_BUDGETS = 2.0
_FEWEST_OF_THEIR_OWN = 5
"""Runs of a group that can tell what they lie apart by themselves."""
_MOST_OF_ALL = 5
"""At most every fifth of all runs is set aside."""
_CHANCE = 0.005
"""What a look may spend of alpha, 1 %, on modes that fell so by chance: there are three or four."""
_MISSED = 0.025
"""How often a look may pass a loss: 1 - `PASS_CONFIDENCE`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """Which runs are kept, and how far they lie apart whatever the outliers among them."""

    flags: tuple[Flags, ...]
    """Group by group, shape (n,) each."""
    scale: float
    """The robust SD of a run, moderated by the prior (`_scale`)."""
    threshold: float
    """Farther than this from the median of its group a run is a gross outlier, unless that group is as wide itself."""
    crowded: bool
    """Whether a run beyond it had to be kept, since there were too many of them."""


def keep(groups: Sequence[Floats], *, prior: Prior, budget: float) -> Kept:
    """Mark the runs to keep, group by group; values and `budget` in the same basis.

    An outlier lies farther than max(5 scale, 2 budget) from the median of its group, and than 5 times the scale of a
    group of five runs or more: those of a host that is noisier than on the day of the blessing are none. At most a
    fifth of all runs is dropped, the farthest first, and never half a group: that is a mode, not an outlier.
    """
    flags = tuple(np.ones(len(group), dtype=np.bool_) for group in groups)
    away = [group - np.median(group) for group in groups]
    distance = np.abs(np.concatenate(away))
    scale = _scale(distance, groups=len(groups), prior=prior)
    threshold = max(_SCALES * scale, _BUDGETS * budget)
    flagged: list[tuple[float, float, int, int]] = []
    for index, group in enumerate(away):
        far = np.flatnonzero(np.abs(group) > max(threshold, _SCALES * _own_scale(group, prior=prior)))
        if 2 * len(far) < len(group):
            # The sign breaks ties between a fast and a slow run, so that the order of runs decides nothing.
            flagged += [(-abs(float(group[run])), -float(group[run]), index, int(run)) for run in far]
    for _, _, index, run in sorted(flagged)[: len(distance) // _MOST_OF_ALL]:
        flags[index][run] = False
    kept = np.concatenate(flags)
    return Kept(flags=flags, scale=scale, threshold=threshold, crowded=bool(np.any(distance[kept] > threshold)))


def more_by_chance(fast: Floats, slow: Floats, threshold: float, *, middle: float) -> bool:
    """Whether `slow` may only have met the slower of two modes more often by chance than `fast` did.

    A workload of two modes, on a core of two speeds for example, has both in either group, and the outlier rule may set
    the rarer one of each aside. So where gross outliers of a group, set aside or not, lie on the other's side of
    `middle`, runs must keep to their own side more often than chance would have it: Fisher's exact test, one-sided.
    """
    strayed = int(np.sum(_far(fast, threshold) & (fast > middle)))
    stayed = len(slow) - int(np.sum(_far(slow, threshold) & (slow < middle)))
    if not strayed and stayed == len(slow):
        return False
    chance = _share_as_uneven(stayed, of=len(slow), all_such=stayed + strayed, runs=len(fast) + len(slow))
    return chance > _CHANCE


def in_opposite_modes(slow: Floats, fast: Floats, threshold: float) -> bool:
    """Whether most of `slow` lies in the slower of two modes and most of `fast` in the faster, and each met the other.

    That is where a gross outlier of the one is as much faster than its group as one of the other is slower.
    """
    down, up = (group[_far(group, threshold)] - np.median(group) for group in (slow, fast))
    return bool(np.any(np.abs(down[down < 0][:, None] + up[up > 0]) <= threshold))


def hides_loss(before: Floats, after: Floats, threshold: float, *, budget: float) -> bool:
    """Whether `after` may be as fast as it is by having met the faster of two modes more often, and slower in each.

    ```
    before       f                    s s          f, s: the modes
    after            F F F                         F: between them, a loss against f and a gain against s
    ```
    So it is where `after` gained more than the budget, and its fast runs all lose more than that against the gross
    outliers among `before` that are faster, or its gross outliers that are slower do against all of `before`; unless
    the faster mode is met so often more in `after` that chance hardly would (Fisher's exact test, one-sided).
    """
    if np.median(after) >= np.median(before) - budget:
        return False
    faster = before[_far(before, threshold) & (before < np.median(before))]
    slower = after[_far(after, threshold) & (after > np.median(after))]
    lost_to_faster = len(faster) and np.min(after) > np.max(faster) + budget
    lost_in_slower = len(slower) and np.min(slower) > np.max(before) + budget
    if not (lost_to_faster or lost_in_slower):
        return False
    there = len(after) - len(slower)
    return _share_as_uneven(there, of=len(after), all_such=there + len(faster), runs=len(before) + len(after)) > _MISSED


def _share_as_uneven(there: int, *, of: int, all_such: int, runs: int) -> float:
    """How probable it is that a group of `of` among all `runs` has `there` or more of `all_such` (Fisher's test)."""
    as_uneven = sum(
        math.comb(all_such, number) * math.comb(runs - all_such, of - number)
        for number in range(there, min(all_such, of) + 1)
    )
    return as_uneven / math.comb(runs, of)


def _far(group: Floats, threshold: float) -> Flags:
    return np.abs(group - np.median(group)) > threshold


def _own_scale(away: Floats, *, prior: Prior) -> float:
    """Return what the runs of one group lie apart by; 0 of few runs."""
    return 0.0 if len(away) < _FEWEST_OF_THEIR_OWN else _scale(np.abs(away), groups=1, prior=prior)


def _scale(distance: Floats, *, groups: int, prior: Prior) -> float:
    """Return what N runs lie apart by, of their distances r from the medians of their G groups.

    mad = 1.4826 median(r) N / (N - 0.9 G), the SD of normal values (Hampel 1974) with a correction for few of them, as
    Croux and Rousseeuw (1992) have; its df = 0.4 max(N - G, 1), as it is 37 % efficient. Moderated by the prior:
    scale^2 = (d0 s0^2 + df mad^2) / (d0 + df).
    """
    runs = len(distance)
    mad = 1.4826 * float(np.median(distance)) * runs / (runs - 0.9 * groups)
    df = 0.4 * max(runs - groups, 1)
    variance = (prior.df * prior.sd * prior.sd + df * mad * mad) / (prior.df + df)
    return math.sqrt(variance)
