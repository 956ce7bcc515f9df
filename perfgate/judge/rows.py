"""Judges every metric that is gated, a row each; knows nothing of what the rows come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfgate.judge.compare import Floats, Learnt, middle, special
from perfgate.judge.counts import judge_count, places_of
from perfgate.judge.evidence import Case
from perfgate.judge.times import (
    SPECS,
    Columns,
    Look,
    Sides,
    TimeRule,
    as_today,
    as_x,
    columns,
    is_usable,
    look_at,
    rule_of,
)
from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import COUNTS, METRICS, Basis, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run, missing_in, why_absent
from perfgate.model.verdict import Dropped, MetricVerdict


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRow:
    """One metric's row, and what is behind that of a time metric."""

    row: MetricVerdict
    look: Look | None = None
    """None where zeros or the size of the numbers left nothing to compare."""
    dropped: tuple[Dropped, ...] = ()


def judge_rows(case: Case) -> list[JudgedRow]:
    """Judge each gated metric that all runs of the other side have; no rows without runs."""
    counts = _counts(case) if case.runs else {}
    judged: list[JudgedRow] = []
    for metric in METRICS if case.runs else ():
        if not METRICS[metric].gated or metric not in case.there:
            continue
        found = [value for run in case.runs if (value := _value(run, metric)) is not None]
        if len(found) < len(case.runs):
            judged.append(JudgedRow(row=_missing(metric, case)))
        elif metric in SPECS:
            periods = _looks_at_periods(judged, case) if metric is Metric.GAP_MS else ()
            judged.append(_judge_time(metric, np.array(found), case, periods=periods))
        else:
            judged.append(JudgedRow(row=counts[metric]))
    return judged


def _value(run: Run, metric: Metric) -> float | None:
    """A run's value; of NCCL's times, which the baseline has, 0 where no NCCL kernel ran."""
    value = run.value(metric)
    return 0.0 if value is None and why_absent([run], metric) == NO_NCCL else value


def _missing(metric: Metric, case: Case) -> MetricVerdict:
    """The row of what the other side has and some run has not."""
    return MetricVerdict(
        metric=metric,
        outcome=Outcome.NOT_MEASURED,
        baseline=middle(case.there[metric]),
        note=missing_in(case.runs, metric),
    )


def _counts(case: Case) -> dict[Metric, MetricVerdict]:
    """The rows of counts that all runs have."""
    stored = () if case.evidence.blessed is None else case.evidence.blessed.runs
    now = [BlessedRun.of(run) for run in case.runs]
    places = {
        metric: places_of(metric, case.other, now, stored)
        for metric in COUNTS
        if metric in case.there and all(metric in run.values for run in now)
    }
    varying = sum(not place.exact for of_metric in places.values() for place in of_metric)
    return {
        metric: judge_count(
            metric,
            of_metric,
            max_runs=case.most,
            varying=varying,
            budget=case.budgets.get(metric, 0.0),
        )
        for metric, of_metric in places.items()
    }


# Times


def _judge_time(metric: Metric, now: Floats, case: Case, *, periods: Sequence[Look]) -> JudgedRow:
    rule = _rule(metric, case)
    before = case.there[metric]
    unjudged = MetricVerdict(
        metric=metric,
        outcome=Outcome.INCONCLUSIVE,
        baseline=middle(before),
        now=middle(now),
        basis=rule.spec.basis,
        budget=rule.budget,
        note=note("times-too-far-apart"),
    )
    if (none := _incomparable(rule, before, now, case)) is not None:
        outcome, why = none
        row = unjudged.model_copy(update={"outcome": outcome, "note": why})
        return JudgedRow(row=row)
    sides = (as_x(metric, before, case.there), as_x(metric, now, case.there))
    if not is_usable(*sides):
        return JudgedRow(row=unjudged)
    look = _look(metric, rule, sides, case, periods)
    names = ("baseline", "candidate")
    return JudgedRow(
        row=_row(rule, look, before, now),
        look=look,
        dropped=tuple(
            Dropped(side=name, index=int(run), metric=metric, distance=rule.as_fraction(away[run]))
            for name, x, kept in zip(names, sides, look.compared.kept, strict=True)
            for away in (x - np.median(x),)
            for run in np.flatnonzero(~kept)
        ),
    )


def _rule(metric: Metric, case: Case) -> TimeRule:
    rule = rule_of(
        metric,
        case.there,
        case.budgets,
        plan=case.plan,
        baseline=case.evidence.blessed,
    )
    learnt = rule.learnt + case.evidence.spread.get(metric, Learnt())
    return replace(rule, learnt=learnt, shares=case.times * case.policy.sharing)


def _looks_at_periods(judged: Sequence[JudgedRow], case: Case) -> tuple[Look, ...]:
    """What the runs say of the step, and of its mean by the same rule: a stall in few of the steps
    is idle time that only the mean shows. None where one of them is not known."""
    step = next((one.look for one in judged if one.row.metric is Metric.STEP_MS), None)
    metric = Metric.STEP_MEAN_MS
    before = case.there.get(metric, np.array([math.nan]))
    now = np.array([run.value(metric) for run in case.runs], dtype=np.float64)
    sides = (as_x(metric, before, case.there), as_x(metric, now, case.there))
    if step is None or not is_usable(*sides):
        return ()
    return step, _look(metric, _rule(Metric.STEP_MS, case), sides, case)


def _look(
    metric: Metric, rule: TimeRule, sides: Sides, case: Case, periods: Sequence[Look] = ()
) -> Look:
    alone, screened = _alone(metric, case)
    return look_at(
        rule,
        sides,
        is_last=case.is_last,
        alone=alone,
        screened=screened,
        periods=periods,
    )


def _alone(metric: Metric, case: Case) -> tuple[Sides | None, Sides | None]:
    """The runs that the candidate made alone before an A/B run, next to what is usual, and to what
    is blessed; None where there are none.

    Usual is what the other commit takes today: the machine may have become slower. In blocks a step
    takes another time than alone, and the blessed runs, as they would be today, are what there is.
    """
    evidence, blessed = case.evidence, case.evidence.blessed

    def next_to(there: Columns, runs: Sequence[Run]) -> Sides | None:
        values = [value for run in runs if (value := run.value(metric)) is not None]
        if metric not in there or not values:
            return None
        sides = as_x(metric, there[metric], there), as_x(metric, np.array(values), there)
        return sides if np.all(np.isfinite(np.concatenate(sides))) else None

    if not case.plan.is_ab_run:
        return None, None
    stored = {} if blessed is None else columns(blessed.runs)
    screened = next_to(stored, evidence.alone)
    if not case.plan.in_pairs:
        return next_to(case.there, evidence.alone), screened
    there = next_to(stored, evidence.alone_there)
    if screened is None or there is None:
        return screened, screened
    return (as_today(*there), screened[1]), screened


def _row(rule: TimeRule, look: Look, before: Floats, now: Floats) -> MetricVerdict:
    outcome = Outcome.INCONCLUSIVE
    if look.passes:
        outcome = Outcome.IMPROVED if look.gains else Outcome.PASSED
    elif look.loses:
        outcome = Outcome.REGRESSED
    comparison, against = look.compared.comparison, look.compared.against
    smallest = np.maximum(rule.least_loss, against.margin(1 - rule.loss_alpha))
    change = rule.as_fraction(comparison.estimate)
    low = high = None
    if not look.by_chance:
        low = rule.as_fraction(against.lower(1 - rule.loss_alpha))
        high = rule.as_fraction(comparison.upper(rule.plan.pass_confidence(len(now))))
    budget, basis = rule.as_fraction(rule.limit), rule.spec.basis
    kept = look.compared.kept
    code = "time-changed" if basis is Basis.LOG else "share-changed"
    if look.costs_nothing:
        code = "idle-costs-nothing"
    return MetricVerdict(
        metric=rule.metric,
        outcome=outcome,
        baseline=_centre(before[kept[0]], basis),
        now=_centre(now[kept[1]], basis),
        basis=basis,
        change=change,
        low=low,
        high=high,
        standard_error=float(against.standard_error),
        df=float(against.df),
        budget=budget,
        p_value=float(against.p_value(slower=True)),
        smallest=rule.as_fraction(smallest) if len(now) >= rule.plan.fewest_to_fail else None,
        note=note(
            code,
            change=change,
            low=low,
            high=high,
            budget=budget,
            unit=basis.unit,
        ),
    )


def at_level(row: MetricVerdict, alpha: float) -> MetricVerdict:
    """The row with the lower end that shows a loss at this level."""
    if row.low is None or row.change is None or row.standard_error is None or row.df is None:
        return row
    margin = float(special().stdtrit(row.df, 1 - alpha)) * row.standard_error
    low = row.change - margin
    if row.basis is Basis.LOG:
        # A time that fell to next to nothing has changed by -1, to the last bit.
        low = math.expm1(math.log1p(row.change) - margin) if row.change > -1 else -1.0
    return row.model_copy(update={"low": low})


def _incomparable(
    rule: TimeRule, before: Floats, now: Floats, case: Case
) -> tuple[Outcome, Note] | None:
    """Judge what cannot be compared: a part of no step, or what has no logarithm; None where it
    can."""
    if rule.spec.basis is not Basis.LOG:
        if Metric.STEP_MS in case.there and middle(case.there[Metric.STEP_MS]) > 0:
            return None
        lacks = why_absent(case.runs, Metric.STEP_MS)
        because = None if lacks is None else note("because", what=lacks)
        return Outcome.NOT_MEASURED, note("without-step", why=because)
    zeros = [int(np.sum(side <= 0)) for side in (before, now)]
    if not any(zeros):
        return None
    why = note("time-zero", before=zeros[0], of=len(before), now=zeros[1], runs=len(now))
    if zeros == [len(before), len(now)]:
        return Outcome.PASSED, why
    if zeros == [0, len(now)]:
        # Not a gain: work that vanished is rather lost to the profiler than to the program.
        return Outcome.NOT_MEASURED, why
    is_shown = rule.plan.fails and len(now) >= rule.plan.fewest_to_fail
    has_risen = zeros == [len(before), 0]
    return (Outcome.REGRESSED if is_shown and has_risen else Outcome.INCONCLUSIVE), why


def _centre(sample: Floats, basis: Basis) -> float:
    """Return what the estimate compares, in ms, so that a row adds up: geometric mean of a LOG."""
    ordered = np.sort(sample)
    scale = float(np.max(np.abs(ordered))) or 1.0
    with np.errstate(all="ignore"):
        shares = ordered / scale
        mean = np.exp(np.mean(np.log(shares))) if basis is Basis.LOG else np.mean(shares)
    return float(mean) * scale
