"""Makes names and texts of a capture fit for one line of a message; it must not know where they come from."""

from __future__ import annotations

import unicodedata
from typing import Final

LONGEST_NAME: Final = 100
"""Characters of a name that a message shows."""
LONGEST_TEXT: Final = 300
"""Characters of a sentence that a message shows."""


def inert(text: str, *, longest: int = LONGEST_NAME) -> str:
    """Return a text on one line: control and invisible characters spelled out, the middle left out where it is long."""
    ends = text if len(text) <= 2 * longest else text[:longest] + text[-longest:]
    told = "".join(_spelled(character) for character in ends)
    if len(told) <= longest:
        return told
    return f"{told[: (longest - 3) * 2 // 3]}...{told[-((longest - 3) // 3) :]}"


def _spelled(character: str) -> str:
    # Cc: control, Cf: among others what turns the direction of text, Cs: half a character, Zl, Zp: line ends.
    if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character
    return character.encode("unicode_escape").decode("ascii")
