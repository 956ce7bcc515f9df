"""What read_timeline makes of an export."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from support.exports import (
    Call,
    Copy,
    Domain,
    Event,
    Graph,
    Kernel,
    Memset,
    Range,
    Row,
    execute,
    global_pid,
    in_small_pages,
    write_export,
)
from support.refusals import refusal
from syrupy.assertion import SnapshotAssertion

from perfgate.model.timeline import (
    NO_NODE,
    NO_STREAM,
    MemoryKind,
    Ranges,
    Timeline,
    WaitKind,
)
from perfgate.profilers.nsys.export import pages
from perfgate.profilers.nsys.export.timeline import read_timeline


def ranges_of(path: Path, *rows: Event) -> Ranges:
    return read_timeline(write_export(path, *rows)).ranges


def names(timeline: Timeline, keys: np.ndarray[tuple[int], np.dtype[np.int32]]) -> list[str]:
    return [timeline.names[key] for key in keys.tolist()]


def columns(timeline: Timeline, *kinds: str) -> dict[str, dict[str, list[int]]]:
    """All columns of the events of some kinds."""
    return {
        kind: {
            column.name: getattr(events, column.name).tolist()
            for column in dataclasses.fields(events)
        }
        for kind in kinds
        for events in [getattr(timeline, kind)]
    }


def test_every_kind_of_event_is_read_with_its_times_and_links(
    path: Path, snapshot: SnapshotAssertion
) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Range("step", 0, 900),
            Call("cudaLaunchKernel_v7000", 10, 15, correlation=1),
            Call("cudaMemcpyAsync_v3020", 20, 29, correlation=2, thread=600),
            Kernel("gemm(float*)", 100, 160, correlation=1, stream=13),
            Kernel("gemm(float*)", 170, 171, correlation=7, graph_node=4),
            Copy(200, 300, 8_000_000_000, correlation=2, source=0),
            Memset(310, 312, correlation=3),
            Graph(400, 800, correlation=5),
        )
    )
    assert columns(timeline, "kernels", "copies", "memsets", "graphs", "calls") == snapshot
    assert timeline.names == snapshot
    assert timeline.ranges.thread.tolist() == [548]
    assert timeline.processes == (548,)
    assert timeline.source == "run.sqlite"
    assert timeline.gpu_operations == 5
    assert timeline.missing == {}


def test_events_and_waits_are_read_with_what_links_them(
    path: Path, snapshot: SnapshotAssertion
) -> None:
    where = {"deviceId": 0, "contextId": 1, "globalPid": global_pid(7)}
    record = {"correlationId": 4, "eventId": 9, "eventSyncId": 31}
    wait = {"start": 50, "end": 60, "syncType": 2, **record, "correlationId": 5}
    device = {**wait, "syncType": 4, "streamId": 2**32 - 1, "eventId": None, "eventSyncId": None}
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, process=7),
            Row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", timestamp=0, streamId=7, **where, **record),
            Row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **{**where, "streamId": 8, **wait}),
            Row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **where, **device),
            Row("TARGET_INFO_GPU", id=3, name="NVIDIA H200", uuid=None, cuDevice=0),
        )
    )
    assert timeline.waits.kind.tolist() == [WaitKind.STREAM_FOR_EVENT, WaitKind.CONTEXT]
    assert columns(timeline, "event_records", "waits") == snapshot


def test_memory_kinds_that_the_model_does_not_know_are_unknown(path: Path) -> None:
    rows = (Copy(0, 1, 2, source=7, target=None), Copy(0, 1, 2, source=4, target=3))
    copies = read_timeline(write_export(path, *rows)).copies
    assert copies.source.tolist() == [MemoryKind.UNKNOWN, MemoryKind.MANAGED]
    assert copies.target.tolist() == [MemoryKind.UNKNOWN, MemoryKind.ARRAY]


def test_copies_that_cupti_merged_into_one_row_are_counted(path: Path) -> None:
    write_export(path, *(Copy(start, start + 1, 64) for start in range(4)))
    assert read_timeline(path).copies.count.tolist() == [1, 1, 1, 1]
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN copyCount INTEGER")
    change = "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyCount = ? WHERE start = ?"
    for start, count in enumerate((8, 0, None, 2)):
        execute(path, change, [count, start])
    assert read_timeline(path).copies.count.tolist() == [8, 1, 1, 2]
    execute(path, change, [-1, 3])
    assert refusal(path)[0] == "export-impossible"


def test_large_tables_are_read_in_parts_in_the_order_of_their_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "BYTES_AT_ONCE", 1)
    ranges = [
        Range(f"r{i}", i, i + 1, event=34 if i % 4 == 0 else 59, registered=i % 3 == 0)
        for i in range(50)
    ]
    kernels = [Kernel(f"k{i % 3}", i, i + 1, process=i % 5 + 1) for i in range(100)]
    write_export(path, *kernels, *ranges, *(Call("c", i, i + 1, correlation=i) for i in range(30)))
    execute(path, "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId BETWEEN 3 AND 19")
    timeline = read_timeline(in_small_pages(path))
    assert timeline.kernels.start.tolist() == list(range(100))
    assert timeline.kernels.process.tolist() == [i % 5 for i in range(100)]
    assert names(timeline, timeline.kernels.name) == [f"k{i % 3}" for i in range(100)]
    assert list(timeline.ranges.name) == [f"r{i}" for i in range(50) if i % 4]
    assert timeline.calls.correlation.tolist() == [0, 1, 2, *range(20, 30)]


def test_columns_that_an_old_export_lacks_have_their_answer(path: Path) -> None:
    rows = (Kernel("k", 0, 1, correlation=1), Call("c", 0, 1), Range("step", 0, 9))
    write_export(path, *rows, Copy(2, 3, 4))
    for column in ("correlationId", "globalPid", "graphNodeId", "streamId"):
        execute(path, f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN {column}")
    for column in ("srcKind", "dstKind"):
        execute(path, f"ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN {column}")
    for column in ("textId", "domainId"):
        execute(path, f"ALTER TABLE NVTX_EVENTS DROP COLUMN {column}")
    timeline = read_timeline(path)
    assert timeline.kernels.correlation.tolist() == [-1]
    assert timeline.kernels.process.tolist() == [0]
    assert timeline.kernels.stream.tolist() == [NO_STREAM]
    assert timeline.kernels.graph_node.tolist() == [NO_NODE]
    assert names(timeline, timeline.kernels.name) == ["k"]
    assert timeline.copies.source.tolist() == [MemoryKind.UNKNOWN]
    assert list(timeline.ranges.name) == ["step"]


def test_names_may_hold_anything(path: Path) -> None:
    write_export(path, Range("two\nlines", 0, 1), Range("nul\0inside", 1, 2), Range("broken", 2, 3))
    execute(path, "UPDATE NVTX_EVENTS SET text = CAST(x'ff41' AS TEXT) WHERE text = 'broken'")
    assert list(read_timeline(path).ranges.name) == ["two\nlines", "nul\0inside", "\ufffdA"]
    other = write_export(path.with_name("other.sqlite"), Kernel("k", 0, 1))
    execute(other, "UPDATE StringIds SET value = CAST(x'c328' AS TEXT)")
    assert list(read_timeline(other).names.values()) == ["\ufffd("]


# --- ranges and their domains --------------------------------------------------------------------


def test_a_range_has_its_own_text_or_a_registered_one(path: Path) -> None:
    rows = (Range("own", 0, 1), Range("registered", 1, 2, registered=True), Range(None, 2, 3))
    assert list(ranges_of(path, *rows).name) == ["own", "registered", ""]


def test_a_range_that_was_never_closed_ends_with_the_last_range(path: Path) -> None:
    mark = Range("mark", 90, None, event=34)
    ranges = ranges_of(path, Range("open", 10, None), Range("b", 20, 70), mark)
    assert (ranges.end.tolist(), ranges.closed.tolist()) == ([70, 70], [False, True])
    other = path.with_name("other.sqlite")
    ranges = ranges_of(other, Range("open", 10, None), Range("open too", 40, None))
    assert (ranges.end.tolist(), ranges.closed.tolist()) == ([40, 40], [False, False])


def test_start_end_ranges_differ_from_push_pop_and_marks_are_left_out(path: Path) -> None:
    ranges = ranges_of(
        path,
        Range("push", 0, 1),
        Range("mark", 1, None, event=34),
        Range("start", 2, 3, event=60),
        Range("text push", 4, 5, event=70),
        Range("text start", 6, 7, event=71),
    )
    assert list(ranges.name) == ["push", "start", "text push", "text start"]
    assert ranges.push_pop.tolist() == [True, False, True, False]


def test_ranges_of_a_named_domain_bear_its_name(path: Path) -> None:
    ranges = ranges_of(
        path,
        Domain("NCCL", 1),
        Domain("NCCL again", 1, start=5),
        Domain("other", 1, process=600),
        Range("allReduce", 10, 20, domain=1),
        Range("a:b", 20, 30),
        Range("allReduce", 30, 40, domain=1, process=600),
        Range("lost", 40, 50, domain=9),
        Range("none", 50, 60, domain=None),
    )
    assert list(ranges.name) == ["NCCL:allReduce", "a:b", "other:allReduce", "lost", "none"]


def test_a_domain_may_be_named_by_a_registered_string(path: Path) -> None:
    registered = Range("NCCL", 20, 30, registered=True)
    write_export(path, Domain("?", 1), Range("allReduce", 10, 20, domain=1), registered)
    execute(path, "UPDATE NVTX_EVENTS SET text = NULL, textId = 1 WHERE eventType = 75")
    assert list(read_timeline(path).ranges.name) == ["NCCL:allReduce", "NCCL"]


def test_ranges_of_a_domain_that_several_threads_created_are_repeated_in_the_report(
    path: Path,
) -> None:
    write_export(
        path,
        *(Domain("one", 1, start=start) for start in range(4)),
        Domain("one", 1, process=600, start=4),
        Range("a", 10, 20, domain=1),
        Range("b", 20, 30, domain=1),
        Range("step", 30, 40),
        Range("c", 30, 40, domain=1, process=600),
    )
    assert read_timeline(path).ranges_repeated == 0
    execute(
        path,
        "UPDATE NVTX_EVENTS SET globalTid = globalTid + start "
        "WHERE eventType = 75 AND start IN (2, 3)",
    )
    assert read_timeline(path).ranges_repeated == 2 * 2


# --- processes -----------------------------------------------------------------------------------


def test_processes_are_numbered_in_the_order_of_their_ids(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, process=900),
            Kernel("k", 0, 1, process=20),
            Call("c", 0, 1, process=20, thread=21),
            Range("step", 0, 1, process=900, thread=902),
        )
    )
    assert timeline.processes == (20, 900)
    assert timeline.kernels.process.tolist() == [1, 0]
    assert timeline.calls.process.tolist() == [0]
    assert timeline.ranges.process.tolist() == [1]
    assert timeline.ranges.thread.tolist() == [902]


def test_equal_pids_of_two_machines_are_two_processes(path: Path) -> None:
    rows = (Kernel("k", 0, 1, host=1), Kernel("k", 0, 1, host=2), Call("c", 0, 1, host=2))
    timeline = read_timeline(write_export(path, *rows))
    assert timeline.processes == (548, 548)
    assert (timeline.kernels.process.tolist(), timeline.calls.process.tolist()) == ([0, 1], [1])


@pytest.mark.parametrize(
    ("others", "processes", "number"), [((548,), (548,), 0), ((7, 8), (7, 8, 0), 2)]
)
def test_rows_without_a_process_belong_to_the_only_one_or_to_one_of_their_own(
    path: Path, others: tuple[int, ...], processes: tuple[int, ...], number: int
) -> None:
    calls = [Call("c", 0, 1, process=pid) for pid in others]
    timeline = read_timeline(write_export(path, Kernel("k", 0, 1, process=None), *calls))
    assert timeline.processes == processes
    assert timeline.kernels.process.tolist() == [number]
