"""An error as the shell's door prints it: whatever it quotes moves no cursor, hides no text and commands no CI."""

from __future__ import annotations

from typing import Final

from perfgate.cli.common import cleaned
from perfgate.model.errors import PerfgateError
from perfgate.render.page import Page, inert_line
from perfgate.words import say

QUOTED: Final = "  | "
"""Before a line that is quoted."""


def complaint(error: PerfgateError, *, width: int | None = None) -> str:
    """Return what is printed of an error: its four parts, each line inert, and wrapped where there is a width."""
    first, *more = _lines(say.sentences(error))
    lines = (
        f"perfgate: {first}",
        *(_quoted(line) for line in more),
        *(_advice(line) for line in _lines(error.next_step)),
    )
    # The older form of GitHub's commands is found anywhere in a line.
    told = [inert_line(line.replace("##[", "##\\x5b")) for line in lines]
    if width is not None:
        told = [
            part for line in told for part in Page(width=width, colour=False).wrapped(line, width)
        ]
    return cleaned("\n".join(told))


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def _quoted(line: str) -> str:
    return line if line.startswith(QUOTED) else f"{QUOTED}{line}"


def _advice(line: str) -> str:
    """A line of the next step; quoted where GitHub Actions would take it for a command."""
    return _quoted(line) if line.lstrip().startswith("::") else line
