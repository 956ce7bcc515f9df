"""What a cell of a small table holds, whatever was put into it.

SQLite lets any column have any value.
"""

from __future__ import annotations


def decoded(raw: bytes) -> str:
    """A text, with its bytes that are no UTF-8 replaced."""
    return raw.decode("utf-8", errors="replace")


def text_of(value: object) -> str | None:
    """What a text column holds; None for NULL."""
    if value is None:
        return None
    return decoded(value) if isinstance(value, bytes) else str(value)


def whole_of(value: object) -> int | None:
    """What a number column holds; None for what is no whole number."""
    return value if isinstance(value, int) else None
