"""The page of a gate: one file by Jinja2's templates, with a policy that lets nothing else run or
load."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import itertools
import re
import shlex
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from perfgate.model.metric import METRICS, Metric
from perfgate.model.outcome import PASSING, WORST_FIRST
from perfgate.model.pagedata import PageData, PageWorkload
from perfgate.model.settings import Settings
from perfgate.render import verdict
from perfgate.render.explanation import TITLES, shown_parts
from perfgate.render.filling import environment
from perfgate.render.gate import GateState, Judged, choice_text, counts_text, state_of
from perfgate.render.html import workload
from perfgate.render.records import machine_facts, moment
from perfgate.render.samples import OF_RANGE
from perfgate.words import numbers, say
from perfgate.words.escape import lines, one_line
from perfgate.words.numbers import inflected, plural

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_BYTES: Final = 10_000_000
"""Of a page; timelines are left out until it is smaller, those of passing workloads first."""
LONGEST: Final = 160
"""Characters of a name; of longer ones the middle is left out."""
LONGEST_LINE: Final = 4000
MOST_PARTS: Final = 30
"""Rows of a table of parts; smaller ones are one row."""
SYMBOLS: Final = dict(zip(WORST_FIRST, "✗?!≠○≈▲✓", strict=True))
"""Next to each outcome's word."""


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


@dataclass(kw_only=True)
class Section:
    """Where a workload stands on the page."""

    identity: str
    """What a link names after `#`."""
    judged: Judged[PageWorkload]
    plots: str
    """All plots but the timeline, packed; empty where there are none."""
    timeline: str
    left_out: bool
    """Whether the timeline has to go to keep the page small."""


def page_html(data: PageData, *, most_bytes: int = MOST_BYTES) -> str:
    """Return a gate as one HTML file that asks the network for nothing.

    Timelines are left out until it is no larger than `most_bytes`, those of passing workloads
    first, and the page says so. Everything else is in it, however large.
    """
    state = state_of(data)
    named = zip(identities([one.name for one in state.judged]), state.judged, strict=True)
    sections = [_section(*one) for one in named]
    timelines = {one.identity: one.timeline for one in sections}
    for one in sections:
        one.timeline = ""
    spare = most_bytes - len(_page(data, state, sections).encode()) - 2000
    spare -= sum(len(timeline) + 100 for timeline in timelines.values() if timeline)
    for one in reversed(sections):  # the passing ones stand last
        timeline = timelines[one.identity]
        if timeline and spare < 0:
            spare += len(timeline) + 100
            one.left_out = True
        else:
            one.timeline = timeline
    return _page(data, state, sections)


def _section(identity: str, judged: Judged[PageWorkload]) -> Section:
    plots, timeline = (of(judged.workload) for of in (workload.plots, workload.timeline))
    return Section(
        identity=identity,
        judged=judged,
        plots=workload.packed(plots) if plots else "",
        timeline=workload.packed(timeline) if timeline else "",
        left_out=judged.workload.steps_left_out,
    )


def identities(names: Sequence[str]) -> list[str]:
    """Return an id for each workload, readable where its name is, and each only once."""
    found: dict[str, None] = {}
    for name in names:
        plain = "w-" + (re.sub(r"[^A-Za-z0-9_]+", "-", name[:80]).strip("-") or "workload")
        numbered = (f"{plain}-{number}" for number in itertools.count(2))
        found[next(one for one in itertools.chain([plain], numbered) if one not in found)] = None
    return list(found)


def _page(data: PageData, state: GateState[PageWorkload], sections: Sequence[Section]) -> str:
    counted = Counter(one.verdict.outcome for one in state.judged)
    left_out = [one.judged.verdict.outcome in PASSING for one in sections if one.left_out]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            shipped=shipped(),
            data=data,
            state=state,
            sections=sections,
            left_out=(left_out.count(True), left_out.count(False)),
            counted=[(outcome, counted[outcome]) for outcome in WORST_FIRST if counted[outcome]],
            settings=data.settings.model_dump(mode="json"),
            defaults=Settings().model_dump(mode="json"),
        )
    )


@cache
def _environment() -> Environment:
    """Return Jinja2's environment: all text is escaped, and what is missing is a fault."""
    return environment(
        "html",
        markup=True,
        names={
            "symbols": SYMBOLS,
            "passing": PASSING,
            "metrics": METRICS,
            "step_ms": Metric.STEP_MS,
            "in_ranges": tuple(OF_RANGE),
            "most_parts": MOST_PARTS,
            "axes": TITLES,
            "plural": plural,
            "inflected": inflected,
            "numbers": numbers,
            "verdicts": verdict,
            "workloads": workload,
            "shown_parts": shown_parts,
            "choice_text": choice_text,
            "counts_text": counts_text,
        },
        filters={
            "name": _name,
            "line": lambda text: one_line(str(text), longest=LONGEST_LINE),
            "lines": lines,
            "copyable": _is_copyable,
            "fact": say.fact,
            "facts": machine_facts,
            "moment": moment,
            "ms": numbers.milliseconds,
            "value": lambda amount, metric: numbers.value(metric, amount),
            "quoted": shlex.quote,
        },
    )


def _name(text: Any) -> Markup:  # noqa: ANN401 - whatever has a text
    """Return a name from elsewhere on one line, its direction kept to itself."""
    return Markup("<bdi>{}</bdi>").format(one_line(str(text), longest=LONGEST))


def _is_copyable(command: str) -> bool:
    """Whether nothing in a command is invisible, whoever put it there."""
    return len(command) <= 10 * LONGEST and one_line(command, longest=20 * LONGEST) == command
