"""What the HTML page of a gate is made of: the gate, and beside each verdict what was measured and one step drawn."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from perfgate.model.baseline import Commit
from perfgate.model.history import Point
from perfgate.model.machine import Machine
from perfgate.model.merged import MergedGate
from perfgate.model.metric import Metric
from perfgate.model.record import Record
from perfgate.model.settings import Settings
from perfgate.model.side import Side
from perfgate.model.stepview import StepView
from perfgate.model.verdict import Verdict

PAGE_FORMAT: Final = 1
"""History: 1, the first."""


class PageRun(Record):
    """One run beyond its values: when it was made and how the machine felt."""

    started_at: datetime
    wall_s: float
    sm_clock_mhz: float | None = None
    absent: Mapping[Metric, str] = {}
    """Why a metric could not be measured."""
    complaints: tuple[str, ...] = ()
    """What makes the run INVALID."""
    remarks: tuple[str, ...] = ()


class Difference(Record):
    """One fact of the environment that is not as it was."""

    name: str
    before: str | None
    """None where the baseline does not tell it."""
    now: str | None


class PageWorkload(Record):
    """One workload: its verdict, and whatever is known beside it; what is not known is left out of the page."""

    verdict: Verdict
    opens_gate: bool
    baseline: Side | None = None
    """The blessed runs."""
    candidate: Side | None = None
    """This gate's runs: of a duet those that were judged."""
    other: Side | None = None
    """Of a duet: the runs of the commit that the candidate was compared with."""
    baseline_step: StepView | None = None
    candidate_step: StepView | None = None
    steps_left_out: bool = False
    """Whether the steps are not here because all of them together would be too large."""
    runs: tuple[PageRun, ...] = ()
    """The candidate's runs."""
    other_runs: tuple[PageRun, ...] = ()
    """Those of the other commit."""
    environment: tuple[Difference, ...] | None = None
    """None where it was not compared; empty where nothing differs."""
    history: tuple[Point, ...] = ()
    """step_ms of what was blessed, oldest first."""
    commands: tuple[str, ...] = ()
    """Commands for a shell that measure or explain it again."""
    baseline_file: str | None = None
    """Relative to the project's root, as `files`."""
    files: str | None = None
    """Where the result and its captures are kept."""
    machine: Machine | None = None
    """In a merged page only: where it was measured."""
    gate: str = ""
    """In a merged page only: the label of the gate that it came from."""


class PageData(Record):
    """One gate, as a page shows it, or several that were merged."""

    format: Literal[1] = PAGE_FORMAT
    perfgate: str
    """The version of perfgate that measured."""
    started_at: datetime
    ended_at: datetime
    opens_gate: bool
    exit_status: int = Field(ge=0)
    """What pytest exits with."""
    shut_by: tuple[str, ...] = ()
    """One sentence for each thing that keeps the gate shut."""
    machine: Machine | None = None
    """None where the gate ended before it was read, and where gates of several machines were merged."""
    commit: Commit | None = None
    """What was checked out; None where git did not say."""
    label: str = ""
    """Which gate of several this is, in the words of whoever started it."""
    gates: tuple[MergedGate, ...] = ()
    """In a merged page only: what it was made of."""
    remarks: tuple[str, ...] = ()
    """In a merged page only: what is to be known and keeps nothing shut."""
    settings: Settings
    workloads: tuple[PageWorkload, ...] = ()
