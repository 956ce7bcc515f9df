"""What a gate's JSON document and its page both say: of the gate as a whole, of its part in
several, and of each run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from pydantic import AliasChoices, Field, model_validator

from perfgate.model.baseline import Commit
from perfgate.model.loosening import Loosening
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.record import Moment, Record
from perfgate.model.sample import Form
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict


class RunSummary(Record):
    """One run beyond its values: when it was made and how the machine felt."""

    started_at: Moment
    wall_s: float
    form: Form | None = None
    """None where it was not noted."""
    sm_clock_mhz: float | None = None
    absent: Mapping[Metric, str] = {}
    """Why a metric could not be measured."""
    invalid: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("invalid", "complaints")
    )
    """What makes the run INVALID."""
    information: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("information", "remarks")
    )
    notes: tuple[Note, ...] = ()
    """Both as codes with fields."""
    reasons: Mapping[Metric, Note] = {}
    """Of what is absent, likewise."""


class PartChosen(Record):
    """Which part of the workloads somebody chose on the command line of a gate."""

    by: tuple[str, ...] = Field(min_length=1)
    """Options, and `path` for files and folders."""
    workloads: int = Field(ge=0)
    of: int = Field(ge=0)
    """Those that were collected or have a baseline for this machine."""


class Shard(Record):
    """The `index`-th part, from 1, `of` so many."""

    index: int = Field(ge=1, le=9999)
    of: int = Field(ge=1, le=9999)

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Shard:
        if self.index > self.of:
            raise ValueError("the index of a shard is beyond their number")
        return self

    def __str__(self) -> str:
        """As it is asked for: `2/3`."""
        return f"{self.index}/{self.of}"

    def part(self, workloads: Collection[str]) -> frozenset[str]:
        """What of these falls to it: by turns in the order of their ids, so that each is of one
        shard only."""
        return frozenset(sorted(workloads)[self.index - 1 :: self.of])


class MergedGate(Record):
    """One of the gates that were merged."""

    label: str
    """Its own, or else the folder that it was found in."""
    opens_gate: bool
    started_at: Moment
    ended_at: Moment
    machine: Machine | None = None
    """None where it ended before it was read."""
    workloads: int = Field(ge=0)


class GateSummary(Record):
    """One gate, or several that were merged, without its workloads."""

    format: int
    perfgate: str
    """The version of perfgate that wrote this."""
    started_at: Moment
    ended_at: Moment
    opens_gate: bool
    exit_status: int = Field(ge=0)
    """What pytest exits with."""
    shut_by: tuple[str, ...] = ()
    """One sentence for each thing that keeps the gate shut."""
    shut_codes: tuple[str, ...] = ()
    """Their codes, in the same order; none where gates were merged."""
    machine: Machine | None = None
    """None where the gate ended before it was read, and where gates of several machines were
    merged."""
    commit: Commit | None = None
    """What was checked out; None where git did not say."""
    label: str = ""
    """Which gate of several this is, in the words of whoever started it."""
    choice: PartChosen | None = None
    """None where all workloads were asked for, and of merged gates, whose information says it."""
    gates: tuple[MergedGate, ...] = ()
    """Of merged gates only: what this was made of."""
    information: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("information", "remarks")
    )
    """Of merged gates only: what is to be known and keeps nothing shut."""
    loosening: Loosening | None = None
    """How it differs from the gate of the branch that it is for; None where nobody asked."""
    settings: Settings


class Placed(Protocol):
    """A workload of a document or of a page."""

    @property
    def verdict(self) -> Verdict:
        """What was said of it."""

    @property
    def machine(self) -> Machine | None:
        """Where it was measured, of several."""

    @property
    def gate(self) -> str:
        """By which gate, of several."""


def shown_names(workloads: Sequence[Placed]) -> tuple[str, ...]:
    """What each workload is called next to the others, in their order.

    That is its own name; where they are of several machines its GPU with it, and where that does
    not tell them apart the gate that it came from.
    """
    slugs = {one.machine.slug for one in workloads if one.machine is not None}
    placed = [
        one.verdict.workload
        + (f" on {one.machine.gpu_name}" if one.machine is not None and len(slugs) > 1 else "")
        for one in workloads
    ]
    counted = Counter(placed)
    return tuple(
        f"{name} ({one.gate})" if counted[name] > 1 and one.gate else name
        for name, one in zip(placed, workloads, strict=True)
    )
