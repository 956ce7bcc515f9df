"""What the page needs of one workload beyond its record: rows of runs, and what its plots are drawn
from; knows no HTML.

Plots come to the page's script as plain numbers and texts, deflated; it draws them.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from perfgate.model.comparison import Side
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageWorkload, StepView
from perfgate.render.records import moment
from perfgate.render.verdict import budget_cell, change_cell, shown_metrics
from perfgate.words.escape import one_line

LONGEST: Final = 240
"""Characters of a name that is shown under the pointer."""
LONGEST_TITLE: Final = 34


def sides(workload: PageWorkload) -> dict[str, Side]:
    """Return the sides that there are, by what they are called on the page, the candidate last."""
    named = {
        "baseline": workload.baseline,
        "other commit": workload.other,
        "candidate": workload.candidate,
    }
    return {called: side for called, side in named.items() if side is not None}


def steps(workload: PageWorkload) -> dict[str, StepView]:
    """Return the typical step of each side that has one."""
    named = {"baseline": workload.baseline_step, "candidate": workload.candidate_step}
    return {called: step for called, step in named.items() if step is not None}


def runs(workload: PageWorkload) -> list[dict[str, Any]]:
    """Return the runs of each metric and side: what moved first, then times, then counts that
    differ. `dropped` are those that are outliers and no part of the median."""
    found = sides(workload)
    moved = {
        row.metric
        for row in workload.verdict.metrics
        if row.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)
    }
    values = {
        metric: {value for side in found.values() for value in side.values.get(metric, ())}
        for metric in METRICS
    }
    is_count = {metric: spec.kind is Kind.COUNT for metric, spec in METRICS.items()}
    shown = [metric for metric in METRICS if len(values[metric]) > is_count[metric]]
    shown.sort(key=lambda metric: (metric not in moved, is_count[metric]))
    return [
        _runs(workload, metric, called, side.values[metric])
        for metric in shown
        for called, side in found.items()
        if side.values.get(metric)
    ]


def _runs(
    workload: PageWorkload, metric: Metric, side: str, values: tuple[float, ...]
) -> dict[str, Any]:
    compared = "other commit" if workload.other is not None else "baseline"
    named = {"baseline": (compared,), "pair": (compared, "candidate")}
    dropped = {
        one.index
        for one in workload.verdict.dropped
        if one.metric is metric and side in named.get(one.side, (one.side,))
    }
    kept = [value for n, value in enumerate(values) if n not in dropped]
    return {
        "metric": metric,
        "unit": METRICS[metric].unit,
        "side": side,
        "values": values,
        "dropped": sorted(dropped),
        "median": median(kept) if kept else None,
    }


def intervals(workload: PageWorkload) -> list[dict[str, Any]]:
    """Return change and interval of each time metric that has a budget, in % or pp."""
    found = []
    for row in shown_metrics(workload.verdict):
        ends = {name: getattr(row, name) for name in ("change", "low", "high", "budget")}
        if None in ends.values():
            continue
        drawn = {name: 100 * fraction for name, fraction in ends.items()}
        # A merged document may hold any number.
        if all(map(math.isfinite, drawn.values())):
            text = f"{change_cell(row)}, budget {budget_cell(row)}, {row.outcome or 'shown only'}"
            name = f"{row.metric} ({row.unit})"
            found.append({"name": name, "text": text, "outcome": row.outcome or "", **drawn})
    return found


def plots(workload: PageWorkload) -> dict[str, Sequence[Any]]:
    """Return what the plots but the timeline are drawn from; empty where there is nothing."""
    history = [
        {
            "value": point.value,
            "joined": point.joined,
            "day": moment(point.at)[:10],
            "text": _shown(
                f"{point.value:.5g} ms, {moment(point.at)}, "
                f"{(point.commit or 'not committed')[:13]}, {point.by}: {point.reason}"
            ),
        }
        for point in workload.history
    ]
    drawn = {
        "intervals": intervals(workload),
        "runs": runs(workload),
        "history": history,
    }
    return {name: rows for name, rows in drawn.items() if rows}


def timeline(workload: PageWorkload) -> list[dict[str, Any]]:
    """Return the lanes of each side's step; a bar is its start and length in us, name, how many it
    stands for and how long they lasted."""
    return [
        {
            "side": side,
            "length": step.length_us,
            "lanes": [
                {
                    "title": one_line(lane.title, longest=LONGEST_TITLE),
                    "kind": lane.kind,
                    "bars": [
                        (
                            round(bar.start_us, 3),
                            round(bar.length_us, 3),
                            _shown(bar.name),
                            bar.count,
                            bar.length_us if bar.busy_us is None else bar.busy_us,
                        )
                        for bar in lane.bars
                    ],
                }
                for lane in step.lanes
            ],
        }
        for side, step in steps(workload).items()
    ]


def packed(plotted: object) -> str:
    """Return what is drawn as deflated JSON; empty of nothing."""
    return deflated(json.dumps(plotted, separators=(",", ":"), allow_nan=False)) if plotted else ""


def deflated(text: str) -> str:
    """Return a text as the page's script inflates it, in base64."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


def _shown(text: str) -> str:
    return one_line(text, longest=LONGEST)
