"""What pytest reports and writes while a gate runs, without secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TextIO, cast

import pytest

from perfgate.model.secrets import Cleaner
from perfgate.words import escape

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter


class Lines(str):
    """Text that pytest writes line by line: in one piece, it would escape the line ends."""

    __slots__ = ()

    def toterminal(self, out: TerminalWriter) -> None:
        """Write it."""
        for line in self.split("\n"):
            out.line(escape.without_commands(line))


def clean_report(report: pytest.CollectReport | pytest.TestReport, cleaner: Cleaner) -> None:
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


def why_skipped(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return the reason that a mark, or a call of `pytest.skip`, gives."""
    shown = report.longrepr
    reason = shown[2] if isinstance(shown, tuple) else getattr(report, "wasxfail", "")
    return " ".join(reason.removeprefix("Skipped: ").split())


class CleanedStream:
    """A stream without secrets: also of warnings, and of what is printed under `-s`."""

    def __init__(self, stream: TextIO, clean: Callable[[str], str]) -> None:
        self._stream, self._clean = stream, clean

    def write(self, text: str) -> int:
        """Write what is left of a text."""
        return self._stream.write(self._clean(text))

    def writelines(self, texts: Iterable[str]) -> None:
        """Write what is left of texts."""
        self.write("".join(texts))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def clean_standard_streams() -> None:
    """Clean what is written to this process's standard streams from now on. pytest's capture gets
    what is written."""
    clean = Cleaner(os.environ).clean
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is not None:
            setattr(sys, name, cast("TextIO", CleanedStream(stream, clean)))
