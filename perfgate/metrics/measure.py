"""One capture measured: its steps found, each process added up, every metric derived; it must not
know the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import reduce
from typing import Unpack

import numpy as np

from perfgate.metrics.check import notes_of
from perfgate.metrics.devices import Devices, gaps_by_segment
from perfgate.metrics.intervals import Idle, Windows, counted
from perfgate.metrics.process import Process
from perfgate.metrics.steps import StepSpans, find_steps
from perfgate.metrics.values import (
    block_samples,
    copy_samples,
    device_values,
    kernel_samples,
    process_values,
    range_samples,
    sync_samples,
    why_absent,
    why_unplaced,
)
from perfgate.model.metric import EXPOSED, METRICS, Metric
from perfgate.model.sample import DeviceSample, ProcessSample
from perfgate.model.timeline import CopyKind, Ints, Timeline
from perfgate.model.workload import StepRule


def measure(timeline: Timeline, **rule: Unpack[StepRule]) -> tuple[ProcessSample, ...]:
    """Every metric of each process that has steps, `by_gpu`; with `step` None, of each process's
    window as one. `rule` is that of `find_steps`.

    Times are ms and counts are plain, all per step; of a whole window they are totals and
    `ProcessSample.steps` is 0.

    - A step is complete when its range has ended and the last GPU operation launched in it has, but
      not before the step before it. `step_ms` is the mean period between completions, each capped
      at 1.2 medians, the first period dropped.
    - In an A/B run of blocks the process waits between some steps: a period across a wait is
      dropped, too, and `ProcessSample.blocks` has the periods and gaps between two waits.
    - `gap_ms` is over the windows from each completion that opens a row of periods kept to the one
      that closes it: the share of them in which no operation of any process ran on a device, in the
      mean of the devices the steps used, times `step_ms`. So it is in the same step as that, also
      where single periods are longer than the others.
    - What nothing hides, `h2d_exposed_ms` and the like, is the mean of these devices as well: each
      of them waits for as long as a step may. The work itself, `kernel_ms`, `nccl_ms` and `h2d_ms`,
      is their sum.
    - Times but `step_ms` are means over the steps, so that a loss in every n-th step shows; counts
      are medians over them. What is launched between two steps, by a loader in the loop's header or
      an evaluation, counts to the one before, but is no part of its completion.
    - Managed memory's host-to-device migrations are in `h2d_ms` and `h2d_exposed_ms` but not in the
      counts, which are to be exact: page faults are not.

    Fewer than `steps` steps: all there are, and `ProcessSample.steps` says how many.

    Raises:
        StepsNotFound: no process has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    found = find_steps(timeline, **rule)
    # As `cuda_gpu_mem_time_sum` prints it: to 0.1 %, managed memory's migrations in their own rows.
    copies, memsets = timeline.copies, timeline.memsets
    length = copies.end - copies.start
    total = int(length.sum()) + int((memsets.end - memsets.start).sum())
    share = round(int(length[copies.kind == CopyKind.H2D].sum()) / total, 3) if total else None
    # numpy lets go of the interpreter while it sorts: gaps and sums are found side by side.
    with ThreadPoolExecutor(max_workers=1) as pool:
        devices = Devices(timeline, pool, frozenset(one.process for one in found))
        samples = [
            _measured(Process.of(timeline, one), found, devices, memory_share=share)
            for one in found
        ]
    return by_gpu(samples)


def by_gpu(processes: Sequence[ProcessSample]) -> tuple[ProcessSample, ...]:
    """Processes in the order of their GPUs, where each has one of its own; else as they are.

    Of ranks whose numbers are not known the GPU says which is which from run to run; process ids do
    not.
    """
    meant = {(one.ordinal, one.device) for process in processes for one in process.devices}
    # Numbers that mean different GPUs in different processes are left out.
    means = Counter(ordinal for ordinal, _ in meant)
    processes = [
        process.model_copy(
            update={
                "devices": tuple(
                    one.model_copy(update={"ordinal": None}) if means[one.ordinal] > 1 else one
                    for one in process.devices
                )
            }
        )
        for process in processes
    ]
    used = {process.devices[0].device for process in processes if len(process.devices) == 1}
    if len(used) < len(processes):
        return tuple(processes)
    return tuple(sorted(processes, key=lambda process: process.devices[0].device))


def _measured(
    process: Process, found: Sequence[StepSpans], devices: Devices, *, memory_share: float | None
) -> ProcessSample:
    steps, totals, windows = process.steps, process.totals, process.windows
    exposed = {device: devices.exposed(process, device) for device in totals.devices}
    per_device = {
        device: device_values(process, devices, device, own) for device, own in exposed.items()
    }
    absent = why_absent(process, devices)
    known = process_values(process, per_device)
    values = {
        metric: known[metric] for metric in METRICS if metric in known and metric not in absent
    }
    in_use = process.in_use if Metric.GAP_MS in values else ()
    idle = {device: devices.idle(device) for device in in_use}
    placed, count = why_unplaced(process) is None, len(steps)
    has_blocks = Metric.STEP_MS in values and bool(steps.resumes.any())
    ranges = _attributable(process, values, idle, [*exposed.values()])
    return ProcessSample(
        pid=process.pid,
        steps=0 if steps.whole else count,
        step_names=steps.names,
        step_ranges=steps.drawn,
        values=values,
        absent={metric: absent[metric] for metric in METRICS if metric in absent},
        window_ms=windows.ns / 1e6 if windows is not None and placed else 0.0,
        nvtx_step_ms=process.nvtx_step_ms,
        memory_share_h2d=memory_share,
        periods_ms=tuple((process.periods / 1e6).tolist()) if placed else (),
        blocks=block_samples(process, list(idle.values())) if has_blocks else (),
        devices=tuple(
            _device_sample(process, device, {one: its[one] for one in values if one in its})
            for device, its in per_device.items()
        ),
        ranges=range_samples(process.segments, ranges, steps=count),
        kernels=kernel_samples(totals, steps=count) if placed else (),
        copies=copy_samples(totals.copies, steps=count) if placed else (),
        syncs=()
        if Metric.SYNCS in absent
        else sync_samples(totals.syncs, process.segments.labels, steps=count),
        notes=notes_of(process, found, devices, values),
    )


def _device_sample(process: Process, device: int, values: dict[Metric, float]) -> DeviceSample:
    timeline = process.timeline
    known = (asdict(one) for one in timeline.gpus if one.device == device)
    return DeviceSample(
        **next(known, {"device": device}),
        ordinal=timeline.ordinals.get((process.steps.process, device)),
        values=values,
    )


def _attributable(
    process: Process,
    values: Mapping[Metric, float],
    idle: Mapping[int, Idle],
    exposed: Sequence[Mapping[Metric, Ints]],
) -> dict[Metric, tuple[Ints, float]]:
    """Per metric that was measured: its sums by segment, of turns only; and the divisor.

    `idle` is of each device whose gaps count; none where these were not measured. `exposed` is of
    each device used. The step itself is taken apart only where no device is: its ranges' time on
    the CPU is all it is made of then. It is that of the steps of about median length, of which what
    only some longer ones do is no part; of the mean step, that of all.
    """
    segments, windows, steps = process.segments, process.windows, len(process.steps)
    by_segment = {
        metric: (sums, float(steps))
        for metric, sums in process.totals.by_segment.items()
        if metric in values
    }
    for metric in EXPOSED:
        if metric in values:
            none = np.zeros(len(segments), np.int64)
            sums = sum((of_device[metric] for of_device in exposed), none)
            by_segment[metric] = (sums, float(steps * process.gpus))
    if idle and windows is not None:
        gaps = (gaps_by_segment(process, windows, its, device) for device, its in idle.items())
        by_segment[Metric.GAP_MS] = (reduce(np.add, gaps), windows.steps * process.gpus)
    if exposed or windows is None or Metric.STEP_MS not in values:
        return by_segment
    periods = np.diff(process.done, prepend=0)
    usual = process.kept & (counted(periods, process.kept) == periods)
    if (typical := Windows.of_periods(process.done, usual)) is not None:
        by_segment[Metric.STEP_MS] = (segments.time_in(typical), float(typical.periods))
        by_segment[Metric.STEP_MEAN_MS] = (segments.time_in(windows), float(windows.periods))
    return by_segment
