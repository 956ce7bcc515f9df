"""Where in the steps the findings of nsys's rules lie, by step and innermost range; it must not
know how nsys finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Unpack

import numpy as np

from perfgate.metrics.process import Process
from perfgate.metrics.steps import find_steps
from perfgate.model.arrays import among
from perfgate.model.reports import Finding, PlacedFindings, Placing, RuleName
from perfgate.model.timeline import Timeline
from perfgate.model.workload import StepRule


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
    found: defaultdict[tuple[RuleName, str], list[tuple[float, float]]] = defaultdict(list)
    stepping = find_steps(timeline, **rule)
    for steps in stepping:
        process = Process.of(timeline, steps)
        segments = process.segments
        lasted: defaultdict[tuple[RuleName, str], list[int]] = defaultdict(list)
        for name in RuleName:
            own = [one for one in findings if (one.rule, one.pid) == (name, process.pid)]
            for one, segment in zip(own, _segments_of(process, name, own), strict=True):
                if segment >= 0 and segments.step[segment] >= 0:
                    under = segments.labels[segments.label[segment]]
                    lasted[name, under].append(one.duration_ns)
        for place, ns in lasted.items():
            found[place].append((len(ns) / len(steps), sum(ns) / 1e6 / len(steps)))
    return {
        place: PlacedFindings(
            count=sum(count for count, _ in each) / len(stepping),
            ms=sum(ms for _, ms in each) / len(stepping),
        )
        for place, each in found.items()
    }


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
