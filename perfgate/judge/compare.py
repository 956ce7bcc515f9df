"""Compares two sets of runs: estimate, standard error, p and bounds; knows no metric, no budget and no stage.

Formulas and their sources, with all others: `.github/docs/decision.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc, stdtr, stdtrit

Floats = NDArray[np.float64]

PRIOR_DF = 2.0
"""What the prior SD weighs, in degrees of freedom: d0."""
FLOOR_SD = 0.0005
"""No run-to-run SD is believed to be below 0.05 %: it keeps three equal runs from looking certain."""
LARGEST = 1e150
"""Values and SDs must stay below this, so that squares stay finite."""
_FEWEST_OCCASIONS = 3
"""Over fewer, a baseline tells next to nothing of what they differ by."""
_OCCASIONS_ALPHA = 0.05
"""How improbable its occasions must be for what is believed of them to be given up."""
_UNLIKE_ALPHA = 0.05
"""How improbable it must be that both sides' runs differ alike for each to have a variance of its own."""
_MOST_DF = 1e9
"""Student's t is the normal distribution long before this; beyond it the quantile functions lose their footing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prior:
    """What is believed of the run-to-run SD before the runs have spoken, and how many of them it weighs."""

    sd: float
    df: float = PRIOR_DF


@dataclass(frozen=True, kw_only=True, slots=True)
class Moderated:
    """A run-to-run SD and what the prior weighs in it: the less, the more the runs belie it (`run_sd_of`)."""

    sd: float
    prior_df: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Apart:
    """What runs differ by on each side, where they do not differ alike."""

    baseline: Moderated
    candidate: Moderated


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Candidate minus baseline, in the clock's basis, with what is known about its uncertainty.

    `standard_error` is above zero, thanks to the SD floor.
    """

    estimate: float
    run_sd: float
    """Run-to-run SD, moderated by the prior (`run_sd_of`), of both sides, or of the noisier where they are apart."""
    prior_df: float
    """What the prior weighs in `run_sd`: the less, the more the runs belie it."""
    baseline_runs: int
    candidate_runs: float
    """Runs kept, not runs measured; of a mean that rests on other values too, the runs that it is worth."""
    occasion_sd: float
    """SD between occasions; 0 where both sets were measured on the same ones, as in a duet."""
    occasions: int
    """Occasions that the baseline spans."""
    apart: Apart | None = None
    """Each side's own SD, where the side of fewer runs differs improbably more."""
    in_pairs: bool = False
    """Whether each candidate run was compared with the baseline run of its own pair."""

    @property
    def _run_variance(self) -> float:
        if self.apart is not None:
            return sum(self._parts(self.apart))
        return self.run_sd * self.run_sd * (1 / self.baseline_runs + 1 / self.candidate_runs)

    def _parts(self, apart: Apart) -> tuple[float, float]:
        sides = (apart.baseline.sd, self.baseline_runs), (apart.candidate.sd, self.candidate_runs)
        before, after = (sd * sd / runs for sd, runs in sides)
        return before, after

    @property
    def _occasion_variance(self) -> float:
        return self.occasion_sd * self.occasion_sd * (1 + 1 / self.occasions)

    @property
    def standard_error(self) -> float:
        """Of the estimate: SE^2 = v (1/nb + 1/nc) + tau^2 (1 + 1/S), S the baseline's occasions."""
        return math.sqrt(self._run_variance + self._occasion_variance)

    @property
    def occasion_share(self) -> float:
        """How much of the squared standard error lies between occasions, 0-1: no number of runs removes it."""
        return self._occasion_variance / (self._run_variance + self._occasion_variance)

    @property
    def df(self) -> float:
        """Degrees of freedom (Satterthwaite 1946): `run_df` times (SE^2 / (v (1/nb + 1/nc)))^2, tau is known."""
        ratio = (self._run_variance + self._occasion_variance) / self._run_variance
        return min(self.run_df * ratio * ratio, _MOST_DF)

    @property
    def p_slower(self) -> float:
        """One-sided p-value of the change being above zero."""
        return float(stdtr(self.df, -self.estimate / self.standard_error))

    @property
    def p_faster(self) -> float:
        """One-sided p-value of the change being below zero."""
        return float(stdtr(self.df, self.estimate / self.standard_error))

    @property
    def run_df(self) -> float:
        """Degrees of freedom of the runs' part of the standard error; Satterthwaite's where both sides are apart."""
        if self.in_pairs:
            return self.prior_df + self.candidate_runs - 1
        if self.apart is None:
            return self.prior_df + self.baseline_runs + self.candidate_runs - 2
        parts = self._parts(self.apart)
        own = (
            self.apart.baseline.prior_df + self.baseline_runs - 1,
            self.apart.candidate.prior_df + self.candidate_runs - 1,
        )
        return 1 / sum((part / sum(parts)) ** 2 / df for part, df in zip(parts, own, strict=True))

    def margin(self, confidence: float) -> float:
        """Half a width: a one-sided bound at `confidence` (0.5-1) lies this far from the estimate."""
        return float(stdtrit(self.df, confidence)) * self.standard_error

    def upper(self, confidence: float) -> float:
        """One-sided upper bound."""
        return self.estimate + self.margin(confidence)

    def lower(self, confidence: float) -> float:
        """One-sided lower bound."""
        return self.estimate - self.margin(confidence)

    def with_more_runs(self, more: int, *, of_baseline: int = 0) -> Comparison:
        """Return what so many more candidate runs would give if estimate and SD stayed as they are."""
        return replace(self, candidate_runs=self.candidate_runs + more, baseline_runs=self.baseline_runs + of_baseline)

    def of_other_means(self, *, baseline_runs: int, candidate_runs: float) -> Comparison:
        """Return it for means of other runs than those that told their SD, which keeps its degrees of freedom."""
        before, after = self.baseline_runs - baseline_runs, self.candidate_runs - candidate_runs
        apart = self.apart and Apart(
            baseline=replace(self.apart.baseline, prior_df=self.apart.baseline.prior_df + before),
            candidate=replace(self.apart.candidate, prior_df=self.apart.candidate.prior_df + after),
        )
        return replace(
            self,
            baseline_runs=baseline_runs,
            candidate_runs=candidate_runs,
            prior_df=self.prior_df + before + after,
            apart=apart,
        )


def run_sd_of(within: float, *, df: int, prior: Prior) -> Moderated:
    """Return the run-to-run SD of a squared sum `within` groups with `df` degrees of freedom, moderated by the prior.

    v = (d s0^2 + within) / (d + df), and d = d0, where the runs differ by no more than was believed before (Smyth
    2004). Where they differ by more, the prior would draw their SD down and vouch for it with degrees of freedom
    besides: so d = d0 (df s0^2 / within)^2 there, d0 to 0 without a jump.
    """
    squared = prior.sd * prior.sd
    prior_df = prior.df if within <= df * squared else prior.df * (df * squared / within) ** 2
    variance = (prior_df * squared + within) / (prior_df + df) if prior_df + df else 0.0
    return Moderated(sd=max(math.sqrt(variance), FLOOR_SD), prior_df=prior_df)


def occasions_apart(occasions: Sequence[Floats], *, believed: float, prior: Prior) -> float:
    """Return the SD between occasions: what is believed, or more where the runs of several ones belie that.

    One-way random effects by the method of moments: MSB = sum n_i (mean_i - mean)^2 / (S - 1) is v + n0 tau^2 on
    average, with v of `run_sd_of` within the S occasions and n0 the runs of one (Searle, Casella and McCulloch 1992).
    Where (S - 1) MSB is improbable for the `believed` tau (chi^2, 5 %), tau^2 is what MSB says, with S - 1 degrees of
    freedom, moderated by the belief with d0 (Smyth 2004). Of single runs nobody knows what lies within an occasion.
    """
    ordered = sorted((np.sort(runs) for runs in occasions if len(runs)), key=lambda runs: (len(runs), *runs.tolist()))
    free = len(ordered) - 1
    repeats = sum(map(len, ordered)) - len(ordered)
    if free + 1 < _FEWEST_OCCASIONS or repeats < free:
        return believed
    sizes = np.array([len(runs) for runs in ordered], dtype=np.float64)
    means = np.array([float(np.mean(runs)) for runs in ordered])
    total = float(np.sum(sizes))
    between = float(np.sum(sizes * np.square(means - float(np.sum(sizes * means)) / total)))
    within = sum(float(np.sum(np.square(runs - own))) for runs, own in zip(ordered, means, strict=True))
    of_one = (total - float(np.sum(np.square(sizes))) / total) / free
    run_sd = run_sd_of(within, df=repeats, prior=prior).sd
    if float(chdtrc(free, between / (run_sd * run_sd + of_one * believed * believed))) > _OCCASIONS_ALPHA:
        return believed
    shown = (between / free - run_sd * run_sd) / of_one
    return math.sqrt((PRIOR_DF * believed * believed + free * shown) / (PRIOR_DF + free))


def compare(
    baseline: Floats,
    candidate: Floats,
    *,
    prior: Prior,
    occasion_sd: float,
    occasions: int,
    together: bool = False,
) -> Comparison:
    """Compare kept runs of both sides, shape (n,) each and at least one run.

    The estimate is the difference of their means, v of `run_sd_of` pooled within both: nb + nc - 2 degrees of freedom.
    Where they were not measured `together`, and the side of fewer runs differs improbably more than the other, each has
    a v of its own (Welch 1947): a host that is noisier than on the day of the blessing is not taken for a quiet one.
    Numbers must be below `LARGEST` in size. The order of runs changes nothing, to the last bit.
    """
    both = (np.sort(baseline), np.sort(candidate))
    means = [float(np.mean(side)) for side in both]
    within = [float(np.sum(np.square(side - mean))) for side, mean in zip(both, means, strict=True)]
    runs = [len(side) for side in both]
    told = run_sd_of(sum(within), df=sum(runs) - 2, prior=prior)
    apart = None
    if not together and _unlike(within, runs, prior=prior):
        own = [run_sd_of(squares, df=n - 1, prior=prior) for squares, n in zip(within, runs, strict=True)]
        told = max(own, key=lambda side: (side.sd, side.prior_df))
        apart = Apart(baseline=own[0], candidate=own[1])
    return Comparison(
        estimate=means[1] - means[0],
        run_sd=told.sd,
        prior_df=told.prior_df,
        baseline_runs=len(baseline),
        candidate_runs=len(candidate),
        occasion_sd=occasion_sd,
        occasions=occasions,
        apart=apart,
    )


def _unlike(within: Sequence[float], runs: Sequence[int], *, prior: Prior) -> bool:
    """Whether the side of fewer runs differs more than was believed, and improbably more than the other (F, one-sided).

    Of the side of more, and of as many, v pooled within both is what each of its own would come to, or more, and has
    more degrees of freedom.
    """
    few = runs.index(min(runs))
    many = 1 - few
    if runs[few] in (1, runs[many]):
        return False
    variances = [squares / (n - 1) for squares, n in zip(within, runs, strict=True)]
    if variances[few] <= prior.sd * prior.sd:
        return False
    ratio = variances[few] / max(variances[many], FLOOR_SD * FLOOR_SD)
    return float(fdtrc(runs[few] - 1, runs[many] - 1, ratio)) <= _UNLIKE_ALPHA


def compare_pairs(differences: Floats, *, prior: Prior) -> Comparison:
    """Compare kept pairs by their differences, candidate minus baseline, shape (n,) with at least one pair.

    A paired t test with v of `run_sd_of`: what both runs of a pair share falls out. `within` is half the squares, so
    that the SD is that of one run, of which a difference has sqrt(2), and `prior` and floor mean what they mean
    elsewhere; SE^2 = v (1/n + 1/n).
    """
    ordered = np.sort(differences)
    mean = float(np.mean(ordered))
    within = float(np.sum(np.square(ordered - mean))) / 2
    told = run_sd_of(within, df=len(ordered) - 1, prior=prior)
    return Comparison(
        estimate=mean,
        run_sd=told.sd,
        prior_df=told.prior_df,
        baseline_runs=len(ordered),
        candidate_runs=len(ordered),
        occasion_sd=0.0,
        occasions=1,
        in_pairs=True,
    )


def middle(values: Sequence[float]) -> float:
    """Return the median of at least one value; finite wherever the values are, unlike half a sum of the middle two."""
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return low if low == high else low / 2 + high / 2
