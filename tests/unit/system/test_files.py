"""Files are whole or unchanged; locks and marks fall with their process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfgate.system.files import (
    UNDERWAY,
    files_below,
    left,
    lock,
    underway,
    write_whole,
)


@contextmanager
def elsewhere(code: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has run `code` and then waits until it is killed."""
    program = f"import time; from contextlib import *; from pathlib import Path\n{code}\n"
    with subprocess.Popen(
        [sys.executable, "-c", program + "print(flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            yield other
        finally:
            other.kill()


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    write_whole(file, "é\r\n")
    assert file.read_bytes() == "é\r\n".encode()
    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "half \udc80")
    assert file.read_bytes() == "é\r\n".encode()
    assert list(tmp_path.iterdir()) == [file]


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    assert lock(first)
    assert not lock(second)
    os.close(first)
    assert lock(second, wait=True)
    os.close(second)


def test_a_marked_folder_is_left_only_by_a_killed_process(tmp_path: Path) -> None:
    with left(tmp_path) as is_left:
        assert not is_left
    marks = (
        "from perfgate.system.files import underway\n"
        f"held = ExitStack(); held.enter_context(underway(Path({str(tmp_path)!r})))"
    )
    with elsewhere(marks), left(tmp_path) as is_left:
        assert not is_left
    with left(tmp_path) as is_left:
        assert is_left
    with underway(tmp_path):
        assert (tmp_path / UNDERWAY).exists()
    assert not (tmp_path / UNDERWAY).exists()


def test_what_vanishes_while_files_are_looked_for_is_passed_over(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file.py").touch()
    found = files_below(tmp_path)
    first = next(found)
    other = tmp_path / ("b" if "a" in first.parts[-3:] else "a")
    shutil.rmtree(other)
    assert [first, *found] == [first]
