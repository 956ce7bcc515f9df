"""One capture measured: its steps found, each process added up, every metric derived; it must not
know the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import numpy as np

from perfgate.metrics.absent import why_absent, why_unplaced
from perfgate.metrics.check import notes_of
from perfgate.metrics.devices import Devices
from perfgate.metrics.gaps import Queued, gaps_by_segment
from perfgate.metrics.intervals import Idle
from perfgate.metrics.process import Process
from perfgate.metrics.rows import copy_samples, kernel_samples, range_samples, sync_samples
from perfgate.metrics.steps import StepRule, StepSpans, find
from perfgate.metrics.tally import MEMSET_WORDS, Table, Work
from perfgate.metrics.values import block_samples, device_values, exposed_by_segment, process_values
from perfgate.model.metric import EXPOSED, METRICS, Metric
from perfgate.model.sample import DeviceSample, ProcessSample
from perfgate.model.timeline import CopyKind, Ints, Timeline


def measure(
    timeline: Timeline,
    *,
    step: str | None,
    is_pattern: bool = False,
    warmup: int = 0,
    steps: int | None = None,
) -> tuple[ProcessSample, ...]:
    """Every metric of each process that has steps, `by_gpu`; with `step` None, of each process's
    window as one.

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

    Fewer than `steps` steps: all there are, and `ProcessSample.steps` says how many. `step` is a
    range's name or, with `is_pattern`, a regular expression; see `find_steps` for what a step is.

    Raises:
        StepsNotFound: no process has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    found = find(timeline, StepRule.of(step, is_pattern=is_pattern, warmup=warmup, steps=steps))
    share = memory_share_h2d(timeline)
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
    processes = _with_plain_titles(processes)
    used = {process.devices[0].device for process in processes if len(process.devices) == 1}
    if len(used) < len(processes):
        return tuple(processes)
    return tuple(sorted(processes, key=lambda process: process.devices[0].device))


def _with_plain_titles(processes: Sequence[ProcessSample]) -> Sequence[ProcessSample]:
    """Without the numbers that mean different GPUs in different processes."""
    meant: dict[int | None, set[int]] = {}
    for device in (one for process in processes for one in process.devices):
        meant.setdefault(device.ordinal, set()).add(device.device)
    if all(len(its) == 1 for its in meant.values()):
        return processes
    return [
        process.model_copy(
            update={
                "devices": tuple(
                    device.model_copy(update={"ordinal": None})
                    if len(meant[device.ordinal]) > 1
                    else device
                    for device in process.devices
                )
            }
        )
        for process in processes
    ]


def memory_share_h2d(timeline: Timeline) -> float | None:
    """Host-to-device's share of all copy and memset time of the capture, 0-1; None where there is
    neither.

    As `cuda_gpu_mem_time_sum` prints it: to 0.1 %, and managed memory's migrations have a row of
    their own.
    """
    length = timeline.copies.end - timeline.copies.start
    total = int(length.sum()) + int((timeline.memsets.end - timeline.memsets.start).sum())
    return (
        round(int(length[timeline.copies.kind == CopyKind.H2D].sum()) / total, 3) if total else None
    )


def _measured(
    process: Process, found: Sequence[StepSpans], devices: Devices, *, memory_share: float | None
) -> ProcessSample:
    steps, totals = process.steps, process.totals
    exposed = {device: exposed_by_segment(process, devices, device) for device in totals.devices}
    per_device = {
        device: device_values(process, devices, device, own) for device, own in exposed.items()
    }
    absent = why_absent(process, devices)
    known = process_values(process, per_device)
    values = {
        metric: known[metric] for metric in METRICS if metric in known and metric not in absent
    }
    idle = (
        {device: devices.idle(device) for device in process.in_use}
        if Metric.GAP_MS in values
        else {}
    )
    gpus = {gpu.device: gpu for gpu in process.timeline.gpus}
    placed = why_unplaced(process) is None
    count = len(steps)
    return ProcessSample(
        pid=process.pid,
        steps=0 if steps.whole else count,
        step_names=steps.names,
        step_ranges=steps.drawn,
        values=values,
        absent={metric: absent[metric] for metric in METRICS if metric in absent},
        window_ms=process.windows.ns / 1e6 if process.windows is not None and placed else 0.0,
        nvtx_step_ms=process.nvtx_step_ms,
        memory_share_h2d=memory_share,
        periods_ms=tuple(process.periods_ms.tolist()) if placed else (),
        blocks=block_samples(process, list(idle.values())) if Metric.STEP_MS in values else (),
        devices=tuple(
            DeviceSample(
                device=device,
                ordinal=process.timeline.ordinals.get((steps.process, device)),
                uuid=gpus[device].uuid if device in gpus else None,
                bus=gpus[device].bus if device in gpus else None,
                name=gpus[device].name if device in gpus else None,
                values={
                    metric: of_device[metric]
                    for metric in METRICS
                    if metric in of_device and metric in values
                },
            )
            for device, of_device in per_device.items()
        ),
        ranges=range_samples(
            process.segments, _attributable(process, values, idle, [*exposed.values()]), steps=count
        ),
        kernels=kernel_samples(totals.kernels, _memory(process), steps=count) if placed else (),
        copies=copy_samples(totals.copies, steps=count)
        if placed and not totals.linked[Table.COPIES].is_lost
        else (),
        syncs=()
        if Metric.SYNCS in absent
        else sync_samples(totals.syncs, process.segments.labels, steps=count),
        notes=notes_of(process, found, devices, values),
    )


def _memory(process: Process) -> dict[str, Work]:
    """What copies and memsets did in the steps, without those of which it is not known which step
    launched them."""
    linked = process.totals.linked
    return {
        words: work
        for words, work in process.totals.memory.items()
        if not linked[Table.MEMSETS if words == MEMSET_WORDS else Table.COPIES].is_lost
    }


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
    segments, windows = process.segments, process.windows
    sums_of = dict(process.totals.by_segment)
    for metric in EXPOSED:
        none = np.zeros(len(segments), np.int64)
        sums_of[metric] = sum((of_device[metric] for of_device in exposed), none)
    by_segment = {
        metric: (
            sums,
            float(len(process.steps) * (process.gpus if metric in EXPOSED else 1)),
        )
        for metric, sums in sums_of.items()
        if metric in values
    }
    if idle and windows is not None:
        gaps = (
            gaps_by_segment(process, windows, its, Queued.of(process, its, device))
            for device, its in idle.items()
        )
        by_segment[Metric.GAP_MS] = (reduce(np.add, gaps), windows.steps * process.gpus)
    if not exposed and Metric.STEP_MS in values and (typical := process.typical) is not None:
        by_segment[Metric.STEP_MS] = (typical.by_segment(segments), float(typical.periods))
        if windows is not None:
            by_segment[Metric.STEP_MEAN_MS] = (
                windows.by_segment(segments),
                float(windows.periods),
            )
    return by_segment
