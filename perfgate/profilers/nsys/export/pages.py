"""Takes columns of a table out of the pages of a SQLite file, many rows at once.

SQLite hands over one row at a time, which is most of what reading an export of millions of rows
costs. Its file format (sqlite.org/fileformat2.html) is plain, and promised not to change: a table
is a tree of pages, and each of its leaves holds some rows:

```
page    | D | rows | where each begins ...      free      ... | row | row | row |
row     | bytes of its record | row id | record |
record  | bytes of its head | kind of each value ... | value ... |
```
A kind says how many bytes its value takes, so the kinds of the columns before it say where a value
lies.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perfgate.model.arrays import constant
from perfgate.model.timeline import Flags, Ints

NULL: Final = 0
_REAL, _ZERO, _ONE, _BLOB = 7, 8, 9, 12
"""Kinds of values. 1 to 6 are whole numbers; from 12 on even ones are bytes and odd ones texts."""
_WIDTHS: Final = np.array(
    [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((kind - 12) // 2 for kind in range(12, 128))], np.uint8
)
_UNUSED: Final = np.array([0, 56, 48, 40, 32, 16, 0, 0, *[0] * 120], np.int64)
"""Bits of eight bytes that a whole number leaves, by kind."""
_LARGEST: Final = 1 << 40
"""Bytes that no value has; so many of them can be added up."""
_LEAF, _INTERIOR = 13, 5
_LEAF_HEAD, _INTERIOR_HEAD = 8, 12
_LEAST_PAGE, _LARGEST_PAGE = 512, 65536
_UTF8: Final = 1
_MOST_LEVELS: Final = 40
BYTES_AT_ONCE: Final = 1 << 20
"""Of pages that are looked at together: few enough for the processor's cache."""
MALFORMED: Final = "database disk image is malformed"
"""As SQLite says it."""
_Bytes = NDArray[np.uint8]


class Malformed(Exception):
    """The pages are not those of a table that SQLite wrote."""


@dataclass(frozen=True, slots=True)
class Values:
    """One column of some rows, where it lies in their pages."""

    held: _Bytes
    kinds: Ints | _Bytes
    begins: Ints

    def chosen(self, rows: Flags | Ints) -> Values:
        return Values(self.held, self.kinds[rows], self.begins[rows])

    @property
    def is_null(self) -> Flags:
        return np.equal(self.kinds, NULL)

    def integers(self) -> Ints | None:
        """As whole numbers, 0 where there is none at all; None where there are others."""
        kinds = self.kinds
        if not len(kinds):
            return np.empty(0, np.int64)
        least, most = int(kinds.min()), int(kinds.max())
        if most > _ONE or bool((kinds == _REAL).any()):
            return None
        if least == most and most in (NULL, _ZERO, _ONE):
            return constant(np.int64(most == _ONE), len(kinds))
        if least == most == 1:
            return self.held.take(self.begins).view(np.int8).astype(np.int64)
        words = np.ndarray(
            shape=(len(self.held) - 7,), dtype=">i8", buffer=self.held.data, strides=(1,)
        )
        found: Ints = words[self.begins + _WIDTHS.take(kinds) - 8].astype(np.int64)
        unused = _UNUSED.take(kinds)
        found <<= unused
        found >>= unused
        if most >= _ZERO or least == NULL:
            found[(kinds == _ZERO) | (kinds == NULL)] = 0
            found[kinds == _ONE] = 1
        return found

    def texts(self) -> tuple[Ints, Ints] | None:
        """Where each text begins in `held` and how long it is, of no bytes where there is none.

        None for numbers.
        """
        if bool(((self.kinds > NULL) & (self.kinds < _BLOB)).any()):
            return None
        return self.begins, np.maximum(self.kinds.astype(np.int64) - _BLOB, 0) >> 1


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table, in order of their ids."""

    held: _Bytes
    ids: Ints
    records: Ints
    """Where each record begins."""
    ends: Ints
    """And where it ends."""

    def columns(self, places: Sequence[int]) -> dict[int, Values]:
        """The columns in these places of the table; what a row is too short for is NULL."""
        found, fit = self._columns(places, short=False)
        return found if fit else self._columns(places, short=True)[0]

    def _columns(self, places: Sequence[int], *, short: bool) -> tuple[dict[int, Values], bool]:
        """The columns, and whether all rows were long enough to be read so."""
        head, at = _varints(self.held, self.records)
        if int(head.min(initial=1)) < 1:
            raise Malformed(MALFORMED)
        value = self.records + head
        stop = value.copy()
        found: dict[int, Values] = {}
        for place in range(max(places, default=-1) + 1):
            kind: Ints | _Bytes = self.held.take(at, mode="clip")
            at += 1
            if int(kind.max(initial=0)) >= len(_WIDTHS):
                kind, at = _varints(self.held, at - 1)
            if short and (over := at > stop).any():
                kind, at = np.where(over, NULL, kind), np.where(over, stop, at)
            width: Ints | _Bytes = _WIDTHS.take(kind, mode="clip")
            if int(kind.max(initial=0)) >= len(_WIDTHS) or int(kind.min(initial=0)) < 0:
                width = np.where(
                    kind < _BLOB, width, np.minimum(np.maximum(kind - _BLOB, 0), _LARGEST) >> 1
                )
            if place in places:
                found[place] = Values(self.held, kind, value.copy())
            value += width
        fit = bool((at <= stop).all())
        if (fit or short) and bool(
            (value > self.ends).any() or any((its.kinds < NULL).any() for its in found.values())
        ):
            raise Malformed(MALFORMED)
        return found, fit


class Pages:
    """An open SQLite file."""

    def __init__(self, file: int) -> None:
        head = os.pread(file, 100, 0)
        size = int.from_bytes(head[16:18], "big")
        self._file = file
        self._size = _LARGEST_PAGE if size == 1 else size
        self._usable = self._size - (head[20] if len(head) > 20 else 0)
        self._number = os.fstat(file).st_size // max(self._size, 1)
        if not _LEAST_PAGE <= self._size <= _LARGEST_PAGE or self._usable < _LEAST_PAGE - 32:
            raise Malformed(MALFORMED)
        if int.from_bytes(head[56:60], "big") > _UTF8:
            raise Malformed("its texts are UTF-16, which no nsys writes")

    def parts(self, root: int) -> list[Ints]:
        """The leaves of the table whose tree begins at this page, in parts, in order."""
        level = np.array([root], np.int64)
        for _ in range(_MOST_LEVELS):
            is_leaf = self._read(level[:1])[0] == _LEAF
            if is_leaf:
                each = max(BYTES_AT_ONCE // self._size, 1)
                return [level[first : first + each] for first in range(0, len(level), each)]
            level = np.concatenate([self._below(number) for number in level.tolist()])
            if len(level) > self._number:
                break
        raise Malformed(MALFORMED)

    def _below(self, number: int) -> Ints:
        page = self._read(np.array([number]))
        count = int(page[3]) << 8 | int(page[4])
        if page[0] != _INTERIOR or _INTERIOR_HEAD + 2 * count > self._usable:
            raise Malformed(MALFORMED)
        begins = page[_INTERIOR_HEAD : _INTERIOR_HEAD + 2 * count].view(">u2").astype(np.int64)
        if count and int(begins.max()) > self._usable - 5:
            raise Malformed(MALFORMED)
        words = np.ndarray(shape=(self._size - 3,), dtype=">u4", buffer=page.data, strides=(1,))
        return np.append(words[begins], words[8]).astype(np.int64)

    def rows(self, part: Ints) -> Rows:
        """The rows of some leaves."""
        held = self._read(part)
        pages = np.arange(len(part)) * self._size
        counts = held[pages + 3].astype(np.int64) << 8 | held[pages + 4]
        if (held[pages] != _LEAF).any() or (_LEAF_HEAD + 2 * counts > self._usable).any():
            raise Malformed(MALFORMED)
        page = np.repeat(pages, counts)
        places = (
            page
            + _LEAF_HEAD
            + 2 * (np.arange(len(page)) - np.repeat(np.cumsum(counts) - counts, counts))
        )
        begins = held[places].astype(np.int64) << 8
        begins |= held[places + 1]
        if len(begins) and not _LEAF_HEAD <= int(begins.min()) <= int(begins.max()) < self._usable:
            raise Malformed(MALFORMED)
        begins += page
        length, at = _varints(held, begins)
        ids, at = _varints(held, at)
        limit = page + self._usable
        goes_on = length > self._usable - 35
        if bool((length < 0).any() or (at + length > limit)[~goes_on].any()):
            raise Malformed(MALFORMED)
        if goes_on.any():
            held, at = self._in_one_piece(held, at, length, limit, np.flatnonzero(goes_on))
        return Rows(held, ids, at, at + length)

    def _in_one_piece(
        self, held: _Bytes, at: Ints, length: Ints, limit: Ints, rows: Ints
    ) -> tuple[_Bytes, Ints]:
        """Put the records of some rows, which go on in pages of their own, behind all others."""
        if int(length[rows].sum(dtype=np.float64)) > self._number * self._size:
            raise Malformed(MALFORMED)
        usable, at, end = self._usable, at.copy(), len(held)
        least = (usable - 12) * 32 // 255 - 23
        pieces = [held]
        for row, whole, begin in zip(
            rows.tolist(), length[rows].tolist(), at[rows].tolist(), strict=True
        ):
            here = least + (whole - least) % (usable - 4)
            here = here if here <= usable - 35 else least
            if begin + here + 4 > limit[row]:
                raise Malformed(MALFORMED)
            pieces.append(held[begin : begin + here])
            following = int.from_bytes(held[begin + here : begin + here + 4].tobytes(), "big")
            for left in range(whole - here, 0, 4 - usable):
                page = self._read(np.array([following]))
                pieces.append(page[4 : 4 + min(left, usable - 4)])
                following = int.from_bytes(page[:4].tobytes(), "big")
            at[row] = end
            end += whole
        return np.concatenate(pieces), at

    def _read(self, numbers: Ints) -> _Bytes:
        """These pages, one behind the other."""
        if len(numbers) and not 1 <= int(numbers.min()) <= int(numbers.max()) <= self._number:
            raise Malformed(MALFORMED)
        held = np.empty(len(numbers) * self._size, np.uint8)
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        for first, last in zip(
            [0, *breaks.tolist()], [*breaks.tolist(), len(numbers)], strict=True
        ):
            place = held.data[first * self._size : last * self._size]
            if os.preadv(self._file, [place], (int(numbers[first]) - 1) * self._size) != len(place):
                raise Malformed(MALFORMED)
        return held


def _varints(held: _Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Numbers of one to nine bytes, and where what follows is.

    All bytes but the last have their highest bit set.
    """
    byte = held.take(at, mode="clip")
    found, at = byte.astype(np.int64), at + 1
    goes_on = byte >= 128
    for place in range(1, 9):
        if not goes_on.any():
            break
        byte = held.take(at, mode="clip")
        if place == 1:
            found &= 127
        longer = found << 8 | byte if place == 8 else found << 7 | (byte & 127)
        found = np.where(goes_on, longer, found)
        at += goes_on
        goes_on &= byte >= 128
    return found, at
