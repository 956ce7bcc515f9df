"""A page of plain text: lines, wrapped prose and tables at a width, in colour or without; knows no record.

Everything on a page is inert: no markup is read, and what could move a terminal's cursor or hide text is spelled out.
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

from perfgate.model.spelling import spelled

NARROWEST: Final = 78
"""No table is narrower; a smaller terminal wraps it."""
LABEL: Final = 12
"""Width of the labels before prose."""
LONGEST_NAME: Final = 100
"""Cells of a name within a line; of longer ones the middle is left out."""
LONGEST_PROSE: Final = 4000
"""Cells of a text from elsewhere."""
DIGEST: Final = 6
"""Hexadecimal digits that tell apart names which read alike, as in what a baseline keeps of them."""
_SPARE: Final = 16
"""Cells that a name is left with at least in a table."""

# A command is copied from the screen, so it gets a line of its own and is not wrapped.
_COMMAND = re.compile(r"(?<=:) (?=(?:pytest|perfgate|git|nsys|pip|sudo) )")
HELD: Final = "\xa0"
"""A space at which prose is not wrapped; it is written as a plain one."""
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|pp\b|ms\b)")
_COMMAND_OF_CI = re.compile(r"^\s*:(?=:)|##(?=\[)", re.MULTILINE)
"""Where a runner of GitHub Actions reads a command: `::` that begins a line and, of the older form, `##[` anywhere."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column; a flexible one gives way where the width does not suffice, prose at its end, names in the middle."""

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


def inert(text: str, *, longest: int = LONGEST_NAME) -> str:
    """Return a name from elsewhere on one line: control and invisible characters spelled out, the middle left out."""
    ends = text if len(text) <= 2 * longest else text[:longest] + text[-longest:]
    return shortened(spelled(ends), longest)


def inert_prose(text: str) -> tuple[str, ...]:
    """Return a text from elsewhere as lines, with control characters spelled out."""
    lines = text[:LONGEST_PROSE].expandtabs(4).splitlines() + (
        ["..."] if len(text) > LONGEST_PROSE else []
    )
    return tuple(spelled(line).rstrip() for line in lines)


def inert_line(line: str) -> str:
    """Return a line of a message, which may quote anything: control characters spelled out, its middle left out."""
    ends = line if len(line) <= 2 * LONGEST_PROSE else line[:LONGEST_PROSE] + line[-LONGEST_PROSE:]
    told = spelled(ends.expandtabs(4))
    if len(told) <= LONGEST_PROSE:
        return told
    tail = LONGEST_PROSE // 3
    return f"{told[: LONGEST_PROSE - tail - 3]}...{told[-tail:]}"


def inert_message(text: str) -> str:
    """Return a message of several lines, which may quote anything, as one that steers neither a terminal nor a CI."""
    return uncommanding("\n".join(map(inert_line, text.split("\n"))))


def uncommanding(text: str) -> str:
    """Return what is printed as one that gives a runner of GitHub Actions no command: each is broken by a space."""
    return _COMMAND_OF_CI.sub(lambda found: f"{found[0]} ", text)


def shortened(text: str, longest: int) -> str:
    """Leave out the middle of a text that is longer than so many cells: both ends of a C++ name tell something."""
    if cell_len(text) <= longest:
        return text
    head, tail = _start(text, (longest - 3) * 2 // 3), _start(text[::-1], (longest - 3) // 3)[::-1]
    return f"{head}...{tail}"


def told_apart(names: Collection[str], longest: int) -> dict[str, str]:
    """What is left of names that are shortened: to those that would then read alike, the start of their SHA-256."""
    told = {name: shortened(name, longest) for name in names}
    alike = Counter(told.values())
    return {
        name: short if alike[short] < 2 else _with_digest(name, longest)
        for name, short in told.items()
    }


def _with_digest(name: str, longest: int) -> str:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:DIGEST]
    return f"{shortened(name, longest - DIGEST - 2)} #{digest}"


def cut(text: str, longest: int) -> str:
    """Leave out the end of a sentence that is longer than so many cells, at a space where there is one."""
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
        told = Text(" " * indent)
        for part in parts:
            cell = _cell(part)
            told.append(cell.text, cell.style)
        told.rstrip()
        self._console.print(told, soft_wrap=True)

    def blank(self) -> None:
        """Write an empty line."""
        self.line()

    def prose(self, text: str, *, label: str = "", indent: int = 2, style: str = "") -> None:
        """Write a text wrapped at the width, under a label to its left; a command in it gets a line of its own."""
        lead = label.ljust(LABEL) if label else ""
        room = self.width - indent - len(lead)
        lines = [wrapped for line in inert_prose(text) for wrapped in self.wrapped(line, room)]
        for number, line in enumerate(lines):
            before = _styled(lead if number == 0 else " " * len(lead), "dim")
            self.line(before, _styled(line, style), indent=indent)

    def wrapped(self, line: str, room: int) -> list[str]:
        """Return one line wrapped at so many cells; a number stays with its unit, a command on a line of its own."""
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
        """Write a table under a ruled head; columns without content are left out, flexible ones shortened to fit."""
        natural = _widths(columns, rows)
        shown = [n for n, width in enumerate(natural) if width]
        gap = 2 if sum(natural) + 2 * (len(shown) - 1) + indent <= self.width else 1
        gives_way = any(columns[n].flexible for n in shown)
        if not gives_way and sum(natural) + len(shown) - 1 + indent > self.width:
            indent = 0
        widths = _fitted(columns, natural, room=self.width - indent - gap * (len(shown) - 1))
        between = " " * gap
        names = {
            n: told_apart({_cell(row[n]).text for row in rows}, widths[n])
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
                    [space, _styled(text, cell.style)]
                    if columns[n].right
                    else [_styled(text, cell.style), space]
                )
                parts.append(between)
            self.line(*parts, indent=indent)

        write([Cell(text=column.title, style="bold") for column in columns])
        write([Cell(text="-" * width, style="dim") for width in widths])
        for row in rows:
            write(row)


def _cell(part: str | Cell) -> Cell:
    return part if isinstance(part, Cell) else Cell(text=part)


def _styled(text: str, style: str) -> Cell:
    return Cell(text=text, style=style)


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
    # Prose gives way before names do: its beginning tells something, a name whose middle is missing may tell nothing.
    for n in sorted(range(len(columns)), key=lambda n: not columns[n].prose):
        excess = sum(widths) - room
        if columns[n].flexible and widths[n] and excess > 0:
            widths[n] = max(widths[n] - excess, min(widths[n], _SPARE))
    return widths
