"""What a gate takes and gives: what is expected, what the user decided, who makes runs, what came of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from perfgate.model.baseline import FEWEST_RUNS, Baseline
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    CaptureFailed,
    CaptureUnreadable,
    CodeStale,
    CodeUnproven,
    GpuTaken,
    LayoutUnknown,
    MachineUnreadable,
    NsysCrashed,
    NsysNotFound,
    NsysUnsupported,
    RepositoryUnreadable,
    RevisionMissing,
    StepsNotFound,
    StoreFailed,
    WorkloadFailed,
    WorkloadTimedOut,
    WorktreeFailed,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import OnInconclusive, OnNew
from perfgate.model.record import Record
from perfgate.model.sample import Run
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload

NOT_MEASURED_BY = (
    CaptureFailed,
    CaptureUnreadable,
    CodeStale,
    GpuTaken,
    LayoutUnknown,
    MachineUnreadable,
    NsysCrashed,
    NsysNotFound,
    NsysUnsupported,
    StepsNotFound,
    StoreFailed,
    WorkloadFailed,
    WorkloadTimedOut,
)
"""Errors that leave a workload without a measurement; any other error is a bug and stays one."""


NO_DUET_BY = (CodeUnproven, RepositoryUnreadable, RevisionMissing, WorktreeFailed)
"""Errors that leave a gate without the other side of a duet."""


class Expectation(Record):
    """One workload with what its baseline is on this machine."""

    workload: Workload
    machine: Machine
    baseline: Baseline | None = None
    trouble: str | None = None
    """Why a baseline that is there cannot be used, as a whole message."""
    elsewhere: tuple[str, ...] = ()
    """GPUs that have a baseline of this workload, where this machine's has none."""
    misplaced: tuple[str, ...] = ()
    """Files of baselines of this workload and this very machine, in folders that are not its own; of them likewise."""


class Policy(Record):
    """What the user decided about runs, budgets and doubtful outcomes."""

    runs: int = Field(default=3, ge=1)
    new_runs: int = Field(default=FEWEST_RUNS, ge=1)
    """Runs where there is no baseline to compare with."""
    max_runs: int = Field(default=29, ge=1)
    """Of the candidate and, in a duet, of the commit that it is compared with, together."""
    stops_early: bool = True
    """Whether a count that rose, and rose again, ends the gate before its first look; not where runs were asked for."""
    budgets: Mapping[Metric, float] = {}
    anchor_budget: float = Field(default=0.05, gt=0)
    """What step_ms may lose against the best ever blessed."""
    workloads: int = Field(default=1, ge=1)
    """Among how many workloads of this gate the clocks share the error."""
    on_inconclusive: OnInconclusive = OnInconclusive.FAIL
    on_new: OnNew = OnNew.FAIL

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        workload: Workload | None,
        *,
        runs_given: bool,
        budgets_given: Collection[Metric] = (),
        workloads: int = 1,
    ) -> Policy:
        """The policy for one workload; `runs_given` tells a user's own number of runs from the default.

        The workload's own budgets win over those of the settings, and over both those `budgets_given` by an option.
        """
        own = {} if workload is None else workload.budgets
        return cls(
            anchor_budget=settings.anchor_budget,
            workloads=workloads,
            runs=settings.runs,
            new_runs=settings.runs
            if runs_given
            else min(max(settings.runs, FEWEST_RUNS), settings.max_runs),
            max_runs=max(settings.max_runs, settings.runs),
            stops_early=not runs_given,
            budgets={
                **settings.budgets,
                **{metric: budget for metric, budget in own.items() if metric not in budgets_given},
            },
            on_inconclusive=settings.inconclusive,
            on_new=settings.new,
        )

    def opens(self, verdict: Verdict) -> bool:
        """Whether a verdict lets the build pass."""
        return verdict.opens(on_inconclusive=self.on_inconclusive, on_new=self.on_new)


class Checked(Record):
    """One workload's verdict with the runs it rests on."""

    verdict: Verdict
    runs: tuple[Run, ...] = ()
    """The candidate's that may be compared with stored ones: not those of an interleaved duet."""
    reference_runs: tuple[Run, ...] = ()
    """Of a duet: the runs of the commit that the candidate was compared with."""
    interleaved_runs: tuple[Run, ...] = ()
    """The candidate's in an interleaved duet: of more steps, on one CPU core."""
    environment: Mapping[str, str] | None = None
    """Environment variables of its processes that may change how fast they are; None where they were not seen."""


class Closing(Record):
    """What a whole invocation amounts to."""

    opens: bool
    shut_by: tuple[str, ...] = ()
    """One sentence for each thing that keeps the gate shut."""

    @property
    def exit_status(self) -> int:
        """0 only where every expected workload was measured and opens the gate."""
        return EXIT_OPEN if self.opens else EXIT_SHUT


class Series(Protocol):
    """Makes the runs of one workload: fresh ones, or recorded ones."""

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the runs so far have really loaded."""

    def measure(self, index: int, planned: int) -> Run:
        """Make run `index` (from 0) of at present `planned` runs; may raise any of `NOT_MEASURED_BY`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One run of each side of a duet, made one right after the other."""

    reference: Run
    candidate: Run
    cores: tuple[float | None, float | None] = (None, None)
    """CPU cores that the reference's and the candidate's steps kept busy, where each ran alone and that is known."""


class Duel(Protocol):
    """Makes the pairs of a duet: another commit and the candidate, each in a fresh process, in ABBA order."""

    @property
    def revision(self) -> str:
        """The other commit as it was asked for."""

    @property
    def commit(self) -> str:
        """Its SHA."""

    def pair(self, index: int, planned: int) -> Pair:
        """Make pair `index` (from 0) of at present `planned` pairs.

        May raise any of `NOT_MEASURED_BY` for the candidate's run, any of `NO_DUET_BY` for the other's.
        """

    def alone(self) -> Pair:
        """Make one run of either side as a gate without a duet does, whatever form the pairs are of; raises the same.

        For interleaved pairs, which are made on one core, to be held against.
        """


OpenDuel = Callable[[], AbstractContextManager[Duel]]
"""Makes the other commit ready to run, and clears up after it; may raise any of `NO_DUET_BY`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forms:
    """The forms of a duet that are at hand; None of what is not wanted, or not possible."""

    alternate: OpenDuel | None = None
    interleaved: OpenDuel | None = None


Affords = Callable[[int, float], bool]
"""Whether so many more runs, of so many seconds each, are within the gate's budget of time."""
