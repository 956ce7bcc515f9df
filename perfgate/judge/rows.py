"""Judges every metric of a gate, a row each, in the table's order; knows nothing of what the rows come to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perfgate.judge.compare import PRIOR_DF, Floats, middle
from perfgate.judge.counts import CountJudgement, judge_count, same
from perfgate.judge.looks import STORED_PLAN, Plan
from perfgate.judge.outliers import Kept, Slow, keep, slow_runs
from perfgate.judge.times import PART_OF_STEP, TimeJudgement, TimeRule, in_basis, judge_time
from perfgate.model.baseline import Baseline, BlessedRun
from perfgate.model.metric import (
    CALLED,
    COUNTS,
    GATED_CLOCKS,
    METRICS,
    PERIODS,
    Basis,
    ClockSpec,
    Metric,
    budget_of,
)
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run, why_absent
from perfgate.model.verdict import MetricVerdict
from perfgate.model.words import plural

_OCCASIONS_TO_KNOW = 2
"""Over fewer, a calibration has measured nothing of what occasions differ by."""
_RUNS_TO_BE_EXACT = 3
"""Runs of either side, in a duet, that must agree: over fewer, any count is the same in all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What a gate is judged by beside its runs."""

    budgets: Mapping[Metric, float] = field(default_factory=dict)
    """Fractions, over the defaults; one for a metric that is shown only has no effect."""
    max_runs: int = STORED_PLAN.most_runs
    plan: Plan = STORED_PLAN
    screened: Sequence[Run] = ()
    """In an A/B run: the candidate's runs that were made alone before it, whose slow ones still count."""
    workloads: int = 1
    """Workloads judged together, which share alpha (Holm)."""
    runs_before: int = 0
    """Runs that the gate has made before the pairs of a duet: those of the screen, and of either side alone."""
    against: str | None = None
    """The revision that a user compares with, in a duet without a screen; None of a stored baseline's gate."""
    could_interleave: bool = False
    """Whether there is an interleaved duet to be had in the place of this one, which is not."""
    stored: Baseline | None = None
    """What is blessed, in a duet: which counts are exact its runs know better than the few of the other commit."""

    def is_last(self, runs: int) -> bool:
        """Whether it is the plan's last look; of fewer runs, since no more may be made, chance could excuse any."""
        return (
            runs > self.plan.looks[-2] and self.plan.next_look(runs, max_runs=self.max_runs) == runs
        )


@dataclass(kw_only=True, slots=True)
class Rows:
    """What was judged so far, in the order of the metrics table."""

    rows: list[MetricVerdict] = field(default_factory=list)
    times: list[TimeJudgement] = field(default_factory=list)
    counts: list[CountJudgement] = field(default_factory=list)

    def of(self, outcome: Outcome) -> list[MetricVerdict]:
        """Return the rows of one outcome."""
        return [row for row in self.rows if row.outcome is outcome]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """A count of the processes that have most of it, of those that have the next most, and so on: one value per run."""

    blessed: Sequence[float]
    now: Sequence[float]
    exact: bool


def _places(metric: Metric, baseline: Baseline, runs: Sequence[Run], terms: Terms) -> list[_Place]:
    """A count by processes, in the order of their counts; of the one that has most where the runs' do not match."""
    then, stored = (
        () if of is None else _by_process(metric, of.runs) for of in (baseline, terms.stored)
    )
    now = [run.by_process(metric) for run in runs]
    number = len(now[0]) if all(len(one) == len(now[0]) for one in (*then, *now)) else 1
    found: list[_Place] = []
    for place in range(number):
        blessed, known = ([one[place] for one in of if place < len(one)] for of in (then, stored))
        here = [one[place] for one in now]
        enough = not terms.plan.is_duet or (len(blessed) >= _RUNS_TO_BE_EXACT and same(here))
        found.append(
            _Place(
                blessed=blessed,
                now=here,
                exact=same(blessed) and (same(known) if known else enough),
            )
        )
    return found


def _by_process(metric: Metric, runs: Sequence[BlessedRun]) -> Sequence[tuple[float, ...]]:
    """A count of each blessed run, the most first; none where one has none."""
    if any(metric not in run.values for run in runs):
        return ()
    return [run.counts.get(metric) or (run.values[metric],) for run in runs]


def _judge_count(
    metric: Metric, places: Sequence[_Place], terms: Terms, *, varying: int
) -> CountJudgement:
    """Judge a count by the process that has most of it and, if that has no more than it had, by each of the others.

    They are compared in the order of their counts: a slip that one rank has always made and all make now is a rise.
    """
    judged = [
        judge_count(
            metric,
            one.blessed,
            one.now,
            max_runs=terms.max_runs,
            exact=one.exact,
            varying=varying,
            in_pairs=terms.plan.is_duet,
            budget=terms.budgets.get(metric, 0.0),
        )
        for one in places
    ]
    for outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
        for place, count in enumerate(judged):
            if count.row.outcome is outcome and place == 0:
                return count
            if count.row.outcome is outcome:
                reason = f"{count.row.reason}, in a process that had less of it than the most of the {len(places)}"
                row = count.row.model_copy(update={"reason": reason})
                return replace(count, row=row, remark=f"{metric} {reason}")
    return judged[0]


def judge_rows(baseline: Baseline, runs: Sequence[Run], terms: Terms) -> Rows:
    """Judge what the baseline holds, and show what it lacks; no rows without runs."""
    judged = Rows()
    if not runs:
        return judged
    sharing = sum(bool(baseline.values(metric)) for metric in GATED_CLOCKS)
    medians = baseline.values(Metric.STEP_MS)
    step_ms = middle(medians) if medians else None
    counted = {
        metric: _places(metric, baseline, runs, terms)
        for metric in COUNTS
        if baseline.values(metric) and all(run.value(metric) is not None for run in runs)
    }
    varying = sum(not place.exact for places in counted.values() for place in places)
    # Of a loop that is known to use no GPU, or whose GPU was not traced, each row would say the same.
    on_gpu = any(one.values.keys() - {*PERIODS, *CALLED} for run in runs for one in run.processes)
    for metric, spec in METRICS.items():
        blessed = baseline.values(metric)
        found = [value for run in runs if (value := _value(run, metric, blessed)) is not None]
        missing = len(found) < len(runs)
        if not blessed:
            why = why_unmeasured(runs, metric)
            if found or any(metric in run.values for run in baseline.runs):
                judged.rows.append(_new(metric, baseline, found))
            elif on_gpu and spec.gated and why is not None:
                reason = f"not measured on either side: {why}"
                judged.rows.append(MetricVerdict(metric=metric, outcome=None, reason=reason))
        elif not spec.gated:
            why = _why_missing(metric, runs) if missing else None
            judged.rows.append(_shown(metric, blessed, found, why=why, step_ms=step_ms))
        elif missing:
            reason = _why_missing(metric, runs)
            row = MetricVerdict(
                metric=metric, outcome=Outcome.NOT_MEASURED, baseline=middle(blessed), reason=reason
            )
            judged.rows.append(row)
        elif spec.clock is None:
            count = _judge_count(metric, counted[metric], terms, varying=varying)
            judged.counts.append(count)
            judged.rows.append(count.row)
        else:
            found_of = judge_time(
                rule_of(metric, spec.clock, baseline, terms, times=sharing),
                blessed,
                found,
                step_ms=step_ms,
                why_no_step=why_absent(runs, Metric.STEP_MS),
                is_last=terms.is_last(len(runs)),
                slow_before=slow_alone(metric, baseline, terms),
                extreme_before=extreme_alone(metric, baseline, terms),
            )
            judged.times.append(found_of)
            judged.rows.append(found_of.row)
    return judged


def rule_of(
    metric: Metric, spec: ClockSpec, baseline: Baseline, terms: Terms, *, times: int
) -> TimeRule:
    """Return how a time metric is judged; so many `times` are gated in this gate."""
    calibrated = baseline.calibration.get(metric)
    known = None
    if calibrated is not None and calibrated.occasions >= _OCCASIONS_TO_KNOW:
        known = (calibrated.occasion_sd, PRIOR_DF + calibrated.occasions - 1)
    budget = budget_of(metric, terms.budgets)
    assert budget is not None  # of a time metric that is gated
    return TimeRule(
        metric=metric,
        basis=spec.basis,
        budget=budget,
        prior_sd=spec.prior_sd,
        occasion_sd=spec.occasion_sd,
        block_sd=spec.block_sd,
        least_loss=_least_loss(metric, baseline, terms),
        occasion_runs=tuple(len(occasion.runs) for occasion in baseline.occasions),
        known_occasions=known,
        shares=times * terms.workloads,
        plan=terms.plan,
    )


def _least_loss(metric: Metric, baseline: Baseline, terms: Terms) -> float:
    """What kernel time may lose whatever its own budget: a tenth of what the step may, on the scale of its x."""
    own, steps = baseline.values(metric), baseline.values(Metric.STEP_MS)
    budget = budget_of(Metric.STEP_MS, terms.budgets)
    if metric is not Metric.KERNEL_MS or not own or not steps or budget is None or middle(own) <= 0:
        return 0.0
    return math.log1p(PART_OF_STEP * budget * middle(steps) / middle(own))


def slow_alone(metric: Metric, baseline: Baseline, terms: Terms) -> Slow | None:
    """Count the slow runs among those that the candidate made alone before an A/B run.

    Beside what the other commit takes today: the machine may have become slower since the blessing. In blocks a step
    takes another time than alone, and the blessed runs are what there is.
    """
    sides = _alone(metric, terms.stored if terms.plan.in_pairs else baseline, terms)
    return (
        None
        if sides is None
        else slow_runs(*sides, _kept(metric, sides, baseline, terms).threshold)
    )


def extreme_alone(metric: Metric, baseline: Baseline, terms: Terms) -> bool:
    """Whether one of these, or of the blessed runs, is extreme: it may be a mode that the pairs have not met yet."""
    sides = _alone(metric, terms.stored, terms)
    return sides is not None and bool(_kept(metric, sides, baseline, terms).any_extreme)


def _kept(metric: Metric, sides: tuple[Floats, Floats], baseline: Baseline, terms: Terms) -> Kept:
    spec = METRICS[metric].clock
    assert spec is not None  # of a time metric that is gated
    rule = rule_of(metric, spec, baseline, terms, times=1)
    return keep(sides, prior_sd=rule.prior_sd, budget=rule.limit)


def _alone(metric: Metric, other: Baseline | None, terms: Terms) -> tuple[Floats, Floats] | None:
    """x of the other side's runs, and of the candidate's that were made alone before an A/B run; None of none."""
    if other is None or not terms.screened:
        return None
    basis, there = METRICS[metric].basis, other.values(metric)
    now = [value for run in terms.screened if (value := run.value(metric)) is not None]
    of = there if basis is Basis.LOG else other.values(Metric.STEP_MS)
    reference = middle(of) if of else 0.0
    if not there or not now or reference <= 0:
        return None
    before, after = (in_basis(np.asarray(side), basis, reference) for side in (there, now))
    return (before, after) if np.all(np.isfinite([*before, *after])) else None


def why_unmeasured(runs: Sequence[Run], metric: Metric) -> str | None:
    """Why a metric is not judged that neither side has; None where nobody says, and where there is nothing of it."""
    why = why_absent(runs, metric)
    return None if why is None or why.startswith(NO_NCCL) else why


def _value(run: Run, metric: Metric, blessed: Sequence[float]) -> float | None:
    """A run's value; of NCCL's clocks, which the baseline has, 0 where it is known that no NCCL kernel ran."""
    value = run.value(metric)
    return 0.0 if value is None and blessed and run.why_absent(metric) == NO_NCCL else value


def _new(metric: Metric, baseline: Baseline, found: Sequence[float]) -> MetricVerdict:
    having = sum(metric in run.values for run in baseline.runs)
    told = f"in {having} of {plural(len(baseline.runs), 'baseline run')} only" if having else "new"
    reason = (
        f"{told}, not gated: bless to gate it"
        if METRICS[metric].gated
        else f"{told}; shown, not gated"
    )
    return MetricVerdict(
        metric=metric, outcome=None, now=middle(found) if found else None, reason=reason
    )


def _shown(
    metric: Metric,
    blessed: Sequence[float],
    found: Sequence[float],
    *,
    why: str | None,
    step_ms: float | None,
) -> MetricVerdict:
    there, spec = middle(blessed), METRICS[metric]
    here = middle(found) if found else None
    change = None if here is None else spec.change(there, here, step_ms=step_ms)
    change = change if change is not None and math.isfinite(change) else None
    return MetricVerdict(
        metric=metric,
        outcome=None,
        baseline=there,
        now=here,
        basis=None if change is None else spec.basis,
        change=change,
        reason=why or "shown, not gated",
    )


def _why_missing(metric: Metric, runs: Sequence[Run]) -> str:
    without = [run for run in runs if run.value(metric) is None]
    why = why_absent(without, metric)
    return f"not measured in {len(without)} of {plural(len(runs), 'run')}" + (
        f": {why}" if why else ""
    )
