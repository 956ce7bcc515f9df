"""Folders that hold too much to be left behind: marked while somebody sees to them, and else
removed by the next.

The mark is a file, locked for as long as its process lives: where nobody holds the lock, nobody
will clear up.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

UNDERWAY: Final = ".underway"
PREFIX: Final = "perfgate-"
"""Of temporary folders."""


@contextmanager
def underway(folder: Path) -> Iterator[None]:
    """Let those who come later know, for as long as this lasts, that somebody clears a folder up."""
    mark = folder / UNDERWAY
    fresh = mark.with_suffix(".new")  # nobody may find it unlocked
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(
            OSError
        ):  # some network file systems lock nothing; there nothing is found left either
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fresh.rename(mark)
        yield
    finally:
        mark.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def left(folder: Path) -> Iterator[bool]:
    """Say whether a marked folder is left by a killed process; it is nobody else's while this
    lasts."""
    try:
        descriptor = os.open(folder / UNDERWAY, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """Give a folder that is removed at the end, or by the next gate or command where this process
    is killed."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-")).resolve()
    try:
        with underway(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_folders() -> int:
    """Remove the temporary folders that killed processes of this user have left, and say how many
    these were."""
    removed = 0
    for mark in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{UNDERWAY}"):
        folder = mark.parent
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with left(folder) as is_left:
                # A gate of a killed selftest may still measure there.
                if is_left and not any(
                    _is_held(one.parent) for one in folder.rglob(UNDERWAY) if one != mark
                ):
                    shutil.rmtree(folder)
                    removed += 1
    return removed


def _is_held(folder: Path) -> bool:
    with left(folder) as is_left:
        return not is_left
