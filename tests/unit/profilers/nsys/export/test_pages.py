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
OTHER = st.one_of(
    st.none(),
    st.integers(-9, 9),
    st.floats(allow_nan=False),
    st.text(max_size=90),
    st.binary(max_size=5),
)
TEXT = st.one_of(st.none(), st.text(max_size=9), st.integers(0, 6000).map(lambda size: "é" * size))


def read(
    path: Path, table: str, places: list[int], at_once: int
) -> tuple[list[int], list[list[Any]]]:
    """The ids and these columns as they are read, the last of them as texts."""
    with path.open("rb") as file, closing(sqlite3.connect(path)) as connection:
        ((root,),) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        )
        pages = Pages(file.fileno())
        ids: list[int] = []
        columns: list[list[Any]] = [[] for _ in places]
        for part in (
            one
            for whole in pages.parts(root)
            for one in np.split(whole, range(at_once, len(whole), at_once))
        ):
            rows = pages.rows(part)
            ids += rows.ids.tolist()
            found = rows.columns(places)
            for column, place in zip(columns[:-1], places[:-1], strict=True):
                numbers = found[place].integers()
                assert numbers is not None
                nulls = found[place].is_null
                column += [
                    None if null else one
                    for one, null in zip(numbers.tolist(), nulls.tolist(), strict=True)
                ]
            texts = found[places[-1]].texts()
            assert texts is not None
            begins, lengths = texts
            for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True):
                columns[-1].append(
                    found[places[-1]].held[begin : begin + length].tobytes().decode()
                )
    return ids, columns


@pytest.mark.behaviour
@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(OTHER, WHOLE, TEXT, OTHER, WHOLE), max_size=60),
    size=st.sampled_from([512, 1024, 4096, 65536]),
    holes=st.integers(1, 5),
    at_once=st.integers(1, 7),
    added=st.booleans(),
)
def test_columns_hold_what_sqlite_says(
    rows: list[tuple[Any, ...]], size: int, holes: int, at_once: int, *, added: bool
) -> None:
    """Values of every width, texts that go on over several pages, rows written before a column was
    added."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.sqlite"
        with closing(sqlite3.connect(path)) as written:
            written.execute(f"PRAGMA page_size = {size}")
            written.execute("CREATE TABLE other (x)")
            written.execute("CREATE TABLE t (a, b INTEGER, c TEXT, d, e INTEGER)")
            written.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
            written.execute("UPDATE t SET rowid = -rowid * 1000000007 WHERE rowid % 7 = 0")
            written.execute("DELETE FROM t WHERE abs(rowid) % 5 > ?", (holes,))
            if added:
                written.execute("ALTER TABLE t ADD COLUMN f INTEGER")
                written.execute("INSERT INTO t VALUES (1, 2, 'three', 4, 5, 6)")
            written.commit()
            last = "f" if added else "e"
            told = written.execute(
                f"SELECT rowid, b, e, {last}, coalesce(c, '') FROM t ORDER BY rowid"
            ).fetchall()
        ids, columns = read(path, "t", [1, 4, 5 if added else 4, 2], at_once)
    assert ids == [row[0] for row in told]
    for place, column in enumerate(columns, 1):
        assert column == [row[place] for row in told]


def test_a_table_of_many_levels_is_read_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "deep.sqlite"
    with closing(sqlite3.connect(path)) as written:
        written.execute("PRAGMA page_size = 512")
        written.execute("CREATE TABLE t (a INTEGER, b TEXT)")
        written.executemany(
            "INSERT INTO t VALUES (?, ?)", ((number * 977, str(number)) for number in range(40_000))
        )
        written.commit()
    ids, (numbers, texts) = read(path, "t", [0, 1], 100)
    assert ids == list(range(1, 40_001))
    assert numbers == [number * 977 for number in range(40_000)]
    assert texts == [str(number) for number in range(40_000)]


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


def test_a_table_without_row_ids_is_refused(tmp_path: Path) -> None:
    path = write_export(tmp_path / "run.sqlite", Kernel("k", 3, 4))
    execute(path, "ALTER TABLE StringIds RENAME TO plain")
    execute(
        path,
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    )
    execute(path, "INSERT INTO StringIds SELECT id, value FROM plain")
    assert refusal(path)[0] == "export-damaged"


def test_texts_of_another_encoding_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with closing(sqlite3.connect(path)) as written:
        written.execute("PRAGMA encoding = 'UTF-16le'")
        written.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        written.commit()
    assert refusal(path)[0] == "export-damaged"
