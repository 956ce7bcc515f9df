"""Reads what is wanted of an artifact's zip file, in memory: a stranger may have packed it. Nothing
of it is written, and its names lead nowhere."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from typing import Final

from perfgate.model.errors import ArtifactUnreadable

MOST_MEMBERS: Final = 10_000
_ENTRY: Final = b"PK\x01\x02"
"""How each entry of a zip file's directory begins."""
_BROKEN: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, OSError, ValueError, OverflowError),
)
"""What zipfile raises of bytes that are no zip file, or not one that it can read."""


def unpacked(
    content: bytes, wanted: re.Pattern[str], *, artifact: str, limit_bytes: int
) -> dict[str, bytes]:
    """Return the wanted members by their names, in order; none is no error.

    Args:
        content: the zip file.
        wanted: what the whole name of a wanted member looks like.
        artifact: its name, for the error.
        limit_bytes: the most that is unpacked of all of them.

    Raises:
        ArtifactUnreadable: it is too large, no zip file, broken, or has a wanted member twice.
    """
    too_large = ArtifactUnreadable("artifact-too-large", artifact=artifact, limit_bytes=limit_bytes)
    if content.count(_ENTRY) > MOST_MEMBERS:  # before zipfile makes an object of each
        raise too_large
    found: dict[str, bytes] = {}
    left = limit_bytes
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for info in archive.infolist():
                name = info.filename
                if wanted.fullmatch(name) is None:
                    continue
                if name in found:
                    raise ArtifactUnreadable("artifact-unsafe", artifact=artifact, member=name)
                if info.file_size > left:
                    raise too_large
                left -= info.file_size
                with archive.open(info) as stream:
                    # No more than the directory says: of what was packed longer the checksum
                    # fails.
                    found[name] = stream.read(info.file_size + 1)
    except _BROKEN as error:
        raise ArtifactUnreadable("artifact-broken", artifact=artifact, reason=str(error)) from error
    return dict(sorted(found.items()))
