"""What a profile says of a loop beyond its metrics: what it waits for, and what usually helps."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from perfgate.model.record import Record


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
    evidence: str


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
    evidence: str
    usually: str
    """What usually helps, a sentence."""
