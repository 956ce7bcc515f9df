"""What moved and where, as text for `perfgate explain`: every part of every change, what is left
over, and what ncu says of the kernels that moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from perfgate.model.comparison import Explanation, KernelProbes, LaunchFigures
from perfgate.model.diagnosis import Attribution, Axis, Part
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note
from perfgate.model.reports import RuleChanges
from perfgate.model.sample import OUTSIDE_RANGES, UNNAMED
from perfgate.render.page import Page, Row
from perfgate.render.records import compared_lines
from perfgate.render.verdict import interval_text
from perfgate.words import numbers, say
from perfgate.words.escape import one_line
from perfgate.words.numbers import plural

MOST_PARTS: Final = 10
"""Rows of a table; smaller parts share one."""
LEAST_SHARE: Final = 0.01
"""Of the largest part: what is less gets no row of its own."""
LONGEST: Final = 120
"""Characters of a name that is not asked for in full."""

TITLES: Final = {
    Axis.RANGE: "by NVTX range",
    Axis.KERNEL: "by kernel",
    Axis.COPY: "by kind of copy",
    Axis.CALL: "by synchronising call",
}


def explanation_text(page: Page, found: Explanation, *, full: bool = False) -> str:
    """Return how b differs from a, and what each difference is made of; with `full`, every part and
    whole names."""
    rows, verdict = found.rows, found.verdict
    compared_lines(page, found)
    if verdict is not None and any(row.low is not None for row in rows):
        page.prose(f"as the gate judged them. {interval_text(verdict)}", style="dim")
    page.facts("ranks", map(say.fact, found.ranks))
    if found.classified is not None:
        page.prose(f"{found.classified.bound}: {found.classified.evidence}", label="b is")
    page.facts("advice", (f"{one.evidence}. {one.usually}" for one in found.advice))
    for metric in dict.fromkeys(one.metric for one in found.attributions):
        own = [one for one in found.attributions if one.metric is metric]
        page.blank()
        unit = " ms" if METRICS[metric].unit == "ms" else ""
        where = f" in {one_line(own[0].process)}" if own[0].process else ""
        page.heading(metric, f" {numbers.difference(metric, own[0].change)}{unit}{where}")
        for one in own:
            _table(page, one, full=full)
    if found.rules is not None:
        _rules(page, found.rules)
    if rows and not found.attributions:
        page.blank()
        page.prose("The captures do not show where a difference lies.")
    return page.text


def _rules(page: Page, rules: RuleChanges) -> None:
    page.blank()
    if rules.why_not:
        page.prose(
            f"nsys's expert rules were not applied: {say.fact(rules.why_not)}", label="rules"
        )
        return
    if not rules.rows:
        page.prose("nsys's expert rules find nothing in b", label="rules")
        return
    shown: list[Row] = []
    for row in rules.rows:
        sides = (row.before, row.now)
        counts = ("" if one is None else numbers.count(one.count) for one in sides)
        times = ("" if one is None else numbers.milliseconds(one.ms) for one in sides)
        new = "new" if rules.is_new(row) else ""
        where = one_line(row.range, longest=LONGEST)
        shown.append((row.rule.value, where, *counts, *times, new))
    titles = ("nsys's rule", "range*", ">a", ">b", ">a ms", ">b ms", "")
    page.table(titles, shown)
    alone = f"; {say.fact(rules.why_alone)}" if rules.why_alone else ""
    page.prose(f"findings per step, and their time{alone}", style="dim")


def _table(page: Page, attribution: Attribution, *, full: bool) -> None:
    longest = 100_000 if full else LONGEST
    rows: list[Row] = []
    for name, part, change in shown_parts(attribution, None if full else MOST_PARTS):
        metric = attribution.metric if part is None else part.metric
        before, now = (None, None) if part is None else (part.before, part.now)
        values = (numbers.value(metric, value) for value in (before, now))
        why = "" if part is None else one_line(part.note)
        grown = numbers.difference(metric, change)
        rows.append((one_line(name, longest=longest), *values, grown, why))
    page.blank()
    page.table((f"{TITLES[attribution.axis]}*", ">a", ">b", ">b - a", "*"), rows)


def shown_parts(attribution: Attribution, most: int | None) -> list[tuple[str, Part | None, float]]:
    """Return name, part and change of the parts that are worth a row, the largest first; then what
    smaller ones come to and what no part accounts for, where that is worth one. None of `most` is
    for all."""
    parts = attribution.parts
    least = LEAST_SHARE * max(
        abs(change) for change in (attribution.change, *(one.change for one in parts))
    )
    if most is not None:
        parts = tuple(part for part in parts[:most] if abs(part.change) > least)
    hidden = attribution.parts[len(parts) :]
    rest = (
        "(not accounted for)" if attribution.covers_all else "(all else, copies to the GPU as well)"
    )
    others = {
        f"({plural(len(hidden), 'smaller part')})": sum(part.change for part in hidden),
        rest: attribution.rest,
    }
    return [
        *((_part_name(part, attribution.metric), part, part.change) for part in parts),
        *((name, None, change) for name, change in others.items() if abs(change) > least),
    ]


def _part_name(part: Part, metric: Metric) -> str:
    name = "(outside any range)" if part.name == OUTSIDE_RANGES else part.name or UNNAMED
    return name if part.metric is metric else f"{part.metric} under {name}"


_PERCENT: Final = "{:.1f} %".format

FIGURES: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "duration_us": ("duration, us", numbers.milliseconds),
    "compute_percent": ("compute throughput", _PERCENT),
    "memory_percent": ("memory throughput", _PERCENT),
    "dram_percent": ("  of that, DRAM", _PERCENT),
    "occupancy_percent": ("achieved occupancy", _PERCENT),
    "occupancy_limit_percent": ("  possible", _PERCENT),
    "registers": ("registers a thread", numbers.count),
    "waves": ("waves of blocks", numbers.count),
    "sm_clock_mhz": ("SM clock, MHz", "{:.0f}".format),
    "grid": ("grid", one_line),
    "block": ("block", one_line),
}
"""Of `LaunchFigures`, in this order: title, and how a value is written; a figure that neither side
has is left out."""


def kernels_text(
    page: Page,
    kernels: KernelProbes,
    *,
    named: Callable[[str], str],
    limited: Callable[[LaunchFigures], Note | None],
) -> str:
    """Return the tables of all kernels.

    Args:
        page: what it is written on.
        kernels: what was looked at.
        named: makes a kernel's name readable.
        limited: says what a launch is limited by, or None.
    """
    page.heading(f"kernels under {kernels.tool}", f": a is {kernels.before}, b is {kernels.now}")
    if not kernels.probes:
        page.prose("No kernel's time per step has moved by 0.1 % of all kernel time.")
        return page.text
    page.prose(
        "One launch each, the first of the measured steps, with caches emptied and clocks as they "
        "were: its time is not that of a step in the gate.",
        style="dim",
    )
    page.facts("note", map(say.fact, kernels.notes), "yellow")
    for probe in kernels.probes:
        moved = probe.moved
        page.blank()
        grown = numbers.difference(Metric.KERNEL_MS, moved.change_ms)
        notes = "".join(f", {one_line(say.fact(note))}" for note in moved.notes)
        page.heading(one_line(named(moved.name), longest=LONGEST), f"  {grown} ms a step{notes}")
        page.table(("figure", ">a", ">b"), _rows(probe.before, probe.now))
        for label, launch in (("a", probe.before), ("b", probe.now)):
            if isinstance(launch, Note):
                page.prose(f"no figures: {say.fact(launch)}", label=label)
            elif (found := limited(launch)) is not None:
                page.prose(say.fact(found), label=f"{label} is")
    return page.text


def _rows(a: LaunchFigures | Note, b: LaunchFigures | Note) -> list[Row]:
    rows: list[Row] = []
    for field, (title, write) in FIGURES.items():
        values = [getattr(side, field, None) for side in (a, b)]
        if values != [None, None]:
            rows.append((title, *("-" if one is None else write(one) for one in values)))
    return rows
