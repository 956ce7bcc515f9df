"""Holds the timeline against nsys's own reports of the same capture: two readings that must agree."""

from __future__ import annotations

from perfgate.model.reports import ReportName, Reports
from perfgate.model.timeline import Timeline


def contradictions(timeline: Timeline, reports: Reports) -> tuple[str, ...]:
    """Name each report whose number of rows' instances or total time is not the timeline's; empty if all agree.

    Compared exactly: kernels with `cuda_gpu_kern_sum`, copies and memsets with `cuda_gpu_mem_time_sum`, ranges with
    `nvtx_sum`, in instances, and kernels in total ns. A report that nsys skipped agrees with an empty timeline only.
    """
    copies, memsets = timeline.copies, timeline.memsets
    told = (
        (
            ReportName.CUDA_GPU_KERN_SUM,
            "kernels",
            sum(row.count for row in reports.cuda_gpu_kern_sum),
            len(timeline.kernels.start),
        ),
        (
            ReportName.CUDA_GPU_KERN_SUM,
            "ns of kernel time",
            sum(row.total_ns for row in reports.cuda_gpu_kern_sum),
            int((timeline.kernels.end - timeline.kernels.start).sum()),
        ),
        (
            ReportName.CUDA_GPU_MEM_TIME_SUM,
            "copies and memsets",
            sum(row.count for row in reports.cuda_gpu_mem_time_sum),
            len(copies.start) + len(memsets.start),
        ),
        (
            ReportName.NVTX_SUM,
            "ranges",
            sum(row.count for row in reports.nvtx_sum),
            len(timeline.ranges.start),
        ),
    )
    return tuple(
        f"nsys's {report} says {theirs} {what}, its export {ours}"
        for report, what, theirs, ours in told
        if theirs != ours
    )
