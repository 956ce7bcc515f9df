"""What range names are without what is said of a single one: numbers, ids, sizes; and which of
them may be meant by a name that none bears."""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from perfgate.metrics.intervals import sum_by
from perfgate.model.arrays import RangeNames
from perfgate.model.sample import OUTSIDE_RANGES
from perfgate.model.timeline import Ranges, SmallInts
from perfgate.model.workload import OWN_RANGES

SUGGESTIONS: Final = 5
"""Range names in a message."""
NEAR: Final = 0.75
"""How alike (difflib's ratio) a name is to what was asked for, from which it may be meant."""
_SPECIAL: Final = re.compile(r"[][.^$*+?{}\\|()]")
"""What a pattern needs a backslash before."""
MANY_NAMES: Final = 40
"""Above this many range names, names seen once are grouped even where steps do not show an index
apart from a name."""
NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
"""What makes range names unique: indices and addresses."""
_APART: Final = "\0"
"""Between names that are gone through together, which is many times faster; in no name."""
_TORCH: Final = re.compile(rf", (?:seq|op_id|sizes|input_op_ids) = [^{_APART}]*")
"""What `torch.autograd.profiler.emit_nvtx` appends to the name of an operation."""
_ID: Final = re.compile(
    r"\b(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{6,})\b"
)
_AMOUNT: Final = re.compile(
    r"(?<![A-Za-z\d.])(?:0x[0-9a-fA-F]+|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
)
_LIST: Final = re.compile(r"#(?:\s*,\s*#)+")
_Rules = Sequence[tuple[re.Pattern[str], str]]
_APPENDED: Final[_Rules] = ((_TORCH, ""),)
_WHAT_VARIES: Final[_Rules] = (*_APPENDED, *((one, "#") for one in (_ID, _AMOUNT, NUMBER, _LIST)))


def kinds_of(texts: Sequence[str], rules: _Rules = _WHAT_VARIES) -> list[str]:
    """Names without what is said of the single step: numbers, ids, lists of them, what PyTorch
    appends."""
    joined = _APART.join(texts)
    if joined.count(_APART) >= max(len(texts), 1):
        joined = _APART.join(text.replace(_APART, " ") for text in texts)
    for pattern, instead in rules:
        joined = pattern.sub(instead, joined)
    return joined.split(_APART) if texts else []


def grouped(
    names: RangeNames, in_step: SmallInts, of_steps: SmallInts, *, steps: int
) -> tuple[tuple[str, ...], SmallInts]:
    """The labels under which ranges are added up, and the label of each range: names that are
    unique become one.

    PyTorch's `, seq = 4, op_id = 7` is cut off. Names seen in one step only that differ in numbers
    only (`Batch 1`, `Batch 2`) become `Batch #`; names that come back every step (`layer.0`,
    `layer.1`) stay. Steps whose names differ in numbers only always become one: those of the next
    epoch may be the same again. Where fewer than two steps can show these apart, names seen once
    are grouped only if there are more than MANY_NAMES.

    Args:
        names: of the ranges.
        in_step: the step that each begins in, or -1.
        of_steps: codes of the steps' own names.
        steps: how many there are, 0 of a whole window.
    """
    used, place = np.unique(names.codes, return_inverse=True)
    texts = [names.texts[one] for one in used.tolist()]
    each = RangeNames.of(kinds_of(texts, _APPENDED))
    code = each.codes[place]
    count = len(each.texts)
    first, last = np.full(count, len(code), np.int32), np.full(count, -1, np.int32)
    places: SmallInts = in_step if steps > 1 else np.arange(len(code), dtype=np.int32)
    inside = places >= 0
    np.minimum.at(first, code[inside], places[inside])
    np.maximum.at(last, code[inside], places[inside])
    alike = first >= last
    alike[each.codes[np.isin(used, of_steps)]] = True
    alike &= steps > 1 or count > MANY_NAMES
    texts, rows = list(each.texts), np.flatnonzero(alike).tolist()
    kinds = kinds_of([texts[row] for row in rows])
    number_of = Counter(kinds)
    for row, kind in zip(rows, kinds, strict=True):
        if number_of[kind] > 1:
            texts[row] = kind
    labels = (OUTSIDE_RANGES, *sorted({*texts} - {OUTSIDE_RANGES}))
    number = {label: index for index, label in enumerate(labels)}
    return labels, np.array([number[text] for text in texts], np.int32)[code]


def likely_steps(ranges: Ranges, step: str, *, is_pattern: bool) -> tuple[str, ...]:
    """Names as a user would ask for them: what was misspelt first, then the most frequent.

    Of a pattern those that differ in numbers only are one. Of equally frequent ones the longer come
    first: steps hold the others.
    """
    texts, codes = ranges.name.texts, ranges.name.codes
    counts = np.bincount(codes, minlength=len(texts)).tolist()
    lasted = sum_by(codes, ranges.end - ranges.start, len(texts)).tolist()
    total: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for text, count, ns in zip(texts, counts, lasted, strict=True):
        if text in OWN_RANGES:
            continue
        pieces = (_SPECIAL.sub(r"\\\g<0>", piece) for piece in NUMBER.split(text))
        asked = r"\d+".join(pieces) if is_pattern else text
        before = total[asked]
        total[asked] = before[0] + count, before[1] + ns
    near = difflib.get_close_matches(step, total, n=SUGGESTIONS, cutoff=NEAR)
    frequent = sorted(total, key=lambda asked: (*(-one for one in total[asked]), asked))
    return tuple(dict.fromkeys([*near, *frequent]))[:SUGGESTIONS]
