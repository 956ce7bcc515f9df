"""What one run measured: values per step, by process, device, range and kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, TypeVar

from pydantic import Field, NonNegativeInt

from perfgate.model.machine import Conditions, gpu_title
from perfgate.model.metric import METRICS, WAITS, Kind, Metric, Values
from perfgate.model.note import Note, NoteOrText, Notes, Severity, Worded, note
from perfgate.model.order import Needs
from perfgate.model.record import Record

OUTSIDE_RANGES = "(no range)"
"""The row of operations launched, and of idle time passed, under no NVTX range of the step's
thread."""
UNNAMED = "(a range without a name)"
"""How a range with an empty name is shown."""
OTHER_RANGES = "(other ranges)"
OTHER_KERNELS = "(other kernels)"
OTHER_SYNCS = "(other calls)"
"""The rows that the smaller ones are folded into, so that all rows add up to the whole."""
WHOLE_GRAPHS = "CUDA graph"
"""The row of the CUDA graphs that were traced whole: nsys has no word for them in its summaries."""
NO_NCCL: Final = note("no-nccl")
"""Why NCCL's time metrics are absent where it is known that they would be 0."""
MEMSETS = "CUDA memset"
"""The row of the memsets, in nsys's words."""


ON_GPU: Final = (
    Metric.KERNEL_MS,
    Metric.NCCL_MS,
    Metric.H2D_MS,
    Metric.MEM_EXPOSED_MS,
    Metric.GAP_MS,
)
"""What a range's time on the GPU is, idle time with it."""
OLD_KEYS: Final = dict.fromkeys(("complaints", "remarks"), "notes")
"""Where older files have words alone."""


class RangeSample(Record):
    """What happened, per step, under one NVTX range name: innermost, so that rows add up to the
    step."""

    name: str
    count: float
    """Instances per step."""
    cpu_ms: float
    """Time between push and pop, children included."""
    values: Values = {}
    """All that were measured, step_ms only of steps that use no GPU, where it is the range's own
    time on the CPU in those of about median length, as step_mean_ms is in all.

    In older baselines without that, and without what nothing hides: it is unknown there.
    """

    @property
    def gpu_ms(self) -> float:
        """Of kernels, copies and idle GPU under it."""
        return sum(self.values.get(metric, 0.0) for metric in ON_GPU)

    @property
    def size_ms(self) -> float:
        """What it is ranked by: its time on the CPU, or that on the GPU."""
        return max(self.cpu_ms, self.gpu_ms)


class KernelSample(Record):
    """What one kernel, or one kind of copy or memset, did per step."""

    name: str
    count: float
    gpu_ms: float
    kind: Literal["kernel", "nccl", "memory"] = "kernel"
    """NCCL's kernels are no part of kernel_ms; `memory` are copies and memsets."""


class CopySample(Record):
    """What the copies of one kind did per step."""

    direction: str
    """In nsys's words: `Host-to-Device`."""
    host: str | None = None
    """The memory at the host's end: `pageable`, `pinned`, `managed`, `unknown`; None where neither
    end is the host."""
    count: float
    bytes: float
    gpu_ms: float


class SyncSample(Record):
    """What one call that makes the CPU wait for the GPU did per step, under one innermost range."""

    call: str
    range: str
    count: float
    cpu_ms: float
    """Time in the call."""


Row = TypeVar("Row", bound=Record)
"""A row of one of the tables of a breakdown."""


def combined(rows: Sequence[Row], over: Callable[[Sequence[float]], float], **names: str) -> Row:
    """Several rows as one: each of its numbers over theirs, and other names."""
    update: dict[str, object] = {**names}
    for name, value in rows[0]:
        if isinstance(value, float):
            update[name] = over([getattr(row, name) for row in rows])
        elif isinstance(value, Mapping):
            by_metric = [getattr(row, name) for row in rows]
            metrics = dict.fromkeys(metric for values in by_metric for metric in values)
            update[name] = {
                metric: over([values.get(metric, 0.0) for values in by_metric])
                for metric in metrics
            }
    return rows[0].model_copy(update=update)


def folded(
    rows: Sequence[Row], size: Callable[[Row], float], most: int, **other: str
) -> tuple[Row, ...]:
    """The largest named rows, and one for all others if there are any."""
    ordered = sorted(rows, key=size, reverse=True)
    others = [row for row in ordered if all(getattr(row, at) == name for at, name in other.items())]
    named = [row for row in ordered if row not in others]
    rest = [*named[most:], *others]
    return (*named[:most], *((combined(rest, sum, **other),) if rest else ()))


class Breakdown(Record):
    """What the metrics of one process, or of the same process of several runs, are made of; all per
    step."""

    ranges: tuple[RangeSample, ...] = ()
    kernels: tuple[KernelSample, ...] = ()
    copies: tuple[CopySample, ...] = ()
    syncs: tuple[SyncSample, ...] = ()


class DeviceSample(Record):
    """What one GPU did per step."""

    device: int
    """nsys's number of it."""
    ordinal: int | None = None
    """CUDA's number of it in the process, as in `cuda:0`; None where that would not tell it from
    another process's."""
    uuid: str | None = None
    bus: str | None = None
    name: str | None = None
    values: Values = {}

    @property
    def title(self) -> str:
        """What it is called."""
        return gpu_title(self.device, self.ordinal, self.uuid, self.bus)


class BlockSample(Record):
    """What one side of an A/B run of blocks took, per step, between two waits for the other
    side.
    """

    number: NonNegativeInt
    """Counted from 0 on each side; one too short to hold a period is left out."""
    step_ms: float
    """Mean period, each capped at 1.2 medians; the median in results of before it was so."""
    mean_ms: float | None = None
    """Mean period; None in results of before it was kept."""
    gap_ms: float | None = None
    """Mean of its periods; None where the process has none."""


class ProcessSample(Breakdown, Worded):
    """What one process of a run measured: each rank of a job has its own steps."""

    pid: int
    rank: int | None = None
    steps: NonNegativeInt
    """Steps found in the capture and used; 0 where the whole captured window was measured as one.
    """
    step_names: Mapping[str, float] = {}
    """What share of the steps bears each name, 0-1, numbers as `#`; none where a whole window was
    measured."""
    step_ranges: NonNegativeInt | None = None
    """Ranges of the capture that are steps by their pattern, used or not; None without a pattern.
    """
    values: Values
    """What could be measured. A metric that could not is absent here and in `absent`, never zero.
    """
    absent: Mapping[Metric, NoteOrText] = {}
    """Why a metric could not be measured."""
    window_ms: float
    """Length of the window that gaps were taken over."""
    nvtx_step_ms: float | None = None
    """Median CPU duration of the step range, as `nvtx_sum` has it; below step_ms where the CPU runs
    ahead."""
    memory_share_h2d: float | None = None
    """Host-to-device's share of all memory operation time, 0-1, as `cuda_gpu_mem_time_sum` prints
    it."""
    periods_ms: tuple[float, ...] = ()
    blocks: tuple[BlockSample, ...] = Field(default=(), validation_alias="bouts")
    """Of an A/B run of blocks; none where the process was not made to wait."""
    devices: tuple[DeviceSample, ...] = ()
    notes: Notes = ()
    """INVALID ones first: first-time work at the window's start, steps that may be another's."""

    NOTES_OF = OLD_KEYS

    @property
    def gpus(self) -> int:
        """Over how many GPUs its waiting is a mean: those whose idle time counts, or all where that
        was not kept."""
        return sum(Metric.GAP_MS in device.values for device in self.devices) or len(self.devices)


class Form(StrEnum):
    """How a run was made; CUDA graphs take different times in different forms."""

    ALONE = "alone"
    """No other run was alive."""
    PAIR = "pair"
    """One after another with a run of another commit, each alone in its time."""
    BLOCK = "block"
    """Alive with a run of another commit, a few steps of each in turn."""
    EARLY = "early"
    """Started with other runs, and held before the workload's own code, so that only one of them
    builds and measures at any time; those that are through stay alive."""
    LATE = "late"
    """Started with other runs, and held after its warm-up."""


class Run(Worded):
    """One run: one fresh start of the workload, with the processes in which steps were found."""

    started_at: datetime
    wall_s: float
    processes: tuple[ProcessSample, ...]
    conditions: Conditions = Conditions()
    form: Form | None = None
    """None where it was not noted."""
    needs: Needs | None = None
    """None where it was not noted, as of a script."""
    begins: bool | None = None
    """Of an A/B run of blocks: whether this side had the first block; None of a run alone."""
    folder: str | None = None
    """Where the run's captures and logs lie, relative to the kept result."""
    notes: Notes = ()
    """Those of its processes, each once, and those of the run itself: steps lost, reports that
    contradict the capture.
    """

    NOTES_OF = OLD_KEYS

    @property
    def invalid(self) -> Notes:
        """What makes it INVALID besides its conditions."""
        return tuple(one for one in self.notes if one.severity is Severity.INVALID)

    def value(self, metric: Metric) -> float | None:
        """The worst value over the run's processes; None if any of them could not measure it.

        Of time that holds waiting for other processes it is the least: the one that comes last
        waits for none. One that never waits, because it runs no NCCL kernels where others do, does
        not tell.
        """
        processes: Sequence[ProcessSample] = self.processes
        worst = max
        if metric in WAITS:
            # Those that run NCCL kernels in their steps, for all that is known.
            waiting = [
                one
                for one in processes
                if one.values.get(Metric.NCCL_MS) != 0 and one.absent.get(Metric.NCCL_MS) != NO_NCCL
            ]
            processes = waiting or processes
            worst = min
        values = [process.values.get(metric) for process in processes]
        known = [value for value in values if value is not None]
        return worst(known) if known and len(known) == len(values) else None

    def measured(self) -> dict[Metric, float]:
        """Every metric that all processes measured, in the table's order."""
        return {metric: value for metric in METRICS if (value := self.value(metric)) is not None}

    def counts(self) -> dict[Metric, float]:
        """The measured counts."""
        return {
            metric: value
            for metric, value in self.measured().items()
            if METRICS[metric].kind is Kind.COUNT
        }


def why_absent(runs: Iterable[Run], metric: Metric) -> Note | None:
    """Why a metric is missing, from the first process that says so."""
    return next(
        (p.absent[metric] for run in runs for p in run.processes if metric in p.absent), None
    )


def missing_in(runs: Sequence[Run], metric: Metric) -> Note:
    """Say in how many runs a metric is missing, and why."""
    without = [run for run in runs if run.value(metric) is None]
    why = why_absent(without, metric)
    because = None if why is None else note("because", what=why)
    return note("missing-in-runs", without=len(without), runs=len(runs), why=because)
