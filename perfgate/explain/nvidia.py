"""What NVIDIA's tools are asked about two sides: what nsys's rules find in each capture,
which kernels moved most, and what one launch of a kernel is limited by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from perfgate.explain.attribution import attributions, of_process
from perfgate.explain.names import identity
from perfgate.explain.sides import differences
from perfgate.model.comparison import LaunchFigures, MovedKernel, Side
from perfgate.model.diagnosis import Axis, Part
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.reports import PlacedFinding, Placing, RuleChange, RuleChanges, RuleName
from perfgate.model.sample import OTHER_KERNELS, Breakdown


def rule_changes(
    before: Placing | None, now: Placing, *, why_alone: Note | None = None
) -> RuleChanges:
    """Put what was found now next to what was found before, by rule and range, the mean over the
    processes.

    `why_alone` says why there is nothing from before.
    """
    then = {} if before is None else _by_place(before)
    rows = [
        RuleChange(rule=rule, range=name, before=then.get((rule, name)), now=found)
        for (rule, name), found in _by_place(now).items()
    ]
    order = list(RuleName)
    rows.sort(key=lambda row: (order.index(row.rule), -row.now.ms, row.range))
    return RuleChanges(rows=tuple(rows), compared=before is not None, why_alone=why_alone)


def _by_place(placing: Placing) -> dict[tuple[RuleName, str], PlacedFinding]:
    found: defaultdict[tuple[RuleName, str], list[PlacedFinding]] = defaultdict(list)
    for process in placing.processes:
        for row in process.rows:
            found[row.rule, row.range].append(row)
    among = max(len(placing.processes), 1)
    return {
        place: PlacedFinding(
            rule=place[0],
            range=place[1],
            count=sum(row.count for row in rows) / among,
            ms=sum(row.ms for row in rows) / among,
            bytes=sum(row.bytes for row in rows) / among,
            steps=max(row.steps for row in rows),
        )
        for place, rows in found.items()
    }


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
