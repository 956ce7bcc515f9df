"""The dtypes of what is read, and what is said of numbers that no nsys writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.exports import (
    Call,
    Copy,
    Kernel,
    Memset,
    Range,
    execute,
    write_export,
)
from support.refusals import AGAIN, refusal

from perfgate.model.timeline import MemoryKind
from perfgate.profilers.nsys.export.timeline import read_timeline


def test_arrays_have_the_dtypes_of_the_model(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path, Range("a", 0, 1), Call("c", 0, 1), Kernel("k", 0, 1), Copy(0, 1, 2), Memset(0, 1)
        )
    )
    empty = read_timeline(write_export(path.with_name("empty.sqlite"), Range("a", 0, 1)))

    for one in (timeline, empty):
        for column in (
            one.kernels.start,
            one.kernels.graph_node,
            one.calls.thread,
            one.copies.bytes,
            one.graphs.end,
            one.ranges.start,
        ):
            assert column.dtype == np.int64
        for small in (
            one.kernels.device,
            one.kernels.process,
            one.kernels.name,
            one.calls.name,
            one.ranges.process,
        ):
            assert small.dtype == np.int32
        for kinds in (one.copies.kind, one.copies.source, one.copies.target):
            assert kinds.dtype == np.int8
        for flags in (one.ranges.closed, one.ranges.push_pop):
            assert flags.dtype == np.bool_
        assert one.ranges.name.codes.dtype == np.int32


def test_memory_kinds_that_the_model_does_not_know_are_unknown(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Copy(0, 1, 2, source=7, target=None), Copy(0, 1, 2, source=4, target=3))
    )
    assert timeline.copies.source.tolist() == [MemoryKind.UNKNOWN, MemoryKind.MANAGED]
    assert timeline.copies.target.tolist() == [MemoryKind.UNKNOWN, MemoryKind.ARRAY]


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL has other values than whole numbers as start",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 3.5 WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL has other values than whole numbers as end",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 'nan' WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL has other values than whole numbers as end",
        ),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1 WHERE start = 2",
            "CUPTI_ACTIVITY_KIND_KERNEL has 1 row that ends before it starts, as from 2 to 1 ns",
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
            "NVTX_EVENTS has 1 row that ends before it starts, as from 9 to 5 ns",
        ),
    ],
)
def test_values_that_no_nsys_writes(path: Path, change: str, fact: str) -> None:
    write_export(path, Kernel("k", 0, 1), Kernel("k", 2, 3), Copy(0, 1, 2), Range("r", 9, 10))
    execute(path, change)
    assert refusal(path) == f"run.sqlite: it is damaged: {fact}.\n{AGAIN}"
