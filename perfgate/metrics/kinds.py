"""What range names are without what is said of a single one: numbers, ids, sizes."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from perfgate.model.names import RangeNames
from perfgate.model.sample import OUTSIDE_RANGES
from perfgate.model.timeline import SmallInts

MANY_NAMES: Final = 40
"""Above this many range names, names seen once are grouped even where steps do not show an index
apart from a name."""
NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
"""What makes range names unique: indices and addresses."""
_TORCH: Final = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = .*\Z", re.DOTALL)
"""What `torch.autograd.profiler.emit_nvtx` appends to the name of an operation."""
_ID: Final = re.compile(
    r"\b(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{6,})\b"
)
_AMOUNT: Final = re.compile(
    r"(?<![A-Za-z\d.])(?:0x[0-9a-fA-F]+|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
)
_LIST: Final = re.compile(r"#(?:\s*,\s*#)+")


def template(text: str) -> str:
    """A range name with its indices and addresses replaced: `Batch 12` -> `Batch #`."""
    return NUMBER.sub("#", text)


def bare(text: str) -> str:
    """A name without what PyTorch appends to it."""
    return _TORCH.sub("", text)


def kind_of(text: str) -> str:
    """A name without what is said of the single step: numbers, ids, lists of them, what PyTorch
    appends."""
    return _LIST.sub("#", template(_AMOUNT.sub("#", _ID.sub("#", bare(text)))))


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
    each = RangeNames.of(bare(names.texts[one]) for one in used.tolist())
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
    kind = RangeNames.of(map(kind_of, each.texts))
    alike &= (np.bincount(kind.codes[alike], minlength=len(kind.texts)) > 1)[kind.codes]
    texts = [
        kind.texts[int(kind.codes[place])] if alike[place] else text
        for place, text in enumerate(each.texts)
    ]
    labels = (OUTSIDE_RANGES, *sorted({*texts} - {OUTSIDE_RANGES}))
    number = {label: index for index, label in enumerate(labels)}
    return labels, np.array([number[text] for text in texts], np.int32)[code]
