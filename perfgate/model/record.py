"""The base of every record: frozen, keyword-only, closed, of one value a key; and how large what
perfgate writes may be.

Its writers keep to these limits, so that its readers refuse only what others made. This file knows
no concrete record.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError as beyond:
        raise ValueError("the moment is beyond the calendar in UTC") from beyond


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A moment with its time zone, kept in UTC: any two can be compared, and each be shown."""


def _as_format_2(number: object) -> object:
    """All that format 1 holds means the same in format 2, which adds optional fields."""
    return 2 if number == 1 and type(number) is int else number


Format2 = Annotated[Literal[2], BeforeValidator(_as_format_2)]
"""The format of a file that is written as 2 and read as 1 or 2."""

ObjectName = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
"""A git object's whole SHA: never a branch, an option or part of a name, whatever a file says."""


SomeText = Annotated[str, Field(pattern=r"^[^\x00]+$")]
"""Some text without a NUL, which no path and no program's argument can hold."""


class Record(BaseModel):
    """A frozen pydantic model that refuses unknown keys and non-finite numbers."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        # A schema is built by the first value of it: few gates meet every record.
        defer_build=True,
        extra="forbid",
        allow_inf_nan=False,
        # A validation alias is what older files call a field.
        populate_by_name=True,
        ser_json_bytes="utf8",
    )


LONGEST_TEXT: Final = 20_000
"""Characters of one text in a document, such as a reason that quotes the end of a log."""
LONGEST_ID: Final = 2_000
"""Characters of a workload's id."""
MOST_ENTRIES: Final = 10_000
"""Of one list or mapping in a document."""
MOST_WORKLOADS: Final = 2_000
"""Of one document."""
LARGEST_DOCUMENT: Final = 64_000_000
"""Bytes of a document, and of what a page is made of."""
LARGEST_RESULT: Final = 64_000_000
"""Bytes of a kept result."""
LARGEST_BASELINE: Final = 4 << 20
"""Bytes of a baseline; one has a few KB."""
