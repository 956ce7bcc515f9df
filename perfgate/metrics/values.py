"""The numbers of the metrics, of one process and of each of its devices, and the tables of what
they are made of; and why a metric has none: what was not recorded is unknown, never zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from perfgate.metrics.attribution import Segments
from perfgate.metrics.devices import Devices
from perfgate.metrics.intervals import Idle, Windows, sum_by
from perfgate.metrics.process import Process
from perfgate.metrics.tally import MOST_OUTSIDE, NCCL_KERNEL, Tally, Work, copy_words
from perfgate.model.arrays import distinct
from perfgate.model.metric import CALLED, COUNTS, EXPOSED, METRICS, PERIODS, Kind, Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import (
    MEMSETS,
    NO_NCCL,
    OTHER_KERNELS,
    OTHER_RANGES,
    OTHER_SYNCS,
    WHOLE_GRAPHS,
    BlockSample,
    CopySample,
    KernelSample,
    RangeSample,
    SyncSample,
    folded,
)
from perfgate.model.timeline import Ints, MemoryKind

MOST_LOST: Final = 0.001
"""Share of the steps' launches that may lack their kernel; of 27 951 launches in captures of an
H200 none does."""
MOST_STEPS_LACKING: Final = 0.25
"""Share of the steps that may lack calls: half of them would move the median of a count."""
FEWEST_APART: Final = 0.5
"""Calls a step from which a capture without any copy lacks them: single ones may copy nothing."""
Absent = dict[Metric, Note]

_FROM_OPERATIONS: Final = tuple(metric for metric in METRICS if metric not in (*CALLED, *PERIODS))
_NCCL: Final = (Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS)
_FROM_KERNELS: Final = (Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS, *EXPOSED)
_FROM_COPIES: Final = tuple(
    metric for metric in _FROM_OPERATIONS if metric not in (Metric.KERNEL_MS, Metric.NCCL_MS)
)

TOP_RANGES = TOP_SYNCS = 40
TOP_KERNELS = 100
"""An eager loop with an unfused optimizer ran 41 of them on an H200; one that is folded away seems
to be gone."""


def why_absent(process: Process, devices: Devices) -> Absent:
    """Each metric that is not known, and why; reasons of the steps come before the capture's."""
    steps, totals, missing = process.steps, process.totals, process.timeline.missing
    absent: Absent = {}
    if why := missing.get("devices"):
        absent |= dict.fromkeys((Metric.GAP_MS, *EXPOSED), why)
    if copies := totals.unknown_host:
        absent[Metric.PAGEABLE_COPIES] = note("host-memory-unknown", copies=copies)
    for metrics, why in _unrecorded(process, devices):
        absent |= dict.fromkeys(metrics, why)
    if not len(totals.calls.start):
        why = None if len(process.timeline.calls.start) else missing.get("calls")
        absent |= dict.fromkeys(CALLED, why or note("no-calls", pid=process.pid))
    elif why := _calls_lost(process):
        absent |= dict.fromkeys(CALLED, why)
    if steps.whole:
        absent |= dict.fromkeys(PERIODS, note("window-as-one"))
    elif process.windows is None:
        why = note("no-period", steps=len(steps), blocks=1 + int(steps.resumes.sum()))
        absent |= dict.fromkeys((*PERIODS, Metric.GAP_MS), why)
    elif not np.median(process.periods):
        absent[Metric.GAP_MS] = note("period-is-zero")
    if why := why_unplaced(process):
        absent |= dict.fromkeys((*PERIODS, *_FROM_OPERATIONS), why)
    return absent


def why_unplaced(process: Process) -> Note | None:
    """Why nothing is known of the steps' operations: no call links them to a step.

    Without what it launched it is not known when a step was complete.
    """
    outside, linkable = process.totals.outside, process.totals.linkable
    return note("launches-unknown", count=outside) if outside > MOST_OUTSIDE * linkable else None


def _unrecorded(process: Process, devices: Devices) -> Iterator[tuple[Iterable[Metric], Note]]:
    """What is not known where there is no operation, no kernel, no kernel of NCCL's, or no copy."""
    timeline, totals, pid = process.timeline, process.totals, process.pid
    calls = totals.copying
    if not len(timeline.copies.start) and calls and calls >= FEWEST_APART * len(process.steps):
        why = timeline.missing.get("copies") or note("copies-not-recorded", calls=calls)
        yield _FROM_COPIES, why
    launched = int(totals.by_segment[Metric.LAUNCHES].sum())
    is_lost = bool(launched) or 0 < totals.launched == totals.lost
    if not totals.devices:
        why = timeline.missing.get("kernels") or note("nothing-on-a-gpu")
        if timeline.gpu_operations:
            why = note("no-gpu-work", pid=pid)
        yield _FROM_OPERATIONS, why
    elif not totals.kernels and is_lost:
        count = launched or totals.launched
        yield _FROM_KERNELS, note("work-not-recorded", pid=pid, launched=count)
    elif not devices.nccl.any():
        whole = len(timeline.graphs.start)
        yield _NCCL, note("no-nccl-outside-graphs") if whole else NO_NCCL


def _calls_lost(process: Process) -> Note | None:
    """Whether the capture lacks calls whose operations it holds, so that a count may lack them.

    What was launched before the capture began and ran in its first steps has no call in it either:
    a quarter of the steps is left out.
    """
    steps, segments, totals = process.steps, process.segments, process.totals
    if steps.whole:
        lost, held = int(totals.calls_lost.sum()), int(totals.operations.sum())
        few, what = MOST_LOST * held, "operations"
    else:
        first = len(steps) // 4
        later = (segments.step >= first) & (totals.calls_lost > 0)
        lost, held = len(distinct(segments.step[later])), len(steps) - first
        few, what = MOST_STEPS_LACKING * held, "steps"
    return note("calls-lost", lacking=lost, held=held, what=what) if lost > few else None


def process_values(
    process: Process, per_device: Mapping[int, Mapping[Metric, float]]
) -> dict[Metric, float]:
    """Every metric that has a number, also where `why_absent` says it is none of the steps'."""
    values: dict[Metric, float] = {}
    windows = process.windows
    if windows is not None and len(process.periods):
        values[Metric.STEP_MS] = windows.step_ns / 1e6
        values[Metric.STEP_MEAN_MS] = windows.ns / windows.periods / 1e6
    for metric, sums in process.totals.by_segment.items():
        by_step, steps = process.by_step(sums), len(process.steps)
        values[metric] = (
            float(np.median(by_step)) if metric in COUNTS else int(by_step.sum()) / 1e6 / steps
        )
    waiting = dict.fromkeys(EXPOSED, tuple(per_device))
    if windows is not None:
        waiting[Metric.GAP_MS] = process.in_use
    for metric, devices in waiting.items():
        values[metric] = sum(per_device[device][metric] for device in devices) / process.gpus
    return values


def device_values(
    process: Process, devices: Devices, device: int, exposed: Mapping[Metric, Ints]
) -> dict[Metric, float]:
    """One device's time metrics; `exposed` is its `Devices.exposed`."""
    sums_ns = dict.fromkeys((Metric.KERNEL_MS, Metric.NCCL_MS, Metric.H2D_MS), 0)
    for one in process.totals.groups:
        if one.device == device and one.metric in sums_ns:
            sums_ns[one.metric] += int((one.end - one.start).sum())
    sums_ns |= {metric: int(sums.sum()) for metric, sums in exposed.items()}
    values = {metric: ns / 1e6 / len(process.steps) for metric, ns in sums_ns.items()}
    if process.windows is not None and device in process.in_use:
        values[Metric.GAP_MS] = (
            process.windows.idle_ns(devices.idle(device)) / 1e6 / process.windows.steps
        )
    return values


def block_samples(process: Process, idle: Sequence[Idle]) -> tuple[BlockSample, ...]:
    """What lies between two waits, where there are any; `idle` is of each device that the steps
    used."""
    done, resumes = process.done, process.steps.resumes
    number = np.cumsum(resumes)
    found: list[BlockSample] = []
    for index in range(int(number[-1]) + 1):
        windows = Windows.of_periods(done, process.kept & (number == index))
        if windows is not None:
            gap_ns = [windows.idle_ns(of_device) for of_device in idle]
            gap_ms = sum(gap_ns) / 1e6 / windows.steps / process.gpus if gap_ns else None
            found.append(
                BlockSample(
                    number=index,
                    step_ms=windows.step_ns / 1e6,
                    mean_ms=windows.ns / windows.periods / 1e6,
                    gap_ms=gap_ms,
                )
            )
    return tuple(found)


def range_samples(
    segments: Segments, by_segment: Mapping[Metric, tuple[Ints, float]], *, steps: int
) -> tuple[RangeSample, ...]:
    """One row a range name, by time, descending; the values of all rows add up to the whole.

    `by_segment` holds for each metric its sums by segment (ns of times) and what they are divided
    by: steps, or periods. Rows after the TOP_RANGES by time on GPU, idle and CPU are folded into
    one. `count` and `cpu_ms` are of ranges begun in steps, per step, and between two of them, per
    pair of steps: what lies before the first is not known to be of the loop. Nested ranges count in
    their own row and in their parents' `cpu_ms`, so this does not add up.
    """
    size = len(segments.labels)
    values = {
        metric: sum_by(segments.label, by_segment[metric][0], size)
        / (1e6 if spec.kind is Kind.TIME else 1.0)
        / by_segment[metric][1]
        for metric, spec in METRICS.items()
        if metric in by_segment
    }
    (begun, cpu_ns), (begun_between, cpu_ns_between) = segments.begun
    pairs = max(steps - 1, 1)
    count = begun / steps + begun_between / pairs
    cpu_ms = (cpu_ns / steps + cpu_ns_between / pairs) / 1e6
    something = np.any([count > 0, cpu_ms > 0, *(each > 0 for each in values.values())], axis=0)
    rows = [
        RangeSample(
            name=segments.labels[row],
            count=float(count[row]),
            cpu_ms=float(cpu_ms[row]),
            values={metric: float(each[row]) for metric, each in values.items()},
        )
        for row in np.flatnonzero(something).tolist()
    ]
    return folded(rows, lambda row: row.cpu_ms + row.gpu_ms, TOP_RANGES, name=OTHER_RANGES)


def kernel_samples(totals: Tally, *, steps: int) -> tuple[KernelSample, ...]:
    """The TOP_KERNELS and one row for the rest, with graphs, NCCL's and every kind of copy and
    memset; by time."""
    memory = {MEMSETS: totals.memsets}
    for (copied, _), work in totals.copies.items():
        memory[copy_words(copied)] = memory.get(copy_words(copied), Work()) + work
    rows = [
        _kernel_sample(name, work, "memory", steps) for name, work in memory.items() if work.count
    ]
    plain: list[KernelSample] = []
    for name, work in sorted(totals.kernels.items(), key=lambda item: item[0]):
        is_nccl = NCCL_KERNEL.match(name) is not None
        row = _kernel_sample(name, work, "nccl" if is_nccl else "kernel", steps)
        (rows if is_nccl or name == WHOLE_GRAPHS else plain).append(row)
    rows += folded(plain, lambda row: row.gpu_ms, TOP_KERNELS, name=OTHER_KERNELS)
    return tuple(sorted(rows, key=lambda row: (-row.gpu_ms, row.name)))


def _kernel_sample(
    name: str, work: Work, kind: Literal["kernel", "nccl", "memory"], steps: int
) -> KernelSample:
    ms = work.ns / 1e6 / steps
    return KernelSample(name=name, count=work.count / steps, gpu_ms=ms, kind=kind)


def copy_samples(
    copies: Mapping[tuple[int, int | None], Work], *, steps: int
) -> tuple[CopySample, ...]:
    """One row a direction and host memory, by time, descending."""
    rows = [
        CopySample(
            direction=copy_words(kind).removeprefix("CUDA memcpy "),
            host=None if host is None else MemoryKind(host).name.lower(),
            count=work.count / steps,
            bytes=work.bytes / steps,
            gpu_ms=work.ns / 1e6 / steps,
        )
        for (kind, host), work in copies.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.gpu_ms, row.direction, row.host or "")))


def sync_samples(
    syncs: Mapping[tuple[str, int], Work], labels: Sequence[str], *, steps: int
) -> tuple[SyncSample, ...]:
    """The TOP_SYNCS calls and ranges by number and one row for the rest, by number, descending."""
    rows = [
        SyncSample(
            call=call, range=labels[label], count=work.count / steps, cpu_ms=work.ns / 1e6 / steps
        )
        for (call, label), work in sorted(syncs.items(), key=lambda item: item[0])
    ]
    rows.sort(key=lambda row: -row.cpu_ms)
    others = {"call": OTHER_SYNCS, "range": OTHER_RANGES}
    return folded(rows, lambda row: row.count, TOP_SYNCS, **others)
