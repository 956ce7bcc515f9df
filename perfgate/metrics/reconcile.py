"""Holds the timeline against nsys's own reports of the same capture: both must agree."""

from __future__ import annotations

from collections.abc import Iterable

from perfgate.model.note import Note, Severity, note
from perfgate.model.reports import ReportName, Reports, TimeRow
from perfgate.model.timeline import Timeline


def contradictions(timeline: Timeline, reports: Reports) -> tuple[Note, ...]:
    """Name each report whose number of instances or total time is not the timeline's.

    Compared exactly: kernels with `cuda_gpu_kern_sum`, copies and memsets with
    `cuda_gpu_mem_time_sum`, ranges with `nvtx_sum`, in instances, and kernels in total ns. A report
    that nsys skipped agrees with an empty timeline only.

    - nsys's script counts a range once for each thread that created its domain. That is no
      contradiction, nor would it be if a version of nsys no longer did.
    - Copies that CUPTI merged into one row may be counted as one or as what they are.

    What nsys itself says that it lost comes last: both readings would agree on the rest.
    """
    kernels, copies, repeated = timeline.kernels, timeline.copies, timeline.ranges_repeated
    memsets, ranges = len(timeline.memsets.start), len(timeline.ranges.start)
    kern, mem, nvtx = reports.cuda_gpu_kern_sum, reports.cuda_gpu_mem_time_sum, reports.nvtx_sum
    in_mem = (len(copies.start) + memsets, int(copies.count.sum()) + memsets)
    kernel_ns = int((kernels.end - kernels.start).sum())
    compared = (
        (ReportName.CUDA_GPU_KERN_SUM, "kernels", _instances(kern), (len(kernels.start),)),
        (
            ReportName.CUDA_GPU_KERN_SUM,
            "ns of kernel time",
            sum(row.total_ns for row in kern),
            (kernel_ns,),
        ),
        (ReportName.CUDA_GPU_MEM_TIME_SUM, "copies and memsets", _instances(mem), in_mem),
        (ReportName.NVTX_SUM, "ranges", _instances(nvtx), (ranges, ranges + repeated)),
    )
    apart = [
        note(
            "reports-contradict",
            Severity.INVALID,
            report=report.value,
            what=what,
            theirs=theirs,
            ours=ours[0],
        )
        for report, what, theirs, ours in compared
        if theirs not in ours
    ]
    if lost := timeline.missing.get("records"):
        apart.append(lost.model_copy(update={"severity": Severity.INVALID}))
    return tuple(apart)


def _instances(rows: Iterable[TimeRow]) -> int:
    return sum(row.count for row in rows)
