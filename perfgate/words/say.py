"""A code and its fields become text: of a note its fact, of an error all of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from perfgate.words.fields import FieldFormatter
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
    """Word what is so, without a full stop."""
    return _FORMATTER.fill(TEXT[said.code].fact, said.fields)


def subject(said: Coded) -> str:
    """Word what it is about: what stands before the first colon of the fact."""
    return _FORMATTER.fill(TEXT[said.code].fact.partition(": ")[0], said.fields)


def predicate(said: Coded) -> str:
    """Word the fact without its subject."""
    before, _, after = TEXT[said.code].fact.partition(": ")
    return _FORMATTER.fill(after or before, said.fields)


def expectation(said: Coded) -> str:
    """Word what was expected instead, without a full stop; empty where the fact says it all."""
    return _FORMATTER.fill(TEXT[said.code].expectation, said.fields)


def next_step(said: Coded) -> str:
    """Word what to do about it; empty where there is nothing to do."""
    return _FORMATTER.fill(TEXT[said.code].next_step, said.fields)


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


def is_sayable(said: Coded) -> bool:
    """Whether its code is known, with the fields of its text: of what another perfgate wrote, or
    somebody forged."""
    try:
        message(said)
    except (LookupError, TypeError, ValueError, AttributeError):
        return False
    return True


def _fact_of(value: object) -> str | None:
    return fact(value) if isinstance(value, Coded) else None


def _next_step_of(value: object) -> str | None:
    return next_step(value) if isinstance(value, Coded) else None


def _rest_of(value: object) -> str | None:
    if not isinstance(value, Coded):
        return None
    expected = expectation(value)
    return " ".join(part for part in (f"{expected}." if expected else "", next_step(value)) if part)


_FORMATTER = FieldFormatter(_fact_of, _next_step_of, _rest_of)
