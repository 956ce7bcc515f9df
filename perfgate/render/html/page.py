"""The page of a gate: one file by Jinja2's templates, with a policy that lets nothing else run or
load."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from perfgate.model.metric import METRICS, Metric
from perfgate.model.outcome import PASSING, WORST_FIRST
from perfgate.model.pagedata import PageData, small_enough
from perfgate.model.settings import Settings
from perfgate.render import verdict
from perfgate.render.explanation import TITLES, shown_parts
from perfgate.render.filling import environment
from perfgate.render.gate import choice_text, counts_text, state_of
from perfgate.render.html import workload
from perfgate.render.records import machine_facts, moment
from perfgate.render.samples import OF_RANGE
from perfgate.words import numbers, say
from perfgate.words.escape import lines, one_line
from perfgate.words.numbers import inflected, plural

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_BYTES: Final = 30_000_000
"""Of a page's data; of so much it is some 9 MB, since what plots are drawn from is packed."""
LONGEST: Final = 160
"""Characters of a name; of longer ones the middle is left out."""
LONGEST_LINE: Final = 4000
MOST_PARTS: Final = 30
"""Rows of a table of parts; smaller ones are one row."""
SYMBOLS: Final = dict(zip(WORST_FIRST, "✗?!≠○≈▲✓", strict=True))
"""Next to each outcome's word."""


@cache
def shipped() -> dict[str, object]:
    """Return what every page holds: our style and script, Plotly (deflated because it is half of a
    page, in base64), the policy, and ids of empty style elements in the place of those that Plotly
    would add for its maps."""
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
    maps = re.findall(r'document\.getElementById\("([0-9a-f]{64})"\)', plotly)
    return {
        "style": Markup(style),
        "script": Markup(script),
        "plotly": workload.deflated(plotly),
        "policy": "; ".join(policy),
        "placeholders": tuple(dict.fromkeys(maps)),
    }


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def page_html(data: PageData) -> str:
    """Return a gate as one HTML file that asks the network for nothing.

    Of a large one timelines are left out, those of passing workloads first, and the page says so.
    """
    data = small_enough(data, most_bytes=MOST_BYTES)
    state = state_of(data)
    counted = Counter(one.verdict.outcome for one in state.judged)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            shipped=shipped(),
            data=data,
            state=state,
            sections=[
                {
                    "identity": identity,
                    "judged": one,
                    "plots": workload.packed(workload.plots(one.workload)),
                    "timeline": workload.packed(workload.timeline(one.workload)),
                }
                for identity, one in zip(
                    identities([one.name for one in state.judged]), state.judged, strict=True
                )
            ],
            counted=[(outcome, counted[outcome]) for outcome in WORST_FIRST if counted[outcome]],
            settings=data.settings.model_dump(mode="json"),
            defaults=Settings().model_dump(mode="json"),
        )
    )


def identities(names: Sequence[str]) -> list[str]:
    """Return an id for each workload, readable where its name is, and each only once."""
    seen: Counter[str] = Counter()
    found: list[str] = []
    for name in names:
        plain = "w-" + (re.sub(r"[^A-Za-z0-9_]+", "-", name[:80]).strip("-") or "workload")
        seen[plain] += 1
        found.append(plain if seen[plain] == 1 else f"{plain}--{seen[plain]}")
    return found


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
