"""Where a worker runs: on the one core of an A/B run of blocks, and from its start on near that
core's memory."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from perfgate.execute.worker.endings import NotPinned
from perfgate.execute.worker.needs import family, threads

MEMORY_NODES: Final = Path("/sys/devices/system/node")
_SWEEPS: Final = 3
"""How often threads are looked for that are not on the core yet: one that is not there itself may
start another."""


class Pinned:
    """This process and its children on one core, with all threads that they have and are yet to
    start.

    Raises:
        NotPinned: the platform refuses.
    """

    def __init__(self, core: int) -> None:
        self._core = core
        try:
            self._before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {core})
        except OSError as refused:
            raise NotPinned("not-pinned", core=core, why=refused.strerror) from refused
        for _ in range(_SWEEPS):
            if not _move({core}, lambda cores: cores != {core}):
                break
        # More threads than cores would spin where they wait for each other. Torch that is imported
        # later counts by OMP_NUM_THREADS, as it did before.
        set_num_threads = getattr(sys.modules.get("torch"), "set_num_threads", None)
        if set_num_threads is not None:
            set_num_threads(1)

    def let_go(self) -> None:
        """Let all that is still there run where it might before."""
        _move(self._before, lambda cores: cores == {self._core})


def stay_near(core: int, *, nodes: Path = MEMORY_NODES) -> None:
    """Keep this thread, and all that it is yet to start, to those of its CPUs that share their
    memory with the core.

    Memory lies where it was first written. A process that starts next to another node's memory and
    is then sent to the core would have its own far away, and the other side of the A/B run perhaps
    not.
    """
    with contextlib.suppress(OSError, ValueError):
        here = os.sched_getaffinity(0)
        for listed in nodes.glob("node[0-9]*/cpulist"):
            cpus = _cpus(listed.read_text(encoding="utf-8"))
            if core in cpus and not here <= cpus and here & cpus:
                os.sched_setaffinity(0, here & cpus)


def _cpus(listed: str) -> set[int]:
    """The CPUs of a list as the kernel prints it: `0-3,8`."""
    spans = [span.partition("-") for span in listed.strip().split(",") if span]
    return {cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)}


def _move(cores: set[int], wanted: Callable[[set[int]], bool]) -> int:
    """Let those threads run on `cores` of which, by where they may run, it is wanted; how many
    were.

    Threads that end meanwhile, or belong to a child of another user, are passed over.
    """
    moved = 0
    for folder in threads(family()):
        thread = int(folder.name)
        with contextlib.suppress(OSError):
            if wanted(os.sched_getaffinity(thread)):
                moved += 1
                os.sched_setaffinity(thread, cores)
    return moved
