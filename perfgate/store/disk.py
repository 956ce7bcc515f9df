"""Files and folders of one project: written whole or not at all, named by workloads and machines,
and shown as messages show them."""

from __future__ import annotations

import difflib
import errno
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from perfgate.model.errors import StoreFailed
from perfgate.system.files import locked, write_whole

LONGEST_NAME: Final = 200
"""Bytes of a file name before `.json`; file systems take 255."""
_NEAR_NAMES: Final = 3
"""Ids that a misspelt one may have meant, that are named."""


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
        """Write a whole file or none: next to its place, to the disk, then into its place.

        Raises:
            StoreFailed: the disk did not take it, or it is larger than whoever reads it takes.
        """
        if largest is not None and len(text.encode()) > largest:
            raise StoreFailed(
                "disk-too-large", path=self.shown(path), n_bytes=len(text.encode()), largest=largest
            )
        try:
            write_whole(path, text)
        except OSError as error:
            raise self.failed(path, error) from error

    def failed(self, path: Path, error: OSError) -> StoreFailed:
        """What to say of a path that the disk did not take."""
        return StoreFailed("disk-failed", path=self.shown(path), strerror=error.strerror)


def bytes_of(path: Path) -> bytes:
    """A file's content; of a pipe or a device nobody knows when it ends.

    Raises:
        OSError: it cannot be read, or is none.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "It is no plain file", str(path))
    return path.read_bytes()


def file_name(name: str) -> str:
    """Return a workload's id as a file name without suffix: `mlp[4-64]`, `a%2Fb`; undone by
    `workload_of`.

    Letters, digits and `- _ . = , [ ]` stay, anything else (and a leading dot) is percent-encoded
    as UTF-8. A name of more than 200 bytes is cut and ends in `~` and 16 hex digits of its SHA-256.
    """
    encoded = quote(name, safe="[]=,", errors="surrogatepass").replace("~", "%7E")
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if len(encoded) <= LONGEST_NAME:
        return encoded
    tail = "~" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    head = encoded[: LONGEST_NAME - len(tail)]
    return re.sub(r"%[0-9A-F]?$", "", head) + tail


def near_names(workload: str, known: Sequence[str]) -> list[str]:
    """Return the known ids that one may have meant, three at most: those of its parameters, else
    those like it."""
    of_it = [name for name in known if name.startswith(f"{workload}[")]
    return of_it[:_NEAR_NAMES] or difflib.get_close_matches(workload, known, n=_NEAR_NAMES)


def workload_of(encoded: str) -> str | None:
    """Return the id that `file_name` made a name of, None where it was cut; of a name that it never
    made, the name."""
    try:
        return None if "~" in encoded else unquote(encoded, errors="surrogatepass")
    except UnicodeDecodeError:
        return encoded
