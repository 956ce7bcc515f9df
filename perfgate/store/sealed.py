"""What lies in a file: JSON, read strictly, and a baseline, tidy, sorted, sealed, and opened only
whole and unchanged; where it lies it does not know."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from perfgate.model.baseline import BASELINE_FORMAT, Baseline
from perfgate.model.errors import BaselineUnreadable
from perfgate.model.metric import COUNTS
from perfgate.model.note import Note

SEAL: Final = "seal"
"""The key of the file, not of the record, that holds the SHA-256 of everything else in it."""
DIGITS: Final = 6
"""Significant digits of a time: a millionth of it, where the finest SD that is ever assumed is 0.05
%."""
LONGEST_KEY: Final = 200
"""Characters that are shown of a key."""
_CONFLICT = re.compile(rb"^(?:<<<<<<<|>>>>>>>)(?: |$)", re.MULTILINE)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def seal_of(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of a baseline's content (its file's JSON without the seal): blind to
    layout and key order.

    A guard against accidents and well-meant edits. It is no signature: who can write the file can
    seal it.
    """
    canonical = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def baseline_content(baseline: Baseline) -> dict[str, object]:
    """Return what a baseline's file holds, without the seal.

    Times are rounded to 6 significant digits; counts are not, since they are compared exactly and
    one byte in 38 million is a change. Whole numbers are written without a fraction.
    """
    content = _tidied(baseline.model_dump(mode="json"), exact=False)
    assert isinstance(content, dict)
    return content


def _tidied(value: object, *, exact: bool) -> object:
    match value:
        case dict():
            return {
                key: _tidied(item, exact=key in (*COUNTS, "bytes")) for key, item in value.items()
            }
        case list():
            return [_tidied(item, exact=exact) for item in value]
        case float():
            rounded = value if exact else float(f"{value:.{DIGITS}g}")
            return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
        case _:
            return value


def baseline_text(baseline: Baseline) -> str:
    """Return a baseline's file: sealed JSON with sorted keys, two spaces of indent and a final
    newline."""
    content = baseline_content(baseline)
    return (
        json.dumps(content | {SEAL: seal_of(content)}, sort_keys=True, indent=2, allow_nan=False)
        + "\n"
    )


def same_seal(one: Baseline | None, other: Baseline | None) -> bool:
    """Whether two baselines, or their absence, would be one file."""
    if one is None or other is None:
        return one is other
    return seal_of(baseline_content(one)) == seal_of(baseline_content(other))


def opened(raw: bytes, *, path: str, workload: str | None) -> Baseline:
    """Return the baseline in a file's bytes.

    `path` and `workload` are what messages call the file and its workload, None where that is not
    known.

    Raises:
        BaselineUnreadable: it is not a whole, unchanged baseline.
    """
    named = {"path": path, "workload": workload or "WORKLOAD"}
    if raw.startswith(_LFS_POINTER):
        raise BaselineUnreadable("baseline-lfs-pointer", **named)
    if _CONFLICT.search(raw):
        raise BaselineUnreadable("baseline-conflict", **named)
    try:
        content = parsed(raw)
    except NotJson as error:
        raise BaselineUnreadable("baseline-broken", **named, why=error.why) from error
    number = content.get("format")
    if not isinstance(number, int) or not 1 <= number <= BASELINE_FORMAT:
        raise BaselineUnreadable(
            "baseline-other-format", **named, number=str(number), newest=BASELINE_FORMAT
        )
    seal = content.pop(SEAL, None)
    try:
        baseline = Baseline.model_validate(content)
    except ValidationError as error:
        why = first_complaint(error)
        raise BaselineUnreadable("baseline-does-not-fit", **named, why=why) from error
    if seal != seal_of(content):
        raise BaselineUnreadable("baseline-edited", **named)
    return baseline


class NotJson(Exception):
    """What is not a JSON object as records have it; `why` says how."""

    def __init__(self, code: str, /, **fields: str) -> None:
        super().__init__(code)
        self.why = Note(code=code, fields=fields)


def parsed(raw: bytes) -> dict[str, object]:
    """Return a JSON object, strictly; a byte-order mark and any line ends are no harm.

    Raises:
        NotJson: it is empty, not UTF-8, not JSON, nested beyond reason, no object, or it holds one
            key twice.
    """
    if not raw.strip():
        raise NotJson("json-empty")
    try:
        content: object = json.loads(
            raw.decode("utf-8-sig"),
            object_pairs_hook=_without_twins,
        )
    except RecursionError as deep:
        raise NotJson("json-nested-too-deeply") from deep
    except ValueError as broken:
        raise NotJson("json-unreadable", problem=str(broken)) from broken
    if not isinstance(content, dict):
        raise NotJson("json-no-object")
    return content


def _without_twins(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object of its pairs: an `object_pairs_hook` of `json.loads`.

    Raises:
        NotJson: one key is there twice: which of the two values holds, each reader would decide for
            itself.
    """
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise NotJson("json-key-twice", key=repr(key[:LONGEST_KEY]))
        found[key] = value
    return found


def first_complaint(error: ValidationError) -> str:
    """The first thing that is wrong with a record, and where."""
    first = error.errors()[0]
    return f"{_place(first['loc'])}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _place(location: tuple[int | str, ...]) -> str:
    """Return where in a file something is, as `occasions[0].runs[2].values`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "the whole"
