"""Puts rows together into one verdict, and says how many more runs or pairs it wants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.clock import clock_moved
from perfgate.judge.evidence import Evidence, Held, Other
from perfgate.judge.looks import NOISY, PLANS, Plan
from perfgate.judge.reasons import Judged, notes, why
from perfgate.judge.rows import Rows, Terms, judge_rows
from perfgate.model.baseline import with_held
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.note import note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict, Stage, Verdict


def judge(evidence: Evidence, policy: Held, stage: Stage) -> Verdict:
    """Judge what was measured by the looks of a stage; `more` is 0 where it has no more to say.

    Between looks only a count can end it: each further look at times costs error. While `more` is
    above 0 the verdict is INCONCLUSIVE: the word so far.

    Raises ValueError for a budget that is negative or no number: the border should have refused it.
    """
    for metric, budget in policy.budgets.items():
        if not (math.isfinite(budget) and budget >= 0):
            raise ValueError(f"budget of {metric} is {budget}, expected a fraction of at least 0")
    plan, sides = PLANS[stage], _sides(evidence, stage)
    first, most = looks_of(plan, policy, alone=len(evidence.alone), spent=evidence.spent)
    terms = Terms(
        budgets=with_held(policy.budgets, evidence.blessed),
        max_runs=most,
        plan=plan,
        alone=evidence.alone if plan.is_ab_run else (),
        workloads=policy.workloads,
        stored=None if evidence.blessed is None else Other.blessed(evidence.blessed),
    )
    rows = judge_rows(sides.other, sides.runs, terms)
    runs = len(sides.runs)
    at_look = plan.is_look(runs, first=first, most=most)
    outcome, more = _outcome(rows, runs, terms)
    if not at_look:
        more = (first if runs < first else plan.next_look(runs, max_runs=most)) - runs
        ends = policy.stops_early and any(row.exact for row in rows.of(Outcome.REGRESSED))
        outcome, more = (Outcome.REGRESSED, 0) if ends else (Outcome.INCONCLUSIVE, more)
    if stage is Stage.COUNTS or (outcome is Outcome.REGRESSED and (not at_look or not plan.fails)):
        rows.rows = [_estimate(row, runs) for row in rows.rows]
    judged = Judged(
        evidence=evidence,
        terms=terms,
        outcome=outcome,
        rows=rows,
        runs=runs,
        other_runs=len(sides.other.runs),
        more=more,
    )
    reason, next_step = why(judged)
    moved = clock_moved(sides.other.runs, sides.runs)
    level, lost = _clearest_loss(rows, terms) if at_look else (None, None)
    return Verdict(
        workload=evidence.workload,
        outcome=outcome,
        why=reason,
        next=next_step,
        metrics=tuple(rows.rows),
        runs=runs,
        baseline_runs=len(sides.other.runs),
        stage=stage,
        workloads=terms.workloads,
        loss_level=level,
        loss_by=lost,
        loss_alpha=rows.times[0].rule.loss_alpha if rows.times else None,
        dropped=tuple(drop for time in rows.times for drop in time.dropped),
        notes=(*notes(judged), *(() if moved is None else (note("kernels-follow", clock=moved),))),
        more=more,
        noisy=_noisy(rows),
    )


def looks_of(plan: Plan, policy: Held, *, alone: int, spent: int) -> tuple[int, int]:
    """Return the first look's and the most runs of one side, or pairs; `alone` and `spent` before.

    Where a user asked for runs, pairs are made until there are so many: a bless takes those alone.
    """
    if not plan.is_ab_run:
        most = max(min(plan.most_runs, policy.max_runs), policy.runs)
        return (1 if plan.stage is Stage.COUNTS else policy.runs), most
    most = min((policy.max_runs - spent) // 2, plan.most_runs)
    asked = 0 if policy.stops_early or plan.in_pairs else policy.runs - alone
    return max(min(max(plan.fewest_to_fail, asked), most), 1), most


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sides:
    other: Other
    runs: Sequence[Run]


def _sides(evidence: Evidence, stage: Stage) -> _Sides:
    if PLANS[stage].is_ab_run:
        there, here = zip(*evidence.pairs, strict=True) if evidence.pairs else ((), ())
        return _Sides(other=Other.today(there), runs=here)
    if evidence.blessed is None:
        raise ValueError("there is no baseline to compare with")
    return _Sides(other=Other.blessed(evidence.blessed, evidence.spread), runs=evidence.alone)


def _outcome(rows: Rows, runs: int, terms: Terms) -> tuple[Outcome, int]:
    """Say what the rows come to at a look, and how many more runs that wants."""
    plan, outcome = terms.plan, _aggregate(rows)
    following = plan.next_look(runs, max_runs=terms.max_runs) - runs
    if outcome in (Outcome.PASSED, Outcome.IMPROVED) and plan.stage is Stage.COUNTS:
        return Outcome.INCONCLUSIVE, 0
    if outcome in (Outcome.PASSED, Outcome.IMPROVED) and runs < plan.fewest_to_pass:
        return Outcome.INCONCLUSIVE, following
    if outcome is not Outcome.INCONCLUSIVE:
        return outcome, 0
    if any(count.wants_second_run for count in rows.counts):
        return outcome, 1
    return outcome, following if plan.fails else 0


def _aggregate(rows: Rows) -> Outcome:
    """PASSED is what remains when something was judged and nothing spoke against it."""
    gated = [row.outcome for row in rows.rows if row.outcome is not None]
    if not gated:
        return Outcome.NOT_MEASURED
    ranked = (Outcome.REGRESSED, Outcome.NOT_MEASURED, Outcome.INCONCLUSIVE, Outcome.IMPROVED)
    return next((outcome for outcome in ranked if outcome in gated), Outcome.PASSED)


def _estimate(row: MetricVerdict, runs: int) -> MetricVerdict:
    """A row that a loss which ended the gate left no runs for: shown, and not judged."""
    settled = (None, Outcome.REGRESSED, Outcome.NOT_MEASURED)
    is_open = row.outcome is Outcome.INCONCLUSIVE and row.exact is not True
    is_time = METRICS[row.metric].kind is Kind.CLOCK and row.outcome not in settled
    if not is_open and not is_time:
        return row
    return row.model_copy(update={"outcome": None, "note": note("only-estimated", runs=runs)})


def _noisy(rows: Rows) -> bool:
    """Whether kept step times have an SD beyond `NOISY`, of both sides or the candidate's own."""
    step = next((time for time in rows.times if time.rule.metric is Metric.STEP_MS), None)
    return step is not None and step.look is not None and bool(step.look.run_sd > NOISY)


def _clearest_loss(rows: Rows, terms: Terms) -> tuple[float, Metric] | tuple[None, None]:
    """Return the level of the clearest loss of time, over what a gate of this workload may spend."""
    levels = [
        (time.level * time.rule.shares / terms.workloads, time.rule.metric)
        for time in rows.times
        if time.level is not None
    ]
    return min(levels, default=(None, None))
