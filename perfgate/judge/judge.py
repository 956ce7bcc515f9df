"""Puts rows together into one verdict, and says how many more runs or pairs it wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perfgate.judge.evidence import Case, Evidence
from perfgate.judge.looks import NOISY, PLANS
from perfgate.judge.reasons import notes_of, why
from perfgate.judge.rows import judge_rows
from perfgate.judge.times import Look
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.note import note
from perfgate.model.outcome import PASSING, Outcome
from perfgate.model.settings import Policy
from perfgate.model.verdict import MetricVerdict, Stage, Verdict


def judge(evidence: Evidence, policy: Policy, stage: Stage) -> Verdict:
    """Judge what was measured by the looks of a stage; `more` is 0 where it has no more to say.

    Between looks only a count can end it: each further look at times costs error. While `more` is
    above 0 the verdict is INCONCLUSIVE: the word so far.

    Raises:
        ValueError: there is no baseline to compare with.
    """
    case = Case(evidence, policy, PLANS[stage])
    judged = judge_rows(case)
    rows, runs = [one.row for one in judged], len(case.runs)
    outcome, more = _outcome(rows, case)
    if not case.is_look:
        rose = any(row.exact and row.outcome is Outcome.REGRESSED for row in rows)
        is_over = policy.stops_early and rose
        outcome, more = (Outcome.REGRESSED, 0) if is_over else (Outcome.INCONCLUSIVE, case.wanted)
    reason, next_step = why(case, judged, outcome, more=more)
    by_count = outcome is Outcome.REGRESSED and not (case.is_look and case.plan.fails)
    if stage is Stage.COUNTS or by_count:
        rows = [_estimate(row, runs) for row in rows]
    looks = {one.row.metric: one.look for one in judged if one.look is not None}
    level, lost = _clearest_loss(looks, case)
    step = looks.get(Metric.STEP_MS)
    return Verdict(
        workload=evidence.workload,
        outcome=outcome,
        why=reason,
        next=next_step,
        metrics=tuple(rows),
        runs=runs,
        baseline_runs=len(case.other),
        stage=stage,
        workloads=policy.workloads,
        loss_level=level,
        loss_by=lost,
        loss_alpha=case.plan.alpha / (case.times * policy.workloads) if case.times else None,
        dropped=tuple(drop for one in judged for drop in one.dropped),
        notes=notes_of(judged),
        more=more,
        noisy=step is not None and bool(step.compared.run_sd > NOISY),
    )


def _clearest_loss(
    looks: Mapping[Metric, Look], case: Case
) -> tuple[float, Metric] | tuple[None, None]:
    """The least level of a loss of time, over what a gate of this workload may spend."""
    return min(
        (
            (float(look.level) * case.times, metric)
            for metric, look in looks.items()
            if case.is_look and np.isfinite(look.level)
        ),
        default=(None, None),
    )


def _outcome(rows: Sequence[MetricVerdict], case: Case) -> tuple[Outcome, int]:
    """Say what the rows come to at a look, and how many more runs that wants.

    PASSED is what remains when something was judged and nothing spoke against it.
    """
    plan, gated = case.plan, [row.outcome for row in rows if row.outcome is not None]
    ranked = (Outcome.REGRESSED, Outcome.NOT_MEASURED, Outcome.INCONCLUSIVE, Outcome.IMPROVED)
    found = next((one for one in ranked if one in gated), Outcome.PASSED)
    if not gated:
        return Outcome.NOT_MEASURED, 0
    if found in PASSING and plan.stage is Stage.COUNTS:
        return Outcome.INCONCLUSIVE, 0
    if found in PASSING and len(case.runs) < plan.fewest_to_pass:
        return Outcome.INCONCLUSIVE, case.wanted
    if found is not Outcome.INCONCLUSIVE:
        return found, 0
    if any(row.exact and row.outcome is Outcome.INCONCLUSIVE for row in rows):
        return found, 1  # a rise in the only run: a second process must confirm it
    return found, case.wanted if plan.fails else 0


def _estimate(row: MetricVerdict, runs: int) -> MetricVerdict:
    """A row that a loss which ended the gate left no runs for: shown, and not judged."""
    is_time, is_exact = METRICS[row.metric].kind is Kind.TIME, row.exact is True
    settled = (None, Outcome.REGRESSED, Outcome.NOT_MEASURED)
    is_left = row.outcome not in settled if is_time else row.outcome is Outcome.INCONCLUSIVE
    if not is_left or is_exact:
        return row
    return row.model_copy(update={"outcome": None, "note": note("only-estimated", runs=runs)})
