"""What `perfgate calibrate` found, as text: SDs next to the defaults, what a gate can see, and
which budgets hold."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.model.history import CalibratedTime, Calibration
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note
from perfgate.render.page import Cell, Page, Row
from perfgate.render.records import moment
from perfgate.words import numbers, say
from perfgate.words.escape import one_line
from perfgate.words.numbers import plural

PROMINENT = (Metric.STEP_MS, Metric.KERNEL_MS)
"""The times whose smallest slowdown is said in a sentence."""

COLUMNS = ("metric", ">run SD", ">occasion SD", ">defaults", ">smallest", ">budget", "held")


def calibration_text(
    page: Page, found: Calibration, held: Sequence[Note], *, path: str | None = None
) -> str:
    """Return what was found of one workload, what a gate holds it to, and where it was written."""
    rows, baseline = found.times, found.baseline
    measured = f"{plural(found.runs, 'unchanged run')} over {plural(found.occasions, 'occasion')}"
    name = Cell(text=one_line(baseline.workload), style="bold")
    page.line(name, f": {measured} on {one_line(baseline.machine.gpu_name)}")
    span = moment(found.first) + (f" to {moment(found.last)}" if found.first != found.last else "")
    page.prose(span, label="measured")
    sees = [
        f"{numbers.percent(row.smallest)} of {row.metric}"
        for row in rows
        if row.metric in PROMINENT
    ]
    if sees:
        text = f"The smallest slowdown this gate can see here is {' and '.join(sees)}."
        page.prose(text, label="sees", style="bold")
    page.blank()
    page.table(COLUMNS, [_row(row, found) for row in rows])
    page.blank()
    with_points = any(row.unit == "pp" for row in rows)
    page.prose(
        f"smallest: the loss that a gate of {found.gate_runs} runs tells from noise in half of all "
        "cases. held: whether a loss of the size of the budget shows with "
        f"{found.gate_runs} runs, or {_in_the_end(found)}."
        + (" pp: percentage points of a step." if with_points else ""),
        style="dim",
    )
    page.facts(*(("note", say.in_one_line(one)) for one in (*found.notes, *held)))
    page.file(path)
    return page.text


def _row(row: CalibratedTime, found: Calibration) -> Row:
    prior = METRICS[row.metric].time
    assert prior is not None

    def hundredths(fraction: float) -> str:
        return f"{numbers.hundredths(fraction, 2, signed=False)} {row.unit}"

    # Of one occasion the record holds the default, which is no finding.
    occasion_sd = hundredths(row.spread.occasion_sd) if row.spread.occasions > 1 else "not known"
    if row.smallest <= row.budget:
        held = Cell(text="yes", style="green")
    elif row.in_the_end <= row.budget:
        held = Cell(text=_in_the_end(found))
    else:
        held = Cell(text=f"no: >= {_limit(row, row.holdable)}", style="bold yellow")
    return (
        row.metric.value,
        hundredths(row.spread.run_sd),
        occasion_sd,
        f"{100 * prior.prior_sd:g}, {100 * prior.occasion_sd:g} {row.unit}",
        hundredths(row.smallest),
        _limit(row, row.budget),
        held,
    )


def _in_the_end(found: Calibration) -> str:
    """What a gate does where stored runs do not suffice."""
    return "in an A/B run" if found.ab_run else f"with {found.gate_runs} runs"


def _limit(row: CalibratedTime, budget: float) -> str:
    return numbers.limit(budget, row.unit)
