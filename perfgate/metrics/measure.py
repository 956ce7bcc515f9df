"""One capture measured: its steps found, each process added up, every metric derived; it must not know the judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, reduce

import numpy as np

from perfgate.metrics.attribution import Segments, cut
from perfgate.metrics.intervals import FOREVER, Idle, sum_by
from perfgate.metrics.queued import Queued
from perfgate.metrics.rows import copy_samples, kernel_samples, range_samples, sync_samples
from perfgate.metrics.steps import Names, Steps, find_steps, whole_windows
from perfgate.metrics.tally import GRAPH_WORDS, NCCL_KERNEL, CopyWork, DeviceTally, Tally, Work, tally
from perfgate.metrics.warmup import unsettled
from perfgate.metrics.windows import Windows, completions, end_periods, last_ends, why_no_period
from perfgate.model.metric import COUNTS, METRICS, Metric
from perfgate.model.sample import NO_NCCL, BoutSample, DeviceSample, ProcessSample
from perfgate.model.timeline import Copies, CopyKind, Flags, Ints, Kernels, Spans, Timeline

AHEAD_BELOW = 0.8
"""Where the step range's median is below this share of step_ms it is said where the rest of the step went."""
EMPTY_BELOW_MS = 0.02
"""A step without GPU work that is shorter holds nothing: marking it takes 0.001-0.006 ms (two cores, nsys 2024.2)."""
MOST_LOST = 0.001
"""Share of the steps' launches that may lack their kernel; of 27 951 launches in captures of an H200 none does."""
FEW_UNTIMED, MOST_UNTIMED = 2, 0.005
"""So many GPU operations may lack their times, up to this share: half of kernel time's default budget."""
MOST_STEPS_LACKING = 0.25
"""Share of the steps that may lack calls: half of them would move the median of a count."""
MOST_COPIES_LOST = 0.05
"""Share of the steps' copying calls that may lack their copy: a call may copy nothing."""
MOST_ELSEWHERE = 0.01
"""Share of the steps' time in which processes without steps may keep their GPUs busy: kernel time's default budget."""
STRAY = 0.05
"""Share of the steps up to which what they run on a device is no use of it."""
FEWEST_APART = 0.5
"""Calls a step from which a capture without any copy lacks them: single ones may copy nothing."""
MOST_OVERTAKEN = 0.45
"""Share of the periods that work which outlasts the steps behind its own may have shortened: from half of them on, the
median is one of those."""
MOST_OUTSIDE = 0.25
"""Share of the operations that may lack a call and have run outside the steps before the others mean nothing."""

_FROM_CALLS = (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS)
_FROM_OPERATIONS = tuple(metric for metric in METRICS if metric not in (*_FROM_CALLS, Metric.STEP_MS))
_NCCL = (Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS)
_EXPOSED = (Metric.H2D_EXPOSED_MS, Metric.NCCL_EXPOSED_MS, Metric.MEM_EXPOSED_MS)
_FROM_KERNELS = (Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS, *_EXPOSED)
_FROM_COPIES = (
    *(Metric.H2D_MS, *_EXPOSED),
    *(Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.D2H_COPIES, Metric.PAGEABLE_COPIES),
)
_NO_OPERATIONS = "the capture holds no GPU operations"
_NO_CALLS = "the capture holds no CUDA API calls"


def measure(
    timeline: Timeline, *, step: str | None, is_pattern: bool = False, warmup: int = 0, steps: int | None = None
) -> tuple[ProcessSample, ...]:
    """Every metric of each process that has steps; with `step` None, of each process's captured window as one.

    Times are ms and counts are plain, all per step; of a whole window they are totals and `ProcessSample.steps` is 0.

    - A step is complete when its range has ended and the last GPU operation launched in it has, but not before the
      step before it. `step_ms` is the median period between completions, the first period dropped.
    - In an interleaved duet the process waits between some steps: a period across a wait is dropped, too, and
      `ProcessSample.bouts` has the periods and gaps between two waits.
    - `gap_ms` is over the windows from each completion that opens a row of periods kept to the one that closes it: the
      share of them in which no operation of any process ran on a device, summed over the devices the steps used, times
      `step_ms`. So it is in the same step as that, also where single periods are longer than the others.
    - Other clocks are means over the steps, so that a slip every n-th step shows; counts are medians over the steps.
      What is launched between two steps, by a loader in the loop's header or an evaluation, counts to the one before,
      but is no part of its completion.
    - Managed memory's host-to-device migrations are in `h2d_ms` and `h2d_exposed_ms` but not in the counts, which
      are to be exact: page faults are not.

    Fewer than `steps` steps: all there are, and `ProcessSample.steps` says how many. `step` is a range's name or, with
    `is_pattern`, a regular expression; see `find_steps` for what a step is.

    Raises:
        StepsNotFound: no process has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    names = Names.from_ranges(timeline.ranges)
    if step is None:
        found = whole_windows(timeline, names)
    else:
        found = find_steps(timeline, names, step=step, is_pattern=is_pattern, warmup=warmup, steps=steps)
    share = memory_share_h2d(timeline)
    # numpy lets go of the interpreter while it sorts: gaps and sums are found side by side.
    with ThreadPoolExecutor(max_workers=1) as pool:
        devices = Devices(timeline, pool, frozenset(one.process for one in found))
        return tuple(
            _measure_process(timeline, one, cut(timeline.ranges, names, one), devices, memory_share=share)
            for one in _with_others(timeline, found)
        )


def _with_others(timeline: Timeline, found: Sequence[Steps]) -> Iterator[Steps]:
    """The steps of each process, with the complaint that those of another are at another time.

    Where each has GPUs of its own, or it cannot be told which it has, they may be of one job all the same, of replicas
    that began at different times.
    """
    for one in found:
        apart = [
            timeline.processes[other.process]
            for other in found
            if (other.starts[0] >= one.ends[-1] or other.ends[-1] <= one.starts[0])
            and not _have_their_own(timeline, one.process, other.process)
        ]
        if not apart or one.whole:
            yield one
            continue
        told = (
            f"the steps of processes {timeline.processes[one.process]} and {apart[0]} are one after the other: they "
            "are no ranks of one job; let `step` match those of one of them"
        )
        yield replace(one, complaints=(*one.complaints, told))


def _have_their_own(timeline: Timeline, process: int, other: int) -> bool:
    own, theirs = devices_of(timeline, process), devices_of(timeline, other)
    return bool(own and theirs) and ("devices" in timeline.missing or own.isdisjoint(theirs))


def devices_of(timeline: Timeline, process: int) -> frozenset[int]:
    """The devices on which a process ran anything."""
    return frozenset(
        one for ops in timeline.operations for one in np.unique(ops.device[ops.process == process]).tolist()
    )


def memory_share_h2d(timeline: Timeline) -> float | None:
    """Host-to-device's share of all copy and memset time of the capture, 0-1; None where there is neither.

    As `cuda_gpu_mem_time_sum` prints it: to 0.1 %, and managed memory's migrations have a row of their own.
    """
    length = timeline.copies.end - timeline.copies.start
    total = int(length.sum()) + int((timeline.memsets.end - timeline.memsets.start).sum())
    return round(int(length[timeline.copies.kind == CopyKind.H2D].sum()) / total, 3) if total else None


class Devices:
    """When each device was idle, over all processes and streams; found once for all processes that share it."""

    def __init__(self, timeline: Timeline, pool: Executor, stepping: frozenset[int]) -> None:
        """Start on what every capture with copies needs; `stepping` are the processes that have steps."""
        self._timeline = timeline
        self._stepping = stepping
        t = timeline
        present = sorted({one for ops in t.operations for one in _devices(ops)})
        copied = bool(len(t.copies.start) or len(t.memsets.start))
        self._all = {one: pool.submit(self._idle, one, memory=True) for one in present}
        self._kernels = {one: pool.submit(self._idle, one, memory=False) for one in present if copied}
        self._but_nccl: dict[int, Idle] = {}

    @cached_property
    def nccl(self) -> Flags:
        """Which kernels of the capture are NCCL's, shape (n,)."""
        keys = [key for key, name in self._timeline.names.items() if NCCL_KERNEL.match(name)]
        of_kernels = self._timeline.kernels.name
        return np.isin(of_kernels, keys) if keys else np.zeros(len(of_kernels), np.bool_)

    def idle(self, device: int) -> Idle:
        """Times without any operation."""
        return self._all[device].result()

    def idle_of_kernels(self, device: int) -> Idle:
        """Times without a kernel, NCCL's included, or a whole graph; only where the capture copies or sets memory."""
        return self._kernels[device].result()

    def idle_but_nccl(self, device: int) -> Idle:
        """Times without any operation other than NCCL's kernels."""
        if device not in self._but_nccl:
            self._but_nccl[device] = self._idle(device, memory=True, but=self.nccl)
        return self._but_nccl[device]

    def idle_of_stepless(self, device: int) -> tuple[Idle, tuple[int, ...]] | None:
        """Times without any operation of processes without steps, and their pids; None where they run nothing there."""
        t = self._timeline
        if len(t.processes) == len(self._stepping):
            return None
        here = [(ops, (ops.device == device) & ~np.isin(ops.process, list(self._stepping))) for ops in t.operations]
        pids = {t.processes[one] for ops, own in here for one in np.unique(ops.process[own])}
        if not pids:
            return None
        parts = [_chosen(ops, own) for ops, own in here]
        idle = Idle.from_intervals([start for start, _ in parts], [end for _, end in parts])
        return idle, tuple(sorted(pids))

    def _idle(self, device: int, *, memory: bool, but: Flags | None = None) -> Idle:
        t = self._timeline
        tables: tuple[Kernels | Copies | Spans, ...] = (t.graphs, t.copies, t.memsets) if memory else (t.graphs,)
        on = t.kernels.device == device if but is None else (t.kernels.device == device) & ~but
        parts = [_chosen(t.kernels, on), *(_chosen(ops, ops.device == device) for ops in tables)]
        return Idle.from_intervals([start for start, _ in parts], [end for _, end in parts])


def _devices(ops: Kernels | Copies | Spans) -> list[int]:
    if len(ops.device) and ops.device.min() == ops.device.max():
        return [int(ops.device[0])]
    return [int(one) for one in np.unique(ops.device)]


def _chosen(ops: Kernels | Copies | Spans, rows: Flags) -> tuple[Ints, Ints]:
    return (ops.start, ops.end) if rows.all() else (ops.start[rows], ops.end[rows])


def _measure_process(
    timeline: Timeline, steps: Steps, segments: Segments, devices: Devices, *, memory_share: float | None
) -> ProcessSample:
    totals = tally(timeline, steps.process, segments)
    done = completions(steps, segments, totals)
    count = len(steps)
    kept = end_periods(steps)
    windows = Windows.of_whole(steps) if steps.whole else Windows.of_periods(done, kept)
    periods = np.diff(done)[kept[1:]] / 1e6

    values: dict[Metric, float] = {}
    absent: dict[Metric, str] = {}
    if steps.whole:
        absent[Metric.STEP_MS] = "the captured window was measured as one, without steps"
    elif len(periods):
        values[Metric.STEP_MS] = float(np.median(periods))
    else:
        absent[Metric.STEP_MS] = why_no_period(steps)
    values |= _sums(steps, segments, totals)
    in_use = in_steady_use(steps, segments, totals)
    per_device = {
        device: _device_values(devices, device, own, windows if device in in_use else None, count)
        for device, own in sorted(totals.devices.items())
    }
    for metric in _EXPOSED:
        values[metric] = sum(of_device[metric] for of_device in per_device.values())
    if windows is not None:
        values[Metric.GAP_MS] = sum(per_device[device][Metric.GAP_MS] for device in in_use)
    if windows is None:
        absent[Metric.GAP_MS] = why_no_period(steps)

    unplaced = _unplaced(steps, segments, totals)
    if unplaced:
        absent |= dict.fromkeys((Metric.STEP_MS, *_FROM_OPERATIONS), unplaced)
    absent |= _why_absent(timeline, steps, segments, totals, devices) | absent
    values = {metric: values[metric] for metric in METRICS if metric in values and metric not in absent}
    inside = segments.step >= 0
    by_step = sum_by(segments.step[inside], totals.by_segment[Metric.KERNEL_MS][inside], count)
    nvtx_step_ms = None if steps.whole else float(np.median(steps.range_ends - steps.starts)) / 1e6
    idle = {device: devices.idle(device) for device in in_use} if Metric.GAP_MS in values else {}
    by_segment = _attributable(segments, totals, count, values)
    if idle and windows is not None:
        gaps = [
            gaps_by_segment(
                segments, of_device, windows, Queued.of(timeline, segments, of_device, steps.process, device)
            )
            for device, of_device in idle.items()
        ]
        by_segment[Metric.GAP_MS] = (reduce(np.add, gaps), windows.steps)
    gpus = {gpu.device: gpu.name for gpu in timeline.gpus}
    return ProcessSample(
        pid=timeline.processes[steps.process],
        steps=0 if steps.whole else count,
        step_names=steps.names,
        values=values,
        absent={metric: absent[metric] for metric in METRICS if metric in absent},
        window_ms=windows.ns / 1e6 if windows and not unplaced else 0.0,
        nvtx_step_ms=nvtx_step_ms,
        memory_share_h2d=memory_share,
        periods_ms=() if steps.whole or unplaced else tuple(periods.tolist()),
        bouts=_bouts(steps, done, kept, list(idle.values())) if Metric.STEP_MS in values else (),
        devices=tuple(
            DeviceSample(
                device=device,
                name=gpus.get(device),
                values={metric: of_device[metric] for metric in METRICS if metric in of_device and metric in values},
            )
            for device, of_device in per_device.items()
        ),
        ranges=range_samples(segments, by_segment, steps=count),
        kernels=() if unplaced else kernel_samples(totals.kernels, totals.memory, steps=count),
        copies=() if unplaced else copy_samples(totals.copies, steps=count),
        syncs=() if Metric.SYNCS in absent else sync_samples(totals.syncs, segments.labels, steps=count),
        remarks=(*steps.remarks, *_remarks(steps, segments, totals, in_use, done, values, nvtx_step_ms)),
        complaints=(
            *steps.complaints,
            *(() if "devices" in timeline.missing else _done_elsewhere(devices, in_use, windows)),
            *(() if unplaced else _complaints(timeline, steps, segments, done, kept, by_step, totals, values)),
        ),
    )


def in_steady_use(steps: Steps, segments: Segments, totals: Tally) -> tuple[int, ...]:
    """The devices whose idle time counts, in order: those that more than `STRAY` of the steps use, or all.

    One operation a window on another device, an allocation or a metric's sum, does not make all of its time idle.
    """
    used = {}
    for device in sorted(totals.devices):
        turns = segments.turn[totals.operations_on[device] > 0]
        used[device] = len(np.unique(turns[turns >= 0]))
    steady = tuple(device for device, number in used.items() if number > STRAY * len(steps))
    return steady or tuple(used)


def _bouts(steps: Steps, done: Ints, kept: Flags, idle: Sequence[Idle]) -> tuple[BoutSample, ...]:
    """What lies between two waits, where there are any; `idle` is of each device that the steps used."""
    if not steps.resumes.any():
        return ()
    number = np.cumsum(steps.resumes)
    found: list[BoutSample] = []
    for index in range(int(number[-1]) + 1):
        windows = Windows.of_periods(done, own := kept & (number == index))
        if windows is not None:
            periods = (done[own] - done[np.flatnonzero(own) - 1]) / 1e6
            gap_ns = [int(windows.until(windows.ends[-1:], of_device)[0]) for of_device in idle]
            gap_ms = sum(gap_ns) / 1e6 / windows.steps if gap_ns else None
            found.append(BoutSample(number=index, step_ms=float(np.median(periods)), gap_ms=gap_ms))
    return tuple(found)


def _sums(steps: Steps, segments: Segments, totals: Tally) -> dict[Metric, float]:
    inside = segments.turn >= 0
    values: dict[Metric, float] = {}
    for metric, sums in totals.by_segment.items():
        by_step = sum_by(segments.turn[inside], sums[inside], len(steps))
        values[metric] = float(np.median(by_step)) if metric in COUNTS else int(by_step.sum()) / 1e6 / len(steps)
    return values


def _device_values(
    devices: Devices, device: int, own: DeviceTally, windows: Windows | None, steps: int
) -> dict[Metric, float]:
    """One device's clocks. Exposed is what lies in the idle time of what it could have overlapped with."""
    exposed = {
        Metric.H2D_EXPOSED_MS: devices.idle_of_kernels(device).overlap(*own.h2d) if len(own.h2d[0]) else 0,
        Metric.NCCL_EXPOSED_MS: devices.idle_but_nccl(device).overlap(*own.nccl) if len(own.nccl[0]) else 0,
        Metric.MEM_EXPOSED_MS: devices.idle_of_kernels(device).overlap(*own.other_memory) if own.memory else 0,
    }
    clocks = dict.fromkeys((Metric.KERNEL_MS, Metric.NCCL_MS, Metric.H2D_MS), 0) | own.ns | exposed
    values = {metric: ns / 1e6 / steps for metric, ns in clocks.items()}
    if windows is not None:
        idle = windows.until(windows.ends[-1:], devices.idle(device))
        values[Metric.GAP_MS] = int(idle[0]) / 1e6 / windows.steps
    return values


def _why_absent(
    timeline: Timeline, steps: Steps, segments: Segments, totals: Tally, devices: Devices
) -> dict[Metric, str]:
    pid = timeline.processes[steps.process]
    absent: dict[Metric, str] = {}
    launched = int(totals.by_segment[Metric.LAUNCHES][segments.turn >= 0].sum())
    if not totals.devices:
        if timeline.gpu_operations:
            why = f"process {pid} launched no GPU operation{'' if steps.whole else ' in its steps'}"
        else:
            why = timeline.missing.get("kernels", _NO_OPERATIONS)
        absent |= dict.fromkeys(_FROM_OPERATIONS, why)
    elif launched and not totals.kernels:
        held = len(timeline.kernels.start) + len(timeline.graphs.start)
        none = "none of them" if held else "none"
        absent |= dict.fromkeys(_FROM_KERNELS, f"process {pid} launched {launched} kernels, the capture holds {none}")
    elif totals.launched and totals.lost == totals.launched and not totals.kernels:
        why = f"process {pid} launched {totals.launched} CUDA graphs, the capture holds none of their work"
        absent |= dict.fromkeys(_FROM_KERNELS, why)
    elif unnamed := timeline.missing.get("names of kernels"):
        absent |= dict.fromkeys(_NCCL, unnamed)
    elif not devices.nccl.any():
        in_graphs = " outside the CUDA graphs, which were traced whole" if len(timeline.graphs.start) else ""
        absent |= dict.fromkeys(_NCCL, f"{NO_NCCL}{in_graphs}")
    absent = _untimed(steps, totals) | _uncopied(timeline, steps, totals) | absent
    if merged := timeline.missing.get("devices"):
        absent = dict.fromkeys((Metric.GAP_MS, *_EXPOSED), merged) | absent
    if not len(timeline.calls.start):
        absent |= dict.fromkeys(_FROM_CALLS, timeline.missing.get("calls", _NO_CALLS))
    elif not totals.calls:
        absent |= dict.fromkeys(_FROM_CALLS, f"the capture holds no CUDA API calls of process {pid}")
    elif lacking := timeline.missing.get("names of calls") or _calls_lost(steps, segments, totals):
        absent |= dict.fromkeys(_FROM_CALLS, lacking)
    if totals.unknown_host and Metric.PAGEABLE_COPIES not in absent:
        absent[Metric.PAGEABLE_COPIES] = (
            f"of {totals.unknown_host} copies the capture does not say which memory they used"
        )
    return absent


def _uncopied(timeline: Timeline, steps: Steps, totals: Tally) -> dict[Metric, str]:
    """What cannot be told where the steps ask for copies and the capture holds none at all."""
    if len(timeline.copies.start) or totals.copying < FEWEST_APART * len(steps) or not totals.copying:
        return {}
    why = timeline.missing.get("copies") or (
        f"the steps make {totals.copying} calls that copy, the capture holds no copy"
    )
    return dict.fromkeys(_FROM_COPIES, why)


def _calls_lost(steps: Steps, segments: Segments, totals: Tally) -> str | None:
    """Say that the capture lacks calls whose operations it holds, so that a median of counts may lack them; else None.

    What was launched before the capture began and ran in its first steps has no call in it either: a quarter of the
    steps is left out.
    """
    if steps.whole:
        lost, held = int(totals.calls_lost.sum()), int(totals.operations.sum())
        if lost <= MOST_LOST * held:
            return None
        return f"of {held} GPU operations {lost} have no API call in the capture: it lacks calls"
    later = segments.step >= len(steps) // 4
    lacking = np.unique(segments.step[later & (totals.calls_lost > 0)])
    held = len(steps) - len(steps) // 4
    if len(lacking) <= MOST_STEPS_LACKING * held:
        return None
    return (
        f"in {len(lacking)} of the last {held} steps GPU operations ran that have no API call in the capture: it lacks "
        "calls"
    )


def _untimed(steps: Steps, totals: Tally) -> dict[Metric, str]:
    """What cannot be told where none of the steps' kernels, or of their host-to-device copies, has a duration.

    CUPTI could not time such an operation. What it took is in the gaps, and a sum of it would be 0.
    """
    kernels: dict[Metric, list[Work]] = {Metric.KERNEL_MS: [], Metric.NCCL_MS: []}
    for name, work in totals.kernels.items():
        kernels[Metric.NCCL_MS if NCCL_KERNEL.match(name) else Metric.KERNEL_MS].append(work)
    copies = [work for (kind, _), work in totals.copies.items() if kind in (CopyKind.H2D, CopyKind.UVM_H2D)]
    others = [work for words, work in totals.memory.items() if "Host-to-Device" not in words]
    words = "kernels and CUDA graphs" if GRAPH_WORDS in totals.kernels else "kernels"
    told: tuple[tuple[Sequence[Work | CopyWork], str, tuple[Metric, ...]], ...] = (
        (kernels[Metric.KERNEL_MS], words, (Metric.KERNEL_MS, Metric.GAP_MS, *_EXPOSED)),
        (kernels[Metric.NCCL_MS], "NCCL kernels", (Metric.NCCL_MS, Metric.GAP_MS, *_EXPOSED)),
        (copies, "host-to-device copies", (Metric.H2D_MS, Metric.H2D_EXPOSED_MS)),
        (others, "memsets and other copies", (Metric.MEM_EXPOSED_MS,)),
        ([*totals.kernels.values(), *totals.memory.values()], "GPU operations", (Metric.GAP_MS,)),
    )
    absent: dict[Metric, str] = {}
    for works, what, metrics in told:
        if works and not any(work.gpu_ns for work in works):
            count = sum(work.count for work in works)
            where = "" if steps.whole else " in the steps"
            why = f"the capture does not say how long any of the {count} {what}{where} took"
            absent = dict.fromkeys(metrics, why) | absent
    return absent


def _unplaced(steps: Steps, segments: Segments, totals: Tally) -> str | None:
    """Why the steps' operations are not known, if no call links them to a step and they ran outside of all.

    A CPU that runs ahead has closed the steps by the time their work runs; only the calls tell then whose it is.
    """
    if steps.whole:
        return None
    since = np.concatenate((segments.edges[:1] - 1, segments.edges)) >= steps.starts[0]
    outside = int(totals.without_call[since & (segments.step < 0)].sum())
    if outside <= MOST_OUTSIDE * int(totals.operations[since].sum()):
        return None
    return (
        f"{outside} GPU operations ran outside the steps, and the capture does not say which step launched them: "
        "it holds no API call with their correlation id"
    )


def _attributable(
    segments: Segments, totals: Tally, steps: int, values: Mapping[Metric, float]
) -> dict[Metric, tuple[Ints, float]]:
    """Per metric that was measured, but for gaps: its sums by segment, of turns only; and the divisor."""
    inside = segments.turn >= 0
    return {
        metric: (np.where(inside, sums, 0), float(steps))
        for metric, sums in totals.by_segment.items()
        if metric in values
    }


def gaps_by_segment(segments: Segments, idle: Idle, windows: Windows, queued: Queued) -> Ints:
    """A device's idle ns in the windows: under the launch of what was queued already, else where the CPU was."""
    edges = np.concatenate((windows.starts[:1], segments.edges, windows.ends[-1:]))
    by_time = np.diff(windows.until(edges, idle.only(~queued.flags)))
    begins, ends = idle.starts[queued.flags], (idle.starts + np.diff(idle.before))[queued.flags]
    lasted = windows.within(begins, ends)
    return np.asarray(by_time + sum_by(queued.segment, lasted, len(segments.step)), np.int64)


def _done_elsewhere(devices: Devices, in_use: Sequence[int], windows: Windows | None) -> Iterator[str]:
    """Say that processes without steps keep the steps' GPUs busy: that is in no metric but as busy time."""
    if windows is None or not windows.ns:
        return
    for device in in_use:
        stepless = devices.idle_of_stepless(device)
        if stepless is None:
            continue
        idle, pids = stepless
        busy = 1 - int(windows.until(windows.ends[-1:], idle)[0]) / windows.ns
        if busy > MOST_ELSEWHERE:
            named = ", ".join(map(str, pids))
            yield (
                f"{'process' if len(pids) == 1 else 'processes'} {named} of the same workload, in which no step is "
                f"marked, kept GPU {device} busy for {busy:.1%} of the steps: it is in no metric; mark the steps there "
                "too, or let the process with the steps do that work"
            )


def _complaints(
    timeline: Timeline,
    steps: Steps,
    segments: Segments,
    done: Ints,
    kept: Flags,
    kernel_ns: Ints,
    totals: Tally,
    values: Mapping[Metric, float],
) -> Iterator[str]:
    """What says that the steps are not those of a settled loop."""
    inside, busy = segments.turn >= 0, totals.by_segment[Metric.KERNEL_MS] + totals.by_segment[Metric.NCCL_MS]
    busy_ns, ran = (sum_by(segments.turn[inside], sums[inside], len(steps)) for sums in (busy, totals.operations))
    if (first := unsettled(timeline, steps, done, kept, kernel_ns, busy_ns, ran)) is not None:
        yield first
    if totals.lost > MOST_LOST * totals.launched:
        has_graphs = totals.by_segment[Metric.GRAPH_LAUNCHES].any()
        launches = "launches of kernels and CUDA graphs" if has_graphs else "kernel launches"
        what = "of them" if has_graphs else "kernels"
        yield (
            f"of {totals.launched} {launches} in the steps the capture lacks {totals.lost} {what}: the profiler was "
            "stopped before the GPU had ended them, or lost them; synchronise before it stops, or let it stop later"
        )
    if len(timeline.copies.start) and totals.copies_lost > MOST_COPIES_LOST * totals.copying:
        yield (
            f"of {totals.copying} calls that copy in the steps the capture lacks the copies of {totals.copies_lost}: "
            "the profiler was stopped before they had ended, or lost them; synchronise before it stops"
        )
    held = int(totals.operations.sum())
    few = max(MOST_LOST * held, min(FEW_UNTIMED, MOST_UNTIMED * held))
    if totals.without_times > few and not _untimed(steps, totals):
        yield (
            f"of {held} GPU operations {totals.without_times} have no times in the capture, "
            "and would count as 0 ms: run it again"
        )
    last = last_ends(steps, segments, totals)
    overtaken = (last > -FOREVER) & (np.maximum(steps.ends, last) < done)
    # The step behind those that an operation spans has a period that is too short as well.
    spans = int((overtaken[1:] & ~overtaken[:-1]).sum())
    if int(overtaken.sum()) + spans > MOST_OVERTAKEN * len(steps):
        yield (
            f"GPU work of earlier steps goes on beyond {int(overtaken.sum())} of the {len(steps)} steps: they are "
            "complete in clumps, whose periods are no step's; wait in a step for what it starts, or mark the whole "
            "cycle as one step"
        )
    step_ms = values.get(Metric.STEP_MS)
    if step_ms is not None and step_ms < EMPTY_BELOW_MS and not totals.devices:
        yield (
            f"a step takes {step_ms:.2g} ms, about what marking it takes, and launches nothing on a GPU: the work is "
            "done elsewhere; do it in the body of the loop over the steps"
        )


def _remarks(
    steps: Steps,
    segments: Segments,
    totals: Tally,
    in_use: Sequence[int],
    done: Ints,
    values: Mapping[Metric, float],
    nvtx_step_ms: float | None,
) -> Sequence[str]:
    told: list[str] = []
    step_ms = values.get(Metric.STEP_MS)
    if step_ms is not None and not totals.devices:
        told.append("no GPU operation was launched in the steps: step_ms is CPU time only")
    elif step_ms is not None and nvtx_step_ms is not None and nvtx_step_ms < AHEAD_BELOW * step_ms:
        behind = np.median(done - steps.ends)
        if behind >= np.median((steps.starts[1:] - steps.ends[:-1])[~steps.resumes[1:]]):
            ahead = f"the step range lasts {nvtx_step_ms:.4g} ms, a step takes {step_ms:.4g} ms"
            told.append(f"the CPU runs ahead of the GPU: {ahead}")
        else:
            told.append(
                f"a step takes {step_ms:.4g} ms, of which its range is {nvtx_step_ms:.4g} ms: the rest lies between"
            )
    if linkless := int(totals.without_call.sum()):
        told.append(f"{linkless} GPU operations have no API call in the capture: they count where they ran")
    if totals.without_times:
        counted = "" if _untimed(steps, totals) else ": they count as 0 ms"
        told.append(f"{totals.without_times} GPU operations have no times in the capture{counted}")
    between = (segments.step < 0) & (segments.turn >= 0)
    if apart := int(totals.operations[between].sum()):
        told.append(
            f"{apart / len(steps):.4g} GPU operations per step were launched between the steps: "
            "they count to the step before them"
        )
    if passing := [device for device in totals.devices if device not in in_use]:
        told.append(
            f"{'GPU' if len(passing) == 1 else 'GPUs'} {', '.join(map(str, sorted(passing)))} ran something in next "
            "to none of the steps: no idle time is counted there"
        )
    return told
