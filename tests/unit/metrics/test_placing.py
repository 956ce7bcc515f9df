"""Findings of nsys's rules put into steps and ranges; one column of a picture is 1 ms."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.timelines import PID, Call, Op, Range, build, draw, permuted, shifted

from perfgate.metrics.measure import measure
from perfgate.metrics.placing import place
from perfgate.model.metric import Metric
from perfgate.model.reports import (
    Finding,
    Findings,
    PlacedFinding,
    ProcessFindings,
    RuleName,
)
from perfgate.model.sample import ProcessSample
from perfgate.model.timeline import Copies, Spans, Timeline

MEMCPY = "cudaMemcpyAsync_v3020"
COPY, MEMSET, SYNC, GAPS = (
    RuleName.CUDA_MEMCPY_ASYNC,
    RuleName.CUDA_MEMSET_SYNC,
    RuleName.CUDA_API_SYNC,
    RuleName.GPU_GAPS,
)


def findings(*found: Finding) -> Findings:
    return Findings(
        rows={rule: tuple(one for one in found if one.rule is rule) for rule in RuleName},
        skipped={},
    )


def of_operations(
    timeline: Timeline, rule: RuleName = COPY, *, device: int | None = None
) -> list[Finding]:
    """A finding for each copy, or each memset, by the name of the call with its correlation id."""
    ops: Copies | Spans = timeline.memsets if rule is MEMSET else timeline.copies
    called = dict(
        zip(timeline.calls.correlation.tolist(), timeline.calls.name.tolist(), strict=True)
    )
    return [
        Finding(
            rule=rule,
            start_ns=int(ops.start[row]),
            duration_ns=int(ops.end[row] - ops.start[row]),
            pid=timeline.processes[ops.process[row]],
            device=int(ops.device[row]) if device is None else device,
            api=timeline.names[called[int(ops.correlation[row])]],
            bytes=int(ops.bytes[row]) if isinstance(ops, Copies) else 64,
        )
        for row in range(len(ops.start))
    ]


def of_calls(timeline: Timeline, name: str = "cudaStreamSynchronize_v3020") -> list[Finding]:
    """A finding for each call of this name."""
    calls = timeline.calls
    return [
        Finding(
            rule=SYNC,
            start_ns=int(calls.start[row]),
            duration_ns=int(calls.end[row] - calls.start[row]),
            pid=timeline.processes[calls.process[row]],
            tid=int(calls.thread[row]),
            api=name,
        )
        for row in range(len(calls.start))
        if timeline.names[int(calls.name[row])] == name
    ]


def of_gaps(timeline: Timeline, *, own: dict[int, int] | None = None) -> list[Finding]:
    """A finding for each gap as nsys finds it: by process and device, graphs traced whole left out.

    `own` is how the processes number the capture's devices.
    """
    tables = (timeline.kernels, timeline.copies, timeline.memsets)
    busy: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for ops in tables:
        columns = (ops.process.tolist(), ops.device.tolist(), ops.start.tolist(), ops.end.tolist())
        for process, device, start, end in zip(*columns, strict=True):
            busy.setdefault((process, device), []).append((start, end))
    found = []
    for (process, device), spans in busy.items():
        until = min(spans)[0]
        for start, end in sorted(spans):
            if start > until:
                found.append(
                    Finding(
                        rule=GAPS,
                        start_ns=until,
                        duration_ns=start - until,
                        pid=timeline.processes[process],
                        device=(own or {}).get(device, device),
                    )
                )
            until = max(until, end)
    return sorted(found, key=lambda one: -one.duration_ns)


def placed(
    found: Sequence[Finding], timeline: Timeline, step: str | None = "step"
) -> ProcessFindings:
    (process,) = place(
        findings(*found), timeline, step=step, steps=None if step is None else 1000
    ).processes
    return process


def gaps_by_range(sample: ProcessSample) -> dict[str, float]:
    return {
        row.name: row.values[Metric.GAP_MS]
        for row in sample.ranges
        if row.values.get(Metric.GAP_MS)
    }


COPIES = """
range           |-------------step--------------|       |-------------step--------------|
range             |--load--|  |--forward--|               |--load--|  |--forward--|
launch              ^a           ^b                         ^c
h2d pageable                      |-a--||--b--|                          |--c--|
"""


def test_a_copy_lies_where_it_was_launched_and_not_where_it_ran() -> None:
    timeline = draw(COPIES)
    assert placed(of_operations(timeline), timeline) == ProcessFindings(
        pid=PID,
        steps=2,
        rows=(
            PlacedFinding(rule=COPY, range="load", count=1.0, ms=5.5, bytes=5500.0, steps=2),
            PlacedFinding(rule=COPY, range="forward", count=0.5, ms=3.0, bytes=3000.0, steps=1),
        ),
    )


CALLS = """
range          |---------step---------|    |---------step---------|
range            |---forward---|             |---forward---|
call                |-sync-|     |-sync-|           |-sync-|         |-sync-|
call thread2      |sync|
"""


def calls_drawn() -> Timeline:
    timeline = draw(CALLS)
    names = {
        key: name.replace("sync", "cudaStreamSynchronize_v3020")
        for key, name in timeline.names.items()
    }
    return dataclasses.replace(timeline, names=names)


def test_a_call_lies_where_it_begins_on_whichever_thread() -> None:
    timeline = calls_drawn()
    found = of_calls(timeline)
    assert len({one.tid for one in found}) == 2
    process = placed(found, timeline)
    assert process.rows == (
        PlacedFinding(rule=SYNC, range="forward", count=1.5, ms=9.5, steps=2),
        PlacedFinding(rule=SYNC, range="step", count=0.5, ms=3.5, steps=1),
    )


def test_a_gap_is_only_as_long_as_no_graph_and_no_other_process_ran() -> None:
    timeline = draw("""
range          |--------step--------| |--------step--------| |--------step--------|
launch           ^a                     ^b   ^x               ^c
kernel           |-a-|                  |-b-|                 |-c-|
graph                                        |---x----|
kernel pid7        |o|     |-p-|                                     |q|
    """)
    found = [one for one in of_gaps(timeline) if one.pid == PID]
    assert [one.duration_ns for one in found] == [19_000_000, 18_000_000]
    (sample,) = measure(timeline, step="step", steps=3)
    (process,) = place(findings(*found), timeline, step="step", steps=3).processes
    # One period, from 59 to 82: idle before c, and without a finding, because nothing follows c,
    # before q and after.
    assert sum(row.ms for row in process.rows) == 3.0
    assert sample.values[Metric.GAP_MS] == 3.0 + 3.0 + 11.0


def test_gaps_of_a_process_on_two_gpus_add_up() -> None:
    timeline = draw("""
range        |---step---| |---step---| |---step---| |---step---|
launch        ^a   ^b      ^c   ^d      ^e   ^f      ^g   ^h
kernel        |-a--|       |-c--|       |-e--|       |-g-|
kernel gpu1        |-b--|       |-d--|       |-f--|       |-h--|
    """)
    (sample,) = measure(timeline, step="step", steps=4)
    timeline = dataclasses.replace(timeline, ordinals={(0, 0): 1, (0, 1): 0})
    found = of_gaps(timeline, own={0: 1, 1: 0})
    process = placed(found, timeline)
    # Two periods, from 37 to 63: 3 + 8 ms on the first GPU and 8 + 8 on the second. After g the
    # first has nothing more to do for 6 ms: nsys does not call that a gap.
    assert sum(row.ms for row in process.rows) == (3 + 8 + 8 + 8) / 2
    assert sample.values[Metric.GAP_MS] == (3 + 8 + 8 + 8 + 6) / 2 / 2


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40), st.integers(0, 399)), max_size=30),
    st.lists(st.tuples(st.integers(0, 390), st.integers(1, 60)), max_size=8),
)
def test_all_gaps_are_gap_ms_range_by_range(
    ops: list[tuple[int, int, int]], inner: list[tuple[int, int]]
) -> None:
    """Operations one after another, each launched at any time in four steps; the last of all ends
    after the steps."""
    kernels, calls, at = [], [], -1
    for index, (before, length, launched) in enumerate([(0, 1, 0), *ops, (0, 1000, 399)]):
        kernels.append(Op(start=at + before, end=at + before + length, correlation=index + 1))
        calls.append(Call(start=launched, end=launched + 1, correlation=index + 1))
        at += before + length
    steps = [Range(start=100 * n, end=100 * n + 90) for n in range(4)]
    named = [
        Range(start=start, end=start + length, name=f"r{n % 3}")
        for n, (start, length) in enumerate(inner)
    ]
    timeline = build(kernels=kernels, calls=calls, ranges=[*steps, *named])
    (sample,) = measure(timeline, step="step", steps=4)
    process = placed(of_gaps(timeline), timeline)
    assert {row.range: row.ms for row in process.rows if row.ms} == gaps_by_range(sample)


def everything(timeline: Timeline, by_ns: int = 0) -> Findings:
    found = [*of_operations(timeline), *of_gaps(timeline), *of_operations(timeline, MEMSET)]
    return findings(*(one.model_copy(update={"start_ns": one.start_ns + by_ns}) for one in found))


MIXED = """
range    |----step----| |----step----| |----step----| |----step----|
range      |-A-| |-B-|    |-A-| |-B-|    |-A-| |-B-|    |-A-| |-B-|
launch      ^a    ^b       ^c    ^d       ^e    ^f       ^g    ^h
h2d          |a|            |c|            |e|            |g|
memset             |b|            |d|            |f|            |h|
"""


@pytest.mark.parametrize("seed", range(3))
def test_neither_the_order_of_rows_nor_the_clock_changes_anything(seed: int) -> None:
    timeline = draw(MIXED)
    expected = place(everything(timeline), timeline, step="step", steps=4)
    assert len(expected.processes[0].rows) == 6
    assert place(everything(timeline), permuted(timeline, seed), step="step", steps=4) == expected
    later = 10**15 + seed
    assert (
        place(everything(timeline, later), shifted(timeline, later), step="step", steps=4)
        == expected
    )


def test_a_copy_that_the_capture_does_not_hold_is_not_counted() -> None:
    timeline = draw(COPIES)
    (first, *_) = of_operations(timeline)
    assert placed([first.model_copy(update={"start_ns": 11})], timeline).rows == ()
