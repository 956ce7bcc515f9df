"""Whose process a process id is: this run's, someone else's, or nobody's that can be seen from
here.

NVML numbers processes as the driver does, which inside a container may be the host's numbering.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import psutil

from perfgate.model.order import RUN_COOKIE
from perfgate.model.tuning import tuning

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
        try:
            name = psutil.Process(pid).name() if pid > 0 else "unknown process"
        except psutil.Error:
            name = "unknown process"
        return f"{name} ({pid})"

    def count_ours_on_gpu(self) -> int:
        """Count our living processes that have a GPU's device file open."""
        return sum(
            1
            for process in psutil.process_iter()
            if opens_gpu(process.pid) is True and self._is_ours(process)
        )

    def _find_owner(self, pid: int) -> Owner:
        if pid <= 0:
            return Owner.UNKNOWN
        try:
            process = psutil.Process(pid)
        except psutil.Error:
            return Owner.UNKNOWN
        if self._is_ours(process):
            return Owner.OURS
        if opens_gpu(pid) is False or not process.is_running():
            return Owner.UNKNOWN
        return Owner.FOREIGN

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if self._run_id in process.environ().get(RUN_COOKIE, "").split(":"):
                return True
        except psutil.Error:
            pass  # another user's process hides its environment, not its parents
        try:
            return os.getpid() in {process.pid, *(parent.pid for parent in process.parents())}
        except psutil.Error:
            return False


def opens_gpu(pid: int, proc: Path = Path("/proc")) -> bool | None:
    """Say whether a process has a GPU's device file open; None where that may not be seen."""
    found = False
    try:
        for link in (proc / str(pid) / "fd").iterdir():
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
