"""When a timeline and nsys's own reports of the same capture contradict each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.timelines import Op, Range, build

from perfgate.metrics.check import contradictions
from perfgate.model.note import Severity, note
from perfgate.model.reports import Reports
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
    kern = {**TIMES, "total_ns": kernel_ns, "count": kernels, "name": "k"}
    mem = {**TIMES, "total_ns": 16, "count": memory, "operation": "CUDA memset"}
    nvtx = {**TIMES, "total_ns": 36, "count": ranges, "style": "PushPop", "range": "loader:load"}
    rows = {"cuda_gpu_kern_sum": [kern], "cuda_gpu_mem_time_sum": [mem], "nvtx_sum": [nvtx]}
    return Reports.model_validate(rows)


def test_two_readings_that_agree_say_nothing() -> None:
    assert contradictions(capture(), reports()) == ()
    assert (
        contradictions(
            build(ranges=[Range(start=0, end=1)]), Reports(nvtx_sum=reports(ranges=1).nvtx_sum)
        )
        == ()
    )


@pytest.mark.parametrize(
    ("theirs", "apart"),
    [
        (reports(kernels=1), ("cuda_gpu_kern_sum", 1, 2)),
        (reports(kernel_ns=31), ("cuda_gpu_kern_sum", 31, 30)),
        (reports(memory=5), ("cuda_gpu_mem_time_sum", 5, 4)),
        (reports(ranges=8), ("nvtx_sum", 8, 4)),
        (reports(ranges=3), ("nvtx_sum", 3, 4)),
    ],
)
def test_each_report_is_compared_exactly(theirs: Reports, apart: tuple[str, int, int]) -> None:
    (found,) = contradictions(capture(), theirs)
    assert (found.code, found.severity) == ("reports-contradict", Severity.INVALID)
    assert tuple(found.fields[name] for name in ("report", "theirs", "ours")) == apart


def test_a_range_may_be_counted_once_for_each_thread_that_created_its_domain() -> None:
    repeated = replace(capture(), ranges_repeated=6)
    assert contradictions(repeated, reports(ranges=10)) == ()
    assert contradictions(repeated, reports(ranges=4)) == ()
    for wrong in (3, 5, 9, 11):
        assert len(contradictions(repeated, reports(ranges=wrong))) == 1


def test_copies_that_cupti_merged_may_be_counted_as_one_or_as_what_they_are() -> None:
    plain = capture()
    merged = replace(plain, copies=replace(plain.copies, count=np.array([1, 8, 2])))
    assert contradictions(merged, reports(memory=4)) == ()
    assert contradictions(merged, reports(memory=12)) == ()
    assert len(contradictions(merged, reports(memory=11))) == 1


def test_what_nsys_says_that_it_lost_comes_last() -> None:
    lacking = replace(capture(), missing={"records": note("x"), "devices": note("y")})
    found = contradictions(lacking, reports(kernels=1))
    assert [one.code for one in found] == ["reports-contradict", "x"]
    assert {one.severity for one in found} == {Severity.INVALID}
