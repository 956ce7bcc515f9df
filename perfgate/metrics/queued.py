"""Idle times of a GPU that the CPU is not to blame for: what ends them had been launched before
they began."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfgate.metrics.intervals import FOREVER, Idle
from perfgate.metrics.process import Process
from perfgate.model.timeline import (
    MANAGED_COPIES,
    Copies,
    Flags,
    Ints,
    Kernels,
    SmallInts,
    Spans,
    Timeline,
)

_AT_ONCE = 1 << 16
"""Idle times that are looked at together: bounds what they take in other forms."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Which of a device's idle times end with an operation of the process that was queued already.

    ```
    launch    ^a^b                    ^c
    kernel      |--a--|     |--b--|         |--c--|
    idle               |-q-|       |--------|          q: under the range that launched b
    ```
    There the GPU waits for another stream, for a copy, or for itself; what the CPU does meanwhile
    has no part in it. Where the operation was launched later, the GPU waits for what the CPU does.
    """

    flags: Flags
    """Shape (n,) as `Idle.starts`."""
    segment: SmallInts
    """Of the launch, for each idle time that is flagged."""

    @classmethod
    def of(cls, process: Process, idle: Idle, device: int) -> Queued:
        """Look for the launch of what ends each idle time; both outermost ones have no end."""
        begins = idle.starts
        flags = np.zeros(len(begins), np.bool_)
        starts, correlation, mine = _operations(process.timeline, process.steps.process, device)
        if len(begins) < 3 or not len(starts):
            return cls(flags, np.empty(0, np.int32))
        segment: list[SmallInts] = []
        for first in range(1, len(begins) - 1, _AT_ONCE):
            part = slice(first, min(first + _AT_ONCE, len(begins) - 1))
            ends = begins[part] + np.diff(idle.before[part.start : part.stop + 1])
            row = np.minimum(np.searchsorted(starts, ends), len(starts) - 1)
            ids = np.where(mine[row] & (starts[row] == ends), correlation[row], 0)
            launches = process.totals.launches
            launched = np.where(ids > 0, launches.times[launches.place(ids)], FOREVER)
            flags[part] = launched < begins[part]
            segment.append(process.segments.at(launched[flags[part]]))
        return cls(flags, np.concatenate(segment))

    def place(self, idle: Idle, times: Ints, at: SmallInts) -> SmallInts:
        """The segments `at` of moments at which idle times begin, with those of the launches where
        it was queued."""
        row = np.minimum(np.searchsorted(idle.starts, times), len(self.flags) - 1)
        if not len(self.segment):
            return at
        launched = self.segment[np.maximum(np.cumsum(self.flags)[row] - 1, 0)]
        return np.where(self.flags[row], launched, at).astype(np.int32)


def _operations(timeline: Timeline, process: int, device: int) -> tuple[Ints, Ints, Flags]:
    """Start, correlation id and whether of the process, of all that ran on a device, by start."""
    on_device = [(ops, ops.device == device) for ops in timeline.operations]
    here = [(ops, slice(None) if on.all() else np.flatnonzero(on)) for ops, on in on_device]
    starts = np.concatenate([ops.start[rows] for ops, rows in here])
    correlation = np.concatenate([_launched_by(ops)[rows] for ops, rows in here])
    mine = np.concatenate([ops.process[rows] == process for ops, rows in here])
    order = np.argsort(starts, kind="stable")
    begun = starts[order]
    if bool((begun[1:] == begun[:-1]).any()):
        # Of those that start at once the process's own comes first, by its id: the order of rows
        # changes nothing.
        order = np.lexsort((correlation, ~mine, starts))
    return begun, correlation[order], mine[order]


def _launched_by(ops: Kernels | Copies | Spans) -> Ints:
    """The correlation ids, 0 for what moves managed memory: no call launches that, whichever has
    its id."""
    alone = np.isin(ops.kind, MANAGED_COPIES) if isinstance(ops, Copies) else np.False_
    return np.where(alone, 0, ops.correlation) if alone.any() else ops.correlation
