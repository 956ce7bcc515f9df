"""What a person should know, as data: a code with fields. Its words are made at the end, in
`words`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Union

from pydantic import BeforeValidator, model_validator

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
    it, or says the same."""
    if isinstance(text, Note):
        return text
    return note(_CODED[text], severity) if text in _CODED else note("quoted", severity, text=text)


_CODED: Final = {"no NCCL kernels": "no-nccl"}
"""Texts of before there were codes that are acted upon."""


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


def known(read: Note) -> Note:
    """Return a note as it is read, its code as a quotation where its words are not known here."""
    return read if say.is_sayable(read) else quoted(read.code, read.severity)


class Worded(Record):
    """A record that is written with the words of its notes next to them, for readers of no codes.

    Words that are read stand for notes only where there are none, as in files of before there were
    codes, or where their words are not known here.
    """

    NOTES_OF: ClassVar[Mapping[str, str]] = {}
    """By the key of words that of the note, or of notes in a list or a mapping."""

    @model_validator(mode="before")
    @classmethod
    def _read_words(cls, read: Any) -> Any:  # noqa: ANN401 - as pydantic has it
        if not isinstance(read, Mapping) or not cls.NOTES_OF.keys() & read.keys():
            return read
        found = {key: held for key, held in read.items() if key not in cls.NOTES_OF}
        quotations: dict[str, list[Note]] = {}
        for words, key in cls.NOTES_OF.items():
            match read.get(words):
                case None:
                    pass
                case str(text) if not isinstance(cls.model_fields[key].default, tuple):
                    is_required = cls.model_fields[key].is_required()
                    other = quoted(text) if text or is_required else None
                    found[key] = sayable(read.get(key)) or other
                case Mapping() as texts:
                    held = read.get(key)
                    known = held if isinstance(held, Mapping) else {}
                    found[key] = {of: sayable(known.get(of)) or quoted(texts[of]) for of in texts}
                case str() | list() | tuple() as texts:
                    listed = [texts] if isinstance(texts, str) else texts
                    if not all(isinstance(one, str) for one in listed):
                        raise ValueError("expected texts")
                    severity = _SEVERITIES.get(words, Severity.INFO)
                    said = [quoted(one, severity) for one in listed if one]
                    quotations.setdefault(key, []).extend(said)
                case _:
                    raise ValueError("expected texts")
        for key, texts in quotations.items():
            held = read.get(key)
            notes = [sayable(one) for one in held] if isinstance(held, list | tuple) else []
            found[key] = texts if None in notes or not notes else notes
        return found


_SEVERITIES: Final = {
    "warnings": Severity.WARN,
    "caveats": Severity.WARN,
    "complaints": Severity.INVALID,
}
"""Of words by their key, also as older files name it."""
