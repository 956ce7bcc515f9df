"""Draws how often each rule calls a workload slower, by how much slower it is; measures nothing."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.decision.populations import POPULATIONS
from benchmarks.decision.results import Simulated, interval
from benchmarks.decision.simulate import PERFGATE, SETTING_OF_PEERS, SLOWDOWNS


@dataclass(frozen=True, kw_only=True)
class Line:
    """One rule as it is drawn; the tighter setting of a tool is hollow and dashed."""

    rule: str
    colour: str
    marker: str
    hollow: bool = False


LINES: Final = (
    Line(rule=PERFGATE, colour="#1a1a1a", marker="o"),
    Line(rule="pytest-benchmark median:5%", colour="#e69f00", marker="D"),
    Line(rule="pytest-benchmark median:2%", colour="#e69f00", marker="D", hollow=True),
    Line(rule="asv continuous, factor 1.1", colour="#cc79a7", marker="s"),
    Line(rule="asv continuous, factor 1.02, samples", colour="#cc79a7", marker="s", hollow=True),
    Line(rule="Welch 1 %", colour="#009e73", marker="^"),
    Line(rule="Mann-Whitney 1 %", colour="#56b4e9", marker="v"),
)
"""From front to back; colours of Okabe and Ito, which most colour-blind readers tell apart."""
_STYLE: Final = {
    "svg.hashsalt": "perfgate",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}
_MOST_ALARMS: Final = 20.0
"""Where the lower panels end, %."""


def svg(simulated: Simulated) -> str:
    """Draw power above and false alarms below, a column a population; the same numbers give the same text."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(12.0, 6.0), facecolor="white")
        rows = figure.subplots(2, len(POPULATIONS), sharey="row", height_ratios=(1.7, 1.0))
        for power, alarms, population in zip(*rows, POPULATIONS, strict=True):
            for place, line in enumerate(LINES):
                cells = {
                    cell.slowdown: cell
                    for cell in simulated.cells
                    if (cell.clocks, cell.population, cell.rule) == (SETTING_OF_PEERS, population.name, line.rule)
                }
                look = {
                    "color": line.colour,
                    "marker": line.marker,
                    "markersize": 5,
                    "markerfacecolor": "white" if line.hollow else line.colour,
                    "zorder": 20 - place,
                }
                power.plot(
                    [100 * slowdown for slowdown in SLOWDOWNS],
                    [100 * cells[slowdown].regressed / cells[slowdown].gates for slowdown in SLOWDOWNS],
                    linewidth=2.6 if line.rule == PERFGATE else 1.3,
                    linestyle="--" if line.hollow else "-",
                    **look,
                )
                unchanged = cells[0.0]
                low, high = interval(unchanged.regressed, unchanged.gates)
                alarms.plot([100 * low, 100 * high], [place, place], color=line.colour, linewidth=1.3)
                alarms.plot([100 * unchanged.regressed / unchanged.gates], [place], linestyle="", clip_on=False, **look)
            power.axvline(2.0, color="#bbbbbb", linewidth=0.8, linestyle=":", zorder=0)
            power.set_title(population.name, loc="left", fontweight="bold")
            power.set(xlim=(-0.2, 5.2), ylim=(-2, 102), xlabel="slowdown, %")
            power.set_xticks([0, 1, 2, 3, 5], ["0", "1", "2", "3", "5"])
            power.grid(axis="y", color="#e6e6e6", linewidth=0.6)
            alarms.set(xlim=(0, _MOST_ALARMS), xlabel="false alarms, %")
            alarms.set_xticks([0, 5, 10, 15], ["0", "5", "10", "15"])
            alarms.set_yticks(range(len(LINES)), [line.rule for line in LINES])
            alarms.grid(axis="x", color="#e6e6e6", linewidth=0.6)
        rows[1][0].invert_yaxis()
        rows[0][0].set_ylabel("gates called slower, %")
        figure.text(0.99, 0.012, "dotted: the budget; bars: 95 % intervals", ha="right", fontsize=8, color="#444444")
        figure.subplots_adjust(left=0.225, right=0.985, top=0.94, bottom=0.11, wspace=0.08, hspace=0.32)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"
