"""Tells a verdict: the reason and the next step, in whole sentences; decides nothing."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from perfgate.judge.looks import Plan
from perfgate.judge.outliers import Slow
from perfgate.judge.rows import Rows, Terms
from perfgate.judge.times import TimeJudgement
from perfgate.judge.words import bless_command, milliseconds, percent, shown_loss
from perfgate.model import numbers
from perfgate.model.baseline import FEWEST_RUNS, Baseline
from perfgate.model.metric import METRICS, PERIODS, Basis, Kind
from perfgate.model.outcome import Outcome
from perfgate.model.sample import OTHER_RANGES, OUTSIDE_RANGES, UNNAMED, Run
from perfgate.model.verdict import MOST_BUDGETS, Axis, Blessed, Creep, MetricVerdict, Part, Verdict
from perfgate.model.words import listed, plural

_MOST_TOLD = 3
"""Metrics that a reason names; the rows name all."""
_DUET = 'Let an A/B run settle it (duet = "auto" in [tool.perfgate], and a baseline of a commit)'
NO_RANGE: Final = frozenset({"", OUTSIDE_RANGES, OTHER_RANGES, UNNAMED})
_LONGEST_NAME = 60
_NEXT_TO_NOTHING = 1e-9
"""Stands for a budget of zero where one must be divided by."""


def tell(
    outcome: Outcome,
    judged: Rows,
    baseline: Baseline,
    runs: Sequence[Run],
    terms: Terms,
    *,
    wanted: int,
) -> tuple[str, str]:
    """Say why, and what to do next; `wanted` runs, if more than there are, make it an interim word."""
    bless = bless_command(baseline.workload)
    match outcome:
        case Outcome.REGRESSED:
            accept = bless_command(baseline.workload, "--accept-regression")
            told = f"If this is meant, {_to_bless(len(runs))}: {accept}"
            return "", told
        case Outcome.IMPROVED:
            return "", f"To hold the gain, {_to_bless(len(runs))}: {bless}"
        case Outcome.NOT_MEASURED:
            return _tell_not_measured(judged, runs, bless)
        case Outcome.INCONCLUSIVE if wanted > len(runs):
            still = judged.of(outcome)
            why = (
                f"{_worst(still).metric} {_worst(still).reason}"
                if still
                else "within budget so far"
            )
            return (
                f"Not settled by {_runs(len(runs), terms.plan)}: {why}.",
                f"Measure up to {_runs(wanted, terms.plan)} and judge again.",
            )
        case Outcome.INCONCLUSIVE:
            return _tell_inconclusive(judged, runs, terms)
        case _:  # PASSED: rows never come to the gate's own outcomes, such as NO_BASELINE
            parts = [
                plural(len(of_kind), name)
                for kind, name in ((judged.times, "time metric"), (judged.counts, "count"))
                if (of_kind := [one for one in kind if one.row.outcome is not None])
            ]
            with_what = "" if terms.plan.is_duet else f" against {len(baseline.runs)} blessed"
            return f"Within budget: {listed(parts)}, {_runs(len(runs), terms.plan)}{with_what}.", ""


def _runs(number: int, plan: Plan) -> str:
    return plural(number, "pair" if plan.is_duet else "run")


def tell_creep(creep: Creep, workload: str, *, runs: int) -> tuple[str, str]:
    """Say that many small losses have become one large one, and on which path."""
    moved = numbers.change(creep.change, Basis.LOG, creep.low, creep.high)
    best = creep.path[0]
    losses = [
        f"{_point(there)} ({percent(there.step_ms / before.step_ms - 1)} %)"
        for before, there in pairwise(creep.path)
    ]
    way = " -> ".join([_point(best), *losses, f"{milliseconds(creep.now)} ms now"])
    told = (
        f"step_ms {moved} against the best ever blessed, budget {percent(creep.budget)} %: small losses, each "
        f"of which was let through, have added up. {way}."
    )
    accept = bless_command(workload, "--accept-regression")
    return told, f"Win it back, or accept where it has come to: {_to_bless(runs)}: {accept}"


def _point(blessed: Blessed) -> str:
    at = f"{blessed.at:%Y-%m-%d}" + (f", {blessed.commit[:7]}" if blessed.commit else "")
    return f"{milliseconds(blessed.step_ms)} ms ({at})"


def tell_shut(verdict: Verdict) -> str:
    """Say why an INCONCLUSIVE verdict keeps the gate shut whatever the settings say; empty where they decide."""
    if verdict.too_few_runs:
        return "So few runs keep the gate shut, whatever `inconclusive` says."
    if not verdict.beyond:
        return ""
    worst = verdict.beyond[0]
    if METRICS[worst.metric].kind is Kind.COUNT:
        return (
            f"{worst.metric} rose in every run: the gate stays shut, whatever `inconclusive` says."
        )
    estimate = worst.change if worst.estimate is None else worst.estimate
    size = (
        "how large the loss is, is unknown"
        if estimate is None or worst.budget is None
        else f"the loss is estimated at {percent(estimate)} %, the budget is {percent(worst.budget)} %"
    )
    return f"Of {worst.metric} {size}: from {MOST_BUDGETS:g} budgets on the gate stays shut, whatever `inconclusive` says."


def tell_family(verdict: Verdict) -> tuple[str, str]:
    """Say that a verdict's loss is shown since those of the gate's other workloads were."""
    accept = bless_command(verdict.workload, "--accept-regression")
    told = f"If this is meant, {_to_bless(verdict.runs)}: {accept}"
    return f"{headline(verdict)} Shown now that the other workloads' losses are (Holm).", told


def _to_bless(runs: int) -> str:
    """Say how to come to a result that can be blessed."""
    if runs >= FEWEST_RUNS:
        return "bless it"
    return f"gate with --perfgate-runs={FEWEST_RUNS} (what a baseline needs) and bless it"


def headline(verdict: Verdict) -> str:
    """Say what the user loses or gains, and by what: `+68 % step_ms (3.26 to 5.48 ms): d2h_copies 0 to 1 under `log``.

    It leads with the step, also where that is an estimate, unless it has hardly moved; and where the step is faster but
    a count rose: `-12 % step_ms (5.48 to 4.82 ms), but launches 38 to 39`.
    """
    rows = [row for row in verdict.metrics if row.outcome is verdict.outcome]
    steps = [
        row
        for metric in PERIODS
        if (row := verdict.of(metric)) is not None and row.change is not None
    ]
    lead = next((row for row in steps if row in rows or _estimated(row, verdict.outcome)), None)
    causes = sorted((row for row in rows if row.metric not in PERIODS), key=_weight)
    cause = causes[0] if causes else None
    faster = next((row for row in steps if _estimated(row, Outcome.IMPROVED)), None)
    if (
        lead is None
        and cause is not None
        and faster is not None
        and verdict.outcome is Outcome.REGRESSED
    ):
        named = [cause]
        told = f"{_moved(faster)}, but {_cause(cause)}{_under(cause, verdict)}"
    elif lead is None:
        named = [cause or _worst(rows)]
        told = f"{_moved(named[0])}{_under(named[0], verdict)}"
        told += "".join(f"; {_moved_or_not(step)}" for step in steps[:1] if step is not named[0])
    else:
        named = [lead] if cause is None else [lead, cause]
        told = _moved(lead)
        if lead not in rows:
            told += f", an estimate from {plural(verdict.compared, 'run' if verdict.duet is None else 'pair')}"
        told += (
            _made_of(lead, verdict)
            if cause is None
            else f": {_cause(cause)}{_under(cause, verdict)}"
        )
    others = [str(row.metric) for row in rows if row not in named]
    also = "Also improved" if verdict.outcome is Outcome.IMPROVED else "Also regressed"
    return f"{told}. {also}: {listed(others)}." if others else f"{told}."


def _estimated(row: MetricVerdict, outcome: Outcome) -> bool:
    """Whether a row that is not judged, or open, is estimated to have moved as the outcome says, by half its budget."""
    if (
        row.outcome not in (None, Outcome.INCONCLUSIVE, outcome)
        or row.low is None
        or row.change is None
    ):
        return False
    towards = -row.change if outcome is Outcome.IMPROVED else row.change
    return towards >= (row.budget or 0.0) / 2


def _weight(row: MetricVerdict) -> tuple[bool, float]:
    """The order of what may be a step's cause: counts first, as they are exact, then what takes most time."""
    is_count = METRICS[row.metric].kind is Kind.COUNT
    change = math.inf if row.change is None else abs(row.change)
    return not is_count, -(change if is_count else abs((row.now or 0.0) - (row.baseline or 0.0)))


def _moved(row: MetricVerdict) -> str:
    """Tell how a row moved: `+68 % step_ms (3.26 to 5.48 ms)`, `syncs 0 to 1`."""
    if METRICS[row.metric].kind is Kind.COUNT or row.change is None or row.basis is None:
        return _cause(row)
    return f"{numbers.change(row.change, row.basis)} {row.metric} ({_from_to(row)} ms)"


def _moved_or_not(row: MetricVerdict) -> str:
    now = numbers.value(row.metric, row.now or 0.0)
    return (
        f"{row.metric} unchanged ({now} ms)" if _from_to(row) == f"{now} to {now}" else _moved(row)
    )


def _cause(row: MetricVerdict) -> str:
    unit = "" if METRICS[row.metric].kind is Kind.COUNT else " ms"
    return f"{row.metric} {_from_to(row)}{unit}"


def _from_to(row: MetricVerdict) -> str:
    return f"{numbers.value(row.metric, row.baseline or 0.0)} to {numbers.value(row.metric, row.now or 0.0)}"


def _largest(row: MetricVerdict, verdict: Verdict) -> Part | None:
    """The range that holds most of what a metric changed by."""
    parts = (
        one.parts
        for one in verdict.attributions
        if one.metric is row.metric and one.axis is Axis.RANGE
    )
    largest = next((told[0] for told in parts if told), None)
    moved = (row.now or 0.0) - (row.baseline or 0.0)
    if largest is None or largest.name in NO_RANGE or 2 * largest.change * moved < moved * moved:
        return None
    return largest


def _under(row: MetricVerdict, verdict: Verdict) -> str:
    part = _largest(row, verdict)
    return "" if part is None else f" under `{_named(part)}`"


def _made_of(row: MetricVerdict, verdict: Verdict) -> str:
    """What most of a step's change is, where no other metric's is shown."""
    part = _largest(row, verdict)
    if part is None or part.metric in PERIODS:
        return _under(row, verdict)
    signed = f"{'-' if part.change < 0 else '+'}{numbers.milliseconds(abs(part.change))} ms"
    return f": {part.metric} {signed} under `{_named(part)}`"


def _named(part: Part) -> str:
    return " ".join(part.name.split())[:_LONGEST_NAME]


def _worst(rows: Sequence[MetricVerdict]) -> MetricVerdict:
    """Return the row that says most: counts before clocks, as they are exact; then by size, in budgets for clocks.

    What is not judged by its own interval, which another clock keeps open, comes last.
    """

    def size(row: MetricVerdict) -> tuple[bool, bool, float]:
        is_count = METRICS[row.metric].kind is Kind.COUNT
        is_own = is_count or row.change is None or row.low is not None
        reach = row.high if row.outcome is Outcome.INCONCLUSIVE and not is_count else row.change
        change = math.inf if reach is None else abs(reach)
        return is_count, is_own, change if is_count else change / (row.budget or _NEXT_TO_NOTHING)

    return max(rows, key=size)


def _tell_not_measured(judged: Rows, runs: Sequence[Run], bless: str) -> tuple[str, str]:
    if not runs:
        return "There is no run to judge.", "Measure again: pytest --perfgate"
    missing = judged.of(Outcome.NOT_MEASURED)
    if not missing:
        return (
            "The baseline holds no metric that is gated.",
            f"Delete its file, gate once more and bless one that does: {bless}",
        )
    alike: dict[str, list[str]] = {}
    for row in missing[:_MOST_TOLD]:
        alike.setdefault(row.reason, []).append(row.metric)
    told = [f"{listed(metrics)} ({reason})" for reason, metrics in alike.items()]
    told += [f"{len(missing) - _MOST_TOLD} more"] if len(missing) > _MOST_TOLD else []
    return (
        f"Not all that the baseline gates could be judged: {listed(told)}.",
        (
            "See the runs' captures and logs for the cause. If this is meant, delete the baseline's file, gate once "
            f"more and bless anew: {bless}"
        ),
    )


def _tell_inconclusive(judged: Rows, runs: Sequence[Run], terms: Terms) -> tuple[str, str]:
    """Say what keeps it open, and what would settle it."""
    plan, open_rows = terms.plan, judged.of(Outcome.INCONCLUSIVE)
    if len(runs) < plan.fewest_to_pass:
        still = (
            f"{_worst(open_rows).metric} {_worst(open_rows).reason}"
            if open_rows
            else "nothing is beyond budget"
        )
        return (
            f"{still}: {_runs(len(runs), plan)} cannot pass, which takes {plan.fewest_to_pass}.",
            f"Allow at least {_runs(plan.fewest_to_pass, plan)}: {_allowing(plan.fewest_to_pass, terms)}",
        )
    worst = _worst(open_rows)
    varies = next(
        (count for count in judged.counts if count.row is worst and not count.wants_second_run),
        None,
    )
    if varies is not None and varies.shown_by is not None and varies.shown_by <= plan.most_runs:
        more = f"Allow {_runs(varies.shown_by, plan)}: {_allowing(varies.shown_by, terms)}"
        return f"{worst.metric} {worst.reason}.", more
    if varies is not None:
        return (
            f"{worst.metric} {worst.reason}.",
            "Fix what makes it vary from run to run: seeds, shapes, batch lengths.",
        )
    time = next((time for time in judged.times if time.row is worst), None)
    if time is None or time.look is None:
        return (
            f"{worst.metric} {worst.reason}.",
            "More runs do not help while this lasts: see the runs' captures and logs for the cause.",
        )
    if time.by_chance:
        told = (
            f"{worst.metric} {worst.reason}; yet runs of one side lie far apart, as where a workload has two modes, or "
            "its machine two speeds, and one of them was met more often by chance."
        )
        return (
            told,
            "Gate again. If it stays so, steady the workload or its machine: what do its slow runs share?",
        )
    allow = f"Allow {_runs(plan.most_runs, plan)}: {_allowing(plan.most_runs, terms)}"
    if (slow := time.slow) is not None:
        told = f"{worst.metric} {worst.reason}; yet {_told_slow(slow, time)}."
        return told, allow if len(runs) < plan.most_runs else _SLOW
    told = (
        f"{worst.metric} {worst.reason}: neither shown to be within it nor beyond it. The smallest loss that "
        f"{_runs(len(runs), plan)} can show here is {shown_loss(worst.smallest or 0.0)}."
    )
    if len(runs) < plan.most_runs:
        return told, allow
    spread, wider = (
        percent(float(time.look.run_sd)),
        f"steady the workload, or set a wider budget for {worst.metric}.",
    )
    if not plan.is_duet:
        return f"{told} Its runs differ by {spread} % (SD).", f"{_DUET}, {wider}"
    turns = (
        'let both sides take turns (duet = "interleave" in [tool.perfgate]), '
        if terms.could_interleave
        else ""
    )
    return told, f"Its runs differ by {spread} % (SD): {turns}{wider}"


_SLOW: Final = (
    "Find what the slow processes share: another core, a neighbour, an allocator, a cache. If the other side has them "
    "as often, gate again."
)


def _told_slow(slow: Slow, time: TimeJudgement) -> str:
    """Say how many of the candidate's processes were slow: `2 of 8 processes were slow, 0 of 12 of the baseline's`."""
    there = f"{int(slow.other)} of {slow.others} of the other side's"
    farthest = max((drop.distance for drop in time.dropped if drop.distance > 0), default=None)
    longer = "" if farthest is None else f" (up to {percent(farthest)} %)"
    return f"{int(slow.candidate)} of {plural(slow.candidates, 'process', 'processes')} took longer{longer}, {there}"


def _allowing(runs: int, terms: Terms) -> str:
    """Write the command that allows so many runs, or pairs: alone where a user names what to compare with."""
    most = 2 * runs + terms.runs_before if terms.plan.is_duet else runs
    if terms.against is not None:
        return f"pytest --perfgate --perfgate-against={shlex.quote(terms.against)} --perfgate-max-runs={most}"
    return f"pytest --perfgate --perfgate-max-runs={most}"
