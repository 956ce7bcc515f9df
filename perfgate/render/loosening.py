"""How a change differs from the gate of its base branch, in words."""

from __future__ import annotations

from collections import Counter
from typing import Final

from perfgate.model.loosening import Direction, Loosening
from perfgate.words.numbers import plural

MOST_NAMED: Final = 5
NONE: Final = "not set"


def loosening_text(loosening: Loosening, *, label: str) -> str:
    """Return a sentence, without its full stop, of what loosens the gate and how to approve it."""
    named = [
        f"{one.what} from {one.old or NONE} to {one.new or NONE}"
        for one in loosening.loosens[:MOST_NAMED]
    ]
    more = len(loosening.loosens) - MOST_NAMED
    parts = "; ".join([*named, *([f"{more} more"] if more > 0 else [])])
    return (
        f"this change loosens its own gate against {loosening.base}: {parts}. "
        f"A maintainer who has read it approves it with the label {label}"
    )


def counts_text(loosening: Loosening) -> str:
    """Return a sentence, without its full stop, of how many differences there are."""
    loosens = Counter(one.direction for one in loosening.differences)[Direction.LOOSENS]
    approved = loosens and loosening.approved
    state = ", and a maintainer has approved this commit" if approved else ""
    return (
        f"{plural(len(loosening.differences), 'difference')} to the gate of {loosening.base}, "
        f"of which {loosens or 'none'} may loosen it{state}"
    )
