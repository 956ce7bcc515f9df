"""Files that are written whole or not at all, and locks that fall with their process."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO


def files_below(folder: Path) -> Iterator[Path]:
    """All files below a folder; what vanishes meanwhile, as folders of other runs do, is passed
    over."""
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def lock(descriptor: int, *, wait: bool = False) -> bool:
    """Take the lock of an open file or folder; False where another process holds it.

    Raises:
        OSError: the file system locks nothing, as some network file systems do.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold the lock of a file or folder that is there; whether it is held.

    Raises:
        OSError: it is not there, or may not be opened.
    """
    access = os.O_RDONLY if path.is_dir() else os.O_RDWR
    descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        is_held = False
        with suppress(OSError):
            is_held = lock(descriptor, wait=wait)
        yield is_held
    finally:
        os.close(descriptor)


@contextmanager
def whole_file(path: Path, *, mode: int | None = None) -> Iterator[TextIO]:
    """Open a file to write UTF-8: next to its place, to the disk, and at the end into its place.

    Where something is raised meanwhile, what was there before is unchanged.

    Args:
        path: its place, in a folder that is there.
        mode: its permissions; by default those of any new file.

    Raises:
        OSError: the disk does not take it.
    """
    unfinished = path.with_name(f".perfgate-{secrets.token_hex(6)}.tmp")
    try:
        with unfinished.open("x", encoding="utf-8", newline="") as file:
            if mode is not None:
                unfinished.chmod(mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    with suppress(OSError):  # the rename too; some file systems have folders in their own time
        _sync(path.parent)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed writers left in a folder that is written to under its lock, if nobody
    holds that now."""
    with suppress(OSError), locked(folder) as is_held:
        for unfinished in folder.glob(".perfgate-*.tmp") if is_held else ():
            unfinished.unlink()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
