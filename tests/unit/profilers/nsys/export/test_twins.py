"""Rows that a table holds twice, and rows that only look alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.exports import (
    Call,
    Copy,
    Graph,
    Kernel,
    Memset,
    execute,
    write_export,
)
from support.refusals import AGAIN, refusal

from perfgate.profilers.nsys.export.timeline import read_timeline


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
    write_export(
        path,
        Copy(5, 9, 4096, kind=kind, source=4, target=4),
        Copy(5, 9, 4096, kind=kind, source=4, target=4),
    )
    assert len(read_timeline(path).copies.start) == 2
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN virtualAddress INTEGER")
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET virtualAddress = 4096 * rowid")
    assert len(read_timeline(path).copies.start) == 2
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET virtualAddress = 4096")
    assert refusal(path).startswith(
        "run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_MEMCPY has 1 row that is in it"
    )


def test_beside_moves_of_managed_memory_copies_of_other_sizes_are_several(path: Path) -> None:
    managed = Copy(5, 9, 4096, kind=11, source=4, target=4)
    write_export(
        path, managed, managed, Copy(5, 9, 64, correlation=1), Copy(5, 9, 128, correlation=1)
    )
    assert len(read_timeline(path).copies.start) == 4
    path.unlink()
    write_export(
        path, managed, managed, Copy(5, 9, 64, correlation=1), Copy(5, 9, 64, correlation=1)
    )
    assert refusal(path).startswith(
        "run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_MEMCPY has 1 row that is in it"
    )


def test_before_the_capture_began_a_row_does_not_count_double_either(path: Path) -> None:
    write_export(path, Kernel("k", -20, -10, correlation=1), Kernel("k", -20, -10, correlation=1))
    assert refusal(path).startswith(
        "run.sqlite: it is damaged: CUPTI_ACTIVITY_KIND_KERNEL has 1 row that is in it"
    )


def test_operations_without_times_are_several(path: Path) -> None:
    alike = Kernel("k", -20, -10, correlation=1), Kernel("other", -20, -10, correlation=1)
    write_export(path, *alike, Kernel("k", 0, 0), Kernel("k", 0, 0), Kernel("k", 5, 9))
    assert len(read_timeline(path).kernels.start) == 5


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
