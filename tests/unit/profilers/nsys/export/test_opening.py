"""That an export is read as it lies there, whatever it is called, and what SQLite says of a damaged one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.exports import (
    Kernel,
    Range,
    execute,
    write_export,
)
from support.refusals import AGAIN, refusal

from perfgate.profilers.nsys.export.timeline import read_timeline


def test_the_export_and_its_folder_stay_as_they_were(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1), Range("r", 0, 1))
    before = path.read_bytes()
    path.chmod(0o400)
    read_timeline(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["run.sqlite"]


@pytest.mark.parametrize(
    "name",
    [
        "a b.sqlite",
        "50%25.sqlite",
        "what?.sqlite",
        "a#b&c=d.sqlite",
        "Größe→.sqlite",
        "'\";.sqlite",
    ],
)
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run #1 100%?"
    folder.mkdir()
    timeline = read_timeline(write_export(folder / name, Kernel("k", 0, 1)))
    assert timeline.kernels.end.tolist() == [1]
    assert [file.name for file in folder.iterdir()] == [name]


def test_a_link_and_a_relative_path_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_export(path, Kernel("k", 0, 1))
    (path.parent / "link").symlink_to(path)
    monkeypatch.chdir(path.parent)
    assert len(read_timeline(Path("link")).kernels.start) == 1


def test_an_export_in_wal_mode_is_read_without_its_log(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    execute(path, "PRAGMA journal_mode = WAL")
    assert len(read_timeline(path).kernels.start) == 1
    assert [file.name for file in path.parent.iterdir()] == ["run.sqlite"]


def test_a_database_whose_schema_is_overwritten(path: Path) -> None:
    write_export(path, Kernel("k", 0, 1))
    whole = bytearray(path.read_bytes())
    whole[100:4096] = b"\xff" * 3996
    path.write_bytes(whole)
    assert refusal(path) == f"run.sqlite: it is damaged: database disk image is malformed.\n{AGAIN}"


@pytest.mark.parametrize("spoilt", [b"CREATE\xfc\x1bABLE", b"CREATE\x1bTABLE"])
def test_what_sqlite_quotes_of_a_damaged_schema_is_spelled_out(path: Path, spoilt: bytes) -> None:
    write_export(path, Kernel("k", 0, 1))
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", spoilt))
    told = refusal(path)
    assert told.startswith("run.sqlite: it is damaged: malformed database schema (")
    assert "\x1b" not in told
    assert ("\N{REPLACEMENT CHARACTER}" in told) == (b"\xfc" in spoilt)
