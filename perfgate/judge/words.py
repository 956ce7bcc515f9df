"""Numbers and changes in words: percentages, counts, changes; decides nothing."""

from __future__ import annotations

import shlex
from typing import Final

from perfgate.model import numbers
from perfgate.model.metric import Basis

LARGEST_SHOWN: Final = 10.0
"""Of a loss that runs could have shown: above it they could have shown none to speak of."""


def trimmed(value: float, *, decimals: int) -> str:
    """Write a number without trailing zeros: `2`, `3.1`, never `-0`."""
    if abs(value) >= 1e15:
        return f"{value:.3g}"
    text = f"{value:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def percent(fraction: float) -> str:
    """Write a fraction as a percentage without its sign: `3.1` for 0.0312, `0.04` for 0.0004, `213` for 2.131."""
    value = 100 * fraction
    return trimmed(value, decimals=0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2)


def shown_loss(fraction: float) -> str:
    """Write the smallest loss that runs can show: `2.5 %`, and `more than 1000 %` where they show nothing."""
    return (
        f"{percent(fraction)} %"
        if fraction <= LARGEST_SHOWN
        else f"more than {percent(LARGEST_SHOWN)} %"
    )


def amount(value: float) -> str:
    """Write a count per step: `3`, `2.5`, `1572864`."""
    return trimmed(value, decimals=2)


def milliseconds(value: float) -> str:
    """Write a time per step: `12.5`, `0.0125`."""
    return trimmed(value, decimals=2) if abs(value) >= 1 else f"{value:.3g}"


def told_change(
    change: float, low: float | None, high: float | None, *, budget: float, basis: Basis
) -> str:
    """Tell a clock's change as its row shows it: `+3.1 % [+2.8, +3.4], budget 2 %`.

    Without an interval where none decides.
    """
    of_step = " of a step" if basis is Basis.STEP else ""
    return f"{numbers.change(change, basis, low, high)}{of_step}, budget {numbers.limit(budget, basis)}"


def bless_command(workload: str, *options: str) -> str:
    """Write the command that blesses one workload; brackets of an id are quoted, as shells expand them."""
    return " ".join(["perfgate bless", shlex.quote(workload), '--reason "..."', *options])
