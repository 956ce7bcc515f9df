"""Numbers and changes in words: percentages, counts, changes; decides nothing."""

from __future__ import annotations

import shlex
from typing import Final, assert_never

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
    return f"{percent(fraction)} %" if fraction <= LARGEST_SHOWN else f"more than {percent(LARGEST_SHOWN)} %"


def amount(value: float) -> str:
    """Write a count per step: `3`, `2.5`, `1572864`."""
    return trimmed(value, decimals=2)


def milliseconds(value: float) -> str:
    """Write a time per step: `12.5`, `0.0125`."""
    return trimmed(value, decimals=2) if abs(value) >= 1 else f"{value:.3g}"


def _towards(change: float, low: float, high: float) -> tuple[str, str]:
    """Write the change's size and its interval in the change's own direction."""
    if change < 0:
        change, low, high = -change, -high, -low
    return percent(change), f"{percent(low)} to {percent(high)}"


def told_change(change: float, low: float, high: float, *, budget: float, basis: Basis) -> str:
    """Tell a clock's change, its interval and its budget: `3.1 % slower (2.8 to 3.4), budget 2 %`."""
    size, interval = _towards(change, low, high)
    match basis:
        case Basis.LOG:
            told = f"{size} % {'faster' if change < 0 else 'slower'}"
        case Basis.STEP:
            told = f"{size} % of a step {'less' if change < 0 else 'more'}"
        case _:
            assert_never(basis)
    if size == "0":
        told = "unchanged"
    return f"{told} ({interval}), budget {percent(budget)} %"


def told_move(change: float, low: float, high: float, *, basis: Basis) -> str:
    """Tell a clock's change as an event: `rose 3.1 % (95 % interval 2.8 to 3.4 %)`."""
    size, interval = _towards(change, low, high)
    verb = "fell" if change < 0 else "rose"
    match basis:
        case Basis.LOG:
            told = f"{verb} {size} %"
        case Basis.STEP:
            told = f"{verb} by {size} % of a step"
        case _:
            assert_never(basis)
    return f"{told} (95 % interval {interval} %)"


def bless_command(workload: str, *options: str) -> str:
    """Write the command that blesses one workload; brackets of an id are quoted, as shells expand them."""
    return " ".join(["perfgate bless", shlex.quote(workload), '--reason "..."', *options])
