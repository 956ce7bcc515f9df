"""The page's figures, as Plotly reads them: dictionaries of traces and layout; knows no HTML.

A colour is the name of a variable of the page's style, `var(--kernel)`: the page puts in what the
theme has.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from statistics import median
from typing import Any, Final

from perfgate.model.history import Point
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageWorkload
from perfgate.model.side import Side
from perfgate.model.stepview import Bar, Lane, StepView
from perfgate.model.verdict import Dropped, MetricVerdict, Verdict
from perfgate.render.records import moment
from perfgate.render.text import budget_cell, change_cell, unit_of
from perfgate.words import numbers
from perfgate.words.escape import one_line

Figure = dict[str, Any]
"""`data` and `layout` of a Plotly figure; `choices`: names of which each trace's `meta` belongs to
one."""

LONGEST: Final = 240
"""Characters of a name that is shown under the pointer."""
_LONGEST_TICK: Final = 34
_LINE: Final = 64
_US_PER_MS: Final = 1000.0
_MOST_NAMED: Final = 60
"""Bars of a lane of ranges up to which their names are written into them."""
_TEXT, _DIM, _EDGE, _LINK = "var(--text)", "var(--ground)", "var(--edge)", "var(--link)"
_LOOKS: Final = {
    Outcome.REGRESSED: ("x", "var(--bad)"),
    Outcome.PASSED: ("circle", "var(--good)"),
    Outcome.IMPROVED: ("circle", "var(--good)"),
}
_PATTERNS: Final = {"nccl": "x", "copy": "\\", "memset": ".", "graph": "|", "idle": "/"}


def packed(figures: Mapping[str, Figure]) -> str:
    """Return figures by name as deflated JSON in base64."""
    text = json.dumps(figures, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def drawn_rows(verdict: Verdict) -> list[MetricVerdict]:
    """Return the time metrics of which there is an interval and a budget."""
    return [
        row for row in verdict.metrics if None not in (row.change, row.low, row.high, row.budget)
    ]


def intervals(verdict: Verdict) -> Figure:
    """Return change and interval of each time metric against its budget, in % or percentage points."""
    rows = drawn_rows(verdict)
    at = list(range(len(rows)))
    names = [f"{row.metric} ({unit_of(row)})" for row in rows]
    change, low, high, budget = (
        [100 * (getattr(row, field) or 0.0) for row in rows]
        for field in ("change", "low", "high", "budget")
    )
    shown = [
        f"{change_cell(row)}, budget {budget_cell(row)}, {row.outcome or 'shown only'}"
        for row in rows
    ]
    looks = [
        ("circle-open", _TEXT)
        if row.outcome is None
        else _LOOKS.get(row.outcome, ("circle-open", _TEXT))
        for row in rows
    ]
    reach = 1.15 * max(map(abs, (*low, *high, *budget)), default=1.0) or 1.0
    budgets = _markers(
        budget,
        at,
        [f"{name}: budget {value:.4g}" for name, value in zip(names, budget, strict=True)],
        {"symbol": "line-ns-open", "size": 22, "line": {"width": 3}, "color": "var(--warn)"},
    )
    changes = _markers(
        change,
        at,
        [f"{name}: {text}" for name, text in zip(names, shown, strict=True)],
        {"size": 11, "symbol": [symbol for symbol, _ in looks], "color": [is_ for _, is_ in looks]},
    )
    changes["error_x"] = {
        "type": "data",
        "symmetric": False,
        "thickness": 2,
        "width": 5,
        "color": _TEXT,
        "array": [top - middle for top, middle in zip(high, change, strict=True)],
        "arrayminus": [middle - bottom for bottom, middle in zip(low, change, strict=True)],
    }
    zero = {"type": "line", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "yref": "paper"}
    layout = _layout(
        90 + 30 * len(rows),
        x={
            "range": [min(-reach / 4, *(1.15 * value for value in low)), reach],
            "title": {"text": "change, % or percentage points of the baseline's step; | budget"},
        },
        y=_lines(names),
        shapes=[{**zero, "line": {"color": _EDGE, "dash": "dot"}}],
    )
    return {"data": [budgets, changes], "layout": layout}


def sides(workload: PageWorkload) -> tuple[tuple[str, Side], ...]:
    """Return the sides that there are, by what they are called on the page, the candidate last."""
    named = (
        ("baseline", workload.baseline),
        ("other commit", workload.other),
        ("candidate", workload.candidate),
    )
    return tuple((called, side) for called, side in named if side is not None)


def shown_metrics(workload: PageWorkload) -> tuple[Metric, ...]:
    """Return the metrics whose runs are drawn: what moved first, then times, then counts that
    differ."""
    rows = {row.metric: row for row in workload.verdict.metrics}

    def values(metric: Metric) -> list[float]:
        return [value for _, side in sides(workload) for value in side.values.get(metric, ())]

    def stands_still(metric: Metric) -> tuple[bool, bool]:
        row = rows.get(metric)
        moved = row is not None and row.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)
        return not moved, METRICS[metric].kind is Kind.COUNT

    held = [
        metric
        for metric in METRICS
        if values(metric) and (METRICS[metric].kind is Kind.CLOCK or len(set(values(metric))) > 1)
    ]
    return tuple(sorted(held, key=stands_still))


def runs(workload: PageWorkload) -> Figure:
    """Return the values run by run, a side a line; dropped runs are crosses and no part of the
    median."""
    metrics = shown_metrics(workload)
    symbols = {"baseline": "circle-open", "other commit": "square-open", "candidate": "diamond"}
    traces: list[dict[str, Any]] = []
    for choice, metric in enumerate(metrics):
        for line, (called, side) in enumerate(sides(workload)):
            values = side.values.get(metric, ())
            out = dropped_runs(called, metric, workload)
            unit = f" {METRICS[metric].unit}" if METRICS[metric].unit else ""
            shown = [
                f"{called}, run {n + 1}: {value:.6g}{unit}{', dropped as an outlier' * (n in out)}"
                for n, value in enumerate(values)
            ]
            looks = ["x-thin-open" if n in out else symbols[called] for n in range(len(values))]
            marker = {
                "symbol": looks,
                "size": 11,
                "opacity": 0.85,
                "line": {"width": 2},
                "color": _LINK if called == "candidate" else _EDGE,
            }
            dots = _markers(
                [float(f"{v:.7g}") for v in values], [line] * len(values), shown, marker
            )
            kept = [value for n, value in enumerate(values) if n not in out]
            middle = [median(kept)] * 2 if kept else []
            bar = {
                "type": "scatter",
                "mode": "lines",
                "x": middle,
                "y": [line - 0.35, line + 0.35],
                "hoverinfo": "skip",
                "line": {"color": _TEXT, "width": 2},
            }
            traces += [{**one, "meta": choice, "visible": choice == 0} for one in (dots, bar)]
    layout = _layout(
        80 + 40 * len(sides(workload)),
        x={"title": {"text": "a dot a run, | median"}},
        y=_lines([called for called, _ in sides(workload)]),
    )
    return {"data": traces, "layout": layout, "choices": [metric.value for metric in metrics]}


def dropped_runs(called: str, metric: Metric, workload: PageWorkload) -> set[int]:
    """Return which runs of a side were dropped as outliers for a metric, from 0."""
    other = "other commit" if workload.other is not None else "baseline"

    def hits(dropped: Dropped) -> bool:
        if dropped.side == "pair":
            return called in (other, "candidate")
        return called == (other if dropped.side == "baseline" else dropped.side)

    return {one.index for one in workload.verdict.dropped if one.metric is metric and hits(one)}


def history(points: Sequence[Point]) -> Figure:
    """Return what was blessed, in the order of git's history; a line leads where two can be
    compared."""
    at = list(range(len(points)))
    x: list[int | None] = []
    y: list[float | None] = []
    for n, point in enumerate(points):
        if n and not point.joined:
            x.append(None)
            y.append(None)
        x.append(n)
        y.append(point.value)
    shown = [
        f"{point.value:.5g} ms, {moment(point.at)}, "
        f"{point.commit[:12] if point.commit else 'not committed'}, {point.by}: {point.reason}"
        for point in points
    ]
    ticks = at[:: -(-len(at) // 8) or 1]
    line = {"color": _LINK, "width": 2, "shape": "hv"}
    steps = {"type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip", "line": line}
    dots = _markers(at, [point.value for point in points], shown, {"size": 9, "color": _LINK})
    layout = _layout(
        230,
        x={
            "tickvals": ticks,
            "ticktext": [moment(points[n].at)[:10] for n in ticks],
            "showgrid": False,
        },
        y={"title": {"text": "step_ms"}, "rangemode": "tozero", "fixedrange": True},
    )
    return {"data": [steps, dots], "layout": layout}


def timeline(views: Mapping[str, StepView]) -> Figure:
    """Return one step of each side on one axis, a lane a trace; dotted: where each step ends."""
    length_us = max(view.length_us for view in views.values())
    unit, factor = ("µs", 1.0) if length_us < _US_PER_MS else ("ms", _US_PER_MS)
    titles: list[str] = []
    traces: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    for side, view in views.items():
        first = len(titles)
        titles.append(side.upper())
        for lane in view.lanes:
            traces.append(_lane(lane, len(titles), factor))
            titles.append(lane.title)
        end = view.length_us / factor
        place = {"x0": end, "x1": end, "y0": first - 0.4, "y1": len(titles) - 0.6}
        shapes.append({"type": "line", **place, "line": {"color": _TEXT, "dash": "dot"}})
    layout = _layout(
        70 + 24 * len(titles),
        x={
            "range": [0, 1.005 * length_us / factor],
            "minallowed": 0,
            "maxallowed": 1.01 * length_us / factor,
            "title": {"text": f"{unit} of the step; dotted: its completion"},
            "fixedrange": False,
        },
        y=_lines(titles),
        shapes=shapes,
        barmode="overlay",
        dragmode="pan",
        uniformtext={"mode": "hide", "minsize": 10},
    )
    return {"data": traces, "layout": layout}


def _lane(lane: Lane, line: int, factor: float) -> dict[str, Any]:
    """Return the bars of a lane. Neighbours differ in opacity, as a line between them would hide
    short ones."""
    colour = f"var(--{lane.kind})"
    pattern = {
        "shape": _PATTERNS.get(lane.kind, ""),
        "size": 6,
        "solidity": 0.3,
        "fgcolor": colour if lane.kind == "idle" else _DIM,
        "bgcolor": "var(--raised)" if lane.kind == "idle" else colour,
    }
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "width": 0.8,
        "base": [round(bar.start_us / factor, 6) for bar in lane.bars],
        "x": [round(bar.length_us / factor, 6) for bar in lane.bars],
        "y": [line] * len(lane.bars),
        "customdata": [_wrapped(_bar_text(bar)) for bar in lane.bars],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "color": colour,
            "opacity": [1 - 0.22 * (n % 2) for n in range(len(lane.bars))],
            "pattern": pattern,
        },
    }
    if lane.kind == "range" and len(lane.bars) < _MOST_NAMED:
        trace |= {
            "text": [_escape(one_line(bar.name, longest=40)) for bar in lane.bars],
            "textposition": "inside",
            "insidetextanchor": "start",
            "textangle": 0,
            "insidetextfont": {"color": _DIM},
        }
    return trace


def _bar_text(bar: Bar) -> str:
    text = f"{bar.name}: {_lasting(bar.length_us)} at {_lasting(bar.start_us)}"
    if bar.count == 1:
        return text
    together = _lasting(bar.length_us if bar.busy_us is None else bar.busy_us)
    return f"{text}, the longest of {bar.count:,} that lasted {together} together"


def _lasting(us: float) -> str:
    if us < 1:
        return f"{round(us * 1000)} ns"
    return f"{us:.4g} µs" if us < _US_PER_MS else f"{numbers.milliseconds(us / _US_PER_MS)} ms"


def _markers(
    x: Sequence[float], y: Sequence[float], shown: Sequence[str], marker: dict[str, Any]
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(x),
        "y": list(y),
        "customdata": [_wrapped(text) for text in shown],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": marker,
    }


def _lines(names: Sequence[str]) -> dict[str, Any]:
    """Return an axis with a line for each name, the first at the top."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [_escape(one_line(name, longest=_LONGEST_TICK)) for name in names],
        "range": [len(names) - 0.4, -0.6],
        "showgrid": False,
        "fixedrange": True,
    }


def _layout(height: int, *, x: dict[str, Any], y: dict[str, Any], **more: object) -> dict[str, Any]:
    axis = {"gridcolor": "var(--line)", "linecolor": _EDGE, "zeroline": False, "automargin": True}
    return {
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": _TEXT},
        "margin": {"l": 10, "r": 12, "t": 8, "b": 40},
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": {
            "align": "left",
            "bgcolor": "var(--raised)",
            "bordercolor": _EDGE,
            "font": {"color": _TEXT},
        },
        "showlegend": False,
        "xaxis": {**axis, "fixedrange": True, **x},
        "yaxis": {**axis, **y},
        **more,
    }


def _wrapped(text: str) -> str:
    """Return what stands under the pointer: escaped, as Plotly reads some tags, in short lines."""
    shown = one_line(text, longest=LONGEST + 100)
    return "<br>".join(_escape(shown[n : n + _LINE]) for n in range(0, len(shown), _LINE))


def _escape(text: str) -> str:
    """Escape what Plotly takes for a tag; it reads no `&quot;`."""
    return escape(text, quote=False)
