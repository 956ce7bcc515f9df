"""Numbers as text: the one file that divides by powers of ten; knows no layout."""

from __future__ import annotations

from typing import Final

from perfgate.model.metric import METRICS, Basis, Kind, Metric

_BYTES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_HUGE: Final = 1e7
"""From here a time in ms is a mistake of somebody's, and is written with an exponent."""


def milliseconds(ms: float) -> str:
    """Write a time in ms with four digits that mean something: `0.0831`, `8.312`, `83.12`, `1,234`."""
    size = abs(ms)
    if size >= _HUGE or 0 < size < 0.00005:
        return f"{ms:.2e}"
    decimals = (
        0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3 if size >= 1 else 4
    )
    return "0" if ms == 0 else f"{ms:,.{decimals}f}"


def count(value: float) -> str:
    """Write a count per step: `46`, `2.5`, `1,572,864`."""
    if abs(value) >= 1e15:
        return f"{value:.3e}"
    return _trimmed(f"{value:,.2f}")


def size(n_bytes: float) -> str:
    """Write bytes in decimal units with four digits: `512 B`, `38.54 MB`."""
    for factor, unit in _BYTES:
        # 999,999 B would be 1000 kB after rounding; it is 1 MB.
        if abs(n_bytes) >= factor * 0.99995:
            return f"{n_bytes / factor:.4g} {unit}"
    return f"{_trimmed(f'{n_bytes:.1f}')} B"


def percent(fraction: float, *, signed: bool = False) -> str:
    """Write a fraction in per cent: `2 %`, `+3.1 %`, `+0.42 %`."""
    return f"{_hundredths(fraction, _decimals(fraction), signed=signed)} %"


def share(part: float, whole: float) -> str:
    """Write a part of a whole in per cent, empty where there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole > 0 else ""


def probability(p: float) -> str:
    """Write a p-value with two digits: `0.031`, `<0.0001`."""
    return "<0.0001" if p < 0.0001 else f"{p:.2g}" if p < 0.995 else ">0.99"


def value(metric: Metric, amount: float) -> str:
    """Write a metric's value; the unit of a time is in the metric's name."""
    match METRICS[metric].kind:
        case Kind.CLOCK:
            return milliseconds(amount)
        case Kind.COUNT:
            return size(amount) if METRICS[metric].unit == "B" else count(amount)


def unit_of(basis: Basis) -> str:
    """Return the unit of a change: per cent, or percentage points of the baseline's step."""
    match basis:
        case Basis.LOG:
            return "%"
        case Basis.STEP:
            return "pp"


def change(
    fraction: float, basis: Basis, low: float | None = None, high: float | None = None
) -> str:
    """Write a clock's change with its interval, all with the same digits: `+3.1 % [+2.4, +3.8]`."""
    ends = [] if low is None or high is None else [low, high]
    if fraction == 0 and not ends:
        return f"0 {unit_of(basis)}"
    if basis is Basis.LOG and fraction >= 10:
        interval = f" [x{1 + ends[0]:.3g}, x{1 + ends[1]:.3g}]" if ends else ""
        return f"x{1 + fraction:.3g}{interval}"
    decimals = _decimals(max((fraction, *ends), key=abs))
    interval = (
        f" [{', '.join(_hundredths(end, decimals, signed=True) for end in ends)}]" if ends else ""
    )
    return f"{_hundredths(fraction, decimals, signed=True)} {unit_of(basis)}{interval}"


def count_change(metric: Metric, before: float, after: float) -> str:
    """Write a count's change so that any is seen: `+1 (+2.2 %)`, `+2` where there was none, empty where none happened.

    Of 38.54 MB and 4 bytes more, the values look alike and the change says `+4 B`.
    """
    if before == after:
        return ""
    grown = after - before
    told = size(grown) if METRICS[metric].unit == "B" else count(grown)
    if told.removesuffix(" B") in ("0", "-0"):
        told = f"{grown:.2g}"
    signed = f"+{told}" if grown > 0 else told
    relative = grown / before if before else 0.0
    if abs(relative) < 0.00005:
        return signed
    return (
        f"{signed} (x{1 + relative:.3g})"
        if relative >= 10
        else f"{signed} ({percent(relative, signed=True)})"
    )


def limit(budget: float, basis: Basis) -> str:
    """Write a budget: `2 %`, `1 pp`."""
    return f"{_trimmed(f'{100 * budget:.2f}')} {unit_of(basis)}"


def _decimals(fraction: float) -> int:
    per_cent = abs(100 * fraction)
    return 0 if per_cent >= 99.95 else 1 if per_cent >= 0.995 else 2


def _hundredths(fraction: float, decimals: int, *, signed: bool) -> str:
    if abs(fraction) >= 1000:
        return f"{100 * fraction:{'+' if signed else ''}.1e}"
    told = f"{100 * fraction:{'+' if signed else ''}.{decimals}f}"
    return told.replace("-", "+" if signed else "") if float(told) == 0 else told


def _trimmed(text: str) -> str:
    told = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if told in ("-0", "") else told
