"""What ncu says of the kernels that moved, as text: a small table a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from perfgate.model.kernelfigures import KernelProbe, KernelProbes, LaunchFigures
from perfgate.model.note import Note
from perfgate.render.page import Cell, Page, Row, columns
from perfgate.words import numbers, say
from perfgate.words.escape import one_line

LONGEST: Final = 120
NONE: Final = "-"


class Line(NamedTuple):
    """One figure's row."""

    title: str
    field: str
    """Of `LaunchFigures`."""
    write: Callable[[float], str]
    change: Callable[[float, float], str]


def _points(before: float, now: float) -> str:
    return f"{now - before:+.1f} pp"


def _relative(before: float, now: float) -> str:
    if before <= 0:
        return ""
    grown = now / before - 1
    return f"x{now / before:.3g}" if grown >= 10 else numbers.percent(grown, signed=True)


def _more(before: float, now: float) -> str:
    return "" if before == now else f"{now - before:+.4g}"


def _percent(value: float) -> str:
    return f"{value:.1f} %"


LINES: Final = (
    Line("duration, us", "duration_us", numbers.milliseconds, _relative),
    Line("compute throughput", "compute_percent", _percent, _points),
    Line("memory throughput", "memory_percent", _percent, _points),
    Line("  of that, DRAM", "dram_percent", _percent, _points),
    Line("achieved occupancy", "occupancy_percent", _percent, _points),
    Line("  possible", "occupancy_limit_percent", _percent, _points),
    Line("registers a thread", "registers", numbers.count, _more),
    Line("waves of blocks", "waves", numbers.count, _more),
    Line("SM clock, MHz", "sm_clock_mhz", "{:.0f}".format, _relative),
)
"""What is kernels of a launch, in this order; a figure that neither side has is left out."""


def kernels_text(
    kernels: KernelProbes,
    *,
    named: Callable[[str], str],
    limited: Callable[[LaunchFigures], Note | None],
    width: int,
    colour: bool,
) -> str:
    """Return the tables of all kernels.

    Args:
        kernels: what was looked at.
        named: makes a kernel's name readable.
        limited: says what a launch is limited by, or None.
        width: cells of a line.
        colour: whether escape codes may be used.
    """
    page = Page(width=width, colour=colour)
    page.line(
        Cell(text=f"kernels under {kernels.tool}", style="bold"),
        f": a is {kernels.before}, b is {kernels.now}",
    )
    if not kernels.probes:
        page.prose("No kernel's time per step has moved by 0.1 % of all kernel time.")
        return page.text
    page.prose(
        "One launch each, the first of the measured steps, with caches emptied and clocks as they were: its time is "
        "not that of a step in the gate.",
        style="dim",
    )
    for note in kernels.notes:
        page.prose(say.fact(note), label="note", style="yellow")
    for probe in kernels.probes:
        _kernel(page, probe, named, limited)
    return page.text


def _kernel(
    page: Page,
    probe: KernelProbe,
    named: Callable[[str], str],
    limited: Callable[[LaunchFigures], Note | None],
) -> None:
    moved = probe.moved
    page.blank()
    signed = f"{'-' if moved.change_ms < 0 else '+'}{numbers.milliseconds(abs(moved.change_ms))} ms a step"
    page.line(
        Cell(text=one_line(named(moved.name), longest=LONGEST), style="bold"),
        f"  {', '.join((signed, *map(say.fact, moved.notes)))}",
    )
    a, b = probe.before, probe.now
    if a is not None or b is not None:
        titles = columns("figure", ">a", ">b", ">change")
        page.table(titles, list(_rows(a, b)))
    for label, why in (("a", probe.no_before), ("b", probe.no_now)):
        if why:
            page.prose(f"no figures: {say.fact(why)}", label=label)
    for label, launch in (("a is", a), ("b is", b)):
        found = None if launch is None else limited(launch)
        if found is not None:
            page.prose(say.fact(found), label=label)


def _rows(a: LaunchFigures | None, b: LaunchFigures | None) -> list[Row]:
    rows: list[Row] = []
    for line in LINES:
        was, now = (None if side is None else getattr(side, line.field) for side in (a, b))
        if was is not None or now is not None:
            values = (NONE if one is None else line.write(one) for one in (was, now))
            change = "" if was is None or now is None else line.change(was, now)
            rows.append((line.title, *values, change))
    for shape in ("grid", "block"):
        sides = (NONE if side is None else one_line(getattr(side, shape)) for side in (a, b))
        rows.append((shape, *sides, ""))
    return rows
