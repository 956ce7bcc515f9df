"""Rows of nsys's own summary reports, as `nsys stats --format csv` prints them, in ns and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

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
    """The three summaries of one capture; an empty tuple where `skipped` says that nsys had no such
    data."""

    nvtx_sum: tuple[NvtxRow, ...] = ()
    cuda_gpu_mem_time_sum: tuple[MemTimeRow, ...] = ()
    cuda_gpu_kern_sum: tuple[KernelRow, ...] = ()
    skipped: Mapping[ReportName, str] = {}
    """Reports that nsys skipped, with its own reason."""
