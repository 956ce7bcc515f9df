"""How the steps of a worker may end before their last one, each with the whole of what is said of it."""

from __future__ import annotations

from typing import ClassVar

from perfgate.model.order import Ending


class ToldWhole(Exception):
    """An end whose message says all; a traceback would only show perfgate's own frames."""

    ending: ClassVar[Ending]


class StepsMisused(ToldWhole):
    """The loop took the steps twice, or left before the last turn."""

    ending = Ending.WRONG_STEPS


class StepsStrayed(StepsMisused, TypeError):
    """The steps are in another process, or on their way there.

    It says the same whatever carried it here: torch makes it anew with the traceback of a DataLoader's worker before
    its text. A TypeError as well, for that is what code expects that asks of anything whether it can be pickled.
    """

    def __init__(self, *_carried: object) -> None:
        """Leave out what is said besides."""
        super().__init__(
            "the steps were taken to another process, and only the workload's own is measured step by step. "
            "Iterate over them in the function that they are given to."
        )


class Deaf(ToldWhole):
    """No NVTX range of this process can reach the profiler."""

    ending = Ending.DEAF


class NotPinned(ToldWhole):
    """This process may not run on the one core that it was ordered to."""

    ending = Ending.NOT_PINNED


class Abandoned(ToldWhole):
    """The other side of an interleaved duet ended before its last step, or did not hand over in time."""

    ending = Ending.ABANDONED
