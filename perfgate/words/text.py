"""One row of the table of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Text(NamedTuple):
    """What is said of one code, in up to three parts; fields stand in braces, formats as in
    `words.say`.

    A fact begins with its subject: `{workload}: no baseline for this machine`. None of the first
    two ends with a full stop.
    """

    fact: str
    expectation: str = ""
    next_step: str = ""


Rows = Mapping[str, str | tuple[str, ...]]
"""By code its fact alone, or its parts in their order."""
