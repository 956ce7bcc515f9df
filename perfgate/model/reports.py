"""What nsys itself says of a capture, in ns and bytes: rows of its summary reports as `nsys stats
--format csv` prints them, and what its expert rules found."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from perfgate.model.note import Note
from perfgate.model.record import Record


class ReportName(StrEnum):
    """The reports that perfgate reads, by their newest names."""

    NVTX_SUM = "nvtx_sum"
    CUDA_GPU_MEM_TIME_SUM = "cuda_gpu_mem_time_sum"
    CUDA_GPU_KERN_SUM = "cuda_gpu_kern_sum"


class TimeRow(Record):
    """What every summary says of one name."""

    time_percent: float
    total_ns: int
    count: int
    avg_ns: float
    med_ns: float
    min_ns: int
    max_ns: int
    stddev_ns: float


class NvtxRow(TimeRow):
    """One range name of `nvtx_sum`; the same name may appear once per style."""

    style: str
    range: str
    """Without the leading colon that nsys 2024.6 and newer put before the default domain."""


class MemTimeRow(TimeRow):
    """One kind of memory operation of `cuda_gpu_mem_time_sum`."""

    operation: str
    """In the newer words, without the frame: `CUDA memcpy Host-to-Device`."""


class KernelRow(TimeRow):
    """One kernel of `cuda_gpu_kern_sum`; nsys 2022.4 has a row for each of its grid and block
    sizes."""

    name: str


class Reports(Record):
    """The three summaries of one capture; an empty tuple where nsys had no such data."""

    nvtx_sum: tuple[NvtxRow, ...] = ()
    cuda_gpu_mem_time_sum: tuple[MemTimeRow, ...] = ()
    cuda_gpu_kern_sum: tuple[KernelRow, ...] = ()


class RuleName(StrEnum):
    """The expert rules that perfgate lets nsys apply, by their newest names.

    They know the calls of the runtime API only: a program of the driver API is not found out by
    them. nsys's `gpu_gaps` and `gpu_time_util` are not among them: `gap_ms` by range is the same.
    """

    CUDA_MEMCPY_ASYNC = "cuda_memcpy_async"
    """Asynchronous copies from or to pageable memory, which the CPU waits for."""
    CUDA_MEMCPY_SYNC = "cuda_memcpy_sync"
    """Copies by calls that wait, but for those within a device and host-to-device ones of up to 64
    000 bytes."""
    CUDA_MEMSET_SYNC = "cuda_memset_sync"
    """Memsets of pinned or managed memory by calls that wait."""
    CUDA_API_SYNC = "cuda_api_sync"
    """cudaDeviceSynchronize and cudaStreamSynchronize."""


class Finding(Record):
    """One row of a rule: what of it is placed."""

    rule: RuleName
    start_ns: int
    """On the capture's own clock: of the operation or the call itself."""
    duration_ns: int
    pid: int


class PlacedFindings(Record):
    """What one rule found under one innermost NVTX range, per step: the mean over the processes
    that have steps."""

    count: float
    ms: float
    """Their time: on the GPU for copies and memsets, in the call for calls."""


Placing = Mapping[tuple[RuleName, str], PlacedFindings]
"""All findings of a capture, by rule and by range, grouped as in `RangeSample.name`."""


class RuleChange(Record):
    """What one rule finds under one range, per step of a process, next to what it found on the
    other side."""

    rule: RuleName
    range: str
    before: PlacedFindings | None = None
    """None where it found nothing there, or the other side was not asked: see
    `RuleChanges.compared`."""
    now: PlacedFindings


class RuleChanges(Record):
    """What nsys's rules find in a capture, next to what they found in another."""

    rows: tuple[RuleChange, ...] = ()
    """By rule, then by time, descending."""
    compared: bool = False
    """Whether the other side was asked as well: what it has not is new then."""
    why_alone: Note | None = None
    """Why the other side was not asked; None where it was, or where nothing more is known."""
    why_not: Note | None = None
    """Why the rules were not asked; None where they were."""

    def is_new(self, row: RuleChange) -> bool:
        """Whether the other side was asked and has nothing of the kind there."""
        return self.compared and row.before is None
