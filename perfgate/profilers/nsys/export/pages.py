"""Takes whole numbers of a table out of the pages of a SQLite file, many rows at once.

SQLite hands over one row at a time, which is most of what reading millions of rows costs. Its file
format (sqlite.org/fileformat2.html) is plain, and promised not to change: a table is a tree of
pages, and each of its leaves holds some rows:

```
page    | 13 | rows | where each begins ...      free      ... | row | row | row |
row     | bytes of its record | row id | record |
record  | bytes of its head | kind of each value ... | value ... |
```
A kind says how many bytes its value takes, so the kinds of the columns before it say where a value
lies. Whatever is not this simple (rows that go on in other pages, numbers with a point, damage) is
`Unusual` here, and SQLite's own matter.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perfgate.model.arrays import constant
from perfgate.model.timeline import Flags, Ints

_NULL, _REAL, _ZERO, _ONE, _BLOB = 0, 7, 8, 9, 12
"""Kinds of values. 1 to 6 are whole numbers; from 12 on even ones are bytes and odd ones texts."""
_WIDTHS: Final = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0], np.int64)
"""Bytes of the kinds below 12."""
_FEW_BYTES: Final = 3
"""Numbers up to this width are put together byte by byte: numpy is slow where words lie at odd
places."""
_LEAF, _INTERIOR = 13, 5
_LEAF_HEAD, _INTERIOR_HEAD = 8, 12
_LEAST_PAGE, _LARGEST_PAGE = 512, 65536
_MOST_LEVELS: Final = 20
BYTES_AT_ONCE: Final = 1 << 20
"""Of pages that are looked at together: few enough for the processor's cache."""
_Bytes = NDArray[np.uint8]


class Unusual(Exception):
    """These pages are not read here."""


class Pages:
    """An open SQLite file."""

    def __init__(self, file: int) -> None:
        head = os.pread(file, 100, 0)
        size = int.from_bytes(head[16:18], "big")
        self._file = file
        self.size = _LARGEST_PAGE if size == 1 else size
        self._usable = self.size - head[20]
        self._number = os.fstat(file).st_size // max(self.size, 1)
        if not _LEAST_PAGE <= self.size <= _LARGEST_PAGE:
            raise Unusual

    def leaves(self, root: int) -> list[Ints]:
        """The leaves of the table whose tree begins at this page, in order, in parts."""
        level = np.array([root], np.int64)
        for _ in range(_MOST_LEVELS):
            if self._read(level[:1])[0] == _LEAF:
                each = max(BYTES_AT_ONCE // self.size, 1)
                return [level[first : first + each] for first in range(0, len(level), each)]
            level = np.concatenate([self._below(number) for number in level.tolist()])
            if len(level) > self._number:
                break
        raise Unusual

    def _below(self, number: int) -> Ints:
        page = self._read(np.array([number]))
        count = int(page[3]) << 8 | int(page[4])
        if page[0] != _INTERIOR or _INTERIOR_HEAD + 2 * count > self._usable:
            raise Unusual
        begins = page[_INTERIOR_HEAD : _INTERIOR_HEAD + 2 * count].view(">u2").astype(np.int64)
        if count and int(begins.max()) > self._usable - 4:
            raise Unusual
        words = np.ndarray(shape=(self.size - 3,), dtype=">u4", buffer=page.data, strides=(1,))
        return np.append(words[begins], words[8]).astype(np.int64)

    def numbers(self, leaves: Ints, places: Sequence[int]) -> dict[int, tuple[Ints, Flags]]:
        """The columns in these places of the table, and where they are NULL, there 0: one flag
        where all are, or none is."""
        held = self._read(leaves)
        at, end = self._records(held, len(leaves))
        head, kinds_at = _varints(held, at)
        value = stop = at + head
        found: dict[int, tuple[Ints, Flags]] = {}
        for place in range(max(places, default=-1) + 1):
            kind, kinds_at = _varints(held, kinds_at)
            width = _WIDTHS.take(kind, mode="clip")
            if int(kind.max(initial=0)) >= _BLOB:
                width = np.where(kind < _BLOB, width, (kind - _BLOB) >> 1)
                width = np.minimum(width, len(held))  # so that they can be added up
            if place in places:
                if bool((value + width > end).any()):
                    raise Unusual
                found[place] = _whole(held, kind, value, width), np.equal(kind, _NULL)
            value = value + width
        if bool((kinds_at > stop).any() or (value > end).any()):
            raise Unusual
        return found

    def _records(self, held: _Bytes, count: int) -> tuple[Ints, Ints]:
        """Where the record of each row begins and ends."""
        pages = np.arange(count) * self.size
        counts = held[pages + 3].astype(np.int64) << 8 | held[pages + 4]
        if (held[pages] != _LEAF).any() or (_LEAF_HEAD + 2 * counts > self._usable).any():
            raise Unusual
        page = np.repeat(pages, counts)
        row = np.arange(len(page)) - np.repeat(np.cumsum(counts) - counts, counts)
        pointers = page + _LEAF_HEAD + 2 * row
        begins = page + (held[pointers].astype(np.int64) << 8 | held[pointers + 1])
        length, at = _varints(held, begins)
        _, at = _varints(held, at)
        end = at + length
        if bool((end > page + self._usable).any()):
            raise Unusual
        return at, end

    def _read(self, numbers: Ints) -> _Bytes:
        """These pages, one behind the other."""
        if len(numbers) and not 1 <= int(numbers.min()) <= int(numbers.max()) <= self._number:
            raise Unusual
        held = np.empty(len(numbers) * self.size, np.uint8)
        breaks = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
        for first, last in pairwise(breaks):
            part = held.data[first * self.size : last * self.size]
            if os.preadv(self._file, [part], (int(numbers[first]) - 1) * self.size) != len(part):
                raise Unusual
        return held


def _whole(held: _Bytes, kind: Ints, begins: Ints, width: Ints) -> Ints:
    """The whole numbers of these kinds, which begin here and are this wide; 0 for NULL."""
    least, most = int(kind.min(initial=_BLOB)), int(kind.max(initial=0))
    if most > _ONE or bool((kind == _REAL).any()):
        raise Unusual
    if least == most and most in (_NULL, _ZERO, _ONE):
        return constant(np.int64(most == _ONE), len(begins))
    if least == most and most <= _FEW_BYTES:
        few: Ints = held.take(begins).view(np.int8).astype(np.int64)
        for place in range(1, most):
            few <<= 8
            few |= held[place:].take(begins)
        return few
    words: NDArray[np.int64] = np.ndarray(
        shape=(len(held) - 7,), dtype=">i8", buffer=held.data, strides=(1,)
    )
    found: Ints = words[begins + width - 8].astype(np.int64)
    unused = 64 - 8 * np.maximum(width, 1)
    found <<= unused
    found >>= unused
    if least == _NULL or most >= _ZERO:
        found[width == 0] = 0
        found[kind == _ONE] = 1
    return found


def _varints(held: _Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Numbers of up to eight bytes, or the one that all are; and where what follows is.

    All bytes but the last have their highest bit set.
    """
    byte = held.take(at, mode="clip")
    at = at + 1
    if len(byte) and byte[0] < 128 and bool((byte == byte[0]).all()):
        return byte[:1].astype(np.int64), at
    goes_on = byte >= 128
    if not goes_on.any():
        return byte.astype(np.int64), at
    found = (byte & 127).astype(np.int64)
    for _ in range(7):
        byte = held.take(at, mode="clip")
        found = np.where(goes_on, found << 7 | (byte & 127), found)
        at = at + goes_on
        goes_on &= byte >= 128
        if not goes_on.any():
            return found, at
    raise Unusual
