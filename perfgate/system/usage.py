"""What processes take of this machine, and what is free of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from perfgate.system.ending import processes_of

GROUP: Final = Path("/sys/fs/cgroup")
"""Where a container reads its own limits."""


class Marked:
    """The processes that bear a mark."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._processes = processes_of(mark)

    def cpu_s(self, *, anew: bool = False) -> dict[int, float]:
        """CPU time by process of those that live; `anew` also of those that have begun since."""
        if anew:
            self._processes = processes_of(self._mark)
        found: dict[int, float] = {}
        for process in self._processes:
            with suppress(psutil.Error):
                times = process.cpu_times()
                found[process.pid] = times.user + times.system
        return found


def free_bytes() -> int:
    """Memory of the machine that is free, as far as this process may use it."""
    free = [psutil.virtual_memory().available]
    with suppress(OSError, ValueError):
        limit = int((GROUP / "memory.max").read_text(encoding="utf-8"))
        free.append(limit - int((GROUP / "memory.current").read_text(encoding="utf-8")))
    return min(free)
