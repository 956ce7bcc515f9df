"""The JSON text of a gate's document, within what its readers take, and its schema; writes no
file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from perfgate.model.document import GateDocument
from perfgate.model.errors import StoreFailed
from perfgate.model.record import (
    LARGEST_DOCUMENT,
    LONGEST_TEXT,
    MOST_ENTRIES,
    MOST_WORKLOADS,
)
from perfgate.words.escape import escape_json

TEXT_OF_ALL: Final = 5_000_000
"""Characters that the longest texts of all workloads may have together."""


def document_text(document: GateDocument) -> str:
    """Return the document as JSON, in the order of its fields, ending in a newline; within what a
    reader takes.

    Of long texts the middle is left out, of long lists the end.

    Raises:
        StoreFailed: there are more workloads than a document holds, or it is too large.
    """
    count = len(document.workloads)
    if count > MOST_WORKLOADS:
        raise StoreFailed("document-of-too-many", workloads=count, most=MOST_WORKLOADS)
    longest = min(LONGEST_TEXT, TEXT_OF_ALL // max(count, 1))
    content = _cut(document.model_dump(mode="json"), longest)
    text = escape_json(json.dumps(content, indent=2, ensure_ascii=False)) + "\n"
    if len(text.encode()) > LARGEST_DOCUMENT:
        raise StoreFailed("document-too-large", largest=LARGEST_DOCUMENT)
    return text


_CUT: Final = " [...] "


def _cut(held: object, longest: int) -> object:
    match held:
        case str():
            half = (longest - len(_CUT)) // 2
            return held if len(held) <= longest else f"{held[:half]}{_CUT}{held[-half:]}"
        case list():
            return [_cut(one, longest) for one in held[:MOST_ENTRIES]]
        case dict():
            return {
                _cut(key, longest): _cut(one, longest)
                for key, one in list(held.items())[:MOST_ENTRIES]
            }
        case _:
            return held


def read_document(text: str) -> GateDocument:
    """Return the gate's document in a JSON text.

    Raises:
        pydantic.ValidationError: the text is not one of this format.
    """
    return GateDocument.model_validate_json(text)


SCHEMA_FILE: Final = Path(__file__).with_name("gate.schema.json")
"""The published schema, as text, so that a change of it is seen in a diff."""
