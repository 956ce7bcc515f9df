"""What `perfgate calibrate` found, as text: SDs next to the defaults, what a gate can see, and which
budgets hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perfgate.model.baseline import Spread
from perfgate.model.metric import METRICS, Basis, Metric, TimeSpec
from perfgate.render.page import Cell, Page, Row
from perfgate.render.records import moment
from perfgate.words import numbers
from perfgate.words.escape import one_line
from perfgate.words.names import plural

PROMINENT = (Metric.STEP_MS, Metric.KERNEL_MS)
"""The times whose smallest slowdown is said in a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpreadRow:
    """One time metric. All numbers are fractions in its basis."""

    metric: Metric
    spread: Spread
    budget: float
    smallest: float
    """What the first look of a gate can show."""
    in_the_end: float
    """What all that a gate may measure can show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationHead:
    """Where the numbers come from."""

    workload: str
    machine: str
    runs: int
    occasions: int
    first: datetime
    last: datetime
    gate_runs: int
    """Runs of a gate's first look."""
    in_the_end: str
    """What a gate does where that does not suffice: `with 10 runs`, `in an A/B run`."""


COLUMNS = ("metric", ">run SD", ">occasion SD", ">defaults", ">smallest", ">budget", "held")


def calibration_text(
    head: CalibrationHead,
    rows: Sequence[SpreadRow],
    *,
    width: int,
    colour: bool,
    information: Sequence[str] = (),
    path: str | None = None,
) -> str:
    """Return what was found of one workload, and where it was written."""
    page = Page(width=width, colour=colour)
    measured = f"{plural(head.runs, 'unchanged run')} over {plural(head.occasions, 'occasion')}"
    page.line(
        Cell(text=one_line(head.workload), style="bold"),
        f": {measured} on {one_line(head.machine)}",
    )
    span = moment(head.first) + (f" to {moment(head.last)}" if head.first != head.last else "")
    page.prose(span, label="measured")
    sees = [
        f"{numbers.percent(row.smallest)} of {row.metric}"
        for metric in PROMINENT
        for row in rows
        if row.metric is metric
    ]
    if sees:
        page.prose(
            f"The smallest slowdown this gate can see here is {' and '.join(sees)}.",
            label="sees",
            style="bold",
        )
    page.blank()
    page.table(COLUMNS, [_row(row, head) for row in rows])
    page.blank()
    page.prose(
        f"smallest: the loss that a gate of {head.gate_runs} runs tells from noise in half of all cases. "
        f"held: whether a loss of the size of the budget shows with {head.gate_runs} runs, or {head.in_the_end}."
        + (
            " pp: percentage points of a step."
            if any(_spec(row).basis is Basis.STEP for row in rows)
            else ""
        ),
        style="dim",
    )
    for row in rows:
        if row.in_the_end > row.budget:
            page.prose(
                f"{row.metric} cannot be held to {_limit(row.budget, row)}: set a budget of at least "
                f"{_limit(_rounded_up(row.in_the_end), row)}.",
                label="budget",
                style="yellow",
            )
    for note in information:
        page.prose(note, label="note")
    if path is not None:
        page.file(path)
    return page.text


def _row(row: SpreadRow, head: CalibrationHead) -> Row:
    spec = _spec(row)
    unit = spec.basis.unit
    return (
        row.metric.value,
        f"{_hundredths(row.spread.run_sd)} {unit}",
        # Of one occasion the record holds the default, which is no finding.
        f"{_hundredths(row.spread.occasion_sd)} {unit}"
        if row.spread.occasions > 1
        else "not known",
        f"{100 * spec.prior_sd:g}, {100 * spec.occasion_sd:g} {unit}",
        f"{_hundredths(row.smallest)} {unit}",
        _limit(row.budget, row),
        _held(row, head),
    )


def _held(row: SpreadRow, head: CalibrationHead) -> Cell:
    if row.smallest <= row.budget:
        return Cell(text="yes", style="green")
    if row.in_the_end <= row.budget:
        return Cell(text=head.in_the_end)
    return Cell(text=f"no: >= {_limit(_rounded_up(row.in_the_end), row)}", style="bold yellow")


def _spec(row: SpreadRow) -> TimeSpec:
    spec = METRICS[row.metric].time
    assert spec is not None
    return spec


def _limit(fraction: float, row: SpreadRow) -> str:
    return numbers.limit(fraction, _spec(row).basis.unit)


def _rounded_up(fraction: float) -> float:
    """To a tenth of a per cent; a budget rounded down would not hold."""
    return math.ceil(round(1000 * fraction, 6)) / 1000


def _hundredths(fraction: float) -> str:
    return f"{100 * fraction:.2f}"
