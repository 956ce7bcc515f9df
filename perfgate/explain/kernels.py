"""Which kernels moved most, and what one launch of a kernel is limited by: only where its figures
say so."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from perfgate.explain.attribution import GONE, NEW, attributions, taken_apart
from perfgate.explain.names import identity
from perfgate.explain.processes import told_pair
from perfgate.explain.sides import differences
from perfgate.model.kernelfigures import LaunchFigures, MovedKernel
from perfgate.model.metric import Metric
from perfgate.model.sample import OTHER_KERNELS, Breakdown
from perfgate.model.side import Side
from perfgate.model.verdict import Axis, Part

MOVED: Final = 0.001
"""Share of all kernel time per step from which a kernel's change is worth a look: what runs differ
by."""
BUSY: Final = 60.0
"""Per cent of its peak from which NVIDIA's own rule calls a unit busy; below it on all units, a
kernel mostly waits."""
CLOSE: Final = 10.0
"""Percentage points within which compute and memory are as busy as each other."""


def moved_kernels(a: Side, b: Side, *, most: int) -> tuple[MovedKernel, ...]:
    """The kernels whose time per step differs most between a and b, the largest difference first.

    NCCL's are not among them: they spin while they wait, and what they wait for is no launch of
    theirs.
    """
    of_kernels = [row for row in differences(a, b) if row.metric is Metric.KERNEL_MS]
    own_a, own_b = a.breakdown, b.breakdown
    for row in of_kernels:
        own_a, own_b = told_pair(row, own_a, own_b, partial(taken_apart, rows={row.metric: row}))
    parts = [
        part
        for one in attributions(own_a, own_b, of_kernels, moved=lambda _: True, named=str)
        if one.axis is Axis.KERNEL
        for part in one.parts
        if part.name != OTHER_KERNELS
    ]
    floor = MOVED * max((row.baseline or 0.0 for row in of_kernels), default=0.0)
    before, now = _launches(own_a), _launches(own_b)
    large = [part for part in parts if abs(part.change) > floor]
    return tuple(_moved(part, before, now) for part in large[:most])


def _moved(part: Part, before: Mapping[str, float], now: Mapping[str, float]) -> MovedKernel:
    per_step_now = now.get(identity(part.name), 0.0)
    is_new, is_gone = part.note.startswith(NEW), part.note.startswith(GONE)
    # What the baseline does not tell apart may have been there: as often as now, for all that is
    # known.
    per_step_before = before.get(identity(part.name), 0.0 if is_new else per_step_now)
    return MovedKernel(
        name=part.name,
        change_ms=part.change,
        note=part.note,
        per_step_before=per_step_before,
        per_step_now=0.0 if is_gone else per_step_now,
    )


def _launches(side: Breakdown) -> dict[str, float]:
    counts: dict[str, float] = {}
    for row in side.kernels:
        if row.kind == "kernel":
            counts[identity(row.name)] = counts.get(identity(row.name), 0.0) + row.count
    return counts


def limited_by(launch: LaunchFigures) -> str | None:
    """What keeps a launch from being faster, in a sentence without full stop; None where its
    figures do not say.

    NVIDIA's own rule: from 60 % of a peak on, that unit is what a kernel works at; below, latency
    is.
    """
    compute, memory = launch.compute_percent, launch.memory_percent
    if compute is None or memory is None:
        return None
    shown = f"compute at {compute:.0f} %, memory at {memory:.0f} % of what they could do"
    if max(compute, memory) >= BUSY:
        if min(compute, memory) >= BUSY and abs(compute - memory) <= CLOSE:
            return f"limited by compute and memory alike: {shown}"
        return f"limited by {'compute' if compute > memory else 'memory'}: {shown}"
    if launch.waves is not None and launch.waves < 1:
        return f"too small to fill the GPU: its blocks are {100 * launch.waves:.0f} % of what runs at once, {shown}"
    return f"limited by neither, so mostly by latency: {shown}"
