"""What NVIDIA's tools are asked about two sides: what nsys's rules find in each capture,
which kernels moved most, and what one launch of a kernel is limited by."""

from __future__ import annotations

from typing import Final

from perfgate.explain.attribution import of_process
from perfgate.explain.names import identity
from perfgate.explain.parts import by_identity, by_kernel
from perfgate.explain.sides import differences
from perfgate.model.comparison import LaunchFigures, MovedKernel, Side
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.reports import Placing, RuleChange, RuleChanges, RuleName
from perfgate.model.sample import OTHER_KERNELS


def rule_changes(
    before: Placing | None, now: Placing, *, why_alone: Note | None = None
) -> RuleChanges:
    """Put what was found now next to what was found before, by rule and range.

    `why_alone` says why there is nothing from before.
    """
    rows = [
        RuleChange(rule=rule, range=name, before=(before or {}).get((rule, name)), now=found)
        for (rule, name), found in now.items()
    ]
    order = list(RuleName)
    rows.sort(key=lambda row: (order.index(row.rule), -row.now.ms, row.range))
    return RuleChanges(rows=tuple(rows), compared=before is not None, why_alone=why_alone)


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
    row = next((one for one in differences(a, b) if one.metric is Metric.KERNEL_MS), None)
    if row is None:
        return ()
    sides = of_process(row, a.breakdown, b.breakdown)
    before, now = (by_identity(side, ("kernel",)) for side in sides)
    floor = MOVED * (row.baseline or 0.0)
    found: list[MovedKernel] = []
    for part in by_kernel(Metric.KERNEL_MS, *sides, named=str):
        if part.name == OTHER_KERNELS or abs(part.change) <= floor:
            continue
        was, is_now = (side.get(identity(part.name)) for side in (before, now))
        per_step_now = is_now.count if is_now else 0.0
        # What the baseline does not name may have been there: as often as now, for all that is
        # known.
        is_new = any(one.code == "part-new" for one in part.notes)
        unknown = 0.0 if is_new else per_step_now
        found.append(
            MovedKernel(
                name=part.name,
                change_ms=part.change,
                notes=part.notes,
                per_step_before=was.count if was else unknown,
                per_step_now=per_step_now,
            )
        )
    return tuple(sorted(found, key=lambda one: -abs(one.change_ms))[:most])


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
