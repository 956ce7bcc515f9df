"""The names of a capture's NVTX ranges, of which there may be a million: each once, as UTF-8 in one
buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

APART: Final = b"\xff"
"""Stands behind each text in the buffer: a byte that no UTF-8 has."""
AT_ONCE: Final = 1 << 16
"""Texts that are handled together: bounds what they take in other forms."""
_SORTED: Final = 1 << 16
"""Up to so many names are in order of text; more of them in that of the first range that bears
each."""
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
"""Odd numbers that spread what is multiplied by them over all 64 bits (Knuth 6.4; SplitMix64)."""
_Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Texts(Sequence[str]):
    """Texts by number. Looking one up decodes it; going through all of them does so in large
    pieces."""

    buffer: bytes | bytearray
    starts: _Int64
    """Where each begins, and behind the last of them where the next would, shape (n + 1,)."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        raw = [text.encode("utf-8", "replace") for text in texts]
        lengths = np.fromiter(map(len, raw), np.int64, count=len(raw)) + 1
        return cls(b"".join(one + APART for one in raw), np.concatenate(([0], np.cumsum(lengths))))

    @classmethod
    def of_bytes(cls, raw: Sequence[bytes]) -> Texts:
        """Texts in UTF-8; what is none is replaced."""
        buffer = APART.join([*raw, b""])
        try:
            buffer.replace(APART, b"\n").decode()
        except UnicodeDecodeError:
            return cls.of(one.decode(errors="replace") for one in raw)
        if buffer.count(APART) != len(raw):
            return cls.of(one.decode(errors="replace") for one in raw)
        return cls.split(buffer)

    @classmethod
    def split(cls, buffer: bytes) -> Texts:
        """Of a buffer in which `APART` stands behind each text."""
        ends = np.flatnonzero(np.frombuffer(buffer, np.uint8) == APART[0]) + 1
        return cls(buffer, np.concatenate(([0], ends)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        place %= len(self)
        return self.buffer[int(self.starts[place]) : int(self.starts[place + 1]) - 1].decode()

    def __iter__(self) -> Iterator[str]:
        for piece in self.pieces():
            yield from piece.decode("utf-8", "surrogateescape").split("\udcff")[:-1]

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self.place(text) is not None

    def place(self, text: str) -> int | None:
        """Where this text stands first."""
        wanted = text.encode("utf-8", "replace") + APART
        if self.buffer.startswith(wanted):
            return 0
        at = self.buffer.find(APART + wanted)
        return None if at < 0 else int(np.searchsorted(self.starts, at + 1))

    def pieces(self) -> Iterator[bytes]:
        """The buffer in parts of `AT_ONCE` texts."""
        for first in range(0, len(self), AT_ONCE):
            last = min(first + AT_ONCE, len(self))
            yield bytes(self.buffer[int(self.starts[first]) : int(self.starts[last])])

    def hashed(self) -> NDArray[np.uint64]:
        """A number of 64 bits for each, the same in every process: texts that differ share one
        hardly ever."""
        lengths = np.diff(self.starts) - 1
        padded = np.frombuffer(self.buffer + bytes(8), np.uint8)
        words: NDArray[np.uint64] = np.ndarray(
            shape=(len(padded) - 7,), dtype="<u8", buffer=padded.data, strides=(1,)
        )
        found = lengths.astype(np.uint64) * _FIRST
        rows: _Int64 | slice = slice(None)
        for at in range(0, int(lengths.max(initial=0)), 8):
            if at:
                rows = np.flatnonzero(lengths > at)
            left = np.minimum(lengths[rows] - at, 8)
            mask = np.uint64(2**64 - 1) >> (
                np.uint64(8) * (8 - np.maximum(left, 1)).astype(np.uint64)
            )
            word = np.where(left > 0, words[self.starts[:-1][rows] + at] & mask, np.uint64(0))
            mixed = (found[rows] ^ word) * _FIRST
            mixed ^= mixed >> np.uint64(29)
            found[rows] = mixed * _SECOND
        return found ^ (found >> np.uint64(32))

    def taken(self, places: _Int64) -> Texts:
        """The texts at these places, in their order."""
        whole = np.frombuffer(self.buffer, np.uint8)
        lengths = np.diff(self.starts)[places]
        parts = []
        for first in range(0, len(places), AT_ONCE):
            some = slice(first, first + AT_ONCE)
            parts.append(_gathered(whole, self.starts[places[some]], lengths[some]))
        return Texts(b"".join(parts), np.concatenate(([0], np.cumsum(lengths))))


def _gathered(held: NDArray[np.uint8], begins: _Int64, lengths: _Int64) -> bytes:
    """Pieces of what is held, one behind the other."""
    before = np.cumsum(lengths) - lengths
    return held[np.repeat(begins - before, lengths) + np.arange(int(lengths.sum()))].tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class RangeNames:
    """Names of ranges: which texts there are, each once, and which of them each range bears."""

    texts: Texts
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, names: Iterable[str]) -> RangeNames:
        return cls.joined([Texts.of(names)])

    @classmethod
    def joined(cls, parts: Iterable[Texts]) -> RangeNames:
        """The names of ranges in their order, in several parts."""
        hashes: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        codes: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
        starts: list[_Int64] = [np.zeros(1, np.int64)]
        buffer, met = bytearray(), 0
        for part in parts:
            code, first = _firsts(own := part.hashed())
            some = part if len(first) == len(part) else part.taken(first)
            hashes.append(own[first])
            codes.append(code + np.int32(met))
            starts.append(some.starts[1:] + len(buffer))
            buffer += some.buffer
            met += len(some)
        code, first = _firsts(np.concatenate(hashes))
        texts = Texts(buffer, np.concatenate(starts))
        del hashes, starts
        if len(first) < len(texts):
            texts = texts.taken(first)
        if len(texts) <= _SORTED:
            told = list(texts)
            by_text = np.array(sorted(range(len(told)), key=told.__getitem__), np.int64)
            texts = texts.taken(by_text)
            rank = np.empty(len(told), np.int32)
            rank[by_text] = np.arange(len(told), dtype=np.int32)
            code = rank[code]
        return cls(texts, code[np.concatenate(codes)])

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    @overload
    def __getitem__(self, rows: int) -> str: ...
    @overload
    def __getitem__(self, rows: _Int64) -> RangeNames: ...
    def __getitem__(self, rows: int | _Int64) -> str | RangeNames:
        if isinstance(rows, np.ndarray):
            return RangeNames(self.texts, self.codes[rows])
        return self.texts[int(self.codes[rows])]

    def tolist(self) -> list[str]:
        """The name of each range."""
        return self.told(slice(None))

    def told(self, rows: _Int64 | NDArray[np.bool_] | slice) -> list[str]:
        """The names of some ranges."""
        some, which = np.unique(self.codes[rows], return_inverse=True)
        texts = (
            list(self.texts)
            if len(some) == len(self.texts)
            else [self.texts[code] for code in some.tolist()]
        )
        return [texts[one] for one in which.tolist()]

    def bear(self, text: str) -> NDArray[np.bool_]:
        """Which ranges bear exactly this name."""
        place = self.texts.place(text)
        if place is None:
            return np.zeros(len(self.codes), np.bool_)
        return np.equal(self.codes, place)


def _firsts(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int32], _Int64]:
    """Numbers for hashes in the order in which each first stands there, and where that is."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    del ordered
    if is_first.all():
        return np.arange(len(hashes), dtype=np.int32), np.arange(len(hashes))
    first = order[is_first]
    in_order = np.argsort(first, kind="stable")
    number = np.empty(len(first), np.int32)
    number[in_order] = np.arange(len(first), dtype=np.int32)
    codes = np.empty(len(hashes), np.int32)
    codes[order] = number[np.cumsum(is_first) - 1]
    return codes, first[in_order]
