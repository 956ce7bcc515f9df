"""One gate as a JSON document, for `--perfgate-json FILE` and for whatever reads it; its page
shares what is said of the gate as a whole and of each run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from perfgate.model.baseline import Commit
from perfgate.model.errors import EXIT_SHUT
from perfgate.model.loosening import Loosening
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric, Values
from perfgate.model.note import Note, Notes
from perfgate.model.record import Format2, Moment, Record
from perfgate.model.sample import Form, Run, why_absent
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.words import say


class PartChosen(Record):
    """Which part of the workloads somebody chose on the command line of a gate."""

    by: tuple[str, ...] = Field(min_length=1)
    """Options, and `path` for files and folders."""
    workloads: NonNegativeInt
    of: NonNegativeInt
    """Those that were collected or have a baseline for this machine."""


class Shard(Record):
    """Which part of the workloads a gate measures, and of which: each shard divides what it has
    collected itself."""

    index: int = Field(ge=1, le=9999)
    """From 1."""
    of: int = Field(ge=1, le=9999)
    workloads: tuple[str, ...] | None = None
    """By id and sorted, all that the shards divided among them; None before, and of an older
    perfgate, which did not say."""
    skipped: tuple[str, ...] = ()
    """Those of its own part that a mark or condition skipped: nothing else is said of them."""

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
    workloads: NonNegativeInt


class GateSummary(Record):
    """One gate, or several that were merged, without its workloads."""

    format: int
    perfgate: str
    """The version of perfgate that wrote this."""
    started_at: Moment
    ended_at: Moment
    opens_gate: bool
    exit_status: NonNegativeInt
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
    information: tuple[str, ...] = Field(default=(), validation_alias="remarks")
    """Of merged gates only: what is to be known and keeps nothing shut."""
    loosening: Loosening | None = None
    """How it differs from the gate of the branch that it is for; None where nobody asked."""
    settings: Settings


DOCUMENT_FORMAT: Final = 2
"""History: 1, the first; 2 adds the commit's tree, the form of each run, the environment and held
budgets."""


class DocumentRun(Record):
    """One run: what it measured per step, the worst of its processes, and how the machine felt."""

    started_at: Moment
    wall_s: float
    form: Form | None = None
    """None where it was not noted."""
    sm_clock_mhz: float | None = None
    absent: Mapping[Metric, str] = {}
    """Why a metric could not be measured."""
    invalid: tuple[str, ...] = Field(default=(), validation_alias="complaints")
    """What makes the run INVALID."""
    information: tuple[str, ...] = Field(default=(), validation_alias="remarks")
    notes: Notes = ()
    """Both as codes with fields."""
    reasons: Mapping[Metric, Note] = {}
    """Of what is absent, likewise."""
    values: Values = {}

    @classmethod
    def of(cls, run: Run) -> DocumentRun:
        """Take what a document says of a run."""
        values = run.measured()
        unmeasured = [metric for metric in Metric if metric not in values]
        absent = {m: why for m in unmeasured if (why := why_absent([run], m)) is not None}
        return cls(
            started_at=run.started_at,
            wall_s=run.wall_s,
            form=run.form,
            values=values,
            absent={metric: say.fact(reason) for metric, reason in absent.items()},
            sm_clock_mhz=run.conditions.sm_clock_mhz,
            invalid=tuple(map(say.fact, (*run.conditions.invalid, *run.invalid))),
            information=tuple(say.fact(one) for one in run.notes if one not in run.invalid),
            notes=run.notes,
            reasons=absent,
        )


class GatedWorkload(Record):
    """What a document and a page both say of a workload."""

    verdict: Verdict
    opens_gate: bool
    runs: tuple[DocumentRun, ...] = ()
    """The candidate's."""
    files: str | None = None
    """Where the result and its captures are kept, relative to the project's root."""
    machine: Machine | None = None
    """Of merged gates only: where it was measured."""
    gate: str = ""
    """Of merged gates only: the label of the gate that it came from."""


class DocumentWorkload(GatedWorkload):
    """One workload: its verdict, whether that opens the gate, and its runs."""

    reference_runs: tuple[DocumentRun, ...] = ()
    """Of an A/B run: those of the commit that the candidate was compared with."""
    interleaved_runs: tuple[DocumentRun, ...] = ()
    """The candidate's of an A/B run of blocks."""
    environment: Mapping[str, str] | None = None
    """Environment variables of its processes that may change how fast they are; None where they
    were not noted."""
    held: Values = {}
    """Budgets, as fractions, that its baseline holds in place of smaller ones."""
    baseline: str | None = None
    """The baseline's file, relative to the project's root."""
    source: str | None = None
    """The file that declares the workload, POSIX, relative to the project's root; None where it
    lies elsewhere."""
    line: PositiveInt | None = None
    """Of `source`, from 1."""


class GateDocument(GateSummary):
    """All that one gate found, or several gates that were merged."""

    format: Format2 = DOCUMENT_FORMAT
    shard: Shard | None = None
    """Which part of the workloads it measured; None where it was not one of several."""
    workloads: tuple[DocumentWorkload, ...] = ()

    def shut_also_by(self, shut: Note) -> GateDocument:
        """The same gate with what else keeps it shut."""
        sentence = say.in_one_line(shut)
        if sentence in self.shut_by:
            return self
        update = {
            "opens_gate": False,
            "exit_status": max(self.exit_status, EXIT_SHUT),
            "shut_by": (*self.shut_by, sentence),
            "shut_codes": (*self.shut_codes, shut.code),
        }
        return self.model_copy(update=update)


def declared_at(workload: Workload) -> tuple[str | None, int | None]:
    """Where a workload is declared: `DocumentWorkload.source` and `line`. A command's file begins
    with it."""
    path = PurePosixPath(workload.source)
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(workload.source).drive:
        return None, None
    if workload.form == "command":
        return workload.source, 1
    # pytest counts lines from 0.
    return workload.source, None if workload.line is None else workload.line + 1
