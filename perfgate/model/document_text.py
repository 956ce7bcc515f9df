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


def document_text(document: GateDocument, *, largest: int = LARGEST_DOCUMENT) -> str:
    """Return the document as JSON, in the order of its fields, ending in a newline; within what a
    reader takes.

    Of long texts the middle is left out, of long lists the end, and of many runs all but the first
    of each workload.

    Raises:
        StoreFailed: there are more workloads than a document holds.
    """
    if len(document.workloads) > MOST_WORKLOADS:
        raise StoreFailed(
            "document-of-too-many", workloads=len(document.workloads), most=MOST_WORKLOADS
        )
    for runs, longest in SMALLER:
        kept = document if runs is None else _with_runs(document, runs)
        content = _cut(kept.model_dump(mode="json"), longest)
        text = escape_json(json.dumps(content, indent=2, ensure_ascii=False)) + "\n"
        if len(text.encode()) <= largest:
            return text
    raise StoreFailed("document-too-large", largest=largest)


SMALLER: Final = (
    *((runs, LONGEST_TEXT) for runs in (None, 10, 3, 1)),
    (1, LONGEST_TEXT // 8),
)
"""Runs of each workload and characters of a text, one after the other, until a document is small
enough."""


_CUT: Final = " [...] "


def _with_runs(document: GateDocument, most: int) -> GateDocument:
    names = ("runs", "reference_runs", "interleaved_runs")
    fewer = (
        one.model_copy(update={name: getattr(one, name)[:most] for name in names})
        for one in document.workloads
    )
    return document.model_copy(update={"workloads": tuple(fewer)})


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
