"""The names of a capture's NVTX ranges: each text once, and which of them each range bears."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RangeNames:
    """Names of ranges, by number."""

    texts: tuple[str, ...]
    """Each once, in order of text."""
    codes: NDArray[np.int32]
    """The place in `texts` of the name of each range, shape (ranges,)."""

    @classmethod
    def of(cls, names: Iterable[str]) -> RangeNames:
        """The names of ranges in their order."""
        number: dict[str, int] = {}
        codes = np.fromiter((number.setdefault(name, len(number)) for name in names), np.int32)
        texts = sorted(number)
        place = np.empty(len(texts), np.int32)
        place[[number[text] for text in texts]] = np.arange(len(texts), dtype=np.int32)
        return cls(tuple(texts), place[codes])

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
