"""What says that a process's steps are not those of a settled loop, or not all there; what else is
worth knowing of its numbers; and whether nsys's reports agree. It must not know the judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from perfgate.metrics.devices import Devices, idle_of, on
from perfgate.metrics.process import STRAY, Process
from perfgate.metrics.steps import StepSpans
from perfgate.metrics.values import MOST_LOST, why_unplaced
from perfgate.metrics.warmup import unsettled
from perfgate.model.arrays import distinct
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, Value, note
from perfgate.model.reports import ReportName, Reports
from perfgate.model.sample import WHOLE_GRAPHS
from perfgate.model.timeline import Timeline

EMPTY_BELOW_MS: Final = 0.02
"""A step without GPU work that is shorter holds nothing: marking it takes 0.001-0.006 ms (two
cores, nsys 2024.2)."""
FEW: Final = 2
"""So many GPU operations may lack their times or their step, as long as they are no more than
`MOST_OF_FEW` of all."""
MOST_OF_FEW: Final = 0.005
"""Half of kernel time's default budget."""
MOST_BEFORE_CALL: Final = 0.01
"""Share of the steps' operations that may begin before their calls, as long as they do so by no
more than `MOST_LOST` of the steps' time together."""
MOST_COPIES_LOST: Final = 0.05
"""Share of the steps' copying calls that may lack their copy: a call may copy nothing."""
FEWEST_WORKING: Final = 3
"""So many steps, and more than `STRAY` of all, must use a GPU before others that do not are steps
that lack records."""
FEWEST_BETWEEN: Final = 3
"""So many such steps side by side between others: one or two batches may be skipped."""
BY_CHANCE: Final = 0.001
"""Of a loop that uses the GPU in bursts, a row of such steps that comes more rarely counts."""
MOST_ELSEWHERE: Final = 0.01
"""Share of the steps' time in which processes without steps may keep GPUs busy unmentioned: kernel
time's default budget."""
MOST_OVERTAKEN: Final = 0.45
"""Share of the periods that work which outlasts the steps behind its own may have shortened: from
half of them on, the median is one of those."""
AHEAD_BELOW: Final = 0.8
"""Where the step range's median is below this share of step_ms, the rest of the step is explained.
"""


def notes_of(
    process: Process, others: Sequence[StepSpans], devices: Devices, values: Mapping[Metric, float]
) -> tuple[Note, ...]:
    """All notes of a process, INVALID ones first.

    Args:
        process: the process that is measured.
        others: the steps of all processes that have any; its own may be among them.
        devices: of the capture.
        values: the metrics that are known.
    """
    timeline, steps, step_ms = process.timeline, process.steps, values.get(Metric.STEP_MS)
    found = [*steps.notes]
    if len(others) > 1:
        found += _one_after_the_other(process, others)
    if has_stepless := len(timeline.processes) > len(devices.stepping):
        found += _ranks_without_steps(process, devices)
    if why_unplaced(process) is None:
        first_time = unsettled(process)
        found += [
            *([first_time] if first_time is not None else []),
            *_lost(process),
            *_without_records(process),
            *_uncounted(process, step_ms),
        ]
    found += _other_notes(process, step_ms)
    if has_stepless:
        found += _busy_elsewhere(process, devices)
    return tuple(sorted(found, key=lambda one: one.severity is not Severity.INVALID))


def _bad(code: str, **fields: Value) -> Note:
    return Note(code=code, severity=Severity.INVALID, fields=fields)


def _one_after_the_other(process: Process, others: Sequence[StepSpans]) -> Iterator[Note]:
    """The steps of another process come after its own."""
    pids, last = process.timeline.processes, process.steps.ends[-1]
    later = [] if process.steps.whole else [one for one in others if one.starts[0] >= last]
    if later:
        yield _bad("processes-consecutive", first=process.pid, second=pids[later[0].process])


def _ranks_without_steps(process: Process, devices: Devices) -> Iterator[Note]:
    """Processes without steps run NCCL's kernels meanwhile: they are ranks of the same job."""
    timeline, steps = process.timeline, process.steps
    kernels = timeline.kernels
    if steps.whole:
        return
    during = devices.nccl & (kernels.end > steps.starts[0]) & (kernels.start < process.done[-1])
    rows = during & ~np.isin(kernels.process, list(devices.stepping))
    # Who runs none of NCCL's kernels has no part in what others do with them: a server, say.
    if rows.any() and (during & (kernels.process == steps.process)).any():
        pids = sorted(timeline.processes[one] for one in distinct(kernels.process[rows]).tolist())
        yield _bad("ranks-without-steps", pids=tuple(map(str, pids)))


def _busy_elsewhere(process: Process, devices: Devices) -> Iterator[Note]:
    """Processes without steps keep GPUs busy: that is in no metric but as busy time.

    On a GPU that the steps use, or on any where they use none (an engine that works for a client),
    the run is not valid.
    """
    windows, used = process.windows, process.totals.devices
    if windows is None or not windows.ns or "devices" in process.timeline.missing:
        return
    for device in devices.present:
        if device in used and device not in process.in_use:
            continue
        theirs = [
            (ops, here & ~np.isin(ops.process, list(devices.stepping)))
            for ops, here in on(device, *process.timeline.operations)
        ]
        busy = 1 - windows.idle_ns(idle_of(theirs)) / windows.ns
        if busy > MOST_ELSEWHERE:
            is_bad = device in used or not used
            numbers = {one for ops, rows in theirs for one in distinct(ops.process[rows]).tolist()}
            pids = sorted(process.timeline.processes[one] for one in numbers)
            yield note(
                "work-without-steps" if is_bad else "gpu-used-by-others",
                Severity.INVALID if is_bad else Severity.WARN,
                pids=tuple(map(str, pids)),
                gpu=process.gpu_title(device),
                busy=busy,
            )


def _lost(process: Process) -> Iterator[Note]:
    """Launches lack their kernels, or copying calls their copies; or operations their times, or
    begin before the calls that launch them: one of two clocks is wrong."""
    totals, in_turns = process.totals, process.segments.turn >= 0
    held = int(totals.operations[in_turns].sum())
    steps_ns = int(process.done[-1] - process.steps.starts[0])
    many = totals.before_call > MOST_BEFORE_CALL * held
    if many or totals.before_call_ns > MOST_LOST * steps_ns:
        yield _bad("clocks-disagree", operations=held, early=totals.before_call)
    if totals.lost > MOST_LOST * totals.launched:
        yield _bad("work-lost", launched=totals.launched, lost=totals.lost)
    if totals.nodes_lost > MOST_LOST * totals.nodes:
        yield _bad("graph-kernels-lost", kernels=totals.nodes, lost=totals.nodes_lost)
    copies = len(process.timeline.copies.start)
    if copies and totals.copies_lost > MOST_COPIES_LOST * totals.copying:
        yield _bad("copies-lost", calls=totals.copying, lost=totals.copies_lost)
    held = int(totals.operations.sum())
    if totals.without_times > _few(held):
        yield _bad("durations-lost", held=held, lacking=totals.without_times)


def _few(held: int) -> float:
    return max(MOST_LOST * held, min(FEW, MOST_OF_FEW * held))


def _without_records(process: Process) -> Iterator[Note]:
    """Of some steps nothing but ranges was recorded, as in no loop's own rhythm.

    What is not recorded is no idle time: another profiler has taken over, or records were lost.
    Where other steps have no CUDA call either, a loop may use the GPU in bursts, and only a row of
    them counts that hardly comes by chance.
    """
    steps, totals = process.steps, process.totals
    if steps.whole or not len(totals.calls.start):
        return
    operations = process.by_step(totals.operations)
    working = np.flatnonzero(operations + process.by_step(totals.calls.by_segment))
    # Of a loop that hardly uses a GPU, calls come and go with what it allocates.
    if len(working) < max(FEWEST_WORKING, STRAY * len(steps)) or not np.median(operations[working]):
        return
    # Rows of steps without records: before the first that has some, between them, behind the last.
    rows = np.diff(np.concatenate(([-1], working, [len(steps)]))) - 1
    place = int(np.argmax(rows))
    longest = int(rows[place])
    if others := int(rows.sum()) - longest:
        # Each in turn by the rule of succession, which knows their share from the other steps
        # alone.
        so_far = np.arange(longest)
        chance = np.prod((others + 1 + so_far) / (others + len(working) + 2 + so_far))
        counts = bool(len(rows) * chance <= BY_CHANCE)
    else:
        counts = longest >= (1 if place in (0, len(working)) else FEWEST_BETWEEN)
    if counts:
        first = int(working[place - 1]) + 2 if place else 1
        last, pid = first + longest - 1, process.pid
        yield _bad("steps-without-records", first=first, last=last, steps=len(steps), pid=pid)


def _uncounted(process: Process, step_ms: float | None) -> Iterator[Note]:
    """Operations are of no step, or steps take no time: complete only when the work of earlier ones
    is, or without any."""
    totals, done = process.totals, process.done
    # Where no call was recorded at all, the counts that are absent for it say so.
    if totals.outside > _few(totals.linkable) and len(totals.calls.start):
        yield _bad("operations-of-no-step", held=totals.linkable, outside=totals.outside)
    overtaken = np.append(False, done[1:] == done[:-1])
    # The step behind those that an operation spans has a period that is too short as well.
    spans = int((overtaken[1:] & ~overtaken[:-1]).sum())
    count, steps = int(overtaken.sum()), len(overtaken)
    if totals.devices and (count + spans > MOST_OVERTAKEN * steps or step_ms == 0):
        yield _bad("steps-in-clumps", overtaken=count, steps=steps)
    if step_ms is not None and step_ms < EMPTY_BELOW_MS and not totals.devices:
        yield _bad("steps-empty", step_ms=step_ms)


def _other_notes(process: Process, step_ms: float | None) -> Iterator[Note]:
    """Where the rest of a step went, and what counts otherwise than one would think."""
    totals, range_ms = process.totals, process.nvtx_step_ms
    if step_ms is not None and not totals.devices:
        yield note("cpu-only", Severity.ROUTINE)
    elif step_ms is not None and range_ms is not None and range_ms < AHEAD_BELOW * step_ms:
        # The rest is work of the GPU behind the range, not what lies between two of them.
        steps = process.steps
        between = (steps.starts[1:] - steps.ends[:-1])[~steps.resumes[1:]]
        if np.median(process.done - steps.ends) >= np.median(between):
            yield note("cpu-runs-ahead", Severity.ROUTINE, range_ms=range_ms, step_ms=step_ms)
    if linkless := totals.without_call:
        yield note("counted-where-run", operations=linkless)
    if earlier := totals.before_capture:
        yield note("launched-before-capture", Severity.WARN, operations=earlier)
    if (graphs := totals.kernels.get(WHOLE_GRAPHS)) is not None:
        yield note("graphs-traced-whole", per_step=graphs.count / len(process.steps))
    if passing := [device for device in totals.devices if device not in process.in_use]:
        gpus = tuple(process.gpu_title(device) for device in passing)
        yield note("gpus-hardly-used", Severity.WARN, gpus=gpus)


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
    kernels, copies = timeline.kernels, timeline.copies
    memsets, ranges = len(timeline.memsets.start), len(timeline.ranges.start)
    kern, mem, nvtx = reports.cuda_gpu_kern_sum, reports.cuda_gpu_mem_time_sum, reports.nvtx_sum
    in_kern, in_mem, in_nvtx = (sum(row.count for row in rows) for rows in (kern, mem, nvtx))
    total_ns, kernel_ns = (
        sum(row.total_ns for row in kern),
        int((kernels.end - kernels.start).sum()),
    )
    copied = (len(copies.start) + memsets, int(copies.count.sum()) + memsets)
    apart = [
        _bad("reports-contradict", report=report.value, what=what, theirs=theirs, ours=ours[0])
        for report, what, theirs, ours in (
            (ReportName.CUDA_GPU_KERN_SUM, "kernels", in_kern, (len(kernels.start),)),
            (ReportName.CUDA_GPU_KERN_SUM, "ns of kernel time", total_ns, (kernel_ns,)),
            (ReportName.CUDA_GPU_MEM_TIME_SUM, "copies and memsets", in_mem, copied),
            (
                ReportName.NVTX_SUM,
                "ranges",
                in_nvtx,
                (ranges, ranges + timeline.ranges_repeated),
            ),
        )
        if theirs not in ours
    ]
    if lost := timeline.missing.get("records"):
        apart.append(lost.model_copy(update={"severity": Severity.INVALID}))
    return tuple(apart)
