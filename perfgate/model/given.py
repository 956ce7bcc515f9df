"""How what users wrote is refused, wherever they wrote it."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import WITH_BUDGET
from perfgate.model.note import note
from perfgate.model.record import Record

_EXPECTED: Final[Mapping[object, str]] = {
    "anchor_budget": "expects-fraction",
    "baselines": "expects-own-folder",
    "budgets": "expects-budgets",
    "capture": "expects-capture",
    "command": "expects-words",
    "step": "expects-pattern",
    "workloads": "expects-folder-within",
}
"""What a key should hold, where pydantic's words do not say it."""


def refused(invalid: ValidationError, record: type[Record], *, place: str) -> ConfigInvalid:
    """Return the first of pydantic's errors as one of ours; `place` ends where its key begins."""
    first = invalid.errors()[0]
    loc = first["loc"]
    key = loc[0] if loc else ""
    where = f"{place}{'.'.join(map(str, loc[:1] if key == 'capture' else loc))}"
    if key in _EXPECTED and first["type"] != "missing":
        return wrong(where, first["input"], _EXPECTED[key])
    if first["type"] == "missing":
        return ConfigInvalid("value-missing", place=where)
    if first["type"] == "extra_forbidden":
        known = sorted(record.model_fields)
        if key in known:  # both names of it are there: the old one is too much
            key = str(record.model_fields[str(key)].validation_alias)
        return ConfigInvalid("key-unknown", place=place.strip(), key=key, known=known)
    value = _short(first["input"])
    return ConfigInvalid("value-refused", place=where, value=value, problem=first["msg"])


def wrong(place: str, value: object, expects: str) -> ConfigInvalid:
    """Return the error of a value that is not what it should be."""
    expected = note(expects, metrics=WITH_BUDGET)
    return ConfigInvalid("value-invalid", place=place, value=_short(value), expected=expected)


def _short(value: object) -> str:
    """Show a refused value: enough to find it, however large or deep it is."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    short.maxlevel = 2
    return short.repr(value)
