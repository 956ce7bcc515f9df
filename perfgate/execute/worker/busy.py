"""How many CPU cores the measured steps keep busy, what they have started included."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from pathlib import Path

from perfgate.execute.worker.family import family


class Busy:
    """Counts the CPU time that this process and all that it has started take from now on."""

    def __init__(self) -> None:
        self._children_ns = _children_ns()
        # Last, and first at the end: looking for children is no work of the steps.
        self._own_ns, self._began_ns = time.process_time_ns(), time.perf_counter_ns()

    def cores(self) -> float:
        """CPU cores kept busy since then, on average."""
        used_ns = time.process_time_ns() - self._own_ns
        used_ns += max(_children_ns() - self._children_ns, 0)
        # Last, or what the children do while they are looked for would count, and its time would not.
        return used_ns / max(time.perf_counter_ns() - self._began_ns, 1)


def _children_ns() -> int:
    """CPU time so far of all that this process has started: what has ended, and what /proc tells of the others."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_ns = int((ended.ru_utime + ended.ru_stime) * 1e9)
    for child in family() - {os.getpid()}:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{child}/task").iterdir():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    used_ns += int((task / "schedstat").read_text().split()[0])
    return used_ns
