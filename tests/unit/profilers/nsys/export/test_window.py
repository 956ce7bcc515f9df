"""What read_window takes from an export: what ran in a window or was launched in it, and with which stream."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.exports import (
    PID,
    Call,
    Copy,
    Event,
    Graph,
    Kernel,
    Memset,
    Range,
    Row,
    execute,
    in_small_pages,
    write_export,
)
from support.refusals import AGAIN

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown
from perfgate.model.timeline import CopyKind, MemoryKind
from perfgate.model.window import NO_STREAM, StreamSpans, WindowOps
from perfgate.profilers.nsys.export import pages
from perfgate.profilers.nsys.export.scrub import scrub
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.profilers.nsys.export.window import read_window

LAUNCH = "cudaLaunchKernel_v7000"
TABLES = ("kernels", "copies", "memsets", "graphs")


def kernel_names(ops: WindowOps) -> list[str]:
    return [ops.names[name] for name in ops.kernels.name.tolist()]


def rows(ops: StreamSpans) -> list[tuple[int, ...]]:
    """Every column of every row."""
    columns = [getattr(ops, field.name).tolist() for field in dataclasses.fields(ops)]
    return list(zip(*columns, strict=True))


def test_every_column_of_every_kind_is_read(path: Path) -> None:
    write_export(
        path,
        Kernel("gemm(float*)", 100, 160, correlation=1, stream=13),
        Kernel("gemm(float*)", 170, 171, correlation=7, graph_node=4),
        Copy(200, 300, 8_000_000_000, correlation=2, source=0),
        Copy(300, 310, 10, kind=CopyKind.D2H, source=2, target=None),
        Memset(310, 312, correlation=3),
        Graph(400, 800, correlation=5),
    )
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET streamId = 21 WHERE start = 200")
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_GRAPH_TRACE SET streamId = 4294967295")

    ops = read_window(path, 0, 1000)

    assert (ops.source, ops.start_ns, ops.end_ns, ops.processes, ops.operations) == (
        "run.sqlite",
        0,
        1000,
        (PID,),
        6,
    )
    kernels = ops.kernels
    assert kernel_names(ops) == ["gemm(float*)", "gemm(float*)"]
    assert (kernels.start.tolist(), kernels.end.tolist()) == ([100, 170], [160, 171])
    assert (kernels.stream.tolist(), kernels.correlation.tolist()) == ([13, 7], [1, 7])
    assert (kernels.device.tolist(), kernels.process.tolist()) == ([0, 0], [0, 0])
    assert kernels.graph_node.tolist() == [False, True]
    copies = ops.copies
    assert (copies.stream.tolist(), copies.bytes.tolist()) == ([21, 7], [8_000_000_000, 10])
    assert copies.kind.tolist() == [CopyKind.H2D, CopyKind.D2H]
    assert copies.source.tolist() == [MemoryKind.PAGEABLE, MemoryKind.DEVICE]
    assert copies.target.tolist() == [MemoryKind.DEVICE, MemoryKind.UNKNOWN]
    assert rows(ops.memsets) == [(310, 312, 0, 0, 7, 3, 64)]
    assert rows(ops.graphs) == [(400, 800, 0, 0, 4294967295, 5)]


def test_what_runs_in_the_window_or_is_launched_in_it(path: Path) -> None:
    # window                 [100          200)
    write_export(
        path,
        *(
            Call(LAUNCH, at, at + 1, correlation=number)
            for number, at in enumerate((10, 20, 30, 120, 130, 99, 200))
        ),
        Kernel("ends with its begin", 40, 100, correlation=0),
        Kernel("reaches into it", 50, 101, correlation=1),
        Kernel("spans it", 60, 900, correlation=2),
        Kernel("inside", 140, 150, correlation=3),
        Kernel("launched in it, runs after it", 300, 310, correlation=4),
        Kernel("begins as it ends", 200, 300, correlation=5),
        Kernel("launched as it ends", 210, 220, correlation=6),
        Kernel("no call, inside", 199, 250),
        Kernel("without length, at its begin", 100, 100),
        Kernel("without length, at its end", 200, 200),
    )
    assert kernel_names(read_window(path, 100, 200)) == [
        "reaches into it",
        "spans it",
        "inside",
        "launched in it, runs after it",
        "no call, inside",
        "without length, at its begin",
    ]


def test_a_driver_call_inside_the_runtime_call_launches_nothing_anew(path: Path) -> None:
    write_export(
        path,
        Call(LAUNCH, 90, 120, correlation=5),
        Call("cuLaunchKernel", 101, 110, correlation=5),
        Call(LAUNCH, 130, 150, correlation=6),
        Call("cuLaunchKernel", 135, 140, correlation=6),
        Kernel("launched before", 300, 301, correlation=5),
        Kernel("launched inside", 302, 303, correlation=6),
    )
    assert kernel_names(read_window(path, 100, 200)) == ["launched inside"]


def test_an_id_of_another_process_launches_nothing_here(path: Path) -> None:
    write_export(
        path,
        Call(LAUNCH, 110, 111, correlation=5, process=1),
        Call(LAUNCH, 10, 11, correlation=5, process=2),
        Kernel("mine", 300, 301, correlation=5, process=1),
        Kernel("the other's", 300, 301, correlation=5, process=2),
    )
    assert kernel_names(read_window(path, 100, 200)) == ["mine"]


def test_an_id_that_many_calls_share_stands_for_none(path: Path) -> None:
    write_export(
        path,
        *(Call("cudaGetDevice_v3020", at, at + 1, correlation=0) for at in (110, 120, 130)),
        Kernel("untold", 300, 301, correlation=0),
    )
    assert kernel_names(read_window(path, 100, 200)) == []


def test_moved_managed_memory_was_launched_by_nothing(path: Path) -> None:
    write_export(
        path,
        Call("cudaMemcpyAsync_v3020", 110, 111, correlation=5),
        Copy(300, 310, 4096, correlation=5, kind=CopyKind.UVM_H2D),
        Copy(150, 160, 4096, correlation=9, kind=CopyKind.UVM_H2D),
    )
    assert read_window(path, 100, 200).copies.start.tolist() == [150]


def test_processes_and_devices_are_numbered_as_in_the_timeline(path: Path) -> None:
    # Each process sees one GPU as its first; the first process does nothing in the window, another only has ranges.
    write_export(
        path,
        Range("elsewhere", 0, 10, process=50),
        Kernel("early", 0, 10, process=100),
        Kernel("late", 500, 510, process=200),
        Kernel("late", 500, 510, process=300),
        Copy(520, 530, 8, process=300),
        Row("TARGET_INFO_CUDA_DEVICE", gpuId=4, cudaId=0, pid=200),
        Row("TARGET_INFO_CUDA_DEVICE", gpuId=6, cudaId=0, pid=300),
    )
    timeline, ops = read_timeline(path), read_window(path, 400, 600)
    assert ops.processes == timeline.processes == (50, 100, 200, 300)
    assert (ops.kernels.process.tolist(), ops.kernels.device.tolist()) == ([2, 3], [4, 6])
    assert (ops.copies.process.tolist(), ops.copies.device.tolist()) == ([3], [6])


def test_operations_of_an_untold_process_belong_to_the_only_one(path: Path) -> None:
    write_export(path, Range("step", 0, 900), Kernel("k", 500, 510, process=None))
    assert read_window(path, 400, 600).processes == (PID,)
    assert read_window(path, 400, 600).kernels.process.tolist() == [0]


def test_operations_of_an_untold_process_among_several_have_one_of_their_own(path: Path) -> None:
    write_export(
        path,
        Range("r", 0, 1, process=1),
        Range("r", 0, 1, process=2),
        Kernel("k", 500, 510, process=None),
    )
    ops = read_window(path, 400, 600)
    assert ops.processes == read_timeline(path).processes == (1, 2, 0)
    assert ops.kernels.process.tolist() == [2]


def test_equal_pids_of_two_machines_stay_two(path: Path) -> None:
    write_export(path, Kernel("a", 0, 9, host=1), Kernel("b", 500, 510, host=2))
    ops = read_window(path, 400, 600)
    assert ops.processes == (PID, PID)
    assert ops.kernels.process.tolist() == [1]


def test_old_exports_without_streams_processes_and_ids(path: Path) -> None:
    write_export(
        path,
        Call(LAUNCH, 450, 451, correlation=1),
        Kernel("k", 500, 510, correlation=1),
        Memset(520, 530),
    )
    for column in ("streamId", "globalPid", "correlationId"):
        execute(path, f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN {column}")
    for column in ("streamId", "bytes"):
        execute(path, f"ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET DROP COLUMN {column}")
    ops = read_window(path, 400, 600)
    assert rows(ops.kernels)[0][:6] == (500, 510, 0, 0, NO_STREAM, -1)
    assert rows(ops.memsets) == [(520, 530, 0, 0, NO_STREAM, -1, 0)]
    assert ops.processes == (PID,)


def test_a_stream_that_is_null_is_none(path: Path) -> None:
    write_export(path, Kernel("k", 500, 510), Kernel("k", 520, 530, stream=9))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO strict")
    execute(path, "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM strict")
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = NULL WHERE start = 500")
    assert read_window(path, 400, 600).kernels.stream.tolist() == [NO_STREAM, 9]


def test_a_kernel_whose_name_is_not_there_is_called_by_its_number(path: Path) -> None:
    write_export(path, Kernel("k", 500, 510))
    execute(path, "DELETE FROM StringIds")
    assert kernel_names(read_window(path, 400, 600)) == ["(name 1)"]


def test_names_are_those_of_the_window_only(path: Path) -> None:
    write_export(path, Kernel("early", 0, 10), Kernel("late", 500, 510))
    assert set(read_window(path, 400, 600).names.values()) == {"late"}


def test_a_capture_without_a_gpu_is_empty(path: Path) -> None:
    ops = read_window(write_export(path, Range("step", 0, 900)), 0, 900)
    assert (ops.operations, ops.processes, ops.names) == (0, (PID,), {})
    assert ops.kernels.stream.dtype == np.int64
    assert ops.copies.kind.dtype == np.int8


def test_a_window_in_which_nothing_ran(path: Path) -> None:
    write_export(
        path, Call(LAUNCH, 0, 5, correlation=1), Kernel("k", 10, 20, correlation=1), Copy(30, 40, 5)
    )
    assert read_window(path, 100, 200).operations == 0


def test_a_window_without_length_is_a_moment(path: Path) -> None:
    write_export(
        path, Call(LAUNCH, 0, 5, correlation=1), Kernel("k", 10, 20, correlation=1), Copy(20, 40, 5)
    )
    assert kernel_names(read_window(path, 15, 15)) == ["k"]
    assert read_window(path, 20, 20).operations == 0


MANY: Sequence[Event] = (
    Range("step", 0, 900),
    *(Call(LAUNCH, 10 * number, 10 * number + 3, correlation=number) for number in range(1, 60)),
    *(
        Kernel(f"k{number % 3}", 10 * number + 100, 10 * number + 108, correlation=number)
        for number in range(1, 60)
    ),
    *(Copy(10 * number + 108, 10 * number + 109, number) for number in range(1, 60)),
)


def same(one: WindowOps, other: WindowOps) -> None:
    for table in TABLES:
        assert rows(getattr(one, table)) == rows(getattr(other, table)), table
    assert (one.names, one.processes) == (other.names, other.processes)


@pytest.mark.parametrize("at_once", [1, 1024, 1536])
def test_tables_are_read_in_parts(
    path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    write_export(path, *MANY)
    whole = read_window(path, 200, 400)
    assert whole.kernels.start.tolist() == list(range(200, 500, 10))
    in_small_pages(path)
    monkeypatch.setattr(pages, "BYTES_AT_ONCE", at_once)
    same(read_window(path, 200, 400), whole)


def test_rows_in_another_order_and_with_holes(path: Path, tmp_path: Path) -> None:
    whole = read_window(write_export(path, *MANY), 200, 400)
    other = write_export(tmp_path / "other.sqlite", *reversed(MANY))
    # Row ids that promise far more rows than the file has room for.
    execute(other, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = rowid * 1000000000")
    execute(other, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET rowid = rowid + 500 WHERE rowid > 30")
    ops = read_window(other, 200, 400)
    assert kernel_names(ops) == kernel_names(whole)[::-1]
    assert ops.kernels.start.tolist() == whole.kernels.start.tolist()[::-1]
    assert ops.copies.start.tolist() == whole.copies.start.tolist()[::-1]


def test_row_ids_as_far_apart_as_can_be(path: Path) -> None:
    """Parts of so many ids fit into no memory."""
    write_export(path, Kernel("k", 5, 6), Kernel("k", 7, 9))
    execute(
        path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = 4000000000000000000 WHERE start = 5"
    )
    assert read_window(path, 0, 10).kernels.start.tolist() == [7, 5]


def test_a_scrubbed_export_reads_the_same(path: Path, tmp_path: Path) -> None:
    write_export(path, *MANY, Memset(300, 310), Graph(310, 320), version="2025.3.1")
    scrub(path, tmp_path / "scrubbed.sqlite")
    same(read_window(tmp_path / "scrubbed.sqlite", 200, 400), read_window(path, 200, 400))


def test_the_export_is_not_touched(path: Path) -> None:
    write_export(path, *MANY)
    before = path.read_bytes()
    path.chmod(0o444)
    read_window(path, 200, 400)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_window_that_ends_before_it_starts(path: Path) -> None:
    with pytest.raises(ValueError, match="the window ends at 5 ns, before it starts at 6 ns"):
        read_window(path, 6, 5)


def test_what_is_no_export_is_refused(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(CaptureUnreadable) as caught:
        read_window(path, 0, 1)
    assert str(caught.value) == f"{path}: the file is empty.\n{AGAIN}"


def test_a_layout_that_is_not_known_is_refused(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN deviceId TO gpu")
    with pytest.raises(LayoutUnknown, match="CUPTI_ACTIVITY_KIND_KERNEL has no column deviceId"):
        read_window(path, 0, 1)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 499",
            "CUPTI_ACTIVITY_KIND_KERNEL has 1 row that ends before it starts, as from 500 to 499 ns",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 5000000000",
            "CUPTI_ACTIVITY_KIND_KERNEL has 5000000000 as a device, which no nsys writes",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = -5",
            "CUPTI_ACTIVITY_KIND_MEMCPY has a copy of -5 bytes",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = 'mine' WHERE start = 0",
            "CUPTI_ACTIVITY_KIND_KERNEL has other values than whole numbers as process",
        ),
    ],
)
def test_values_that_no_nsys_writes_are_refused(path: Path, change: str, fact: str) -> None:
    write_export(path, Kernel("k", 500, 510), Copy(500, 510, 8), Kernel("outside", 900, 910))
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 0, end = 1 WHERE start = 900")
    execute(
        path, f"{change} AND start < 600" if "WHERE" in change else f"{change} WHERE start = 500"
    )
    with pytest.raises(CaptureUnreadable) as caught:
        read_window(path, 400, 600)
    assert str(caught.value) == f"{path}: it is damaged: {fact}.\n{AGAIN}"


# --- against all rows, filtered one by one -------------------------------------------------------------------------


@st.composite
def captures(draw: st.DrawFn) -> list[Call | Kernel | Copy | Memset | Graph]:
    events: list[Call | Kernel | Copy | Memset | Graph] = []
    for number in range(draw(st.integers(0, 12))):
        process = draw(st.sampled_from([1, 2]))
        at, start = draw(st.integers(0, 60)), draw(st.integers(0, 100))
        end = start + draw(st.integers(0, 30))
        correlation = draw(st.sampled_from([None, number + 1, number + 1, number + 1]))
        if draw(st.booleans()) and correlation is not None:
            events.append(
                Call(
                    LAUNCH,
                    at,
                    at + draw(st.integers(0, 9)),
                    correlation=correlation,
                    process=process,
                )
            )
        kind = draw(st.sampled_from(TABLES))
        if kind == "kernels":
            stream = draw(st.integers(7, 9))
            events.append(Kernel("k", start, end, correlation, process=process, stream=stream))
        elif kind == "copies":
            events.append(Copy(start, end, number, correlation, process=process))
        elif kind == "memsets":
            events.append(Memset(start, end, correlation, process=process))
        else:
            events.append(Graph(start, end, correlation, process=process))
    return draw(st.permutations(events))


@settings(max_examples=80)
@given(captures(), st.integers(0, 90), st.integers(0, 60))
def test_every_row_is_taken_or_left_by_its_own_times_and_call(
    events: list[Call | Kernel | Copy | Memset | Graph], start_ns: int, length: int
) -> None:
    end_ns = start_ns + length
    launched_at = {
        (one.process, one.correlation): one.start for one in events if isinstance(one, Call)
    }

    def wanted(one: Kernel | Copy | Memset | Graph) -> bool:
        if start_ns <= launched_at.get((one.process, one.correlation), -1) < end_ns:
            return True
        if one.start == one.end:
            return start_ns <= one.start < end_ns
        return one.start < end_ns and one.end > start_ns

    with tempfile.TemporaryDirectory() as folder:
        ops = read_window(write_export(Path(folder) / "run.sqlite", *events), start_ns, end_ns)
    for table, kind in zip(TABLES, (Kernel, Copy, Memset, Graph), strict=True):
        found = getattr(ops, table)
        told = [
            (start, end, ops.processes[process])
            for start, end, process in zip(
                found.start.tolist(), found.end.tolist(), found.process.tolist(), strict=True
            )
        ]
        assert told == [
            (e.start, e.end, e.process)
            for e in events
            if not isinstance(e, Call) and isinstance(e, kind) and wanted(e)
        ], table
