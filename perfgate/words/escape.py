"""Foreign text made safe to show: it moves no cursor, hides no text and begins no line or command.

```
terminal          escape, one_line, lines, message
Markdown          markdown (a sentence), markdown_code (a name)
workflow command  workflow_command: what the runner of GitHub Actions reads
```
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Final, Literal

INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that are escaped. Cc: control. Cf: among others what turns the direction of
text. Cs: half a character. Zl, Zp: line ends."""

LONGEST_NAME: Final = 100
"""Characters of a name that a message shows."""
LONGEST_TEXT: Final = 300
"""Characters of a quoted sentence that a message shows."""
LONGEST_PROSE: Final = 4000
"""Characters of a text of several lines, or of one line of a message."""

_COMMAND_OF_CI: Final = re.compile(r"^\s*:(?=:)|##(?=\[)", re.MULTILINE)
"""Where a runner of GitHub Actions reads a command: `::` that begins a line, and `##[` anywhere."""
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$])")
_BREAK: Final = "\u200b"
"""Nothing to see; what it parts is no mention, no reference, no address and no command."""
_LINKING: Final = re.compile(
    r"(?<=[@#])(?=\S)|(?<=:/)(?=/)|(?<=:)(?=:)|(?<=\bwww)(?=\\?\.)|(?<=\bGH)(?=\\?-)"
    r"|(?<=\bmailto:)(?=\S)|(?<=\bxmpp:)(?=\S)",
    re.IGNORECASE,
)


CommandKind = Literal["error", "warning", "notice"]


_BEYOND_ASCII: Final = re.compile(r"[^\n\x20-\x7e]")


def is_invisible(character: str) -> bool:
    """Whether a character is escaped."""
    return unicodedata.category(character) in INVISIBLE


def escape(text: str) -> str:
    r"""Write invisible characters as Python does: `\x1b`, `\n`, `\u202e`."""
    if text.isprintable():  # a little more than these is not
        return text
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


def lines(text: str) -> tuple[str, ...]:
    """Escape a text line by line; the end of a long one is left out."""
    found = text[:LONGEST_PROSE].expandtabs(4).splitlines()
    found += ["..."] if len(text) > LONGEST_PROSE else []
    return tuple(escape(one).rstrip() for one in found)


def line(text: str) -> str:
    """Escape a line of a message, which may quote anything; its middle is left out where it is
    long."""
    return one_line(text.expandtabs(4), longest=LONGEST_PROSE)


def message(text: str) -> str:
    """Escape a message of several lines: it steers neither a terminal nor a CI."""
    return without_commands("\n".join(map(line, text.split("\n"))))


def without_commands(text: str) -> str:
    """Break with a space each command that a runner of GitHub Actions would find in a text."""
    return _COMMAND_OF_CI.sub(lambda found: f"{found[0]} ", text)


def markdown(text: str, *, longest: int) -> str:
    """Return a sentence for Markdown: one line, every character of it just that character.

    It ends no table cell, opens no HTML, mentions nobody, refers to no issue and links to nothing.
    """
    plain = " ".join(" ".join(lines(text)).split())
    short = plain if len(plain) <= longest else f"{plain[:longest]}..."
    return _LINKING.sub(_BREAK, html.escape(_SPECIAL.sub(r"\\\1", short), quote=False))


def markdown_code(text: str, *, longest: int) -> str:
    """Return a name as code: nothing in it has a meaning but its own end and that of a cell."""
    plain = one_line(text, longest=longest).replace("`", "'").replace("|", "\u2758").strip()
    return f"`{plain or ' '}`"


def workflow_command(kind: CommandKind, text: str, **properties: object) -> str:
    """Return a command that the runner shows a text by; no text can end it, or begin another."""
    given = {name: value for name, value in properties.items() if value not in (None, "")}
    shown = ",".join(f"{name}={_property(str(value))}" for name, value in given.items())
    return f"::{kind}{' ' if shown else ''}{shown}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def escape_json(text: str) -> str:
    r"""Return JSON in which invisible characters stand as `\\u009b`: read, it is the same."""
    return _BEYOND_ASCII.sub(_escaped_in_json, text)


def _escaped_in_json(found: re.Match[str]) -> str:
    character = found[0]
    if not is_invisible(character):
        return character
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))
