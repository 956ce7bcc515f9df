"""Holds the timeline against nsys's own reports of the same capture: two readings that must agree."""

from __future__ import annotations

from perfgate.model.reports import ReportName, Reports
from perfgate.model.timeline import Timeline
from perfgate.model.words import plural
from perfgate.words import say


def contradictions(timeline: Timeline, reports: Reports) -> tuple[str, ...]:
    """Name each report whose number of rows' instances or total time is not the timeline's; empty if all agree.

    Compared exactly: kernels with `cuda_gpu_kern_sum`, copies and memsets with `cuda_gpu_mem_time_sum`, ranges with
    `nvtx_sum`, in instances, and kernels in total ns. A report that nsys skipped agrees with an empty timeline only.

    - nsys's script counts a range once for each thread that created its domain. That is no contradiction, nor would
      it be if a version of nsys no longer did.
    - Copies that CUPTI merged into one row may be counted as one or as what they are.

    What nsys itself says that it lost comes last: both readings would agree on the rest.
    """
    kernels, copies = timeline.kernels, timeline.copies
    memsets, ranges = len(timeline.memsets.start), len(timeline.ranges.start)
    told = (
        (
            ReportName.CUDA_GPU_KERN_SUM,
            ("kernel", "kernels"),
            sum(row.count for row in reports.cuda_gpu_kern_sum),
            (len(kernels.start),),
        ),
        (
            ReportName.CUDA_GPU_KERN_SUM,
            ("ns of kernel time", "ns of kernel time"),
            sum(row.total_ns for row in reports.cuda_gpu_kern_sum),
            (int((kernels.end - kernels.start).sum()),),
        ),
        (
            ReportName.CUDA_GPU_MEM_TIME_SUM,
            ("copy or memset", "copies and memsets"),
            sum(row.count for row in reports.cuda_gpu_mem_time_sum),
            (len(copies.start) + memsets, int(copies.count.sum()) + memsets),
        ),
        (
            ReportName.NVTX_SUM,
            ("range", "ranges"),
            sum(row.count for row in reports.nvtx_sum),
            (ranges, ranges + timeline.ranges_repeated),
        ),
    )
    apart = [
        f"nsys's {report} says {plural(theirs, *what)}, its export {ours[0]}"
        for report, what, theirs, ours in told
        if theirs not in ours
    ]
    lost = timeline.missing.get("records")
    return (*apart, *((say.fact(lost),) if lost else ()))
