"""What a run takes of the machine: how many CPU cores its measured steps keep busy, and what it has
taken of memory, by which a later gate knows how many may be alive at once."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from perfgate.model.order import Needs

CONTEXT_BYTES: Final = 1 << 30
"""Of a GPU's memory what a CUDA context takes with its libraries, beyond what torch knows of."""


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
    for thread in threads(family() - {os.getpid()}):
        with contextlib.suppress(OSError, ValueError, IndexError):
            used_ns += int((thread / "schedstat").read_text().split()[0])
    return used_ns


def threads(processes: Collection[int]) -> Iterator[Path]:
    """The folders in /proc of the threads of some processes; what ends meanwhile is passed over."""
    for process in processes:
        with contextlib.suppress(OSError):
            yield from Path(f"/proc/{process}/task").iterdir()


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


def needs_of(torch: ModuleType | None, *, has_gpu: bool, cores: float | None) -> Needs:
    """What this process and its children have taken so far; its steps kept `cores` busy."""
    on_gpu: int | None = None if has_gpu else 0
    if has_gpu and torch is not None and torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        on_gpu = CONTEXT_BYTES + max(map(torch.cuda.max_memory_reserved, devices))
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, ended = (1024 * one.ru_maxrss for one in usage)
    host_bytes = own + max(ended, sum(map(_taken_by, family() - {os.getpid()})))
    return Needs(host_bytes=host_bytes, gpu_bytes=on_gpu, tunes=_tunes(torch), cores=cores)


def _taken_by(pid: int) -> int:
    """Bytes of memory that a process takes: its own, and its share of what it shares."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return 0


def _tunes(torch: ModuleType | None) -> bool:
    """Whether kernels were chosen by their times: by cuDNN, by inductor's or by Triton's tuning.

    That Triton is loaded says nothing: torch's optimizers do that.
    """
    cudnn = getattr(getattr(torch, "backends", None), "cudnn", None)
    compiled = any(name.endswith(".triton_heuristics") for name in sys.modules)
    return bool(getattr(cudnn, "benchmark", False)) or compiled or _has_autotuned()


def _has_autotuned() -> bool:
    tuner = getattr(sys.modules.get("triton.runtime.autotuner"), "Autotuner", None)
    if tuner is None:
        return False
    return any(type(one) is tuner and one.cache for one in gc.get_objects())
