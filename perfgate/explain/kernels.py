"""Which kernels moved most, and what one launch of a kernel is limited by: only where its figures
say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.explain.attribution import attributions, of_process
from perfgate.explain.names import identity
from perfgate.explain.sides import differences
from perfgate.model.comparison import LaunchFigures, MovedKernel, Side
from perfgate.model.diagnosis import Axis, Part
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import OTHER_KERNELS, Breakdown

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
    floor = MOVED * max((row.baseline or 0.0 for row in of_kernels), default=0.0)
    parts = [
        part
        for one in attributions(
            a.breakdown, b.breakdown, of_kernels, moved=lambda _: True, named=str
        )
        if one.axis is Axis.KERNEL
        for part in one.parts
        if part.name != OTHER_KERNELS and abs(part.change) > floor
    ]
    if not parts:
        return ()
    before, now = map(_launches, of_process(of_kernels[0], a.breakdown, b.breakdown))
    return tuple(_moved(part, before, now) for part in parts[:most])


def _moved(part: Part, before: Mapping[str, float], now: Mapping[str, float]) -> MovedKernel:
    codes = {one.code for one in part.notes}
    name = identity(part.name)
    # What the baseline does not name may have been there: as often as now, for all that is known.
    unknown = 0.0 if "part-new" in codes else now.get(name, 0.0)
    return MovedKernel(
        name=part.name,
        change_ms=part.change,
        notes=part.notes,
        per_step_before=before.get(name, unknown),
        per_step_now=0.0 if "part-gone" in codes else now.get(name, 0.0),
    )


def _launches(side: Breakdown) -> dict[str, float]:
    counts: dict[str, float] = {}
    for row in side.kernels:
        if row.kind == "kernel":
            counts[identity(row.name)] = counts.get(identity(row.name), 0.0) + row.count
    return counts


def limited_by(launch: LaunchFigures) -> Note | None:
    """What keeps a launch from being faster; None where its figures do not say.

    NVIDIA's own rule: from 60 % of a peak on, that unit is what a kernel works at; below, latency
    is.
    """
    compute, memory = launch.compute_percent, launch.memory_percent
    if compute is None or memory is None:
        return None
    if max(compute, memory) < BUSY:
        too_small = launch.waves is not None and launch.waves < 1
        code = "limited-by-size" if too_small else "limited-by-latency"
    elif min(compute, memory) >= BUSY and abs(compute - memory) <= CLOSE:
        code = "limited-by-both"
    else:
        code = "limited-by-compute" if compute > memory else "limited-by-memory"
    return note(code, compute=compute / 100, memory=memory / 100)
