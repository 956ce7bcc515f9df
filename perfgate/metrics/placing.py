"""Where in the steps the findings of nsys's rules lie, by step and innermost range; it must not
know how nsys finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from perfgate.metrics.devices import devices_of
from perfgate.metrics.gaps import gaps_by_segment
from perfgate.metrics.intervals import FOREVER, Idle, merged, sorted_edges, sum_by
from perfgate.metrics.process import Process
from perfgate.metrics.queued import Queued
from perfgate.metrics.steps import StepRule, find
from perfgate.model.arrays import among
from perfgate.model.findings import (
    Finding,
    Findings,
    PlacedFinding,
    Placing,
    ProcessFindings,
    RuleName,
)
from perfgate.model.timeline import Copies, Ints, SmallInts, Timeline

_COPY_RULES: Final = (RuleName.CUDA_MEMCPY_ASYNC, RuleName.CUDA_MEMCPY_SYNC)
_OPERATION_RULES: Final = (*_COPY_RULES, RuleName.CUDA_MEMSET_SYNC)
_PLACED_RULES: Final = (*_OPERATION_RULES, RuleName.CUDA_API_SYNC, RuleName.GPU_GAPS)
"""All but `GPU_TIME_UTIL`: a thirtieth of a capture is no place in a step."""

_NO_SEGMENTS: Final = np.empty(0, np.int32)


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
    - A copy or a memset lies where the call that launched it begins: c1 under load, c2 under forward.
    - A gap is counted where it begins, if that is in a period that `gap_ms` is taken over; its time
      is that of each range under which it passes. Both are of the range that launched what ends it,
      if that had been queued before it began (`Queued`), as in `gap_ms`. Of several devices their
      time is added up, where `gap_ms` is the mean.

    What nsys says is checked against the capture: what it does not hold does not count, and a gap
    in which something ran after all (a CUDA graph traced whole, another process) is only as long as
    what is left of it. Where a rule was cut, this is of what was read.

    `step`, `is_pattern`, `warmup` and `steps` are those of `measure`.

    Raises:
        StepsNotFound: no process has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    rule = StepRule.of(step, is_pattern=is_pattern, warmup=warmup, steps=steps)
    placed = []
    for one in find(timeline, rule):
        process = Process.of(timeline, one)
        own = {
            name: [row for row in findings.rows.get(name, ()) if row.pid == process.pid]
            for name in _PLACED_RULES
        }
        placed.append(_placed(process, own))
    return Placing(processes=tuple(placed))


def _placed(process: Process, findings: Mapping[RuleName, Sequence[Finding]]) -> ProcessFindings:
    rows: list[PlacedFinding] = []
    for rule in _PLACED_RULES:
        match rule:
            case _ if not findings[rule]:
                continue
            case RuleName.GPU_GAPS:
                found = _gaps(process, findings[rule])
            case RuleName.CUDA_API_SYNC:
                found = _calls(process, findings[rule])
            case _:
                found = _operations(process, rule, findings[rule])
        rows += found.rows(process, rule) if found is not None else ()
    count = 0 if process.steps.whole else len(process.steps)
    return ProcessFindings(pid=process.pid, steps=count, rows=tuple(rows))


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What one rule found, by label of the process's segments."""

    counts: Ints
    ns: Ints
    moved: Ints
    """Bytes."""
    at: SmallInts
    """The segments in which findings lie."""
    divisor: int
    """Over how many steps it was counted."""
    typical: float
    """And over how many typical ones the time is."""

    @classmethod
    def of(cls, process: Process, found: Sequence[Finding], at: SmallInts) -> _Found:
        """Findings that each lie in one segment; those outside of all steps do not count."""
        segments, size = process.segments, len(process.segments.labels)
        inside = np.flatnonzero(segments.step[at] >= 0)
        label = segments.label[at[inside]]
        durations = np.array([one.duration_ns for one in found], np.int64)[inside]
        moved = np.array([one.bytes or 0 for one in found], np.int64)[inside]
        return cls(
            counts=np.bincount(label, minlength=size),
            ns=sum_by(label, durations, size),
            moved=sum_by(label, moved, size),
            at=at[inside],
            divisor=len(process.steps),
            typical=len(process.steps),
        )

    def rows(self, process: Process, rule: RuleName) -> list[PlacedFinding]:
        """A row a range, by time."""
        segments = process.segments
        pairs = np.stack((segments.label[self.at], segments.step[self.at]))
        in_steps = np.bincount(np.unique(pairs, axis=1)[0], minlength=len(segments.labels))
        rows = [
            PlacedFinding(
                rule=rule,
                range=segments.labels[label],
                count=int(self.counts[label]) / self.divisor,
                ms=int(self.ns[label]) / 1e6 / self.typical,
                bytes=int(self.moved[label]) / self.divisor,
                steps=int(in_steps[label]),
            )
            for label in np.flatnonzero((self.counts > 0) | (self.ns > 0)).tolist()
        ]
        return sorted(rows, key=lambda row: (-row.ms, row.range))


def _calls(process: Process, findings: Sequence[Finding]) -> _Found:
    timeline, calls = process.timeline, process.timeline.calls
    mine = calls.process == process.steps.process
    here = np.flatnonzero(mine & among(calls.start, _starts(findings)))
    columns = (calls.start[here], calls.end[here], calls.thread[here], calls.name[here])
    known = {
        (start, end, thread, timeline.names.get(name))
        for start, end, thread, name in zip(*(one.tolist() for one in columns), strict=True)
    }
    real = [one for one in findings if (one.start_ns, _end(one), one.tid, one.api) in known]
    return _Found.of(process, real, process.segments.at(_starts(real)))


def _operations(process: Process, rule: RuleName, findings: Sequence[Finding]) -> _Found:
    timeline = process.timeline
    ops = timeline.copies if rule in _COPY_RULES else timeline.memsets
    mine = ops.process == process.steps.process
    rows = np.flatnonzero(mine & among(ops.start, _starts(findings)))
    moved = ops.bytes[rows].tolist() if isinstance(ops, Copies) else [None] * len(rows)
    by_key: defaultdict[tuple[int, int, int | None], list[int]] = defaultdict(list)
    keys = zip(ops.start[rows].tolist(), ops.end[rows].tolist(), moved, strict=True)
    for row, key in zip(rows.tolist(), keys, strict=True):
        by_key[key].append(row)
    names = _names_by_correlation(process, ops.correlation[rows])
    real: list[tuple[Finding, int]] = []
    for one in findings:
        size = one.bytes if isinstance(ops, Copies) else None
        alike = by_key[one.start_ns, _end(one), size]
        # nsys looks for the call by its id alone: it may be one of another process.
        its = [row for row in alike if one.api in names[int(ops.correlation[row])]]
        if its:
            alike.remove(its[0])
            real.append((one, its[0]))
    launches = process.totals.launches
    launched = launches.segment[launches.place(ops.correlation[[row for _, row in real]])]
    return _Found.of(process, [one for one, _ in real], launched)


def _names_by_correlation(process: Process, ids: Ints) -> Mapping[int, set[str | None]]:
    """What the process's own calls with these ids are called."""
    calls = process.timeline.calls
    rows = np.flatnonzero((calls.process == process.steps.process) & among(calls.correlation, ids))
    names: defaultdict[int, set[str | None]] = defaultdict(set)
    pairs = zip(calls.correlation[rows].tolist(), calls.name[rows].tolist(), strict=True)
    for one, name in pairs:
        names[one].add(process.timeline.names.get(name))
    return names


def _gaps(process: Process, findings: Sequence[Finding]) -> _Found | None:
    """None where no period counts."""
    segments, windows = process.segments, process.windows
    if windows is None:
        return None
    ns = np.zeros(len(segments.step), np.int64)
    begun: list[Ints] = [np.empty(0, np.int64)]
    lying = [_NO_SEGMENTS]
    for own in sorted({one.device for one in findings if one.device is not None}):
        gaps = [one for one in findings if one.device == own]
        starts, ends = _starts(gaps), np.array([_end(one) for one in gaps], np.int64)
        device = _device_of(process, own, starts)
        if device is None:
            continue
        idle = _idle(process.timeline, device, starts, ends)
        queued = Queued.of(process, idle, device)
        ns += gaps_by_segment(segments, idle, windows, queued)
        begun.append(real := starts[idle.until(ends) > idle.until(starts)])
        lying.append(queued.place(idle, real, segments.at(real)))
    starts = np.concatenate(begun)
    window = np.maximum(np.searchsorted(windows.starts, starts, side="right") - 1, 0)
    counted = (starts >= windows.starts[window]) & (starts < windows.ends[window])
    at = np.concatenate(lying)[counted]
    size = len(segments.labels)
    return _Found(
        counts=np.bincount(segments.label[at], minlength=size),
        ns=sum_by(segments.label, ns, size),
        moved=np.zeros(size, np.int64),
        at=at[segments.step[at] >= 0],
        divisor=windows.periods,
        typical=windows.steps,
    )


def _device_of(process: Process, own: int, gaps: Ints) -> int | None:
    """The capture's GPU for a number by which the process calls one: where most gaps begin, since a
    gap begins with the end of an operation. None where it ran nothing that ends so."""
    timeline, number = process.timeline, process.steps.process
    votes = {
        device: sum(
            int(among(ops.end[(ops.device == device) & (ops.process == number)], gaps).sum())
            for ops in timeline.operations
        )
        for device in sorted(devices_of(timeline, number))
    }
    best = max(votes, key=lambda device: (votes[device], device == own), default=None)
    return best if best is not None and votes[best] else None


def _idle(timeline: Timeline, device: int, starts: Ints, ends: Ints) -> Idle:
    """Times within these gaps in which nothing ran on the device: what is not in a gap is taken as
    busy."""
    here = [(ops, ops.device == device) for ops in timeline.operations]
    first, last = merged(*sorted_edges([starts], [ends]))
    between = np.append(-FOREVER, last), np.append(first, FOREVER)
    return Idle.from_intervals(
        [*(ops.start[on] for ops, on in here), between[0]],
        [*(ops.end[on] for ops, on in here), between[1]],
    )


def _starts(findings: Sequence[Finding]) -> Ints:
    return np.array([one.start_ns for one in findings], np.int64)


def _end(finding: Finding) -> int:
    return finding.start_ns + finding.duration_ns
