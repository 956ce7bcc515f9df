"""What a profile says beyond its metrics: where a change lies, what a loop waits for, and what
usually helps."""

from __future__ import annotations

from enum import StrEnum

from pydantic import NonNegativeFloat, computed_field

from perfgate.model.metric import PERIODS, Metric
from perfgate.model.note import NoteOrText, Worded
from perfgate.model.record import Record
from perfgate.words import say


class Bound(StrEnum):
    """What a step's time mostly goes to."""

    COMPUTE = "compute-bound"
    INPUT = "input-bound"
    LAUNCH = "launch-bound"
    COPY = "copy-bound"
    COMMUNICATION = "communication-bound"


class Classified(Worded):
    """What a workload is bound by, with the figures that say so."""

    bound: Bound
    share: NonNegativeFloat
    """Of the step, 0-1: what the bound is named after."""
    what: NoteOrText

    NOTES_OF = {"evidence": "what"}

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


class Advice(Worded):
    """What usually helps, and the evidence that it may help here."""

    topic: Topic
    range: str = ""
    """The NVTX range that it is about; empty where it is about none alone."""
    what: NoteOrText
    """The evidence, whose next step is what usually helps."""

    NOTES_OF = {"usually": "what", "evidence": "what"}

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


class Axis(StrEnum):
    """By what a change is taken apart."""

    RANGE = "range"
    KERNEL = "kernel"
    COPY = "copy"
    """Direction, and the memory at the host's end."""
    CALL = "call"
    """A synchronising call and the range it sits in."""


class Part(Worded):
    """What one range, kernel, kind of copy or call added to a metric, per step and in the metric's
    unit."""

    name: str
    before: float | None
    """None where the baseline does not tell it apart."""
    now: float
    change: float
    metric: Metric
    """Of which it is a part: another than the attribution's where that is step_ms."""
    notes: tuple[NoteOrText, ...] = ()
    """What else is known of it: that it is new, or its launches."""

    NOTES_OF = {"note": "notes"}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def note(self) -> str:
        """The words of `notes`."""
        return ", ".join(say.fact(one) for one in self.notes)


class Attribution(Record):
    """How the change of one metric is made up, along one axis."""

    metric: Metric
    axis: Axis
    change: float
    """`now - baseline` of the metric's row, per step and in its unit."""
    parts: tuple[Part, ...]
    """Those that changed, the largest first; with `rest` they add up to `change`."""
    rest: float
    """What no part accounts for: medians of runs are no sums, and a step's work overlaps."""
    process: str = ""
    """Of several processes the one whose parts they are."""

    @property
    def covers_all(self) -> bool:
        """Whether its axis is meant to hold all of the metric: of a step, copies hold only what no
        range does."""
        return not (self.metric in PERIODS and self.axis is Axis.COPY)
