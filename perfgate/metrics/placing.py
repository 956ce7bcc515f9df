"""Where in the steps the findings of nsys's rules lie, by step and innermost range; it must not
know how nsys finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Unpack

import numpy as np

from perfgate.metrics.process import Process
from perfgate.metrics.steps import StepRule, find_steps
from perfgate.model.arrays import among
from perfgate.model.reports import Finding, PlacedFinding, Placing, ProcessFindings, RuleName
from perfgate.model.timeline import Timeline


def place(findings: Sequence[Finding], timeline: Timeline, **rule: Unpack[StepRule]) -> Placing:
    """Put each finding into the step and the innermost range that it lies in, of each process that
    has steps.

    ```
    step           |-------------0-------------|      |-------------1-------------|
    range            |-load-|  |---forward---|          |-load-|  |---forward---|
    call                 ^c1        ^c2
    copy                        |--c1--|       |--c2--|
    ```
    - A call lies where it begins: on whichever thread, under the range of the step's thread then.
    - A copy or a memset lies where the call that launched it begins: c1 under load, c2 under
      forward.

    `rule` and what is raised are those of `find_steps`.
    """
    placed = []
    for steps in find_steps(timeline, **rule):
        process = Process.of(timeline, steps)
        rows = [
            row
            for name in RuleName
            if (own := [one for one in findings if (one.rule, one.pid) == (name, process.pid)])
            for row in _placed(process, name, own)
        ]
        count = 0 if steps.whole else len(steps)
        placed.append(ProcessFindings(pid=process.pid, steps=count, rows=tuple(rows)))
    return Placing(processes=tuple(placed))


def _placed(process: Process, rule: RuleName, found: Sequence[Finding]) -> list[PlacedFinding]:
    """A row a range, by time."""
    segments, steps = process.segments, len(process.steps)
    by_range: defaultdict[str, list[tuple[Finding, int]]] = defaultdict(list)
    for one, segment in zip(found, _segments_of(process, rule, found), strict=True):
        if segment >= 0 and (step := int(segments.step[segment])) >= 0:
            by_range[segments.labels[segments.label[segment]]].append((one, step))
    rows = [
        PlacedFinding(
            rule=rule,
            range=name,
            count=len(its) / steps,
            ms=sum(one.duration_ns for one, _ in its) / 1e6 / steps,
            bytes=sum(one.bytes or 0 for one, _ in its) / steps,
            steps=len({step for _, step in its}),
        )
        for name, its in by_range.items()
    ]
    return sorted(rows, key=lambda row: (-row.ms, row.range))


def _segments_of(process: Process, rule: RuleName, found: Sequence[Finding]) -> list[int]:
    """The segment in which each began, or its launch; -1 for operations that the process did not
    run."""
    starts = np.array([one.start_ns for one in found], np.int64)
    if rule is RuleName.CUDA_API_SYNC:
        return list(process.segments.at(starts).tolist())
    timeline = process.timeline
    ops = timeline.memsets if rule is RuleName.CUDA_MEMSET_SYNC else timeline.copies
    mine = np.flatnonzero((ops.process == process.steps.process) & among(ops.start, starts))
    spans = zip(ops.start[mine].tolist(), ops.end[mine].tolist(), strict=True)
    at = dict(zip(spans, process.segment_of(ops, mine).tolist(), strict=True))
    return [at.get((one.start_ns, one.start_ns + one.duration_ns), -1) for one in found]
