"""What a person should know, as data: a code with fields. Its words are made at the end, in `words`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Union

from perfgate.model.record import Record

Value = Union[bool, int, float, str, "Note", tuple[str, ...], tuple["Note", ...], None]
"""What a field of a note may be: JSON's plain values, other notes as phrases, and lists of either."""


class Severity(StrEnum):
    """Where a note is shown, and what it does."""

    INVALID = "invalid"
    """The run that has it is not judged."""
    WARN = "warn"
    """Shown also where the workload PASSED."""
    INFO = "info"
    """Shown next to a table."""
    ROUTINE = "routine"
    """Shown where a single run is shown, and nowhere else."""


class Note(Record):
    """What a person should know: nobody reads its text, since it has none.

    `code` is a key of the table in `words`; `fields` are what its text is filled with, in the units of their names.
    """

    code: str
    severity: Severity = Severity.INFO
    fields: Mapping[str, Value] = {}
    causes: tuple[Note, ...] = ()
    """What it comes from."""


def note(
    code: str,
    severity: Severity = Severity.INFO,
    /,
    *,
    causes: tuple[Note, ...] = (),
    **fields: Value,
) -> Note:
    """Make a note: `note("steps-missing", Severity.INVALID, found=3, wanted=30)`."""
    return Note(code=code, severity=severity, fields=fields, causes=causes)


def quoted(text: str | Note, severity: Severity = Severity.INFO) -> Note:
    """Return what was said elsewhere as a note: of a note itself, of a text the note that quotes it."""
    return text if isinstance(text, Note) else note("quoted", severity, text=text)
