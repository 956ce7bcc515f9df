"""What read_timeline makes of an export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.exports import (
    Call,
    Copy,
    Graph,
    Kernel,
    Memset,
    Range,
    Row,
    execute,
    write_export,
)
from support.refusals import AGAIN, refusal

from perfgate.model.timeline import NO_NODE, CopyKind, Diagnostic, MemoryKind
from perfgate.profilers.nsys.export.timeline import read_timeline


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
    assert [timeline.names[name] for name in kernels.name.tolist()] == [
        "gemm(float*)",
        "gemm(float*)",
    ]
    assert kernels.graph_node.tolist() == [NO_NODE, 4]
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
    assert [timeline.names[name] for name in calls.name.tolist()] == [
        "cudaLaunchKernel_v7000",
        "cudaMemcpyAsync_v3020",
    ]
    assert list(timeline.ranges.name) == ["step"]
    assert timeline.ranges.thread.tolist() == [548]
    assert timeline.processes == (548,)
    assert timeline.source == "run.sqlite"
    assert timeline.nsys_version == "2024.2.3.38"
    assert timeline.schema_version == "3.11.1"
    assert timeline.gpu_operations == 5
    assert timeline.missing == {}


def test_copies_that_cupti_merged_into_one_row_are_counted(path: Path) -> None:
    write_export(path, *(Copy(start, start + 1, 64) for start in range(4)))
    assert read_timeline(path).copies.count.tolist() == [1, 1, 1, 1]
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN copyCount INTEGER")
    assert read_timeline(path).copies.count.tolist() == [1, 1, 1, 1]
    for start, count in enumerate((8, 0, None, 2)):
        execute(
            path,
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyCount = ? WHERE start = ?",
            [count, start],
        )
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
    write_export(
        path,
        Range("two\nlines", 0, 1),
        Range("nul\0inside", 1, 2),
        Range("broken", 2, 3),
        Kernel("k", 0, 1),
    )
    execute(path, "UPDATE NVTX_EVENTS SET text = CAST(x'ff41' AS TEXT) WHERE text = 'broken'")
    execute(path, "UPDATE StringIds SET value = CAST(x'c328' AS TEXT)")

    timeline = read_timeline(path)

    assert list(timeline.ranges.name) == ["two\nlines", "nul\0inside", "\N{REPLACEMENT CHARACTER}A"]
    assert list(timeline.names.values()) == ["\N{REPLACEMENT CHARACTER}("]


def test_exports_without_a_version_are_read(path: Path) -> None:
    timeline = read_timeline(write_export(path, Kernel("k", 0, 1), version=None))
    assert timeline.nsys_version is None
    assert timeline.schema_version is None


def test_the_version_of_2022_4_stands_in_another_table(path: Path) -> None:
    row = Row("EXPORT_META_DATA", name="EXPORT_PRODUCT_VERSION", value="2022.4.2.1")
    assert (
        read_timeline(write_export(path, Kernel("k", 0, 1), row, version=None)).nsys_version
        == "2022.4.2.1"
    )


def test_what_nsys_says_of_its_capture_is_kept(path: Path) -> None:
    row = Row("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might have been collected.")
    expected = (Diagnostic(severity=2, text="Not all CUDA events might have been collected."),)
    assert read_timeline(write_export(path, Kernel("k", 0, 1), row)).diagnostics == expected
