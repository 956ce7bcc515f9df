"""Findings of nsys's rules put into steps and ranges; one column of a picture is 1 ms."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.timelines import draw, permuted, shifted

from perfgate.metrics.placing import place
from perfgate.model.reports import Finding, PlacedFindings, Placing, RuleName
from perfgate.model.timeline import Spans, Timeline

MEMCPY = "cudaMemcpyAsync_v3020"
COPY, MEMSET, SYNC = (
    RuleName.CUDA_MEMCPY_ASYNC,
    RuleName.CUDA_MEMSET_SYNC,
    RuleName.CUDA_API_SYNC,
)


def of_operations(timeline: Timeline, rule: RuleName = COPY, later: int = 0) -> list[Finding]:
    """A finding for each copy, or each memset."""
    ops: Spans = timeline.memsets if rule is MEMSET else timeline.copies
    return [
        Finding(
            rule=rule,
            start_ns=int(ops.start[row]) + later,
            duration_ns=int(ops.end[row] - ops.start[row]),
            pid=timeline.processes[ops.process[row]],
        )
        for row in range(len(ops.start))
    ]


def placed(found: Sequence[Finding], timeline: Timeline) -> Placing:
    return place(found, timeline, step="step", steps=1000)


COPIES = """
range           |-------------step--------------|       |-------------step--------------|
range             |--load--|  |--forward--|               |--load--|  |--forward--|
launch              ^a           ^b                         ^c
h2d pageable                      |-a--||--b--|                          |--c--|
"""


def test_of_several_processes_the_mean_is_reported() -> None:
    timeline = draw("""
        range pid1   |---step---|  |---step---|
        call pid1     |-a-| |-b-|
        range pid2   |---step---|  |---step---|
        call pid2     |-c-|
        range pid3   |---step---|  |---step---|
        """)
    calls = timeline.calls
    found = [
        Finding(rule=SYNC, start_ns=start, duration_ns=4_000_000, pid=timeline.processes[process])
        for start, process in zip(calls.start.tolist(), calls.process.tolist(), strict=True)
    ]
    assert placed(found, timeline) == {(SYNC, "step"): PlacedFindings(count=0.5, ms=2.0)}


MIXED = """
range    |----step----| |----step----| |----step----| |----step----|
range      |-A-| |-B-|    |-A-| |-B-|    |-A-| |-B-|    |-A-| |-B-|
launch      ^a    ^b       ^c    ^d       ^e    ^f       ^g    ^h
h2d          |a|            |c|            |e|            |g|
memset             |b|            |d|            |f|            |h|
"""


@pytest.mark.parametrize("seed", range(3))
def test_neither_the_order_of_rows_nor_the_clock_changes_anything(seed: int) -> None:
    timeline, later = draw(MIXED), 10**15 + seed

    def everything(by_ns: int) -> list[Finding]:
        return [one for rule in (COPY, MEMSET) for one in of_operations(timeline, rule, by_ns)]

    expected = placed(everything(0), timeline)
    assert len(expected) == 2
    assert placed(everything(0), permuted(timeline, seed)) == expected
    assert placed(everything(later), shifted(timeline, later)) == expected


def test_a_copy_that_the_capture_does_not_hold_is_not_counted() -> None:
    timeline = draw(COPIES)
    (first, *_) = of_operations(timeline)
    assert placed([first.model_copy(update={"start_ns": 11})], timeline) == {}
