"""The mangled names of kernels, from exports as small as can be."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from perfgate.profilers.nsys.export.ranges import kernel_symbols


def export(
    file: Path, rows: Sequence[tuple[str, str, int]], *, columns: str = "demangledName, mangledName"
) -> Path:
    """An export of kernels: name, symbol and time."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, {columns})")
        for number, (name, symbol, ns) in enumerate(rows):
            connection.execute(
                "INSERT INTO StringIds VALUES (?, ?), (?, ?)",
                (number * 2, name, number * 2 + 1, symbol),
            )
            connection.execute(
                f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, {columns}) VALUES (0, ?, "
                f"?, ?)",
                (ns, number * 2, number * 2 + 1),
            )
        connection.commit()
    return file


def test_a_kernel_is_found_by_the_name_of_the_timeline(tmp_path: Path) -> None:
    file = export(tmp_path / "c.sqlite", [("fill(float *)", "_Z4fillPf", 5), ("gemm", "gemm", 7)])
    assert kernel_symbols(file) == {"fill(float *)": "_Z4fillPf", "gemm": "gemm"}


def test_of_two_that_read_alike_the_one_that_ran_longer_counts(tmp_path: Path) -> None:
    rows = [("[lambda() (instance 1)]", "_Za", 9), ("[lambda() (instance 1)]", "_Zb", 5)]
    assert kernel_symbols(export(tmp_path / "c.sqlite", rows)) == {"[lambda() (instance 1)]": "_Za"}


def test_an_export_without_symbols_has_none(tmp_path: Path) -> None:
    file = export(tmp_path / "c.sqlite", [("fill", "fill", 5)], columns="demangledName, shortName")
    assert kernel_symbols(file) == {}
