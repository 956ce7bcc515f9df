"""What a run took of the machine, by which a later gate knows how many may be alive at once."""

from __future__ import annotations

import gc
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final

from perfgate.execute.worker.busy import family
from perfgate.model.order import Needs

CONTEXT_BYTES: Final = 1 << 30
"""Of a GPU's memory what a CUDA context takes with its libraries, beyond what torch knows of."""


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
    with suppress(OSError, StopIteration):
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
