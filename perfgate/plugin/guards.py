"""Guards the process of a gate: no secret in what it writes, and no exit that passes for
success."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, cast

import pytest
from _pytest.skipping import evaluate_skip_marks

from perfgate.model.note import note
from perfgate.model.secrets import Cleaner
from perfgate.words import escape, say

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter

Report = pytest.CollectReport | pytest.TestReport

# How it leaves


class _HeldExit:
    """What `os._exit` is in the process of a gate, since neither a hook nor a `finally` follows it;
    in processes forked from it, it is as it was."""

    def __init__(self) -> None:
        self._leave = os._exit
        self._pid = os.getpid()
        self._stderr = 2
        with contextlib.suppress(OSError):  # closed
            self._stderr = os.dup(2)  # pytest captures what is written to 2 itself later on
        self.status: Callable[[], int | None] = lambda: None

    def __call__(self, status: int) -> None:
        if os.getpid() == self._pid and status == 0:
            shown = self.status()
            if shown is None:
                caller = traceback.extract_stack(limit=2)[0]
                place = f"{caller.filename}:{caller.lineno}"
                words = say.message(note("exited-before-verdict", place=place))
                with contextlib.suppress(OSError):
                    os.write(self._stderr, f"\n{words}\n".encode())
            status = int(pytest.ExitCode.TESTS_FAILED) if shown is None else shown
        self._leave(status)


def hold_exits(status: Callable[[], int | None]) -> None:
    """Have `os._exit(0)` leave this process with `status()`, and with 1 and a sentence where that
    is still None."""
    held = os._exit if isinstance(os._exit, _HeldExit) else _HeldExit()
    held.status = status
    os._exit = held  # type: ignore[assignment]  # typed as a function that does not return


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
