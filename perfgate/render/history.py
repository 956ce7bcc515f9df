"""The blessed baselines of a workload through git's history, as text and as JSON."""

from __future__ import annotations

import json
from typing import Final

from perfgate.model.history import BlessedVersion, History, MachineHistory
from perfgate.model.metric import METRICS, Basis, Metric
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
