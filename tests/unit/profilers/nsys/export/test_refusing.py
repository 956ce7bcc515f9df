"""Files that are no export, and exports of a layout that is not known."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.exports import Call, Copy, Kernel, Memset, Range, execute, write_export
from support.refusals import HOSTILE, TAMED, refusal

from perfgate.model.errors import PerfgateError
from perfgate.profilers.nsys.export.timeline import read_timeline

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"


def test_what_is_not_there_a_folder_and_a_pipe(tmp_path: Path) -> None:
    assert refusal(tmp_path)[0] == "capture-unopened"
    assert refusal(tmp_path / "none.sqlite")[0] == "capture-unopened"
    os.mkfifo(tmp_path / "pipe.sqlite")
    assert refusal(tmp_path / "pipe.sqlite")[0] == "capture-unopened"


@pytest.mark.parametrize(
    ("name", "held", "code", "fields"),
    [
        ("run.sqlite", b"", "capture-empty", {}),
        (
            "run.sqlite",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n",
            "capture-is-pointer",
            {"name": "run.sqlite"},
        ),
        ("run.nsys-rep", b"\x0a\x1fNVIDIA", "export-foreign", {}),
        ("run.sqlite", b"Time (%),Total Time (ns)\n", "export-foreign", {}),
    ],
)
def test_files_of_another_kind(
    tmp_path: Path, name: str, held: bytes, code: str, fields: dict[str, str]
) -> None:
    (tmp_path / name).write_bytes(held)
    assert refusal(tmp_path / name) == (code, fields)


@pytest.mark.parametrize("kept", [16, 99, 4096, -4096, -1])
def test_a_file_that_was_cut_off(path: Path, kept: int) -> None:
    write_export(path, *(Kernel("k", i, i + 1) for i in range(2000)))
    path.write_bytes(path.read_bytes()[:kept])
    assert refusal(path)[0] == "export-damaged"


def test_an_export_that_something_still_writes(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    path.with_name("run.sqlite-wal").write_bytes(b"x")
    link = path.with_name("link.sqlite")
    link.symlink_to(path.name)
    assert refusal(path) == refusal(link) == ("export-unfinished", {"name": "run.sqlite-wal"})


def test_a_database_of_something_else(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f'CREATE TABLE "{HOSTILE}" (url TEXT)')
    assert refusal(path) == ("export-not-of-nsys", {"tables": (HOSTILE,)})
    with pytest.raises(PerfgateError) as caught:
        read_timeline(path)
    assert TAMED in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([f"ALTER TABLE {KERNEL} RENAME TO {KERNEL}_V2"], f"{KERNEL}_V2"),
        ([f"CREATE TABLE {KERNEL}_V2 AS SELECT * FROM {KERNEL}"], f"{KERNEL}_V2"),
        (
            [
                f"ALTER TABLE {KERNEL} RENAME TO kernels",
                f"CREATE VIEW {KERNEL} AS SELECT * FROM kernels",
            ],
            KERNEL,
        ),
    ],
    ids=["in place of the one that is known", "next to it", "a view"],
)
def test_a_table_of_another_version(path: Path, changes: list[str], found: str) -> None:
    """Next to it, the known one holds half of the kernels, and looks complete."""
    write_export(path, Kernel("k", 0, 1))
    for change in changes:
        execute(path, change)
    assert refusal(path) == ("export-table-unknown", {"tables": (found,), "known": KERNEL})


@pytest.mark.parametrize(
    ("table", "column"), [(MEMSET, "deviceId"), ("StringIds", "id"), ("StringIds", "value")]
)
def test_a_table_without_a_column_that_is_needed(path: Path, table: str, column: str) -> None:
    write_export(path, Memset(0, 1), Kernel("k", 0, 1))
    execute(path, f"ALTER TABLE {table} RENAME COLUMN {column} TO another")
    code, fields = refusal(path)
    assert (code, fields["table"], fields["column"]) == ("export-column-missing", table, column)


@pytest.mark.parametrize(
    ("change", "column", "value"),
    [
        ("KERNEL SET start = 'soon' WHERE start = 2", "start", "what is no whole number"),
        ("KERNEL SET end = 3.5 WHERE start = 2", "end", "what is no whole number"),
        ("KERNEL SET end = 1 WHERE start = 2", "end", 1),
        ("KERNEL SET deviceId = 5000000000 WHERE start = 2", "device", 5000000000),
        ("KERNEL SET deviceId = -1 WHERE start = 2", "device", -1),
        (f"KERNEL SET end = {2**62} WHERE start = 2", "end", 2**62),
        (f"KERNEL SET start = {-(2**62)} WHERE start = 2", "start", -(2**62)),
        ("MEMCPY SET bytes = -5", "bytes", -5),
        ("MEMCPY SET copyKind = -129", "kind", -129),
    ],
)
def test_values_that_no_nsys_writes(path: Path, change: str, column: str, value: object) -> None:
    write_export(path, Kernel("k", 0, 1), Kernel("k", 2, 3), Copy(0, 1, 2), Range("r", 9, 10))
    execute(path, f"UPDATE CUPTI_ACTIVITY_KIND_{change}")
    table = f"CUPTI_ACTIVITY_KIND_{change[:6]}"
    expected = {"table": table, "column": column, "value": value}
    assert refusal(path) == ("export-impossible", expected)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 123", "no 123"),
        ("DROP TABLE StringIds", "nothing"),
    ],
)
def test_a_kernel_whose_name_is_not_there(path: Path, change: str, value: str) -> None:
    execute(write_export(path, Kernel("k", 0, 1)), change)
    code, fields = refusal(path)
    assert (code, fields["table"], fields["value"]) == ("export-impossible", "StringIds", value)


def test_a_number_that_is_absent_where_there_must_be_one(path: Path) -> None:
    write_export(path, Memset(0, 1), Memset(2, 3))
    execute(path, f"ALTER TABLE {MEMSET} RENAME TO strict")
    execute(path, f"CREATE TABLE {MEMSET} AS SELECT * FROM strict")
    execute(path, f"UPDATE {MEMSET} SET deviceId = NULL WHERE start = 2")
    expected = {"table": MEMSET, "column": "device", "value": "nothing"}
    assert refusal(path) == ("export-impossible", expected)


@pytest.mark.parametrize("place", [slice(100, 4096), slice(5 * 4096, 9 * 4096)])
def test_a_database_that_is_overwritten(path: Path, place: slice) -> None:
    write_export(path, *(Kernel("k", i, i + 1) for i in range(2000)))
    whole = bytearray(path.read_bytes())
    whole[place] = b"\xff" * (place.stop - place.start)
    path.write_bytes(whole)
    assert refusal(path)[0] == "export-damaged"


@pytest.mark.parametrize("spoilt", [b"CREATE\xfc\x1bABLE", b"CREATE\x1bTABLE"])
def test_what_sqlite_quotes_of_a_damaged_schema_is_escaped(path: Path, spoilt: bytes) -> None:
    write_export(path, Kernel("k", 0, 1))
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", spoilt))
    with pytest.raises(PerfgateError) as caught:
        read_timeline(path)
    assert caught.value.code == "export-damaged"
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("name", ["a b.sqlite", "50%25.sqlite", "what?.sqlite", "'\";→#.sqlite"])
def test_any_file_name_will_do_and_the_export_stays_as_it_was(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run #1 100%?"
    folder.mkdir()
    path = write_export(folder / name, Kernel("k", 0, 1), Call("c", 0, 1))
    before = path.read_bytes()
    path.chmod(0o400)
    assert read_timeline(path).kernels.end.tolist() == [1]
    assert path.read_bytes() == before
    assert [file.name for file in folder.iterdir()] == [name]
