"""Which devices a process used, and when each of them was idle; it must not know when the steps
were."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from functools import cached_property

import numpy as np

from perfgate.metrics.intervals import Idle
from perfgate.metrics.tally import NCCL_KERNEL
from perfgate.metrics.windows import Windows
from perfgate.model.arrays import distinct
from perfgate.model.timeline import Flags, Spans, Timeline


def devices_of(timeline: Timeline, process: int) -> frozenset[int]:
    """The devices on which a process ran anything."""
    return frozenset(
        one
        for ops in timeline.operations
        for one in distinct(ops.device[ops.process == process]).tolist()
    )


class Devices:
    """When each device was idle, over all processes and streams; found once for all processes that
    share it."""

    def __init__(self, timeline: Timeline, pool: Executor, stepping: frozenset[int]) -> None:
        """Start on what every capture with copies needs; `stepping` are the processes that have
        steps."""
        self._timeline = timeline
        self.stepping = stepping
        """The processes that have steps."""
        t = timeline
        present = sorted({one for ops in t.operations for one in distinct(ops.device).tolist()})
        copied = bool(len(t.copies.start) or len(t.memsets.start))
        self._all = {one: pool.submit(self._idle, one, memory=True) for one in present}
        self._kernels = {
            one: pool.submit(self._idle, one, memory=False) for one in present if copied
        }
        self._but_nccl: dict[int, Idle] = {}

    @property
    def present(self) -> tuple[int, ...]:
        """Those on which any process of the capture ran anything."""
        return tuple(self._all)

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
        """Times without a kernel, NCCL's included, or a whole graph; only where the capture copies
        or sets memory."""
        return self._kernels[device].result()

    def idle_but_nccl(self, device: int) -> Idle:
        """Times without any operation other than NCCL's kernels."""
        if device not in self._but_nccl:
            self._but_nccl[device] = self._idle(device, memory=True, but=self.nccl)
        return self._but_nccl[device]

    def busy_by_stepless(
        self, device: int, windows: Windows
    ) -> tuple[float, tuple[int, ...]] | None:
        """Share of the windows in which processes without steps ran something, and their pids; None
        if they did not."""
        t = self._timeline
        if len(t.processes) == len(self.stepping):
            return None
        here = [
            (ops, (ops.device == device) & ~np.isin(ops.process, list(self.stepping)))
            for ops in t.operations
        ]
        pids = {t.processes[one] for ops, own in here for one in distinct(ops.process[own])}
        if not pids:
            return None
        return 1 - windows.idle_ns(idle_of(here)) / windows.ns, tuple(sorted(pids))

    def _idle(self, device: int, *, memory: bool, but: Flags | None = None) -> Idle:
        t = self._timeline
        tables = t.operations if memory else (t.kernels, t.graphs)
        here = [(ops, ops.device == device) for ops in tables]
        if but is not None:
            here[0] = (t.kernels, here[0][1] & ~but)
        return idle_of(here)


def idle_of(operations: Iterable[tuple[Spans, Flags]]) -> Idle:
    """When none of some operations runs: of each table, which of its rows."""
    chosen = [
        (ops.start, ops.end) if rows.all() else (ops.start[rows], ops.end[rows])
        for ops, rows in operations
    ]
    return Idle.from_intervals([start for start, _ in chosen], [end for _, end in chosen])
