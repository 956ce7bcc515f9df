"""Foreign text made safe to show: it moves no cursor, hides no text and begins no line."""

from __future__ import annotations

import unicodedata
from typing import Final

INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that are escaped. Cc: control. Cf: among others what turns the direction of
text. Cs: half a character. Zl, Zp: line ends."""

LONGEST_NAME: Final = 100
"""Characters of a name that a message shows."""
LONGEST_TEXT: Final = 300
"""Characters of a quoted sentence that a message shows."""


def is_invisible(character: str) -> bool:
    """Whether a character is escaped."""
    return unicodedata.category(character) in INVISIBLE


def escape(text: str) -> str:
    r"""Write invisible characters as Python does: `\x1b`, `\n`, `\u202e`."""
    return "".join(
        character.encode("unicode_escape").decode("ascii") if is_invisible(character) else character
        for character in text
    )


def one_line(text: str, *, longest: int = LONGEST_NAME) -> str:
    """Escape a text and shorten it: where it is longer than that, its middle is left out."""
    ends = text if len(text) <= 2 * longest else text[:longest] + text[-longest:]
    escaped = escape(ends)
    if len(escaped) <= longest:
        return escaped
    return f"{escaped[: (longest - 3) * 2 // 3]}...{escaped[-((longest - 3) // 3) :]}"
