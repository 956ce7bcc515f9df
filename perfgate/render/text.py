"""Verdicts and gates as text for a terminal or a CI log; colour repeats what words already say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.model.document import GateDocument, MergedGate
from perfgate.model.metric import Basis
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict
from perfgate.render.gate import GateState, Judged, state_of
from perfgate.render.page import HELD, Cell, Page, Row
from perfgate.render.verdict import (
    SHARES,
    MetricCells,
    compared_text,
    headline,
    interval_text,
    is_count,
    is_unchanged_count,
    shares,
    shown_metrics,
    step_cells,
    verdict_parts,
)
from perfgate.words.escape import LONGEST_PROSE, one_line

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
COLUMNS: Final = (
    *("metric", ">baseline", ">now", ">lowest", ">highest", "change", ">budget", "outcome"),
    *(">p", ">could show"),
)
"""Of a verdict's table; the last two only where the page is wide enough."""
STATISTICS: Final = 2


def verdict_table(page: Page, verdict: Verdict, *, files: str | None = None) -> str:
    """Return all there is to say of one workload: outcome, reason, table, where, notes, next step.

    `files` is where its captures and logs lie.
    """
    compared = compared_text(verdict)
    page.line(
        Cell(one_line(verdict.workload), "bold"),
        ": ",
        Cell(verdict.outcome, STYLES[verdict.outcome]),
        f" ({compared})" if compared else "",
    )
    page.prose(verdict.reason)
    if verdict.metrics:
        page.blank()
        _metrics(page, verdict)
    parts = {**verdict_parts(verdict), "next": [verdict.next_step] if verdict.next_step else []}
    if (any(parts.values()) or files) and (verdict.metrics or "\n" in verdict.reason):
        page.blank()
    page.facts(*((label, text) for label, texts in parts.items() for text in texts))
    page.file(files, label="files")
    return page.text


def _metrics(page: Page, verdict: Verdict) -> None:
    cells = shown_metrics(verdict)
    shown = [one for one in cells if not is_unchanged_count(one.row)]
    rows = [row for one in shown for row in _rows(one, verdict)]
    is_wide = page.fits(COLUMNS, rows)
    titles = COLUMNS if is_wide else COLUMNS[:-STATISTICS]
    page.table(titles, [row[: len(titles)] for row in rows])
    captions = {
        interval_text(verdict): any(one.row.low is not None for one in shown),
        "pp: percentage points of the baseline's step": any(
            one.row.basis is Basis.STEP and one.change for one in shown
        ),
        "p: probability of such a rise by chance; could show: the smallest loss these runs could "
        "have shown": is_wide and any(one.p for one in shown),
    }
    page.prose("; ".join(text for text, holds in captions.items() if holds), style="dim")
    for one in shown:
        is_judged_time = one.row.outcome is not None and not is_count(one.row)
        if one.row.reason and is_judged_time and not one.change:
            page.prose(f"{one.row.metric}: {one.row.reason}", label="note")
    unchanged = [one for one in cells if one not in shown]
    counts = ", ".join(f"{one.row.metric}{HELD}{one.now}" for one in unchanged)
    page.prose(counts, label="unchanged")


def _rows(one: MetricCells, verdict: Verdict) -> list[Row]:
    """Return a metric's row, and below it that of its share of the step."""
    outcome = Cell(one.outcome, "" if one.row.outcome is None else STYLES[one.row.outcome])
    values = (one.before, one.now, one.lowest, one.highest, one.change, one.budget)
    row: Row = (one.row.metric.value, *values, outcome, one.p, one.smallest)
    blanks = len(COLUMNS) - 3
    return [row, *share_rows(one, shares(verdict.metrics, one.row.metric), blanks=blanks)]


def share_rows(one: MetricCells, known: tuple[str, str], *, blanks: int) -> list[Row]:
    """Return the row that shows a metric's share of the step, none where no side has one."""
    cells = (f"  {SHARES.get(one.row.metric, '')}", *known, *[""] * blanks)
    return [[Cell(text, "dim") for text in cells]] if any(known) else []


def gate_text(page: Page, state: GateState, *, notes: Sequence[tuple[str, str]] = ()) -> str:
    """Return a line a workload, worst first, notes with their labels, other reasons, and last
    whether the gate is open and why."""
    if state.judged:
        _workloads(page, state.judged)
    for label, text in notes:
        page.prose(one_line(text, longest=LONGEST_PROSE), label=label, indent=0)
    for reason in state.listed:
        page.prose(one_line(reason, longest=LONGEST_PROSE), indent=0)
    why = one_line(state.why(), longest=LONGEST_PROSE)
    first, *more = page.wrapped(f"{state.word}: {why}", page.width)
    style = "bold green" if state.opens else "bold red"
    page.line(Cell(state.word, style), first.removeprefix(state.word))
    for line in more:
        page.line(line)
    return page.text


def _workloads(page: Page, judged: Sequence[Judged]) -> None:
    outcomes = max(len(one.verdict.outcome) for one in judged)
    names = max(len(one_line(one.name)) for one in judged)
    steps = [_step_text(one.verdict) for one in judged]
    fits = outcomes + names + 4 + max(map(len, steps)) <= page.width
    for one, step in zip(judged, steps, strict=True):
        verdict, shown = one.verdict, one_line(one.name)
        outcome = Cell(verdict.outcome.ljust(outcomes), STYLES[verdict.outcome])
        if fits:
            page.line(outcome, "  ", f"{shown.ljust(names)}  ", step)
        else:
            page.line(outcome, "  ", shown)
            page.prose(step, indent=4)
        # The others have a table, which shows their notes.
        passed = verdict.outcome is Outcome.PASSED
        for text in verdict.warnings if passed else [headline(verdict)]:
            page.prose(one_line(f"note: {text}" if passed else text, longest=1000), indent=4)


def _step_text(verdict: Verdict) -> str:
    now, change, budget, runs = step_cells(verdict)
    known = (now and f"step_ms {now}", change, budget and f"budget {budget}", runs)
    return "  ".join(filter(None, known))


MERGED: Final = ("gate*", "GPU*", ">workloads", "state")


def merged_text(page: Page, document: GateDocument) -> str:
    """Return a line a gate that was merged, and what `gate_text` says of them together."""
    if document.gates:
        page.table(MERGED, [_gate(gate) for gate in document.gates], indent=0)
        page.blank()
    notes = [("note", note) for note in document.information]
    return gate_text(page, state_of(document), notes=notes)


def gate_cells(gate: MergedGate) -> tuple[str, str, str, str]:
    """Return what is shown of one of several gates, in the order of `MERGED`."""
    machine = "unknown" if gate.machine is None else gate.machine.gpu_name
    return gate.label, machine, str(gate.workloads), "open" if gate.opens_gate else "shut"


def _gate(gate: MergedGate) -> Row:
    label, machine, workloads, state = gate_cells(gate)
    style = "green" if gate.opens_gate else "bold red"
    return one_line(label), one_line(machine), workloads, Cell(state, style)


def skipped_text(page: Page, skipped: Mapping[str, str]) -> str:
    """Return what was skipped, with its reason by name, a line each."""
    for name, why in skipped.items():
        reason = f" ({one_line(why)})" if why else ""
        page.prose(f"skipped: {one_line(name)}{reason}", indent=0)
    return page.text
