"""The numbers of the metrics, of one process and of each of its devices, and the tables of what
they are made of; whether they mean anything it cannot know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from perfgate.metrics.attribution import Segments
from perfgate.metrics.devices import Devices
from perfgate.metrics.intervals import Idle, Windows, capped_mean, sum_by
from perfgate.metrics.process import Process
from perfgate.metrics.tally import NCCL_KERNEL, Tally, Work, copy_words
from perfgate.model.metric import COUNTS, EXPOSED, METRICS, Kind, Metric
from perfgate.model.sample import (
    MEMSETS,
    OTHER_KERNELS,
    OTHER_RANGES,
    OTHER_SYNCS,
    WHOLE_GRAPHS,
    BlockSample,
    CopySample,
    KernelSample,
    RangeSample,
    SyncSample,
)
from perfgate.model.timeline import Ints, MemoryKind

TOP_RANGES = TOP_SYNCS = 40
TOP_KERNELS = 100
"""An eager loop with an unfused optimizer ran 41 of them on an H200; one that is folded away seems
to be gone."""
_TIMES = (Metric.KERNEL_MS, Metric.NCCL_MS, Metric.H2D_MS, Metric.MEM_EXPOSED_MS, Metric.GAP_MS)


def process_values(
    process: Process, per_device: Mapping[int, Mapping[Metric, float]]
) -> dict[Metric, float]:
    """Every metric that has a number, also where `why_absent` says it is none of the steps'."""
    values: dict[Metric, float] = {}
    if len(periods := process.periods):
        values[Metric.STEP_MS] = capped_mean(periods) / 1e6
        values[Metric.STEP_MEAN_MS] = float(np.mean(periods)) / 1e6
    for metric, sums in process.totals.by_segment.items():
        by_step, steps = process.by_step(sums), len(process.steps)
        values[metric] = (
            float(np.median(by_step)) if metric in COUNTS else int(by_step.sum()) / 1e6 / steps
        )
    waiting = dict.fromkeys(EXPOSED, tuple(per_device))
    if process.windows is not None:
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
        windows = Windows.of_periods(done, own := process.kept & (number == index))
        if windows is not None:
            periods = done[own] - done[np.flatnonzero(own) - 1]
            gap_ns = [windows.idle_ns(of_device) for of_device in idle]
            gap_ms = sum(gap_ns) / 1e6 / windows.steps / process.gpus if gap_ns else None
            found.append(
                BlockSample(
                    number=index,
                    step_ms=capped_mean(periods) / 1e6,
                    mean_ms=float(np.mean(periods)) / 1e6,
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
    time = cpu_ms + sum((values[metric] for metric in _TIMES if metric in values), np.zeros(size))
    something = np.any([count > 0, time > 0, *(each > 0 for each in values.values())], axis=0)
    order = [row for row in np.argsort(-time, kind="stable").tolist() if something[row]]
    rows = [(segments.labels[row], [row]) for row in order[:TOP_RANGES]]
    if folded := order[TOP_RANGES:]:
        rows.append((OTHER_RANGES, folded))
    return tuple(
        RangeSample(
            name=name,
            count=float(count[its].sum()),
            cpu_ms=float(cpu_ms[its].sum()),
            values={metric: float(each[its].sum()) for metric, each in values.items()},
        )
        for name, its in rows
    )


def kernel_samples(totals: Tally, *, steps: int) -> tuple[KernelSample, ...]:
    """The TOP_KERNELS and one row for the rest, with graphs, NCCL's and every kind of copy and
    memset; by time."""
    memory = {MEMSETS: totals.memsets}
    for (copied, _), work in totals.copies.items():
        memory[copy_words(copied)] = memory.get(copy_words(copied), Work()) + work
    named: list[tuple[str, Work, Literal["kernel", "nccl", "memory"]]] = [
        (name, work, "memory") for name, work in memory.items() if work.count
    ]
    own = []
    for name, work in totals.kernels.items():
        if NCCL_KERNEL.match(name):
            named.append((name, work, "nccl"))
        elif name == WHOLE_GRAPHS:
            named.append((name, work, "kernel"))
        else:
            own.append((name, work))
    own.sort(key=lambda item: (-item[1].ns, item[0]))
    named += ((name, work, "kernel") for name, work in own[:TOP_KERNELS])
    if rest := [work for _, work in own[TOP_KERNELS:]]:
        named.append((OTHER_KERNELS, sum(rest, Work()), "kernel"))
    return tuple(
        KernelSample(name=name, count=work.count / steps, gpu_ms=work.ns / 1e6 / steps, kind=kind)
        for name, work, kind in sorted(named, key=lambda row: (-row[1].ns, row[0]))
    )


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
    ordered = sorted(syncs.items(), key=lambda item: (-item[1].count, -item[1].ns, item[0]))
    named = [((call, labels[label]), work) for (call, label), work in ordered[:TOP_SYNCS]]
    if rest := [work for _, work in ordered[TOP_SYNCS:]]:
        named.append(((OTHER_SYNCS, OTHER_RANGES), sum(rest, Work())))
    return tuple(
        SyncSample(call=call, range=label, count=work.count / steps, cpu_ms=work.ns / 1e6 / steps)
        for (call, label), work in named
    )
