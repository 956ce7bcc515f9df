"""The page as a whole: overview, sections and foot in one file, with a policy that lets nothing else run or load."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from string import Template
from typing import Final

from perfgate.model.loosening import Loosening
from perfgate.model.merged import MergedGate, shown_names
from perfgate.model.metric import METRICS, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageData
from perfgate.model.settings import Settings
from perfgate.model.words import inflected
from perfgate.render.document import reasons_besides
from perfgate.render.html.markup import Td, Th, listed, name, table, words
from perfgate.render.html.sections import (
    PASSING,
    SYMBOLS,
    WORST_FIRST,
    Placed,
    badge,
    identities,
    machine_list,
    section,
    steps_of,
)
from perfgate.render.loosening import NONE, told_counts
from perfgate.render.merged import gate_cells
from perfgate.render.records import moment
from perfgate.render.text import change_cell, summary, told_choice, why_shut

MOST_BYTES: Final = 10_000_000
"""Of a page; timelines are left out until it is smaller, those of passing workloads first."""


@dataclass(frozen=True, kw_only=True)
class _Shipped:
    """What every page holds: Plotly, deflated because it is half of a page, and the package's own script and style."""

    style: str
    script: str
    template: Template
    plotly: str
    """In base64."""
    policy: str
    placeholders: str
    """Empty style elements in the place of those that Plotly would add for its maps, which no page draws."""


@cache
def _shipped() -> _Shipped:
    here = importlib.resources.files("perfgate.render.html")
    style, script, template = (
        (here / file).read_text(encoding="utf-8") for file in ("page.css", "page.js", "page.html")
    )
    plotly = (importlib.resources.files("plotly") / "package_data" / "plotly.min.js").read_text(
        encoding="utf-8"
    )
    policy = (
        "default-src 'none'",
        f"script-src {_hash(script)} {_hash(plotly)}",
        f"style-src {_hash(style)} {_hash('')}",  # Plotly fills an empty style element rule by rule
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    of_maps = dict.fromkeys(re.findall(r'document\.getElementById\("([0-9a-f]{64})"\)', plotly))
    return _Shipped(
        style=style,
        script=script,
        template=Template(template),
        plotly=base64.b64encode(zlib.compress(plotly.encode(), 9)).decode("ascii"),
        policy="; ".join(policy),
        placeholders="".join(f'<style id="{identity}"></style>' for identity in of_maps),
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def page_html(data: PageData, *, most_bytes: int = MOST_BYTES) -> str:
    """Return a gate as one HTML file that asks the network for nothing.

    Timelines are left out until it is no larger than `most_bytes`, those of passing workloads first, and the page says
    so. What is left then is told however large it is.
    """
    shipped = _shipped()
    ordered = sorted(data.workloads, key=lambda told: WORST_FIRST.index(told.verdict.outcome))
    shown = shown_names(ordered)
    placed = [
        Placed(identity=identity, told=told, shown=name)
        for identity, told, name in zip(identities(shown), ordered, shown, strict=True)
    ]
    steps = {one.identity: packed for one in placed if (packed := steps_of(one.told))}
    sections = {one.identity: section(one) for one in placed}
    spare = (
        most_bytes - len(_page(shipped, data, placed, sections, {}, left_out=[]).encode()) - 2000
    )
    left_out = [one for one in placed if one.told.steps_left_out]
    for one in reversed(placed):  # the passing ones stand last
        if sum(len(packed) + 100 for packed in steps.values()) <= spare:
            break
        if steps.pop(one.identity, None) is not None:
            left_out.append(one)
            sections[one.identity] = section(one, steps_left_out=True)
    return _page(shipped, data, placed, sections, steps, left_out=left_out)


def _page(
    shipped: _Shipped,
    data: PageData,
    placed: Sequence[Placed],
    sections: dict[str, str],
    steps: dict[str, str],
    *,
    left_out: Sequence[Placed],
) -> str:
    gate = _gate(data)
    packed = "".join(
        f'<script type="application/octet-stream" id="steps-{identity}">{told}</script>'
        for identity, told in steps.items()
    )
    return shipped.template.substitute(
        policy=escape(shipped.policy),
        title=words(f"perfgate: {gate}"),
        style=shipped.style,
        placeholders=shipped.placeholders,
        shut="open" if data.opens_gate else "shut",
        gate=_headline(data, gate),
        left_out=_left_out(left_out),
        overview=_overview(placed),
        sections="".join(sections[one.identity] for one in placed),
        foot=_foot(data),
        steps=packed,
        plotly=shipped.plotly,
        script=shipped.script,
    )


def _gate(data: PageData) -> str:
    """The last line of a terminal's summary."""
    others = reasons_besides(data.shut_by, data.workloads)
    told = summary(
        [workload.verdict for workload in data.workloads],
        opens=data.opens_gate,
        width=1000,
        colour=False,
        opening=[workload.opens_gate for workload in data.workloads],
        why="" if data.opens_gate else why_shut(_shutting(data), others, place="below"),
    )
    return told.splitlines()[-1]


def _shutting(data: PageData) -> Counter[Outcome]:
    return Counter(one.verdict.outcome for one in data.workloads if not one.opens_gate)


def _headline(data: PageData, gate: str) -> str:
    state, _, why = gate.partition(": ")
    sign = "✓" if data.opens_gate else "✗"
    return (
        f'<p class="gate"><span class="badge {"passed" if data.opens_gate else "regressed"}">'
        f'<span aria-hidden="true">{sign}</span> {words(state)}</span> {words(why)}</p>'
        + listed((f"<bdi>{words(one)}</bdi>" for one in data.shut_by), mark="shut-by")
        + listed((f"<bdi>{words(one)}</bdi>" for one in data.remarks), mark="remarks")
        + (
            ""
            if data.choice is None
            else f'<p class="choice">{words(told_choice(data.choice))}</p>'
        )
        + _gates(data.gates)
        + _differences(data.loosening)
    )


def _differences(loosening: Loosening | None) -> str:
    """What differs from the base branch's gate."""
    if loosening is None or not loosening.differences:
        return ""
    columns = (Th(title="what"), Th(title=f"in {loosening.base}"), Th(title="here"), Th(title="it"))
    rows = [
        (
            name(one.what),
            *(name(NONE if value is None else value) for value in (one.old, one.new)),
            one.direction,
        )
        for one in loosening.differences
    ]
    return table(words(told_counts(loosening)), columns, rows, mark="loosening")


def _gates(gates: Sequence[MergedGate]) -> str:
    """What a merged page was made of."""
    if not gates:
        return ""
    columns = (
        Th(title="gate"),
        Th(title="GPU"),
        Th(title="workloads", right=True),
        Th(title="state"),
        Th(title="measured"),
        Th(title="took, s", right=True),
    )
    rows = [
        (
            *(name(cell) for cell in gate_cells(gate)),
            moment(gate.started_at),
            f"{max((gate.ended_at - gate.started_at).total_seconds(), 0.0):,.0f}",
        )
        for gate in gates
    ]
    return table("Gates that were merged", columns, rows, mark="gates")


def _left_out(left_out: Sequence[Placed]) -> str:
    if not left_out:
        return ""
    passing = sum(one.told.verdict.outcome in PASSING for one in left_out)
    others = len(left_out) - passing
    of = f"{passing} passing" + (f" and {others} other" if others else "")
    return (
        f'<p class="left-out">To keep this page small, the timelines of {of} '
        f"{inflected(len(left_out), 'workload')} are left out.</p>"
    )


def _overview(placed: Sequence[Placed]) -> str:
    if not placed:
        return "<p>No workload was measured.</p>"
    counted = Counter(one.told.verdict.outcome for one in placed)
    boxes = "".join(
        f'<label class="box"><input type="checkbox" name="outcome" value="{outcome}" checked> '
        f'<span aria-hidden="true">{SYMBOLS[outcome]}</span> {outcome} ({counted[outcome]})</label>'
        for outcome in WORST_FIRST
        if counted[outcome]
    )
    columns = (
        Th(title="outcome"),
        Th(title="workload"),
        Th(title="gate"),
        Th(title="step_ms"),
        Th(title="why"),
    )
    rows = [_line(one) for one in placed]
    return (
        '<div class="filter" role="search" aria-label="Workloads"><label for="search">Name</label> '
        '<input type="search" id="search" autocomplete="off" spellcheck="false"> '
        f'<fieldset><legend>Outcome</legend>{boxes}</fieldset><p id="found" role="status"></p></div>'
        f"{table('Workloads, worst first', columns, rows, sortable=True, mark='overview')}"
    )


def _line(one: Placed) -> tuple[str | Td, ...]:
    verdict = one.told.verdict
    step = verdict.of(Metric.STEP_MS)
    change = "" if step is None else escape(change_cell(step))
    first = next(iter(verdict.reason.splitlines()), "")
    return (
        Td(html=badge(verdict.outcome), by=WORST_FIRST.index(verdict.outcome)),
        f'<a href="#{one.identity}">{name(one.name)}</a>',
        "lets it open" if one.told.opens_gate else "keeps it shut",
        Td(html=change, by=None if step is None else step.change),
        f"<bdi>{words(first[:400])}</bdi>",
    )


def _foot(data: PageData) -> str:
    seconds = max((data.ended_at - data.started_at).total_seconds(), 0.0)
    when = f"{moment(data.started_at)}, {seconds:,.0f} s; exit status {data.exit_status}"
    machine = "" if data.machine is None else f"<h3>Machine</h3>{machine_list(data.machine)}"
    commit = (
        ""
        if data.commit is None
        else f" Commit {name(data.commit.sha)}{', with changes' * data.commit.dirty}."
    )
    label = f" {name(data.label)}." if data.label else ""
    return (
        f"<p>perfgate {words(data.perfgate)}; measured {escape(when)}.{label}{commit}</p>{machine}"
        f"<details><summary>Settings</summary>{_settings(data.settings)}</details>"
        f"<details><summary>Metrics, and what they are</summary>{_meanings()}</details>"
    )


def _settings(settings: Settings) -> str:
    defaults = Settings().model_dump(mode="json")
    columns = (Th(title="setting"), Th(title="value"), Th(title="default"))
    rows = [
        (
            f"<code>{field}</code>",
            f"<code>{words(_told(value))}</code>",
            "as is"
            if value == defaults[field]
            else f"<code>{words(_told(defaults[field]))}</code>",
        )
        for field, value in settings.model_dump(mode="json").items()
    ]
    return table("Settings of this gate", columns, rows)


def _told(value: object) -> str:
    return "not set" if value is None or value in ([], {}) else str(value)


def _meanings() -> str:
    columns = (Th(title="metric"), Th(title="unit"), Th(title="what it is, per step"))
    return table(
        "Metrics",
        columns,
        [(m.value, spec.unit, escape(spec.meaning)) for m, spec in METRICS.items()],
    )
