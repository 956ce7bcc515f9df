r"""A code and its fields become text: of a note its fact, of an error all of its parts.

How a field is shown is the format behind its name in a text of the table:

```
{name}              text, escaped, on a line of at most 100 characters; a number; a note's fact
{text:quote}        the same, of at most 300 characters
{log:lines}         each line escaped, on lines of their own, indented
{paths:list}        a, b and c                       {notes:list;}    facts of notes: one; two
{parts:list,}       a, b, c                          {x:signed}       +3.9, -0.012, +1572864
{failure:next}      of a note or an error, its next step
{missing:rest}      ... what was expected, and its next step
{see:sentences}     facts of notes, each a sentence; one of several lines stands on lines of its own
{runs:run|runs}     3 runs                           {runs:~was|were} the word alone
{id:sh}             quoted for a shell               {text:raw}       as it is: made elsewhere
{loss:%}            3.1 %    {loss:+%} +3.1 %        {budget:short%}  2 %   {x:loss} > 1000 %
{t:ms}              8.312    {t:s} 2 min 5 s         {n:count} 1,234      {b:size} 38.54 MB
{p:p}               0.031
{now:of metric}     a value in the unit of the metric that the field `metric` names
{x:change of unit}  +3.1 % [+2.8, +3.4], with the fields `low` and `high` if there are such
{budget:limit of unit}  2 %, 1 pp
```
A field that is None is shown as nothing; a text with such a field is a text too many: give it a
code of its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from typing import Any, Final, Protocol, runtime_checkable

from perfgate.words import numbers
from perfgate.words.escape import LONGEST_NAME, LONGEST_TEXT, escape, one_line
from perfgate.words.numbers import inflected, listed, plural
from perfgate.words.table import TEXT


@runtime_checkable
class Coded(Protocol):
    """A note or an error: what a room says, without its words."""

    @property
    def code(self) -> str:
        """Names the text in the table."""

    @property
    def fields(self) -> Mapping[str, object]:
        """What is filled into it."""


def fact(said: Coded) -> str:
    """Word what is so, without a full stop; of what is not known here, its code."""
    return _part(said, 0, unknown=said.code)


def predicate(said: Coded) -> str:
    """Word the fact without its subject."""
    before, _, after = TEXT[said.code].fact.partition(": ")
    return filled(after or before, said.fields)


def expectation(said: Coded) -> str:
    """Word what was expected instead, without a full stop; empty where the fact says it all."""
    return _part(said, 1)


def next_step(said: Coded) -> str:
    """Word what to do about it; empty where there is nothing to do."""
    return _part(said, 2)


def _part(said: Coded, number: int, *, unknown: str = "") -> str:
    """Word one part, also of a note that another perfgate wrote, or somebody forged."""
    try:
        return filled(TEXT[said.code][number], said.fields)
    except (LookupError, TypeError, ValueError, AttributeError):
        return unknown


def sentences(said: Coded) -> str:
    """Word what is so and what was expected: `fact. expectation.`; a quotation stays as it is."""
    if said.code == "quoted":
        return fact(said)
    parts = [part for part in (fact(said), expectation(said)) if part]
    return " ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in parts)


def message(said: Coded) -> str:
    """Word all parts: `fact. expectation.` and, on a line of its own, the next step."""
    step = next_step(said)
    return f"{sentences(said)}\n{step}" if step else sentences(said)


def in_one_line(said: Coded) -> str:
    """Word all parts on one line; of a bare fact without a full stop."""
    is_bare = not (expectation(said) or next_step(said))
    return " ".join((fact(said) if is_bare else message(said)).split())


def filled(text: str, fields: Mapping[str, object]) -> str:
    """Return a text of the table with the fields of a note or an error.

    Raises:
        KeyError: the text names a field that is not given.
    """
    return _Filling(fields).vformat(text, (), fields)


_FORMATS: Final[Mapping[str, Callable[[Any], str]]] = {
    "quote": lambda text: one_line(str(text), longest=LONGEST_TEXT),
    "lines": lambda text: "\n".join(f"    {escape(line)}" for line in str(text).splitlines()),
    "raw": str,
    "sh": lambda text: shlex.quote(escape(str(text))),
    "signed": numbers.signed,
    "%": numbers.percent,
    "+%": lambda fraction: numbers.percent(fraction, signed=True),
    "short%": numbers.short_percent,
    "loss": numbers.loss,
    "ms": numbers.milliseconds,
    "s": numbers.seconds,
    "count": numbers.count,
    "size": numbers.size,
    "p": numbers.probability,
}


class _Filling(Formatter):
    """Shows the fields of one note or error."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - as in the base class
        """Show one field."""
        if value is None:
            return ""
        if format_spec in ("next", "rest"):
            return _rest_of(value, expected=format_spec == "rest")
        if format_spec.startswith("list"):
            items = [self._plain(item) for item in value]
            separator = format_spec.removeprefix("list")
            return f"{separator} ".join(items) if separator else listed(items)
        if format_spec == "sentences":
            return _sentences([self._plain(item) for item in value])
        if "|" in format_spec:
            one, many = format_spec.removeprefix("~").split("|")
            return (inflected if format_spec.startswith("~") else plural)(value, one, many)
        if "of " in format_spec:
            return self._of(value, *format_spec.split("of ", 1))
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](fact(value) if isinstance(value, Coded) else value)
        if format_spec:
            raise ValueError(f"no such format of a field: {format_spec!r}")
        return self._plain(value)

    def _of(self, value: float, what: str, field: str) -> str:
        """Show a number in the unit, or of the metric, that another field names."""
        named = str(self._fields[field])
        match what.strip():
            case "change":
                low, high = self._fields.get("low"), self._fields.get("high")
                has_interval = isinstance(low, int | float) and isinstance(high, int | float)
                return numbers.change(value, named, *((low, high) if has_interval else ()))
            case "limit":
                return numbers.limit(value, named)
            case _:
                return numbers.value(named, value)

    def _plain(self, value: object) -> str:
        if isinstance(value, Coded):
            return fact(value)
        if isinstance(value, bool | int | float):
            return str(value)
        if isinstance(value, Iterable) and not isinstance(value, str):
            return listed(self._plain(item) for item in value)
        return one_line(str(value), longest=LONGEST_NAME)


def _rest_of(value: object, *, expected: bool) -> str:
    """The next step of a note or an error, behind what was expected; empty of anything else."""
    if not isinstance(value, Coded):
        return ""
    before = expectation(value) if expected else ""
    return " ".join(part for part in (f"{before}." if before else "", next_step(value)) if part)


def _sentences(texts: list[str]) -> str:
    """Texts one after the other: on one line with full stops, and below it those of several
    lines.
    """
    short = " ".join(f"{text}." for text in texts if "\n" not in text)
    return "\n".join([*([short] if short else []), *(text for text in texts if "\n" in text)])
