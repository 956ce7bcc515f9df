"""Files that are written whole or not at all, locks that fall with their process, and folders of
runs that hold too much to be left behind.

Such a folder is marked by a file that is locked for as long as its process lives; where that was
killed, the next gate clears it up.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from perfgate.model.errors import PerfgateError, StoreFailed


@contextmanager
def refused_as(error: type[PerfgateError], code: str, /, **fields: object) -> Iterator[None]:
    """Raise this error where the system refuses something in the block; it says why, as `why`."""
    try:
        yield
    except OSError as refused:
        raise error(code, **fields, why=refused.strerror or str(refused)) from refused


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


def write_whole(path: Path, text: str) -> None:
    """Write a file as UTF-8: next to its place, to the disk, and at the end into its place, in a
    folder that is there.

    Where something is raised meanwhile, what was there before is unchanged.

    Raises:
        OSError: the disk does not take it.
    """
    unfinished = path.with_name(f".perfgate-{secrets.token_hex(6)}.tmp")
    try:
        with unfinished.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


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
    """Give a folder that is removed at the end; where this process is killed, it stays."""
    with TemporaryDirectory(
        prefix=f"{PREFIX}{kind}-", dir=within, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder).resolve()


@contextmanager
def kept_or_temporary(kind: str, keep: Path | None) -> Iterator[Path]:
    """Give a new folder where somebody wants to keep it, else one that is removed at the end.

    Raises:
        StoreFailed: `keep` exists or cannot be made.
    """
    if keep is None:
        with temporary_folder(kind) as folder:
            yield folder
        return
    try:
        keep.mkdir(parents=True)
    except OSError as refused:
        reason = refused.strerror or str(refused)
        raise StoreFailed("folder-not-made", folder=str(keep), reason=reason) from refused
    yield keep.resolve()
