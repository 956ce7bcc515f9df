"""Who else was on one GPU during a run; pure bookkeeping over process ids, so that a container
cannot mislead it.

before the run   |  during the run
pid 11 ----------------------------->   neighbour: none of ours runs yet
                 |    pid 40 ------->   ours by cookie or descent: the driver's numbers are ours
                 |    pid 51 ------->   exists here and is not ours: neighbour
                 |  pid 90210 ------>   exists nowhere here: see `NeighbourWatch`
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from perfgate.machine.processes import Owner, ProcessTable

SERVANTS = frozenset({"nvidia-cuda-mps-server", "nvidia-cuda-mps-control"})
"""Programs that hold a context for others and do no work of their own."""


class NeighbourWatch:
    """Collects the process ids NVML lists on one GPU, sample by sample, and names the neighbours
    among them.

    An id that exists nowhere here is either a process that has just ended, or one of another id
    namespace. It counts only from its second sample on. Where the driver numbers one of our own
    processes as we do, there is but one namespace that matters, and such an id is a neighbour.
    Where it never does, we sit in a container and these ids may be our own processes: only as many
    as exceed our processes with an open GPU are neighbours.
    """

    def __init__(self, processes: ProcessTable, *, own_pid: int | None = None) -> None:
        self._processes = processes
        self._own_pid = os.getpid() if own_pid is None else own_pid
        self._foreign: dict[int, str] = {}
        self._unknown: Counter[int] = Counter()
        self._before: set[int] = set()
        self._ours_on_gpu = 0
        self._numbered_as_here = False
        self.holds_gpu_itself = False
        """Whether this very process, which only orchestrates, has a compute context."""
        self.servants: set[str] = set()
        """Which of `SERVANTS` were met."""

    def see_before(self, pids: Iterable[int]) -> None:
        """Take the ids listed before the run started."""
        for pid in self._others(pids):
            self._before.add(pid)
            self._count(pid, self._processes.owner(pid))

    def see(self, pids: Iterable[int]) -> bool:
        """Take the ids of one sample during the run; returns whether one of ours may be among
        them.
        """
        ours_present = hidden = False
        for pid in self._others(pids):
            owner = self._processes.owner(pid)
            if owner is Owner.OURS and pid not in self._before:
                self._numbered_as_here = ours_present = True
                continue
            hidden = hidden or (owner is Owner.UNKNOWN and pid not in self._before)
            self._count(pid, owner)
        if hidden:
            self._ours_on_gpu = max(self._ours_on_gpu, self._processes.count_ours_on_gpu())
        return ours_present or (hidden and not self._numbered_as_here)

    def neighbours(self) -> tuple[str, ...]:
        """Name the neighbours as `name (pid)`, by process id."""
        named = dict(self._foreign)
        stayed = sorted(
            pid for pid, samples in self._unknown.items() if samples > 1 and pid not in named
        )
        hidden = [pid for pid in stayed if pid not in self._before]
        named |= {pid: self._processes.describe(pid) for pid in stayed if pid in self._before}
        if self._numbered_as_here:
            named |= {pid: self._processes.describe(pid) for pid in hidden}
            hidden = []
        found = tuple(named[pid] for pid in sorted(named))
        excess = len(hidden) - self._ours_on_gpu
        if excess > 0:
            found += (f"{excess} of {len(hidden)} processes outside this container",)
        return found

    def _others(self, pids: Iterable[int]) -> list[int]:
        listed = set(pids)
        self.holds_gpu_itself = self.holds_gpu_itself or self._own_pid in listed
        return sorted(listed - {self._own_pid})

    def _count(self, pid: int, owner: Owner) -> None:
        if owner is Owner.UNKNOWN:
            self._unknown[pid] += 1
            return
        if pid in self._foreign:
            return
        described = self._processes.describe(pid)
        name = described.rpartition(" (")[0]
        if name in SERVANTS:
            self.servants.add(name)
        else:
            self._foreign[pid] = described
