"""Verdicts as text for a terminal or a CI log: returns strings; colour repeats what words already say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.model import numbers
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.outcome import PASSING, WORST_FIRST, OnInconclusive, OnNew, Outcome
from perfgate.model.told import ToldChoice
from perfgate.model.verdict import Creep, Dropped, MetricVerdict, Stage, Verdict
from perfgate.model.words import plural
from perfgate.render.page import HELD, LONGEST_PROSE, Cell, Column, Page, Row, inert, shortened

SHORTEST_NAME: Final = 24
"""Cells that a workload's name is left with beside its outcome, however long the line becomes."""
SHARES: Final = {Metric.GAP_MS: "gap_share", Metric.H2D_MS: "h2d_share"}
"""Metrics that are shown with their share of the step."""

STYLES: Final = {
    Outcome.PASSED: "green",
    Outcome.IMPROVED: "bold green",
    Outcome.REGRESSED: "bold red",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.NO_BASELINE: "yellow",
    Outcome.INCOMPARABLE: "bold yellow",
    Outcome.INVALID: "bold yellow",
    Outcome.NOT_MEASURED: "bold red",
}

NOT_SHOWN: Final = {
    Outcome.INCONCLUSIVE: "not shown to be within budget",
    Outcome.NO_BASELINE: "compared with nothing",
}
"""What an outcome that the settings let through leaves open."""
_COLUMNS: Final = (
    Column(title="metric"),
    Column(title="baseline", right=True),
    Column(title="now", right=True),
    Column(title="lowest", right=True),
    Column(title="highest", right=True),
    Column(title="change"),
    Column(title="budget", right=True),
    Column(title="outcome"),
)
_STATISTICS: Final = (Column(title="p", right=True), Column(title="could show", right=True))


def told_choice(choice: ToldChoice) -> str:
    """Which part of the workloads this is: "3 of 7 workloads, chosen by -k"."""
    by = " and ".join(filter(None, (", ".join(choice.by[:-1]), choice.by[-1])))
    return f"{choice.workloads} of {plural(choice.of, 'workload')}, chosen by {by}"


def verdict_table(verdict: Verdict, *, width: int, colour: bool, files: str | None = None) -> str:
    """Return all there is to say of one workload: outcome, reason, table, where, what was set aside, next step.

    `files` is where its captures and logs lie.
    """
    page = Page(width=width, colour=colour)
    runs = f" ({_runs(verdict)})" if verdict.runs else ""
    room = max(page.width - len(verdict.outcome) - len(runs) - 2, SHORTEST_NAME)
    name = Cell(text=inert(verdict.workload, longest=room), style="bold")
    page.line(name, ": ", Cell(text=verdict.outcome, style=STYLES[verdict.outcome]), runs)
    if verdict.reason:
        page.prose(verdict.reason)
    if verdict.metrics:
        page.blank()
        _metrics(page, verdict)
    more = (
        verdict.where
        or verdict.creep
        or verdict.ranks
        or verdict.dropped
        or verdict.caveats
        or verdict.remarks
        or verdict.next_step
        or files is not None
    )
    if more and (verdict.metrics or "\n" in verdict.reason):
        page.blank()
    for metric, where in verdict.where.items():
        page.prose(f"{metric}: {where}", label="where")
    if verdict.creep is not None:
        page.prose(told_creep(verdict.creep), label="anchor")
    for told in verdict.ranks:
        page.prose(told, label="ranks")
    for advice in verdict.advice:
        page.prose(f"{advice.evidence}. {advice.usually}", label="advice")
    for dropped in verdict.dropped:
        page.prose(told_dropped(dropped), label="set aside")
    for remark in (*verdict.caveats, *verdict.remarks):
        page.prose(remark, label="remark")
    if verdict.next_step:
        page.prose(verdict.next_step, label="next")
    if files is not None:
        page.line(Cell(text="files".ljust(12), style="dim"), inert(files, longest=1000), indent=2)
    return page.text


def render_verdicts(verdicts: Sequence[Verdict], *, width: int, colour: bool) -> str:
    """Return the tables of several workloads, an empty line between them."""
    return "\n".join(verdict_table(verdict, width=width, colour=colour) for verdict in verdicts)


def summary(
    verdicts: Sequence[Verdict],
    *,
    opens: bool,
    width: int,
    colour: bool,
    on_inconclusive: OnInconclusive = OnInconclusive.FAIL,
    on_new: OnNew = OnNew.FAIL,
    opening: Sequence[bool] | None = None,
    why: str = "",
    longest_name: int | None = None,
) -> str:
    """Return the terminal summary: a line a workload, worst first, and last whether the gate is open and why.

    `opens` is what the exit status says; the policies only serve to name the outcomes that shut the gate. `opening`
    stands for them where each verdict has one of its own: whether it lets the gate open. `why` replaces the reason in
    the last line where it lies elsewhere, such as in an interrupt. Names longer than `longest_name` cells, a third of
    the width by default, lose their middle.
    """
    page = Page(width=width, colour=colour)
    if opening is None:
        opening = [one.opens(on_inconclusive=on_inconclusive, on_new=on_new) for one in verdicts]
    ordered = sorted(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.outcome))
    if ordered:
        outcomes = max(len(verdict.outcome) for verdict in ordered)
        names = min(
            max(len(inert(verdict.workload)) for verdict in ordered),
            longest_name or page.width // 3,
        )
        cells = [step_cells(verdict) for verdict in ordered]
        fits = (
            outcomes + 2 + names + 2 + max(len(_columns(own, cells)) for own in cells) <= page.width
        )
        for verdict, own in zip(ordered, cells, strict=True):
            name = shortened(inert(verdict.workload), names).ljust(names)
            outcome = Cell(text=verdict.outcome.ljust(outcomes), style=STYLES[verdict.outcome])
            step = _columns(own, cells)
            page.line(outcome, "  ", *([name, "  ", step] if step and fits else [name.rstrip()]))
            if step and not fits:
                page.line(step, indent=4)
            # The others have a table, which tells theirs.
            passed = verdict.outcome is Outcome.PASSED
            more = (
                [f"remark: {caveat}" for caveat in verdict.caveats]
                if passed
                else [_first_line(verdict)]
            )
            for sentence in more:
                for line in (
                    page.wrapped(inert(sentence, longest=1000), page.width - 4) if sentence else ()
                ):
                    page.line(line, indent=4)
    judged = list(zip(verdicts, opening, strict=True))
    shutting = Counter(verdict.outcome for verdict, lets in judged if not lets)
    passing = Counter(
        verdict.outcome for verdict, lets in judged if lets and verdict.outcome in PASSING
    )
    lenient = Counter(
        verdict.outcome for verdict, lets in judged if lets and verdict.outcome not in PASSING
    )
    if opens:
        told = "; ".join(part for part in (_counted(passing), _let_through(lenient)) if part)
        word, style, reason = "GATE OPEN", "bold green", told or "nothing was measured"
    else:
        found = _counted(shutting)
        nothing = (
            "no workload was measured"
            if not ordered
            else "not every workload that was expected has a verdict"
        )
        of = f" of {plural(len(ordered), 'workload')}" if found else ""
        word, style, reason = "GATE SHUT", "bold red", found + of or nothing
    first, *more = page.wrapped(
        f"{word}: {inert(why, longest=LONGEST_PROSE) or reason}", page.width
    )
    page.line(Cell(text=word, style=style), first.removeprefix(word))
    for line in more:
        page.line(line)
    return page.text


def _columns(row: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A row's cells below those of the others, if it has all of them, else one after the other."""
    if not all(row):
        return "  ".join(filter(None, row))
    widths = [max(len(other[place]) for other in rows if all(other)) for place in range(len(row))]
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def step_cells(verdict: Verdict) -> tuple[str, str, str, str]:
    """What a step takes now, its change with what decides on it, its budget, and the runs; empty where unknown."""
    step = verdict.of(Metric.STEP_MS)
    runs = (
        plural(verdict.compared, "run" if verdict.duet is None else "pair") if verdict.runs else ""
    )
    if step is None or step.now is None:
        return "", "", "", runs
    budget = budget_cell(step)
    return (
        f"step_ms {numbers.value(step.metric, step.now)}",
        change_cell(step),
        budget and f"budget {budget}",
        runs,
    )


def skipped_text(skipped: Mapping[str, str], *, width: int) -> str:
    """Return what was skipped and why, a line each; `skipped` has the reason by name."""
    page = Page(width=width, colour=False)
    for name, why in skipped.items():
        page.prose(f"skipped: {inert(name)}{f' ({inert(why)})' if why else ''}", indent=0)
    return page.text


def why_shut(shutting: Mapping[Outcome, int], others: Sequence[str], *, place: str) -> str:
    """Why a gate is shut where that is not said by its workloads alone, in a phrase; empty where it is.

    Args:
        shutting: how many workloads of each outcome keep it shut.
        others: the other reasons, a sentence each.
        place: where they are told, `above` or `below`.
    """
    if not others:
        return ""
    if len(others) == 1 and not shutting:
        return others[0]
    judged = _counted(shutting)
    told = f"{len(others)} {'other ' if shutting else ''}reason{'s' if len(others) > 1 else ''} {place}"
    return ", and ".join(part for part in (judged, told) if part)


def told_dropped(dropped: Dropped) -> str:
    """Say which run was set aside and why; runs are counted from 1."""
    basis = METRICS[dropped.metric].basis
    unit = {Basis.LOG: "%", Basis.STEP: "pp of a step"}[basis]
    distance = numbers.change(dropped.distance, basis).removesuffix(numbers.unit_of(basis)).strip()
    # Of many times the median the distance is a factor, and has no unit.
    off = (
        f"{distance} its group's median"
        if distance.startswith("x")
        else f"{distance} {unit} off its group's median"
    )
    what = "pair" if dropped.side == "pair" else f"{dropped.side} run"
    return f"{what} {dropped.index + 1}: {dropped.metric} {off}"


def told_creep(creep: Creep) -> str:
    """Say how far the step is from the best ever blessed; the way there is in the reason where that shuts the gate."""
    best = creep.path[0]
    change = numbers.change(creep.change, Basis.LOG, creep.low, creep.high)
    return (
        f"step_ms {change} against the best ever blessed ({numbers.milliseconds(best.step_ms)} ms on "
        f"{best.at:%Y-%m-%d}), budget {numbers.limit(creep.budget, Basis.LOG)}"
    )


def change_cell(row: MetricVerdict) -> str:
    """Return a row's change with its interval; of a count the difference, empty where nothing changed."""
    if METRICS[row.metric].kind is Kind.COUNT:
        known = row.baseline is not None and row.now is not None
        return (
            numbers.count_change(row.metric, row.baseline or 0.0, row.now or 0.0) if known else ""
        )
    if row.change is None:
        return ""
    return numbers.change(row.change, row.basis or Basis.LOG, row.low, row.high)


def share_rows(rows: Sequence[MetricVerdict], metric: Metric, *, blanks: int) -> list[Row]:
    """Return the row that shows a metric's share of its own side's step, none where no side has one."""
    if metric not in SHARES:
        return []
    by = {row.metric: row for row in rows}
    part, whole = by[metric], by.get(Metric.STEP_MS)
    if whole is None:
        return []
    sides = ((part.baseline, whole.baseline), (part.now, whole.now))
    told = [
        "" if some is None or step is None else numbers.share(some, step) for some, step in sides
    ]
    dim = [Cell(text=text, style="dim") for text in (f"  {SHARES[metric]}", *told, *[""] * blanks)]
    return [dim] if any(told) else []


def told_interval(verdict: Verdict) -> str:
    """Say what the ends of an interval are: the bounds that decide, with their levels."""
    if verdict.loss_alpha is None:
        return "[ ]: interval"
    return (
        f"[ ]: a loss is shown where the lower end ({100 * (1 - verdict.loss_alpha):.4g} %) is above 0, a pass where "
        "the upper end (97.5 %) is below the budget"
    )


def _metrics(page: Page, verdict: Verdict) -> None:
    order = list(METRICS)
    unchanged = [row for row in verdict.metrics if is_unchanged_count(row)]
    new = [row for row in verdict.metrics if _is_new_count(row, verdict)]
    told = [row for row in verdict.metrics if row not in unchanged and row not in new]
    told.sort(key=lambda row: (_rank(row), order.index(row.metric)))
    rows: list[Row] = []
    statistics: list[Row] = []
    for row in told:
        before, now = (_value(row.metric, amount) for amount in (row.baseline, row.now))
        ends = (_value(row.metric, amount) for amount in (row.lowest, row.highest))
        cells: Row = (
            row.metric.value,
            before,
            now,
            *ends,
            change_cell(row),
            budget_cell(row),
            _outcome(row, verdict),
        )
        p = "" if row.p_value is None else numbers.probability(row.p_value)
        rows.append(cells)
        statistics.append((*cells, p, _could_show(row)))
        for more in share_rows(verdict.metrics, row.metric, blanks=5):
            rows.append(more)
            statistics.append((*more, "", ""))
    wide = page.fits((*_COLUMNS, *_STATISTICS), statistics)
    if rows:
        page.table((*_COLUMNS, *_STATISTICS) if wide else _COLUMNS, statistics if wide else rows)
    _below(page, told, verdict, wide=wide)
    for label, folded in (("unchanged", unchanged), ("new", new)):
        if folded:
            values = ", ".join(
                f"{row.metric}{HELD}{numbers.value(row.metric, row.now or 0.0)}" for row in folded
            )
            page.prose(values, label=label)


def _below(page: Page, rows: Sequence[MetricVerdict], verdict: Verdict, *, wide: bool) -> None:
    """Write what the table's columns mean, and what of it did not fit into columns."""
    captions: list[str] = []
    if any(row.low is not None for row in rows):
        captions.append(told_interval(verdict))
    if any(row.basis is Basis.STEP and row.change is not None for row in rows):
        captions.append("pp: percentage points of the baseline's step")
    tested = [row for row in rows if row.p_value is not None]
    if wide and tested:
        captions.append("p: probability of such a rise by chance")
        captions.append("could show: the smallest loss these runs could have shown")
    if captions:
        page.prose("; ".join(captions), style="dim")
    if not wide and tested:
        page.prose(
            ", ".join(f"{r.metric}{HELD}{numbers.probability(r.p_value or 0.0)}" for r in tested),
            label="p-value",
        )
        shown = [
            f"{row.metric}{HELD}{_could_show(row)}" for row in tested if row.smallest is not None
        ]
        if shown:
            page.prose(
                f"{', '.join(shown)} (the smallest loss these runs could have shown)",
                label="could show",
            )
    for row in rows:
        gated_clock = METRICS[row.metric].kind is Kind.CLOCK and row.outcome is not None
        if row.reason and row.change is None and gated_clock:
            page.prose(f"{row.metric}: {row.reason}", label="remark")


def _value(metric: Metric, amount: float | None) -> str:
    return "" if amount is None else numbers.value(metric, amount)


def is_unchanged_count(row: MetricVerdict) -> bool:
    """Whether a row is a count that is what it was: worth a word, not a line."""
    is_count = METRICS[row.metric].kind is Kind.COUNT
    return (
        is_count
        and row.outcome is Outcome.PASSED
        and row.baseline == row.now
        and row.now is not None
    )


def _is_new_count(row: MetricVerdict, verdict: Verdict) -> bool:
    is_count = METRICS[row.metric].kind is Kind.COUNT
    return (
        is_count
        and row.outcome is None
        and row.baseline is None
        and row.now is not None
        and verdict.baseline_runs > 0
    )


def _rank(row: MetricVerdict) -> int:
    return len(WORST_FIRST) if row.outcome is None else WORST_FIRST.index(row.outcome)


def _outcome(row: MetricVerdict, verdict: Verdict) -> Cell:
    """Return a row's outcome, or why it has none; without a baseline all rows are alike and need no word."""
    if row.outcome is not None:
        return Cell(text=row.outcome, style=STYLES[row.outcome])
    return Cell(text=why_unjudged(row, verdict))


def why_unjudged(row: MetricVerdict, verdict: Verdict) -> str:
    """A word for a row without an outcome: an `estimate` is of a clock that a count left no runs to judge."""
    if not verdict.baseline_runs:
        return ""
    return "new" if row.baseline is None else "estimate" if row.low is not None else "not gated"


def budget_cell(row: MetricVerdict) -> str:
    """Return what a metric may lose; of a count whether it is exact."""
    if METRICS[row.metric].kind is Kind.COUNT:
        return {None: "", True: "exact", False: "varies"}[row.exact]
    return "" if row.budget is None else numbers.limit(row.budget, row.basis or Basis.LOG)


def _could_show(row: MetricVerdict) -> str:
    return "" if row.smallest is None else numbers.change(row.smallest, row.basis or Basis.LOG)


def _first_line(verdict: Verdict) -> str:
    return next(iter(verdict.reason.splitlines()), "")


def _runs(verdict: Verdict) -> str:
    duet = verdict.duet
    if duet is not None:
        after = f", after {plural(duet.screen_runs, 'run')}" if duet.screen_runs else ""
        noun = "interleaved pair" if verdict.stage is Stage.INTERLEAVED else "pair"
        return f"{plural(duet.pairs, noun)} with {inert(duet.revision, longest=60)}{after}"
    runs = plural(verdict.runs, "run")
    return f"{runs} against {verdict.baseline_runs} blessed" if verdict.baseline_runs else runs


def _counted(counted: Mapping[Outcome, int]) -> str:
    return ", ".join(
        f"{counted[outcome]} {outcome}" for outcome in WORST_FIRST if counted.get(outcome)
    )


def _let_through(lenient: Mapping[Outcome, int]) -> str:
    """Say which outcomes open the gate by the settings alone, and what each of them leaves open."""
    told = [
        f"{lenient[outcome]} {outcome}{f' ({NOT_SHOWN[outcome]})' if outcome in NOT_SHOWN else ''}"
        for outcome in WORST_FIRST
        if lenient.get(outcome)
    ]
    return f"{', '.join(told)} let through by the settings" if told else ""
