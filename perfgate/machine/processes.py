"""Whose process a process id is, who else was on one GPU during a run, and what processes take.

NVML numbers processes as the driver does, which inside a container may be the host's numbering:

before the run   |  during the run
pid 11 ----------------------------->   neighbour: none of ours runs yet
                 |    pid 40 ------->   ours by cookie or descent: the driver's numbers are ours
                 |    pid 51 ------->   exists here and is not ours: neighbour
                 |  pid 90210 ------>   exists nowhere here: see `NeighbourWatch`
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import psutil

from perfgate.model.machine import tuning
from perfgate.model.order import RUN_COOKIE
from perfgate.system.ending import marks_of, processes_of

GPU_FILES: Final = ("/dev/nvidia", "/dev/dxg")
"""What a process with a CUDA context keeps open; the second under WSL."""


RANK_VARIABLES: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Where torchrun, Open MPI, PMIx, MPICH and Slurm tell a process its rank, the launcher nearest to
it first."""
LOOK_S: Final = 0.5
"""How often a run's processes are looked at for their ranks."""


class Owner(StrEnum):
    """Whose a process id is."""

    OURS = "ours"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"
    """No process here has this number, or the one that has it does not use a GPU: the number is
    another namespace's."""


class ProcessTable:
    """The processes of this machine. Ours are those with the run's cookie, and this process with
    its descendants."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._known: dict[int, Owner] = {}

    def owner(self, pid: int) -> Owner:
        """Say whose `pid` is; an answer is remembered, since a process cannot change sides."""
        if pid not in self._known:
            found = self._find_owner(pid)
            if found is Owner.UNKNOWN:
                return found  # a number that means nothing yet may be taken by one of ours
            self._known[pid] = found
        return self._known[pid]

    def describe(self, pid: int) -> str:
        """Return `name (pid)`; `unknown process (pid)` where the name cannot be had."""
        name = "unknown process"
        with suppress(psutil.Error, ValueError):
            name = psutil.Process(pid).name()
        return f"{name} ({pid})"

    def count_ours_on_gpu(self) -> int:
        """Count our living processes that have a GPU's device file open."""
        return sum(
            1
            for process in psutil.process_iter()
            if opens_gpu(process.pid) is True and self._is_ours(process)
        )

    def _find_owner(self, pid: int) -> Owner:
        try:
            process = psutil.Process(pid)
        except (psutil.Error, ValueError):
            return Owner.UNKNOWN
        if self._is_ours(process):
            return Owner.OURS
        if opens_gpu(pid) is False or not process.is_running():
            return Owner.UNKNOWN
        return Owner.FOREIGN

    def _is_ours(self, process: psutil.Process) -> bool:
        if self._run_id in marks_of(process.pid):
            return True
        try:  # another user's process hides its environment, not its parents
            return os.getpid() in {process.pid, *(parent.pid for parent in process.parents())}
        except psutil.Error:
            return False


def opens_gpu(pid: int) -> bool | None:
    """Say whether a process has a GPU's device file open; None where that may not be seen."""
    found = False
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed while we looked
                found = found or str(link.readlink()).startswith(GPU_FILES)
    except OSError:
        return None
    return found


class RankWatch:
    """The ranks of a run's processes by process id, read from their environments while they
    live.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._foreign: set[int] = set()
        self._next_look = 0.0
        self.ranks: dict[int, int] = {}
        self.tuning: dict[int, dict[str, str]] = {}
        """What of their environments may change how fast they are, by process id."""

    def look(self) -> None:
        """Look at our processes, unless the last look was less than `LOOK_S` seconds ago."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_S
        for pid in psutil.pids():
            if pid in self._foreign:
                continue
            try:
                env = psutil.Process(pid).environ()
            except (psutil.Error, OSError):
                continue
            if self._run_id not in env.get(RUN_COOKIE, "").split(":"):
                self._foreign.add(pid)
                continue
            # Read anew each time: a launcher's child bears its parent's environment until it
            # becomes another program.
            self.tuning[pid] = tuning(env)
            rank = next(
                (env[name] for name in RANK_VARIABLES if env.get(name, "").isdecimal()), None
            )
            if rank is not None:
                self.ranks[pid] = int(rank)


GROUP: Final = Path("/sys/fs/cgroup")
"""Where a container reads its own limits."""


def cpu_s_of(mark: str, *, but: Collection[str] = ()) -> dict[int, float]:
    """CPU time of the living processes that bear a mark, but for those that bear one of some
    others, by process id, s."""
    found: dict[int, float] = {}
    for process in processes_of(mark):
        with suppress(psutil.Error):
            if not marks_of(process.pid).isdisjoint(but):
                continue
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
        stayed = {pid for pid, samples in self._unknown.items() if samples > 1} - {*self._foreign}
        hidden = set() if self._numbered_as_here else stayed - self._before
        named = self._foreign | {pid: self._processes.describe(pid) for pid in stayed - hidden}
        found = tuple(named[pid] for pid in sorted(named))
        excess = len(hidden) - self._ours_on_gpu
        if excess > 0:
            found += (f"{excess} of {len(hidden)} processes outside this container",)
        return found

    def _others(self, pids: Iterable[int]) -> list[int]:
        return sorted({*pids} - {self._own_pid})

    def _count(self, pid: int, owner: Owner) -> None:
        if owner is Owner.UNKNOWN:
            self._unknown[pid] += 1
            return
        if pid not in self._foreign:
            self._foreign[pid] = self._processes.describe(pid)
