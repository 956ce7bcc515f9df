"""Judges one clock against its budget; knows no count, and of other clocks only how many share alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np
from scipy.special import stdtrit

from perfgate.judge.compare import LARGEST, Comparison, Floats, Prior, compare, compare_pairs, middle, occasions_apart
from perfgate.judge.outliers import Flags, hides_loss, in_opposite_modes, keep, more_by_chance
from perfgate.judge.stages import PASS_CONFIDENCE, STORED_PLAN, Plan
from perfgate.judge.words import milliseconds, told_change
from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Dropped, MetricVerdict
from perfgate.model.words import plural

BASELINE_SIDE = "baseline"
CANDIDATE_SIDE = "candidate"
PAIR_SIDE = "pair"

_MOODS = 2.0
"""How much more occasions differ than their runs, where these differ by more than the budget, or than its default."""
_FARTHEST_LOG = 700.0
"""exp() of more than this is no double."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockRule:
    """How one clock of one gate is judged; all fractions in `basis`."""

    metric: Metric
    basis: Basis
    budget: float
    prior: Prior
    occasion_sd: float
    """0 where both sides were measured on the same occasions, as in a duet."""
    occasions: int
    """Occasions that the baseline spans."""
    occasion_guessed: bool = False
    """Whether nobody has measured `occasion_sd` of this workload."""
    occasion_runs: tuple[int, ...] = ()
    """How many of the baseline's runs each of its occasions has, in order; none where that is not known."""
    clocks: int
    """Gated clocks of this workload, which share alpha."""
    workloads: int = 1
    """Workloads judged together, which share it too."""
    plan: Plan = STORED_PLAN

    @property
    def shares(self) -> int:
        """Among how many alpha is shared."""
        return self.clocks * self.workloads

    @property
    def loss_alpha(self) -> float:
        """What a p-value may be at most to show a loss at one look."""
        return self.plan.told.alpha / self.shares

    @property
    def budget_in_basis(self) -> float:
        """The budget on the scale of `x`: 2 % slower is log(1.02)."""
        return self._in_basis(self.budget)

    @property
    def _moody_from(self) -> float:
        """The SD of runs beyond which their host has moods; a wider budget than the default does not make it steady."""
        spec = METRICS[self.metric].clock
        return self._in_basis(self.budget if spec is None else min(self.budget, spec.budget))

    def _in_basis(self, fraction: float) -> float:
        return math.log1p(fraction) if self.basis is Basis.LOG else fraction

    def occasions_of(self, blessed: Floats, kept: Flags) -> float:
        """What occasions differ by: where that is a guess, more if the baseline's own lie farther apart."""
        if not self.occasion_guessed:
            return self.occasion_sd
        ends = np.cumsum(self.occasion_runs, dtype=np.int64)
        occasions = [runs[flags] for runs, flags in zip(np.split(blessed, ends), np.split(kept, ends), strict=True)]
        return occasions_apart(occasions, believed=self.occasion_sd, prior=self.prior)

    def occasions_between(self, comparison: Comparison) -> Comparison:
        """The comparison with what occasions differ by, where that is a guess which its runs belie.

        Runs of one occasion that differ by more than the budget, or than its default, are in a host's moods, which last
        for minutes. Measured on H200s: fixed work on a host took 8 % longer for 90 s where a launch-bound loop's runs
        differed by 4 % (`benchmarks/moods`), and such runs differ by up to 19 % (SD of 10 in a row,
        `benchmarks/decision/h200.json`).
        Calibrated occasions are believed.
        """
        if not self.occasion_guessed or comparison.run_sd <= self._moody_from:
            return comparison
        return replace(comparison, occasion_sd=max(comparison.occasion_sd, _MOODS * comparison.run_sd))

    def as_fraction(self, x: float) -> float:
        """Turn a difference of `x` into what is shown: log(1.02) is 2 % slower."""
        return math.expm1(min(x, _FARTHEST_LOG)) if self.basis is Basis.LOG else x

    def passes(self, comparison: Comparison) -> bool:
        """Say whether the change is shown to be within budget."""
        return comparison.upper(PASS_CONFIDENCE) < self.budget_in_basis

    def level(self, comparison: Comparison, *, runs: int, separated: bool) -> float | None:
        """Return the level of the clearest loss at this number of runs (`Loss.level`), None where there is none."""
        levels = [
            loss.level(comparison, budget=self.budget_in_basis, separated=separated)
            for loss in self.plan.losses_at(runs)
        ]
        return min((level for level in levels if level is not None), default=None)

    def fails(self, comparison: Comparison, *, runs: int, separated: bool) -> bool:
        """Say whether the change is shown to be a loss at this number of runs."""
        level = self.level(comparison, runs=runs, separated=separated)
        return level is not None and level * self.shares <= 1

    def smallest(self, comparison: Comparison) -> float:
        """Return the smallest change that would have been shown as a loss."""
        return self.as_fraction(self.plan.told.smallest(comparison, budget=self.budget_in_basis, shares=self.shares))

    def improves(self, comparison: Comparison) -> bool:
        """Say whether the change is shown to be a gain."""
        return (
            comparison.estimate <= -self.plan.told.budgets * self.budget_in_basis
            and comparison.p_faster <= self.loss_alpha
        )


def at_level(row: MetricVerdict, alpha: float) -> MetricVerdict:
    """The row with the lower end that shows a loss at this level."""
    if row.low is None or row.change is None or row.standard_error is None or row.df is None:
        return row
    margin = float(stdtrit(row.df, 1 - alpha)) * row.standard_error
    low = math.expm1(math.log1p(row.change) - margin) if row.basis is Basis.LOG else row.change - margin
    return row.model_copy(update={"low": low})


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockJudgement:
    """One clock's row, the runs set aside for it, and the comparison behind it."""

    row: MetricVerdict
    rule: ClockRule
    dropped: tuple[Dropped, ...] = ()
    comparison: Comparison | None = None
    """None where zeros or the size of the numbers left nothing to compare."""
    spread: float = 0.0
    """What runs differ by, for the next stage: `comparison.run_sd`, without the outliers that had to be kept."""
    level: float | None = None
    """Of the clearest loss, where there is one: at most 1 over all that share alpha, and it is shown.

    What is shown to be within budget is none, clear as it may be that something got slower.
    """
    may_be_modes: bool = False
    """Whether its change proves nothing, clear as it is: a workload of two modes may have met them so by chance."""
    remark: str | None = None
    """Why its outcome is another than its own numbers would make it."""


def judge_clock(
    rule: ClockRule,
    blessed: Sequence[float],
    now: Sequence[float],
    *,
    step_ms: float | None,
    why_no_step: str | None = None,
) -> ClockJudgement:
    """Judge one clock; both sides hold at least one value in ms, one per run.

    `step_ms` is the baseline's median step, which clocks on the step's basis are measured against; `why_no_step` says
    why the runs have none either.
    """
    if rule.plan.in_pairs and len(blessed) != len(now):
        return _incomparable(rule, blessed, now, Outcome.INCONCLUSIVE, "not every run has the other of its pair")
    match rule.basis:
        case Basis.LOG:
            told = _zeros(blessed, now, fewest=rule.plan.fewest_to_fail)
            if told is not None:
                return _incomparable(rule, blessed, now, *told)
            # Against a reference, as the log of a ratio: scaling all times then changes no bit of what follows.
            with np.errstate(all="ignore"):
                before, after = (np.log(np.asarray(side) / middle(blessed)) for side in (blessed, now))
        case Basis.STEP:
            if step_ms is None or step_ms <= 0:
                reason = "the baseline holds no step time to measure it against"
                if why_no_step is not None:
                    reason = f"neither side holds a step time to measure it against: {why_no_step}"
                return _incomparable(rule, blessed, now, Outcome.NOT_MEASURED, reason)
            with np.errstate(all="ignore"):
                before, after = (np.asarray(side) / step_ms for side in (blessed, now))
        case _:
            assert_never(rule.basis)
    numbers = np.concatenate([before, after, [rule.prior.sd, rule.occasion_sd]])
    if not np.all(np.abs(numbers) < LARGEST):  # so that a NaN is caught as well
        return _incomparable(rule, blessed, now, Outcome.INCONCLUSIVE, "its values lie too far apart to be compared")
    return _judge_values(rule, before, after, blessed, now)


def _judge_values(
    rule: ClockRule, before: Floats, after: Floats, blessed: Sequence[float], now: Sequence[float]
) -> ClockJudgement:
    compared = (_in_pairs if rule.plan.in_pairs else _side_by_side)(rule, before, after)
    kept, comparison = compared.kept, compared.comparison
    runs = len(now)
    separated = bool(np.min(after) > np.max(before[kept[0]]))
    outcome, doubt = Outcome.INCONCLUSIVE, compared.doubt
    may_be_modes = False
    if passes := rule.passes(comparison):
        may_be_modes = doubt.no_loss
        if not may_be_modes:
            outcome = Outcome.IMPROVED if rule.improves(comparison) and not doubt.gain else Outcome.PASSED
    elif rule.fails(comparison, runs=runs, separated=separated):
        may_be_modes = doubt.loss
        if not may_be_modes:
            outcome = Outcome.REGRESSED
    change = rule.as_fraction(comparison.estimate)
    low: float | None = rule.as_fraction(comparison.lower(1 - rule.loss_alpha))
    high: float | None = rule.as_fraction(comparison.upper(PASS_CONFIDENCE))
    if may_be_modes:
        low = high = None  # it does not decide
    return ClockJudgement(
        row=MetricVerdict(
            metric=rule.metric,
            outcome=outcome,
            baseline=_centre(blessed, kept[0], rule.basis),
            now=_centre(now, kept[1], rule.basis),
            basis=rule.basis,
            change=change,
            low=low,
            high=high,
            standard_error=comparison.standard_error,
            df=comparison.df,
            budget=rule.budget,
            p_value=comparison.p_slower,
            smallest=rule.smallest(comparison) if runs >= rule.plan.fewest_to_fail else None,
            reason=told_change(change, low, high, budget=rule.budget, basis=rule.basis),
        ),
        rule=rule,
        dropped=compared.dropped,
        spread=compared.spread,
        comparison=comparison,
        # Also where it would not do yet: other workloads' losses may leave this one more to spend (Holm).
        level=None if doubt.loss or passes else rule.level(comparison, runs=runs, separated=separated),
        may_be_modes=may_be_modes,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Doubt:
    """What a workload of two modes may have feigned by meeting one of them more often on one side, by chance."""

    loss: bool = False
    gain: bool = False
    no_loss: bool = False
    """The candidate may only be as fast as it is by having met the faster one."""


_NO_DOUBT = _Doubt()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Compared:
    """The runs kept of both sides, what they come to, and those set aside."""

    kept: tuple[Flags, Flags]
    comparison: Comparison
    dropped: tuple[Dropped, ...]
    spread: float
    doubt: _Doubt = _NO_DOUBT


def _side_by_side(rule: ClockRule, before: Floats, after: Floats) -> _Compared:
    kept = keep((before, after), prior=rule.prior, budget=rule.budget_in_basis)
    first, second = kept.flags
    comparison = compare(
        before[first],
        after[second],
        prior=rule.prior,
        occasion_sd=rule.occasions_of(before, first),
        occasions=rule.occasions,
        together=rule.plan.is_duet,
    )
    comparison = rule.occasions_between(comparison)
    dropped = (*_dropped(rule, BASELINE_SIDE, before, first), *_dropped(rule, CANDIDATE_SIDE, after, second))
    # Outliers that had to be kept would be taken for what runs differ by in all that follows.
    spread = min(comparison.run_sd, kept.scale) if kept.crowded else comparison.run_sd
    far = kept.threshold
    middle_x = sum(float(np.mean(np.sort(side[flags]))) / 2 for side, flags in ((before, first), (after, second)))
    doubt = _Doubt(
        loss=more_by_chance(before, after, far, middle=middle_x),
        gain=more_by_chance(after, before, far, middle=middle_x),
        no_loss=in_opposite_modes(before, after, far) or hides_loss(before, after, far, budget=rule.budget_in_basis),
    )
    return _Compared(kept=(first, second), comparison=comparison, dropped=dropped, spread=spread, doubt=doubt)


def _in_pairs(rule: ClockRule, before: Floats, after: Floats) -> _Compared:
    differences = after - before
    of_two = replace(rule.prior, sd=math.sqrt(2) * rule.prior.sd)
    (kept,) = keep((differences,), prior=of_two, budget=rule.budget_in_basis).flags
    comparison = compare_pairs(differences[kept], prior=rule.prior)
    dropped = _dropped(rule, PAIR_SIDE, differences, kept)
    return _Compared(kept=(kept, kept), comparison=comparison, dropped=dropped, spread=comparison.run_sd)


def _zeros(blessed: Sequence[float], now: Sequence[float], *, fewest: int) -> tuple[Outcome, str] | None:
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
    return Outcome.INCONCLUSIVE, f"not above 0 in {' and '.join(told)}, which leaves no relative change to judge"


def _incomparable(
    rule: ClockRule, blessed: Sequence[float], now: Sequence[float], outcome: Outcome, reason: str
) -> ClockJudgement:
    return ClockJudgement(
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


def _dropped(rule: ClockRule, side: str, x: Floats, kept: Flags) -> tuple[Dropped, ...]:
    own = float(np.median(x))
    return tuple(
        Dropped(side=side, index=int(run), metric=rule.metric, distance=rule.as_fraction(float(x[run]) - own))
        for run in np.flatnonzero(~kept)
    )
