"""A parametrised function's arguments as text, which is what two measurements must agree on. Judges nothing."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import hashlib
import inspect
import numbers
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Final

import pytest
from pydantic import BaseModel

from perfgate.nsys.environment import looks_secret

SIMPLE: Final = (
    *(str, bytes, int, float, complex, type(None), range, slice, re.Pattern),
    *(datetime.date, datetime.time, datetime.timedelta),
)
"""Types whose text says all, and the same in every process."""
TOLD_BY_NAME: Final = ("dtype", "device")
"""Types of torch whose text says all; pytest numbers their values, so that an id does not tell them apart."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What is told of a function's arguments."""

    told: Mapping[str, str] = field(default_factory=dict)
    """Text by name, sorted: `batch`; of an object with fields its type as `cfg`, and each of them as `cfg.batch`."""
    untold: tuple[str, ...] = ()
    """Names of those of which nothing is told but their type, and the id of the parameter set."""


def parameters_of(function: pytest.Function) -> Parameters:
    """Tell a parametrised function's arguments: what looks like a secret by its digest, a path without where it lies.

    A path below the project's root is relative to it, and of any other its last part is told: where files lie on this
    machine is no part of what is measured.
    """
    callspec = getattr(function, "callspec", None)
    if callspec is None:
        return Parameters()
    root: Path = function.config.rootpath
    told: dict[str, str] = {}
    untold: list[str] = []
    for name, value in _flat(callspec.params.items()):
        text = _text(value, root)
        if text is None:
            untold.append(name)
            text = f"{type(value).__name__} in {callspec.id}"
        elif looks_secret(name.rpartition(".")[2], text.strip("'\"")):
            text = f"sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()[:12]}"
        told[name] = text
    return Parameters(told=dict(sorted(told.items())), untold=tuple(sorted(untold)))


@dataclass(frozen=True)
class _Kind:
    """Stands for an object with fields, which follow."""

    name: str


def _flat(values: Iterable[tuple[str, object]], around: tuple[object, ...] = ()) -> Iterable[tuple[str, object]]:
    """Names and values, of an object with fields its kind, and then `name.field` of each."""
    for name, value in values:
        fields = None if any(value is outer for outer in around) else _fields(value)
        if fields is None:
            yield name, value
            continue
        yield name, _Kind(type(value).__qualname__)
        yield from _flat(((f"{name}.{part}", held) for part, held in fields.items()), (*around, value))


def _fields(value: object) -> Mapping[str, object] | None:
    """What a dataclass, an object of pydantic or attrs, a named tuple or a namespace holds; None of anything else."""
    match value:
        case type():
            return None
        case SimpleNamespace():
            return vars(value)
        case BaseModel():
            return dict(value)
        case tuple():
            names: Iterable[str] = getattr(value, "_fields", ())
        case _ if dataclasses.is_dataclass(value):
            names = [one.name for one in dataclasses.fields(value)]
        case _:
            names = [one.name for one in getattr(type(value), "__attrs_attrs__", ())]
    return {name: getattr(value, name, None) for name in names} or None


def _text(value: object, root: Path, around: tuple[object, ...] = ()) -> str | None:
    """All of a value as text that is the same in every process; None where there is none."""
    if any(value is outer for outer in around):
        return None

    def each(values: Iterable[object]) -> list[str] | None:
        parts = [_text(part, root, (*around, value)) for part in values]
        told = [part for part in parts if part is not None]
        return told if len(told) == len(parts) else None

    def joined(start: str, values: Iterable[object], end: str) -> str | None:
        told = each(values)
        return None if told is None else f"{start}{', '.join(told)}{end}"

    match value:
        case _Kind():
            return value.name
        case enum.Enum():
            name = f"{type(value).__qualname__}.{value.name}"
            return joined(f"{name} = ", [value.value], "") or name
        case _ if isinstance(value, SIMPLE) or type(value).__name__ in TOLD_BY_NAME:
            return repr(value)
        case numbers.Number():
            return f"{type(value).__name__}({value})"
        case PurePath():
            inside = value.relative_to(root) if value.is_relative_to(root) else value
            return repr(inside.name if inside.is_absolute() else inside.as_posix())
        case functools.partial():
            return joined("partial(", [value.func, *value.args, value.keywords], ")")
        case tuple():
            return joined("(", value, ",)" if len(value) == 1 else ")")
        case list():
            return joined("[", value, "]")
        case set() | frozenset():
            told = each(value)
            return None if told is None else f"{type(value).__name__}({', '.join(sorted(told))})"
        case Mapping():
            keys, held = each(value), each(value.values())
            if keys is None or held is None:
                return None
            return f"{{{', '.join(f'{key}: {told}' for key, told in zip(keys, held, strict=True))}}}"
        case _ if inspect.isroutine(value) or isinstance(value, type):
            name, bound = getattr(value, "__qualname__", ""), getattr(value, "__self__", None)
            is_known = "<lambda>" not in name and (bound is None or inspect.ismodule(bound) or isinstance(bound, type))
            return name if name and is_known else None
        case _:
            fields = _fields(value)
            return None if fields is None else joined(f"{type(value).__qualname__}(", [dict(fields)], ")")
