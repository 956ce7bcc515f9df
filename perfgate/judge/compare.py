"""Compares two sets of runs: estimate, standard error, p and bounds; knows no metric and no budget.

Every function takes one gate, values of shape (runs,), or many, shape (gates, runs), and a flag for
each run that is kept. Formulas and their sources, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PRIOR_DF = 2.0
"""What a prior SD weighs, in degrees of freedom: d0."""
FLOOR_SD = 0.0005
"""No run-to-run SD is believed to be below 0.05 %: three equal runs do not look certain."""
_FLOOR = FLOOR_SD * FLOOR_SD
_LEAST_DF, _MOST_DF = 1e-3, 1e9
"""Within these the quantile functions keep their footing; with the least, nothing is ever shown."""


def special() -> ModuleType:
    """SciPy's Student's t and binomial coefficients, loaded by the first number that needs them."""
    from scipy import special as functions  # noqa: PLC0415 - a quarter of a gate's start

    return functions


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidate minus baseline, and how uncertain it is; arrays of one number a gate."""

    estimate: Floats
    standard_error: Floats
    """Above zero, thanks to the SD floor."""
    df: Floats
    """Degrees of freedom of `standard_error`."""

    def margin(self, confidence: float) -> Floats:
        """Half a width: a one-sided bound at `confidence` (0.5-1) lies this far from the
        estimate.
        """
        df = np.clip(self.df, _LEAST_DF, _MOST_DF)
        return np.asarray(special().stdtrit(df, confidence) * self.standard_error)

    def upper(self, confidence: float) -> Floats:
        """One-sided upper bound."""
        return self.estimate + self.margin(confidence)

    def lower(self, confidence: float) -> Floats:
        """One-sided lower bound."""
        return self.estimate - self.margin(confidence)

    def p_value(self, *, slower: bool) -> Floats:
        """One-sided p-value of the change being above zero, or below it."""
        towards = -self.estimate if slower else self.estimate
        df = np.clip(self.df, _LEAST_DF, _MOST_DF)
        return np.asarray(special().stdtr(df, towards / self.standard_error))


@dataclass(frozen=True, kw_only=True, slots=True)
class Learnt:
    """What else is known of a machine's occasions."""

    squares: Floats | float = 0.0
    """Sum of (S - 1) tau_hat^2."""
    df: float = 0.0
    """Sum of S - 1."""

    def __add__(self, more: Learnt) -> Learnt:
        """Both, pooled."""
        return Learnt(squares=self.squares + more.squares, df=self.df + more.df)


@dataclass(frozen=True, kw_only=True, slots=True)
class SideSums:
    """The kept runs of one side."""

    mean: Floats
    squares: Floats
    """Sum of the squared distances from the mean."""
    runs: Floats

    @classmethod
    def of(cls, values: Floats, kept: Flags) -> SideSums:
        """Sum up, in an order that does not depend on that of the runs."""
        order = np.argsort(values, axis=-1)
        values = np.take_along_axis(values, order, axis=-1)
        kept = np.take_along_axis(kept, order, axis=-1)
        runs = kept.sum(axis=-1).astype(np.float64)
        mean = np.where(kept, values, 0.0).sum(axis=-1) / runs
        away = np.where(kept, values - mean[..., None], 0.0)
        return cls(mean=mean, squares=np.square(away).sum(axis=-1), runs=runs)

    @property
    def variance(self) -> Floats:
        """Of its runs, without a floor; 0 of a single one."""
        return self.squares / np.maximum(self.runs - 1, 1)


def variance_of(*sides: SideSums, prior_sd: float | None = None) -> tuple[Floats, Floats]:
    """Return v of a run, pooled over sides, and its degrees of freedom.

    v = (d0 s0^2 + SS)/(d0 + n - G), n runs of G sides (Smyth 2004); without a prior d0 is 0.
    """
    weight = 0.0 if prior_sd is None else PRIOR_DF
    df = weight + np.asarray(sum(side.runs - 1 for side in sides))
    squares = weight * (prior_sd or 0.0) ** 2 + sum(side.squares for side in sides)
    return np.maximum(squares / np.maximum(df, 1), _FLOOR), df


def compared(
    before: SideSums,
    after: SideSums,
    *,
    prior_sd: float | None = None,
    between: Floats | float = 0.0,
) -> Comparison:
    """Compare two sides by a pooled v: SE^2 = v (1/nb + 1/nc), and what lies `between` occasions.

    An A/B run takes neither a prior nor occasions; stored runs, to pass, take both.
    """
    variance, df = variance_of(before, after, prior_sd=prior_sd)
    of_runs = variance * (1 / before.runs + 1 / after.runs)
    return with_known(after.mean - before.mean, of_runs, df, between=between)


def in_blocks(differences: Floats, *, prior_sd: float) -> Comparison:
    """Compare pairs of blocks by their differences, candidate minus baseline: a paired t.

    SE^2 = v/n. What both sides of a pair share falls out.
    """
    pairs = SideSums.of(differences, np.ones_like(differences, dtype=np.bool_))
    variance, df = variance_of(pairs, prior_sd=prior_sd)
    return with_known(pairs.mean, variance / pairs.runs, df)


def with_known(
    estimate: Floats, of_runs: Floats, df: Floats, *, between: Floats | float = 0.0
) -> Comparison:
    """Add to SE^2 `of_runs`, of `df` degrees of freedom, what is taken as known.

    Degrees of freedom by Satterthwaite (1946), infinite for what is known.
    """
    total = of_runs + between
    return Comparison(estimate, np.sqrt(total), df * np.square(total / of_runs))


def beyond_stored(
    before: SideSums, after: SideSums, *, between: Floats, between_df: float
) -> Comparison:
    """Compare with stored runs, to fail: each side's own v without a prior (Welch 1947), and tau as
    well as it is known.

    Degrees of freedom by Satterthwaite (1946); no more than the candidate's own runs have, since
    few runs that happen to lie close would else be taken at their word.
    """
    own, others = (np.maximum(side.variance, _FLOOR) / side.runs for side in (before, after))
    least, most = (np.maximum(side.runs - 1, _LEAST_DF) for side in (before, after))
    total = own + others + between
    inverse = sum(
        np.square(part / total) / df
        for part, df in ((own, least), (others, most), (between, between_df))
    )
    return Comparison(after.mean - before.mean, np.sqrt(total), np.minimum(1 / inverse, most))


def of_occasions(tau: Floats | float, occasions: int) -> Floats:
    """What the occasions of a baseline, and today's, add to SE^2: tau^2 (1 + 1/S)."""
    return np.square(tau) * (1 + 1 / occasions)


def between_occasions(values: Floats, kept: Flags, runs: Sequence[int]) -> tuple[Floats, Floats]:
    """Return tau_hat^2 = (MSB - MSW)/n0, at least 0, and MSW: variances between and within
    occasions.

    By the method of moments for groups of unequal size (Searle, Casella and McCulloch 1992, 3.6).
    `values` are blessed ones, occasion after occasion, `runs` how many each has; of them the `kept`
    ones count, of an occasion that has none of these all. Over one occasion tau_hat is 0.
    """
    ends, free = np.cumsum(runs)[:-1], len(runs) - 1
    groups = [
        SideSums.of(group, flags | ~np.any(flags, axis=-1, keepdims=True))
        for group, flags in zip(
            np.split(values, ends, axis=-1), np.split(kept, ends, axis=-1), strict=True
        )
    ]
    sizes = np.stack([group.runs for group in groups], axis=-1)
    means = np.stack([group.mean for group in groups], axis=-1)
    total = sizes.sum(axis=-1)
    within = sum(group.squares for group in groups) / np.maximum(total - len(runs), 1)
    if free == 0:
        return np.zeros_like(within), within
    middle_of_all = (sizes * means).sum(axis=-1) / total
    between = (sizes * np.square(means - middle_of_all[..., None])).sum(axis=-1) / free
    of_one = (total - np.square(sizes).sum(axis=-1) / total) / free
    return np.maximum((between - within) / of_one, 0.0), within


def middle(values: Iterable[float]) -> float:
    """Return the median of at least one value; finite wherever the values are."""
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return low if low == high else low / 2 + high / 2
