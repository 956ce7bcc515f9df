"""What a person should know, as data: a code with fields. Its words are made at the end, in
`words`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Union

from pydantic import BeforeValidator, model_validator

from perfgate.model.record import Record
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
    """What it comes from. Nobody says it yet: the diagnosis is to."""


def note(code: str, severity: Severity = Severity.INFO, /, **fields: Value) -> Note:
    """Make a note: `note("steps-missing", Severity.INVALID, found=3, wanted=30)`."""
    return Note(code=code, severity=severity, fields=fields)


def quoted(text: str | Note, severity: Severity = Severity.INFO) -> Note:
    """Return what was said elsewhere as a note: of a note itself, of a text the note that quotes
    it."""
    if isinstance(text, Note):
        return text
    return note("quoted", severity, text=text)


def noted(said: Coded, severity: Severity = Severity.INFO) -> Note:
    """Make a note of an error: its code and fields, errors among them as notes too."""
    fields = {name: _value(value) for name, value in said.fields.items()}
    return Note(code=said.code, severity=severity, fields=fields)


def _value(value: object) -> Value:
    match value:
        case Note() | None | bool() | int() | float() | str():
            return value
        case Coded():
            return noted(value)
        case list() | tuple():
            notes = tuple(noted(item) for item in value if isinstance(item, Coded))
            return notes or tuple(map(str, value))
        case _:
            return str(value)


NoteOrText = Annotated[
    Note, BeforeValidator(lambda held: quoted(held) if isinstance(held, str) else held)
]
"""A note; of what was written before there were codes, its sentence as one."""

Notes = tuple[Note, ...]


class Worded(Record):
    """A record that is written with the words of its notes next to them, for readers of no codes.

    Words that are read stand for notes only in files of before there were codes.
    """

    NOTES_OF: ClassVar[Mapping[str, str]] = {}
    """By the key of words that of the note, or of notes in a list or a mapping."""

    @model_validator(mode="before")
    @classmethod
    def _read_words(cls, read: Any) -> Any:  # noqa: ANN401 - as pydantic has it
        if not isinstance(read, Mapping):
            return read
        found = {key: held for key, held in read.items() if key not in cls.NOTES_OF}
        if not found.keys().isdisjoint(cls.NOTES_OF.values()):
            return found
        for words, key in cls.NOTES_OF.items():
            held = read.get(words)
            if isinstance(held, list):
                severity = _SEVERITIES.get(words, Severity.INFO)
                notes = (quoted(text, severity) for text in held)
                found[key] = (*found.get(key, ()), *notes)
            elif held:
                found[key] = (held,) if key == "notes" else held
        return found


_SEVERITIES: Final = {
    "warnings": Severity.WARN,
    "caveats": Severity.WARN,
    "complaints": Severity.INVALID,
}
"""Of words by their key, also as older files name it."""
