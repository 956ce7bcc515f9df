"""A parametrised function's arguments as text, which two measurements must agree on."""

from __future__ import annotations

import enum
import inspect
import numbers
import os.path
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final, NamedTuple

import pytest

from perfgate.model.errors import ConfigInvalid
from perfgate.model.secrets import Cleaner, looks_secret
from perfgate.plugin.handed_on import digest

PLAIN: Final = (str, bytes, bool, int, float, complex)
"""Types whose `repr` says all; that of those derived from them may not."""
NAMED: Final = ("dtype", "device", "memory_format", "layout")
"""Likewise types of torch."""
LONGEST: Final = 2000
"""Characters; of a longer text its digest is kept."""


class Parameters(NamedTuple):
    """A function's arguments."""

    texts: Mapping[str, str]
    """By name, sorted."""
    by_id: tuple[str, ...]
    """Names of those of which only the type and the id are compared."""


def parameters_of(function: pytest.Function, cleaner: Cleaner, *, source: str) -> Parameters:
    """Return a parametrised function's arguments as text: scalars by value, others by their id.

    What looks like a secret is its digest. A path below the project's root is relative to it, and
    of any other its last part is kept: where files lie on this machine is not measured.

    Raises:
        ConfigInvalid: there are no values, or one that is no scalar has no id.
    """
    callspec = getattr(function, "callspec", None)
    if callspec is None:
        return Parameters({}, ())
    texts: dict[str, str] = {}
    by_id: list[str] = []
    for name, value in sorted(callspec.params.items()):
        # pytest skips the one item of a function that is parametrised with nothing.
        is_missing = type(value).__name__ == "NotSetType"
        text = None if is_missing else _scalar(value, function.config.rootpath)
        if text is not None:
            texts[name] = _safe(name, text, function.config.rootpath, cleaner)
            continue
        made_by_pytest = {f"{name}{callspec.indices.get(name)}", getattr(value, "__name__", "")}
        if is_missing or made_by_pytest & {*callspec.id.split("-")}:
            raise ConfigInvalid(
                "parameters-empty" if is_missing else "parameter-without-id",
                source=source,
                workload=function.originalname,
                parameter=name,
                type=type(value).__name__,
            )
        by_id.append(name)
        texts[name] = f"{type(value).__name__} in {callspec.id}"
    return Parameters(texts, tuple(by_id))


def _scalar(value: object, root: Path) -> str | None:
    """Return a value's text, the same in every process; None of what is no scalar."""
    if isinstance(value, enum.Enum):
        inner = _scalar(value.value, root)
        name = f"{type(value).__qualname__}.{value.name}"
        return name if inner is None else f"{name} = {inner}"
    if isinstance(value, PurePath):
        return repr(_placed(value, root))
    if value is None or type(value).__name__ in NAMED:
        return repr(value)
    if isinstance(value, type) or inspect.isroutine(value):
        return None if "<" in value.__qualname__ else value.__qualname__
    if isinstance(value, PLAIN):
        return next(one for one in PLAIN if isinstance(value, one)).__repr__(value)
    return f"{type(value).__name__}({value})" if isinstance(value, numbers.Number) else None


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
    real = Path(os.path.realpath(path))
    return (
        real.relative_to(root.resolve()).as_posix()
        if real.is_relative_to(root.resolve())
        else path.name
    )
