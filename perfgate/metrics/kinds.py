"""What range names are without what is said of a single one: numbers, ids, sizes; it must not know
any step."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from perfgate.model.names import RangeNames, Texts

NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
"""What makes range names unique: indices and addresses."""
TORCH_SUFFIX = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = .*\Z", re.DOTALL)
"""What `torch.autograd.profiler.emit_nvtx` appends to the name of an operation."""
_ID = re.compile(
    r"\b(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{6,})\b"
)
_AMOUNT = re.compile(r"(?<![A-Za-z\d.])(?:0x[0-9a-fA-F]+|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
_LIST = re.compile(r"#(?:\s*,\s*#)+")

_SUFFIX = re.compile(TORCH_SUFFIX.pattern.replace(r".*\Z", r"[^\xff]*").encode("latin-1"))
"""The same in a buffer of texts."""
_COUNTER = re.compile(rb"(?<![0-9A-Za-z.+\-\x80-\xfe])[0-9]+(?![0-9A-Za-z.+\-\x80-\xfe])")
"""A whole number that stands alone: whatever it is, and however many digits it has, the name's kind
is the same."""


def template(text: str) -> str:
    """A range name with its indices and addresses replaced: `Batch 12` -> `Batch #`."""
    return NUMBER.sub("#", text)


def kind_of(text: str) -> str:
    """A name without what is said of the single step: numbers, ids, lists of them, what PyTorch
    appends."""
    bare_text = TORCH_SUFFIX.sub("", text)
    return _LIST.sub("#", template(_AMOUNT.sub("#", _ID.sub("#", bare_text))))


def bare(texts: Texts) -> RangeNames:
    """The names without what PyTorch appends, each once, and which of them each text has."""
    if _SUFFIX.search(texts.buffer) is None:
        return RangeNames(texts, np.arange(len(texts), dtype=np.int32))
    return RangeNames.joined(Texts.split(_SUFFIX.sub(b"", piece)) for piece in texts.pieces())


def kinds(texts: Texts) -> RangeNames:
    """The kinds of names (`kind_of`), each once, and which of them each text is of."""
    return _by_counters(texts, kind_of)


def pieces(texts: Texts) -> RangeNames:
    """What stands around the numbers of names, as Python writes a list of it: each once, and which
    each text has."""
    return _by_counters(texts, lambda text: repr(NUMBER.split(text)))


def _by_counters(texts: Texts, made: Callable[[str], str]) -> RangeNames:
    """What is made of each name; of those that differ only in a `_COUNTER` it is made once."""
    alike = RangeNames.joined(Texts.split(_COUNTER.sub(b"0", piece)) for piece in texts.pieces())
    found = RangeNames.of(map(made, alike.texts))
    return RangeNames(
        found.texts, found.codes[alike.codes] if len(alike) else np.empty(0, np.int32)
    )
