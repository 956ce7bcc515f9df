"""What numpy does slowly, or not at all, for millions of whole numbers and names; knows no meaning
of them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeVar, overload

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


_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RangeNames:
    """Names of ranges, by number."""

    texts: tuple[str, ...]
    """Each once, in order of text."""
    codes: NDArray[np.int32]
    """The place in `texts` of the name of each range, shape (ranges,)."""

    @classmethod
    def of(cls, names: Iterable[str | bytes]) -> RangeNames:
        """The names of ranges in their order; bytes are UTF-8, as far as they are."""
        number: defaultdict[str | bytes, int] = defaultdict(count().__next__)
        codes = np.fromiter(map(number.__getitem__, names), np.int32)
        each = [one.decode(errors="replace") if isinstance(one, bytes) else one for one in number]
        texts = tuple(sorted({*each}))
        place = {text: at for at, text in enumerate(texts)}
        return cls(texts, np.array([place[one] for one in each], np.int32)[codes])

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return (self.texts[code] for code in self.codes.tolist())

    @overload
    def __getitem__(self, rows: int) -> str: ...
    @overload
    def __getitem__(self, rows: _Ints) -> RangeNames: ...
    def __getitem__(self, rows: int | _Ints) -> str | RangeNames:
        if isinstance(rows, np.ndarray):
            return RangeNames(self.texts, self.codes[rows])
        return self.texts[int(self.codes[rows])]

    def bear(self, text: str) -> NDArray[np.bool_]:
        """Which ranges bear exactly this name."""
        place = bisect_left(self.texts, text)
        is_there = place < len(self.texts) and self.texts[place] == text
        return np.equal(self.codes, place if is_there else -1)
