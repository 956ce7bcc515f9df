"""When a timeline and nsys's own reports of the same capture contradict each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.timelines import Op, Range, build

from perfgate.metrics.reconcile import contradictions
from perfgate.model.note import note
from perfgate.model.reports import KernelRow, MemTimeRow, NvtxRow, Reports
from perfgate.model.timeline import Timeline

TIMES = {
    "time_percent": 100.0,
    "avg_ns": 0.0,
    "med_ns": 0.0,
    "min_ns": 0,
    "max_ns": 0,
    "stddev_ns": 0.0,
}


def capture() -> Timeline:
    """Two kernels of 30 ns together, three copies, a memset and four ranges."""
    return build(
        kernels=[Op(start=0, end=10), Op(start=20, end=40)],
        copies=[Op(start=start, end=start + 5) for start in (0, 50, 60)],
        memsets=[Op(start=70, end=71)],
        ranges=[Range(start=start, end=start + 9) for start in (0, 10, 20, 30)],
    )


def reports(*, kernels: int = 2, kernel_ns: int = 30, memory: int = 4, ranges: int = 4) -> Reports:
    return Reports(
        cuda_gpu_kern_sum=(
            KernelRow.model_validate(
                {**TIMES, "total_ns": kernel_ns, "count": kernels, "name": "k"}
            ),
        ),
        cuda_gpu_mem_time_sum=(
            MemTimeRow.model_validate(
                {**TIMES, "total_ns": 16, "count": memory, "operation": "CUDA memset"}
            ),
        ),
        nvtx_sum=(
            NvtxRow.model_validate(
                {
                    **TIMES,
                    "total_ns": 36,
                    "count": ranges,
                    "style": "PushPop",
                    "range": "loader:load",
                }
            ),
        ),
    )


def test_two_readings_that_agree_say_nothing() -> None:
    assert contradictions(capture(), reports()) == ()
    assert (
        contradictions(
            build(ranges=[Range(start=0, end=1)]), Reports(nvtx_sum=reports(ranges=1).nvtx_sum)
        )
        == ()
    )


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        (reports(kernels=1), "nsys's cuda_gpu_kern_sum says 1 kernel, its export 2"),
        (
            reports(kernel_ns=31),
            "nsys's cuda_gpu_kern_sum says 31 ns of kernel time, its export 30",
        ),
        (reports(memory=5), "nsys's cuda_gpu_mem_time_sum says 5 copies and memsets, its export 4"),
        (reports(ranges=8), "nsys's nvtx_sum says 8 ranges, its export 4"),
        (reports(ranges=3), "nsys's nvtx_sum says 3 ranges, its export 4"),
    ],
)
def test_each_report_is_compared_exactly(theirs: Reports, told: str) -> None:
    assert contradictions(capture(), theirs) == (told,)


def test_a_range_may_be_counted_once_for_each_thread_that_created_its_domain() -> None:
    repeated = replace(capture(), ranges_repeated=6)
    assert contradictions(repeated, reports(ranges=10)) == ()
    assert contradictions(repeated, reports(ranges=4)) == ()
    for wrong in (3, 5, 9, 11):
        assert contradictions(repeated, reports(ranges=wrong)) == (
            f"nsys's nvtx_sum says {wrong} ranges, its export 4",
        )


def test_copies_that_cupti_merged_may_be_counted_as_one_or_as_what_they_are() -> None:
    plain = capture()
    merged = replace(plain, copies=replace(plain.copies, count=np.array([1, 8, 2])))
    assert contradictions(merged, reports(memory=4)) == ()
    assert contradictions(merged, reports(memory=12)) == ()
    assert contradictions(merged, reports(memory=11)) == (
        "nsys's cuda_gpu_mem_time_sum says 11 copies and memsets, its export 4",
    )


def test_what_nsys_says_that_it_lost_is_told_last() -> None:
    lost = 'nsys lost GPU operations or calls: "CUPTI dropped 7 records. Some CUPTI events might be missing"'
    lacking = replace(capture(), missing={"records": note("quoted", text=lost)})
    assert contradictions(lacking, reports()) == (lost,)
    assert contradictions(lacking, reports(kernels=1)) == (
        "nsys's cuda_gpu_kern_sum says 1 kernel, its export 2",
        lost,
    )
