"""Progress while runs go on: a live line on a terminal, plain lines elsewhere. Judges nothing."""

from __future__ import annotations

import textwrap
import time
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
        self._ends = 0.0
        """When the workload's runs come to their end, as planned."""

    @contextmanager
    def of(self, workload: str) -> Iterator[None]:
        """Tell of one workload's runs inside the block."""
        self._shown, self._ends = f"  {escape.one_line(workload)}", 0.0
        self.say("")
        yield

    @contextmanager
    def run(self, title: str) -> Iterator[None]:
        """Show that a run goes on."""
        with self._suspend():
            if not self._live:
                yield
                return
            with self._console.status(_Underway(f"{self._shown} {title} under nsys", self._ends)):
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
            planned_s = stage.fields.get("seconds")
            if stage.code == "plan-time" and isinstance(planned_s, float):
                self._ends = time.monotonic() + planned_s
            lines = textwrap.wrap(
                f"{self._shown}: {escape.line(say.in_one_line(stage))}",
                max(self._console.width, NARROWEST),
                subsequent_indent=" " * 6,
                break_on_hyphens=False,
                break_long_words=False,
            )
            for line in lines:
                self.say(line)


class _Underway:
    """What goes on, with the time that is left of what was planned, anew each time it is drawn."""

    def __init__(self, text: str, ends: float) -> None:
        self._text, self._ends = text, ends

    def __rich__(self) -> Text:
        left_s = self._ends - time.monotonic()
        left = f", about {numbers.seconds(round(left_s))} left" if left_s >= 1 else ""
        return Text(f"{self._text}{left} ...")
