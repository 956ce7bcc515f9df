"""Progress while runs go on: a live line on a terminal, plain lines elsewhere. Judges nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

from rich.console import Console
from rich.text import Text

from perfgate.model.errors import NsysCrashed
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.sample import Run
from perfgate.render.page import NARROWEST
from perfgate.words import escape, numbers, say

SHOWN = (Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS)


class Progress:
    """Tells of the runs of one workload after another."""

    def __init__(
        self,
        stream: TextIO,
        *,
        live: bool,
        width: int,
        suspend: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Take pytest's terminal, and `suspend`: its capture, which must let go of the terminal
        while something is written to it."""
        self._console = Console(
            file=stream,
            width=width,
            force_terminal=live,
            highlight=False,
            emoji=False,
            soft_wrap=True,
        )
        self._live = live
        self._suspend = suspend
        self._shown = ""
        """The workload, as its lines begin."""

    @contextmanager
    def of(self, workload: str) -> Iterator[None]:
        """Tell of one workload's runs inside the block."""
        self._shown = f"  {escape.one_line(workload)}"
        self.say("")
        yield

    @contextmanager
    def run(self, title: str) -> Iterator[None]:
        """Show that a run goes on."""
        with self._suspend():
            what = Text(f"{self._shown} {title} under nsys ...")
            with self._console.status(what) if self._live else nullcontext():
                yield

    def done(self, title: str, run: Run) -> None:
        """Tell what a run measured."""
        values = ((metric, run.value(metric)) for metric in SHOWN)
        known = (f"{name} {numbers.value(name, ms)}" for name, ms in values if ms is not None)
        text = ", ".join(known)
        self.say(f"{self._shown} {title}: {text} ({run.wall_s:.1f} s)")

    def crashed(self, crash: NsysCrashed) -> None:
        """Tell that nsys broke down in a run, which is made again."""
        self.say(f"{self._shown}: {crash.fact}; once more")

    def say(self, line: str) -> None:
        """Write one line, whatever it quotes."""
        with self._suspend():
            self._console.print(escape.without_commands(escape.line(line)), markup=False)

    def plan(self, stages: Sequence[Note]) -> None:
        """Show what is to be spent, wrapped at the width."""
        for stage in stages:
            lines = textwrap.wrap(
                f"{self._shown}: {escape.line(say.in_one_line(stage))}",
                max(self._console.width, NARROWEST),
                subsequent_indent=" " * 6,
                break_on_hyphens=False,
                break_long_words=False,
            )
            for line in lines:
                self.say(line)
