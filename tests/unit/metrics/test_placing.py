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
from perfgate.model.errors import StepsNotFound
from perfgate.model.findings import (
    Finding,
    Findings,
    PlacedFinding,
    Placing,
    ProcessFindings,
    RuleName,
)
from perfgate.model.metric import Metric
from perfgate.model.names import RangeNames
from perfgate.model.sample import OUTSIDE_RANGES, ProcessSample
from perfgate.model.timeline import Copies, Spans, Timeline
from perfgate.model.workload import WAIT_RANGE

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


def told(process: ProcessFindings) -> list[tuple[str, float, float]]:
    """Range, count and ms of each row."""
    return [(row.range, row.count, row.ms) for row in process.rows]


def gaps_by_range(sample: ProcessSample) -> dict[str, float]:
    return {
        row.name: row.values[Metric.GAP_MS]
        for row in sample.ranges
        if row.values.get(Metric.GAP_MS)
    }


# --- operations and calls --------------------------------------------------------------------------------------------

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


def test_a_memset_lies_where_it_was_launched() -> None:
    timeline = draw("""
range    |------step------|   |------step------|
range      |--A--|              |--A--|
launch       ^a    ^b             ^c
memset             |-a-||b|           |--c--|
    """)
    rows = placed(of_operations(timeline, MEMSET), timeline).rows
    assert rows == (
        PlacedFinding(rule=MEMSET, range="A", count=1.0, ms=5.0, bytes=64.0, steps=2),
        PlacedFinding(rule=MEMSET, range="step", count=0.5, ms=1.0, bytes=32.0, steps=1),
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
    assert process.outside == {SYNC: 1}
    assert process.remarks == ()


def test_of_a_window_taken_as_one_everything_is_inside() -> None:
    timeline = calls_drawn()
    process = placed(of_calls(timeline), timeline, None)
    assert told(process) == [("forward", 3.0, 19.0), (OUTSIDE_RANGES, 1.0, 7.0), ("step", 1.0, 7.0)]
    assert (process.steps, process.outside) == (0, {})


@pytest.mark.parametrize(
    "change", [{"start_ns": 1}, {"duration_ns": 1}, {"tid": 77}, {"api": "cudaDeviceSynchronize"}]
)
def test_a_call_that_the_capture_does_not_hold_is_not_counted(change: dict[str, int | str]) -> None:
    timeline = calls_drawn()
    found = of_calls(timeline)
    process = placed([found[0].model_copy(update=change), *found[1:]], timeline)
    assert sum(row.count for row in process.rows) == 1.5
    assert process.remarks == (
        "cuda_api_sync: 1 of 5 findings are of nothing that drawn.sqlite holds, and are not counted",
    )


@pytest.mark.parametrize(
    "change", [{"start_ns": 1}, {"duration_ns": 1}, {"bytes": 1}, {"device": None}]
)
def test_a_copy_that_the_capture_does_not_hold_is_not_counted(
    change: dict[str, int | None],
) -> None:
    timeline = draw(COPIES)
    found = of_operations(timeline)
    process = placed([found[0].model_copy(update=change), *found[1:]], timeline)
    assert sum(row.count for row in process.rows) == 1.0
    assert process.remarks == (
        "cuda_memcpy_async: 1 of 3 findings are of nothing that drawn.sqlite holds, and are not counted",
    )


FOREIGN = (
    "cuda_memcpy_async: 1 of {} findings are of another process's call, with the correlation id of an operation here, "
    "and are not counted"
)


def test_a_call_of_another_process_with_the_same_correlation_id_finds_nothing() -> None:
    # nsys joins by correlation id alone: the copy of rank 1 by cuMemcpyHtoDAsync is found by rank 2's runtime call,
    # and rank 2's own copy twice, once for each rank's call.
    timeline = build(
        ranges=[Range(start=0, end=100, pid=pid) for pid in (1, 2)],
        calls=[
            Call(start=5, end=6, name="cuMemcpyHtoDAsync_v2", pid=1, correlation=7),
            Call(start=15, end=16, name=MEMCPY, pid=2, correlation=7),
            Call(start=25, end=26, name=MEMCPY, pid=1, correlation=8),
            Call(start=35, end=36, name=MEMCPY, pid=2, correlation=8),
        ],
        copies=[
            Op(start=10, end=20, pid=1, correlation=7, bytes=5),
            Op(start=40, end=50, pid=2, correlation=8, bytes=5),
        ],
    )

    def finding(pid: int, start: int) -> Finding:
        return Finding(
            rule=COPY, start_ns=start, duration_ns=10, pid=pid, device=0, api=MEMCPY, bytes=5
        )

    found = findings(finding(1, 10), finding(2, 40), finding(2, 40))
    first, second = place(found, timeline, step="step", steps=1).processes
    assert (first.rows, first.remarks) == (
        (),
        (FOREIGN.format(1),),
    )
    assert told(second) == [("step", 1.0, 10e-6)]
    assert second.remarks == (FOREIGN.format(2),)


def test_copies_that_are_alike_to_the_nanosecond_are_each_counted_where_they_were_launched() -> (
    None
):
    timeline = build(
        ranges=[
            Range(start=0, end=100),
            Range(start=10, end=20, name="A"),
            Range(start=30, end=40, name="B"),
        ],
        calls=[Call(start=at, end=at + 1, name=MEMCPY, correlation=at) for at in (15, 35)],
        copies=[Op(start=50, end=60, correlation=at, bytes=5) for at in (15, 35)],
    )
    assert told(placed(of_operations(timeline), timeline)) == [("A", 1.0, 10e-6), ("B", 1.0, 10e-6)]


# --- devices ---------------------------------------------------------------------------------------------------------


def test_each_rank_calls_its_only_gpu_the_first() -> None:
    timeline = build(
        ranges=[Range(start=0, end=100, pid=pid) for pid in (1, 2)],
        calls=[Call(start=5, end=6, name=MEMCPY, pid=pid, correlation=3) for pid in (1, 2)],
        copies=[Op(start=10, end=20, pid=pid, device=pid - 1, correlation=3) for pid in (1, 2)],
    )
    placing = place(findings(*of_operations(timeline, device=0)), timeline, step="step", steps=1)
    assert [told(process) for process in placing.processes] == [[("step", 1.0, 10e-6)]] * 2
    assert [process.remarks for process in placing.processes] == [(), ()]


def test_a_number_that_only_the_process_knows_is_understood() -> None:
    timeline = draw(COPIES)
    first, *others = of_operations(timeline)
    process = placed([first.model_copy(update={"device": 5}), *others], timeline)
    assert (sum(row.count for row in process.rows), process.remarks) == (1.5, ())


def test_a_process_that_numbers_its_two_gpus_the_other_way_round_is_understood() -> None:
    # On both GPUs a copy of as many bytes at the same time, launched under A and under B; and one of its own each.
    timeline = build(
        ranges=[
            Range(start=0, end=100),
            Range(start=10, end=20, name="A"),
            Range(start=30, end=40, name="B"),
        ],
        calls=[Call(start=at, end=at + 1, name=MEMCPY, correlation=at) for at in (15, 35, 50, 51)],
        copies=[
            Op(start=60, end=70, device=0, correlation=15),
            Op(start=60, end=70, device=1, correlation=35),
            Op(start=80, end=81, device=0, correlation=50),
            Op(start=90, end=92, device=1, correlation=51),
        ],
    )
    swapped = [
        one.model_copy(update={"device": 1 - (one.device or 0)}) for one in of_operations(timeline)
    ]
    assert told(placed(swapped, timeline)) == [
        ("A", 1.0, 10e-6),
        ("B", 1.0, 10e-6),
        ("step", 2.0, 3e-6),
    ]
    assert told(placed([one for one in swapped if one.device == 1], timeline)) == [
        ("A", 1.0, 10e-6),
        ("step", 1.0, 1e-6),
    ]


# --- gaps ------------------------------------------------------------------------------------------------------------

GAPPY = """
range    |----step----| |----step----| |----step----| |----step----|
range      |-A--||-B-|    |-A--||-B-|    |-A--||-B-|    |-A--||-B-|
launch      ^a    ^b       ^c    ^d       ^e    ^f       ^g    ^h
kernel       |a|   |b|      |c|   |d|      |e|   |f|      |g|   |h|
"""
"""Completions at 22, 37, 52, 67, the ends of the steps: a window from 37 to 67, two periods, of which 8 ms are busy."""


def test_a_gap_is_counted_where_it_begins_and_its_time_is_that_of_the_ranges_it_passes_under() -> (
    None
):
    timeline = draw(GAPPY)
    (sample,) = measure(timeline, step="step", steps=4)
    process = placed(of_gaps(timeline), timeline)
    found = {row.range: row for row in process.rows}
    # After h the GPU idles for 1 ms more, to the end of the step: nsys does not call that a gap.
    theirs = gaps_by_range(sample)
    assert {name: row.ms for name, row in found.items()} == theirs | {
        "step": theirs["step"] - 1 / 2
    }
    assert sum(row.ms for row in process.rows) == (30 - 8 - 1) / 2
    # e and g end in A's last column; f ends with B, where the step's own time begins; h is followed by none.
    assert {name: (row.count, row.steps) for name, row in found.items()} == {
        "A": (1.0, 2),
        "B": (0.0, 0),
        "step": (0.5, 1),
        OUTSIDE_RANGES: (0.0, 0),
    }
    assert process.outside == {GAPS: 4}
    assert process.remarks == ()


def test_a_gap_between_the_steps_is_in_no_range_and_in_no_step() -> None:
    timeline = draw("""
range    |step|      |step|      |step|
launch    ^a          ^b          ^c
kernel    |-a---|     |-b---|     |-c---|
    """)
    assert placed(of_gaps(timeline), timeline).rows == (
        PlacedFinding(rule=GAPS, range=OUTSIDE_RANGES, count=1.0, ms=5.0, steps=0),
        PlacedFinding(rule=GAPS, range="step", count=0.0, ms=1.0, steps=0),
    )


def test_all_gaps_of_a_window_taken_as_one_count() -> None:
    timeline = draw(GAPPY)
    process = placed(of_gaps(timeline), timeline, None)
    assert sum(row.count for row in process.rows) == 7.0
    assert (
        sum(row.ms for row in process.rows)
        == sum(one.duration_ns for one in of_gaps(timeline)) / 1e6
    )
    assert process.outside == {}


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
    # One period, from 59 to 82: idle before c, and without a finding, because nothing follows c, before q and after.
    assert sum(row.ms for row in process.rows) == 3.0
    assert sample.values[Metric.GAP_MS] == 3.0 + 3.0 + 11.0
    assert process.remarks == (
        "gpu_gaps: 13 ms of 37 ms of gaps are none: a CUDA graph traced whole, or another process, ran on the GPU",
    )


def test_a_gap_in_which_something_ran_all_the_time_is_not_counted() -> None:
    timeline = draw("""
range    |----step----| |----step----| |----step----|
launch    ^a             ^b ^x     ^y  ^c
kernel    |-a-|          |b-|      |-y-|-c-|
graph                       |--x---|
    """)
    process = placed(of_gaps(timeline), timeline)
    assert process.remarks == (
        "gpu_gaps: 7 ms of 18 ms of gaps are none: a CUDA graph traced whole, or another process, ran on the GPU",
    )
    assert process.rows == ()
    assert process.outside == {GAPS: 1}  # before the second step's completion


def test_gaps_of_a_process_on_two_gpus_add_up() -> None:
    timeline = draw("""
range        |---step---| |---step---| |---step---| |---step---|
launch        ^a   ^b      ^c   ^d      ^e   ^f      ^g   ^h
kernel        |-a--|       |-c--|       |-e--|       |-g-|
kernel gpu1        |-b--|       |-d--|       |-f--|       |-h--|
    """)
    (sample,) = measure(timeline, step="step", steps=4)
    found = of_gaps(timeline, own={0: 1, 1: 0})
    assert {one.device for one in found} == {0, 1}
    process = placed(found, timeline)
    # Two periods, from 37 to 63: 3 + 8 ms on the first GPU and 8 + 8 on the second. After g the first has nothing more
    # to do for 6 ms: nsys does not call that a gap.
    assert sum(row.ms for row in process.rows) == (3 + 8 + 8 + 8) / 2
    assert sample.values[Metric.GAP_MS] == (3 + 8 + 8 + 8 + 6) / 2 / 2
    assert process.remarks == ()


def test_gaps_of_a_gpu_that_the_process_did_not_use_are_not_counted() -> None:
    timeline = draw(GAPPY)
    strange = [
        one.model_copy(update={"start_ns": one.start_ns + 1, "device": 3})
        for one in of_gaps(timeline)[:2]
    ]
    process = placed([*of_gaps(timeline), *strange], timeline)
    assert process.remarks == (
        "gpu_gaps: 2 of 9 findings are of nothing that drawn.sqlite holds, and are not counted",
    )


def test_gaps_of_too_few_steps_are_not_placed() -> None:
    timeline = draw("\n".join(line[:38] for line in GAPPY.splitlines()))
    process = placed(of_gaps(timeline), timeline)
    assert process.rows == ()
    assert process.remarks == ("gpu_gaps: not placed: needs 3 steps, the capture holds 2",)


def test_what_passes_while_an_interleaved_duet_waits_is_no_gap() -> None:
    drawn = draw("""
range   |-step-| |-step-| |-step-|           |-step-| |-step-|
launch   ^a       ^b       ^c                 ^d       ^e
kernel   |-a-|    |-b-|    |--c-|             |--d--|  |-e-|
range                             |--wait--|
    """)
    names = [WAIT_RANGE if name == "wait" else name for name in drawn.ranges.name.tolist()]
    timeline = dataclasses.replace(
        drawn, ranges=dataclasses.replace(drawn.ranges, name=RangeNames.of(names))
    )
    (sample,) = measure(timeline, step="step", steps=5)
    process = placed(of_gaps(timeline), timeline)
    # Periods 24-33 and 52-61: of the gap of 14 ms around the wait only the first ms is in one.
    assert max(one.duration_ns for one in of_gaps(timeline)) == 14_000_000
    assert {row.range: row.ms for row in process.rows} == {
        "step": (1 + 1 + 1) / 2,
        OUTSIDE_RANGES: (2 + 2) / 2,
    }
    assert gaps_by_range(sample) == {
        "step": (1 + 1 + 1 + 2) / 2,
        OUTSIDE_RANGES: (2 + 2) / 2,
    }  # e ends before its step


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40), st.integers(0, 399)), max_size=30),
    st.lists(st.tuples(st.integers(0, 390), st.integers(1, 60)), max_size=8),
)
def test_all_gaps_are_gap_ms_range_by_range(
    ops: list[tuple[int, int, int]], inner: list[tuple[int, int]]
) -> None:
    """Operations one after another, each launched at any time in four steps; the last of all ends after the steps."""
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
    assert process.remarks == ()


# --- the whole -------------------------------------------------------------------------------------------------------


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


def test_findings_of_processes_without_steps_are_told_apart() -> None:
    timeline = build(
        ranges=[Range(start=0, end=100)],
        calls=[Call(start=5, end=6, name=MEMCPY, pid=pid, correlation=3) for pid in (PID, 7)],
        copies=[Op(start=10, end=20, pid=pid, correlation=3) for pid in (PID, 7)],
    )
    placing = place(findings(*of_operations(timeline)), timeline, step="step", steps=1)
    assert [process.pid for process in placing.processes] == [PID]
    assert placing.elsewhere == {COPY: 1}


def test_stretches_of_low_use_and_rules_that_were_skipped_have_no_place() -> None:
    timeline = draw(COPIES)
    used = Finding(
        rule=RuleName.GPU_TIME_UTIL,
        start_ns=0,
        duration_ns=10,
        pid=PID,
        device=0,
        in_use_percent=12.5,
    )
    applied = (RuleName.GPU_TIME_UTIL, RuleName.CUDA_API_SYNC)
    found = Findings(
        rows={RuleName.GPU_TIME_UTIL: (used,), RuleName.CUDA_API_SYNC: ()},
        skipped={rule: "why" for rule in RuleName if rule not in applied},
    )
    assert place(found, timeline, step="step", steps=2) == Placing(
        processes=(ProcessFindings(pid=PID, steps=2, rows=()),)
    )


def test_a_capture_without_the_step_has_no_place_for_anything() -> None:
    timeline = draw(COPIES)
    with pytest.raises(StepsNotFound):
        place(findings(*of_operations(timeline)), timeline, step="batch", steps=2)
