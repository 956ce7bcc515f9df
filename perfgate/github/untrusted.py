"""A gate's document as a run has uploaded it: written by a pull request's code, read as data."""

from __future__ import annotations

import re
from typing import Final

from pydantic import ValidationError

from perfgate.github.artifacts import unpacked
from perfgate.github.context import first_fault
from perfgate.model.document import GateDocument
from perfgate.model.errors import ArtifactUnreadable
from perfgate.model.outcome import OnInconclusive, OnNew
from perfgate.model.record import LARGEST_DOCUMENT, MOST_WORKLOADS

DOCUMENT: Final = "perfgate.json"
LARGEST: Final = 4 * LARGEST_DOCUMENT
"""Bytes of the artifact: the page, what that is made of and pytest's file lie in it as well."""


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
