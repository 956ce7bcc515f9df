"""Measures this GPU for the selftest, in a process of its own: `python -m perfgate.selftest.probe
FILE`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch

WARM_UP_S: Final = 1.0
"""A GPU that was idle takes a while to raise its clock."""
NUMBERS: Final = 1 << 26
"""Of each vector, as in the loop."""
CYCLES: Final = 20_000_000
"""About 10 ms at 2 GHz."""


def measured() -> dict[str, float]:
    """Return the time of one of the loop's sums, and the clock cycles of 1 ms, both while the GPU
    works."""
    left, right, total = (torch.ones(NUMBERS, device="cuda") for _ in range(3))

    def add() -> None:
        torch.add(left, right, out=total)

    def sleep() -> None:
        torch.cuda._sleep(CYCLES)  # type: ignore[no-untyped-call]

    until = time.monotonic() + WARM_UP_S
    while time.monotonic() < until:
        _milliseconds(add, times=20)
    sleep_ms = _milliseconds(sleep, times=3)
    return {"sum_ms": _milliseconds(add, times=100), "cycles_per_ms": CYCLES / sleep_ms}


def _milliseconds(work: Callable[[], None], *, times: int) -> float:
    """The mean time of one of so many calls on the GPU, ms."""
    make = torch.cuda.Event
    start, end = (make(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(times):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / times


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(measured()), encoding="utf-8")
