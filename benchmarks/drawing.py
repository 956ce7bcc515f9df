"""How the benchmarks' pictures look, and their text; needs matplotlib."""

from __future__ import annotations

from io import StringIO
from typing import Final

from matplotlib.figure import Figure

STYLE: Final = {
    "svg.hashsalt": "perfgate",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "hatch.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}


def as_svg(figure: Figure) -> str:
    """A figure as text, the same for the same numbers."""
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"
