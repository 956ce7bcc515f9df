"""What ncu says of the kernels that moved, as text: a small table a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from perfgate.model.comparison import KernelProbes, LaunchFigures
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.render.page import Cell, Page, Row
from perfgate.words import numbers, say
from perfgate.words.escape import one_line

LONGEST: Final = 120
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
