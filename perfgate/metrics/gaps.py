"""To which moments of a process the idle time of a device belongs, and which of it the CPU is not
to blame for; it must not know what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfgate.metrics.intervals import FOREVER, Idle
from perfgate.metrics.process import Process
from perfgate.metrics.windows import Windows
from perfgate.model.arrays import parts
from perfgate.model.timeline import MANAGED_COPIES, Copies, Flags, Ints, SmallInts


def gaps_by_segment(process: Process, windows: Windows, idle: Idle, queued: Queued) -> Ints:
    """A device's idle ns in the windows: under the launch of what was queued already, else where
    the CPU was."""
    by_time = windows.by_segment(process.segments, idle.only(~queued.flags))
    begins, ends, at = idle.starts[queued.flags], idle.ends[queued.flags], queued.segment
    for part in parts(len(at)):
        np.add.at(by_time, at[part], windows.within(begins[part], ends[part]))
    return by_time


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
        """Look for the launch of what ends each idle time; of the outermost ones nothing does."""
        ids = _launched_by(process, idle.ends, device)
        flags, segment = np.zeros(len(ids), np.bool_), [np.empty(0, np.int32)]
        launches = process.totals.launches
        for part in parts(len(ids)):
            begun = launches.begun(launches.place(ids[part]))
            flags[part] = (begun < idle.starts[part]) & (ids[part] > 0)
            segment.append(process.segments.at(begun[flags[part]]))
        return cls(flags, np.concatenate(segment))

    def place(self, idle: Idle, times: Ints, at: SmallInts) -> SmallInts:
        """The segments `at` of moments at which idle times begin, with those of the launches where
        it was queued."""
        row = np.minimum(np.searchsorted(idle.starts, times), len(self.flags) - 1)
        if not len(self.segment):
            return at
        launched = self.segment[np.maximum(np.cumsum(self.flags)[row] - 1, 0)]
        return np.where(self.flags[row], launched, at).astype(np.int32)


def _launched_by(process: Process, ends: Ints, device: int) -> Ints:
    """The correlation id of what the process began on a device at each of these times, in order;
    `FOREVER` where it began nothing.

    Of those that begin at once the lowest counts: the order of rows changes nothing. It is 0 for
    what moves managed memory: no call launches that, whichever has its id.
    """
    ids = np.full(len(ends), FOREVER)
    for ops in process.timeline.operations:
        for part in parts(len(ops.start)):
            start, launched_by = ops.start[part], ops.correlation[part]
            if isinstance(ops, Copies):
                launched_by = np.where(np.isin(ops.kind[part], MANAGED_COPIES), 0, launched_by)
            near = slice(*np.searchsorted(ends, (start.min(), start.max() + 1)))
            at = near.start + np.searchsorted(ends[near], start)
            begun = ends.take(at, mode="clip") == start
            begun &= (ops.device[part] == device) & (ops.process[part] == process.steps.process)
            np.minimum.at(ids, at[begun], launched_by[begun])
    return ids
