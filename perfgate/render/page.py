"""A page of plain text: lines, wrapped prose and tables at a width; knows no record.

No markup is read, and what could move a terminal's cursor or hide text is escaped.
"""

from __future__ import annotations

import hashlib
import io
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from perfgate.words.escape import lines, one_line

NARROWEST: Final = 78
"""No table is narrower; a smaller terminal wraps it."""
LABEL: Final = 12
"""Width of the labels before prose."""
DIGEST: Final = 6
"""Hexadecimal digits that tell apart shortened names which read alike."""
_SPARE: Final = 16
"""Cells that a name is left with at least in a table."""

# A command is copied from the screen, so it gets a line of its own and is not wrapped.
_COMMAND = re.compile(r"(?<=:) (?=(?:pytest|perfgate|git|nsys|pip|sudo) )")
HELD: Final = "\xa0"
"""A space at which prose is not wrapped; it is written as a plain one."""
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|pp\b|ms\b)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column; a flexible one gives way: prose at its end, names in the middle."""

    title: str
    right: bool = False
    flexible: bool = False
    prose: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """Text with a style; plain strings are cells without."""

    text: str
    style: str = ""


Row = Sequence[str | Cell]


def columns(*titles: str) -> tuple[Column, ...]:
    """Make columns: `>ms` is of numbers, `name*` gives way in its middle, `note~` at its end."""
    return tuple(
        Column(
            title=title.strip(">*~"),
            right=title.startswith(">"),
            flexible=title.endswith(("*", "~")),
            prose=title.endswith("~"),
        )
        for title in titles
    )


def shortened(text: str, longest: int) -> str:
    """Leave out the middle of a text that is longer than so many cells: both ends of a C++ name
    tell something."""
    if cell_len(text) <= longest:
        return text
    head, tail = _start(text, (longest - 3) * 2 // 3), _start(text[::-1], (longest - 3) // 3)[::-1]
    return f"{head}...{tail}"


def _told_apart(names: Collection[str], longest: int) -> dict[str, str]:
    """Shorten names; those that would then read alike get the start of their SHA-256."""
    short = {name: shortened(name, longest) for name in names}
    alike = Counter(short.values())
    return {
        name: text if alike[text] < 2 else _with_digest(name, longest)
        for name, text in short.items()
    }


def _with_digest(name: str, longest: int) -> str:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:DIGEST]
    return f"{shortened(name, longest - DIGEST - 2)} #{digest}"


def cut(text: str, longest: int) -> str:
    """Leave out the end of a sentence that is longer than so many cells, at a space where there is
    one."""
    if cell_len(text) <= longest:
        return text
    start = _start(text, longest - 3)
    words = start[: start.rfind(" ")] if " " in start else start
    return f"{words.rstrip('.,;: ')}..."


def _start(text: str, cells: int) -> str:
    room = max(cells, 0)
    start = text[:room]
    while cell_len(start) > room:
        start = start[:-1]
    return start


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
        return self._file.getvalue()

    def line(self, *parts: str | Cell, indent: int = 0) -> None:
        """Write one line as it is, however long."""
        text = Text(" " * indent)
        for part in parts:
            cell = _cell(part)
            text.append(cell.text, cell.style)
        text.rstrip()
        self._console.print(text, soft_wrap=True)

    def blank(self) -> None:
        """Write an empty line."""
        self.line()

    def prose(self, text: str, *, label: str = "", indent: int = 2, style: str = "") -> None:
        """Write a text wrapped at the width, with a label to its left; of an empty one nothing."""
        lead = label.ljust(LABEL) if label else ""
        room = self.width - indent - len(lead)
        wrapped = [part for line in lines(text) for part in self.wrapped(line, room)]
        for number, line in enumerate(wrapped):
            before = Cell(text=lead if number == 0 else " " * len(lead), style="dim")
            self.line(before, Cell(text=line, style=style), indent=indent)

    def file(self, path: str, label: str = "file") -> None:
        """Write a path under its label, however long."""
        self.line(
            Cell(text=label.ljust(LABEL), style="dim"), one_line(path, longest=1000), indent=2
        )

    def wrapped(self, line: str, room: int) -> list[str]:
        """Return one line wrapped at so many cells; a number stays with its unit, a command on a
        line of its own."""
        if cell_len(line) <= room:
            return [line.replace(HELD, " ")]
        sentence, *command = _COMMAND.split(line, maxsplit=1)
        held = _BEFORE_UNIT.sub(HELD, sentence)
        wrapped = textwrap.wrap(held, room, break_on_hyphens=False, break_long_words=False) or [""]
        return [part.replace(HELD, " ") for part in wrapped] + [f"  {part}" for part in command]

    def fits(self, columns: Sequence[Column], rows: Sequence[Row], *, indent: int = 2) -> bool:
        """Say whether a table fits with two spaces between its columns and nothing shortened."""
        widths = [width for width in _widths(columns, rows) if width]
        return sum(widths) + 2 * (len(widths) - 1) + indent <= self.width

    def table(self, columns: Sequence[Column], rows: Sequence[Row], *, indent: int = 2) -> None:
        """Write a table under a ruled head; columns without content are left out, flexible ones
        shortened to fit."""
        natural = _widths(columns, rows)
        shown = [n for n, width in enumerate(natural) if width]
        gap = 2 if sum(natural) + 2 * (len(shown) - 1) + indent <= self.width else 1
        gives_way = any(columns[n].flexible for n in shown)
        if not gives_way and sum(natural) + len(shown) - 1 + indent > self.width:
            indent = 0
        widths = _fitted(columns, natural, room=self.width - indent - gap * (len(shown) - 1))
        between = " " * gap
        names = {
            n: _told_apart({_cell(row[n]).text for row in rows}, widths[n])
            for n in shown
            if columns[n].flexible and not columns[n].prose
        }

        def write(cells: Row) -> None:
            parts: list[str | Cell] = []
            for n in shown:
                cell = _cell(cells[n])
                short = cut if columns[n].prose else shortened
                text = names.get(n, {}).get(cell.text) or short(cell.text, widths[n])
                space = " " * (widths[n] - cell_len(text))
                parts += (
                    [space, Cell(text=text, style=cell.style)]
                    if columns[n].right
                    else [Cell(text=text, style=cell.style), space]
                )
                parts.append(between)
            self.line(*parts, indent=indent)

        write([Cell(text=column.title, style="bold") for column in columns])
        write([Cell(text="-" * width, style="dim") for width in widths])
        for row in rows:
            write(row)


def _cell(part: str | Cell) -> Cell:
    return part if isinstance(part, Cell) else Cell(text=part)


def _widths(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    """Return the natural width of each column, 0 where no row has anything in it."""
    content = [
        max((cell_len(_cell(row[n]).text) for row in rows), default=0) for n in range(len(columns))
    ]
    return [
        max(width, len(column.title)) if width else 0
        for column, width in zip(columns, content, strict=True)
    ]


def _fitted(columns: Sequence[Column], natural: Sequence[int], *, room: int) -> list[int]:
    widths = list(natural)
    # Prose gives way before names do: its beginning tells something, a name whose middle is missing
    # may tell nothing.
    for n in sorted(range(len(columns)), key=lambda n: not columns[n].prose):
        excess = sum(widths) - room
        if columns[n].flexible and widths[n] and excess > 0:
            widths[n] = max(widths[n] - excess, min(widths[n], _SPARE))
    return widths
