"""One gate as GitHub-flavoured Markdown, for a job summary or a comment; all text from elsewhere is inert.

Names and sentences may come from the code of a stranger's pull request. None of it can end a table cell, open HTML,
mention a person, refer to an issue or become a link.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Final

from perfgate.model import numbers
from perfgate.model.document import DocumentWorkload, GateDocument
from perfgate.model.loosening import Direction, Loosening
from perfgate.model.merged import MergedGate, shown_names
from perfgate.model.outcome import WORST_FIRST, Outcome
from perfgate.model.secrets import Cleaner
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.model.words import plural
from perfgate.render.loosening import NONE, told_counts
from perfgate.render.merged import gate_cells
from perfgate.render.page import inert, inert_prose
from perfgate.render.text import (
    budget_cell,
    change_cell,
    is_unchanged_count,
    step_cells,
    told_choice,
    told_dropped,
)

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
"""Beside the word, which alone would do; all others have a cross."""
SHUT_MARK: Final = "\u274c"

_CLEANER: Final = Cleaner()
"""Before a text is escaped: what parts its characters hides what they are."""
_BREAK: Final = "\u200b"
"""Nothing to see; what it parts is no mention, no reference, no address and no workflow command."""
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$])")
_LINKING: Final = re.compile(
    r"(?<=[@#])(?=\S)|(?<=:/)(?=/)|(?<=:)(?=:)|(?<=\bwww)(?=\\?\.)|(?<=\bGH)(?=\\?-)"
    r"|(?<=\bmailto:)(?=\S)|(?<=\bxmpp:)(?=\S)",
    re.IGNORECASE,
)


def gate_markdown(document: GateDocument, *, page: str | None = None) -> str:
    """Return the gate's outcome, a line a workload, and what there is to say of each that is not PASSED.

    Args:
        document: all that the gate found.
        page: an address of the HTML page, trusted; named where it is known.
    """
    named = zip(shown_names(document.workloads), document.workloads, strict=True)
    ordered = sorted(named, key=lambda pair: WORST_FIRST.index(pair[1].verdict.outcome))
    state = f"{MARKS[Outcome.PASSED]} open" if document.opens_gate else f"{SHUT_MARK} shut"
    lines = [f"## perfgate: gate {state}", ""]
    lines += _sentences(document.shut_by)
    if page is not None:
        lines += [f"[The page with plots and timelines]({page})", ""]
    if ordered:
        lines += [
            "| workload | outcome | step_ms | change | budget | runs | |",
            "|---|---|---|---|---|---|---|",
        ]
        rows = _fitting(
            (_line(shown, one.verdict) for shown, one in ordered[:MOST_LINES]), room=LONGEST // 2
        )
        lines += rows
        if len(ordered) > len(rows):
            lines += ["", f"and {len(ordered) - len(rows)} more, none of them worse."]
    else:
        lines += ["No workload was measured."]
    lines += [] if document.choice is None else ["", prose(told_choice(document.choice))]
    lines += _caveats(ordered)
    lines += (
        [] if document.loosening is None else ["", *loosening_markdown(document.loosening)[:-1]]
    )
    whole = "\n".join([*lines, *_gates(document.gates), *_told_besides(document.remarks)]) + "\n"
    left = [(shown, one) for shown, one in ordered if one.verdict.outcome is not Outcome.PASSED]
    for number, (shown, one) in enumerate(left):
        told = _details(shown, one)
        if len(whole) + len(told) > LONGEST:
            rest = len(left) - number
            return f"{whole}\n{rest} more workload{'s are' if rest > 1 else ' is'} too long to be told here.\n"
        whole += told
    return whole


def loosening_markdown(loosening: Loosening) -> list[str]:
    """A table of all that differs from the base branch's gate, and an empty line; nothing of none."""
    found, warning = loosening.differences, MARKS[Outcome.NO_BASELINE]
    if not found:
        return []
    told = (
        f"| {warning if one.direction is Direction.LOOSENS else ''} {one.direction} "
        f"| {name(one.what)} | {_value(one.old)} | {_value(one.new)} |"
        for one in found
    )
    rows = _fitting(told, room=LONGEST // 4)
    more = (
        ["", f"and {plural(len(found) - len(rows), 'more difference')}."]
        if len(found) > len(rows)
        else []
    )
    head = [f"| | what | {name(loosening.base)} | here |", "|---|---|---|---|"]
    return [f"**{prose(told_counts(loosening))}**", "", *head, *rows, *more, ""]


def _value(text: str | None) -> str:
    return NONE if text is None else name(text)


def _fitting(rows: Iterable[str], *, room: int) -> list[str]:
    """The rows that there is room for, in characters: hostile names and sentences take more of it than they show."""
    held = list(rows)
    taken = itertools.accumulate(len(row) + 1 for row in held)
    return [row for row, ends in zip(held, taken, strict=True) if ends <= room]


def _sentences(sentences: Sequence[str]) -> list[str]:
    """A list of them and an empty line; nothing of none."""
    told = (f"- {prose(sentence, longest=LONGEST_REASON)}" for sentence in sentences[:MOST_REASONS])
    lines = _fitting(told, room=LONGEST // 6)
    if len(sentences) > len(lines):
        lines += [f"- and {len(sentences) - len(lines)} more"]
    return [*lines, ""] if lines else []


def _gates(gates: Sequence[MergedGate]) -> list[str]:
    """What was merged, where that is more than one gate."""
    if len(gates) < 2:
        return []
    told = (f"| {' | '.join(name(cell) for cell in gate_cells(gate))} |" for gate in gates)
    rows = _fitting(told, room=LONGEST // 12)
    more = (
        ["", f"and {plural(len(gates) - len(rows), 'more gate')}."]
        if len(gates) > len(rows)
        else []
    )
    return ["", "| gate | GPU | workloads | state |", "|---|---|---:|---|", *rows, *more]


def _caveats(ordered: Sequence[tuple[str, DocumentWorkload]]) -> list[str]:
    """What must be known of those that are PASSED, of which no more is told than their line."""
    passed = [
        (shown, one.verdict) for shown, one in ordered if one.verdict.outcome is Outcome.PASSED
    ]
    told = (
        f"- {name(shown)}: {prose(caveat)}"
        for shown, verdict in passed
        for caveat in verdict.caveats
    )
    rows = _fitting(told, room=LONGEST // 6)
    return ["", *rows] if rows else []


def _told_besides(remarks: Sequence[str]) -> list[str]:
    return ["", *_sentences(remarks)[:-1]] if remarks else []


def prose(text: str, *, longest: int = LONGEST_SENTENCE) -> str:
    """A sentence from elsewhere: one line, every character of it just that character."""
    told = " ".join(" ".join(inert_prose(_CLEANER.clean(text))).split())
    if len(told) > longest:
        told = told[:longest] + "..."
    return _LINKING.sub(_BREAK, html.escape(_SPECIAL.sub(r"\\\1", told), quote=False))


def name(text: str) -> str:
    """A name from elsewhere, as code: inside it nothing has a meaning but its own end and a table's cell."""
    told = (
        inert(_CLEANER.clean(text), longest=LONGEST_NAME)
        .replace("`", "'")
        .replace("|", "\u2758")
        .strip()
        or " "
    )
    return f"`{told}`"


def _line(shown: str, verdict: Verdict) -> str:
    now, change, budget, runs = step_cells(verdict)
    first = next(iter(verdict.reason.splitlines()), "")
    mark = MARKS.get(verdict.outcome, SHUT_MARK)
    cells = (
        name(shown),
        f"{mark} {verdict.outcome}",
        now.removeprefix("step_ms "),
        prose(change),
        prose(budget.removeprefix("budget ")),
        runs,
        prose(first, longest=LONGEST_CELL),
    )
    return f"| {' | '.join(cells)} |"


def _details(shown: str, one: DocumentWorkload) -> str:
    verdict = one.verdict
    lines = ["", f"### {name(shown)}: {verdict.outcome}", ""]
    lines += [prose(verdict.reason)] if verdict.reason else []
    told = [row for row in verdict.metrics if not is_unchanged_count(row)]
    if told:
        lines += ["", *_table(told)]
    lines += _list("where", (f"{metric}: {where}" for metric, where in verdict.where.items()))
    lines += _list("ranks", verdict.ranks)
    lines += _list("advice", (f"{advice.evidence}. {advice.usually}" for advice in verdict.advice))
    lines += _list("set aside", (told_dropped(dropped) for dropped in verdict.dropped))
    lines += _list("remarks", (*verdict.caveats, *verdict.remarks))
    if verdict.next_step:
        lines += ["", f"**Next:** {prose(verdict.next_step)}"]
    if one.files is not None:
        lines += ["", f"Kept in {name(one.files)}"]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[MetricVerdict]) -> list[str]:
    ordered = sorted(
        rows,
        key=lambda row: len(WORST_FIRST) if row.outcome is None else WORST_FIRST.index(row.outcome),
    )
    cells = [
        (
            row.metric.value,
            "" if row.baseline is None else numbers.value(row.metric, row.baseline),
            "" if row.now is None else numbers.value(row.metric, row.now),
            change_cell(row),
            budget_cell(row),
            "" if row.outcome is None else row.outcome.value,
        )
        for row in ordered
    ]
    head = [
        "| metric | baseline | now | change | budget | outcome |",
        "|---|---:|---:|---|---:|---|",
    ]
    return [*head, *(f"| {' | '.join(prose(cell) for cell in row)} |" for row in cells)]


def _list(title: str, sentences: Iterable[str]) -> list[str]:
    told = [f"- {prose(sentence)}" for sentence in sentences]
    return ["", f"**{title.capitalize()}**", "", *told] if told else []
