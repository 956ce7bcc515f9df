"""What the gate orders of a worker, and what the worker tells of itself: two small files in a run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from perfgate.model.record import Record


class Order(Record):
    """One run of one decorated workload."""

    workload: str
    steps: int
    warmup: int
    root: str
    """The project's root; files below it that the workload loads are told in the account."""
    account: str
    """Where to write the `Account`."""


class Ending(StrEnum):
    """How a worker came to its end."""

    FINISHED = "finished"
    RAISED = "raised"
    EXITED = "exited"
    SKIPPED = "skipped"
    WRONG_STEPS = "wrong steps"
    DEAF = "deaf"
    """No NVTX range can reach the profiler: the nvtx package does not speak to this nsys."""


class Account(Record):
    """What a worker tells of its run. A worker that was killed tells nothing."""

    ending: Ending
    message: str = ""
    exit_status: int | None = None
    turns: int = 0
    pid: int
    torch: str | None = None
    cuda: str | None = None
    nvtx: str | None = None
    marked_by: str | None = None
    """`torch.cuda.nvtx` or `nvtx`: what drew the step ranges."""
    captured_by: str | None = None
    """`torch`, `libcuda`, or None where no CUDA profiler API exists."""
    code: Mapping[str, str] = {}
    """SHA-256 by path (POSIX, relative to the root) of the project's files that were loaded."""
