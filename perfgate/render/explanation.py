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
from perfgate.render.page import Cell, Page, Row
from perfgate.render.records import difference_table, side_lines, unlike_lines
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
    side_lines(page, "a", found.a)
    side_lines(page, "b", found.b)
    unlike_lines(page, found.a, found.b, found.warnings)
    page.blank()
    difference_table(page, rows, titles=("a", "b"))
    if verdict is not None and any(row.low is not None for row in rows):
        page.prose(f"as the gate judged them. {interval_text(verdict)}", style="dim")
    page.facts(*(("ranks", say.fact(one)) for one in found.ranks))
    if found.classified is not None:
        page.prose(f"{found.classified.bound}: {found.classified.evidence}", label="b is")
    page.facts(*(("advice", f"{one.evidence}. {one.usually}") for one in found.advice))
    for metric in dict.fromkeys(one.metric for one in found.attributions):
        own = [one for one in found.attributions if one.metric is metric]
        page.blank()
        unit = " ms" if METRICS[metric].unit == "ms" else ""
        page.line(
            Cell(text=metric, style="bold"),
            f" {numbers.difference(metric, own[0].change)}{unit}",
            f" in {one_line(own[0].process)}" if own[0].process else "",
        )
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


NONE: Final = "-"


Figure = tuple[str, Callable[[Any], str], Callable[[Any, Any], str]]
"""Title, how a value is written, and a change."""


def _points(before: float, now: float) -> str:
    return f"{now - before:+.1f} pp"


def _relative(before: float, now: float) -> str:
    return numbers.change(now / before - 1, "%") if before > 0 else ""


def _more(before: float, now: float) -> str:
    return "" if before == now else f"{now - before:+.4g}"


FIGURES: Final[Mapping[str, Figure]] = {
    "duration_us": ("duration, us", numbers.milliseconds, _relative),
    "compute_percent": ("compute throughput", "{:.1f} %".format, _points),
    "memory_percent": ("memory throughput", "{:.1f} %".format, _points),
    "dram_percent": ("  of that, DRAM", "{:.1f} %".format, _points),
    "occupancy_percent": ("achieved occupancy", "{:.1f} %".format, _points),
    "occupancy_limit_percent": ("  possible", "{:.1f} %".format, _points),
    "registers": ("registers a thread", numbers.count, _more),
    "waves": ("waves of blocks", numbers.count, _more),
    "sm_clock_mhz": ("SM clock, MHz", "{:.0f}".format, _relative),
    "grid": ("grid", one_line, lambda _, __: ""),
    "block": ("block", one_line, lambda _, __: ""),
}
"""Of `LaunchFigures`, in this order; a figure that neither side has is left out."""


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
    sides = f": a is {kernels.before}, b is {kernels.now}"
    page.line(Cell(f"kernels under {kernels.tool}", "bold"), sides)
    if not kernels.probes:
        page.prose("No kernel's time per step has moved by 0.1 % of all kernel time.")
        return page.text
    page.prose(
        "One launch each, the first of the measured steps, with caches emptied and clocks as they "
        "were: its time is not that of a step in the gate.",
        style="dim",
    )
    page.facts(*(("note", say.fact(note)) for note in kernels.notes), style="yellow")
    for probe in kernels.probes:
        moved = probe.moved
        page.blank()
        grown = numbers.difference(Metric.KERNEL_MS, moved.change_ms)
        notes = "".join(f", {one_line(say.fact(note))}" for note in moved.notes)
        page.line(
            Cell(one_line(named(moved.name), longest=LONGEST), "bold"),
            f"  {grown} ms a step{notes}",
        )
        page.table(("figure", ">a", ">b", ">change"), _rows(probe.before, probe.now))
        absent = (("a", probe.no_before), ("b", probe.no_now))
        page.facts(*((label, f"no figures: {say.fact(why)}") for label, why in absent if why))
        for label, launch in (("a is", probe.before), ("b is", probe.now)):
            found = None if launch is None else limited(launch)
            page.prose("" if found is None else say.fact(found), label=label)
    return page.text


def _rows(a: LaunchFigures | None, b: LaunchFigures | None) -> list[Row]:
    rows: list[Row] = []
    for field, (title, write, change) in FIGURES.items():
        was, now = (getattr(side, field, None) for side in (a, b))
        if was is not None or now is not None:
            values = (NONE if one is None else write(one) for one in (was, now))
            rows.append((title, *values, "" if None in (was, now) else change(was, now)))
    return rows
