"""The base of every record: frozen, keyword-only, closed; this file knows no concrete record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, ClassVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError as beyond:
        raise ValueError("the moment is beyond the calendar in UTC") from beyond


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A moment with its time zone, kept in UTC: any two can be compared, and each be shown."""


class Record(BaseModel):
    """A frozen pydantic model that refuses unknown keys and non-finite numbers."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        ser_json_bytes="utf8",
    )
