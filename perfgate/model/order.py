"""What the gate orders of a worker, and what the worker reports of itself: two small files in a
run's folder.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from perfgate.model.note import Note
from perfgate.model.record import Record

RUN_COOKIE: Final = "PERFGATE_RUN"
"""Environment variable that marks every process of a run, also those that leave its process group.

nsys leaves agents behind (`nsys --start-agent`, the importer) in groups and sessions of their own.
The value is one id a nesting level, joined by colons: a run inside a run is found by the cookies of
both.
"""


class Needs(Record):
    """What one run took of the machine: how many may be alive at once."""

    host_bytes: NonNegativeInt
    """Memory of its processes at most."""
    gpu_bytes: NonNegativeInt | None = None
    """Of each GPU at most; None where it was not seen, 0 where it uses none."""
    tunes: bool = False
    """Whether it chooses kernels by their times, which must not be taken next to other runs."""
    cores: NonNegativeFloat | None = None
    """CPU cores that its steps kept busy, on average; not measured in turns with another."""


class Hold(Record):
    """How a run that is started with others waits for its turn to measure, and then for their ends.

    Gate and worker have a FIFO each: each reads its own to wait, and writes to the other's.
    """

    is_early: bool
    """Whether it waits before the workload's own code; else after the warm-up."""
    own: str
    other: str


class Blocks(Record):
    """How one side of an A/B run of blocks takes its steps: some at a time, the other side waiting
    meanwhile.

    Each side has a FIFO: it reads its own to wait, and writes to the other's to hand over.
    """

    steps: int = Field(ge=2)
    """Measured steps of a block; the last one may be shorter."""
    begins: bool
    """Whether this side has the first block."""
    own: str
    other: str
    core: NonNegativeInt | None = None
    """The one core that the process is to take its steps on; None leaves it where it may run."""
    patience_s: PositiveFloat
    """How long to wait for one turn: less than a run may take, so that it is the side that hangs
    which is out of time.
    """


class Order(Record):
    """One run of one decorated workload."""

    workload: str
    steps: int | None
    """None: as many as are worth a process, by what the last warm-up turns take."""
    warmup: int
    root: str
    """The project's root; where the workload's own files lie."""
    worker_report: str
    """Where to write the `WorkerReport`."""
    blocks: Blocks | None = None
    """None where the workload runs alone."""
    hold: Hold | None = None
    """None where it waits for nobody."""


class Ending(StrEnum):
    """How a worker came to its end."""

    FINISHED = "finished"
    RAISED = "raised"
    FAILED = "failed"
    """Its loop came to its end; what came with it or after it failed: a subtest, a fixture's
    teardown."""
    EXITED = "exited"
    SKIPPED = "skipped"
    WRONG_STEPS = "wrong steps"
    DEAF = "deaf"
    """No NVTX range can reach the profiler: the nvtx package does not speak to this nsys."""
    NOT_PINNED = "not pinned"
    """It may not run on the one core that it was ordered to."""
    ABANDONED = "abandoned"
    """The other side of an A/B run of blocks ended, or kept the turn: the fault is to be looked for
    there."""


class WorkerReport(Record):
    """What a worker reports of its run. A worker that was killed reports nothing."""

    ending: Ending
    why: Note | None = None
    """Why it did not end well."""
    turns: int = 0
    pid: int
    torch: str | None = None
    cuda: str | None = None
    nvtx: str | None = None
    needs: Needs | None = None
    """None where the loop did not come to its end."""
