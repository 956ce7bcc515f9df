"""What the page's plots are drawn from, as JSON values: columns instead of objects, every name once."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from perfgate.model import numbers
from perfgate.model.history import Point
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.pagedata import PageWorkload
from perfgate.model.side import Side
from perfgate.model.stepview import Lane, StepView
from perfgate.model.verdict import Dropped, MetricVerdict, Verdict
from perfgate.render.page import inert
from perfgate.render.records import moment
from perfgate.render.text import change_cell

LONGEST: Final = 240
"""Characters of a name that is shown under the pointer."""
_NS: Final = 1000
"""Nanoseconds of a microsecond: nsys counts in them, and whole numbers take the least room."""


def drawn_rows(verdict: Verdict) -> list[MetricVerdict]:
    """Return the clocks of which there is an interval and a budget."""
    return [
        row
        for row in verdict.metrics
        if row.change is not None
        and row.low is not None
        and row.high is not None
        and row.budget is not None
    ]


def intervals(verdict: Verdict) -> dict[str, list[object]]:
    """Return change, ends of the interval and budget of each gated clock, in per cent or percentage points."""
    rows = drawn_rows(verdict)
    bases = [row.basis or Basis.LOG for row in rows]
    return {
        "name": [
            f"{row.metric} ({numbers.unit_of(basis)})"
            for row, basis in zip(rows, bases, strict=True)
        ],
        "change": [_hundredths(row.change) for row in rows],
        "low": [_hundredths(row.low) for row in rows],
        "high": [_hundredths(row.high) for row in rows],
        "budget": [_hundredths(row.budget) for row in rows],
        "outcome": [str(row.outcome) if row.outcome is not None else "shown" for row in rows],
        "told": [
            f"{change_cell(row)}, budget {numbers.limit(row.budget or 0.0, basis)}"
            for row, basis in zip(rows, bases, strict=True)
        ],
    }


def _hundredths(fraction: float | None) -> float:
    return float(f"{100 * (fraction or 0.0):.6g}")


def sides(workload: PageWorkload) -> tuple[tuple[str, Side], ...]:
    """Return the sides that there are, by what they are called on the page, the candidate last."""
    named = (
        ("baseline", workload.baseline),
        ("other commit", workload.other),
        ("candidate", workload.candidate),
    )
    return tuple((called, side) for called, side in named if side is not None)


def dotted(workload: PageWorkload) -> tuple[Metric, ...]:
    """Return the metrics whose runs are drawn: those that moved first, then clocks, then counts that differ."""
    held = [
        metric for metric in METRICS if any(side.values.get(metric) for _, side in sides(workload))
    ]
    rows = {row.metric: row for row in workload.verdict.metrics}
    clocks = [metric for metric in held if METRICS[metric].kind is Kind.CLOCK]
    counts = [
        metric
        for metric in held
        if METRICS[metric].kind is Kind.COUNT
        and len({value for _, side in sides(workload) for value in side.values.get(metric, ())}) > 1
    ]

    def stands_still(metric: Metric) -> bool:
        row = rows.get(metric)
        return row is None or not row.outcome or row.outcome in ("PASSED", "INCONCLUSIVE")

    return tuple(sorted([*clocks, *counts], key=stands_still))


def runs(workload: PageWorkload) -> dict[str, object]:
    """Return the values run by run, with the runs that were set aside."""
    metrics = dotted(workload)
    return {
        "sides": [called for called, _ in sides(workload)],
        "metrics": [
            {
                "name": metric.value,
                "unit": METRICS[metric].unit,
                "values": [_digits(side.values.get(metric, ())) for _, side in sides(workload)],
                "aside": [
                    sorted(set_aside(called, metric, workload)) for called, _ in sides(workload)
                ],
            }
            for metric in metrics
        ],
    }


def set_aside(called: str, metric: Metric, workload: PageWorkload) -> set[int]:
    """Return which runs of a side were set aside for a metric, from 0.

    Of a duet those of the baseline are the other commit's.
    """
    other = "other commit" if workload.other is not None else "baseline"

    def hits(dropped: Dropped) -> bool:
        match dropped.side:
            case "pair":
                return called in (other, "candidate")
            case "baseline":
                return called == other
            case side:
                return called == side

    return {one.index for one in workload.verdict.dropped if one.metric is metric and hits(one)}


def _digits(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.7g}") for value in values]


def history(points: Sequence[Point]) -> dict[str, list[object]]:
    """Return what was blessed, in the order of git's history; `joined` says where a line leads from the one before."""
    return {
        "at": [moment(point.at) for point in points],
        "step_ms": list(_digits(point.value for point in points)),
        "joined": [int(point.joined) for point in points],
        "commit": [
            inert(point.commit[:12] if point.commit else "not committed") for point in points
        ],
        "by": [inert(point.by) for point in points],
        "reason": [inert(point.reason, longest=LONGEST) for point in points],
    }


def packed_steps(steps: Mapping[str, StepView]) -> str:
    """Return steps by their side as deflated JSON in base64.

    Times are whole nanoseconds, starts from the end of the bar before; a name is its place in the list of names.
    """
    names: dict[str, int] = {}
    views = [_view(side, step, names) for side, step in steps.items()]
    told = {"names": [inert(name, longest=LONGEST) for name in names], "views": views}
    text = json.dumps(told, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def _view(side: str, step: StepView, names: dict[str, int]) -> dict[str, object]:
    return {
        "side": side,
        "label": inert(step.label),
        "length": round(step.length_us * _NS),
        "lanes": [_lane(lane, names) for lane in step.lanes],
    }


def _lane(lane: Lane, names: dict[str, int]) -> dict[str, object]:
    starts: list[int] = []
    lengths: list[int] = []
    at = 0
    for bar in lane.bars:
        start, length = round(bar.start_us * _NS), round(bar.length_us * _NS)
        starts.append(start - at)
        lengths.append(length)
        at = start + length
    merged = {number: bar for number, bar in enumerate(lane.bars) if bar.count > 1}
    return {
        "title": inert(lane.title, longest=60),
        "kind": lane.kind,
        "start": starts,
        "length": lengths,
        "name": [names.setdefault(bar.name, len(names)) for bar in lane.bars],
        "count": {number: bar.count for number, bar in merged.items()},
        "busy": {
            number: round((bar.busy_us or 0.0) * _NS)
            for number, bar in merged.items()
            if bar.busy_us is not None
        },
    }
