"""Whether the pages of a SQLite file hold for perfgate what they hold for SQLite."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.exports import Call, Copy, Kernel, Range, execute, in_small_pages, write_export
from support.refusals import refusal

from perfgate.metrics.measure import measure
from perfgate.model.errors import PerfgateError
from perfgate.profilers.nsys.export.pages import Pages
from perfgate.profilers.nsys.export.timeline import read_timeline

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
WHOLE = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 3),
    st.sampled_from(
        [
            sign * 2**bits + by
            for bits in (7, 15, 23, 31, 47)
            for sign in (1, -1)
            for by in (-1, 0, 1)
        ]
    ),
)
OTHER = st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=90), st.binary(max_size=5))


def numbers(path: Path, table: str, places: list[int], at_once: int) -> list[list[int | None]]:
    """These columns of a table as they are read, so many leaves at a time."""
    with path.open("rb") as file, closing(sqlite3.connect(path)) as connection:
        ((root,),) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        )
        pages = Pages(file.fileno())
        leaves = np.concatenate(pages.leaves(root))
        columns: list[list[int | None]] = [[] for _ in places]
        for part in np.split(leaves, range(at_once, len(leaves), at_once)):
            found = pages.numbers(part, places)
            for column, place in zip(columns, places, strict=True):
                values, nulls = (one.tolist() for one in np.broadcast_arrays(*found[place]))
                column += [None if null else one for one, null in zip(values, nulls, strict=True)]
    return columns


@pytest.mark.behaviour
@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(OTHER, WHOLE, OTHER, WHOLE), max_size=60),
    size=st.sampled_from([512, 1024, 4096, 65536]),
    holes=st.integers(1, 5),
    at_once=st.integers(1, 7),
)
def test_columns_hold_what_sqlite_says(
    rows: list[tuple[Any, ...]], size: int, holes: int, at_once: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.sqlite"
        with closing(sqlite3.connect(path)) as written:
            written.execute(f"PRAGMA page_size = {size}")
            written.execute("CREATE TABLE other (x)")
            written.execute("CREATE TABLE t (a, b INTEGER, c TEXT, d INTEGER)")
            written.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
            written.execute("DELETE FROM t WHERE rowid % 5 > ?", (holes,))
            written.commit()
            expected = written.execute("SELECT b, d FROM t ORDER BY rowid").fetchall()
        found = numbers(path, "t", [1, 3], at_once)
    assert list(zip(*found, strict=True)) == expected


def test_a_table_of_many_levels_is_read_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "deep.sqlite"
    with closing(sqlite3.connect(path)) as written:
        written.execute("PRAGMA page_size = 512")
        written.execute("CREATE TABLE t (a INTEGER, b TEXT)")
        written.executemany(
            "INSERT INTO t VALUES (?, ?)", ((number * 977, str(number)) for number in range(40_000))
        )
        written.commit()
    assert numbers(path, "t", [0], 100) == [[number * 977 for number in range(40_000)]]


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE {KERNEL} SET streamId = '{'x' * 9000}' WHERE start = 3",
        f"UPDATE {KERNEL} SET rowid = -rowid",
        f"ALTER TABLE {KERNEL} ADD COLUMN late INTEGER",
    ],
    ids=["goes on in other pages", "nine bytes of row id", "rows that are too short"],
)
def test_sqlite_reads_what_is_not_read_out_of_the_pages(tmp_path: Path, change: str) -> None:
    path = write_export(tmp_path / "run.sqlite", Kernel("k", 3, 4), Kernel("k", 5, 8))
    execute(path, f"ALTER TABLE {KERNEL} RENAME TO strict")
    execute(path, f"CREATE TABLE {KERNEL} AS SELECT * FROM strict")
    execute(path, change)
    if "streamId" in change:
        assert refusal(path)[0] == "export-impossible"
    else:
        kernels = read_timeline(path).kernels
        assert sorted(kernels.end.tolist()) == [4, 8]
        assert len(set(kernels.name.tolist())) == 1


@cache
def sound() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = write_export(
            Path(folder) / "run.sqlite",
            *(Kernel(f"k{n % 3}", 100 * n, 100 * n + 50, correlation=n) for n in range(1, 40)),
            *(
                Range("step" if n % 2 else "x" * 700, 100 * n, 100 * n + 90, registered=n % 3 == 0)
                for n in range(40)
            ),
            *(Call("c", 100 * n, 100 * n + 5, correlation=n) for n in range(40)),
            Copy(7, 8, 9),
        )
        return in_small_pages(path).read_bytes()


@pytest.mark.behaviour
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_a_damaged_export_is_read_or_refused(data: st.DataObject) -> None:
    """Whatever bytes are changed or lacking: numbers or a refusal, and never another error or an
    endless loop."""
    with tempfile.TemporaryDirectory() as folder:
        path, whole = Path(folder) / "run.sqlite", bytearray(sound())
        for _ in range(data.draw(st.integers(1, 6))):
            place = data.draw(st.integers(100, len(whole) - 1))
            changed = data.draw(st.binary(min_size=1, max_size=8))
            whole[place : place + len(changed)] = changed
        path.write_bytes(
            whole[: data.draw(st.sampled_from([len(whole), len(whole) // 1024 * 512]))]
        )
        with suppress(PerfgateError):
            measure(read_timeline(path), step="step")


def test_a_column_that_is_the_row_id_by_another_name(tmp_path: Path) -> None:
    path = write_export(tmp_path / "run.sqlite", Kernel("k", 3, 4), Kernel("k", 5, 8))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO plain")
    declared = (
        "start INTEGER PRIMARY KEY, end INTEGER, deviceId, correlationId, globalPid, demangledName"
    )
    execute(path, f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({declared})")
    chosen = "start, end, deviceId, correlationId, globalPid, demangledName"
    execute(path, f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT {chosen} FROM plain")
    assert read_timeline(path).kernels.start.tolist() == [3, 5]
