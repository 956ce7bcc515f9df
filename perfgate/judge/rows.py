"""Judges every metric that is gated, a row each; knows nothing of what the rows come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from perfgate.judge.compare import Floats, Learnt, middle, special
from perfgate.judge.counts import judge_counts
from perfgate.judge.evidence import Case
from perfgate.judge.look import Look, as_today, look_at
from perfgate.judge.outliers import Sides
from perfgate.judge.times import (
    Columns,
    TimeRule,
    as_x,
    columns,
    is_usable,
    rule_of,
)
from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run, missing_in, why_absent
from perfgate.model.verdict import Dropped, MetricVerdict

_TAKEN_BY_GRAPHS: Final = frozenset({Metric.GRAPH_LAUNCHES, Metric.KERNEL_MS})
"""What no longer means the same where graphs take the place of launches: the kernel time of a graph
that is traced whole holds what is idle, copied and set between its kernels. The step decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRow:
    """One metric's row, and what is behind that of a time metric."""

    row: MetricVerdict
    look: Look | None = None
    """None where zeros or the size of the numbers left nothing to compare."""
    dropped: tuple[Dropped, ...] = ()


def judge_rows(case: Case) -> list[JudgedRow]:
    """Judge each gated metric that all runs of the other side have; no rows without runs."""
    if not case.runs:
        return []
    counts, judged = judge_counts(case), list[JudgedRow]()
    for metric, before in case.there.items():
        if not METRICS[metric].gated:
            continue
        if metric not in case.here:
            row = MetricVerdict(
                metric=metric,
                outcome=Outcome.NOT_MEASURED,
                baseline=middle(before),
                note=missing_in(case.runs, metric),
            )
            judged.append(JudgedRow(row=row))
        elif case.in_graphs and metric in _TAKEN_BY_GRAPHS:
            row = MetricVerdict(
                metric=metric,
                outcome=None,
                baseline=middle(before),
                now=middle(case.here[metric]),
                note=note("graphs-for-launches"),
            )
            judged.append(JudgedRow(row=row))
        elif metric in counts:
            judged.append(JudgedRow(row=counts[metric]))
        else:
            judged.append(_judge_time(metric, case, judged))
    return judged


def _judge_time(metric: Metric, case: Case, judged: Sequence[JudgedRow]) -> JudgedRow:
    rule, before, now = _rule(metric, case), case.there[metric], case.here[metric]
    sides, none = case.sides(metric), _incomparable(rule, before, now, case)
    if none is None and not is_usable(*sides):
        none = Outcome.INCONCLUSIVE, note("times-too-far-apart")
    if none is not None:
        row = MetricVerdict(
            metric=metric,
            outcome=none[0],
            baseline=middle(before),
            now=middle(now),
            basis=rule.spec.basis,
            budget=rule.budget,
            note=none[1],
        )
        return JudgedRow(row=row)
    periods = _looks_at_periods(judged, case) if metric is Metric.GAP_MS else ()
    look = _look(metric, rule, sides, case, periods)
    dropped: list[Dropped] = []
    for name, x, kept in zip(("baseline", "candidate"), sides, look.compared.kept, strict=True):
        away = x - np.median(x)
        dropped += [
            Dropped(side=name, index=int(run), metric=metric, distance=rule.as_fraction(away[run]))
            for run in np.flatnonzero(~kept)
        ]
    return JudgedRow(row=_row(rule, look, before, now), look=look, dropped=tuple(dropped))


def _rule(metric: Metric, case: Case) -> TimeRule:
    baseline = case.evidence.blessed
    rule = rule_of(metric, case.there, case.budgets, plan=case.plan, baseline=baseline)
    learnt = rule.learnt + case.evidence.spread.get(metric, Learnt())
    return replace(rule, learnt=learnt, shares=case.times * case.policy.sharing)


def _incomparable(
    rule: TimeRule, before: Floats, now: Floats, case: Case
) -> tuple[Outcome, Note] | None:
    """Judge what cannot be compared: a part of no step, or what has no logarithm; None where it
    can."""
    if rule.spec.basis is not Basis.LOG:
        if middle(case.there.get(Metric.STEP_MS, [0.0])) > 0:
            return None
        lacks = why_absent(case.runs, Metric.STEP_MS)
        because = None if lacks is None else note("because", what=lacks)
        return Outcome.NOT_MEASURED, note("without-step", why=because)
    there, here, then, runs = int(np.sum(before <= 0)), int(np.sum(now <= 0)), len(before), len(now)
    if not there and not here:
        return None
    outcomes = {
        (then, runs): Outcome.PASSED,
        # Not a gain: work that vanished is rather lost to the profiler than to the program.
        (0, runs): Outcome.NOT_MEASURED,
        (then, 0): Outcome.REGRESSED if rule.plan.may_fail(runs) else Outcome.INCONCLUSIVE,
    }
    why = note("time-zero", before=there, of=then, now=here, runs=runs)
    return outcomes.get((there, here), Outcome.INCONCLUSIVE), why


def _looks_at_periods(judged: Sequence[JudgedRow], case: Case) -> tuple[Look, ...]:
    """What the runs say of the step, and of its mean by the same rule: a stall in few of the steps
    is idle time that only the mean shows. None where one of them is not known."""
    step = next((one.look for one in judged if one.row.metric is Metric.STEP_MS), None)
    metric = Metric.STEP_MEAN_MS
    if step is None or metric not in case.here:
        return ()
    sides = case.sides(metric)
    if not is_usable(*sides):
        return ()
    return step, _look(metric, _rule(Metric.STEP_MS, case), sides, case)


def _look(
    metric: Metric, rule: TimeRule, sides: Sides, case: Case, periods: Sequence[Look] = ()
) -> Look:
    """Judge runs, with those that the candidate made alone before an A/B run, next to what is
    usual, and to what is blessed.

    Usual is what the other commit takes today: the machine may have become slower. In blocks a step
    takes another time than alone, and the blessed runs, as they would be today, are what there is.
    """
    evidence, alone, screened = case.evidence, None, None
    if case.plan.is_ab_run:
        stored = columns(case.stored)
        alone = screened = _next_to(stored, metric, evidence.alone)
        there = _next_to(stored, metric, evidence.alone_there)
        if not case.plan.in_pairs:
            alone = _next_to(case.there, metric, evidence.alone)
        elif screened is not None and there is not None:
            alone = as_today(*there), screened[1]
    return look_at(
        rule, sides, is_last=case.is_last, alone=alone, screened=screened, periods=periods
    )


def _next_to(there: Columns, metric: Metric, runs: Sequence[Run]) -> Sides | None:
    """x of a metric there, and of those of the runs that have it; None where one has none."""
    now = np.array([value for run in runs if (value := run.value(metric)) is not None])
    if metric not in there or not now.size:
        return None
    sides = as_x(metric, there[metric], there), as_x(metric, now, there)
    return sides if np.all(np.isfinite(np.concatenate(sides))) else None


def _row(rule: TimeRule, look: Look, before: Floats, now: Floats) -> MetricVerdict:
    outcome = Outcome.INCONCLUSIVE
    if look.passes:
        outcome = Outcome.IMPROVED if look.gains else Outcome.PASSED
    elif look.loses:
        outcome = Outcome.REGRESSED
    comparison, against = look.compared.comparison, look.compared.against
    smallest = np.maximum(rule.least_loss, against.margin(1 - rule.loss_alpha))
    change, budget = rule.as_fraction(comparison.estimate), rule.as_fraction(rule.limit)
    low = high = None
    if not look.by_chance:
        low = rule.as_fraction(against.lower(1 - rule.loss_alpha))
        high = rule.as_fraction(comparison.upper(rule.plan.pass_confidence(len(now))))
    basis, kept = rule.spec.basis, look.compared.kept
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
        note=note(code, change=change, low=low, high=high, budget=budget, unit=basis.unit),
    )


def _centre(sample: Floats, basis: Basis) -> float:
    """Return what the estimate compares, in ms, so that a row adds up: geometric mean of a LOG."""
    ordered = np.sort(sample)
    scale = float(np.max(np.abs(ordered))) or 1.0
    with np.errstate(all="ignore"):
        shares = ordered / scale
        mean = np.exp(np.mean(np.log(shares))) if basis is Basis.LOG else np.mean(shares)
    return float(mean) * scale


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
