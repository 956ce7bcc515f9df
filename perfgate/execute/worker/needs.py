"""What a run took of the machine, by which a later gate knows how many may be alive at once."""

from __future__ import annotations

import resource
import sys
from types import ModuleType
from typing import Final

from perfgate.model.order import Needs

CONTEXT_BYTES: Final = 1 << 30
"""Of a GPU's memory what a CUDA context takes with its libraries, beyond what torch knows of."""


def needs_of(torch: ModuleType | None, *, has_gpu: bool) -> Needs:
    """What this process and its children have taken so far."""
    on_gpu: int | None = None if has_gpu else 0
    if has_gpu and torch is not None and torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        on_gpu = CONTEXT_BYTES + max(map(torch.cuda.max_memory_reserved, devices))
    kilobytes = sum(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return Needs(host_bytes=1024 * kilobytes, gpu_bytes=on_gpu, tunes=_tunes(torch))


def _tunes(torch: ModuleType | None) -> bool:
    """Whether kernels were chosen by their times: by cuDNN, or by Triton's or inductor's tuning."""
    cudnn = getattr(getattr(torch, "backends", None), "cudnn", None)
    return bool(getattr(cudnn, "benchmark", False)) or "triton" in sys.modules
