"""Several gates that were merged, as text for a terminal or a CI log: returns strings."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.model.document import GateDocument, other_reasons, shutting
from perfgate.model.merged import MergedGate, shown_names
from perfgate.render.page import Cell, Page, Row, columns
from perfgate.render.text import summary, why_shut
from perfgate.words.escape import LONGEST_PROSE, one_line

COLUMNS = columns("gate*", "GPU*", ">workloads", "state")


def merged_text(document: GateDocument, *, width: int, colour: bool) -> str:
    """Return a line a gate and a line a workload, what else is to be known, and last whether the
    gate is open."""
    page = Page(width=width, colour=colour)
    if document.gates:
        page.table(COLUMNS, [_gate(gate) for gate in document.gates], indent=0)
        page.blank()
    others = other_reasons(document)
    named = zip(shown_names(document.workloads), document.workloads, strict=True)
    *lines, closing = summary(
        [one.verdict.model_copy(update={"workload": name}) for name, one in named],
        opens=document.opens_gate,
        width=width,
        colour=colour,
        opening=[one.opens_gate for one in document.workloads],
        why="" if document.opens_gate else why_shut(shutting(document), others, place="above"),
        longest_name=page.width // 2,
    ).splitlines()
    notes = Page(width=width, colour=colour)
    for note in document.remarks:
        notes.prose(one_line(note, longest=LONGEST_PROSE), label="note", indent=0)
    for reason in others if len(others) > 1 or shutting(document) else ():
        notes.prose(one_line(reason, longest=LONGEST_PROSE), indent=0)
    return page.text + "".join(f"{line}\n" for line in (*lines, *notes.text.splitlines(), closing))


def gate_cells(gate: MergedGate) -> Sequence[str]:
    """What is told of one of the gates, in the order of its columns."""
    machine = "unknown" if gate.machine is None else gate.machine.gpu_name
    return (gate.label, machine, str(gate.workloads), "open" if gate.opens_gate else "shut")


def _gate(gate: MergedGate) -> Row:
    label, machine, workloads, state = gate_cells(gate)
    style = "green" if gate.opens_gate else "bold red"
    return (one_line(label), one_line(machine), workloads, Cell(text=state, style=style))
