"""The blessed baselines of a workload through git's history, as text and as JSON; and what
`perfgate calibrate` found of one, as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from perfgate.model.history import (
    BlessedVersion,
    CalibratedTime,
    Calibration,
    History,
    MachineHistory,
)
from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.note import Note
from perfgate.render.page import Page, Row
from perfgate.render.records import moment
from perfgate.words import numbers, say
from perfgate.words.escape import one_line
from perfgate.words.numbers import plural

_SHA: Final = 8
_LONGEST_REASON: Final = 400


def history_text(page: Page, history: History) -> str:
    """Return the baselines of a workload, newest last, in a table a machine."""
    for number, machine in enumerate(history.machines):
        if number:
            page.blank()
        blessings = sum(version.state == "blessed" for version in machine.versions)
        page.heading(
            history.workload, f" on {one_line(machine.gpu)}: {plural(blessings, 'blessing')}"
        )
        page.blank()
        _table(page, machine, history.metric)
        for version in machine.versions:
            _notes(page, version)
    if history.shallow:
        text = "This clone is shallow: what is older is not in it. Fetch it: git fetch --unshallow"
        page.blank()
        page.prose(text, label="history", style="yellow")
    return page.text


def history_json(history: History) -> str:
    """Return the same as JSON in plain ASCII, in the order of the record's fields."""
    return json.dumps(history.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"


def _table(page: Page, machine: MachineHistory, metric: Metric) -> None:
    titles = ("when", "by", "commit", f">{metric}", ">change", ">best", "reason*")
    page.table(titles, [_row(version, metric) for version in machine.versions], indent=0)
    if any(version.change is not None for version in machine.versions):
        points = (
            "; pp: percentage points of its step" if METRICS[metric].basis is Basis.STEP else ""
        )
        page.prose(
            f"change: against the one before; best: against the best step ever blessed{points}",
            style="dim",
        )


def _row(version: BlessedVersion, metric: Metric) -> Row:
    state = "none" if version.state == "blessed" else version.state
    value, best = version.values.get(metric), version.since_anchor
    return [
        "" if version.at is None else moment(version.at)[:10],
        one_line(version.by.partition(" <")[0], longest=20),
        _commit(version),
        state if value is None else numbers.value(metric, value),
        "" if version.change is None else _change(version.change, version, metric),
        "" if best is None else numbers.change(best, Basis.LOG.unit),
        one_line(" ".join(version.reason.split()), longest=_LONGEST_REASON),
    ]


def _change(change: float, version: BlessedVersion, metric: Metric) -> str:
    text = numbers.change(change, METRICS[metric].basis.unit)
    return f"{text} *" if version.unlike else text


def _commit(version: BlessedVersion) -> str:
    return "none yet" if version.commit is None else one_line(version.commit[:_SHA])


def _notes(page: Page, version: BlessedVersion) -> None:
    if version.why is not None:
        text = f"{_commit(version)}: {say.predicate(version.why)}"
        page.prose(text, label="unreadable", style="yellow")
    for one in version.unlike:
        page.prose(f"{_commit(version)}: {say.fact(one)}", label="* not alike")


# What `perfgate calibrate` found: SDs next to the defaults, what a gate sees, which budgets hold

PROMINENT = (Metric.STEP_MS, Metric.KERNEL_MS)
"""The times whose smallest slowdown is said in a sentence."""

CALIBRATED = ("metric", ">run SD", ">occasion SD", ">defaults", ">smallest", ">budget")


def calibration_text(
    page: Page, found: Calibration, held: Sequence[Note], *, path: str | None = None
) -> str:
    """Return what was found of one workload, what a gate holds it to, and where it was written."""
    rows, baseline = found.times, found.baseline
    measured = f"{plural(found.runs, 'unchanged run')} over {plural(found.occasions, 'occasion')}"
    page.heading(baseline.workload, f": {measured} on {one_line(baseline.machine.gpu_name)}")
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
    page.table(CALIBRATED, [_time(row) for row in rows])
    page.blank()
    with_points = any(row.unit == "pp" for row in rows)
    page.prose(
        f"smallest: the loss that a gate of {found.gate_runs} runs tells from noise in half of all "
        "cases; what it holds in the end, by an A/B run where it may make one, stands below."
        + (" pp: percentage points of a step." if with_points else ""),
        style="dim",
    )
    page.facts("note", map(say.in_one_line, (*found.notes, *held)))
    page.file(path)
    return page.text


def _time(row: CalibratedTime) -> Row:
    prior = METRICS[row.metric].time
    assert prior is not None

    def hundredths(fraction: float) -> str:
        return f"{numbers.hundredths(fraction, 2, signed=False)} {row.unit}"

    # Of one occasion the record holds the default, which is no finding.
    occasion_sd = hundredths(row.spread.occasion_sd) if row.spread.occasions > 1 else "not known"
    return (
        row.metric.value,
        hundredths(row.spread.run_sd),
        occasion_sd,
        f"{100 * prior.prior_sd:g}, {100 * prior.occasion_sd:g} {row.unit}",
        hundredths(row.smallest),
        numbers.limit(row.budget, row.unit),
    )
