"""Draws how much faster each variant is than the first of its loop, and what its GPU did of a step;
measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.drawing import STYLE, as_svg
from benchmarks.series.recording import Recording
from benchmarks.series.speedups import Bar, bars_of

OURS: Final = "#0072b2"
PUBLISHED: Final = "#e69f00"
"""Colours of Okabe and Ito, which most colour-blind readers can distinguish; the published bars are
hatched besides."""
COMPUTING, COPYING, IDLE = OURS, "#cc79a7", "#dddddd"
_HEIGHT: Final = 0.38


def svg(recording: Recording) -> str | None:
    """Draw a row of panels a loop, on white, which dark pages show as well; None where there is
    nothing to compare.

    On the left a pair of bars a variant, ours and the published: a bar ends at the median, and a
    line spans the runs. On the right what the GPU did of a step, of loops in which one was
    measured.
    """
    panels = bars_of(recording)
    if not panels:
        return None
    with mpl.rc_context(STYLE):
        sizes = [len(bars) + 1.6 for bars in panels.values()]
        figure = Figure(figsize=(9.6, 0.42 * sum(sizes)), facecolor="white", layout="constrained")
        rows = figure.subplots(
            len(panels), 2, squeeze=False, height_ratios=sizes, width_ratios=(3, 2)
        )
        for (left, right), (loop, bars) in zip(rows, panels.items(), strict=True):
            _panel(left, loop, bars)
            _of_step(right, bars)
        return as_svg(figure)


def _panel(axes: mpl.axes.Axes, loop: str, bars: Sequence[Bar]) -> None:
    has_published = any(bar.published is not None for bar in bars)
    for place, bar in enumerate(bars):
        at = place - _HEIGHT / 2 if has_published else place
        axes.barh(at, bar.ours, _HEIGHT, color=OURS, label=None if place else "measured here")
        axes.plot([bar.slowest, bar.fastest], [at, at], color="#1a1a1a", linewidth=1.2)
        _number(axes, bar.ours, max(bar.ours, bar.fastest), at)
        if bar.published is not None:
            at = place + _HEIGHT / 2
            label = None if place else "published"
            axes.barh(
                at,
                bar.published,
                _HEIGHT,
                label=label,
                facecolor="white",
                edgecolor=PUBLISHED,
                hatch="////",
            )
            _number(axes, bar.published, bar.published, at)
    axes.set_title(loop, loc="left", fontweight="bold", color="#222222")
    axes.set_yticks(range(len(bars)), [bar.variant for bar in bars])
    axes.invert_yaxis()
    axes.axvline(1.0, color="#bbbbbb", linewidth=0.8, linestyle=":", zorder=0)
    axes.margins(x=0.1)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"speed-up over {bars[0].variant}; the line spans the runs", color="#444444")
    if has_published:
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 0.98),
            ncols=2,
            frameon=False,
            fontsize=8,
            handlelength=1.0,
        )


def _of_step(axes: mpl.axes.Axes, bars: Sequence[Bar]) -> None:
    measured = [(place, bar.shares) for place, bar in enumerate(bars) if bar.shares is not None]
    if not measured:
        axes.set_axis_off()
        return
    for first, (place, shares) in enumerate(measured):
        start = 0.0
        for share, colour, what in (
            (shares.computing, COMPUTING, "computing"),
            (shares.copying, COPYING, "copying, nothing else"),
            (shares.idle, IDLE, "idle"),
        ):
            axes.barh(
                place, 100 * share, 0.62, left=start, color=colour, label=None if first else what
            )
            start += 100 * share
    axes.set_yticks([])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("what the GPU did, % of a step", color="#444444")
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 0.98),
        ncols=3,
        frameon=False,
        fontsize=8,
        handlelength=1.0,
    )


def _number(axes: mpl.axes.Axes, value: float, end: float, at: float) -> None:
    axes.text(end, at, f" x{value:.2f}", va="center", color="#222222", fontsize=8)
