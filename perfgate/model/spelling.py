"""What cannot be seen in a text from elsewhere, spelled out: it moves no cursor, hides no text and begins no line."""

from __future__ import annotations

import unicodedata
from typing import Final

INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of Unicode. Cc: control; Cf: among others what turns the direction of text; Cs: half a character; Zl, Zp:
line ends."""

LONGEST_NAME: Final = 100
"""Characters of a name that a message shows."""
LONGEST_TEXT: Final = 300
"""Characters of a sentence that a message shows."""


def is_invisible(character: str) -> bool:
    """Whether a character is to be spelled out."""
    return unicodedata.category(character) in INVISIBLE


def spelled(text: str) -> str:
    r"""The text with what cannot be seen as Python writes it: `\x1b`, `\n`, `\u202e`."""
    return "".join(
        character.encode("unicode_escape").decode("ascii") if is_invisible(character) else character
        for character in text
    )


def inert(text: str, *, longest: int = LONGEST_NAME) -> str:
    """Return a text on one line: control and invisible characters spelled out, the middle left out where it is long."""
    ends = text if len(text) <= 2 * longest else text[:longest] + text[-longest:]
    told = spelled(ends)
    if len(told) <= longest:
        return told
    return f"{told[: (longest - 3) * 2 // 3]}...{told[-((longest - 3) // 3) :]}"
