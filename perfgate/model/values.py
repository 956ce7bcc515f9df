"""Refuses values that users wrote in settings, options and workload files, alike in each."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import METRICS, NO_LONGER_GATED, Budget, Metric
from perfgate.model.note import Note, note
from perfgate.model.record import Record

Validated = TypeVar("Validated", bound=Record)

WITH_BUDGET: Final = tuple(metric for metric, spec in METRICS.items() if spec.gated)
_FRACTION: Final = TypeAdapter[float](Budget)
_EXPECTED: Final[Mapping[str, tuple[str, str | None]]] = {
    "int": ("expects-integer", None),
    "float": ("expects-number", None),
    "finite_number": ("expects-finite", None),
    "bool": ("expects-boolean", None),
    "string_type": ("expects-text", None),
    "tuple": ("expects-list", None),
    "list": ("expects-list", None),
    "dict": ("expects-mapping", None),
    "mapping": ("expects-mapping", None),
    "model": ("expects-mapping", None),
    "greater_than_equal": ("expects-at-least", "ge"),
    "greater_than": ("expects-more", "gt"),
    "less_than_equal": ("expects-at-most", "le"),
    "less_than": ("expects-less", "lt"),
    "too_short": ("expects-some", None),
    "string_too_short": ("expects-some", None),
    "value_error": ("expects-fraction", None),
}
"""By how the type of pydantic's error begins: the code, and which of its facts is the limit."""


def wrong(place: str, value: object, expects: str, **fields: str | float) -> ConfigInvalid:
    """Return the error of a value that is not what it should be."""
    expected = Note(code=expects, fields=fields)
    return ConfigInvalid("value-invalid", place=place, value=_short(value), expected=expected)


def validated(record: type[Validated], given: Mapping[str, object], *, place: str) -> Validated:
    """Return the record of what was given.

    Raises:
        ConfigInvalid: one value is not accepted.
    """
    try:
        return record.model_validate(given)
    except ValidationError as invalid:
        raise first_of(invalid, place=place) from None


def first_of(invalid: ValidationError, *, place: str) -> ConfigInvalid:
    """Return the first of pydantic's errors as one of ours; `place` ends where its key begins."""
    first = invalid.errors()[0]
    where = f"{place}{'.'.join(map(str, first['loc']))}"
    if first["type"] == "missing":
        return ConfigInvalid("value-missing", place=where)
    return ConfigInvalid(
        "value-invalid",
        place=where,
        value=_short(first["input"]),
        expected=_expected(first["type"], first.get("ctx", {})),
    )


def _expected(kind: str, facts: Mapping[str, object]) -> Note:
    if "expected" in facts:
        return note("expects-one-of", choices=str(facts["expected"]))
    code, limit = next(
        found
        for start, found in (*_EXPECTED.items(), ("", ("expects-text", None)))
        if kind.startswith(start)
    )
    return note(code) if limit is None else note(code, limit=float(str(facts[limit])))


def check_keys(given: Mapping[str, object], *, known: Collection[str], place: str) -> None:
    """Refuse keys that nobody reads.

    Raises:
        ConfigInvalid: names the first unknown key, and the one that was perhaps meant.
    """
    for key in given:
        if key not in known:
            nearest = difflib.get_close_matches(str(key), known, n=1)
            fields = {"place": place, "key": key, "known": sorted(known)}
            if nearest:
                raise ConfigInvalid("key-misspelt", nearest=nearest[0], **fields)
            raise ConfigInvalid("key-unknown", **fields)


def check_budgets(budgets: object, *, place: str) -> None:
    """Refuse budgets of what has none, and budgets that are no fractions.

    What is no mapping at all, or no number, is left to the record.

    Raises:
        ConfigInvalid: names the metric.
    """
    if not isinstance(budgets, Mapping):
        return
    check_keys({name: 0 for name in budgets if name not in METRICS}, known=WITH_BUDGET, place=place)
    for metric, budget in budgets.items():
        if metric not in (*WITH_BUDGET, *NO_LONGER_GATED):
            raise ConfigInvalid(
                "metric-without-budget", place=place, metric=str(metric), known=WITH_BUDGET
            )
        if isinstance(budget, float | int) and not 0 < budget < 1:
            raise wrong(f"{place} {metric}", budget, "expects-fraction")


def checked_budgets(budgets: Mapping[str, float], *, place: str) -> dict[Metric, float]:
    """Return budgets by metric.

    Raises:
        ConfigInvalid: one is of no metric, or no fraction.
    """
    check_budgets(budgets, place=place)
    return {Metric(metric): budget for metric, budget in budgets.items()}


def fraction_of(text: str, *, place: str, whole: str) -> float:
    """Return a budget that was given as text.

    Raises:
        ConfigInvalid: it is none; `whole` is shown.
    """
    try:
        return _FRACTION.validate_python(text.strip())
    except ValueError:
        raise wrong(place, whole, "expects-budget") from None


def _short(value: object) -> str:
    """Show a refused value: enough to find it, however large or deep it is."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    short.maxlevel = 2
    return short.repr(value)
