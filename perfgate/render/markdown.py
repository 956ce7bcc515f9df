"""One gate as GitHub-flavoured Markdown, for a job summary or a comment.

Names and sentences may come from the code of a stranger's pull request: all of them are escaped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

from perfgate.model.document import DocumentWorkload, GateDocument
from perfgate.model.loosening import Direction, Loosening
from perfgate.model.merged import MergedGate, shown_names
from perfgate.model.outcome import WORST_FIRST, Outcome
from perfgate.model.secrets import Cleaner
from perfgate.model.verdict import Verdict
from perfgate.render.loosening import NONE, counts_text
from perfgate.render.merged import gate_cells
from perfgate.render.text import (
    budget_cell,
    change_cell,
    choice_text,
    headline,
    is_unchanged_count,
    step_cells,
    value_cell,
    verdict_parts,
    worst_first,
)
from perfgate.words.escape import markdown, markdown_code
from perfgate.words.names import plural

LONGEST: Final = 60_000
"""Characters of the whole: a comment may have 65,536."""
LONGEST_SENTENCE: Final = 1500
LONGEST_CELL: Final = 200
LONGEST_REASON: Final = 400
MOST_REASONS: Final = 20
MOST_LINES: Final = 100
LONGEST_NAME: Final = 120

MARKS: Final = {
    Outcome.PASSED: "\u2705",
    Outcome.IMPROVED: "\u2705",
    Outcome.INCONCLUSIVE: "\u26a0\ufe0f",
    Outcome.NO_BASELINE: "\u26a0\ufe0f",
}
"""Next to the word, which alone would do; all others have a cross."""
SHUT_MARK: Final = "\u274c"

_CLEANER: Final = Cleaner()
"""Before a text is escaped: what parts its characters hides what they are."""


def gate_markdown(document: GateDocument, *, page: str | None = None) -> str:
    """Return the gate's outcome, a line a workload, and what there is to say of each not PASSED.

    Args:
        document: all that the gate found.
        page: an address of the HTML page, trusted; named where it is known.
    """
    named = zip(shown_names(document.workloads), document.workloads, strict=True)
    ordered = sorted(named, key=lambda pair: WORST_FIRST.index(pair[1].verdict.outcome))
    state = f"{MARKS[Outcome.PASSED]} open" if document.opens_gate else f"{SHUT_MARK} shut"
    lines = [f"## perfgate: gate {state}", "", *_sentences(document.shut_by)]
    lines += [f"[The page with plots and timelines]({page})", ""] if page is not None else []
    lines += _overview([(shown, one.verdict) for shown, one in ordered])
    lines += ["", prose(choice_text(document.choice))] if document.choice is not None else []
    passed = [(shown, one) for shown, one in ordered if one.verdict.outcome is Outcome.PASSED]
    notes = [
        f"- {name(shown)}: {prose(note)}" for shown, one in passed for note in one.verdict.caveats
    ]
    lines += ["", *_fitting(notes, LONGEST // 6)[0]] if notes else []
    if document.loosening is not None:
        lines += ["", *loosening_markdown(document.loosening)[:-1]]
    lines += _gates(document.gates)
    lines += ["", *_sentences(document.remarks)[:-1]] if document.remarks else []
    whole = "\n".join(lines) + "\n"
    left = [pair for pair in ordered if pair not in passed]
    for number, (shown, one) in enumerate(left):
        details = _details(shown, one)
        if len(whole) + len(details) > LONGEST:
            rest = plural(len(left) - number, "more workload is", "more workloads are")
            return f"{whole}\n{rest} too long to be shown here.\n"
        whole += details
    return whole


def prose(text: str, *, longest: int = LONGEST_SENTENCE) -> str:
    """Return a sentence from elsewhere, without secrets and escaped."""
    return markdown(_CLEANER.clean(text), longest=longest)


def name(text: str) -> str:
    """Return a name from elsewhere as code, without secrets and escaped."""
    return markdown_code(_CLEANER.clean(text), longest=LONGEST_NAME)


def loosening_markdown(loosening: Loosening) -> list[str]:
    """Return a table of all that differs from the base branch's gate, and an empty line."""
    if not loosening.differences:
        return []
    warning = MARKS[Outcome.NO_BASELINE]
    rows = [
        _row(
            f"{warning if one.direction is Direction.LOOSENS else ''} {one.direction}",
            name(one.what),
            *(NONE if value is None else name(value) for value in (one.old, one.new)),
        )
        for one in loosening.differences
    ]
    head = [_row("", "what", name(loosening.base), "here"), "|---|---|---|---|"]
    table = _bounded(head, rows, LONGEST // 4, "more difference")
    return [f"**{prose(counts_text(loosening))}**", "", *table, ""]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _fitting(rows: Iterable[str], room: int) -> tuple[list[str], int]:
    """Return the rows that there is room for, in characters, and how many there is none for."""
    held = list(rows)
    ends = itertools.accumulate(len(row) + 1 for row in held)
    kept = [row for row, end in zip(held, ends, strict=True) if end <= room]
    return kept, len(held) - len(kept)


def _bounded(head: Sequence[str], rows: Iterable[str], room: int, noun: str) -> list[str]:
    """Return a table of the rows that there is room for, and how many are left out."""
    kept, more = _fitting(rows, room)
    return [*head, *kept, *(["", f"and {plural(more, noun)}."] if more else [])]


def _sentences(sentences: Sequence[str]) -> list[str]:
    """Return a list of them and an empty line; nothing of none."""
    items = (f"- {prose(text, longest=LONGEST_REASON)}" for text in sentences[:MOST_REASONS])
    kept, _ = _fitting(items, LONGEST // 6)
    more = len(sentences) - len(kept)
    return [*kept, *([f"- and {more} more"] if more else []), ""] if kept else []


def _overview(named: Sequence[tuple[str, Verdict]]) -> list[str]:
    """Return a line a workload."""
    if not named:
        return ["No workload was measured."]
    head = [
        "| workload | outcome | step_ms | change | budget | runs | |",
        "|---|---|---|---|---|---|---|",
    ]
    rows, _ = _fitting((_line(*one) for one in named[:MOST_LINES]), LONGEST // 2)
    more = len(named) - len(rows)
    return [*head, *rows, *(["", f"and {more} more, none of them worse."] if more else [])]


def _line(shown: str, verdict: Verdict) -> str:
    now, change, budget, runs = step_cells(verdict)
    return _row(
        name(shown),
        f"{MARKS.get(verdict.outcome, SHUT_MARK)} {verdict.outcome}",
        now.removeprefix("step_ms "),
        prose(change),
        prose(budget.removeprefix("budget ")),
        runs,
        prose(headline(verdict), longest=LONGEST_CELL),
    )


def _gates(gates: Sequence[MergedGate]) -> list[str]:
    """Return what was merged, where that is more than one gate."""
    if len(gates) < 2:
        return []
    rows = (_row(*map(name, gate_cells(gate))) for gate in gates)
    head = ["", "| gate | GPU | workloads | state |", "|---|---|---:|---|"]
    return _bounded(head, rows, LONGEST // 12, "more gate")


def _details(shown: str, one: DocumentWorkload) -> str:
    """Return what there is to say of a workload: reason, metrics, where, notes, next step."""
    verdict = one.verdict
    lines = ["", f"### {name(shown)}: {verdict.outcome}", ""]
    lines += [prose(verdict.reason)] if verdict.reason else []
    lines += _metrics(verdict)
    parts = [part for part in verdict_parts(verdict) if part[0] != "next"]
    for label, texts in itertools.groupby(parts, key=lambda part: part[0]):
        title = "notes" if label == "note" else label
        lines += ["", f"**{title.capitalize()}**", "", *(f"- {prose(text)}" for _, text in texts)]
    lines += ["", f"**Next:** {prose(verdict.next_step)}"] if verdict.next_step else []
    lines += ["", f"Kept in {name(one.files)}"] if one.files is not None else []
    return "\n".join(lines) + "\n"


def _metrics(verdict: Verdict) -> list[str]:
    rows = worst_first(row for row in verdict.metrics if not is_unchanged_count(row))
    cells = (
        (
            row.metric.value,
            value_cell(row, row.baseline),
            value_cell(row, row.now),
            change_cell(row),
            budget_cell(row),
            row.outcome or "",
        )
        for row in rows
    )
    head = [
        "",
        "| metric | baseline | now | change | budget | outcome |",
        "|---|---:|---:|---|---:|---|",
    ]
    return [*head, *(_row(*map(prose, row)) for row in cells)] if rows else []
