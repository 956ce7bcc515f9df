"""What a worker has started, and how many CPU cores the measured steps of all of it keep busy."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from pathlib import Path


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
        # Last, or what the children do while they are looked for would count, and its time would
        # not.
        return used_ns / max(time.perf_counter_ns() - self._began_ns, 1)


def _children_ns() -> int:
    """CPU time so far of all that this process has started: what has ended, and what /proc shows of
    the others."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_ns = int((ended.ru_utime + ended.ru_stime) * 1e9)
    for child in family() - {os.getpid()}:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{child}/task").iterdir():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    used_ns += int((task / "schedstat").read_text().split()[0])
    return used_ns


def family() -> set[int]:
    """This process and all that it has started, as far as /proc shows."""
    members, found = {os.getpid()}, 0
    parents = _parents()
    while len(members) > found:
        found = len(members)
        members |= {child for child, parent in parents.items() if parent in members}
    return members


def _parents() -> dict[int, int]:
    """The parent of each process on this machine."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        # The name, in brackets, may hold anything; after it come the state and the parent.
        with contextlib.suppress(OSError, IndexError):
            if folder.name.isdecimal():
                stat = (folder / "stat").read_text(errors="replace")
                parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    return parents
