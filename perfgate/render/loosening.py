"""How a change differs from the gate of its base branch, in words and as Markdown."""

from __future__ import annotations

from collections import Counter
from typing import Final

from perfgate.model.loosening import Difference, Direction, Loosening
from perfgate.model.words import plural

MOST_NAMED: Final = 5
NONE: Final = "not set"


def told_loosening(loosening: Loosening, *, label: str) -> str:
    """A sentence, without its full stop, of what loosens the gate and how that is approved."""
    loosens = loosening.loosens
    named = [told_difference(one) for one in loosens[:MOST_NAMED]]
    more = [f"{len(loosens) - MOST_NAMED} more"] if len(loosens) > MOST_NAMED else []
    return (
        f"this change loosens its own gate against {loosening.base}: {'; '.join([*named, *more])}. "
        f"A maintainer who has read it approves it with the label {label}"
    )


def told_difference(one: Difference) -> str:
    """One difference in a phrase."""
    return f"{one.what} from {one.old or NONE} to {one.new or NONE}"


def told_counts(loosening: Loosening) -> str:
    """A sentence, without its full stop, of how many differences there are."""
    counts = Counter(one.direction for one in loosening.differences)
    whole = plural(len(loosening.differences), "difference")
    loosens = counts[Direction.LOOSENS]
    state = (
        ""
        if not loosens
        else ", and a maintainer has approved this commit"
        if loosening.approved
        else ""
    )
    return f"{whole} to the gate of {loosening.base}, of which {loosens or 'none'} may loosen it{state}"
