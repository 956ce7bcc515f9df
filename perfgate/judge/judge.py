"""Puts rows together into one verdict, says why and what to do, and how many more runs or pairs it
wants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfgate.judge.evidence import Case, Evidence
from perfgate.judge.looks import NOISY, PLANS, Plan
from perfgate.judge.rows import JudgedRow, judge_rows
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
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
    reason, next_step = _why(case, judged, outcome, more=more)
    by_count = outcome is Outcome.REGRESSED and not (case.is_look and case.plan.fails)
    if stage is Stage.COUNTS or by_count:
        rows = [_estimate(row, runs) for row in rows]
    looks = {one.row.metric: one.look for one in judged if one.look is not None}
    losses = {
        metric: float(look.level) * case.times
        for metric, look in looks.items()
        if case.is_look and np.isfinite(look.level)
    }
    lost = min(losses, key=lambda one: (losses[one], one), default=None)
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
        workloads=policy.sharing,
        loss_level=None if lost is None else losses[lost],
        loss_by=lost,
        loss_alpha=case.plan.alpha / (case.times * policy.sharing) if case.times else None,
        pass_confidence=case.plan.pass_confidence(runs),
        dropped=tuple(drop for one in judged for drop in one.dropped),
        more=more,
        noisy=step is not None and bool(step.compared.run_sd > NOISY),
    )


def _outcome(rows: Sequence[MetricVerdict], case: Case) -> tuple[Outcome, int]:
    """Say what the rows come to, and how many more runs that wants.

    PASSED is what remains when something was judged and nothing spoke against it.
    """
    plan, gated = case.plan, [row.outcome for row in rows if row.outcome is not None]
    if not case.is_look:
        rose = any(row.exact and row.outcome is Outcome.REGRESSED for row in rows)
        is_over = case.policy.stops_early and rose
        return (Outcome.REGRESSED, 0) if is_over else (Outcome.INCONCLUSIVE, case.wanted)
    if not gated:
        return Outcome.NOT_MEASURED, 0
    ranked = (Outcome.REGRESSED, Outcome.NOT_MEASURED, Outcome.INCONCLUSIVE, Outcome.IMPROVED)
    found = next((one for one in ranked if one in gated), Outcome.PASSED)
    if found in PASSING and plan.stage is Stage.COUNTS:
        return Outcome.INCONCLUSIVE, 0
    if found in PASSING and len(case.runs) < plan.fewest_to_pass:
        return Outcome.INCONCLUSIVE, case.wanted
    if found is not Outcome.INCONCLUSIVE:
        return found, 0
    if any(row.exact and row.outcome is found for row in rows):
        return found, 1  # a rise in the only run: a second process must confirm it
    return found, case.wanted if plan.fails else 0


def _estimate(row: MetricVerdict, runs: int) -> MetricVerdict:
    """A row that a loss which ended the gate left no runs for: shown, and not judged."""
    is_left = row.outcome is Outcome.INCONCLUSIVE or (row.outcome in PASSING and not row.is_count)
    if not is_left or row.exact:
        return row
    return row.model_copy(update={"outcome": None, "note": note("only-estimated", runs=runs)})


# Why, and what to do: nothing is decided here


def number_of(plan: Plan, number: int) -> Note:
    """A number of runs, or of pairs."""
    if not plan.is_ab_run:
        return note("number-of-runs", number=number)
    return note("number-of-blocks" if plan.in_pairs else "number-of-pairs", number=number)


def _why(
    case: Case, judged: Sequence[JudgedRow], outcome: Outcome, *, more: int
) -> tuple[Note, Note | None]:
    """Say why, and what to do where that does not follow from it."""
    plan, runs, fewest = case.plan, len(case.runs), case.plan.fewest_to_pass
    made, rows = number_of(plan, runs), [one for one in judged if one.row.outcome is outcome]
    what = tuple(_what(one.row) for one in rows)
    match outcome:
        case Outcome.REGRESSED | Outcome.IMPROVED:
            return note("metrics-moved", rows=what), None
        case Outcome.NOT_MEASURED:
            found = what or (note("gates-nothing"),)
            return note("not-all-judged", rows=found, workload=case.evidence.workload), None
        case Outcome.INCONCLUSIVE if more or plan.stage is Stage.COUNTS:
            return note("unsettled", made=made), None
        case Outcome.INCONCLUSIVE if runs < fewest:
            return note("too-few", made=made, fewest=fewest), _allow(case, fewest)
        case Outcome.INCONCLUSIVE:
            return _inconclusive(case, max(rows, key=_size))
        case _:  # PASSED: rows never come to the gate's own outcomes, such as NO_BASELINE
            gated = [one.row for one in judged if one.row.outcome is not None]
            counts = sum(row.is_count for row in gated)
            against = None if plan.is_ab_run else note("against-blessed", runs=len(case.other))
            times = len(gated) - counts
            return note(
                "within-budget", times=times, counts=counts, made=made, against=against
            ), None


def _inconclusive(case: Case, worst: JudgedRow) -> tuple[Note, Note | None]:
    """Say what keeps it open, and what would settle it."""
    plan, runs, row, look = case.plan, len(case.runs), worst.row, worst.look
    what, allow = _what(row), _allow(case, plan.most_runs) if runs < plan.most_runs else None
    if look is None:
        return note("open", what=what), allow if row.is_count else None
    if look.by_chance:
        return note("open-two-modes", what=what), None
    if look.within:
        dropped = (drop.distance for drop in worst.dropped if drop.side == "candidate")
        longest = max(dropped, default=0.0)  # not known of those that were made before pairs
        there, here = look.slow
        slow = note(
            "open-slow-runs",
            slow=int(here.sum()),
            runs=len(here),
            other_slow=int(there.sum()),
            other_runs=len(there),
            what=what,
            farthest=note("slow-up-to", longer=longest) if longest > 0 else None,
        )
        return slow, allow
    at_budget = note(
        "open-at-budget",
        what=what,
        settle=None if plan.is_ab_run else note("let-pairs-settle"),
        made=number_of(plan, runs),
        smallest=row.smallest or 0.0,
        metric=row.metric,
        sd=float(look.compared.run_sd),
    )
    return at_budget, allow


def _size(one: JudgedRow) -> tuple[bool, float]:
    """How much an open row says: counts before times, as they are exact; then by size, times by
    budgets."""
    row = one.row
    size = row.change if row.is_count else row.high
    return row.is_count, math.inf if size is None else abs(size) / (row.budget or 1.0)


def _what(row: MetricVerdict) -> Note:
    return note("metric-is", metric=str(row.metric), what=row.note)


def _allow(case: Case, wanted: int) -> Note:
    """Say what allows so many runs, or pairs."""
    most = 2 * wanted + case.evidence.spent if case.plan.is_ab_run else wanted
    return note("allow", made=number_of(case.plan, wanted), most=most)
