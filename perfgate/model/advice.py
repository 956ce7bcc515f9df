"""What a profile says of a loop beyond its metrics: what it waits for, and what usually helps."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field, computed_field, model_validator

from perfgate.model.note import Note, note, sayable, with_note
from perfgate.model.record import Record
from perfgate.words import say


class Bound(StrEnum):
    """What a step's time mostly goes to."""

    COMPUTE = "compute-bound"
    INPUT = "input-bound"
    LAUNCH = "launch-bound"
    COPY = "copy-bound"
    COMMUNICATION = "communication-bound"


class Classified(Record):
    """What a workload is bound by, with the figures that say so."""

    bound: Bound
    share: float = Field(ge=0)
    """Of the step, 0-1: what the bound is named after."""
    what: Note

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, read: Any) -> Any:  # noqa: ANN401 - as pydantic has it
        return with_note(read, "what", "evidence")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def evidence(self) -> str:
        """The words of `what`."""
        return say.fact(self.what)


class Topic(StrEnum):
    """What an advice is about."""

    PAGEABLE = "pageable copies"
    UNHIDDEN_COPIES = "copies that nothing hides"
    SYNCHRONISATION = "synchronisation"
    LOADER = "loader"
    LAUNCHES = "launches"


class Advice(Record):
    """What usually helps, and the evidence that it may help here."""

    topic: Topic
    range: str = ""
    """The NVTX range that it is about; empty where it is about none alone."""
    what: Note
    """The evidence, whose next step is what usually helps."""

    @model_validator(mode="before")
    @classmethod
    def _read_texts(cls, read: Any) -> Any:  # noqa: ANN401 - as pydantic has it
        if isinstance(read, Mapping) and isinstance(read.get("usually"), str):
            old = note("quoted-advice", evidence=read.get("evidence"), usually=read["usually"])
            rest = {key: of for key, of in read.items() if key not in ("usually", "evidence")}
            return {**rest, "what": sayable(read.get("what")) or old}
        return read

    @computed_field  # type: ignore[prop-decorator]
    @property
    def evidence(self) -> str:
        """The words of it."""
        return say.fact(self.what)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def usually(self) -> str:
        """What usually helps, a sentence."""
        return say.next_step(self.what)
