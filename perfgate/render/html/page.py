"""The page of a gate: one file by Jinja2's templates, with a policy that lets nothing else run or
load."""

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
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from perfgate.model.document import reasons_besides
from perfgate.model.loosening import Loosening
from perfgate.model.merged import shown_names
from perfgate.model.metric import METRICS
from perfgate.model.outcome import PASSING, WORST_FIRST
from perfgate.model.pagedata import PageData
from perfgate.model.settings import Settings
from perfgate.model.stepview import Lane, StepView
from perfgate.render.html.workload import Placed, identities, placed, signed
from perfgate.render.loosening import counts_text
from perfgate.render.records import machine_facts, moment
from perfgate.render.text import anchor_text, choice_text, summary, why_shut
from perfgate.words import numbers
from perfgate.words.escape import lines, one_line
from perfgate.words.names import inflected

MOST_BYTES: Final = 10_000_000
"""Of a page; timelines are left out until it is smaller, those of passing workloads first."""
LONGEST: Final = 160
"""Characters of a name; of longer ones the middle is left out."""
LONGEST_LINE: Final = 4000
SYMBOLS: Final = dict(zip(WORST_FIRST, "✗?!≠○≈▲✓", strict=True))
"""Next to each outcome's word."""
_US_PER_MS: Final = 1000.0


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """What every page holds: Plotly, deflated because it is half of a page, and our script and
    style."""

    style: Markup
    script: Markup
    plotly: str
    """In base64."""
    policy: str
    placeholders: tuple[str, ...]
    """Ids of empty style elements in the place of those that Plotly would add for its maps."""


@cache
def shipped() -> Shipped:
    """Return what every page holds."""
    here = importlib.resources.files("perfgate.render.html")
    style, script = ((here / file).read_text(encoding="utf-8") for file in ("page.css", "page.js"))
    library = importlib.resources.files("plotly") / "package_data" / "plotly.min.js"
    plotly = library.read_text(encoding="utf-8")
    policy = (
        "default-src 'none'",
        f"script-src {_hash(script)} {_hash(plotly)}",
        f"style-src {_hash(style)} {_hash('')}",  # Plotly fills an empty style element rule by rule
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    maps = dict.fromkeys(re.findall(r'document\.getElementById\("([0-9a-f]{64})"\)', plotly))
    return Shipped(
        style=Markup(style),
        script=Markup(script),
        plotly=base64.b64encode(zlib.compress(plotly.encode(), 9)).decode("ascii"),
        policy="; ".join(policy),
        placeholders=tuple(maps),
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def page_html(data: PageData, *, most_bytes: int = MOST_BYTES) -> str:
    """Return a gate as one HTML file that asks the network for nothing.

    Timelines are left out until it is no larger than `most_bytes`, those of passing workloads
    first, and the page says so. Everything else is in it, however large.
    """
    ordered = sorted(data.workloads, key=lambda one: WORST_FIRST.index(one.verdict.outcome))
    names = shown_names(ordered)
    ids = identities(names)
    workloads = [placed(*one) for one in zip(ids, ordered, names, strict=True)]
    steps = {one.identity: one.timeline for one in workloads if one.timeline}
    spare = most_bytes - len(_page(data, workloads, {}).encode()) - 2000
    for one in reversed(workloads):  # the passing ones stand last
        if sum(len(packed) + 100 for packed in steps.values()) <= spare:
            break
        if steps.pop(one.identity, None) is not None:
            one.left_out = True
    return _page(data, workloads, steps)


def _page(data: PageData, workloads: Sequence[Placed], steps: dict[str, str]) -> str:
    gate = _gate(data)
    state, _, why = gate.partition(": ")
    counted = Counter(one.workload.verdict.outcome for one in workloads)
    page: str = (
        _environment()
        .get_template("page.html.j2")
        .render(
            shipped=shipped(),
            data=data,
            gate=gate,
            state=state,
            why=why,
            choice="" if data.choice is None else choice_text(data.choice),
            loosening=_loosening(data.loosening),
            left_out=_left_out(workloads),
            placed=workloads,
            counted=[(outcome, counted[outcome]) for outcome in WORST_FIRST if counted[outcome]],
            settings=_settings(data.settings),
            metrics=METRICS,
            plots={one.identity: one.plots for one in workloads if one.plots},
            steps=steps,
        )
    )
    return page


def _gate(data: PageData) -> str:
    """Return the last line of a terminal's summary."""
    others = reasons_besides(data.shut_by, data.workloads)
    shutting = Counter(one.verdict.outcome for one in data.workloads if not one.opens_gate)
    text = summary(
        [workload.verdict for workload in data.workloads],
        opens=data.opens_gate,
        width=1000,
        colour=False,
        opening=[workload.opens_gate for workload in data.workloads],
        why="" if data.opens_gate else why_shut(shutting, others, place="below"),
    )
    return text.splitlines()[-1]


def _loosening(loosening: Loosening | None) -> str:
    return "" if loosening is None else counts_text(loosening)


def _left_out(workloads: Sequence[Placed]) -> str:
    outcomes = [
        one.workload.verdict.outcome
        for one in workloads
        if one.left_out or one.workload.steps_left_out
    ]
    if not outcomes:
        return ""
    passing = sum(outcome in PASSING for outcome in outcomes)
    others = len(outcomes) - passing
    which = f"{passing} passing" + (f" and {others} other" if others else "")
    return f"{which} {inflected(len(outcomes), 'workload')}"


def _settings(settings: Settings) -> list[tuple[str, str, str]]:
    def shown(value: object) -> str:
        return "not set" if value is None or value in ([], {}) else str(value)

    defaults = Settings().model_dump(mode="json")
    return [
        (field, shown(value), shown(defaults[field]))
        for field, value in settings.model_dump(mode="json").items()
    ]


@cache
def _environment() -> Environment:
    """Return Jinja2's environment: all text is escaped, and what is missing is a fault."""
    made = Environment(
        loader=PackageLoader("perfgate.render.html", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(symbols=SYMBOLS, passing=PASSING)
    made.filters.update(
        name=_name,
        line=lambda text: one_line(str(text), longest=LONGEST_LINE),
        lines=lines,
        copyable=_is_copyable,
        facts=machine_facts,
        moment=moment,
        drift=anchor_text,
        ms=numbers.milliseconds,
        value=lambda amount, metric: "" if amount is None else numbers.value(metric, amount),
        signed=lambda change, metric: signed(metric, change),
        drawn=_drawn,
        sums=_sums,
    )
    return made


def _name(text: str) -> Markup:
    """Return a name from elsewhere on one line, its direction kept to itself."""
    return Markup("<bdi>{}</bdi>").format(one_line(text, longest=LONGEST))


def _is_copyable(command: str) -> bool:
    """Whether nothing in a command is invisible, whoever put it there."""
    return len(command) <= 10 * LONGEST and one_line(command, longest=20 * LONGEST) == command


def _drawn(view: StepView) -> str:
    """Write how many bars are drawn."""
    if view.drawn == view.operations:
        return f"{view.operations:,} {inflected(view.operations, 'bar')}"
    near = f" within {numbers.milliseconds(view.pixel_us / _US_PER_MS)} ms" if view.pixel_us else ""
    return (
        f"{view.drawn:,} bars for {view.operations:,} ranges, operations and idle times: "
        f"neighbours{near} are drawn as one"
    )


def _sums(lane: Lane) -> dict[str, Any]:
    """Return what a lane's row in the table holds."""
    longest = max(lane.bars, key=lambda bar: bar.length_us, default=None)
    busy_us = sum(bar.length_us if bar.busy_us is None else bar.busy_us for bar in lane.bars)
    return {
        "count": sum(bar.count for bar in lane.bars),
        "busy_ms": busy_us / _US_PER_MS,
        "longest": "" if longest is None else longest.name,
        "longest_ms": 0.0 if longest is None else longest.length_us / _US_PER_MS,
    }
