"""Where in the steps the findings of nsys's rules lie, by step and innermost range; it must not
know how nsys finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from perfgate.metrics.devices import Queued, gaps_by_segment
from perfgate.metrics.intervals import Idle, sum_by
from perfgate.metrics.process import Process
from perfgate.metrics.steps import find_steps
from perfgate.model.arrays import among
from perfgate.model.reports import (
    Finding,
    Findings,
    PlacedFinding,
    Placing,
    ProcessFindings,
    RuleName,
)
from perfgate.model.timeline import Ints, SmallInts, Timeline

_PLACED_RULES: Final = (
    RuleName.CUDA_MEMCPY_ASYNC,
    RuleName.CUDA_MEMCPY_SYNC,
    RuleName.CUDA_MEMSET_SYNC,
    RuleName.CUDA_API_SYNC,
    RuleName.GPU_GAPS,
)
"""All but `GPU_TIME_UTIL`: a thirtieth of a capture is no place in a step."""


def place(
    findings: Findings,
    timeline: Timeline,
    *,
    step: str | None,
    is_pattern: bool = False,
    warmup: int = 0,
    steps: int | None = None,
) -> Placing:
    """Put each finding into the step and the innermost range that it lies in, of each process that
    has steps.

    ```
    step           |-------------0-------------|      |-------------1-------------|
    range            |-load-|  |---forward---|          |-load-|  |---forward---|
    call                 ^c1        ^c2
    copy                        |--c1--|       |--c2--|
    gap        ...--------------|      |-------|      |-----...
    ```
    - A call lies where it begins: on whichever thread, under the range of the step's thread then.
    - A copy or a memset lies where the call that launched it begins: c1 under load, c2 under
      forward.
    - A gap is counted where it begins, if that is in a period that `gap_ms` is taken over; its time
      is that of each range under which it passes. Both are of the range that launched what ends it,
      if that had been queued before it began (`Queued`), as in `gap_ms`. Of several devices their
      time is added up, where `gap_ms` is the mean.

    A gap in which something ran after all (a CUDA graph traced whole, another process) is only as
    long as what is left of it. Where a rule was cut, this is of what was read.

    `step`, `is_pattern`, `warmup` and `steps` are those of `measure`.

    Raises:
        StepsNotFound: no process has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    found = find_steps(timeline, step=step, is_pattern=is_pattern, warmup=warmup, steps=steps)
    placed = []
    for one in found:
        process = Process.of(timeline, one)
        rows = [
            row
            for name in _PLACED_RULES
            if (own := [row for row in findings.rows.get(name, ()) if row.pid == process.pid])
            for row in _placed(process, name, own)
        ]
        count = 0 if one.whole else len(one)
        placed.append(ProcessFindings(pid=process.pid, steps=count, rows=tuple(rows)))
    return Placing(processes=tuple(placed))


def _placed(process: Process, rule: RuleName, found: Sequence[Finding]) -> list[PlacedFinding]:
    """A row a range, by time."""
    if rule is RuleName.GPU_GAPS:
        return _gaps(process, found)
    segments, starts = process.segments, _starts(found)
    if rule is RuleName.CUDA_API_SYNC:
        at = segments.at(starts)
    else:
        real, at = _launched(process, rule, starts, starts + _durations(found))
        found = [found[index] for index in real.tolist()]
    some = segments.step[at] >= 0
    at, size = at[some], len(segments)
    moved = np.array([one.bytes or 0 for one in found], np.int64)[some]
    ns = sum_by(at, _durations(found)[some], size)
    rows = _rows(process, rule, at, ns, len(process.steps), len(process.steps))
    by_label = sum_by(segments.label[at], moved, len(segments.labels)) / len(process.steps)
    of_label = dict(zip(segments.labels, by_label.tolist(), strict=True))
    return [row.model_copy(update={"bytes": of_label[row.range]}) for row in rows]


def _rows(
    process: Process, rule: RuleName, at: SmallInts, ns: Ints, divisor: int, typical: float
) -> list[PlacedFinding]:
    """Findings in these segments, and their time by segment.

    Args:
        process: whose they are.
        rule: that found them.
        at: the segment of each.
        ns: of each segment.
        divisor: over how many steps they were counted.
        typical: over how many typical ones the time is.
    """
    segments, size = process.segments, len(process.segments.labels)
    counts = np.bincount(segments.label[at], minlength=size)
    time = sum_by(segments.label, ns, size)
    inside = at[segments.step[at] >= 0]
    pairs = np.unique(np.stack((segments.label[inside], segments.step[inside])), axis=1)
    in_steps = np.bincount(pairs[0], minlength=size)
    rows = [
        PlacedFinding(
            rule=rule,
            range=segments.labels[label],
            count=int(counts[label]) / divisor,
            ms=int(time[label]) / 1e6 / typical,
            steps=int(in_steps[label]),
        )
        for label in np.flatnonzero((counts > 0) | (time > 0)).tolist()
    ]
    return sorted(rows, key=lambda row: (-row.ms, row.range))


def _launched(process: Process, rule: RuleName, starts: Ints, ends: Ints) -> tuple[Ints, SmallInts]:
    """Which findings are of operations that the process ran, and the segments of their launches."""
    timeline = process.timeline
    ops = timeline.memsets if rule is RuleName.CUDA_MEMSET_SYNC else timeline.copies
    mine = np.flatnonzero((ops.process == process.steps.process) & among(ops.start, starts))
    row_of = {(int(ops.start[row]), int(ops.end[row])): row for row in mine.tolist()}
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    rows = np.array([row_of.get(span, -1) for span in spans], np.int64)
    return np.flatnonzero(rows >= 0), process.segment_of(ops, rows[rows >= 0])


def _gaps(process: Process, findings: Sequence[Finding]) -> list[PlacedFinding]:
    segments, windows, timeline = process.segments, process.windows, process.timeline
    if windows is None:
        return []
    ns = np.zeros(len(segments), np.int64)
    begun = [np.empty(0, np.int64)]
    lying = [np.empty(0, np.int32)]
    for device in process.totals.devices:
        own = timeline.ordinals.get((process.steps.process, device), device)
        gaps = [one for one in findings if one.device == own]
        starts = _starts(gaps)
        ends = starts + _durations(gaps)
        idle = _idle(timeline, device, starts, ends)
        queued = Queued.of(process, idle, device)
        ns += gaps_by_segment(process, windows, idle, queued)
        begun.append(real := starts[idle.until(ends) > idle.until(starts)])
        lying.append(queued.place(idle, real, segments.at(real)))
    starts = np.concatenate(begun)
    window = np.maximum(np.searchsorted(windows.starts, starts, side="right") - 1, 0)
    counted = (starts >= windows.starts[window]) & (starts < windows.ends[window])
    at = np.concatenate(lying)[counted]
    return _rows(process, RuleName.GPU_GAPS, at, ns, windows.periods, windows.steps)


def _idle(timeline: Timeline, device: int, starts: Ints, ends: Ints) -> Idle:
    """Times within these gaps in which nothing ran on the device: what is not in a gap is taken as
    busy."""
    outside = Idle.from_intervals([starts], [ends])
    here = [(ops, ops.device == device) for ops in timeline.operations]
    return Idle.from_intervals(
        [*(ops.start[on] for ops, on in here), outside.starts],
        [*(ops.end[on] for ops, on in here), outside.ends],
    )


def _starts(findings: Sequence[Finding]) -> Ints:
    return np.array([one.start_ns for one in findings], np.int64)


def _durations(findings: Sequence[Finding]) -> Ints:
    return np.array([one.duration_ns for one in findings], np.int64)
