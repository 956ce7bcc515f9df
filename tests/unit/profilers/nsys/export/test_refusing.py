"""What is said of files that are no export, and of exports of a layout that is not known."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.exports import (
    Call,
    Kernel,
    execute,
    write_export,
)
from support.refusals import AGAIN, HOSTILE, TAMED, refusal

from perfgate.model.errors import LayoutUnknown


def test_a_file_that_is_not_there(path: Path) -> None:
    assert (
        refusal(path)
        == "run.sqlite: it cannot be opened: No such file or directory.\nCheck the path and its rights"
    )


def test_a_folder(path: Path) -> None:
    path.mkdir()
    assert refusal(path) == f"run.sqlite: this is a folder. perfgate reads one export.\n{AGAIN}"


def test_an_empty_file(path: Path) -> None:
    path.touch()
    assert refusal(path) == f"run.sqlite: the file is empty.\n{AGAIN}"


def test_a_git_lfs_pointer(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 614723584\n")
    assert refusal(path) == (
        "run.sqlite: this is a Git LFS pointer, not the capture itself.\n"
        "Fetch the capture first: git lfs pull --include run.sqlite"
    )


def test_an_nsys_rep(tmp_path: Path) -> None:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"\x0a\x1fNVIDIA")
    assert refusal(path) == (
        "run.nsys-rep: this is nsys's own format. perfgate reads its SQLite export.\n"
        "Export it: nsys export --type sqlite run.nsys-rep"
    )


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_text("Time (%),Total Time (ns)\n")
    assert (
        refusal(path)
        == f"run.sqlite: this is no SQLite file. perfgate reads SQLite exports of nsys.\n{AGAIN}"
    )


@pytest.mark.parametrize("kept", [16, 99, 4096])
def test_a_file_that_was_cut_off(path: Path, kept: int) -> None:
    write_export(path, Kernel("k", 0, 1))
    whole = path.stat().st_size if kept >= 100 else 100
    path.write_bytes(path.read_bytes()[:kept])
    assert (
        refusal(path) == f"run.sqlite: it is cut off: {kept} of {whole} bytes are there.\n{AGAIN}"
    )


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (
            b"\x1f\x8b\x08",
            "run.sqlite: it is packed with gzip.\nUnpack it: gunzip --keep run.sqlite",
        ),
        (b"\xfd7zXZ\0", "run.sqlite: it is packed with xz.\nUnpack it: unxz --keep run.sqlite"),
        (b"\x28\xb5\x2f\xfd", "run.sqlite: it is packed with zstd.\nUnpack it: unzstd run.sqlite"),
        (b"PK\x03\x04", "run.sqlite: it is packed with zip.\nUnpack it: unzip run.sqlite"),
        (
            b"PAR1",
            f"run.sqlite: this is an export as Parquet. perfgate reads SQLite exports of nsys.\n{AGAIN}",
        ),
        (
            b"ARROW1\0\0",
            f"run.sqlite: this is an export as Arrow. perfgate reads SQLite exports of nsys.\n{AGAIN}",
        ),
    ],
)
def test_a_packed_export_and_one_of_another_format(path: Path, start: bytes, told: str) -> None:
    path.write_bytes(start + bytes(200))
    assert refusal(path) == told


def test_an_export_that_something_still_writes(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    path.with_name("run.sqlite-wal").write_bytes(b"x")
    assert refusal(path) == (
        "run.sqlite: run.sqlite-wal lies beside it: something is still writing the export, or died writing it.\n"
        "Wait for it, or export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"
    )


def test_a_link_to_an_export_that_something_still_writes(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    path.with_name("run.sqlite-wal").write_bytes(b"x")
    link = path.with_name("link.sqlite")
    link.symlink_to(path.name)
    assert refusal(link).startswith(
        "link.sqlite: run.sqlite-wal lies beside it: something is still writing the export"
    )


def test_a_database_of_something_else(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE moz_places (url TEXT)")
    assert refusal(path) == (
        "run.sqlite: this is a SQLite file, but no export of nsys: it has moz_places. An export has some of "
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, "
        "CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME, EXPORT_META_DATA, META_DATA_EXPORT, NVTX_EVENTS, "
        f"StringIds.\n{AGAIN}"
    )


def test_names_of_tables_are_told_on_one_line_and_spelled_out(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(f'CREATE TABLE "{HOSTILE}" (url TEXT)')
        other.execute(f'CREATE TABLE "{"x" * 5000}" (url TEXT)')
    assert f"it has {TAMED}, {'x' * 64}...{'x' * 32}. An export has" in refusal(path)


def test_a_view_in_place_of_a_table(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1), Call("cudaLaunchKernel_v7000", 0, 1))
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO kernels")
    execute(path, "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM kernels")
    assert refusal(path, LayoutUnknown) == (
        "run.sqlite: CUPTI_ACTIVITY_KIND_KERNEL is a view. In an export of nsys it is a table.\n"
        "Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"
    )


@pytest.mark.parametrize(
    ("change", "there"),
    [
        (
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V2",
            "and no CUPTI_ACTIVITY_KIND_KERNEL",
        ),
        (
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V2 AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL",
            "beside CUPTI_ACTIVITY_KIND_KERNEL",
        ),
    ],
    ids=["in place of the one that is known", "beside it"],
)
def test_a_table_of_another_version(path: Path, change: str, there: str) -> None:
    """Beside it, the known one holds half of the kernels, and looks complete."""
    write_export(path, Kernel("k", 0, 1))
    execute(path, change)
    assert refusal(path, LayoutUnknown) == (
        f"run.sqlite: it has CUPTI_ACTIVITY_KIND_KERNEL_V2 {there}. "
        "perfgate knows CUPTI_ACTIVITY_KIND_KERNEL only.\n"
        "perfgate must learn this version of nsys: please report it with the version"
    )
