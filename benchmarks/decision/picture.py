"""Draws how often each rule calls a workload slower, by how much slower it is; measures nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.decision.results import Simulated
from benchmarks.decision.simulate import CURVE, DRAWN, UNCHANGED, Gate
from benchmarks.drawing import STYLE, as_svg

PERFGATE: Final = "perfgate"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One rule as it is drawn."""

    rule: str
    colour: str
    marker: str


LINES: Final = (
    Line(rule=PERFGATE, colour="#1a1a1a", marker="o"),
    Line(rule="pytest-benchmark median:5%", colour="#e69f00", marker="D"),
    Line(rule="asv continuous, factor 1.02, samples, 8 + 8 runs", colour="#cc79a7", marker="s"),
    Line(rule="Welch 1 %", colour="#009e73", marker="^"),
)
"""From front to back; colours of Okabe and Ito, which most colour-blind readers can distinguish."""
PANELS: Final = dict(
    zip(
        DRAWN,
        ("quiet GPU-bound loop, SD 0.3 %", "noisy loop, SD 2 %", "launch-bound loop, SD 3 %"),
        strict=True,
    )
)


def svg(simulated: Simulated) -> str:
    """Draw the share of gates called slower over the loss, a panel a loop; the same numbers give
    the same text."""
    shares: dict[tuple[str, str], dict[str, float]] = {}
    for cell in simulated.cells:
        if (cell.gate, cell.baseline, cell.workloads) == (Gate.AB_RUN, "5x1", 1):
            shares.setdefault((PERFGATE, cell.population), {})[cell.change] = (
                100 * cell.regressed / cell.gates
            )
    for peer in simulated.peers:
        shares.setdefault((peer.peer, peer.population), {})[peer.change] = (
            100 * peer.slower / peer.gates
        )
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.4), facecolor="white")
        for panel, (population, title) in zip(
            figure.subplots(1, len(PANELS), sharey=True), PANELS.items(), strict=True
        ):
            panel.axvspan(0, 2, color="#f2f2f2", zorder=0)
            for place, line in enumerate(LINES):
                found = shares[line.rule, population]
                panel.plot(
                    [100 * change.loss for change in (UNCHANGED, *CURVE)],
                    [found[str(change)] for change in (UNCHANGED, *CURVE)],
                    color=line.colour,
                    marker=line.marker,
                    markersize=4,
                    linewidth=2.4 if line.rule == PERFGATE else 1.2,
                    label=line.rule,
                    zorder=20 - place,
                    clip_on=False,
                )
            panel.set_title(title, loc="left", fontsize=9)
            panel.set(xlim=(0, 5.1), ylim=(0, 100), xlabel="loss of idle time, % of a step")
            panel.grid(axis="y", color="#e6e6e6", linewidth=0.6)
        figure.axes[0].set_ylabel("gates called slower, %")
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(),
            loc="lower center",
            ncols=len(LINES),
            frameon=False,
        )
        figure.subplots_adjust(left=0.07, right=0.985, top=0.92, bottom=0.26, wspace=0.08)
        return as_svg(figure)
