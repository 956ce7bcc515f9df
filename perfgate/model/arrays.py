"""What numpy does slowly, or not at all, for millions of whole numbers; knows no meaning of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)
_Whole = TypeVar("_Whole", bound=np.signedinteger[Any])
_SPREAD: Final = 4
"""Numbers that lie this many times as far apart as there are of them are sorted; others are
counted."""
_AT_ONCE: Final = 1 << 16
"""Numbers that are looked at together: few enough for the processor's cache."""


def parts(size: int) -> Iterator[slice]:
    """So many numbers in parts that are looked at together."""
    return (slice(first, first + _AT_ONCE) for first in range(0, size, _AT_ONCE))


def taken(values: NDArray[_Scalar], places: NDArray[_Whole]) -> NDArray[_Scalar]:
    """The values in these places: numpy's own way makes all of the places longer first."""
    found = np.empty(len(places), values.dtype)
    for part in parts(len(places)):
        found[part] = values.take(places[part])
    return found


def distinct(values: NDArray[_Whole]) -> NDArray[_Whole]:
    """The numbers that occur, each once, in order: numpy's own way is ten times slower on a million
    that differ."""
    if not len(values):
        return values[:0].copy()
    if is_constant(values):
        return values[:1].copy()
    if not bool((values[1:] > values[:-1]).all()):
        lowest, highest = int(values.min()), int(values.max())
        if highest - lowest <= _SPREAD * len(values):
            occurs = np.zeros(highest - lowest + 1, np.bool_)
            for part in parts(len(values)):
                occurs[values[part] - np.int64(lowest)] = True
            return (np.flatnonzero(occurs) + lowest).astype(values.dtype)
        values = np.sort(values)
        values = values[np.append(True, values[1:] != values[:-1])]
    return values.copy()


def among(values: NDArray[_Whole], wanted: NDArray[_Whole]) -> NDArray[np.bool_]:
    """Which of many values are among others: `np.isin` is slow where these lie far apart."""
    those = distinct(wanted)
    if not len(those):
        return np.zeros(len(values), np.bool_)
    found: NDArray[np.bool_] = those.take(np.searchsorted(those, values), mode="clip") == values
    return found


def is_constant(values: NDArray[Any]) -> bool:
    """Whether all are the same; of none, too."""
    return not len(values) or values.strides == (0,) or bool((values == values[0]).all())


def constant(value: _Scalar, size: int) -> NDArray[_Scalar]:
    """One value so many times, which takes no room; to be read only."""
    return np.broadcast_to(np.asarray(value), size)
