"""A page of plain text: lines, wrapped prose and tables at a width; knows no record.

No markup is read. Who calls escapes what could move a terminal's cursor or hide text.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final, TypedDict

from rich.cells import cell_len
from rich.console import Console, Group
from rich.measure import Measurement
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from perfgate.words.escape import lines, one_line

NARROWEST: Final = 78
"""No page is narrower; a smaller terminal wraps it."""
LABEL: Final = 12
"""Width of the labels before prose."""

NAME: Final = 16
"""Cells that a column which is wrapped is left with at least."""

# A command is copied from the screen, so it gets a line of its own and is not wrapped.
_COMMAND = re.compile(r"(?<=:) (?=(?:pytest|perfgate|git|nsys|pip|sudo) )")
HELD: Final = "\xa0"
"""A space at which prose is not wrapped; it is written as a plain one."""
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|pp\b|ms\b)")
_TRAILING = re.compile(r" +$", re.MULTILINE)

Cell = Text
"""A cell with a style; plain strings are cells without."""
Row = Sequence[str | Text]
"""A table's cells. Its titles say how they are shown: `>ms` is of numbers, `name*` is wrapped where
it must be."""


class Screen(TypedDict):
    """What a page is for: its width in cells, and whether it shows colours."""

    width: int
    colour: bool


class Page:
    """Collects lines; `text` returns them."""

    def __init__(self, *, width: int, colour: bool) -> None:
        """Take the width in cells and whether escape codes for colour may be used."""
        self.width = max(width, NARROWEST)
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            width=self.width,
            force_terminal=colour,
            force_interactive=False,
            color_system="standard" if colour else None,
            no_color=not colour,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},
        )

    @property
    def text(self) -> str:
        """What was written so far, ending in a newline unless empty."""
        return _TRAILING.sub("", self._file.getvalue())

    def line(self, *parts: str | Text, indent: int = 0) -> None:
        """Write one line as it is, however long."""
        text = Text.assemble(" " * indent, *parts)
        text.rstrip()
        self._console.print(text, soft_wrap=True)

    def blank(self) -> None:
        """Write an empty line."""
        self.line()

    def prose(self, text: str, *, label: str = "", indent: int = 2, style: str = "") -> None:
        """Write a text wrapped at the width, with a label to its left; of an empty one nothing."""
        lead = f"{label} ".ljust(LABEL) if label else ""
        room = self.width - indent - len(lead)
        for part in (part for line in lines(text) for part in self.wrapped(line, room)):
            self.line(Text(lead, "dim"), Text(part, style), indent=indent)
            lead = " " * len(lead)

    def heading(self, name: str, rest: str = "") -> None:
        """Write a line that begins with a name from elsewhere."""
        self.line(Text(one_line(name, longest=1000), "bold"), rest)

    def facts(self, label: str, texts: Iterable[str], style: str = "") -> None:
        """Write texts, each with the same label before it; empty ones are left out."""
        for text in texts:
            self.prose(text, label=label, style=style)

    def file(self, path: str | None, label: str = "file") -> None:
        """Write a path under its label, however long."""
        if path is not None:
            self.line(Text(label.ljust(LABEL), "dim"), one_line(path, longest=1000), indent=2)

    def wrapped(self, line: str, room: int) -> list[str]:
        """Return one line wrapped at so many cells; a number stays with its unit, a command on a
        line of its own."""
        if cell_len(line) <= room:
            return [line.replace(HELD, " ")]
        sentence, *command = _COMMAND.split(line, maxsplit=1)
        held = _BEFORE_UNIT.sub(HELD, sentence)
        wrapped = textwrap.wrap(held, room, break_on_hyphens=False, break_long_words=False) or [""]
        return [part.replace(HELD, " ") for part in wrapped] + [f"  {part}" for part in command]

    def table(self, titles: Sequence[str], rows: Sequence[Row], *, indent: int = 2) -> None:
        """Write a table under a ruled head, two spaces between its columns where that fits; columns
        without content are left out."""
        if not rows:
            return
        table, gap = _table(titles, rows, gap=2), 2
        needed = Measurement.get(self._console, self._console.options, table).maximum
        if 2 + needed > self.width:
            table, gap = _table(titles, rows, gap=1), 1
        least = sum((column.min_width or 0) + gap for column in table.columns)
        self._console.width = max(self.width - indent, least)
        with self._console.capture() as made:
            self._console.print(table)
        self._console.width = self.width
        self._file.write(textwrap.indent(made.get(), " " * indent))


def _table(titles: Sequence[str], rows: Sequence[Row], *, gap: int) -> Table:
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False)
    shown = [n for n in range(len(titles)) if any(len(row[n]) for row in rows)]
    for n in shown:
        title = titles[n].strip(">*")
        is_wrapped = titles[n].endswith("*")
        widths = [cell_len(title), *(cell_len(str(row[n])) for row in rows)]
        table.add_column(
            Group(Text(title), Rule(characters="-", style="dim")),
            justify="right" if titles[n].startswith(">") else "left",
            min_width=min(max(widths), NAME) if is_wrapped else max(widths),
            no_wrap=not is_wrapped,
            overflow="fold",
        )
    for row in rows:
        cells = (row[n] for n in shown)
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
    return table
