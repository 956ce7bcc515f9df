"""When each device was idle, what of a process's work nothing hides, and to which of its moments
idle time belongs; it must not know what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor, Future
from typing import Final

import numpy as np

from perfgate.metrics.intervals import FOREVER, Idle, Windows
from perfgate.metrics.process import Process
from perfgate.metrics.tally import NCCL_KERNEL
from perfgate.model.arrays import distinct, parts
from perfgate.model.metric import Metric
from perfgate.model.timeline import Flags, Ints, Spans, Timeline

_OF: Final = {
    Metric.H2D_EXPOSED_MS: (Metric.H2D_MS, "kernels"),
    Metric.NCCL_EXPOSED_MS: (Metric.NCCL_MS, "all but NCCL"),
    Metric.MEM_EXPOSED_MS: (Metric.MEM_EXPOSED_MS, "kernels"),
}
"""Of which operations (`Group.metric`) each is the part that nothing hides, and what could."""


class Devices:
    """When each device was idle, over all processes and streams; found once for all processes that
    share it."""

    def __init__(self, timeline: Timeline, pool: Executor, stepping: frozenset[int]) -> None:
        """Start on what every capture with copies needs; `stepping` are the processes that have
        steps."""
        self.stepping = stepping
        """The processes that have steps."""
        t, kernels = timeline, timeline.kernels
        rest = (t.graphs, t.copies, t.memsets)
        keys = [key for key, name in t.names.items() if NCCL_KERNEL.match(name)]
        self.nccl: Flags = np.isin(kernels.name, keys)
        """Which kernels of the capture are NCCL's, shape (n,)."""
        present = {one for ops in t.operations for one in distinct(ops.device).tolist()}
        self.present = sorted(present)
        """Those on which any process of the capture ran anything."""
        copied = bool(len(t.copies.start) or len(t.memsets.start))
        self._idle: dict[tuple[int, str], Future[Idle]] = {}
        """By device, and by what does not run."""
        for one in self.present:
            self._idle[one, "any"] = pool.submit(idle_of, on(one, kernels, *rest))
            if copied:
                self._idle[one, "kernels"] = pool.submit(idle_of, on(one, kernels, t.graphs))
            if self.nccl.any():
                others = [(kernels, (kernels.device == one) & ~self.nccl), *on(one, *rest)]
                self._idle[one, "all but NCCL"] = pool.submit(idle_of, others)

    def idle(self, device: int) -> Idle:
        """Times without any operation."""
        return self._idle[device, "any"].result()

    def exposed(self, process: Process, device: int) -> dict[Metric, Ints]:
        """What lies in the idle time of what it could have overlapped with, ns on one device, by
        segment of launch.

        Of copies and memsets that is kernels, NCCL's included, and whole graphs; of NCCL's kernels
        all but these.
        """
        size = len(process.segments)
        found: dict[Metric, Ints] = {}
        for metric, (of, others) in _OF.items():
            own = [one for one in process.totals.groups if (one.metric, one.device) == (of, device)]
            found[metric] = np.zeros(size, np.int64)
            if own:
                idle = self._idle[device, others].result()
                segment = np.concatenate([one.segment for one in own])
                start = np.concatenate([one.start for one in own])
                end = np.concatenate([one.end for one in own])
                found[metric] = idle.overlap_by(segment, start, end, size)
        return found


def on(device: int, *tables: Spans) -> list[tuple[Spans, Flags]]:
    """Of each table, which of its rows ran on a device."""
    return [(ops, ops.device == device) for ops in tables]


def idle_of(operations: Iterable[tuple[Spans, Flags]]) -> Idle:
    """When none of some operations runs: of each table, which of its rows."""
    chosen = [
        (ops.start, ops.end) if rows.all() else (ops.start[rows], ops.end[rows])
        for ops, rows in operations
    ]
    return Idle.from_intervals([start for start, _ in chosen], [end for _, end in chosen])


def gaps_by_segment(process: Process, windows: Windows, idle: Idle, device: int) -> Ints:
    """A device's idle ns in the windows: under the launch of what was queued already, else where
    the CPU was.

    ```
    launch    ^a^b                    ^c
    kernel      |--a--|     |--b--|         |--c--|
    idle               |-q-|       |--------|          q: under the range that launched b
    ```
    Where the operation that ends it was launched before it began, the GPU waits for another stream,
    for a copy, or for itself; what the CPU does meanwhile has no part in it. Where it was launched
    later, the GPU waits for what the CPU does.
    """
    segments, calls, ends = process.segments, process.totals.calls, idle.ends
    ids = _launched_by(process, ends, device)
    queued = np.zeros(len(ids), np.bool_)
    by_launch = np.zeros(len(segments), np.int64)
    for part in parts(len(ids)):
        begun = calls.begun(calls.place(ids[part]))
        queued[part] = waits = (begun < idle.starts[part]) & (ids[part] > 0)
        lasted = windows.until(ends[part][waits]) - windows.until(idle.starts[part][waits])
        np.add.at(by_launch, segments.at(begun[waits]), lasted)
    return by_launch + segments.time_in(windows, idle.only(~queued))


def _launched_by(process: Process, ends: Ints, device: int) -> Ints:
    """The correlation id of what the process began on a device at each of these times, in order;
    `FOREVER` where it began nothing.

    Of those that begin at once the lowest counts: the order of rows changes nothing. It is 0 for
    what moves managed memory: no call launches that, whichever has its id.
    """
    ids = np.full(len(ends), FOREVER)
    for ops in process.timeline.operations:
        for part in parts(len(ops.start)):
            start = ops.start[part]
            launched_by = np.where(ops.managed(part), 0, ops.correlation[part])
            near = slice(*np.searchsorted(ends, (start.min(), start.max() + 1)))
            at = near.start + np.searchsorted(ends[near], start)
            begun = ends.take(at, mode="clip") == start
            begun &= (ops.device[part] == device) & (ops.process[part] == process.steps.process)
            np.minimum.at(ids, at[begun], launched_by[begun])
    return ids
