"""An error as a command prints it: whatever it quotes moves no cursor, hides no text and commands
no CI."""

from __future__ import annotations

from typing import Final

import click

from perfgate.cli.common import cleaned
from perfgate.model.errors import PerfgateError
from perfgate.model.note import Note, Value
from perfgate.render.page import Page
from perfgate.words import escape, say

QUOTED: Final = "  | "
"""Before a line that is quoted."""


def usage(code: str, /, **fields: Value) -> click.UsageError:
    """Return the error of words that do not go together."""
    return click.UsageError(say.message(Note(code=code, fields=fields)))


def complaint(error: PerfgateError, *, width: int | None = None) -> str:
    """Return what is printed of an error, wrapped where there is a width."""
    sentences = [part for part in (say.fact(error), say.expectation(error)) if part]
    first, *more = _lines(" ".join(f"{sentence}." for sentence in sentences))
    lines = [
        f"perfgate: {first}",
        *(_quoted(line) for line in more),
        *(_advice(line) for line in _lines(say.next_step(error))),
    ]
    # The older form of GitHub's commands is found anywhere in a line.
    safe = [escape.line(line.replace("##[", "##\\x5b")) for line in lines if line]
    if width is not None:
        page = Page(width=width, colour=False)
        safe = [part for line in safe for part in page.wrapped(line, width)]
    return cleaned("\n".join(safe))


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def _quoted(line: str) -> str:
    return line if line.startswith(QUOTED) else f"{QUOTED}{line}"


def _advice(line: str) -> str:
    """Return a line of the next step; quoted where GitHub Actions would take it for a command."""
    return _quoted(line) if line.lstrip().startswith("::") else line
