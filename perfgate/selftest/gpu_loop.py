"""The GPU loop of `perfgate selftest`, with regressions to plant: copied into a project of its own,
never imported here."""

import os
import time

import nvtx
import torch

from perfgate import Steps, workload

PLANTED = ""
"""Written in by the selftest: a regression is code that no commit holds."""
SUMS = int(os.environ.get("PERFGATE_SELFTEST_SUMS", "16"))
"""Sums of large vectors a step, as many as make about 3 ms on this GPU: memory sets their pace,
which neither the power cap nor the SM clock changes."""
CYCLES = int(os.environ.get("PERFGATE_SELFTEST_CYCLES", "0"))
"""Clock cycles of the planted sleep kernel."""
NEXT_TO_NO_CYCLES = 100
"""Of the sleep kernel where none is planted, so that planting it changes no count."""
STALL_S = 0.002
NUMBERS = 1 << 26
"""Of each vector: 256 MB, far more than any cache."""


@workload(steps=30, warmup=200)
def loop(steps: Steps) -> None:
    """Copy a batch, compute, wait for the GPU: a host that stalls then stalls the GPU as well."""
    left, right, total = (torch.ones(NUMBERS, device="cuda") for _ in range(3))
    batch = torch.randn(256, 4096).pin_memory()
    for _ in steps:
        with nvtx.annotate("copy"):
            for _ in range(2 if PLANTED == "copy" else 1):
                batch.to("cuda", non_blocking=True)
        with nvtx.annotate("compute"):
            for _ in range(SUMS):
                torch.add(left, right, out=total)
            cycles = CYCLES if PLANTED == "sleep" else NEXT_TO_NO_CYCLES
            torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
        with nvtx.annotate("wait"):
            for _ in range(2 if PLANTED == "sync" else 1):
                torch.cuda.synchronize()
        if PLANTED == "stall":
            with nvtx.annotate("stall"):
                time.sleep(STALL_S)
