"""What the HTML page of a gate is made of: the gate, and beside each verdict what was measured and one step drawn."""

from __future__ import annotations

from typing import Final

from perfgate.model.history import Point
from perfgate.model.machine import Machine
from perfgate.model.record import Format2, Record
from perfgate.model.side import Side
from perfgate.model.stepview import StepView
from perfgate.model.told import ToldGate, ToldRun
from perfgate.model.verdict import Verdict

PAGE_FORMAT: Final = 2
"""History: 1, the first; 2 adds what format 2 of the document does."""


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
    runs: tuple[ToldRun, ...] = ()
    """The candidate's runs."""
    other_runs: tuple[ToldRun, ...] = ()
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


class PageData(ToldGate):
    """One gate, as a page shows it, or several that were merged."""

    format: Format2 = PAGE_FORMAT
    workloads: tuple[PageWorkload, ...] = ()
