"""A parametrised function's arguments as text, which is what two measurements must agree on. Judges nothing."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import enum
import functools
import inspect
import itertools
import numbers
import os.path
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pydantic import BaseModel

from perfgate.model.secrets import Cleaner, looks_secret
from perfgate.plugin.handed_on import digest

PLAIN: Final = (str, bytes, bool, int, float, complex)
CONTAINERS: Final = (dict, list, tuple, set, frozenset)
EXACT: Final = (
    *(*PLAIN, type(None), type(...), range, uuid.UUID),
    *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta),
)
"""Types, not those derived from them, whose text says all."""
TOLD_BY_NAME: Final = ("dtype", "device", "memory_format", "layout")
"""Types of torch whose text says all; pytest numbers their values, so that an id does not tell them apart."""
MOST_PARTS: Final = 1000
"""Fields of one argument, with those of its fields."""
MOST_VALUES: Final = 100_000
"""Values in one argument, however deep: objects that hold one another have a text without end."""
LONGEST: Final = 2000
"""Characters; of a longer text its digest is told."""
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+\b")
"""In the text of an object that nobody gave one: another in each process."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What is told of a function's arguments."""

    told: Mapping[str, str] = field(default_factory=dict)
    """Text by name, sorted: `batch`; of an object with fields its type as `cfg`, and each of them as `cfg.batch`."""
    untold: tuple[str, ...] = ()
    """Names of those of which nothing is told but their type, and the id of the parameter set."""


def parameters_of(function: pytest.Function, cleaner: Cleaner | None = None) -> Parameters:
    """Tell a parametrised function's arguments: what looks like a secret by its digest, others that `cleaner` knows by
    their names, a path without where it lies.

    A path below the project's root is relative to it, and of any other its last part is told: where files lie on this
    machine is no part of what is measured. Fields that take no part in their class's comparison (`compare=False`, of
    attrs `eq=False`) are left out.
    """
    callspec = getattr(function, "callspec", None)
    if callspec is None:
        return Parameters()
    told: dict[str, str] = {}
    untold: list[str] = []
    for name, value in callspec.params.items():
        teller = _Teller(root=function.config.rootpath, cleaner=cleaner or Cleaner())
        try:
            parts = list(itertools.islice(teller.parts(name, value), MOST_PARTS + 1))
        except Exception:  # noqa: BLE001 - whatever a user's object raises, or is too deep or too much
            parts = []
        if not 0 < len(parts) <= MOST_PARTS:
            parts = [(name, type(value), None)]
        for part, kind, text in parts:
            if text is None:
                untold.append(part)
            told[part] = f"{kind.__name__} in {callspec.id}" if text is None else text
    return Parameters(told=dict(sorted(told.items())), untold=tuple(sorted(untold)))


class _TooMuch(Exception):
    """An argument holds more values than are told."""


@dataclass(kw_only=True)
class _Teller:
    """Tells one argument."""

    root: Path
    cleaner: Cleaner
    values: int = 0

    def parts(
        self, name: str, value: object, around: tuple[object, ...] = ()
    ) -> Iterator[tuple[str, type, str | None]]:
        """Name, type and text of an argument; of an object with fields its type as text, and then `name.field`."""
        fields = None if _is_among(value, around) else _fields(value)
        if fields is None:
            yield name, type(value), self._safe(name.rpartition(".")[2], self._text(value))
            return
        yield name, type(value), type(value).__qualname__
        for part, held in fields.items():
            yield from self.parts(f"{name}.{part}", held, (*around, value))

    def _safe(self, name: str, text: str | None) -> str | None:
        """A text as it may be shown and kept."""
        if text is None or _ADDRESS.search(text):
            return None
        for root in {str(self.root), str(self.root.resolve())} - {os.path.sep}:
            text = text.replace(f"{root}{os.path.sep}", "")
        is_secret = looks_secret(name, text[:LONGEST].strip("'\""))
        text = text if is_secret else self.cleaner.clean(text)
        if not is_secret and len(text) <= LONGEST:
            return text
        return digest(text)

    def _text(self, value: object, around: tuple[object, ...] = ()) -> str | None:
        """All of a value as text that is the same in every process; None where there is none."""
        self.values += 1
        if self.values > MOST_VALUES:
            raise _TooMuch
        if _is_among(value, around):
            return None

        def each(values: Iterable[object]) -> list[str] | None:
            parts = [self._text(part, (*around, value)) for part in values]
            told = [part for part in parts if part is not None]
            return told if len(told) == len(parts) else None

        def joined(start: str, values: Iterable[object], end: str) -> str | None:
            told = each(values)
            return None if told is None else f"{start}{', '.join(told)}{end}"

        def items(values: Mapping[Any, object]) -> str | None:
            keys, held = each(values), each(values.values())
            if keys is None or held is None:
                return None
            told = {
                key: self._safe(key.strip("'\""), text)
                for key, text in zip(keys, held, strict=True)
            }
            if None in told.values():
                return None
            return f"{{{', '.join(f'{key}: {text}' for key, text in sorted(told.items()))}}}"

        match value:
            case enum.Enum():
                name = f"{type(value).__qualname__}.{value.name}"
                return joined(f"{name} = ", [value.value], "") or name
            case _ if type(value) in EXACT or type(value).__name__ in TOLD_BY_NAME:
                return repr(value)
            case slice():
                return joined("slice(", [value.start, value.stop, value.step], ")")
            case re.Pattern():
                return joined("re.compile(", [value.pattern, value.flags], ")")
            case PurePath():
                return repr(self._placed(value))
            case _:
                pass
        fields = _fields(value)
        if fields is not None:
            told = items(fields)
            return None if told is None else f"{type(value).__qualname__}({told})"
        match value:
            case _ if _holds_more(value):
                return None
            case _ if isinstance(value, PLAIN):
                base = next(one for one in PLAIN if isinstance(value, one))
                return base.__repr__(value)
            case numbers.Number():
                return f"{type(value).__name__}({value})"
            case functools.partial():
                return joined("partial(", [value.func, *value.args, value.keywords], ")")
            case tuple():
                return joined("(", value, ",)" if len(value) == 1 else ")")
            case list():
                return joined("[", value, "]")
            case set() | frozenset():
                members = each(value)
                return (
                    None
                    if members is None
                    else f"{type(value).__name__}({', '.join(sorted(members))})"
                )
            case Mapping():
                return items(value)
            case _ if inspect.isroutine(value) or isinstance(value, type):
                name, bound = getattr(value, "__qualname__", ""), getattr(value, "__self__", None)
                is_free = bound is None or inspect.ismodule(bound) or isinstance(bound, type)
                is_known = (
                    is_free and "<lambda>" not in name and not getattr(value, "__closure__", None)
                )
                return name if name and is_known else None
            case _:
                return None

    def _placed(self, path: PurePath) -> str:
        """A path without where the project lies, or the last part of one that is elsewhere."""
        if not path.is_absolute():
            return path.as_posix()
        plain, real = Path(os.path.normpath(path)), Path(os.path.realpath(path))
        for one, root in (
            (plain, self.root),
            (plain, self.root.resolve()),
            (real, self.root.resolve()),
        ):
            if one.is_relative_to(root):
                return one.relative_to(root).as_posix()
        return path.name


def _is_among(value: object, others: tuple[object, ...]) -> bool:
    return any(value is one for one in others)


def _holds_more(value: object) -> bool:
    """Whether a number, text or container has fields of its own beside what it holds."""
    return dataclasses.is_dataclass(value) and isinstance(value, (*PLAIN, *CONTAINERS))


def _fields(value: object) -> Mapping[str, object] | None:
    """What a dataclass, an object of pydantic or attrs, a named tuple or a namespace holds; None of anything else."""
    match value:
        case type():
            return None
        case SimpleNamespace() | argparse.Namespace():
            return dict(sorted(vars(value).items()))
        case BaseModel():
            names: list[str] = [*type(value).model_fields, *(value.model_extra or ())]
        case tuple():
            names = list(getattr(value, "_fields", ()))
        case _ if isinstance(value, (*PLAIN, *CONTAINERS)):
            return None
        case _ if dataclasses.is_dataclass(value):
            names = [one.name for one in dataclasses.fields(value) if one.compare]
            return {name: getattr(value, name) for name in names}
        case _:
            names = [one.name for one in getattr(type(value), "__attrs_attrs__", ()) if one.eq]
    return {name: getattr(value, name) for name in names} or None
