"""One time metric of one gate as a row of its verdict; the rule itself is `times.look_at`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from perfgate.judge.compare import LARGEST, Flags, Floats, middle
from perfgate.judge.looks import PASS_CONFIDENCE
from perfgate.judge.outliers import Slow
from perfgate.judge.times import Look, TimeRule, in_basis, look_at
from perfgate.model.metric import Basis
from perfgate.model.note import Note, note, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Dropped, MetricVerdict

BASELINE_SIDE = "baseline"
CANDIDATE_SIDE = "candidate"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeJudgement:
    """One time metric's row, the runs dropped for it, and the look behind it."""

    row: MetricVerdict
    rule: TimeRule
    dropped: tuple[Dropped, ...] = ()
    look: Look | None = None
    """None where zeros or the size of the numbers left nothing to compare."""
    slow: Slow | None = None
    """Slow runs of the candidate, where there are any and it is within budget but for them."""

    @property
    def level(self) -> float | None:
        """Of the clearest loss, where there is one: at most 1 over all that share alpha if shown."""
        if self.look is None or not np.isfinite(self.look.level):
            return None
        return float(self.look.level)


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """The values of one time metric, ms of each run, at least one a side."""

    blessed: Sequence[float]
    now: Sequence[float]
    step_ms: float | None
    """The other side's median step, which metrics on the step's basis are measured against."""
    why_no_step: str | Note | None = None
    """Why the candidate's runs have none either."""
    is_last: bool = True
    slow_before: Slow | None = field(default=None)
    extreme_before: bool = False


def judge_time(rule: TimeRule, times: Times) -> TimeJudgement:
    """Judge one time metric."""
    blessed, now, step_ms = times.blessed, times.now, times.step_ms
    none = _incomparable(rule, times)
    if none is not None:
        return _without_look(rule, times, *none)
    reference = middle(blessed) if rule.basis is Basis.LOG else step_ms or math.nan
    before, after = (in_basis(np.asarray(side), rule.basis, reference) for side in (blessed, now))
    # So that a NaN is caught as well.
    if not np.all(np.abs(np.concatenate([before, after])) < LARGEST):
        return _without_look(rule, times, Outcome.INCONCLUSIVE, note("times-too-far-apart"))
    look = look_at(
        rule,
        before,
        after,
        is_last=times.is_last,
        slow_before=times.slow_before,
        extreme_before=times.extreme_before,
    )
    return TimeJudgement(
        row=_row(rule, look, blessed, now),
        rule=rule,
        dropped=(
            *_dropped(rule, BASELINE_SIDE, before, look.kept[0]),
            *_dropped(rule, CANDIDATE_SIDE, after, look.kept[1]),
        ),
        look=look,
        slow=look.slow if bool(look.within) and look.slow.candidate > 0 else None,
    )


def _row(
    rule: TimeRule, look: Look, blessed: Sequence[float], now: Sequence[float]
) -> MetricVerdict:
    outcome = Outcome.INCONCLUSIVE
    if look.passes:
        outcome = Outcome.IMPROVED if look.gains else Outcome.PASSED
    elif look.loses:
        outcome = Outcome.REGRESSED
    comparison, against = look.comparison, look.against
    smallest = max(float(np.max(rule.least_loss)), float(against.margin(1 - rule.loss_alpha)))
    decides = not look.by_chance
    row = MetricVerdict(
        metric=rule.metric,
        outcome=outcome,
        baseline=_centre(blessed, look.kept[0], rule.basis),
        now=_centre(now, look.kept[1], rule.basis),
        basis=rule.basis,
        change=rule.as_fraction(float(comparison.estimate)),
        low=rule.as_fraction(float(against.lower(1 - rule.loss_alpha))) if decides else None,
        high=rule.as_fraction(float(comparison.upper(PASS_CONFIDENCE))) if decides else None,
        standard_error=float(against.standard_error),
        df=float(against.df),
        budget=rule.as_fraction(float(rule.limit)),
        p_value=float(against.p_slower),
        smallest=rule.as_fraction(smallest) if len(now) >= rule.plan.fewest_to_fail else None,
    )
    return row.model_copy(update={"note": _change(row, rule.basis)})


def _change(row: MetricVerdict, basis: Basis) -> Note:
    return note(
        "time-changed" if basis is Basis.LOG else "share-changed",
        change=row.change,
        low=row.low,
        high=row.high,
        budget=row.budget,
        unit=basis.unit,
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


def _incomparable(rule: TimeRule, times: Times) -> tuple[Outcome, Note] | None:
    """Judge what cannot be compared; None where it can."""
    if rule.plan.in_pairs and len(times.blessed) != len(times.now):
        return Outcome.INCONCLUSIVE, note("pairs-incomplete")
    if rule.basis is Basis.LOG:
        return _zeros(rule, times.blessed, times.now)
    if times.step_ms is None or times.step_ms <= 0:
        if times.why_no_step is None:
            return Outcome.NOT_MEASURED, note("baseline-without-step")
        why = quoted(times.why_no_step)
        return Outcome.NOT_MEASURED, note("sides-without-step", why=why)
    return None


def _zeros(
    rule: TimeRule, blessed: Sequence[float], now: Sequence[float]
) -> tuple[Outcome, Note] | None:
    """Judge what has no logarithm; None where every value has one."""
    zeros = [sum(value <= 0 for value in side) for side in (blessed, now)]
    if not any(zeros):
        return None
    if zeros == [len(blessed), len(now)]:
        return Outcome.PASSED, note("time-zero-everywhere")
    if zeros == [len(blessed), 0]:
        is_shown = rule.plan.fails and len(now) >= rule.plan.fewest_to_fail
        rise = note("time-rose-from-zero", now=middle(now))
        return (Outcome.REGRESSED if is_shown else Outcome.INCONCLUSIVE), rise
    if zeros == [0, len(now)]:
        # Not a gain: work that vanished is rather lost to the profiler than to the program.
        return Outcome.NOT_MEASURED, note("time-fell-to-zero", before=middle(blessed))
    found = note("time-zero-in-some", before=zeros[0], of=len(blessed), now=zeros[1], runs=len(now))
    return Outcome.INCONCLUSIVE, found


def _without_look(rule: TimeRule, times: Times, outcome: Outcome, why: Note) -> TimeJudgement:
    row = MetricVerdict(
        metric=rule.metric,
        outcome=outcome,
        baseline=middle(times.blessed),
        now=middle(times.now),
        basis=rule.basis,
        budget=rule.budget,
        note=why,
    )
    return TimeJudgement(row=row, rule=rule)


def _centre(values: Sequence[float], kept: Flags, basis: Basis) -> float:
    """Return what the estimate compares, in ms, so that a row adds up: geometric mean of a LOG."""
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
