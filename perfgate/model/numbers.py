"""Values and changes of metrics as text: which unit a metric has; all digits are made in `words.numbers`."""

from __future__ import annotations

from perfgate.model.metric import Basis, Metric
from perfgate.words import numbers
from perfgate.words.numbers import count, milliseconds, percent, probability, share, size

__all__ = [
    "change",
    "count",
    "count_change",
    "limit",
    "milliseconds",
    "percent",
    "probability",
    "share",
    "size",
    "unit_of",
    "value",
]


def unit_of(basis: Basis) -> str:
    """Return the unit of a change: per cent, or percentage points of the baseline's step."""
    match basis:
        case Basis.LOG:
            return "%"
        case Basis.STEP:
            return "pp"


def value(metric: Metric, amount: float) -> str:
    """Write a metric's value; the unit of a time is in the metric's name."""
    return numbers.value(metric, amount)


def change(
    fraction: float, basis: Basis, low: float | None = None, high: float | None = None
) -> str:
    """Write a clock's change with its interval, all with the same digits: `+3.1 % [+2.4, +3.8]`."""
    return numbers.change(fraction, unit_of(basis), low, high)


def count_change(metric: Metric, before: float, after: float) -> str:
    """Write a count's change so that any is seen."""
    return numbers.count_change(metric, before, after)


def limit(budget: float, basis: Basis) -> str:
    """Write a budget: `2 %`, `1 pp`."""
    return numbers.limit(budget, unit_of(basis))
