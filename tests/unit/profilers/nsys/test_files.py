"""Which files are whole SQLite exports."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from perfgate.profilers.nsys.files import fault_of_sqlite


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """One of two tables."""
    file = tmp_path / "export.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE a (x); CREATE TABLE b (x);")
    return file


def test_a_whole_database_has_no_fault_and_one_without_its_last_page_is_cut_short(
    database: Path,
) -> None:
    assert fault_of_sqlite(database) is None
    whole = database.read_bytes()
    database.write_bytes(whole[:-4096])
    assert fault_of_sqlite(database) == "is cut short"
    database.write_bytes(whole[:99])
    assert fault_of_sqlite(database) == "is no SQLite file"


def test_a_page_count_that_the_last_writer_did_not_keep_promises_nothing(database: Path) -> None:
    """SQLite's file format, 1.3.7: it counts only where the change counter is the one that it is valid for."""
    head = bytearray(database.read_bytes())
    head[28:32] = (1000).to_bytes(4, "big")
    database.write_bytes(head)
    assert fault_of_sqlite(database) == "is cut short"
    head[92:96] = (int.from_bytes(head[24:28], "big") - 1).to_bytes(4, "big")
    database.write_bytes(head)
    assert fault_of_sqlite(database) is None
