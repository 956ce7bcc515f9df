"""The names of a capture's NVTX ranges: each text once, and which of them each range bears."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress, count
from operator import ne
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
    def of(cls, names: Iterable[str | bytes]) -> RangeNames:
        """The names of ranges in their order; bytes are UTF-8, as far as they are."""
        number: defaultdict[str | bytes, int] = defaultdict(count().__next__)
        codes = np.fromiter(map(number.__getitem__, names), np.int32)
        each = [one.decode(errors="replace") if isinstance(one, bytes) else one for one in number]
        order = sorted(range(len(each)), key=each.__getitem__)
        texts = [each[one] for one in order]
        is_new = [True, *map(ne, texts[1:], texts)][: len(texts)]
        place = np.empty(len(each), np.int32)
        place[order] = np.cumsum(is_new) - 1
        return cls(tuple(compress(texts, is_new)), place[codes])

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
