"""Files and folders of one project: written whole or not at all, and told as messages show them."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from perfgate.model.errors import StoreFailed

_CODES: Mapping[int, str] = {
    errno.ENOSPC: "disk-full",
    errno.EDQUOT: "disk-quota",
    errno.EACCES: "disk-forbidden",
    errno.EPERM: "disk-forbidden",
    errno.EROFS: "disk-read-only",
    errno.ENOTDIR: "disk-file-in-the-way",
    errno.EEXIST: "disk-file-in-the-way",
    errno.EISDIR: "disk-folder-in-the-way",
}


class Kind(Enum):
    """What is at a path."""

    FILE = auto()
    FOLDER = auto()
    OTHER = auto()
    """A pipe, a device or a socket."""
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class Disk:
    """What lies below one project's root."""

    root: Path

    def told(self, path: Path) -> str:
        """Return a path as messages show it: from the root, where it lies below it."""
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it.

        Raises:
            StoreFailed: the disk did not take it.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self.failed(folder, error) from error

    @contextmanager
    def alone_in(self, folder: Path) -> Iterator[None]:
        """Keep other perfgates out of a folder between the comparison with the old file and its
        replacement.

        Raises:
            StoreFailed: there is no such folder, or none that this user may open.
        """
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise self.failed(folder, error) from error
        try:
            # Some network file systems lock no folders; the comparison still holds, only less
            # tightly.
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def write(self, path: Path, text: str, *, largest: int | None = None) -> None:
        """Write a whole file or none: beside its place, to the disk, then into its place.

        Raises:
            StoreFailed: the disk did not take it, or it is larger than whoever reads it takes.
        """
        if largest is not None and len(text.encode()) > largest:
            raise StoreFailed(
                "disk-too-large", path=self.told(path), n_bytes=len(text.encode()), largest=largest
            )
        temporary = path.with_name(f".perfgate-{secrets.token_hex(6)}.tmp")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            raise self.failed(path, error) from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)

    def remove_torn(self, folder: Path) -> None:
        """Remove what was left half written in a folder that is written to by `alone_in` only, if
        nobody writes now."""
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for torn in folder.glob(".perfgate-*.tmp"):
                    torn.unlink()
            finally:
                os.close(handle)

    def failed(self, path: Path, error: OSError) -> StoreFailed:
        """What to say of a path that the disk did not take."""
        code = _CODES.get(error.errno or 0, "disk-failed")
        return StoreFailed(code, path=self.told(path), strerror=error.strerror)


def kind_of(path: Path) -> Kind:
    """What is at a path, or where it leads to; nothing where that cannot be looked for, as of too
    long a name."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return Kind.NOTHING
    return Kind.FILE if stat.S_ISREG(mode) else Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER


def bytes_of(path: Path) -> bytes:
    """A file's content; of a pipe or a device nobody knows when it ends.

    Raises:
        OSError: it cannot be read, or is none.
    """
    if kind_of(path) is Kind.OTHER:
        raise OSError(errno.EINVAL, "It is no plain file", str(path))
    return path.read_bytes()


def _sync_folder(folder: Path) -> None:
    """Put a rename on the disk; a file system that cannot has it in its own time."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
