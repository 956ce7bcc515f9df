"""What `perfgate calibrate` found, as text: SDs next to the defaults, what a gate can see, and which
budgets hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perfgate.model.baseline import Spread
from perfgate.model.metric import METRICS, Metric
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

    @property
    def unit(self) -> str:
        """Of its fractions, in hundredths: `%` or `pp`."""
        return METRICS[self.metric].basis.unit

    @property
    def holdable(self) -> float:
        """The least budget that holds: rounded up to a tenth of a per cent."""
        return math.ceil(round(1000 * self.in_the_end, 6)) / 1000

    def limit(self, budget: float) -> str:
        """Write a budget."""
        return numbers.limit(budget, self.unit)


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
    name = Cell(text=one_line(head.workload), style="bold")
    page.line(name, f": {measured} on {one_line(head.machine)}")
    span = moment(head.first) + (f" to {moment(head.last)}" if head.first != head.last else "")
    page.prose(span, label="measured")
    sees = [
        f"{numbers.percent(row.smallest)} of {row.metric}"
        for metric in PROMINENT
        for row in rows
        if row.metric is metric
    ]
    if sees:
        text = f"The smallest slowdown this gate can see here is {' and '.join(sees)}."
        page.prose(text, label="sees", style="bold")
    page.blank()
    page.table(COLUMNS, [_row(row, head) for row in rows])
    page.blank()
    with_points = any(row.unit == "pp" for row in rows)
    page.prose(
        f"smallest: the loss that a gate of {head.gate_runs} runs tells from noise in half of all "
        "cases. held: whether a loss of the size of the budget shows with "
        f"{head.gate_runs} runs, or {head.in_the_end}."
        + (" pp: percentage points of a step." if with_points else ""),
        style="dim",
    )
    unheld = [
        f"{row.metric} cannot be held to {row.limit(row.budget)}: set a budget of at least "
        f"{row.limit(row.holdable)}."
        for row in rows
        if row.in_the_end > row.budget
    ]
    page.facts(*(("budget", text) for text in unheld), style="yellow")
    page.facts(*(("note", text) for text in information))
    page.file(path)
    return page.text


def _row(row: SpreadRow, head: CalibrationHead) -> Row:
    prior = METRICS[row.metric].time
    assert prior is not None

    def hundredths(fraction: float) -> str:
        return f"{numbers.hundredths(fraction, 2, signed=False)} {row.unit}"

    # Of one occasion the record holds the default, which is no finding.
    occasion_sd = hundredths(row.spread.occasion_sd) if row.spread.occasions > 1 else "not known"
    if row.smallest <= row.budget:
        held = Cell(text="yes", style="green")
    elif row.in_the_end <= row.budget:
        held = Cell(text=head.in_the_end)
    else:
        held = Cell(text=f"no: >= {row.limit(row.holdable)}", style="bold yellow")
    return (
        row.metric.value,
        hundredths(row.spread.run_sd),
        occasion_sd,
        f"{100 * prior.prior_sd:g}, {100 * prior.occasion_sd:g} {row.unit}",
        hundredths(row.smallest),
        row.limit(row.budget),
        held,
    )
