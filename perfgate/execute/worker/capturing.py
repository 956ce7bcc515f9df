"""What opens and closes the capture around the measured steps: the CUDA profiler API, where there
is one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, kw_only=True)
class CaptureRange:
    """Starts and stops nsys's capture through the CUDA profiler API, and waits for the GPU."""

    name: str | None
    synchronise: Callable[[], None]
    start: Callable[[], object]
    stop: Callable[[], object]


def choose_capture(*, torch: ModuleType | None) -> CaptureRange:
    """Pick the CUDA profiler API of torch, else of the driver library, else none."""
    if torch is not None and torch.cuda.is_available():
        runtime = torch.cuda.cudart()
        return CaptureRange(
            name="torch",
            synchronise=lambda: _synchronise_torch(torch),
            start=runtime.cudaProfilerStart,
            stop=runtime.cudaProfilerStop,
        )
    driver = _driver_library()
    if driver is not None:
        return CaptureRange(
            name="libcuda",
            synchronise=driver.cuCtxSynchronize,
            start=driver.cuProfilerStart,
            stop=driver.cuProfilerStop,
        )
    return CaptureRange(name=None, synchronise=_nothing, start=_nothing, stop=_nothing)


def start_cuda(torch: ModuleType | None) -> None:
    """Make the context of the first GPU, as the first use of it would: before anybody measures."""
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize(0)


def _nothing() -> None:
    """Do nothing, where there is no CUDA profiler API."""


def _synchronise_torch(torch: ModuleType) -> None:
    # torch.cuda.synchronize creates a context on a device that has none: minutes of start-up on an
    # 8-GPU host.
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", lambda _device: True)
    for device in range(torch.cuda.device_count()):
        if has_context(device):
            torch.cuda.synchronize(device)


def _driver_library() -> ctypes.CDLL | None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None
