"""The loop of `perfgate selftest --cpu`: it sleeps, and shows only that the path from nsys to a
verdict works."""

import time

import nvtx

from perfgate import Steps, workload

PLANTED = ""
"""Written in by the selftest: a regression is code that no commit holds."""
STEP_S = 0.02
STALL_S = 0.02


@workload(steps=20, warmup=2, budgets={"step_ms": 0.25})
def loop(steps: Steps) -> None:
    """Sleep; a busy CPU changes that least, and by far less than the budget."""
    for _ in steps:
        with nvtx.annotate("wait"):
            time.sleep(STEP_S)
        if PLANTED == "stall":
            with nvtx.annotate("stall"):
                time.sleep(STALL_S)
