"""Plurals and lists, written alike everywhere: `1 run`, `3 runs`, `a, b and c`."""

from __future__ import annotations

from collections.abc import Iterable


def plural(number: float, one: str, many: str | None = None) -> str:
    """Write `1 run`, `3 runs`; with a form of its own for many, `2 copies`."""
    return f"{number} {inflected(number, one, many)}"


def inflected(number: float, one: str, many: str | None = None) -> str:
    """Return the word that agrees with a number: `run` or `runs`, `was` or `were`."""
    if number == 1:
        return one
    return f"{one}s" if many is None else many


def listed(names: Iterable[str]) -> str:
    """Write `a`, `a and b`, `a, b and c`."""
    items = list(names)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
