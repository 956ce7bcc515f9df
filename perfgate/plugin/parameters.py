"""A parametrised function's arguments as text, which two measurements must agree on."""

from __future__ import annotations

import datetime
import enum
import inspect
import numbers
import os.path
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final

import pytest

from perfgate.model.errors import ConfigInvalid
from perfgate.model.secrets import Cleaner, looks_secret
from perfgate.plugin.handed_on import digest

PLAIN: Final = (str, bytes, bool, int, float, complex)
EXACT: Final = (
    *(*PLAIN, type(None), range, uuid.UUID),
    *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta),
)
"""Types, not those derived from them, whose `repr` says all."""
NAMED: Final = ("dtype", "device", "memory_format", "layout")
"""Types of torch whose `repr` says all."""
LONGEST: Final = 2000
"""Characters; of a longer text its digest is kept."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """A function's arguments."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """By name, sorted."""
    by_id: tuple[str, ...] = ()
    """Names of those of which only the type and the id are compared."""


def parameters_of(
    function: pytest.Function, cleaner: Cleaner | None = None, *, source: str = ""
) -> Parameters:
    """Return a parametrised function's arguments as text: scalars by value, others by their id.

    What looks like a secret is its digest. A path below the project's root is relative to it, and
    of any other its last part is kept: where files lie on this machine is not measured.

    Raises:
        ConfigInvalid: a value that is no scalar has no id.
    """
    callspec = getattr(function, "callspec", None)
    if callspec is None:
        return Parameters()
    texts: dict[str, str] = {}
    by_id: list[str] = []
    for name, value in callspec.params.items():
        text = _scalar(value, function.config.rootpath)
        if text is not None:
            texts[name] = _safe(name, text, function.config.rootpath, cleaner or Cleaner())
            continue
        made_by_pytest = {f"{name}{callspec.indices.get(name)}", getattr(value, "__name__", "")}
        if made_by_pytest & {*callspec.id.split("-")}:
            raise ConfigInvalid(
                "parameter-without-id",
                source=source,
                workload=function.originalname,
                parameter=name,
                type=type(value).__name__,
            )
        by_id.append(name)
        texts[name] = f"{type(value).__name__} in {callspec.id}"
    return Parameters(texts=dict(sorted(texts.items())), by_id=tuple(sorted(by_id)))


def _scalar(value: object, root: Path) -> str | None:
    """Return a value's text, the same in every process; None of what is no scalar."""
    match value:
        case enum.Enum():
            inner = _scalar(value.value, root)
            name = f"{type(value).__qualname__}.{value.name}"
            return name if inner is None else f"{name} = {inner}"
        case _ if type(value) in EXACT or type(value).__name__ in NAMED:
            text = repr(value)
            return None if " at 0x" in text else text
        case PurePath():
            return repr(_placed(value, root))
        case _ if isinstance(value, PLAIN):
            return next(one for one in PLAIN if isinstance(value, one)).__repr__(value)
        case numbers.Number():
            return f"{type(value).__name__}({value})"
        case _ if inspect.isfunction(value) or inspect.isbuiltin(value) or isinstance(value, type):
            name = value.__qualname__
            return None if "<" in name else name
        case _:
            return None


def _safe(name: str, text: str, root: Path, cleaner: Cleaner) -> str:
    """Return a text as it may be shown and kept."""
    for folder in {str(root), str(root.resolve())} - {os.path.sep}:
        text = text.replace(f"{folder}{os.path.sep}", "")
    if looks_secret(name, text[:LONGEST].strip("'\"")):
        return digest(text)
    text = cleaner.clean(text)
    return text if len(text) <= LONGEST else digest(text)


def _placed(path: PurePath, root: Path) -> str:
    """Return a path relative to the project, or the last part of one that lies elsewhere."""
    if not path.is_absolute():
        return path.as_posix()
    plain, real = Path(os.path.normpath(path)), Path(os.path.realpath(path))
    for one, folder in ((plain, root), (plain, root.resolve()), (real, root.resolve())):
        if one.is_relative_to(folder):
            return one.relative_to(folder).as_posix()
    return path.name
