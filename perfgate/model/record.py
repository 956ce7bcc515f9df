"""The base of every record: frozen, keyword-only, closed, of one value a key; this file knows no concrete record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError as beyond:
        raise ValueError("the moment is beyond the calendar in UTC") from beyond


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A moment with its time zone, kept in UTC: any two can be compared, and each be shown."""


LONGEST_KEY: Final = 200
"""Characters that are shown of a key."""


class TwinKeys(ValueError):
    """One key twice in a JSON object: which of the two values holds, each reader would decide for itself."""


def without_twins(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object of its pairs: an `object_pairs_hook` of `json.loads`.

    Raises:
        TwinKeys: one key is there twice.
    """
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise TwinKeys(f"it holds the key {key[:LONGEST_KEY]!r} twice")
        found[key] = value
    return found


class Record(BaseModel):
    """A frozen pydantic model that refuses unknown keys and non-finite numbers."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        ser_json_bytes="utf8",
    )
