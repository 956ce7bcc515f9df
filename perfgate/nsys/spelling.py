"""Makes names and texts of a capture fit for one line of a message; it must not know where they come from."""

from __future__ import annotations

from typing import Final

from perfgate.model.spelling import spelled

LONGEST_NAME: Final = 100
"""Characters of a name that a message shows."""
LONGEST_TEXT: Final = 300
"""Characters of a sentence that a message shows."""


def inert(text: str, *, longest: int = LONGEST_NAME) -> str:
    """Return a text on one line: control and invisible characters spelled out, the middle left out where it is long."""
    ends = text if len(text) <= 2 * longest else text[:longest] + text[-longest:]
    told = spelled(ends)
    if len(told) <= longest:
        return told
    return f"{told[: (longest - 3) * 2 // 3]}...{told[-((longest - 3) // 3) :]}"
