"""What marks the steps of a worker: NVTX ranges, by torch or by the nvtx package."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from perfgate.execute.worker.endings import Unmarked


@dataclass(frozen=True)
class Marker:
    """Opens and closes NVTX ranges on the calling thread."""

    push: Callable[[str], object]
    pop: Callable[[], object]


def choose_marker(*, torch: ModuleType | None, nvtx: ModuleType | None, profiled: bool) -> Marker:
    """Pick what draws the step ranges.

    Raises:
        Unmarked: only the nvtx package is there, and it does not speak to the nsys around this
        process: since 0.2.12 it
            asks for an NVTX extension that nsys up to 2024.2 refuses, and then silently draws
            nothing.
    """
    if torch is not None and torch.cuda.is_available():
        by_torch = torch.cuda.nvtx  # every nsys hears it
        return Marker(by_torch.range_push, by_torch.range_pop)
    if nvtx is None:
        raise Unmarked("no-nvtx")
    if profiled and type(nvtx.get_domain(None)).__name__ == "DummyDomain":
        raise Unmarked("nvtx-unheard", version=nvtx_version())
    return Marker(nvtx.push_range, nvtx.pop_range)


def nvtx_version() -> str | None:
    """The installed version of the nvtx package, None where it is not installed."""
    try:
        return version("nvtx")
    except PackageNotFoundError:
        return None


def profiled(environment: Mapping[str, str]) -> bool:
    """Whether nsys is around this process: it sets one of these for every process it starts."""
    return "NSYS_PROFILING_SESSION_ID" in environment or "NVTX_INJECTION64_PATH" in environment


def import_nvtx() -> ModuleType | None:
    """The nvtx package, None where it cannot be imported."""
    try:
        return importlib.import_module("nvtx")
    except ImportError:
        return None
