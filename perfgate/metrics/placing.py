"""Where in the steps the findings of nsys's rules lie, by step and innermost range; it must not know how nsys finds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfgate.metrics.attribution import Segments, cut
from perfgate.metrics.devices import devices_of
from perfgate.metrics.gaps import gaps_by_segment
from perfgate.metrics.intervals import FOREVER, Idle, merged, sorted_edges, sum_by
from perfgate.metrics.queued import Queued
from perfgate.metrics.steps import Steps, find_steps, whole_windows
from perfgate.metrics.tally import Links, tally
from perfgate.metrics.windows import Windows, completions, end_periods, why_no_period
from perfgate.model.arrays import among
from perfgate.model.findings import (
    Finding,
    Findings,
    PlacedFinding,
    Placing,
    ProcessFindings,
    RuleName,
)
from perfgate.model.timeline import Copies, Flags, Ints, Kernels, SmallInts, Spans, Timeline

_COPY_RULES = (RuleName.CUDA_MEMCPY_ASYNC, RuleName.CUDA_MEMCPY_SYNC)
_OPERATION_RULES = (*_COPY_RULES, RuleName.CUDA_MEMSET_SYNC)
PLACED_RULES = (*_OPERATION_RULES, RuleName.CUDA_API_SYNC, RuleName.GPU_GAPS)
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
    """Put each finding into the step and the innermost range that it lies in, of each process that has steps.

    ```
    step           |-------------0-------------|      |-------------1-------------|
    range            |-load-|  |---forward---|          |-load-|  |---forward---|
    call                 ^c1        ^c2
    copy                        |--c1--|       |--c2--|
    gap        ...--------------|      |-------|      |-----...
    ```
    - A call lies where it begins: on whichever thread, under the range of the step's thread then.
    - A copy or a memset lies where the call that launched it begins: c1 under load, c2 under forward.
    - A gap is counted where it begins, if that is in a period that `gap_ms` is taken over; its time is that of each
      range under which it passes. Both are of the range that launched what ends it, if that had been queued before it
      began (`Queued`), as in `gap_ms`. With all gaps found the two are the same, but for what passes before the
      process's first operation on a device and after its last: nsys does not call that a gap. Of several devices their
      time is added up, where `gap_ms` is the mean.

    What nsys says is checked against the capture: an operation is found by its start, end, bytes, process and device;
    a gap in which something ran after all (a CUDA graph traced whole, another process) is only as long as what is
    left of it, and none if nothing is. Where a rule was cut, this is of what was read.

    `step`, `is_pattern`, `warmup` and `steps` are those of `measure`.

    Raises:
        StepsNotFound: no process has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    names = timeline.ranges.name
    if step is None:
        found = whole_windows(timeline, names)
    else:
        found = find_steps(
            timeline, names, step=step, is_pattern=is_pattern, warmup=warmup, steps=steps
        )
    of_pid: defaultdict[int, dict[RuleName, list[Finding]]] = defaultdict(
        lambda: {rule: [] for rule in PLACED_RULES}
    )
    for rule in PLACED_RULES:
        for finding in findings.rows.get(rule, ()):
            of_pid[finding.pid][rule].append(finding)
    processes = tuple(
        _Process(
            timeline, one, cut(timeline.ranges, names, one), of_pid[timeline.processes[one.process]]
        ).placed()
        for one in found
    )
    elsewhere: Counter[RuleName] = Counter()
    for pid in of_pid.keys() - {process.pid for process in processes}:
        elsewhere.update({rule: len(rows) for rule, rows in of_pid[pid].items()})
    return Placing(
        processes=processes,
        elsewhere={rule: elsewhere[rule] for rule in PLACED_RULES if elsewhere[rule]},
    )


@dataclass(frozen=True, slots=True)
class _Process:
    """One process's findings, and what of the capture they are looked up in."""

    timeline: Timeline
    steps: Steps
    segments: Segments
    findings: Mapping[RuleName, Sequence[Finding]]
    outside: dict[RuleName, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def placed(self) -> ProcessFindings:
        devices = self._devices()
        rows: list[PlacedFinding] = []
        for rule in PLACED_RULES:
            if not self.findings[rule]:
                continue
            if rule is RuleName.GPU_GAPS:
                rows += self._gaps(devices)
            elif rule is RuleName.CUDA_API_SYNC:
                rows += self._calls()
            else:
                rows += self._operations(rule, devices)
        return ProcessFindings(
            pid=self.timeline.processes[self.steps.process],
            steps=0 if self.steps.whole else len(self.steps),
            rows=tuple(rows),
            outside=self.outside,
            remarks=tuple(self.remarks),
        )

    def _calls(self) -> list[PlacedFinding]:
        rule, calls = RuleName.CUDA_API_SYNC, self.timeline.calls
        here = np.flatnonzero(
            (calls.process == self.steps.process) & among(calls.start, _starts(self.findings[rule]))
        )
        columns = (calls.start[here], calls.end[here], calls.thread[here], calls.name[here])
        known = {
            (start, end, thread, self.timeline.names.get(name))
            for start, end, thread, name in zip(
                *(column.tolist() for column in columns), strict=True
            )
        }
        real = [
            one
            for one in self.findings[rule]
            if (one.start_ns, _end(one), one.tid, one.api) in known
        ]
        self._remark_unknown(rule, len(self.findings[rule]) - len(real))
        return self._rows(rule, real, self.segments.at(_starts(real)))

    def _operations(self, rule: RuleName, devices: Mapping[int, int]) -> list[PlacedFinding]:
        timeline, process = self.timeline, self.steps.process
        ops: Copies | Spans = timeline.copies if rule in _COPY_RULES else timeline.memsets
        rows = np.flatnonzero(
            (ops.process == process) & among(ops.start, _starts(self.findings[rule]))
        )
        moved = ops.bytes[rows].tolist() if isinstance(ops, Copies) else [None] * len(rows)
        columns = (
            ops.start[rows].tolist(),
            ops.end[rows].tolist(),
            ops.device[rows].tolist(),
            moved,
        )
        by_key: defaultdict[tuple[int, int, int, int | None], list[int]] = defaultdict(list)
        for row, key in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
            by_key[key].append(row)
        own_calls = self._names_by_correlation(ops.correlation[rows])
        real: list[tuple[Finding, int]] = []
        unknown = foreign = 0
        for one in self.findings[rule]:
            size = one.bytes if isinstance(ops, Copies) else None
            device = devices.get(-1 if one.device is None else one.device, -1)
            alike = by_key.get((one.start_ns, _end(one), device, size))
            if alike is None:
                unknown += 1
                continue
            match = next(
                (row for row in alike if one.api in own_calls[int(ops.correlation[row])]), None
            )
            if match is None:
                foreign += 1
                continue
            alike.remove(match)
            real.append((one, match))
        self._remark_unknown(rule, unknown)
        if foreign:
            told = f"{foreign} of {len(self.findings[rule])} findings are of another process's call"
            self.remarks.append(
                f"{rule}: {told}, with the correlation id of an operation here, and are not counted"
            )
        launches = self._launches().launching(ops.correlation[[row for _, row in real]])
        return self._rows(rule, [one for one, _ in real], launches)

    def _launches(self) -> Links:
        calls = self.timeline.calls
        rows = np.flatnonzero(calls.process == self.steps.process)
        return Links.of(calls.correlation[rows], calls.start[rows], self.segments)

    def _names_by_correlation(self, correlation: Ints) -> defaultdict[int, set[str | None]]:
        """What the process's own calls with these ids are called."""
        calls = self.timeline.calls
        rows = np.flatnonzero(
            (calls.process == self.steps.process) & among(calls.correlation, correlation)
        )
        names: defaultdict[int, set[str | None]] = defaultdict(set)
        for one, name in zip(
            calls.correlation[rows].tolist(), calls.name[rows].tolist(), strict=True
        ):
            names[one].add(self.timeline.names.get(name))
        return names

    def _gaps(self, devices: Mapping[int, int]) -> list[PlacedFinding]:
        rule, steps, segments = RuleName.GPU_GAPS, self.steps, self.segments
        windows = self._windows()
        if windows is None:
            self.remarks.append(f"{rule}: not placed: {why_no_period(steps)}")
            return []
        ns = np.zeros(len(segments.step), np.int64)
        begun: list[Ints] = []
        lying: list[SmallInts] = []
        unknown = said = idle_in_gaps = 0
        calls = self._launches().begins
        for own in sorted(
            {-1 if one.device is None else one.device for one in self.findings[rule]}
        ):
            gaps = [one for one in self.findings[rule] if one.device == own]
            if own not in devices:
                unknown += len(gaps)
                continue
            starts, ends = _starts(gaps), np.array([_end(one) for one in gaps], np.int64)
            idle = self._idle(devices[own], starts, ends)
            queued = Queued.of(self.timeline, segments, idle, calls, steps.process, devices[own])
            ns += gaps_by_segment(segments, idle, windows, queued)
            begun.append(real := starts[idle.until(ends) > idle.until(starts)])
            lying.append(queued.place(idle, real, segments.at(real)))
            said += int((ends - starts).sum())
            idle_in_gaps += int(idle.before[-1])
        self._remark_unknown(rule, unknown)
        if idle_in_gaps < said:
            self.remarks.append(
                f"{rule}: {(said - idle_in_gaps) / 1e6:.4g} ms of {said / 1e6:.4g} ms of gaps are none: a CUDA graph "
                "traced whole, or another process, ran on the GPU"
            )
        starts = np.concatenate([*begun, np.empty(0, np.int64)])
        window = np.maximum(np.searchsorted(windows.starts, starts, side="right") - 1, 0)
        counted = (starts >= windows.starts[window]) & (starts < windows.ends[window])
        if left := int((~counted).sum()):
            self.outside[rule] = left
        at = np.concatenate([*lying, np.empty(0, np.int32)])[counted]
        size = len(segments.labels)
        return self._told(
            rule,
            counts=np.bincount(segments.label[at], minlength=size),
            ns=sum_by(segments.label, ns, size),
            moved=np.zeros(size, np.int64),
            at=at[segments.step[at] >= 0],
            divisor=windows.periods,
            typical=windows.steps,
        )

    def _windows(self) -> Windows | None:
        """What `gap_ms` is taken over."""
        steps = self.steps
        if steps.whole:
            return Windows.of_whole(steps)
        done = completions(steps, self.segments, tally(self.timeline, steps.process, self.segments))
        return Windows.of_periods(done, end_periods(steps))

    def _idle(self, device: int, starts: Ints, ends: Ints) -> Idle:
        """Times within these gaps in which nothing ran on the device: what is not in a gap is taken as busy."""
        here = [(ops.start[on], ops.end[on]) for ops, on in _on_device(self.timeline, device)]
        first, last = merged(*sorted_edges([starts], [ends]))
        between = np.append(-FOREVER, last), np.append(first, FOREVER)
        return Idle.from_intervals(
            [*(start for start, _ in here), between[0]], [*(end for _, end in here), between[1]]
        )

    def _devices(self) -> dict[int, int]:
        """The capture's GPU for each number by which the process calls one.

        It is the one on which most operations have an edge where a finding has one: a copy or memset begins with an
        operation, a gap with the end of one.
        """
        process = self.steps.process
        begun: dict[int, Ints] = {}
        ended: dict[int, Ints] = {}
        for device in sorted(devices_of(self.timeline, process)):
            here = [
                (ops.start[on], ops.end[on])
                for ops, on in _on_device(self.timeline, device, process=process)
            ]
            begun[device] = np.concatenate([start for start, _ in here])
            ended[device] = np.concatenate([end for _, end in here])
        found: dict[int, int] = {}
        on_gpu = [
            one for rule in (*_OPERATION_RULES, RuleName.GPU_GAPS) for one in self.findings[rule]
        ]
        for own in sorted({one.device for one in on_gpu if one.device is not None}):
            alike = [one for one in on_gpu if one.device == own]
            starts = _starts([one for one in alike if one.rule is not RuleName.GPU_GAPS])
            ends = _starts([one for one in alike if one.rule is RuleName.GPU_GAPS])
            votes = {
                device: int(among(begun[device], starts).sum() + among(ended[device], ends).sum())
                for device in begun
            }
            best = max(
                votes, key=lambda device: (votes[device], device == own, -device), default=None
            )
            if best is not None and votes[best]:
                found[own] = best
        return found

    def _remark_unknown(self, rule: RuleName, count: int) -> None:
        if count:
            told = f"{count} of {len(self.findings[rule])} findings are of nothing that {self.timeline.source} holds"
            self.remarks.append(f"{rule}: {told}, and are not counted")

    def _rows(self, rule: RuleName, found: Sequence[Finding], at: SmallInts) -> list[PlacedFinding]:
        """Rows of findings that each lie in one segment."""
        segments = self.segments
        inside = np.flatnonzero(segments.step[at] >= 0)
        if left := len(found) - len(inside):
            self.outside[rule] = left
        label, size = segments.label[at[inside]], len(segments.labels)
        durations = np.array([one.duration_ns for one in found], np.int64)[inside]
        moved = np.array([one.bytes or 0 for one in found], np.int64)[inside]
        return self._told(
            rule,
            counts=np.bincount(label, minlength=size),
            ns=sum_by(label, durations, size),
            moved=sum_by(label, moved, size),
            at=at[inside],
            divisor=len(self.steps),
            typical=len(self.steps),
        )

    def _told(
        self,
        rule: RuleName,
        *,
        counts: Ints,
        ns: Ints,
        moved: Ints,
        at: SmallInts,
        divisor: int,
        typical: float,
    ) -> list[PlacedFinding]:
        """A row a range: what was counted over `divisor` steps, and times over so many `typical` ones."""
        segments = self.segments
        steps: defaultdict[int, set[int]] = defaultdict(set)
        for label, step in zip(
            segments.label[at].tolist(), segments.step[at].tolist(), strict=True
        ):
            steps[label].add(step)
        rows = [
            PlacedFinding(
                rule=rule,
                range=segments.labels[label],
                count=int(counts[label]) / divisor,
                ms=int(ns[label]) / 1e6 / typical,
                bytes=int(moved[label]) / divisor,
                steps=len(steps[label]),
            )
            for label in np.flatnonzero((counts > 0) | (ns > 0)).tolist()
        ]
        return sorted(rows, key=lambda row: (-row.ms, row.range))


def _starts(findings: Sequence[Finding]) -> Ints:
    return np.array([one.start_ns for one in findings], np.int64)


def _end(finding: Finding) -> int:
    return finding.start_ns + finding.duration_ns


def _on_device(
    timeline: Timeline, device: int, *, process: int | None = None
) -> list[tuple[Kernels | Copies | Spans, Flags]]:
    """All tables of operations, with the rows that ran on a device."""
    return [
        (
            ops,
            (ops.device == device)
            if process is None
            else (ops.device == device) & (ops.process == process),
        )
        for ops in timeline.operations
    ]
