"""What read_timeline makes of an export, and what it says of files that are none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from support.exports import (
    Call,
    Copy,
    Domain,
    Graph,
    Kernel,
    Memset,
    Range,
    Row,
    execute,
    write_export,
)

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown, PerfgateError
from perfgate.model.timeline import CapturedGpu, CopyKind, Diagnostic, MemoryKind, Timeline
from perfgate.nsys import sqlite
from perfgate.nsys.sqlite import read_timeline

AGAIN = "Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


EXPORT_AGAIN = "Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"


def refusal(path: Path, kind: type[PerfgateError] = CaptureUnreadable) -> str:
    """The whole message with which an export is refused, without its folder."""
    with pytest.raises(kind) as caught:
        read_timeline(path)
    return str(caught.value).replace(f"{path.parent}/", "")


def range_names(timeline: Timeline) -> list[str]:
    return list(timeline.ranges.name)


# --- what is read ----------------------------------------------------------------------------------------------------


def test_every_kind_of_event_is_read_with_its_times_and_links(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Range("step", 0, 900),
            Call("cudaLaunchKernel_v7000", 10, 15, correlation=1),
            Call("cudaMemcpyAsync_v3020", 20, 29, correlation=2, thread=600),
            Kernel("gemm(float*)", 100, 160, correlation=1),
            Kernel("gemm(float*)", 170, 171, correlation=7, graph_node=4),
            Copy(200, 300, 8_000_000_000, correlation=2, source=0),
            Memset(310, 312, correlation=3),
            Graph(400, 800, correlation=5),
        )
    )

    kernels = timeline.kernels
    assert kernels.start.tolist() == [100, 170]
    assert kernels.end.tolist() == [160, 171]
    assert kernels.device.tolist() == [0, 0]
    assert kernels.process.tolist() == [0, 0]
    assert kernels.correlation.tolist() == [1, 7]
    assert [timeline.names[name] for name in kernels.name.tolist()] == ["gemm(float*)", "gemm(float*)"]
    assert kernels.graph_node.tolist() == [False, True]
    copies = timeline.copies
    assert copies.start.tolist() == [200]
    assert copies.end.tolist() == [300]
    assert copies.bytes.tolist() == [8_000_000_000]
    assert copies.kind.tolist() == [CopyKind.H2D]
    assert copies.source.tolist() == [MemoryKind.PAGEABLE]
    assert copies.target.tolist() == [MemoryKind.DEVICE]
    assert copies.correlation.tolist() == [2]
    assert timeline.memsets.start.tolist() == [310]
    assert timeline.memsets.correlation.tolist() == [3]
    assert timeline.graphs.start.tolist() == [400]
    assert timeline.graphs.end.tolist() == [800]
    assert timeline.graphs.correlation.tolist() == [5]
    calls = timeline.calls
    assert calls.start.tolist() == [10, 20]
    assert calls.end.tolist() == [15, 29]
    assert calls.thread.tolist() == [548, 600]
    assert calls.correlation.tolist() == [1, 2]
    assert [timeline.names[name] for name in calls.name.tolist()] == ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020"]
    assert range_names(timeline) == ["step"]
    assert timeline.ranges.thread.tolist() == [548]
    assert timeline.processes == (548,)
    assert timeline.source == "run.sqlite"
    assert timeline.nsys_version == "2024.2.3.38"
    assert timeline.schema_version == "3.11.1"
    assert timeline.gpu_operations == 5
    assert timeline.missing == {}


def test_arrays_have_the_dtypes_of_the_model(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Range("a", 0, 1), Call("c", 0, 1), Kernel("k", 0, 1), Copy(0, 1, 2), Memset(0, 1))
    )
    empty = read_timeline(write_export(path.with_name("empty.sqlite"), Range("a", 0, 1)))

    for one in (timeline, empty):
        for column in (one.kernels.start, one.calls.thread, one.copies.bytes, one.graphs.end, one.ranges.start):
            assert column.dtype == np.int64
        for small in (one.kernels.device, one.kernels.process, one.kernels.name, one.calls.name, one.ranges.process):
            assert small.dtype == np.int32
        for kinds in (one.copies.kind, one.copies.source, one.copies.target):
            assert kinds.dtype == np.int8
        for flags in (one.kernels.graph_node, one.ranges.closed, one.ranges.push_pop):
            assert flags.dtype == np.bool_
        assert one.ranges.name.dtype == np.object_


def test_missing_links_are_minus_one(path: Path) -> None:
    timeline = read_timeline(write_export(path, Kernel("k", 0, 1, correlation=None), Call("c", 0, 1, correlation=None)))
    assert timeline.kernels.correlation.tolist() == [-1]
    assert timeline.calls.correlation.tolist() == [-1]


def test_columns_that_an_old_export_lacks_have_their_answer(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1, correlation=1), Copy(2, 3, 4), Call("c", 0, 1), Range("step", 0, 9))
    for table, column in (
        ("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "graphNodeId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "srcKind"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "dstKind"),
        ("NVTX_EVENTS", "textId"),
        ("NVTX_EVENTS", "domainId"),
    ):
        execute(path, f"ALTER TABLE {table} DROP COLUMN {column}")

    timeline = read_timeline(path)

    assert timeline.kernels.correlation.tolist() == [-1]
    assert timeline.kernels.process.tolist() == [0]
    assert timeline.kernels.graph_node.tolist() == [False]
    assert timeline.names[int(timeline.kernels.name[0])] == "k"
    assert timeline.copies.source.tolist() == [MemoryKind.UNKNOWN]
    assert timeline.copies.target.tolist() == [MemoryKind.UNKNOWN]
    assert range_names(timeline) == ["step"]


def test_memory_kinds_that_the_model_does_not_know_are_unknown(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Copy(0, 1, 2, source=7, target=None), Copy(0, 1, 2, source=4, target=3))
    )
    assert timeline.copies.source.tolist() == [MemoryKind.UNKNOWN, MemoryKind.MANAGED]
    assert timeline.copies.target.tolist() == [MemoryKind.UNKNOWN, MemoryKind.ARRAY]


def test_copies_that_cupti_merged_into_one_row_are_counted(path: Path) -> None:
    write_export(path, *(Copy(start, start + 1, 64) for start in range(4)))
    assert read_timeline(path).copies.count.tolist() == [1, 1, 1, 1]
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN copyCount INTEGER")
    assert read_timeline(path).copies.count.tolist() == [1, 1, 1, 1]
    for start, count in enumerate((8, 0, None, 2)):
        execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyCount = ? WHERE start = ?", [count, start])
    assert read_timeline(path).copies.count.tolist() == [8, 1, 1, 2]
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyCount = -1 WHERE start = 3")
    assert refusal(path) == (
        f"run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_MEMCPY has -1 as a count, which no nsys writes.\n{AGAIN}"
    )


def test_no_copies_count_as_none(path: Path) -> None:
    count = read_timeline(write_export(path, Kernel("k", 0, 1))).copies.count
    assert count.tolist() == []
    assert count.dtype == np.int64


def test_a_name_that_is_not_in_the_export_is_told_by_its_number(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 123")
    assert read_timeline(path).names == {123: "(name 123)"}


def test_names_may_hold_line_breaks_nuls_and_bytes_that_are_no_text(path: Path) -> None:
    write_export(path, Range("two\nlines", 0, 1), Range("nul\0inside", 1, 2), Range("broken", 2, 3), Kernel("k", 0, 1))
    execute(path, "UPDATE NVTX_EVENTS SET text = CAST(x'ff41' AS TEXT) WHERE text = 'broken'")
    execute(path, "UPDATE StringIds SET value = CAST(x'c328' AS TEXT)")

    timeline = read_timeline(path)

    assert range_names(timeline) == ["two\nlines", "nul\0inside", "\N{REPLACEMENT CHARACTER}A"]
    assert list(timeline.names.values()) == ["\N{REPLACEMENT CHARACTER}("]


def test_exports_without_a_version_are_read(path: Path) -> None:
    timeline = read_timeline(write_export(path, Kernel("k", 0, 1), version=None))
    assert timeline.nsys_version is None
    assert timeline.schema_version is None


def test_the_version_of_2022_4_stands_in_another_table(path: Path) -> None:
    row = Row("EXPORT_META_DATA", name="EXPORT_PRODUCT_VERSION", value="2022.4.2.1")
    assert read_timeline(write_export(path, Kernel("k", 0, 1), row, version=None)).nsys_version == "2022.4.2.1"


def test_what_nsys_says_of_its_capture_is_kept(path: Path) -> None:
    row = Row("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might have been collected.")
    expected = (Diagnostic(severity=2, text="Not all CUDA events might have been collected."),)
    assert read_timeline(write_export(path, Kernel("k", 0, 1), row)).diagnostics == expected


# --- ranges ----------------------------------------------------------------------------------------------------------


def test_a_range_has_its_own_text_or_a_registered_one(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Range("own", 0, 1), Range("registered", 1, 2, registered=True), Range(None, 2, 3))
    )
    assert range_names(timeline) == ["own", "registered", ""]


def test_ranges_of_a_named_domain_bear_its_name(path: Path) -> None:
    timeline = read_timeline(
        write_export(
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
    )
    assert range_names(timeline) == ["NCCL:allReduce", "a:b", "other:allReduce", "lost", "none"]


def test_ranges_of_a_domain_that_several_threads_created_are_repeated_in_the_report(path: Path) -> None:
    write_export(
        path,
        Domain("one", 1),
        Domain("one", 1, start=1),
        Domain("one", 1, start=2),
        Domain("one", 1, start=3),
        Domain("one", 1, process=600, start=4),
        Range("a", 10, 20, domain=1),
        Range("b", 20, 30, domain=1),
        Range("step", 30, 40),
        Range("none", 30, 40, domain=None),
        Range("c", 30, 40, domain=1, process=600),
    )
    assert read_timeline(path).ranges_repeated == 0
    execute(path, "UPDATE NVTX_EVENTS SET globalTid = globalTid + start WHERE eventType = 75 AND start IN (2, 3)")
    assert read_timeline(path).ranges_repeated == 2 * 2
    execute(path, "DELETE FROM NVTX_EVENTS WHERE eventType = 59")
    assert read_timeline(path).ranges_repeated == 0


def test_a_domain_may_be_named_by_a_registered_string(path: Path) -> None:
    write_export(path, Domain("?", 1), Range("allReduce", 10, 20, domain=1), Range("NCCL", 20, 30, registered=True))
    execute(path, "UPDATE NVTX_EVENTS SET text = NULL, textId = 1 WHERE eventType = 75")
    assert range_names(read_timeline(path)) == ["NCCL:allReduce", "NCCL"]


def test_a_range_that_was_never_closed_ends_with_the_last_range(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Range("open", 10, None), Range("b", 20, 70), Range("mark", 90, None, event=34))
    )
    assert timeline.ranges.end.tolist() == [70, 70]
    assert timeline.ranges.closed.tolist() == [False, True]


def test_ranges_of_which_none_was_closed_end_with_the_last_that_begins(path: Path) -> None:
    timeline = read_timeline(write_export(path, Range("open", 10, None), Range("open too", 40, None)))
    assert timeline.ranges.end.tolist() == [40, 40]
    assert timeline.ranges.end.dtype == np.int64
    assert timeline.ranges.closed.tolist() == [False, False]


def test_a_mark_changes_no_range_whatever_it_holds(path: Path) -> None:
    write_export(path, Range("open", 10, None), Range("b", 20, 70), Range("mark", 30, None, event=34))
    execute(path, "UPDATE NVTX_EVENTS SET start = 99.5, end = 'late' WHERE text = 'mark'")
    timeline = read_timeline(path)
    assert timeline.ranges.end.tolist() == [70, 70]
    assert timeline.ranges.end.dtype == np.int64


def test_start_end_ranges_are_told_from_push_pop_and_marks_are_left_out(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Range("push", 0, 1),
            Range("mark", 1, None, event=34),
            Range("start", 2, 3, event=60),
            Range("text push", 4, 5, event=70),
            Range("text start", 6, 7, event=71),
        )
    )
    assert range_names(timeline) == ["push", "start", "text push", "text start"]
    assert timeline.ranges.push_pop.tolist() == [True, False, True, False]


def test_a_name_for_every_range_is_read_as_it_is(path: Path) -> None:
    timeline = read_timeline(write_export(path, *(Range(f"op {i}", i, i + 1) for i in range(20_000))))
    assert range_names(timeline) == [f"op {i}" for i in range(20_000)]


# --- processes and devices -------------------------------------------------------------------------------------------


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
    assert timeline.calls.thread.tolist() == [21]
    assert timeline.ranges.process.tolist() == [1]
    assert timeline.ranges.thread.tolist() == [902]


def test_equal_pids_of_two_machines_are_two_processes(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Kernel("k", 0, 1, host=1), Kernel("k", 0, 1, host=2), Call("c", 0, 1, host=2))
    )
    assert timeline.processes == (548, 548)
    assert timeline.kernels.process.tolist() == [0, 1]
    assert timeline.calls.process.tolist() == [1]


def test_rows_without_a_process_belong_to_the_only_one(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Kernel("k", 0, 1, process=None), Call("c", 0, 1), Range("r", 0, 1, process=None))
    )
    assert timeline.processes == (548,)
    assert timeline.kernels.process.tolist() == [0]
    assert timeline.ranges.process.tolist() == [0]


def test_rows_without_a_process_among_several_are_a_process_of_their_own(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Kernel("k", 0, 1, process=None), Call("c", 0, 1, process=7), Call("c", 0, 1, process=8))
    )
    assert timeline.processes == (7, 8, 0)
    assert timeline.kernels.process.tolist() == [2]


def test_two_processes_that_each_call_their_gpu_zero_have_two_gpus(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, process=47),
            Kernel("k", 0, 1, process=48),
            Copy(0, 1, 2, process=47),
            Row("TARGET_INFO_GPU", id=0, name="NVIDIA H200", uuid="aa", cuDevice=0),
            Row("TARGET_INFO_GPU", id=1, name="NVIDIA H200", uuid="bb", cuDevice=1),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=47, uuid=None),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId=None, cudaId=0, pid=48, uuid="GPU-AA"),
        )
    )
    assert timeline.kernels.device.tolist() == [1, 0]
    assert timeline.copies.device.tolist() == [1]
    assert timeline.gpus == (
        CapturedGpu(device=0, name="NVIDIA H200", uuid="aa"),
        CapturedGpu(device=1, name="NVIDIA H200", uuid="bb"),
    )


def test_two_instances_of_one_gpu_are_two_devices(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, process=47),
            Kernel("k", 0, 1, process=48),
            Kernel("k", 0, 1, process=49),
            Row("TARGET_INFO_GPU", id=0, name="NVIDIA H200", uuid="aa", cuDevice=0),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=47, uuid="MIG-1"),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=48, uuid="MIG-2"),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=49, uuid="MIG-1"),
        )
    )
    assert timeline.kernels.device.tolist() == [0, 1, 0]
    assert timeline.gpus == (
        CapturedGpu(device=0, name="NVIDIA H200", uuid="aa"),
        CapturedGpu(device=1, name="NVIDIA H200", uuid="MIG-2"),
    )


def test_without_a_table_of_processes_devices_go_by_their_cuda_number(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, device=0),
            Kernel("k", 0, 1, device=1),
            Row("TARGET_INFO_GPU", id=0, name="NVIDIA T400", uuid=None, cuDevice=1),
            Row("TARGET_INFO_GPU", id=1, name="NVIDIA H200", uuid=None, cuDevice=0),
        )
    )
    assert timeline.kernels.device.tolist() == [1, 0]


def test_without_any_table_of_gpus_devices_stand_as_they_are(path: Path) -> None:
    timeline = read_timeline(write_export(path, Kernel("k", 0, 1, device=3, process=1), Kernel("k", 0, 1, process=2)))
    assert timeline.kernels.device.tolist() == [3, 0]
    assert timeline.gpus == ()


TWO_GPUS = tuple(
    Row("TARGET_INFO_GPU", id=number, name="NVIDIA H200", uuid=str(number), cuDevice=number) for number in (0, 1)
)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ((Kernel("k", 0, 1, process=47), Kernel("k", 0, 1, process=48), *TWO_GPUS), 2),
        ((Kernel("k", 0, 1, process=47), Kernel("k", 0, 1, process=48)), 2),
        ((Kernel("k", 0, 1, process=47), Copy(0, 1, 2, process=48), Memset(0, 1, process=49), *TWO_GPUS), 3),
        ((Kernel("k", 0, 1, host=1), Kernel("k", 0, 1, host=2), *TWO_GPUS), 2),
        (
            (
                *(Kernel("k", 0, 1, process=47, device=number) for number in (0, 1)),
                Kernel("k", 0, 1, process=48, device=1),
                Kernel("k", 0, 1, process=49, device=2),
                *TWO_GPUS,
            ),
            2,
        ),
        (
            (
                Kernel("k", 0, 1, process=47),
                Kernel("k", 0, 1, process=48),
                *TWO_GPUS,
                Row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=47, uuid=None),
            ),
            2,
        ),
        ((Kernel("k", 0, 1, process=47), Kernel("k", 0, 1, process=48), TWO_GPUS[0]), 0),
        ((Kernel("k", 0, 1, process=47), Kernel("k", 0, 1, process=48, device=1), *TWO_GPUS), 0),
        ((Kernel("k", 0, 1, process=47), Call("c", 0, 1, process=48), *TWO_GPUS), 0),
        (
            (
                Kernel("k", 0, 1, process=47),
                *(Kernel("k", at, at + 1, process=48, device=1) for at in range(100)),
                Memset(200, 201, process=48, device=0),
                *TWO_GPUS,
            ),
            0,
        ),
        (
            (
                Kernel("k", 0, 1, process=47),
                Kernel("k", 0, 1, process=48),
                *TWO_GPUS,
                *(Row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=pid, uuid=None) for pid in (47, 48)),
            ),
            0,
        ),
    ],
    ids=[
        "two ranks that each call their GPU 0",
        "of a machine whose GPUs are not told",
        "kernels, copies and memsets",
        "one process id on two hosts",
        "one number of several is shared",
        "only one process is told",
        "there is but one GPU",
        "each has its own number",
        "the other runs nothing",
        "the other runs next to nothing there",
        "both are told",
    ],
)
def test_processes_that_may_or_may_not_share_a_gpu_are_told(
    path: Path, rows: tuple[Kernel | Copy | Memset | Call | Row, ...], told: int
) -> None:
    assert read_timeline(write_export(path, *rows)).missing.get("devices") == (
        f"the capture does not say which GPU each of its {told} processes used: nsys before 2025 has their own numbers "
        "only, which CUDA_VISIBLE_DEVICES may have changed"
        if told
        else None
    )


def test_descriptions_that_make_no_sense_are_left_out(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, device=2),
            Row("TARGET_INFO_GPU", id="first", name="NVIDIA H200", uuid=None, cuDevice=2),
            Row("TARGET_INFO_GPU", id=3, name=b"NVIDIA \xff", uuid=None, cuDevice="two"),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId="three", cudaId=2, pid=548, uuid=None),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId=2**40, cudaId=2, pid=548, uuid=None),
            Row("DIAGNOSTIC_EVENT", severity="bad", text=None),
        )
    )
    assert timeline.kernels.device.tolist() == [2]
    assert timeline.gpus == (CapturedGpu(device=3, name="NVIDIA \N{REPLACEMENT CHARACTER}", uuid=None),)
    assert timeline.diagnostics == (Diagnostic(severity=0, text=""),)


# --- what was not recorded -------------------------------------------------------------------------------------------


def test_a_capture_without_cuda_says_so_in_the_words_of_nsys(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Range("step", 0, 1),
            Row("DIAGNOSTIC_EVENT", severity=1, text="CUDA injection initialized successfully."),
            Row("DIAGNOSTIC_EVENT", severity=2, text="No CUDA events collected. Does the process use CUDA?"),
        )
    )
    why = 'no CUDA events were recorded: "No CUDA events collected. Does the process use CUDA?"'
    assert timeline.missing == dict.fromkeys(("kernels", "copies", "memsets", "graphs", "calls"), why)


def test_the_words_of_nsys_are_quoted_on_one_line_and_spelled_out(path: Path) -> None:
    warnings = [f"No CUDA events collected.{HOSTILE}!", "CUDA" + "x" * 5000]
    rows = [Row("DIAGNOSTIC_EVENT", severity=2, text=text) for text in warnings]
    told = read_timeline(write_export(path, Range("step", 0, 1), *rows)).missing["kernels"]
    short = "CUDA" + "x" * 194 + "..." + "x" * 99
    assert told == f'no CUDA events were recorded: "No CUDA events collected.{TAMED}!", "{short}"'


def test_calls_without_gpu_operations_are_told(path: Path) -> None:
    timeline = read_timeline(write_export(path, Range("step", 0, 1), Call("cudaLaunchKernel", 0, 1)))
    why = "1 CUDA calls were recorded, but no GPU operation"
    assert timeline.missing == dict.fromkeys(("kernels", "copies", "memsets", "graphs"), why)


def test_gpu_operations_without_calls_and_ranges_are_told(path: Path) -> None:
    warning = "NVTX payload extension is incompatible. Provided compatibility ID 260 != 259."
    timeline = read_timeline(write_export(path, Kernel("k", 0, 1), Row("DIAGNOSTIC_EVENT", severity=2, text=warning)))
    assert timeline.missing == {
        "calls": "GPU operations were recorded, but not the CUDA calls that started them",
        "ranges": f'no NVTX ranges were recorded: "{warning}"',
    }


def test_a_warning_about_another_nvtx_function_is_no_reason_for_missing_ranges(path: Path) -> None:
    warnings = [
        "NVTX function nvtxDomainDestroy was called with wrong domain ID argument.",
        "NVTX function nvtxDomainRangePop was called with wrong domain ID argument.",
    ]
    rows = [Row("DIAGNOSTIC_EVENT", severity=2, text=text) for text in warnings]
    told = read_timeline(write_export(path, Kernel("k", 0, 1), *rows)).missing["ranges"]
    assert told == f'no NVTX ranges were recorded: "{warnings[1]}"'


UNPARSED = (
    "Could not parse 7 CUPTI activity records. Please try updating the CUDA driver or use more recent profiler version"
)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (
            "CUPTI dropped 12 records. Some CUPTI events might be missing.",
            "CUPTI dropped 12 records. Some CUPTI events might be missing",
        ),
        (
            "Couldn't allocate CUPTI buffers 3 times.Some CUPTI events might be missing.\n",
            "Couldn't allocate CUPTI buffers 3 times.Some CUPTI events might be missing",
        ),
        (f"{UNPARSED}.", UNPARSED),
    ],
)
@pytest.mark.parametrize("severity", [1, 2, 3])
def test_what_nsys_says_that_it_lost_is_told(path: Path, text: str, quoted: str, severity: int) -> None:
    note = Row("DIAGNOSTIC_EVENT", severity=severity, text=text)
    rows = (Kernel("k", 0, 1), Call("c", 0, 1), Range("step", 0, 9), note, note)
    assert read_timeline(write_export(path, *rows)).missing == {
        "records": f'nsys lost GPU operations or calls: "{quoted}"'
    }


@pytest.mark.parametrize(
    "text",
    [
        "Not all CUDA events might have been collected.",
        "Number of CUPTI events produced: \t2969, CUPTI buffers: 50.",
        (
            "Number of incomplete CUPTI events dropped: 2. Incomplete events appear when GPU timestamp information "
            "have not been retrieved at the time the profiling session was stopped."
        ),
    ],
)
def test_what_nsys_says_of_good_captures_too_is_no_loss(path: Path, text: str) -> None:
    note = Row("DIAGNOSTIC_EVENT", severity=2, text=text)
    rows = (Kernel("k", 0, 1), Call("c", 0, 1), Range("step", 0, 9), note)
    assert read_timeline(write_export(path, *rows)).missing == {}


def test_marks_without_ranges_are_told(path: Path) -> None:
    warning = Row("DIAGNOSTIC_EVENT", severity=2, text="NVTX payload extension is incompatible.")
    marks = [Range("step", 10 * n, None, event=34) for n in range(3)]
    timeline = read_timeline(write_export(path, Kernel("k", 0, 1), *marks, warning))
    assert timeline.missing["ranges"] == "only NVTX marks were recorded, 3 of them, and a mark has no length"


# --- how it is read --------------------------------------------------------------------------------------------------


def test_the_export_and_its_folder_stay_as_they_were(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1), Range("r", 0, 1))
    before = path.read_bytes()
    path.chmod(0o400)
    read_timeline(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["run.sqlite"]


@pytest.mark.parametrize(
    "name", ["a b.sqlite", "50%25.sqlite", "what?.sqlite", "a#b&c=d.sqlite", "Größe→.sqlite", "'\";.sqlite"]
)
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run #1 100%?"
    folder.mkdir()
    timeline = read_timeline(write_export(folder / name, Kernel("k", 0, 1)))
    assert timeline.kernels.end.tolist() == [1]
    assert [file.name for file in folder.iterdir()] == [name]


def test_a_link_and_a_relative_path_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_export(path, Kernel("k", 0, 1))
    (path.parent / "link").symlink_to(path)
    monkeypatch.chdir(path.parent)
    assert len(read_timeline(Path("link")).kernels.start) == 1


def test_large_tables_are_read_in_parts_in_the_order_of_their_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_ROWS_AT_ONCE", 7)
    write_export(
        path,
        *(Kernel(f"k{i % 3}", i, i + 1, process=i % 5 + 1) for i in range(100)),
        *(Range(f"r{i}", i, i + 1, event=34 if i % 4 == 0 else 59, registered=i % 3 == 0) for i in range(50)),
        *(Call("c", i, i + 1, correlation=i) for i in range(30)),
    )
    execute(path, "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId BETWEEN 3 AND 19")

    timeline = read_timeline(path)

    assert timeline.kernels.start.tolist() == list(range(100))
    assert timeline.kernels.process.tolist() == [i % 5 for i in range(100)]
    assert [timeline.names[name] for name in timeline.kernels.name.tolist()] == [f"k{i % 3}" for i in range(100)]
    assert range_names(timeline) == [f"r{i}" for i in range(50) if i % 4]
    assert timeline.calls.correlation.tolist() == [0, 1, 2, *range(20, 30)]


def test_row_ids_far_apart_are_read(path: Path) -> None:
    write_export(path, Kernel("k", 5, 6), Kernel("k", 7, 9))
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = 4000000000000000000 WHERE start = 5")
    assert read_timeline(path).kernels.start.tolist() == [7, 5]


def test_tables_without_rows_are_as_absent(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1), Range("r", 0, 1), Call("c", 0, 1))
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds"):
        execute(path, f"DELETE FROM {table}")
    timeline = read_timeline(path)
    assert timeline.kernels.start.tolist() == []
    assert range_names(timeline) == []
    assert timeline.missing.keys() == {"kernels", "copies", "memsets", "graphs", "ranges", "names of calls"}
    assert timeline.missing["names of calls"] == "the names of 1 of 1 CUDA calls are not in the capture"


def test_an_export_in_wal_mode_is_read_without_its_log(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    execute(path, "PRAGMA journal_mode = WAL")
    assert len(read_timeline(path).kernels.start) == 1
    assert [file.name for file in path.parent.iterdir()] == ["run.sqlite"]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there(path: Path) -> None:
    assert refusal(path) == "run.sqlite: it cannot be opened: No such file or directory.\nCheck the path and its rights"


def test_a_folder(path: Path) -> None:
    path.mkdir()
    assert refusal(path) == f"run.sqlite: this is a folder. perfgate reads one export.\n{AGAIN}"


def test_an_empty_file(path: Path) -> None:
    path.touch()
    assert refusal(path) == f"run.sqlite: the file is empty.\n{AGAIN}"


def test_a_git_lfs_pointer(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 614723584\n")
    assert refusal(path) == (
        "run.sqlite: this is a Git LFS pointer, not the capture itself.\n"
        "Fetch the capture first: git lfs pull --include run.sqlite"
    )


def test_an_nsys_rep(tmp_path: Path) -> None:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"\x0a\x1fNVIDIA")
    assert refusal(path) == (
        "run.nsys-rep: this is nsys's own format. perfgate reads its SQLite export.\n"
        "Export it: nsys export --type sqlite run.nsys-rep"
    )


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_text("Time (%),Total Time (ns)\n")
    assert refusal(path) == f"run.sqlite: this is no SQLite file. perfgate reads SQLite exports of nsys.\n{AGAIN}"


@pytest.mark.parametrize("kept", [16, 99, 4096])
def test_a_file_that_was_cut_off(path: Path, kept: int) -> None:
    write_export(path, Kernel("k", 0, 1))
    whole = path.stat().st_size if kept >= 100 else 100
    path.write_bytes(path.read_bytes()[:kept])
    assert refusal(path) == f"run.sqlite: it is cut off: {kept} of {whole} bytes are there.\n{AGAIN}"


def test_a_database_whose_schema_is_overwritten(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    whole = bytearray(path.read_bytes())
    whole[100:4096] = b"\xff" * 3996
    path.write_bytes(whole)
    assert refusal(path) == f"run.sqlite: it is damaged: database disk image is malformed.\n{AGAIN}"


def test_a_database_whose_rows_are_overwritten(path: Path) -> None:
    write_export(path, *(Kernel("k", i, i + 1) for i in range(2000)))
    whole = bytearray(path.read_bytes())
    whole[5 * 4096 : 9 * 4096] = b"\xff" * (4 * 4096)
    path.write_bytes(whole)
    assert refusal(path) == (
        "run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_KERNEL cannot be read: database disk image is malformed.\n"
        f"{AGAIN}"
    )


@pytest.mark.parametrize("spoilt", [b"CREATE\xfc\x1bABLE", b"CREATE\x1bTABLE"])
def test_what_sqlite_quotes_of_a_damaged_schema_is_spelled_out(path: Path, spoilt: bytes) -> None:
    write_export(path, Kernel("k", 0, 1))
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", spoilt))
    told = refusal(path)
    assert told.startswith("run.sqlite: it is damaged: malformed database schema (")
    assert "\x1b" not in told
    assert ("\N{REPLACEMENT CHARACTER}" in told) == (b"\xfc" in spoilt)


def test_a_column_declared_with_bytes_that_are_no_text(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # connectorx panics: that is no Exception, and Rust has its word on stderr first
    write_export(path, Kernel("k", 0, 1))
    path.write_bytes(path.read_bytes().replace(b"start INTEGER NOT NULL", b"start INT\xffGER NOT NULL", 1))
    assert refusal(path) == (
        "run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_KERNEL cannot be read: Invalid UTF-8 sequence in column "
        f"declaration: Utf8Error {{ valid_up_to: 3, error_len: Some(1) }}.\n{AGAIN}"
    )
    assert "panicked" in capfd.readouterr().err


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_whoever_ends_the_reading_is_heard(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    def ended(*_: object, **__: object) -> None:
        raise kind

    monkeypatch.setattr("connectorx.read_sql", ended)
    write_export(path, Kernel("k", 0, 1))
    with pytest.raises(kind):
        read_timeline(path)


HOSTILE = "\x1b]0;mine\x07\n::error::\N{RIGHT-TO-LEFT OVERRIDE}"
TAMED = r"\x1b]0;mine\x07\n::error::\u202e"


def test_names_of_tables_are_told_on_one_line_and_spelled_out(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f'CREATE TABLE "{HOSTILE}" (url TEXT)')
        other.execute(f'CREATE TABLE "{"x" * 5000}" (url TEXT)')
    assert f"it has {TAMED}, {'x' * 64}...{'x' * 32}. An export has" in refusal(path)


def test_names_of_columns_and_of_other_versions_are_spelled_out(path: Path) -> None:
    write_export(path, Memset(0, 1), Kernel("k", 0, 1))
    execute(path, f'ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET RENAME COLUMN deviceId TO "{HOSTILE}"')
    assert f"it has start, end, {TAMED}, contextId" in refusal(path, LayoutUnknown)
    execute(path, f'ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO "CUPTI_ACTIVITY_KIND_KERNEL_V{HOSTILE}"')
    assert f"it has CUPTI_ACTIVITY_KIND_KERNEL_V{TAMED} and no" in refusal(path, LayoutUnknown)


def test_a_database_of_something_else(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE moz_places (url TEXT)")
    assert refusal(path) == (
        "run.sqlite: this is a SQLite file, but no export of nsys: it has moz_places. An export has some of "
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, "
        "CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME, EXPORT_META_DATA, META_DATA_EXPORT, NVTX_EVENTS, "
        f"StringIds.\n{AGAIN}"
    )


def test_an_export_that_something_still_writes(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    path.with_name("run.sqlite-wal").write_bytes(b"x")
    assert refusal(path) == (
        "run.sqlite: run.sqlite-wal lies beside it: something is still writing the export, or died writing it.\n"
        "Wait for it, or export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"
    )


@pytest.mark.parametrize(
    ("change", "there"),
    [
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V2",
            "and no CUPTI_ACTIVITY_KIND_KERNEL",
        ),
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V2 AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL",
            "beside CUPTI_ACTIVITY_KIND_KERNEL",
        ),
    ],
    ids=["in place of the one that is known", "beside it"],
)
def test_a_table_of_another_version(path: Path, change: str, there: str) -> None:
    """Beside it, the known one holds half of the kernels, and looks complete."""
    write_export(path, Kernel("k", 0, 1))
    execute(path, change)
    assert refusal(path, LayoutUnknown) == (
        f"run.sqlite: it has CUPTI_ACTIVITY_KIND_KERNEL_V2 {there}. "
        "perfgate knows CUPTI_ACTIVITY_KIND_KERNEL only.\n"
        "perfgate must learn this version of nsys: please report it with the version"
    )


@pytest.mark.parametrize(
    ("row", "table"),
    [
        (Kernel("k", 5, 9, correlation=1), "CUPTI_ACTIVITY_KIND_KERNEL"),
        (Kernel("k", 5, 9), "CUPTI_ACTIVITY_KIND_KERNEL"),
        (Copy(5, 9, 64, correlation=1), "CUPTI_ACTIVITY_KIND_MEMCPY"),
        (Memset(5, 9, correlation=1), "CUPTI_ACTIVITY_KIND_MEMSET"),
        (Graph(5, 9, correlation=1), "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"),
        (Call("cudaLaunchKernel_v7000", 5, 9, correlation=1), "CUPTI_ACTIVITY_KIND_RUNTIME"),
    ],
)
def test_a_row_that_is_there_twice_does_not_count_double(
    path: Path, row: Kernel | Copy | Memset | Graph | Call, table: str
) -> None:
    write_export(path, row, Kernel("other", 20, 21, correlation=7))
    execute(path, f"INSERT INTO {table} SELECT * FROM {table} WHERE start = 5")
    assert refusal(path) == (
        f"run.sqlite: it is damaged: {table} has 1 row that is in it already, equal in every column.\n{AGAIN}"
    )
    execute(path, f"INSERT INTO {table} SELECT * FROM {table} WHERE start = 5")
    assert refusal(path).startswith(
        f"run.sqlite: it is damaged: {table} has 3 rows that are in it already, equal in every column."
    )


@pytest.mark.parametrize("kind", [11, 12, 13])
def test_pages_of_managed_memory_that_move_at_once_are_several(path: Path, kind: int) -> None:
    """Only their addresses differ, which not every export has; where it has them, equal ones are one row twice."""
    write_export(path, Copy(5, 9, 4096, kind=kind, source=4, target=4), Copy(5, 9, 4096, kind=kind, source=4, target=4))
    assert len(read_timeline(path).copies.start) == 2
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN virtualAddress INTEGER")
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET virtualAddress = 4096 * rowid")
    assert len(read_timeline(path).copies.start) == 2
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET virtualAddress = 4096")
    assert refusal(path).startswith("run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_MEMCPY has 1 row that is in it")


def test_rows_that_are_alike_but_for_a_column_that_is_not_read_are_several(path: Path) -> None:
    """Two streams, and two nodes of one graph, may run the same kernel at the same time."""
    write_export(
        path,
        Kernel("k", 0, 9, correlation=1, graph_node=1, stream=7),
        Kernel("k", 0, 9, correlation=1, graph_node=2, stream=7),
        Kernel("k", 0, 9, correlation=1, graph_node=1, stream=8),
        Kernel("k", 0, 9, correlation=2),
        Kernel("k", 0, 9, correlation=2, device=1),
    )
    execute(path, 'ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN "odd ""name" INTEGER')
    assert len(read_timeline(path).kernels.start) == 5


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (b"\x1f\x8b\x08", "run.sqlite: it is packed with gzip.\nUnpack it: gunzip --keep run.sqlite"),
        (b"\xfd7zXZ\0", "run.sqlite: it is packed with xz.\nUnpack it: unxz --keep run.sqlite"),
        (b"\x28\xb5\x2f\xfd", "run.sqlite: it is packed with zstd.\nUnpack it: unzstd run.sqlite"),
        (b"PK\x03\x04", "run.sqlite: it is packed with zip.\nUnpack it: unzip run.sqlite"),
        (
            b"PAR1",
            f"run.sqlite: this is an export as Parquet. perfgate reads SQLite exports of nsys.\n{EXPORT_AGAIN}",
        ),
        (
            b"ARROW1\0\0",
            f"run.sqlite: this is an export as Arrow. perfgate reads SQLite exports of nsys.\n{EXPORT_AGAIN}",
        ),
    ],
)
def test_a_packed_export_and_one_of_another_format(path: Path, start: bytes, told: str) -> None:
    path.write_bytes(start + bytes(200))
    assert refusal(path) == told


def test_a_view_in_place_of_a_table(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1), Call("cudaLaunchKernel_v7000", 0, 1))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO kernels")
    execute(path, "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM kernels")
    assert refusal(path, LayoutUnknown) == (
        "run.sqlite: CUPTI_ACTIVITY_KIND_KERNEL is a view. In an export of nsys it is a table.\n"
        "Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"
    )


def test_a_table_without_a_column_that_is_needed(path: Path) -> None:
    write_export(path, Memset(0, 1))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET RENAME COLUMN deviceId TO gpu")
    assert refusal(path, LayoutUnknown) == (
        "run.sqlite: CUPTI_ACTIVITY_KIND_MEMSET has no column deviceId, it has start, end, gpu, contextId, streamId, "
        "correlationId, globalPid, bytes. perfgate reads exports of nsys 2022.4 and newer.\n"
        f"{AGAIN}"
    )


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL cannot be read: Invalid column type Text at index: 0, name: start",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 3.5 WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL cannot be read: Invalid column type Real at index: 1, name: end",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 'nan' WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL cannot be read: Invalid column type Text at index: 1, name: end",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1 WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL has 1 rows that end before they start, as from 2 to 1 ns",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 5000000000 WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL has 5000000000 as a device, which no nsys writes",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = -1 WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL has -1 as a device, which no nsys writes",
        ),
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN RowId INTEGER",
            "CUPTI_ACTIVITY_KIND_KERNEL has a column called rowid, which no nsys writes",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 4611686018427387904 WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL has 4611686018427387904 ns as a time, which no nsys writes",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -4611686018427387904 WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL has -4611686018427387904 ns as a time, which no nsys writes",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = -5",
            "CUPTI_ACTIVITY_KIND_MEMCPY has a copy of -5 bytes",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = -129",
            "CUPTI_ACTIVITY_KIND_MEMCPY has -129 as a kind, which no nsys writes",
        ),
        (
            "UPDATE NVTX_EVENTS SET end = 5",
            "NVTX_EVENTS has 1 rows that end before they start, as from 9 to 5 ns",
        ),
    ],
)
def test_values_that_no_nsys_writes(path: Path, change: str, fact: str) -> None:
    write_export(path, Kernel("k", 0, 1), Kernel("k", 2, 3), Copy(0, 1, 2), Range("r", 9, 10))
    execute(path, change)
    assert refusal(path) == f"run.sqlite: it is damaged: {fact}.\n{AGAIN}"


def test_numbers_that_are_absent_where_there_must_be_one(path: Path) -> None:
    write_export(path, Memset(0, 1), Memset(2, 3))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET RENAME TO strict")
    execute(path, "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET AS SELECT * FROM strict")
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET deviceId = NULL WHERE start = 2")
    assert refusal(path) == f"run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_MEMSET has rows without a device.\n{AGAIN}"


def test_numbers_kept_as_text(path: Path) -> None:
    write_export(path, Memset(0, 1))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET RENAME TO strict")
    execute(
        path,
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET AS SELECT CAST(start AS TEXT) AS start, end, deviceId FROM strict",
    )
    assert refusal(path) == (
        f"run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_MEMSET has other values than whole numbers as start.\n{AGAIN}"
    )
