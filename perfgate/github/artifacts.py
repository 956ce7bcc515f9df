"""Reads what is wanted of an artifact's zip file, in memory: a stranger may have packed it. Nothing
of it is written, and its names lead nowhere. The document in it was written by a pull request's
code."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Final

from pydantic import ValidationError

from perfgate.model.document import GateDocument
from perfgate.model.errors import ArtifactUnreadable
from perfgate.model.record import LARGEST_DOCUMENT
from perfgate.store.sealed import first_complaint

DOCUMENT: Final = "perfgate.json"
LARGEST: Final = 4 * LARGEST_DOCUMENT
"""Bytes of an artifact: of a gate, the page, what that is made of and pytest's file lie in it as
well; of kept results there may be several."""
_BROKEN: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, OSError, ValueError, OverflowError),
)
"""What zipfile raises of bytes that are no zip file, or not one that it can read."""


def unpacked(
    content: bytes, wanted: str, *, artifact: str, limit_bytes: int = LARGEST
) -> dict[str, bytes]:
    """Return the files of a name by their paths, in whichever folders they lie; none is no error.

    Args:
        content: the zip file.
        wanted: the name of the files, without folders.
        artifact: its name, for the error.
        limit_bytes: the most that is unpacked of all of them.

    Raises:
        ArtifactUnreadable: it is too large, no zip file, or broken.
    """
    found: dict[str, bytes] = {}
    left = limit_bytes
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for info in archive.infolist():
                if info.filename.rpartition("/")[2] != wanted:
                    continue
                left -= info.file_size
                if left < 0:
                    raise ArtifactUnreadable(
                        "artifact-too-large", artifact=artifact, limit_bytes=limit_bytes
                    )
                with archive.open(info) as stream:
                    # No more than the directory says: of what was packed longer the checksum
                    # fails.
                    found[info.filename] = stream.read(info.file_size + 1)
    except _BROKEN as error:
        raise ArtifactUnreadable("artifact-broken", artifact=artifact, reason=str(error)) from error
    return found


def read_untrusted(content: bytes, head_sha: str, *, artifact: str) -> GateDocument:
    """Return the document in an artifact's zip file, of this very commit.

    Raises:
        ArtifactUnreadable: it cannot be read, is not what the published schema says, or is of
        another commit.
    """
    members = unpacked(content, DOCUMENT, artifact=artifact, limit_bytes=LARGEST_DOCUMENT)
    try:
        # Not strict, since readers of older records stand before the fields. Its depth is limited.
        document = GateDocument.model_validate_json(members.get(DOCUMENT, b""))
    except ValidationError as error:
        raise ArtifactUnreadable(
            "document-malformed", file=DOCUMENT, reason=first_complaint(error)
        ) from error
    sha = None if document.commit is None else document.commit.sha
    if sha != head_sha:
        raise ArtifactUnreadable(
            "document-of-another-commit", file=DOCUMENT, commit=head_sha, found=sha or "none"
        )
    return document
