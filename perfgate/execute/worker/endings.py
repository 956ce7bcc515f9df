"""How the steps of a worker may end before their last one, each with a note that says all of it."""

from __future__ import annotations

from typing import ClassVar

from perfgate.model.note import Note
from perfgate.model.order import Ending
from perfgate.words import say


class StepsEnded(Exception):
    """An end whose note says all; a traceback would only show perfgate's own frames."""

    ending: ClassVar[Ending]

    def __init__(self, code: str, /, **fields: bool | float | str | None) -> None:
        self.why = Note(code=code, fields=fields)
        super().__init__(say.message(self.why))


class StepsMisused(StepsEnded):
    """The loop took the steps twice, or left before the last turn."""

    ending = Ending.WRONG_STEPS


class Unmarked(StepsEnded):
    """No NVTX range of this process can reach the profiler."""

    ending = Ending.DEAF


class NotPinned(StepsEnded):
    """This process may not run on the one core that it was ordered to."""

    ending = Ending.NOT_PINNED


class Abandoned(StepsEnded):
    """The other side of a pair in blocks, or the gate, ended first or did not hand over in time."""

    ending = Ending.ABANDONED
