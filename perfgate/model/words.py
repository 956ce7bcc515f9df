"""How a number of things, and a list of names, are worded alike everywhere: `1 run`, `3 runs`, `a, b and c`."""

from __future__ import annotations

from collections.abc import Iterable


def plural(number: int, one: str, many: str | None = None) -> str:
    """Write `1 run`, `3 runs`; with a form of its own for many, `2 copies`, `2 rows that end`."""
    return f"{number} {inflected(number, one, many)}"


def inflected(number: float, one: str, many: str | None = None) -> str:
    """The word that agrees with a number which is written otherwise, or elsewhere: `run` or `runs`, `was` or `were`."""
    if number == 1:
        return one
    return f"{one}s" if many is None else many


def listed(names: Iterable[str]) -> str:
    """Write `a`, `a and b`, `a, b and c`."""
    told = list(names)
    return " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)


def gpu_title(device: int, ordinal: int | None, uuid: str | None, bus: str | None) -> str:
    """A GPU by CUDA's number in its process; where that is not known by what tells it apart, last by nsys's number."""
    if ordinal is not None:
        return f"GPU {ordinal}"
    if uuid or bus:
        return f"GPU {uuid or bus}"
    return f"GPU {device} of the capture"
