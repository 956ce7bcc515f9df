"""Reads what is wanted of a run's artifacts, in memory: a stranger may have packed them. Nothing of
them is written, and their names lead nowhere. The document in one was written by a pull request's
code."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Final

import requests
from github.Artifact import Artifact
from github.WorkflowRun import WorkflowRun
from pydantic import ValidationError

from perfgate.github.api import TIMEOUT_S
from perfgate.model.document import GateDocument
from perfgate.model.errors import ArtifactUnreadable, GitHubUnreachable
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


def newest_of(run: WorkflowRun) -> dict[str, Artifact]:
    """What a run has left that is there still, by name; the newest of each."""
    kept = (one for one in run.get_artifacts() if not one.expired)
    return {one.name: one for one in sorted(kept, key=lambda one: one.id)}


def download(artifact: Artifact, *, limit_bytes: int = LARGEST) -> bytes:
    """Return an artifact's zip file; the token is not shown at the address where it lies.

    Raises:
        ArtifactUnreadable: it is larger than the limit.
        GitHubUnreachable: it does not come.
    """
    if artifact.size_in_bytes > limit_bytes:
        raise _too_large(artifact.name, limit_bytes)
    headers, _ = artifact.requester.requestJsonAndCheck("GET", artifact.archive_download_url)
    try:
        answer = requests.get(headers.get("location", ""), timeout=TIMEOUT_S)
        answer.raise_for_status()
    except requests.RequestException as failed:
        # The address holds a signature: it goes into no message.
        raise GitHubUnreachable(
            "artifact-not-downloaded", artifact=artifact.name, reason=type(failed).__name__
        ) from None
    return answer.content


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
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = [one for one in archive.infolist() if one.filename.rpartition("/")[2] == wanted]
            if sum(one.file_size for one in files) > limit_bytes:
                raise _too_large(artifact, limit_bytes)
            # No more than the directory says: of what was packed longer the checksum fails.
            return {one.filename: archive.open(one).read(one.file_size + 1) for one in files}
    except _BROKEN as error:
        raise ArtifactUnreadable("artifact-broken", artifact=artifact, reason=str(error)) from error


def _too_large(artifact: str, limit_bytes: int) -> ArtifactUnreadable:
    return ArtifactUnreadable("artifact-too-large", artifact=artifact, limit_bytes=limit_bytes)


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
