"""Reads the zip file of an artifact that a stranger may have packed, in memory; writes nothing and trusts no name.

An artifact with one member that no upload makes (a link, a way out of its folder, the same name twice) is refused as a
whole.
"""

from __future__ import annotations

import io
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from pydantic import Field

from perfgate.model.errors import ArtifactUnreadable
from perfgate.model.record import Record
from perfgate.render.page import inert

LONGEST_NAME: Final = 500
LONGEST_PART: Final = 255
"""Bytes of a file's name that file systems take."""
_ENCRYPTED: Final = 0x1 | 0x40
_BROKEN: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, OSError, ValueError, OverflowError),
)
"""What zipfile raises of bytes that are no zip file, or not one that it can read."""
_ENTRY: Final = b"PK\x01\x02"
"""How each entry of a zip file's directory begins."""


class Limits(Record):
    """The most that is taken of one artifact."""

    packed_bytes: int = Field(default=64 << 20, ge=1)
    """Of the zip file."""
    members: int = Field(default=10_000, ge=1)
    """Of all its members, wanted or not."""
    member_bytes: int = Field(default=32 << 20, ge=1)
    """Of one wanted member, unpacked."""
    total_bytes: int = Field(default=128 << 20, ge=1)
    """Of all wanted members, unpacked."""


def unpacked(
    content: bytes, wanted: Callable[[str], bool], *, what: str, limits: Limits | None = None
) -> Mapping[str, bytes]:
    """Return the wanted members by their path: POSIX, relative, without `..`, in order; none is no error.

    Args:
        content: the zip file.
        wanted: says of a path whether it is.
        what: the artifact in words, for the error.
        limits: the most that is taken.

    Raises:
        ArtifactUnreadable: it is too large, no zip file, broken, or has a member that is not safe.
    """
    most = limits or Limits()
    if len(content) > most.packed_bytes:
        raise _refused(what, f"it is larger than {most.packed_bytes} bytes")
    # Before zipfile makes an object of each. What only looks like an entry counts as one.
    if content.count(_ENTRY) > most.members:
        raise _refused(what, f"it has more than {most.members} members")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = _files(archive, what=what)
            found = {path: info for path, info in sorted(files.items()) if wanted(path)}
            return dict(_read(archive, found, what=what, most=most))
    except _BROKEN as error:
        raise _refused(
            what, f"it is no zip file that can be read: {inert(str(error), longest=120)}"
        ) from error


def _files(archive: zipfile.ZipFile, *, what: str) -> dict[str, zipfile.ZipInfo]:
    """All members that are files, by their path; each was looked at."""
    taken: set[str] = set()
    files: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        fault = _fault(info)
        path = info.filename.rstrip("/")
        plain = _plain(path)
        if fault is None and plain in taken:
            fault = "is there twice"
        if fault is not None:
            raise _refused(what, f'its member "{inert(info.orig_filename, longest=80)}" {fault}')
        taken.add(plain)
        if not info.is_dir():
            files[path] = info
    plain_files = {_plain(path) for path in files}
    for path in files:
        if any(_plain(str(parent)) in plain_files for parent in PurePosixPath(path).parents):
            raise _refused(what, f'its member "{inert(path, longest=80)}" lies in a file')
    return files


def _fault(info: zipfile.ZipInfo) -> str | None:
    """What makes a member one that no upload makes; None where nothing does."""
    name = info.filename.removesuffix("/")
    parts = name.split("/")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.orig_filename != info.filename or not name or not name.isprintable() or "\\" in name:
        return "has a name that is none"
    if name.startswith("/") or ":" in name or any(part in {"", ".", ".."} for part in parts):
        return "has a name that leads elsewhere"
    if len(name) > LONGEST_NAME or any(len(part.encode()) > LONGEST_PART for part in parts):
        return "has a name that is too long"
    if kind not in {0, stat.S_IFDIR if info.is_dir() else stat.S_IFREG}:
        return "is neither a file nor a folder"
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        return "is packed in a way that uploads do not use"
    return None


def _plain(path: str) -> str:
    """Two paths with the same are one file on some file system."""
    return unicodedata.normalize("NFC", path).casefold()


def _read(
    archive: zipfile.ZipFile, files: Mapping[str, zipfile.ZipInfo], *, what: str, most: Limits
) -> Iterator[tuple[str, bytes]]:
    left = most.total_bytes
    for path, info in files.items():
        if info.file_size > min(left, most.member_bytes):
            raise _refused(what, f'its member "{inert(path, longest=80)}" is too large')
        left -= info.file_size
        with archive.open(info) as stream:
            # No more is unpacked than the directory says: of what was packed longer the checksum fails.
            yield path, stream.read(info.file_size + 1)


def _refused(what: str, fact: str) -> ArtifactUnreadable:
    return ArtifactUnreadable(
        subject=what,
        fact=fact,
        expectation="It is not read",
        next_step="Look at the run that uploaded it: the artifact may be made to do harm.",
    )
