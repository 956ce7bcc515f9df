"""What the page shows of one workload, in the order and form of its tables; knows no HTML."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Metric
from perfgate.model.pagedata import PageWorkload
from perfgate.model.sample import OUTSIDE_RANGES, UNNAMED, RangeSample
from perfgate.model.stepview import StepView
from perfgate.model.summary import RunSummary
from perfgate.model.verdict import Attribution, MetricVerdict, Part, Verdict
from perfgate.render.explanation import TITLES, large_parts, matters, named_rest
from perfgate.render.html import figures
from perfgate.render.html.figures import dropped_runs, shown_metrics, sides
from perfgate.render.records import moment
from perfgate.render.text import (
    budget_cell,
    change_cell,
    compared_text,
    dropped_text,
    headline,
    interval_text,
    p_cell,
    shares,
    smallest_cell,
    value_cell,
    why_unjudged,
    worst_first,
)
from perfgate.words import numbers
from perfgate.words.escape import one_line
from perfgate.words.names import plural

MOST_PARTS: Final = 30
"""Rows of a table of parts; smaller ones are one row."""
IN_RANGES: Final = (
    Metric.KERNEL_MS,
    Metric.NCCL_MS,
    Metric.GAP_MS,
    Metric.H2D_MS,
    Metric.LAUNCHES,
    Metric.SYNCS,
)
"""Metrics that are shown by range."""

Rows = list[tuple[Any, ...]]


@dataclass(kw_only=True)
class Placed:
    """A workload and where its section stands, with the rows of its tables."""

    identity: str
    """Of the section: what a link names after `#`."""
    workload: PageWorkload
    name: str
    compared: str
    step_cell: str
    step_change: float | None
    why: str
    metrics: list[dict[str, Any]]
    metrics_caption: str
    runs: Rows
    run_columns: list[str]
    runs_caption: str
    made: Rows
    views: Mapping[str, StepView]
    attributions: list[tuple[str, list[dict[str, Any]]]]
    parts: Rows
    notes: tuple[tuple[str, Sequence[str]], ...]
    machines: list[tuple[str, Machine]]
    commands: list[str]
    alternatives: Mapping[str, str]
    """By plot: in words what it shows."""
    heights: Mapping[str, int]
    """By plot: pixels."""
    plots: str
    """All plots but the timeline, packed."""
    timeline: str
    """Packed; empty where there is none."""
    left_out: bool = field(default=False)
    """Whether the timeline has to go to keep the page small."""


def placed(identity: str, workload: PageWorkload, name: str) -> Placed:
    """Return what the page shows of a workload."""
    verdict = workload.verdict
    step = verdict.of(Metric.STEP_MS)
    metrics = shown_metrics(workload)
    views = _views(workload)
    drawn = {"intervals": figures.intervals(verdict)} if figures.drawn_rows(verdict) else {}
    drawn |= {"runs": figures.runs(workload)} if metrics else {}
    drawn |= {"history": figures.history(workload.history)} if workload.history else {}
    step_figure = {"timeline": figures.timeline(views)} if views else {}
    longest = max((len(v) for _, s in sides(workload) for v in s.values.values()), default=0)
    return Placed(
        identity=identity,
        workload=workload,
        name=name,
        compared=compared_text(verdict),
        step_cell="" if step is None else change_cell(step),
        step_change=None if step is None else step.change,
        why=headline(verdict)[:400],
        metrics=[_metric(row, verdict) for row in worst_first(verdict.metrics)],
        metrics_caption=_metrics_caption(verdict),
        runs=_runs(workload, metrics, longest),
        run_columns=[f">run {number + 1}" for number in range(longest)],
        runs_caption=_runs_caption(workload),
        made=_made(workload),
        views=views,
        attributions=_attributions(verdict),
        parts=_parts(workload),
        notes=(
            ("Ranks", verdict.ranks),
            ("Dropped as outliers", tuple(map(dropped_text, verdict.dropped))),
            ("Notes", (*verdict.caveats, *verdict.remarks)),
        ),
        machines=[(called, one.machine) for called, one in sides(workload) if one.machine],
        commands=_commands(workload),
        alternatives=_alternatives(workload, metrics, views),
        heights={plot: one["layout"]["height"] for plot, one in (drawn | step_figure).items()},
        plots=figures.packed(drawn) if drawn else "",
        timeline=figures.packed(step_figure) if step_figure else "",
    )


def _metrics_caption(verdict: Verdict) -> str:
    return (
        f"Metrics, per step. {interval_text(verdict)}; pp: percentage points of the baseline's step; p: probability of "
        "such a rise by chance; could show: the smallest loss these runs could have shown"
    )


def _metric(row: MetricVerdict, verdict: Verdict) -> dict[str, Any]:
    return {
        "row": row,
        "metric": row.metric.value,
        "meaning": METRICS[row.metric].meaning,
        "before": value_cell(row, row.baseline),
        "now": value_cell(row, row.now),
        "change": change_cell(row),
        "budget": budget_cell(row),
        "p": p_cell(row),
        "smallest": smallest_cell(row),
        "unjudged": why_unjudged(row, verdict),
        "note": _share(row, verdict) + row.reason,
    }


def _share(row: MetricVerdict, verdict: Verdict) -> str:
    """Write what share of its step a time is: `14.0 % -> 41.4 % of its step. `."""
    was, now = shares(verdict.metrics, row.metric)
    return f"{f'{was} -> {now}' if was else now} of its step. " if now else ""


def _value(metric: Metric, amount: float | None) -> str:
    return "" if amount is None else numbers.value(metric, amount)


def _runs(workload: PageWorkload, metrics: Sequence[Metric], longest: int) -> Rows:
    """Return a row a metric and side: its median without dropped runs, and each run."""
    rows: Rows = []
    for metric in metrics:
        for called, side in sides(workload):
            values = side.values.get(metric, ())
            out = dropped_runs(called, metric, workload)
            kept = [value for n, value in enumerate(values) if n not in out]
            cells = [
                numbers.value(metric, value) + " (dropped)" * (n in out)
                for n, value in enumerate(values)
            ]
            middle = numbers.value(metric, median(kept)) if kept else ""
            empty = [""] * (longest - len(cells))
            if values:
                rows.append((metric.value, called, middle, *cells, *empty))
    return rows


def _runs_caption(workload: PageWorkload) -> str:
    labels = "; ".join(f"{called}: {one_line(side.label)}" for called, side in sides(workload))
    return f"Values run by run, per step; medians are of the runs that were kept; {labels}"


def _made(workload: PageWorkload) -> Rows:
    named = [(f"run {n + 1}", run) for n, run in enumerate(workload.runs)]
    named += [(f"other commit, run {n + 1}", run) for n, run in enumerate(workload.other_runs)]
    return [(called, run, _noticed(run)) for called, run in named]


def _noticed(run: RunSummary) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for metric, reason in run.absent.items():
        by_reason.setdefault(reason, []).append(metric)
    absent = [f"without {', '.join(metrics)}: {reason}" for reason, metrics in by_reason.items()]
    return [*run.complaints, *run.remarks, *absent]


def _views(workload: PageWorkload) -> dict[str, StepView]:
    named = (("baseline", workload.baseline_step), ("candidate", workload.candidate_step))
    return {side: view for side, view in named if view is not None}


def _attributions(verdict: Verdict) -> list[tuple[str, list[dict[str, Any]]]]:
    found = []
    for metric in dict.fromkeys(one.metric for one in verdict.attributions):
        own = [one for one in verdict.attributions if one.metric is metric]
        unit = " ms" if METRICS[metric].unit == "ms" else ""
        title = f"{metric} {signed(metric, own[0].change)}{unit} a step"
        found.append((title, [_attribution(one) for one in own]))
    return found


def _attribution(one: Attribution) -> dict[str, Any]:
    shown = large_parts(one, MOST_PARTS)
    hidden = one.parts[len(shown) :]
    foot = []
    if matters(smaller := sum(part.change for part in hidden), one):
        name = f"({plural(len(hidden), 'smaller part')})"
        foot.append((name, signed(one.metric, smaller), ""))
    if matters(one.rest, one):
        why = "medians of runs are no sums" if one.covers_all else ""
        foot.append((named_rest(one), signed(one.metric, one.rest), why))
    foot.append(("all", signed(one.metric, one.change), ""))
    return {
        "title": f"{one.metric} {TITLES[one.axis]}",
        "by": TITLES[one.axis],
        "rows": [(_part_name(part, one.metric), part) for part in shown],
        "foot": foot,
    }


def _part_name(part: Part, metric: Metric) -> str:
    name = "(outside any range)" if part.name == OUTSIDE_RANGES else part.name or UNNAMED
    return name if part.metric is metric else f"{part.metric} under {name}"


def signed(metric: Metric, change: float) -> str:
    """Write a change of a metric with its sign."""
    return f"{'-' if change < 0 else '+'}{numbers.value(metric, abs(change))}"


def _parts(workload: PageWorkload) -> Rows:
    """Return tables of what a step of the candidate is made of; a cell with a number is sorted by
    it."""
    side, was = workload.candidate, workload.other or workload.baseline
    if side is None:
        return []
    before = {} if was is None else {row.name: row for row in was.breakdown.ranges}
    ranges = sorted(side.breakdown.ranges, key=_size, reverse=True)
    shown = [metric for metric in IN_RANGES if any(metric in row.values for row in ranges)]
    kernels = sorted(side.breakdown.kernels, key=lambda row: row.gpu_ms, reverse=True)
    tables: list[tuple[str, list[str], Rows]] = [
        (
            "By NVTX range, innermost; an arrow leads from what it was compared with",
            ["range", *(f">{metric}" for metric in shown)],
            [(row.name, *(_range_cell(m, row, before) for m in shown)) for row in ranges],
        ),
        (
            "Kernels, copies and memsets",
            ["name", ">count", ">GPU ms"],
            [(row.name, _count(row.count), _ms(row.gpu_ms)) for row in kernels],
        ),
        (
            "Copies by kind",
            ["direction", "host memory", ">count", ">size", ">GPU ms"],
            [
                (
                    row.direction,
                    (row.host or "", None),
                    _count(row.count),
                    (numbers.size(row.bytes), row.bytes),
                    _ms(row.gpu_ms),
                )
                for row in side.breakdown.copies
            ],
        ),
        (
            "Synchronising calls",
            ["call", "range", ">count", ">CPU ms"],
            [
                (row.call, (row.range, None), _count(row.count), _ms(row.cpu_ms))
                for row in side.breakdown.syncs
            ],
        ),
    ]
    more = "{}; the first {} of {}"
    return [
        (
            title if len(rows) <= MOST_PARTS else more.format(title, MOST_PARTS, len(rows)),
            columns,
            rows[:MOST_PARTS],
        )
        for title, columns, rows in tables
        if rows
    ]


def _range_cell(
    metric: Metric, row: RangeSample, before: Mapping[str, RangeSample]
) -> tuple[str, float]:
    now = row.values.get(metric)
    then = before[row.name].values.get(metric) if row.name in before else None
    text = _value(metric, now)
    arrow = text if then is None else f"{_value(metric, then)} → {text or '0'}"
    return arrow, now or 0.0


def _size(row: RangeSample) -> float:
    return sum(
        row.values.get(metric, 0.0) for metric in (Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS)
    )


def _count(count: float) -> tuple[str, float]:
    return numbers.count(count), count


def _ms(ms: float) -> tuple[str, float]:
    return numbers.milliseconds(ms), ms


def _commands(workload: PageWorkload) -> list[str]:
    explained = f"perfgate explain {shlex.quote(workload.verdict.workload)} --full"
    more = [explained] if workload.verdict.attributions else []
    return list(dict.fromkeys([*workload.commands, *more]))


def _alternatives(
    workload: PageWorkload, metrics: Sequence[Metric], views: Mapping[str, StepView]
) -> dict[str, str]:
    """Return in words what each plot shows, for whoever does not see it."""
    rows = [
        f"{row.metric} {change_cell(row)}, budget {budget_cell(row)}, {row.outcome or 'shown only'}"
        for row in figures.drawn_rows(workload.verdict)
    ]
    texts = {"intervals": f"Changes against budgets. {'; '.join(rows)}."}
    if metrics:
        medians = [
            f"{row[1]} {row[2]}"
            for row in _runs(workload, metrics[:1], 0)
            if row[0] == metrics[0].value and row[2]
        ]
        texts["runs"] = f"Medians of {metrics[0]}: {', '.join(medians)}. The table has each run."
    if views:
        steps = [
            f"{side}: {one_line(view.label)}, {numbers.milliseconds(view.length_us / 1000)} ms"
            for side, view in views.items()
        ]
        texts["timeline"] = f"{'; '.join(steps)}. The table of lanes has their sums."
    if workload.history:
        ends = [
            f"{numbers.milliseconds(point.value)} ms ({moment(point.at)})"
            for point in (workload.history[0], workload.history[-1])
        ]
        texts["history"] = (
            f"From {ends[0]} to {ends[1]} in {plural(len(workload.history), 'blessing')}."
        )
    return texts


def identities(names: Sequence[str]) -> list[str]:
    """Return an id for each workload, readable where its name is, and each only once."""
    found: dict[str, None] = {}
    for name in names:
        plain = "w-" + (re.sub(r"[^A-Za-z0-9_]+", "-", name[:80]).strip("-") or "workload")
        numbered = (f"{plain}-{number}" for number in itertools.count(2))
        found[next(one for one in itertools.chain([plain], numbered) if one not in found)] = None
    return list(found)
