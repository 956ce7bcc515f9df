"""Judges every metric of a gate, a row each; knows nothing of what the rows come to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perfgate.judge.compare import NOTHING_LEARNT, Floats, middle
from perfgate.judge.counts import CountJudgement, judge_count, same
from perfgate.judge.evidence import Other
from perfgate.judge.looks import STORED_PLAN, Plan
from perfgate.judge.outliers import Slow, keep, slow_runs
from perfgate.judge.time_rows import TimeJudgement, Times, judge_time
from perfgate.judge.times import PART_OF_STEP, TimeRule, in_basis
from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import (
    CALLED,
    COUNTS,
    GATED_TIMES,
    METRICS,
    PERIODS,
    Basis,
    Metric,
    TimeSpec,
    budget_of,
)
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run, why_absent
from perfgate.model.verdict import MetricVerdict, Stage

_RUNS_TO_BE_EXACT = 3
"""Runs of either side, in an A/B run, that must agree: over fewer, any count is the same in all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What a gate is judged by next to the runs that are compared."""

    budgets: Mapping[Metric, float] = field(default_factory=dict)
    """Fractions, over the defaults; one for a metric that is shown only has no effect."""
    max_runs: int = STORED_PLAN.most_runs
    """Of one side."""
    plan: Plan = STORED_PLAN
    alone: Sequence[Run] = ()
    """In an A/B run: the candidate's that were made alone before it, whose slow ones still count.
    """
    workloads: int = 1
    """Workloads judged together, which share alpha (Holm)."""
    stored: Other | None = None
    """In an A/B run, what is blessed: which counts are exact its runs know better."""


@dataclass(kw_only=True, slots=True)
class Rows:
    """What was judged so far, in the order of the metrics table."""

    rows: list[MetricVerdict] = field(default_factory=list)
    times: list[TimeJudgement] = field(default_factory=list)
    counts: list[CountJudgement] = field(default_factory=list)

    def of(self, outcome: Outcome) -> list[MetricVerdict]:
        """Return the rows of one outcome."""
        return [row for row in self.rows if row.outcome is outcome]


def judge_rows(other: Other, runs: Sequence[Run], terms: Terms) -> Rows:
    """Judge what the other side holds, and show what it lacks; no rows without runs."""
    judged = Rows()
    if not runs:
        return judged
    counted = {
        metric: _places(metric, other, runs, terms)
        for metric in COUNTS
        if other.values(metric) and all(run.value(metric) is not None for run in runs)
    }
    varying = sum(not place.exact for places in counted.values() for place in places)
    # Of a loop that uses no GPU, or whose GPU was not traced, each row would say the same.
    on_gpu = any(one.values.keys() - {*PERIODS, *CALLED} for run in runs for one in run.processes)
    for metric, spec in METRICS.items():
        blessed = other.values(metric)
        found = [value for run in runs if (value := _value(run, metric, blessed)) is not None]
        if not blessed or not spec.gated or len(found) < len(runs):
            row = _unjudged(metric, other, runs, found, on_gpu=on_gpu)
            judged.rows += () if row is None else (row,)
        elif spec.clock is None:
            count = _judge_count(metric, counted[metric], terms, varying=varying)
            judged.counts.append(count)
            judged.rows.append(count.row)
        else:
            time = _judge_time(metric, spec.clock, other, runs, found, terms)
            judged.times.append(time)
            judged.rows.append(time.row)
    return judged


# Counts


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """A count of the processes that have most of it, or the next most: one value per run."""

    blessed: Sequence[float]
    now: Sequence[float]
    exact: bool


def _places(metric: Metric, other: Other, runs: Sequence[Run], terms: Terms) -> list[_Place]:
    """A count by processes, in order; of the one that has most where the runs do not match."""
    then, stored = (
        () if of is None else _by_process(metric, of.runs) for of in (other, terms.stored)
    )
    now = [run.by_process(metric) for run in runs]
    number = len(now[0]) if all(len(one) == len(now[0]) for one in (*then, *now)) else 1
    found: list[_Place] = []
    for place in range(number):
        blessed, known = ([one[place] for one in of if place < len(one)] for of in (then, stored))
        here = [one[place] for one in now]
        enough = not terms.plan.is_ab_run or (len(blessed) >= _RUNS_TO_BE_EXACT and same(here))
        exact = same(blessed) and (same(known) if known else enough)
        found.append(_Place(blessed=blessed, now=here, exact=exact))
    return found


def _by_process(metric: Metric, runs: Sequence[BlessedRun]) -> Sequence[tuple[float, ...]]:
    """A count of each blessed run, the most first; none where one has none."""
    if any(metric not in run.values for run in runs):
        return ()
    return [run.counts.get(metric) or (run.values[metric],) for run in runs]


def _judge_count(
    metric: Metric, places: Sequence[_Place], terms: Terms, *, varying: int
) -> CountJudgement:
    """Judge a count by the process that has most of it and, if that has no more, by the others.

    In the order of their counts: what one rank has always made and all make now is a rise.
    """
    judged = [
        judge_count(
            metric,
            one.blessed,
            one.now,
            max_runs=terms.max_runs,
            exact=one.exact,
            varying=varying,
            budget=terms.budgets.get(metric, 0.0),
        )
        for one in places
    ]
    for outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
        for place, count in enumerate(judged):
            if count.row.outcome is outcome and place == 0:
                return count
            if count.row.outcome is outcome:
                why = note("count-of-process", count=count.row.note, processes=len(places))
                row = count.row.model_copy(update={"note": why})
                return replace(count, row=row, is_worth_a_note=True)
    return judged[0]


# Times


def _judge_time(
    metric: Metric,
    spec: TimeSpec,
    other: Other,
    runs: Sequence[Run],
    found: Sequence[float],
    terms: Terms,
) -> TimeJudgement:
    rule = rule_of(metric, spec, other, terms)
    steps = other.values(Metric.STEP_MS)
    slow, extreme = _alone(rule, other, terms)
    times = Times(
        blessed=other.values(metric),
        now=found,
        step_ms=middle(steps) if steps else None,
        why_no_step=why_absent(runs, Metric.STEP_MS),
        is_last=terms.plan.is_last(len(runs), most=terms.max_runs),
        slow_before=slow,
        extreme_before=extreme,
    )
    return judge_time(rule, times)


def rule_of(metric: Metric, spec: TimeSpec, other: Other, terms: Terms) -> TimeRule:
    """Return how a time metric is judged; all gated times of the other side share alpha."""
    sharing = sum(bool(other.values(one)) for one in GATED_TIMES)
    return TimeRule(
        metric=metric,
        basis=spec.basis,
        budget=terms.budgets.get(metric, spec.budget),
        prior_sd=spec.prior_sd,
        occasion_sd=spec.occasion_sd,
        block_sd=spec.block_sd,
        least_loss=_least_loss(metric, other, terms),
        occasion_runs=other.occasion_runs,
        known_occasions=other.calibrated.get(metric),
        learnt=other.spread.get(metric, NOTHING_LEARNT),
        shares=sharing * terms.workloads,
        plan=terms.plan,
    )


def _least_loss(metric: Metric, other: Other, terms: Terms) -> float:
    """What kernel time may lose whatever its own budget: a tenth of what the step may."""
    own, steps = other.values(metric), other.values(Metric.STEP_MS)
    budget = budget_of(Metric.STEP_MS, terms.budgets) or 0.0
    if metric is not Metric.KERNEL_MS or not own or not steps:
        return 0.0
    kernel_ms, step_ms = middle(own), max(middle(steps), 0.0)
    return math.log1p(PART_OF_STEP * budget * step_ms / kernel_ms) if kernel_ms > 0 else 0.0


def _alone(rule: TimeRule, other: Other, terms: Terms) -> tuple[Slow | None, bool]:
    """Say which runs that the candidate made alone before an A/B run are slow, and if any is
    extreme.

    Slow next to what the other commit takes today: the machine may have become slower. In blocks a
    step takes another time than alone, and the blessed runs are what there is. Extreme is one of
    these, or of the blessed ones: it may be a mode that the pairs have not met yet.
    """
    stored = _x_alone(rule, terms.stored, terms)
    usual = stored if terms.plan.in_pairs else _x_alone(rule, other, terms)
    slow, extreme = None, False
    if usual is not None:
        threshold = keep(usual, prior_sd=rule.prior_sd, budget=rule.limit).threshold
        slow = slow_runs(*usual, threshold)
    if stored is not None and terms.plan.stage is Stage.AB_RUN:
        extreme = bool(keep(stored, prior_sd=rule.prior_sd, budget=rule.limit).any_extreme)
    return slow, extreme


def _x_alone(rule: TimeRule, other: Other | None, terms: Terms) -> tuple[Floats, Floats] | None:
    """x of the other side's runs, and of the candidate's made alone; None where there are none."""
    if other is None or not terms.alone:
        return None
    there = other.values(rule.metric)
    now = [value for run in terms.alone if (value := run.value(rule.metric)) is not None]
    of = there if rule.basis is Basis.LOG else other.values(Metric.STEP_MS)
    reference = middle(of) if of else 0.0
    if not there or not now or reference <= 0:
        return None
    before, after = (in_basis(np.asarray(side), rule.basis, reference) for side in (there, now))
    return (before, after) if np.all(np.isfinite([*before, *after])) else None


# What is not judged


def why_unmeasured(runs: Sequence[Run], metric: Metric) -> Note | None:
    """Why a metric is not judged that neither side has; None where there is nothing of it."""
    why = why_absent(runs, metric)
    return None if why is None or why.code.startswith(NO_NCCL.code) else why


def _value(run: Run, metric: Metric, blessed: Sequence[float]) -> float | None:
    """A run's value; of NCCL's times, which the baseline has, 0 where no NCCL kernel ran."""
    value = run.value(metric)
    return 0.0 if value is None and blessed and run.why_absent(metric) == NO_NCCL else value


def _unjudged(
    metric: Metric, other: Other, runs: Sequence[Run], found: Sequence[float], *, on_gpu: bool
) -> MetricVerdict | None:
    """The row of what one side lacks, or of what is shown only; None where neither side has it."""
    blessed, spec = other.values(metric), METRICS[metric]
    having = sum(metric in run.values for run in other.runs)
    now = middle(found) if found else None
    missing = _missing(metric, runs)
    if blessed and spec.gated:
        return MetricVerdict(
            metric=metric, outcome=Outcome.NOT_MEASURED, baseline=middle(blessed), note=missing
        )
    if blessed:
        there, steps = middle(blessed), other.values(Metric.STEP_MS)
        step_ms = middle(steps) if steps else None
        change = None if now is None else spec.change(there, now, step_ms=step_ms)
        change = change if change is not None and math.isfinite(change) else None
        return MetricVerdict(
            metric=metric,
            outcome=None,
            baseline=there,
            now=now,
            basis=None if change is None else spec.basis,
            change=change,
            note=note("only-shown") if missing is None else missing,
        )
    if found or having:
        code = "new-to-gate" if spec.gated else "new-to-show"
        why = note(code, having=having, runs=len(other.runs))
        return MetricVerdict(metric=metric, outcome=None, now=now, note=why)
    reason = why_unmeasured(runs, metric)
    if not on_gpu or not spec.gated or reason is None:
        return None
    why = note("measured-nowhere", why=reason)
    return MetricVerdict(metric=metric, outcome=None, note=why)


def _missing(metric: Metric, runs: Sequence[Run]) -> Note | None:
    without = [run for run in runs if run.value(metric) is None]
    if not without:
        return None
    why = why_absent(without, metric)
    number, of = len(without), len(runs)
    if why is None:
        return note("missing-in-runs", without=number, runs=of)
    return note("missing-in-runs-because", without=number, runs=of, why=why)
