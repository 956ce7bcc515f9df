"""The numbers of the metrics, of one process and of each of its devices; whether they mean anything
it cannot know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from perfgate.metrics.devices import Devices
from perfgate.metrics.intervals import Idle
from perfgate.metrics.process import Process
from perfgate.metrics.windows import Windows, capped_mean
from perfgate.model.metric import COUNTS, EXPOSED, Metric
from perfgate.model.sample import BlockSample
from perfgate.model.timeline import Ints

_OF: Final = {
    Metric.H2D_EXPOSED_MS: Metric.H2D_MS,
    Metric.NCCL_EXPOSED_MS: Metric.NCCL_MS,
    Metric.MEM_EXPOSED_MS: Metric.MEM_EXPOSED_MS,
}
"""Of which operations (`Group.metric`) each is the part that nothing hides."""


def process_values(
    process: Process, per_device: Mapping[int, Mapping[Metric, float]]
) -> dict[Metric, float]:
    """Every metric that has a number, also where `why_absent` says it is none of the steps'."""
    values: dict[Metric, float] = {}
    if len(periods := process.periods_ns):
        values[Metric.STEP_MS] = capped_mean(periods) / 1e6
        values[Metric.STEP_MEAN_MS] = float(np.mean(periods)) / 1e6
    for metric, sums in process.totals.by_segment.items():
        by_turn = process.by_turn(sums)
        values[metric] = (
            float(np.median(by_turn))
            if metric in COUNTS
            else int(by_turn.sum()) / 1e6 / len(process.steps)
        )
    waiting = dict.fromkeys(EXPOSED, tuple(per_device))
    if process.windows is not None:
        waiting[Metric.GAP_MS] = process.in_use
    for metric, devices in waiting.items():
        values[metric] = sum(per_device[device][metric] for device in devices) / process.gpus
    return values


def exposed_by_segment(process: Process, devices: Devices, device: int) -> dict[Metric, Ints]:
    """What lies in the idle time of what it could have overlapped with, ns on one device, by
    segment of launch."""
    size = len(process.segments.step)
    found: dict[Metric, Ints] = {}
    for metric, of in _OF.items():
        own = [one for one in process.totals.groups if (one.metric, one.device) == (of, device)]
        found[metric] = np.zeros(size, np.int64)
        if own:
            idle = (
                devices.idle_but_nccl(device)
                if of is Metric.NCCL_MS
                else devices.idle_of_kernels(device)
            )
            found[metric] = idle.overlap_by(
                np.concatenate([one.segment for one in own]),
                np.concatenate([one.start for one in own]),
                np.concatenate([one.end for one in own]),
                size,
            )
    return found


def device_values(
    process: Process, devices: Devices, device: int, exposed: Mapping[Metric, Ints]
) -> dict[Metric, float]:
    """One device's time metrics; `exposed` is its `exposed_by_segment`."""
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
    if not resumes.any():
        return ()
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
