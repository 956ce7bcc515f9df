"""JSON as perfgate reads it from files: strictly, and with a complaint in words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from pydantic import ValidationError

from perfgate.model.record import TwinKeys, without_twins


class _NotJson(ValueError):
    """JSON that Python would accept and perfgate does not: NaN, or something other than an object."""


def parsed(raw: bytes) -> dict[str, object]:
    """Return a JSON object, strictly; a byte-order mark and any line ends are no harm.

    Raises:
        ValueError: not UTF-8, not JSON, not an object, NaN, or one key twice.
        RecursionError: nested beyond reason.
    """
    content: object = json.loads(
        raw.decode("utf-8-sig"),
        object_pairs_hook=without_twins,
        parse_constant=_no_constant,
        parse_float=_finite,
    )
    if not isinstance(content, dict):
        raise _NotJson("it is not a JSON object")
    return content


def _no_constant(name: str) -> object:
    raise _NotJson(f"it holds {name}, which is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NotJson(f"it holds {text[:20]}, which is beyond a number's range")
    return number


def json_complaint(raw: bytes, error: ValueError | RecursionError) -> str:
    if not raw.strip():
        return "it is empty"
    match error:
        case json.JSONDecodeError():
            at_end = error.pos >= len(error.doc.rstrip()) or error.msg.startswith(
                "Unterminated string"
            )
            return f"its JSON {'ends too early' if at_end else 'is malformed'} (line {error.lineno}: {error.msg})"
        case UnicodeDecodeError():
            return f"it is not UTF-8 (byte {error.start})"
        case _NotJson() | TwinKeys():
            return str(error)
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return f"it is malformed ({error})"


def format_of(content: Mapping[str, object]) -> int | None:
    number = content.get("format")
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def first_complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{place(first['loc'])}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def place(location: tuple[int | str, ...]) -> str:
    """Return where in a file something is, as `occasions[0].runs[2].values`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "the whole"


def line_of(raw: bytes, position: int) -> int:
    return raw.count(b"\n", 0, position) + 1
