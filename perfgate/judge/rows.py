"""Judges every metric of a gate, a row each; knows nothing of what the rows come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from perfgate.judge.compare import Flags, Floats, Learnt, middle
from perfgate.judge.counts import judge_count, places_of
from perfgate.judge.evidence import Case
from perfgate.judge.looks import PASS_CONFIDENCE
from perfgate.judge.rule import SPECS, Columns, TimeRule, as_x, columns, is_usable, rule_of
from perfgate.judge.times import Look, Sides, look_at
from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import CALLED, COUNTS, METRICS, PERIODS, Basis, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run, why_absent
from perfgate.model.verdict import Dropped, MetricVerdict


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRow:
    """One metric's row, and what is behind that of a time metric."""

    row: MetricVerdict
    rule: TimeRule | None = None
    look: Look | None = None
    """None where zeros or the size of the numbers left nothing to compare."""
    dropped: tuple[Dropped, ...] = ()


def judge_rows(case: Case) -> list[JudgedRow]:
    """Judge what the other side holds, and show what it lacks; no rows without runs."""
    if not case.runs:
        return []
    counts = _counts(case)
    # Of a loop that uses no GPU, or whose GPU was not traced, each row would say the same.
    measured = {one for run in case.runs for process in run.processes for one in process.values}
    on_gpu = bool(measured - {*PERIODS, *CALLED})
    judged: list[JudgedRow] = []
    for metric, spec in METRICS.items():
        found = [value for run in case.runs if (value := _value(run, metric, case)) is not None]
        is_whole = spec.gated and metric in case.there and len(found) == len(case.runs)
        if is_whole and metric in SPECS:
            judged.append(_judge_time(metric, np.array(found), case))
        elif is_whole:
            judged.append(JudgedRow(row=counts[metric]))
        elif (row := _unjudged(metric, case, found, on_gpu=on_gpu)) is not None:
            judged.append(JudgedRow(row=row))
    return judged


def _value(run: Run, metric: Metric, case: Case) -> float | None:
    """A run's value; of NCCL's times, which the baseline has, 0 where no NCCL kernel ran."""
    value = run.value(metric)
    is_none = metric in case.there and run.why_absent(metric) == NO_NCCL
    return 0.0 if value is None and is_none else value


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
            max_runs=case.looks[1],
            varying=varying,
            budget=case.budgets.get(metric, 0.0),
        )
        for metric, of_metric in places.items()
    }


# Times


def _judge_time(metric: Metric, now: Floats, case: Case) -> JudgedRow:
    rule = rule_of(metric, case.there, case.budgets, plan=case.plan, baseline=case.evidence.blessed)
    learnt = case.evidence.spread.get(metric, Learnt())
    rule = replace(rule, learnt=learnt, shares=rule.shares * case.policy.workloads)
    before = case.there[metric]
    row = MetricVerdict(
        metric=metric,
        outcome=Outcome.INCONCLUSIVE,
        baseline=middle(before),
        now=middle(now),
        basis=rule.spec.basis,
        budget=rule.budget,
    )
    if (none := _incomparable(rule, before, now, case)) is not None:
        outcome, why = none
        return JudgedRow(row=row.model_copy(update={"outcome": outcome, "note": why}), rule=rule)
    sides = (as_x(metric, before, case.there), as_x(metric, now, case.there))
    if not is_usable(*sides):
        why = note("times-too-far-apart")
        return JudgedRow(row=row.model_copy(update={"note": why}), rule=rule)
    alone, screened = _alone(metric, case)
    look = look_at(
        rule,
        sides,
        is_last=case.plan.is_last(len(now), most=case.looks[1]),
        alone=alone,
        screened=screened,
    )
    kept = look.compared.kept
    centres = [
        _centre(side, flags, rule.spec.basis)
        for side, flags in zip((before, now), kept, strict=True)
    ]
    return JudgedRow(
        row=_row(rule, look, centres, runs=len(now)),
        rule=rule,
        look=look,
        dropped=(
            *_dropped(rule, "baseline", sides[0], kept[0]),
            *_dropped(rule, "candidate", sides[1], kept[1]),
        ),
    )


def _alone(metric: Metric, case: Case) -> tuple[Sides | None, Sides | None]:
    """The runs that the candidate made alone before an A/B run, next to what is usual, and to what
    is blessed; None where there are none.

    Usual is what the other commit takes today: the machine may have become slower. In blocks a step
    takes another time than alone, and the blessed runs are what there is.
    """
    alone, blessed = case.evidence.alone, case.evidence.blessed
    values = [value for run in alone if (value := run.value(metric)) is not None]
    if not case.plan.is_ab_run or not values:
        return None, None

    def next_to(there: Columns) -> Sides | None:
        if metric not in there:
            return None
        sides = as_x(metric, there[metric], there), as_x(metric, np.array(values), there)
        return sides if np.all(np.isfinite(np.concatenate(sides))) else None

    screened = None if blessed is None else next_to(columns(blessed.runs))
    return (screened if case.plan.in_pairs else next_to(case.there)), screened


def _row(rule: TimeRule, look: Look, centres: Sequence[float], *, runs: int) -> MetricVerdict:
    outcome = Outcome.INCONCLUSIVE
    if look.passes:
        outcome = Outcome.IMPROVED if look.gains else Outcome.PASSED
    elif look.loses:
        outcome = Outcome.REGRESSED
    comparison, against = look.compared.comparison, look.compared.against
    is_shown = runs >= rule.plan.fewest_to_fail
    smallest = np.maximum(rule.least_loss, against.margin(1 - rule.loss_alpha))
    change = rule.as_fraction(comparison.estimate)
    low = high = None
    if not look.by_chance:
        low = rule.as_fraction(against.lower(1 - rule.loss_alpha))
        high = rule.as_fraction(comparison.upper(PASS_CONFIDENCE))
    budget, basis = rule.as_fraction(rule.limit), rule.spec.basis
    return MetricVerdict(
        metric=rule.metric,
        outcome=outcome,
        baseline=centres[0],
        now=centres[1],
        basis=basis,
        change=change,
        low=low,
        high=high,
        standard_error=float(against.standard_error),
        df=float(against.df),
        budget=budget,
        p_value=float(against.p_slower),
        smallest=rule.as_fraction(smallest) if is_shown else None,
        note=note(
            "time-changed" if basis is Basis.LOG else "share-changed",
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
    margin = float(stdtrit(row.df, 1 - alpha)) * row.standard_error
    is_log = row.basis is Basis.LOG
    low = math.expm1(math.log1p(row.change) - margin) if is_log else row.change - margin
    return row.model_copy(update={"low": low})


def _incomparable(
    rule: TimeRule, before: Floats, now: Floats, case: Case
) -> tuple[Outcome, Note] | None:
    """Judge what cannot be compared; None where it can."""
    if rule.spec.basis is Basis.LOG:
        return _zeros(rule, before, now)
    if (_median_step(case) or 0.0) > 0:
        return None
    why = why_absent(case.runs, Metric.STEP_MS)
    if why is None:
        return Outcome.NOT_MEASURED, note("baseline-without-step")
    return Outcome.NOT_MEASURED, note("sides-without-step", why=why)


def _zeros(rule: TimeRule, before: Floats, now: Floats) -> tuple[Outcome, Note] | None:
    """Judge what has no logarithm; None where every value has one."""
    zeros = [int(np.sum(side <= 0)) for side in (before, now)]
    why = note("time-zero", before=zeros[0], of=len(before), now=zeros[1], runs=len(now))
    if not any(zeros):
        return None
    if zeros == [len(before), len(now)]:
        return Outcome.PASSED, why
    if zeros == [0, len(now)]:
        # Not a gain: work that vanished is rather lost to the profiler than to the program.
        return Outcome.NOT_MEASURED, why
    is_shown = rule.plan.fails and len(now) >= rule.plan.fewest_to_fail
    has_risen = zeros == [len(before), 0]
    return (Outcome.REGRESSED if is_shown and has_risen else Outcome.INCONCLUSIVE), why


def _centre(values: Floats, kept: Flags, basis: Basis) -> float:
    """Return what the estimate compares, in ms, so that a row adds up: geometric mean of a LOG."""
    sample = np.sort(values[kept])
    scale = float(np.max(np.abs(sample))) or 1.0
    with np.errstate(all="ignore"):
        shares = sample / scale
        mean = np.exp(np.mean(np.log(shares))) if basis is Basis.LOG else np.mean(shares)
    return float(mean) * scale


def _dropped(rule: TimeRule, side: str, x: Floats, kept: Flags) -> list[Dropped]:
    away = x - np.median(x)
    return [
        Dropped(side=side, index=int(run), metric=rule.metric, distance=rule.as_fraction(away[run]))
        for run in np.flatnonzero(~kept)
    ]


def _median_step(case: Case) -> float | None:
    steps = case.there.get(Metric.STEP_MS)
    return None if steps is None else middle(steps)


# What is not judged


def why_unmeasured(runs: Sequence[Run], metric: Metric) -> Note | None:
    """Why a metric is not judged that neither side has; None where there is nothing of it."""
    why = why_absent(runs, metric)
    return None if why is None or why.code.startswith(NO_NCCL.code) else why


def _unjudged(
    metric: Metric, case: Case, found: Sequence[float], *, on_gpu: bool
) -> MetricVerdict | None:
    """The row of what one side lacks, or of what is shown only; None where neither side has it."""
    spec, now = METRICS[metric], middle(found) if found else None
    without = [run for run in case.runs if run.value(metric) is None]
    lacking, why = len(without), why_absent(without, metric)
    because = None if why is None else note("because", what=why)
    missing = note("missing-in-runs", without=lacking, runs=len(case.runs), why=because)
    if metric in case.there and spec.gated:
        there = middle(case.there[metric])
        return MetricVerdict(
            metric=metric, outcome=Outcome.NOT_MEASURED, baseline=there, note=missing
        )
    if metric in case.there:
        there, step_ms = middle(case.there[metric]), _median_step(case)
        change = None if now is None else spec.change(there, now, step_ms=step_ms)
        return MetricVerdict(
            metric=metric,
            outcome=None,
            baseline=there,
            now=now,
            basis=None if change is None else spec.basis,
            change=change,
            note=missing if without else note("only-shown"),
        )
    having = sum(metric in run.values for run in case.other)
    if found or having:
        code = "new-to-gate" if spec.gated else "new-to-show"
        of_some = note(code, having=having, runs=len(case.other))
        return MetricVerdict(metric=metric, outcome=None, now=now, note=of_some)
    reason = why_unmeasured(case.runs, metric)
    if not on_gpu or not spec.gated or reason is None:
        return None
    return MetricVerdict(metric=metric, outcome=None, note=note("measured-nowhere", why=reason))
