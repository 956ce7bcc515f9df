"""Guards the process of a gate: no secret in what it writes, and no exit that passes for
success."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TextIO, cast

import pytest
from _pytest.skipping import evaluate_skip_marks

from perfgate.model.note import note
from perfgate.model.secrets import Cleaner
from perfgate.words import escape, say

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter

Report = pytest.CollectReport | pytest.TestReport

ENDS_WITH = pytest.StashKey[int]()
"""What the gate has come to, once the terminal shows it."""


def hold_exits(stash: pytest.Stash) -> None:
    """Have `os._exit(0)`, which neither a hook nor a `finally` follows, leave this process with
    `ENDS_WITH`; with 1 and a sentence while that is not there."""
    leave, pid, stderr = os._exit, os.getpid(), 2
    with contextlib.suppress(OSError):  # closed
        stderr = os.dup(2)  # pytest captures what is written to 2 itself later on

    def held(status: int) -> NoReturn:
        if os.getpid() == pid and status == 0:  # and in no process that was forked from it
            status = stash.get(ENDS_WITH, int(pytest.ExitCode.TESTS_FAILED))
            if ENDS_WITH not in stash:
                caller = traceback.extract_stack(limit=2)[0]
                place = f"{caller.filename}:{caller.lineno}"
                words = say.message(note("exited-before-verdict", place=place))
                with contextlib.suppress(OSError):
                    os.write(stderr, f"\n{words}\n".encode())
        leave(status)

    os._exit = held


# What it writes


@dataclass(eq=False, repr=False)
class CleanedStream:
    """A stream without secrets: also of warnings, and of what is printed under `-s`."""

    stream: TextIO
    clean: Callable[[str], str]

    def write(self, text: str) -> int:
        """Write what is left of a text."""
        return self.stream.write(self.clean(text))

    def writelines(self, texts: Iterable[str]) -> None:
        """Write what is left of texts."""
        self.write("".join(texts))

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def clean_standard_streams() -> None:
    """Clean what is written to this process's standard streams from now on. pytest's capture gets
    what is written."""
    clean = Cleaner(os.environ).clean
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is not None:
            setattr(sys, name, cast("TextIO", CleanedStream(stream, clean)))


class Lines(str):
    """Text that pytest writes line by line: in one piece, it would escape the line ends."""

    __slots__ = ()

    def toterminal(self, out: TerminalWriter) -> None:
        """Write it."""
        for line in self.split("\n"):
            out.line(escape.without_commands(line))


def clean_report(report: Report, cleaner: Cleaner) -> None:
    """Take secrets out of what pytest, and plugins that write files, show of a failure or skip."""
    if isinstance(report.longrepr, tuple):
        report.longrepr = cleaner.record(report.longrepr)
    elif report.longrepr is not None and cleaner.clean(text := str(report.longrepr)) != text:
        report.longrepr = Lines(cleaner.clean(text))
    report.sections = [(title, cleaner.clean(text)) for title, text in report.sections]
    if isinstance(report, pytest.TestReport):
        report.user_properties = list(cleaner.record(tuple(report.user_properties)))
        if hasattr(report, "wasxfail"):
            report.wasxfail = cleaner.clean(report.wasxfail)


def why_skipped(report: Report) -> str:
    """Return the reason that a mark, or a call of `pytest.skip`, gives."""
    shown = report.longrepr
    reason = shown[2] if isinstance(shown, tuple) else getattr(report, "wasxfail", "")
    return " ".join(reason.removeprefix("Skipped: ").split())


def why_marked_skipped(item: pytest.Item) -> str | None:
    """Return why a mark or its condition skips an item; None where none does."""
    try:
        skip = evaluate_skip_marks(item)
    except BaseException as broken:  # noqa: BLE001 - pytest's own outcomes too: it skips nothing
        return f"its condition cannot be evaluated: {type(broken).__name__}"
    return None if skip is None else skip.reason
