"""Who is told what a gate does while it goes on: a door, which shows it in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from perfgate.model.errors import NsysCrashed
from perfgate.model.sample import Run


class Listener(Protocol):
    """Hears of the runs of one workload after another."""

    def of(self, workload: str) -> AbstractContextManager[None]:
        """Hear of one workload's runs inside the block."""

    def plan(self, lines: Sequence[str]) -> None:
        """Hear what is to be spent on it."""

    def run(self, title: str) -> AbstractContextManager[None]:
        """Hear that a run goes on, for as long as the block lasts."""

    def crashed(self, crash: NsysCrashed) -> None:
        """Hear that nsys broke down in a run, which is made again."""

    def done(self, title: str, run: Run) -> None:
        """Hear what a run measured."""

    def say(self, line: str) -> None:
        """Hear anything else, in a line."""
