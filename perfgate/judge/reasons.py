"""Why a verdict is what it is, and what to do: notes, of which nothing is decided here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.evidence import Evidence
from perfgate.judge.outliers import Slow
from perfgate.judge.rows import Rows, Terms
from perfgate.judge.time_rows import TimeJudgement
from perfgate.model.baseline import FEWEST_RUNS
from perfgate.model.metric import METRICS, NO_LONGER_GATED, Kind
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict, Stage, Verdict

_NEXT_TO_NOTHING = 1e-9
"""Stands for a budget of zero where one must be divided by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What is known of a gate once its rows are judged."""

    evidence: Evidence
    terms: Terms
    outcome: Outcome
    rows: Rows
    runs: int
    """Or pairs."""
    other_runs: int
    more: int

    @property
    def is_open(self) -> bool:
        """Whether more runs or pairs would be made if they were allowed."""
        return self.runs < self.terms.plan.most_runs


def why(judged: Judged) -> tuple[Note, Note | None]:
    """Say why, and what to do where that does not follow from it."""
    rows, plan = judged.rows, judged.terms.plan
    match judged.outcome:
        case Outcome.REGRESSED | Outcome.IMPROVED as outcome:
            moved = tuple(str(row.metric) for row in rows.of(outcome))
            is_loss = outcome is Outcome.REGRESSED
            return note("metrics-regressed" if is_loss else "metrics-improved", metrics=moved), None
        case Outcome.NOT_MEASURED:
            return _not_measured(judged), None
        case Outcome.INCONCLUSIVE if judged.more or plan.stage is Stage.COUNTS:
            code = "unsettled-by-pairs" if plan.is_ab_run else "unsettled-by-runs"
            return note(code, runs=judged.runs), None
        case Outcome.INCONCLUSIVE:
            return _inconclusive(judged)
        case _:  # PASSED: rows never come to the gate's own outcomes, such as NO_BASELINE
            return _passed(judged), None


def _passed(judged: Judged) -> Note:
    rows, plan = judged.rows, judged.terms.plan
    return note(
        "within-budget-in-pairs" if plan.is_ab_run else "within-budget",
        times=len(rows.times),
        counts=len(rows.counts),
        runs=judged.runs,
        blessed=judged.other_runs,
    )


def notes(judged: Judged) -> tuple[Note, ...]:
    """Say what is worth knowing next to the verdict."""
    evidence, rows = judged.evidence, judged.rows
    found: list[Note] = []
    if evidence.no_pairs is not None and judged.terms.plan.stage is Stage.STORED:
        found.append(note("no-ab-run", Severity.WARN, why=evidence.no_pairs))
    ungated = tuple(str(one) for one in NO_LONGER_GATED if one in judged.terms.budgets)
    if ungated:
        found.append(note("budget-without-effect", Severity.WARN, metrics=ungated))
    found += (
        note("count-of", metric=count.row.metric, count=count.row.note)
        for count in rows.counts
        if count.is_worth_a_note
    )
    passed = [time.slow for time in rows.times if time.slow and _is_passed(time)]
    if passed:
        found.append(_slow("slow-by-chance", max(passed, key=lambda slow: int(slow.candidate))))
    return tuple(found)


def _is_passed(time: TimeJudgement) -> bool:
    return time.row.outcome in (Outcome.PASSED, Outcome.IMPROVED)


def worst(rows: Sequence[MetricVerdict]) -> MetricVerdict:
    """Return the row that says most: counts before times, as they are exact; then by size.

    Times by budgets; what is not judged by its own interval comes last.
    """

    def size(row: MetricVerdict) -> tuple[bool, bool, float]:
        is_count = METRICS[row.metric].kind is Kind.COUNT
        is_own = is_count or row.change is None or row.low is not None
        reach = row.high if row.outcome is Outcome.INCONCLUSIVE and not is_count else row.change
        change = math.inf if reach is None else abs(reach)
        return is_count, is_own, change if is_count else change / (row.budget or _NEXT_TO_NOTHING)

    return max(rows, key=size)


def _not_measured(judged: Judged) -> Note:
    missing = judged.rows.of(Outcome.NOT_MEASURED)
    if not judged.runs:
        return note("no-runs")
    if not missing:
        return note("baseline-gates-nothing", workload=judged.evidence.workload)
    found = tuple(note("metric-is", metric=row.metric, what=row.note) for row in missing)
    return note("not-all-judged", rows=found, workload=judged.evidence.workload)


def _inconclusive(judged: Judged) -> tuple[Note, Note | None]:
    """Say what keeps it open, and what would settle it."""
    plan, open_rows = judged.terms.plan, judged.rows.of(Outcome.INCONCLUSIVE)
    if judged.runs < plan.fewest_to_pass:
        fewest = plan.fewest_to_pass
        code = "too-few-pairs" if plan.is_ab_run else "too-few-runs"
        return note(code, runs=judged.runs, fewest=fewest), _allow(judged, fewest)
    row = worst(open_rows)
    metric = str(row.metric)
    what = note("metric-is", metric=metric, what=row.note)
    if METRICS[row.metric].kind is Kind.COUNT:
        steady = note("steady-count")
        return note("open", what=what), _allow(judged) if judged.is_open else steady
    time = next(time for time in judged.rows.times if time.row is row)
    if time.look is None:
        return note("open", what=what), note("see-captures")
    if time.look.by_chance:
        return note("open-two-modes", what=what), None
    if time.slow is not None:
        return (
            _slow("open-slow-runs", time.slow, what=what, farthest=_farthest(time)),
            _allow(judged) if judged.is_open else note("find-slow-runs"),
        )
    reason = note(
        "open-in-pairs" if plan.is_ab_run else "open-in-runs",
        what=what,
        runs=judged.runs,
        smallest=row.smallest or 0.0,
    )
    if judged.is_open:
        return reason, _allow(judged)
    sd = float(time.look.run_sd)
    if not plan.is_ab_run:
        return reason, note("let-pairs-settle", sd=sd, metric=metric)
    may_interleave = Stage.BLOCKS in judged.evidence.can_pair and not plan.in_pairs
    return reason, note("take-turns" if may_interleave else "steady", sd=sd, metric=metric)


def _slow(
    code: str, slow: Slow, *, what: Note | None = None, farthest: float | None = None
) -> Note:
    """Say how many of the candidate's processes were slow, and how many of the other side's."""
    return note(
        code,
        slow=int(slow.candidate),
        runs=slow.candidates,
        other_slow=int(slow.other),
        other_runs=slow.others,
        what=what,
        farthest=farthest,
    )


def _farthest(time: TimeJudgement) -> float:
    return max((drop.distance for drop in time.dropped if drop.distance > 0), default=0.0)


def _allow(judged: Judged, runs: int | None = None) -> Note:
    """Say what allows so many runs, or pairs: all of the plan's."""
    plan, wanted = judged.terms.plan, runs or judged.terms.plan.most_runs
    if plan.is_ab_run:
        return note("allow-pairs", pairs=wanted, most=2 * wanted + judged.evidence.spent)
    return note("allow-runs", runs=wanted)


def shut_anyway(verdict: Verdict) -> Note | None:
    """Say why an INCONCLUSIVE verdict keeps the gate shut whatever the settings say, if it does."""
    if verdict.too_few_runs:
        return note("shut-by-few-runs", Severity.WARN)
    if not verdict.beyond:
        return None
    row = verdict.beyond[0]
    if METRICS[row.metric].kind is Kind.COUNT:
        return note("shut-by-count", Severity.WARN, metric=row.metric)
    loss = row.change if row.estimate is None else row.estimate
    if loss is None or row.budget is None:
        return note("shut-unknown", Severity.WARN, metric=row.metric)
    return note("shut-by-size", Severity.WARN, metric=row.metric, loss=loss, budget=row.budget)


def bless_it(runs: int) -> Note:
    """Say how to come to a result that can be blessed."""
    return note("bless-it") if runs >= FEWEST_RUNS else note("gate-and-bless", fewest=FEWEST_RUNS)
