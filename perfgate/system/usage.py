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
    """The processes that bear a mark now."""

    def __init__(self, mark: str) -> None:
        self._processes = processes_of(mark)

    def cpu_s(self) -> float:
        """CPU time of those of them that still live."""
        used_s = 0.0
        for process in self._processes:
            with suppress(psutil.Error):
                times = process.cpu_times()
                used_s += times.user + times.system
        return used_s


def free_bytes() -> int:
    """Memory of the machine that is free, as far as this process may use it."""
    free = [psutil.virtual_memory().available]
    with suppress(OSError, ValueError):
        limit = int((GROUP / "memory.max").read_text(encoding="utf-8"))
        free.append(limit - int((GROUP / "memory.current").read_text(encoding="utf-8")))
    return min(free)
