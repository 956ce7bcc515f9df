"""Folders that hold too much to be left behind: marked while their process lives, and removed by
the next gate where it was killed.

The mark is a file that is locked for as long as its process lives.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from perfgate.system.files import lock, locked

UNDERWAY: Final = ".underway"
PREFIX: Final = "perfgate-"
"""Of temporary folders."""


@contextmanager
def underway(folder: Path) -> Iterator[None]:
    """Mark a folder as this process's to clear up, for as long as the block lasts."""
    mark = folder / UNDERWAY
    fresh = mark.with_suffix(".new")  # nobody may find it unlocked
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # where nothing is locked, nothing is found left either
            lock(descriptor)
        fresh.rename(mark)
        yield
    finally:
        mark.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def left(folder: Path) -> Iterator[bool]:
    """Say whether a marked folder is left by a killed process; it is this one's while this
    lasts.
    """
    with ExitStack() as held:
        is_left = False
        with suppress(OSError):
            is_left = held.enter_context(locked(folder / UNDERWAY))
        yield is_left


@contextmanager
def temporary_folder(kind: str, *, within: str | None = None) -> Iterator[Path]:
    """Give a folder that is removed at the end, or by the next gate or command where this process
    is killed."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-", dir=within)).resolve()
    try:
        with underway(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_folders() -> None:
    """Remove the temporary folders that killed processes of this user have left."""
    for mark in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{UNDERWAY}"):
        folder = mark.parent
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with left(folder) as is_left:
                # A gate of a killed selftest may still measure there.
                inner = (one.parent for one in folder.rglob(UNDERWAY) if one != mark)
                if is_left and not any(map(_is_held, inner)):
                    shutil.rmtree(folder)


def _is_held(folder: Path) -> bool:
    with left(folder) as is_left:
        return not is_left
