"""What a person should know, as data: a code with fields. Its words are made at the end, in
`words`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Union

from pydantic import BeforeValidator

from perfgate.model.record import Record
from perfgate.words import say
from perfgate.words.say import Coded

Value = Union[bool, int, float, str, "Note", tuple[str, ...], tuple["Note", ...], None]
"""What a field of a note may be: JSON's plain values, other notes as phrases, and lists of either.
"""


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

    `code` is a key of the table in `words`; `fields` are what its text is filled with, in the units
    of their names.
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
    """Return what was said elsewhere as a note: of a note itself, of a text the note that quotes
    it."""
    return text if isinstance(text, Note) else note("quoted", severity, text=text)


def noted(said: Coded, severity: Severity = Severity.INFO) -> Note:
    """Make a note of an error: its code and fields, errors among them as notes too."""
    fields = {name: _value(value) for name, value in said.fields.items()}
    return Note(code=said.code, severity=severity, fields=fields)


def _value(value: object) -> Value:
    if isinstance(value, Note) or value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Coded):
        return noted(value)
    if isinstance(value, list | tuple):
        if all(isinstance(item, Coded) for item in value):
            return tuple(noted(item) for item in value)
        return tuple(str(item) for item in value)
    return str(value)


NoteOrText = Annotated[
    Note, BeforeValidator(lambda held: quoted(held) if isinstance(held, str) else held)
]
"""A note; of what was written before there were codes, its sentence as one."""


def sayable(read: object) -> Note | None:
    """Return a note as it is read; None of one whose words are not known here."""
    try:
        found = read if isinstance(read, Note) else Note.model_validate(read)
    except ValueError:
        return None
    return found if say.is_sayable(found) else None


def with_note(read: Any, key: str, text_key: str) -> Any:  # noqa: ANN401 - as pydantic has it
    """Take a note from what is read: the note itself, or one that quotes the text next to it.

    A text is what an older perfgate wrote, or all that can be shown of a code that is unknown here.
    """
    if not isinstance(read, Mapping) or not isinstance(text := read.get(text_key), str):
        return read
    found = sayable(read.get(key)) or (quoted(text) if text or key == "why" else None)
    return {**{name: of for name, of in read.items() if name != text_key}, key: found}


def with_notes(read: Any, key: str, text_key: str) -> Any:  # noqa: ANN401 - as pydantic has it
    """The same of notes in a list, or by the same keys in a mapping."""
    if not isinstance(read, Mapping) or not (texts := read.get(text_key)):
        return _without(read, text_key) if isinstance(read, Mapping) else read
    notes, rest = read.get(key) or (), _without(read, text_key)
    if isinstance(texts, Mapping):
        held = notes if isinstance(notes, Mapping) else {}
        return {**rest, key: {of: sayable(held.get(of)) or quoted(texts[of]) for of in texts}}
    if not isinstance(texts, Sequence) or isinstance(texts, str):
        raise ValueError("expected texts")  # noqa: TRY004 - as pydantic wants it
    found = [sayable(one) for one in notes]
    is_known = len(found) == len(texts) and None not in found
    return {**rest, key: found if is_known else [quoted(text) for text in texts]}


def _without(read: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in read.items() if name != key}
