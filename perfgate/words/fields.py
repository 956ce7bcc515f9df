r"""How a field of a note or an error is shown: the format behind its name in a text of the table.

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
from typing import Any, Final

from perfgate.words import numbers
from perfgate.words.escape import LONGEST_NAME, LONGEST_TEXT, escape, one_line
from perfgate.words.numbers import inflected, listed, plural

Facts = Callable[[object], str | None]
"""Words what may stand as a field of another and is no plain value; None where it is one."""

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


class FieldFormatter(Formatter):
    """Fills a text of the table with the fields of a note or an error."""

    def __init__(
        self,
        fact_of: Facts,
        next_step_of: Facts = lambda _: None,
        rest_of: Facts = lambda _: None,
    ) -> None:
        """Take what words notes that are fields of others."""
        self._fact_of = fact_of
        self._parts: Mapping[str, Facts] = {"next": next_step_of, "rest": rest_of}
        self._fields: Mapping[str, object] = {}

    def fill(self, text: str, fields: Mapping[str, object]) -> str:
        """Return the text with its fields.

        Raises:
            KeyError: the text names a field that is not given.
        """
        of_outer, self._fields = self._fields, fields
        try:
            return self.vformat(text, (), fields)
        finally:
            self._fields = of_outer

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - as in the base class
        """Show one field."""
        if value is None:
            return ""
        if format_spec in self._parts:
            return self._parts[format_spec](value) or ""
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
            fact = self._fact_of(value)
            return _FORMATS[format_spec](value if fact is None else fact)
        if format_spec:
            raise ValueError(f"no such format of a field: {format_spec!r}")
        return self._plain(value)

    def _of(self, value: float, what: str, field: str) -> str:
        """Show a number in the unit, or of the metric, that another field names."""
        named = str(self._fields[field])
        match what.strip():
            case "change":
                low, high = self._fields.get("low"), self._fields.get("high")
                return numbers.change(value, named, _number(low), _number(high))
            case "limit":
                return numbers.limit(value, named)
            case _:
                return numbers.value(named, value)

    def _plain(self, value: object) -> str:
        fact = self._fact_of(value)
        if fact is not None:
            return fact
        if isinstance(value, bool | int | float):
            return str(value)
        if isinstance(value, Iterable) and not isinstance(value, str):
            return listed(self._plain(item) for item in value)
        return one_line(str(value), longest=LONGEST_NAME)


def _number(field: object) -> float | None:
    return field if isinstance(field, int | float) else None


def _sentences(texts: list[str]) -> str:
    """Texts one after the other: on one line with full stops, and below it those of several
    lines.
    """
    short = " ".join(f"{text}." for text in texts if "\n" not in text)
    return "\n".join([*([short] if short else []), *(text for text in texts if "\n" in text)])
