"""How large tables are read, in parts, and what is said of columns that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.exports import (
    Call,
    Copy,
    Kernel,
    Memset,
    Range,
    execute,
    in_small_pages,
    write_export,
)
from support.refusals import AGAIN, HOSTILE, TAMED, refusal

from perfgate.model.errors import LayoutUnknown
from perfgate.model.timeline import NO_NODE, MemoryKind
from perfgate.profilers.nsys.export import pages
from perfgate.profilers.nsys.export.timeline import read_timeline


def test_large_tables_are_read_in_parts_in_the_order_of_their_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "BYTES_AT_ONCE", 1)
    write_export(
        path,
        *(Kernel(f"k{i % 3}", i, i + 1, process=i % 5 + 1) for i in range(100)),
        *(
            Range(f"r{i}", i, i + 1, event=34 if i % 4 == 0 else 59, registered=i % 3 == 0)
            for i in range(50)
        ),
        *(Call("c", i, i + 1, correlation=i) for i in range(30)),
    )
    execute(path, "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId BETWEEN 3 AND 19")
    in_small_pages(path)

    timeline = read_timeline(path)

    assert timeline.kernels.start.tolist() == list(range(100))
    assert timeline.kernels.process.tolist() == [i % 5 for i in range(100)]
    assert [timeline.names[name] for name in timeline.kernels.name.tolist()] == [
        f"k{i % 3}" for i in range(100)
    ]
    assert list(timeline.ranges.name) == [f"r{i}" for i in range(50) if i % 4]
    assert timeline.calls.correlation.tolist() == [0, 1, 2, *range(20, 30)]


def test_row_ids_far_apart_are_read(path: Path) -> None:
    write_export(path, Kernel("k", 5, 6), Kernel("k", 7, 9))
    execute(
        path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = 4000000000000000000 WHERE start = 5"
    )
    assert read_timeline(path).kernels.start.tolist() == [7, 5]


def test_tables_without_rows_are_as_absent(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1), Range("r", 0, 1), Call("c", 0, 1))
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds"):
        execute(path, f"DELETE FROM {table}")
    timeline = read_timeline(path)
    assert timeline.kernels.start.tolist() == []
    assert list(timeline.ranges.name) == []
    assert timeline.missing.keys() == {
        "kernels",
        "copies",
        "memsets",
        "graphs",
        "ranges",
        "names of calls",
    }
    assert (
        timeline.missing["names of calls"]
        == "the names of 1 of 1 CUDA calls are not in the capture"
    )


def test_columns_that_an_old_export_lacks_have_their_answer(path: Path) -> None:
    write_export(
        path, Kernel("k", 0, 1, correlation=1), Copy(2, 3, 4), Call("c", 0, 1), Range("step", 0, 9)
    )
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
    assert timeline.kernels.graph_node.tolist() == [NO_NODE]
    assert timeline.names[int(timeline.kernels.name[0])] == "k"
    assert timeline.copies.source.tolist() == [MemoryKind.UNKNOWN]
    assert timeline.copies.target.tolist() == [MemoryKind.UNKNOWN]
    assert list(timeline.ranges.name) == ["step"]


def test_missing_links_are_minus_one(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Kernel("k", 0, 1, correlation=None), Call("c", 0, 1, correlation=None))
    )
    assert timeline.kernels.correlation.tolist() == [-1]
    assert timeline.calls.correlation.tolist() == [-1]


def test_a_table_without_a_column_that_is_needed(path: Path) -> None:
    write_export(path, Memset(0, 1))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET RENAME COLUMN deviceId TO gpu")
    assert refusal(path, LayoutUnknown) == (
        "run.sqlite: CUPTI_ACTIVITY_KIND_MEMSET has no column deviceId, it has start, end, gpu, contextId, streamId, "
        "correlationId, globalPid, bytes. perfgate reads exports of nsys 2022.4 and newer.\n"
        f"{AGAIN}"
    )


@pytest.mark.parametrize(("column", "other"), [("id", "value"), ("value", "id")])
def test_names_without_a_column_that_is_needed(path: Path, column: str, other: str) -> None:
    write_export(path, Kernel("k", 0, 1))
    execute(path, f"ALTER TABLE StringIds RENAME COLUMN {column} TO another")
    told = refusal(path, LayoutUnknown)
    assert told.startswith(f"run.sqlite: StringIds has no column {column}, it has ")
    assert other in told


def test_names_of_columns_and_of_other_versions_are_spelled_out(path: Path) -> None:
    write_export(path, Memset(0, 1), Kernel("k", 0, 1))
    execute(path, f'ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET RENAME COLUMN deviceId TO "{HOSTILE}"')
    assert f"it has start, end, {TAMED}, contextId" in refusal(path, LayoutUnknown)
    execute(
        path,
        f'ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO "CUPTI_ACTIVITY_KIND_KERNEL_V{HOSTILE}"',
    )
    assert f"it has CUPTI_ACTIVITY_KIND_KERNEL_V{TAMED} and no" in refusal(path, LayoutUnknown)


def test_numbers_that_are_absent_where_there_must_be_one(path: Path) -> None:
    write_export(path, Memset(0, 1), Memset(2, 3))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET RENAME TO strict")
    execute(path, "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET AS SELECT * FROM strict")
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET deviceId = NULL WHERE start = 2")
    assert (
        refusal(path)
        == f"run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_MEMSET has rows without a device.\n{AGAIN}"
    )


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


def test_a_database_whose_rows_are_overwritten(path: Path) -> None:
    write_export(path, *(Kernel("k", i, i + 1) for i in range(2000)))
    whole = bytearray(path.read_bytes())
    whole[5 * 4096 : 9 * 4096] = b"\xff" * (4 * 4096)
    path.write_bytes(whole)
    assert refusal(path) == (
        "run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_KERNEL cannot be read: database disk image is malformed.\n"
        f"{AGAIN}"
    )


def test_a_column_declared_with_bytes_that_are_no_text(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    path.write_bytes(
        path.read_bytes().replace(b"start INTEGER NOT NULL", b"start INT\xffGER NOT NULL", 1)
    )
    assert read_timeline(path).kernels.start.tolist() == [0]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_whoever_ends_the_reading_is_heard(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    def ended(*_: object, **__: object) -> None:
        raise kind

    monkeypatch.setattr(pages.Pages, "rows", ended)
    write_export(path, Kernel("k", 0, 1))
    with pytest.raises(kind):
        read_timeline(path)
