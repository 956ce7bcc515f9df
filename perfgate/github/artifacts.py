"""Reads what is wanted of an artifact's zip file, in memory: a stranger may have packed it. Nothing
of it is written, and its names lead nowhere. The document in it was written by a pull request's
code."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from typing import Final

from pydantic import ValidationError

from perfgate.github.context import first_fault
from perfgate.model.document import GateDocument
from perfgate.model.errors import ArtifactUnreadable
from perfgate.model.outcome import OnInconclusive, OnNew
from perfgate.model.record import LARGEST_DOCUMENT, MOST_WORKLOADS

DOCUMENT: Final = "perfgate.json"
LARGEST: Final = 4 * LARGEST_DOCUMENT
"""Bytes of a gate's artifact: the page, what that is made of and pytest's file lie in it as well.
"""
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


def read_untrusted(content: bytes, head_sha: str, *, artifact: str) -> GateDocument:
    """Return the document in an artifact's zip file, of this very commit.

    Raises:
        ArtifactUnreadable: it cannot be read, is not what the published schema says, contradicts
        itself, or is of another commit.
    """
    wanted = re.compile(re.escape(DOCUMENT))
    members = unpacked(content, wanted, artifact=artifact, limit_bytes=LARGEST_DOCUMENT)
    if DOCUMENT not in members:
        raise ArtifactUnreadable("artifact-without-document", artifact=artifact, file=DOCUMENT)
    try:
        # Not strict, since readers of older records stand before the fields. Its depth is limited.
        document = GateDocument.model_validate_json(members[DOCUMENT])
    except ValidationError as error:
        raise ArtifactUnreadable(
            "document-malformed", file=DOCUMENT, reason=first_fault(error)
        ) from error
    if _contradicts_itself(document):
        raise ArtifactUnreadable("document-contradicts-itself", file=DOCUMENT)
    sha = None if document.commit is None else document.commit.sha
    if sha != head_sha:
        raise ArtifactUnreadable(
            "document-of-another-commit", file=DOCUMENT, commit=head_sha, found=sha or "none"
        )
    return document


def _contradicts_itself(document: GateDocument) -> bool:
    """Whether it says of a gate, or of a workload, that it is open, and also what keeps it shut."""
    opens = [
        one.opens_gate
        and one.verdict.opens(on_inconclusive=OnInconclusive.WARN, on_new=OnNew.ALLOW)
        for one in document.workloads
    ]
    lies = opens != [one.opens_gate for one in document.workloads]
    is_open = (
        bool(opens)
        and all(opens)
        and all(gate.opens_gate for gate in document.gates)
        and document.exit_status == 0
        and not document.shut_by
    )
    return lies or len(opens) > MOST_WORKLOADS or (document.opens_gate and not is_open)
