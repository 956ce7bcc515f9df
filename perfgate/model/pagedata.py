"""What the HTML page of a gate is made of: the gate, and next to each verdict what was measured and
one step drawn (times in it are microseconds from where it begins)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import NonNegativeFloat, PositiveInt

from perfgate.model.comparison import Side
from perfgate.model.document import (
    DocumentRun,
    DocumentWorkload,
    GateDocument,
    GatedWorkload,
    GateSummary,
)
from perfgate.model.history import Point
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS
from perfgate.model.note import NoteOrText
from perfgate.model.outcome import PASSING, WORST_FIRST
from perfgate.model.record import Format2, Record
from perfgate.words.escape import escape_json


class Bar(Record):
    """One range, GPU operation or idle time; or several neighbours, too small to be drawn apart, as
    one."""

    start_us: float
    length_us: NonNegativeFloat
    name: str
    """Of several the one that lasted longest."""
    count: PositiveInt = 1
    """How many it stands for."""
    busy_us: float | None = None
    """Of several: how long they lasted together, without what lies between them; None of one."""


class Lane(Record):
    """Bars that are drawn on one line: they do not overlap."""

    title: str
    """`CPU`, `GPU 0 stream 7`, `GPU 0 idle`."""
    kind: Literal["range", "kernel", "nccl", "graph", "copy", "memset", "idle"]
    bars: tuple[Bar, ...] = ()

    @property
    def count(self) -> int:
        """How many ranges, operations or idle times there are."""
        return sum(bar.count for bar in self.bars)

    @property
    def busy_us(self) -> float:
        """How long they lasted together."""
        return sum(bar.length_us if bar.busy_us is None else bar.busy_us for bar in self.bars)

    @property
    def longest(self) -> Bar | None:
        """The bar that lasts longest."""
        return max(self.bars, key=lambda bar: bar.length_us, default=None)


class StepView(Record):
    """The ranges of one step's thread, outermost first, if any lie here; then each GPU's streams
    and idle time."""

    label: NoteOrText
    """Which it is: `run-2, step 14 of 30`."""
    length_us: float
    """From the completion of the step before it to its own; where no period counts, from its
    range's begin."""
    lanes: tuple[Lane, ...]
    operations: int
    """Ranges, GPU operations and idle times there were."""
    drawn: int
    """Bars that stand for them."""
    pixel_us: float = 0
    """Neighbours that begin within this and are each shorter than it are one bar; 0 where none were
    merged."""
    source: str = ""
    """The capture's file, relative to the project."""


PAGE_FORMAT: Final = 2
"""History: 1, the first; 2 adds what format 2 of the document does."""


class SideDifference(Record):
    """One fact of the environment that is not as it was."""

    name: str
    before: str | None
    """None where the baseline does not say it."""
    now: str | None


class PageWorkload(GatedWorkload):
    """One workload: its verdict, and whatever is known besides; what is not known is left out of
    the page."""

    baseline: Side | None = None
    """The blessed runs."""
    candidate: Side | None = None
    """This gate's runs: of an A/B run those that were judged."""
    other: Side | None = None
    """Of an A/B run: the runs of the commit that the candidate was compared with."""
    baseline_step: StepView | None = None
    candidate_step: StepView | None = None
    steps_left_out: bool = False
    """Whether the steps are not here because all of them together would be too large."""
    other_runs: tuple[DocumentRun, ...] = ()
    """Those of the other commit."""
    environment: tuple[SideDifference, ...] | None = None
    """None where it was not compared; empty where nothing differs."""
    history: tuple[Point, ...] = ()
    """step_ms of what was blessed, oldest first."""
    commands: tuple[str, ...] = ()
    """Commands for a shell that measure or explain it again."""
    baseline_file: str | None = None
    """Relative to the project's root."""


class PageData(GateSummary):
    """One gate, as a page shows it, or several that were merged."""

    format: Format2 = PAGE_FORMAT
    workloads: tuple[PageWorkload, ...] = ()


MOST_DATA_BYTES: Final = 48_000_000
"""Of a page's data; `perfgate merge` reads no more than 64 MB."""


def page_data(document: GateDocument) -> PageData:
    """Return a page of what the document holds: no blessed runs, breakdowns, timelines or
    history.
    """
    shared = {
        name: getattr(document, name) for name in GateSummary.model_fields if name != "format"
    }
    return PageData(
        **shared, workloads=tuple(_workload(one, document) for one in document.workloads)
    )


def _workload(one: DocumentWorkload, document: GateDocument) -> PageWorkload:
    judged = one.interleaved_runs or one.runs
    machine = one.machine or document.machine
    ab_run = one.verdict.ab_run
    other = ab_run.revision if ab_run is not None else "the other commit"
    shared = {name: getattr(one, name) for name in GatedWorkload.model_fields}
    return PageWorkload(
        **{**shared, "runs": judged},
        candidate=_side("candidate", judged, machine) if judged else None,
        other=_side(other, one.reference_runs, machine) if one.reference_runs else None,
        other_runs=one.reference_runs,
        baseline_file=one.baseline,
    )


def _side(label: str, runs: Sequence[DocumentRun], machine: Machine | None) -> Side:
    by_metric = {
        metric: tuple(run.values[metric] for run in runs if metric in run.values)
        for metric in METRICS
    }
    held = {metric: values for metric, values in by_metric.items() if values}
    return Side(label=label, values=held, machine=machine)


def small_enough(data: PageData, *, most_bytes: int = MOST_DATA_BYTES) -> PageData:
    """Return a page whose data is no larger than `most_bytes`: the steps of passing workloads are
    left out, then all, and the page says so.

    What is left then is in it however large it is.
    """
    for outcomes in (PASSING, WORST_FIRST):
        if len(page_data_text(data).encode()) > most_bytes:
            workloads = (
                _without_steps(one) if one.verdict.outcome in outcomes else one
                for one in data.workloads
            )
            data = data.model_copy(update={"workloads": tuple(workloads)})
    return data


def _without_steps(one: PageWorkload) -> PageWorkload:
    if one.baseline_step is None and one.candidate_step is None:
        return one
    without = {"baseline_step": None, "candidate_step": None, "steps_left_out": True}
    return one.model_copy(update=without)


def page_data_text(data: PageData) -> str:
    """Return what a page is made of as JSON on one line, but for what is as it is by default."""
    text = escape_json(data.model_dump_json(exclude_defaults=True))
    # The format is a default as well, and must be one.
    return f'{{"format":{data.format},{text[1:]}\n'
