"""What a gate's JSON document and its page both say: of the gate as a whole, and of each run."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import AliasChoices, Field

from perfgate.model.baseline import Commit
from perfgate.model.loosening import Loosening
from perfgate.model.machine import Machine
from perfgate.model.merged import MergedGate
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.record import Moment, Record
from perfgate.model.sample import Form
from perfgate.model.settings import Settings


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
