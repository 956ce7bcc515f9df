"""What a scrubbed copy still holds, and what is nowhere in its bytes."""

from __future__ import annotations

import dataclasses
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
from support.refused import refused

from perfgate.model.errors import CaptureUnreadable, StoreFailed
from perfgate.model.timeline import Timeline
from perfgate.profilers.nsys.export.scrub import scrub
from perfgate.profilers.nsys.export.timeline import read_timeline

SECRET = "hunter2-is-no-password"
ENVIRONMENT = f"HOME=/home/ada\0CI_TOKEN={SECRET}\0TERM=xterm\0"

MEASURED = (
    Range("step", 0, 900),
    Range("registered", 5, 800, registered=True),
    Domain("NCCL", 1),
    Range("allReduce", 10, 20, domain=1, event=60),
    Range("open", 30, None),
    Call("cudaLaunchKernel_v7000", 10, 15, correlation=1),
    Kernel("void gemm<(int)1, (int)2>(float*)", 100, 160, correlation=1, graph_node=3),
    Copy(200, 300, 4096, correlation=2, source=0),
    Memset(310, 312),
    Graph(400, 500, correlation=9),
    Row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", deviceId=0, globalPid=9, eventId=3, eventSyncId=5),
    Row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=1, end=2, deviceId=0, eventSyncId=5),
    Row("TARGET_INFO_GPU", vmId=1, id=0, name="NVIDIA H200", uuid="aa", cuDevice=0),
    Row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=548, uuid="aa"),
    Row("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might have been collected."),
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "scrubbed.sqlite"


def assert_same(one: Timeline, other: Timeline) -> None:
    """All that is measured of two captures is equal, the numbers of names apart."""
    tables = ("kernels", "copies", "memsets", "graphs", "calls", "ranges", "waits")
    for events in (*tables, "event_records"):
        mine, its = getattr(one, events), getattr(other, events)
        for column in (one.name for one in dataclasses.fields(mine)):
            np.testing.assert_array_equal(
                getattr(mine, column), getattr(its, column), err_msg=f"{events} {column}"
            )
    for fact in (
        "names",
        "processes",
        "gpus",
        "missing",
    ):
        assert getattr(one, fact) == getattr(other, fact), fact


@pytest.mark.parametrize(
    "row",
    [
        Row("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value=f"CI_TOKEN={SECRET}"),
        Row("META_DATA_CAPTURE", name=f"COMMAND_LINE --token {SECRET}", value="x"),
        Row("META_DATA_EXPORT", name="EXPORT_HOST", value=SECRET),
        Row(
            "META_DATA_EXPORT",
            name="EXPORT_PARAM_INPUT_PATH_ABS",
            value=f"/home/{SECRET}/run.nsys-rep",
        ),
        Row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value=f"2024.2\0{SECRET}"),
        Row(
            "TARGET_INFO_SYSTEM_ENV",
            globalVid=1,
            devStateName="",
            name="Hostname",
            nameEnum=1,
            value=SECRET,
        ),
        Row("PROCESSES", globalPid=1, pid=548, name=f"/home/{SECRET}/python"),
        Row("ThreadNames", nameId=99_001, priority=20, globalTid=1),
        Row("ProcessStreams", globalPid=1, filenameId=99_001, contentId=99_001),
        Row("ANALYSIS_FILE", id=1, filename="a", content=SECRET, globalPid=1),
        Row("StringIds", id=99_000, value=ENVIRONMENT),
        Row("StringIds", id=99_000, value=f"TOKEN={SECRET}"),
        Row("DIAGNOSTIC_EVENT", severity=1, text=f"Started by {SECRET}"),
        Row("DIAGNOSTIC_EVENT", severity=2, text=f"No CUDA events collected.\0{SECRET}"),
        Row("TARGET_INFO_GPU", vmId=1, id=1, name=f"NVIDIA H200\0{SECRET}", uuid=None, cuDevice=1),
        Row("TARGET_INFO_GPU", vmId=SECRET, id=1, name=None, uuid=None, cuDevice=1),
        Row("A_TABLE_OF_NSYS_2027", environment=SECRET),
        Range(f"a mark of {SECRET}", 5, None, event=34),
        Range(f"a registered mark of {SECRET}", 5, None, event=34, registered=True),
        Range(f"nul\0{SECRET}", 5, 6),
        Range(f"nul\0{SECRET}", 5, 6, registered=True),
    ],
    ids=lambda row: f"{getattr(row, 'table', 'NVTX_EVENTS')}",
)
def test_nothing_else_leaves(source: Path, target: Path, row: Row | Range) -> None:
    write_export(source, *MEASURED, Row("StringIds", id=99_001, value=f"{SECRET}"), row)
    assert SECRET.encode() in source.read_bytes()

    scrub(source, target)

    assert SECRET.encode() not in target.read_bytes()
    assert b"TERM=xterm" not in target.read_bytes()


def test_secrets_do_not_leave_in_columns_that_are_not_known(source: Path, target: Path) -> None:
    write_export(source, *MEASURED)
    for table in (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "NVTX_EVENTS",
        "META_DATA_EXPORT",
        "StringIds",
        "TARGET_INFO_GPU",
    ):
        execute(source, f"ALTER TABLE {table} ADD COLUMN jsonText TEXT")
        execute(source, f"UPDATE {table} SET jsonText = ?", [SECRET])
    execute(source, "UPDATE NVTX_EVENTS SET domainId = ? WHERE text = 'open'", [SECRET])

    scrub(source, target)

    assert SECRET.encode() not in target.read_bytes()
    with closing(sqlite3.connect(target)) as copy:
        assert [
            name for (name,) in copy.execute("SELECT name FROM pragma_table_info('StringIds')")
        ] == ["id", "value"]


def test_what_nsys_says_that_it_lost_leaves(source: Path, target: Path) -> None:
    texts = (
        "CUPTI dropped 12 records. Some CUPTI events might be missing.",
        "Couldn't allocate CUPTI buffers 3 times.Some CUPTI events might be missing.\n",
    )
    scrub(
        write_export(
            source, *MEASURED, *(Row("DIAGNOSTIC_EVENT", severity=3, text=text) for text in texts)
        ),
        target,
    )
    timeline = read_timeline(target)
    assert_same(timeline, read_timeline(source))
    assert timeline.missing["records"].code == "records-lost"


def test_secrets_do_not_leave_in_the_unused_parts_of_pages(source: Path, target: Path) -> None:
    blocks = [Row("StringIds", id=99_000 + i, value=ENVIRONMENT * 40) for i in range(400)]
    rows = [Kernel(f"kernel {i}", i, i + 1, correlation=i) for i in range(3000)]
    write_export(source, *MEASURED, *rows, *blocks)

    scrub(source, target)

    assert SECRET.encode() not in target.read_bytes()
    assert b"ada" not in target.read_bytes()
    assert_same(read_timeline(target), read_timeline(source))


def test_the_source_and_its_folder_stay_as_they_were(source: Path, target: Path) -> None:
    write_export(source, *MEASURED)
    before = source.read_bytes()
    scrub(source, target)
    assert source.read_bytes() == before
    assert sorted(path.name for path in target.parent.iterdir()) == [
        "run.sqlite",
        "scrubbed.sqlite",
    ]


def test_a_target_that_exists_is_not_overwritten(source: Path, target: Path) -> None:
    write_export(source, *MEASURED)
    target.write_text("mine")
    with refused(StoreFailed, "export-not-written"):
        scrub(source, target)
    assert target.read_text() == "mine"


def test_a_damaged_source_leaves_no_target(source: Path, target: Path) -> None:
    write_export(source, *(Kernel("k", i, i + 1) for i in range(2000)))
    whole = bytearray(source.read_bytes())
    whole[5 * 4096 : 9 * 4096] = b"\xff" * (4 * 4096)
    source.write_bytes(whole)
    with refused(CaptureUnreadable, "export-damaged"):
        scrub(source, target)
    assert [path.name for path in target.parent.iterdir()] == ["run.sqlite"]
