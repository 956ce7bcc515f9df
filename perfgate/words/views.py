"""What views says: of histories, of two sides that are compared, of kernels under ncu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words.text import Text

_BLESS: Final = 'Make one: pytest --perfgate; perfgate bless --reason "..."'

TEXT: Final[Mapping[str, Text]] = {
    "history-shallow": Text(
        "{workload}: this clone, which is shallow, has no baseline of it",
        next_step="Fetch the whole history: git fetch --unshallow, or fetch-depth: 0 in GitHub Actions.",
    ),
    "history-near": Text(
        "{workload}: it never had a baseline here",
        "Perhaps you meant {near:list}",
        "Look there: perfgate history {first:sh}",
    ),
    "history-none": Text(
        "{workload}: it never had a baseline here", "Nor had any other workload", _BLESS
    ),
    "history-unknown": Text(
        "{workload}: it never had a baseline here",
        "There are or were baselines of {known:list}",
        _BLESS,
    ),
    "trace-nothing": Text(
        "trace: no result is kept in this project",
        "It shows what a gate has measured, or a capture",
        "Measure first: pytest --perfgate",
    ),
    "trace-unwritten": Text(
        "{file}: the trace cannot be written there ({reason})",
        next_step="Give it a file that can be written.",
    ),
}
"""By code."""
