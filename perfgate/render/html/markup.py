"""Pieces of HTML: escaped text, tables with captions and heads, scripts that hold data; knows no record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from perfgate.render.page import inert, inert_prose

LONGEST: Final = 160
"""Characters of a name; of longer ones the middle is left out."""
_IN_SCRIPT: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
"""What could end a script element or a line of one, as JSON writes it otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Td:
    """One cell: markup, and the number that a column is sorted by where the text is none."""

    html: str
    by: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Th:
    """The head of one column."""

    title: str
    right: bool = False


def name(text: str, *, longest: int = LONGEST) -> str:
    """Escape a name from elsewhere: on one line, control characters spelled out, its direction kept to itself."""
    return f"<bdi>{escape(inert(text, longest=longest))}</bdi>"


def words(text: str) -> str:
    """Escape a text of perfgate's own on one line."""
    return escape(inert(text, longest=4000))


def prose(text: str, *, mark: str = "") -> str:
    """Escape a text from elsewhere in which lines stay lines."""
    lines = inert_prose(text)
    of_class = f' class="{mark}"' if mark else ""
    return (
        f"<p{of_class}><bdi>{'<br>'.join(escape(line) for line in lines)}</bdi></p>"
        if lines
        else ""
    )


def table(
    caption: str,
    columns: Sequence[Th],
    rows: Iterable[Sequence[str | Td]],
    *,
    foot: Iterable[Sequence[str | Td]] = (),
    sortable: bool = False,
    mark: str = "",
) -> str:
    """Return a table in a box that scrolls sideways; the first cell of a row heads it. Cells and caption are markup.

    Rows of `foot` stay below, however the others are sorted.
    """
    marks = " ".join([*(["sortable"] if sortable else []), *([mark] if mark else [])])
    head = "".join(f'<th scope="col"{_right(column)}>{escape(column.title)}' for column in columns)
    body = "".join(_row(columns, row) for row in rows)
    below = "".join(_row(columns, row) for row in foot)
    return (
        f'<div class="scroll"><table{f" class={chr(34)}{marks}{chr(34)}" if marks else ""}>'
        f"<caption><span>{caption}</span></caption><thead><tr>{head}</thead><tbody>{body}</tbody>"
        f"{f'<tfoot>{below}</tfoot>' if below else ''}</table></div>"
    )


def _row(columns: Sequence[Th], cells: Sequence[str | Td]) -> str:
    told: list[str] = []
    for number, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        one = cell if isinstance(cell, Td) else Td(html=cell)
        by = "" if one.by is None else f' data-by="{one.by:.9g}"'
        told.append(f"<{'th scope=row' if number == 0 else 'td'}{_right(column)}{by}>{one.html}")
    return f"<tr>{''.join(told)}"


def _right(column: Th) -> str:
    return ' class="n"' if column.right else ""


def listed(items: Iterable[str], *, mark: str = "") -> str:
    """Return markup as an unordered list, nothing of none."""
    told = "".join(f"<li>{item}" for item in items)
    return f"<ul{f' class={chr(34)}{mark}{chr(34)}' if mark else ''}>{told}</ul>" if told else ""


def data(identity: str, value: object) -> str:
    """Return a script element that holds JSON and runs nothing; what could end it is written as escapes."""
    return f'<script type="application/json" id="{identity}">{json_text(value)}</script>'


def json_text(value: object) -> str:
    """Return JSON in plain ASCII that can stand in a script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_IN_SCRIPT)
