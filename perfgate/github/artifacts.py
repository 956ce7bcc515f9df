"""Reads the zip file of an artifact that a stranger may have packed, in memory; writes nothing and
trusts no name.

An artifact with one member that no upload makes (a link, a way out of its folder, the same name
twice) is refused as a whole.
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

LONGEST_NAME: Final = 500
LONGEST_PART: Final = 255
"""Bytes of a file's name that file systems take."""
_ENCRYPTED: Final = 0x1 | 0x40
_PACKED: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""How uploads pack a member."""
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
    content: bytes, wanted: Callable[[str], bool], *, artifact: str, limits: Limits
) -> Mapping[str, bytes]:
    """Return the wanted members by their path: POSIX, relative, without `..`, in order; none is no
    error.

    Args:
        content: the zip file.
        wanted: says of a path whether it is.
        artifact: its name, for the error.
        limits: the most that is taken.

    Raises:
        ArtifactUnreadable: it is too large, no zip file, broken, or has a member that is not safe.
    """
    # Before zipfile makes an object of each. What only looks like an entry counts as one.
    members = content.count(_ENTRY)
    if len(content) > limits.packed_bytes or members > limits.members:
        raise ArtifactUnreadable(
            "artifact-too-large", artifact=artifact, limit_bytes=limits.packed_bytes
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = _files(archive, artifact)
            found = {path: info for path, info in sorted(files.items()) if wanted(path)}
            return dict(_read(archive, found, artifact, limits))
    except _BROKEN as error:
        raise ArtifactUnreadable("artifact-broken", artifact=artifact, reason=str(error)) from error


def _files(archive: zipfile.ZipFile, artifact: str) -> dict[str, zipfile.ZipInfo]:
    """All members that are files, by their path; each was looked at."""
    taken: set[str] = set()
    files: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        path = info.filename.rstrip("/")
        if not _is_safe(info) or _plain(path) in taken:
            raise _unsafe(artifact, info.orig_filename)
        taken.add(_plain(path))
        if not info.is_dir():
            files[path] = info
    plain_files = {_plain(path) for path in files}
    for path in files:
        if any(_plain(str(parent)) in plain_files for parent in PurePosixPath(path).parents):
            raise _unsafe(artifact, path)
    return files


def _is_safe(info: zipfile.ZipInfo) -> bool:
    """Whether a member is one that an upload makes: a file or a folder with a name of this folder."""
    name = info.filename.removesuffix("/")
    parts = name.split("/")
    kind = stat.S_IFMT(info.external_attr >> 16)
    is_name = (
        info.orig_filename == info.filename
        and name.isprintable()
        and not name.startswith("/")
        and not {"\\", ":"} & set(name)
        and not {"", ".", ".."} & set(parts)
    )
    is_short = len(name) <= LONGEST_NAME and all(
        len(part.encode()) <= LONGEST_PART for part in parts
    )
    is_file = kind in {0, stat.S_IFDIR if info.is_dir() else stat.S_IFREG}
    is_plain = not info.flag_bits & _ENCRYPTED and info.compress_type in _PACKED
    return is_name and is_short and is_file and is_plain


def _plain(path: str) -> str:
    """Two paths with the same are one file on some file system."""
    return unicodedata.normalize("NFC", path).casefold()


def _read(
    archive: zipfile.ZipFile,
    files: Mapping[str, zipfile.ZipInfo],
    artifact: str,
    limits: Limits,
) -> Iterator[tuple[str, bytes]]:
    left = limits.total_bytes
    for path, info in files.items():
        most = min(left, limits.member_bytes)
        if info.file_size > most:
            raise ArtifactUnreadable("artifact-too-large", artifact=artifact, limit_bytes=most)
        left -= info.file_size
        with archive.open(info) as stream:
            # No more is unpacked than the directory says: of what was packed longer the checksum
            # fails.
            yield path, stream.read(info.file_size + 1)


def _unsafe(artifact: str, member: str) -> ArtifactUnreadable:
    return ArtifactUnreadable("artifact-unsafe", artifact=artifact, member=member)
