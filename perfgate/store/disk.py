"""Files and folders of one project: written whole or not at all, and told as messages show them."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from perfgate.model.errors import StoreFailed
from perfgate.system.files import locked, whole_file

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


class PathKind(Enum):
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

    def shown(self, path: Path) -> str:
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
        with ExitStack() as held:
            try:
                # Some network file systems lock no folders; the comparison still holds.
                held.enter_context(locked(folder, wait=True))
            except OSError as error:
                raise self.failed(folder, error) from error
            yield

    def write(self, path: Path, text: str, *, largest: int | None = None) -> None:
        """Write a whole file or none: beside its place, to the disk, then into its place.

        Raises:
            StoreFailed: the disk did not take it, or it is larger than whoever reads it takes.
        """
        if largest is not None and len(text.encode()) > largest:
            raise StoreFailed(
                "disk-too-large", path=self.shown(path), n_bytes=len(text.encode()), largest=largest
            )
        try:
            with whole_file(path) as file:
                file.write(text)
        except OSError as error:
            raise self.failed(path, error) from error

    def failed(self, path: Path, error: OSError) -> StoreFailed:
        """What to say of a path that the disk did not take."""
        code = _CODES.get(error.errno or 0, "disk-failed")
        return StoreFailed(code, path=self.shown(path), strerror=error.strerror)


def kind_of(path: Path) -> PathKind:
    """What is at a path, or where it leads to; nothing where that cannot be looked for, as of too
    long a name."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return PathKind.NOTHING
    return (
        PathKind.FILE
        if stat.S_ISREG(mode)
        else PathKind.FOLDER
        if stat.S_ISDIR(mode)
        else PathKind.OTHER
    )


def bytes_of(path: Path) -> bytes:
    """A file's content; of a pipe or a device nobody knows when it ends.

    Raises:
        OSError: it cannot be read, or is none.
    """
    if kind_of(path) is PathKind.OTHER:
        raise OSError(errno.EINVAL, "It is no plain file", str(path))
    return path.read_bytes()
