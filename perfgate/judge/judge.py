"""Puts rows together into one verdict, says why and what to do, and how many more runs or pairs it
wants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from perfgate.judge.evidence import Case, Evidence
from perfgate.judge.looks import NOISY, PLANS, Plan, looks_of
from perfgate.judge.rows import JudgedRow, judge_rows
from perfgate.judge.times import SPECS, Look, columns
from perfgate.model.baseline import BlessedRun, with_held
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import PASSING, Outcome
from perfgate.model.sample import Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import MetricVerdict, Stage, Verdict


def judge(evidence: Evidence, policy: Policy, stage: Stage) -> Verdict:
    """Judge what was measured by the looks of a stage; `more` is 0 where it has no more to say.

    Between looks only a count can end it: each further look at times costs error. While `more` is
    above 0 the verdict is INCONCLUSIVE: the word so far.

    Raises:
        ValueError: there is no baseline to compare with.
    """
    case = _case_of(evidence, policy, PLANS[stage])
    judged = judge_rows(case)
    rows, runs = [one.row for one in judged], len(case.runs)
    outcome, more = _outcome(rows, case)
    if not case.is_look:
        rose = any(row.exact and row.outcome is Outcome.REGRESSED for row in rows)
        is_over = policy.stops_early and rose
        outcome, more = (Outcome.REGRESSED, 0) if is_over else (Outcome.INCONCLUSIVE, case.wanted)
    reason, next_step = _why(case, judged, outcome, more=more)
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
        workloads=policy.sharing,
        loss_level=level,
        loss_by=lost,
        loss_alpha=case.plan.alpha / (case.times * policy.sharing) if case.times else None,
        pass_confidence=case.plan.pass_confidence(runs),
        dropped=tuple(drop for one in judged for drop in one.dropped),
        more=more,
        noisy=step is not None and bool(step.compared.run_sd > NOISY),
    )


def _case_of(evidence: Evidence, policy: Policy, plan: Plan) -> Case:
    """Return what of the evidence a stage compares.

    Raises:
        ValueError: there is no baseline to compare with.
    """
    other: Sequence[BlessedRun] = [BlessedRun.of(there) for there, _ in evidence.pairs]
    runs: Sequence[Run] = [here for _, here in evidence.pairs]
    if not plan.is_ab_run:
        if evidence.blessed is None:
            raise ValueError("there is no baseline to compare with")
        other, runs = evidence.blessed.runs, evidence.alone
    there, number = columns(other), len(runs)
    first, most = looks_of(plan, policy, alone=len(evidence.alone), spent=evidence.spent)
    following = plan.next_look(number, max_runs=most)
    is_later = number > first and (number in plan.looks or number >= most)
    return Case(
        evidence=evidence,
        policy=policy,
        plan=plan,
        other=other,
        runs=runs,
        there=there,
        times=sum(metric in there for metric in SPECS),
        budgets=with_held(policy.budgets, evidence.blessed),
        most=most,
        is_look=number == first or is_later,
        is_last=number > plan.looks[-2] and following == number,
        wanted=(first if number < first else following) - number,
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
            return _inconclusive(case, max(rows, key=lambda one: _size(one.row)))
        case _:  # PASSED: rows never come to the gate's own outcomes, such as NO_BASELINE
            gated = [METRICS[one.row.metric].kind for one in judged if one.row.outcome is not None]
            times, counts = gated.count(Kind.TIME), gated.count(Kind.COUNT)
            against = None if plan.is_ab_run else note("against-blessed", runs=len(case.other))
            fields = {"times": times, "counts": counts, "made": made, "against": against}
            return Note(code="within-budget", fields=fields), None


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
        farthest = note("slow-up-to", longer=longest) if longest > 0 else None
        slow = note(
            "open-slow-runs",
            slow=int(look.slow.candidate),
            runs=look.slow.candidates,
            other_slow=int(look.slow.other),
            other_runs=look.slow.others,
            what=what,
            farthest=farthest,
        )
        return slow, allow
    smallest, sd = row.smallest or 0.0, float(look.compared.run_sd)
    settle = None if plan.is_ab_run else note("let-pairs-settle")
    fields = {"made": number_of(plan, runs), "smallest": smallest, "metric": row.metric, "sd": sd}
    return Note(code="open-at-budget", fields={"what": what, "settle": settle, **fields}), allow


def _size(row: MetricVerdict) -> tuple[bool, float]:
    """How much an open row says: counts before times, as they are exact; then by size, times by
    budgets."""
    if row.is_count:
        return True, math.inf if row.change is None else abs(row.change)
    return False, math.inf if row.high is None else abs(row.high) / (row.budget or 1.0)


def _what(row: MetricVerdict) -> Note:
    return note("metric-is", metric=str(row.metric), what=row.note)


def _allow(case: Case, wanted: int) -> Note:
    """Say what allows so many runs, or pairs."""
    is_ab_run, made = case.plan.is_ab_run, number_of(case.plan, wanted)
    most = 2 * wanted + case.evidence.spent if is_ab_run else wanted
    return note("allow", made=made, most=most)
