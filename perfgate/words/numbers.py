"""Numbers and units, plurals and lists as text: the one file that divides by powers of ten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_BYTES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_HUGE: Final = 1e7
"""From here a time in ms is a mistake of somebody's, and is written with an exponent."""

FACTORS_FROM: Final = 10.0
"""A relative change from which on it is shown as a factor: `x12.4`."""


def milliseconds(ms: float) -> str:
    """Write a time in ms with four significant digits: `0.0831`, `8.312`, `83.12`, `1,234`."""
    magnitude = abs(ms)
    if magnitude >= _HUGE or 0 < magnitude < 0.00005:
        return f"{ms:.2e}"
    return "0" if ms == 0 else f"{ms:,.{_decimals(magnitude, (1000, 100, 10, 1))}f}"


def count(value: float) -> str:
    """Write a count per step: `46`, `2.5`, `1,572,864`."""
    if abs(value) >= 1e15:
        return f"{value:.3e}"
    return trimmed(f"{value:,.2f}")


def signed(value: float) -> str:
    """Write a signed number per step with three digits that count: `+1`, `+3.9`, `-0.012`,
    `+1572864`."""
    magnitude = abs(value)
    if not 1e-3 <= magnitude < 1e15:
        return f"{value:+.3g}"
    return trimmed(f"{value:+.{_decimals(magnitude, (100, 10, 1, 0.1, 0.01))}f}")


def _decimals(magnitude: float, limits: tuple[float, ...]) -> int:
    """None from the first limit on, one from the second, and so on."""
    return next((n for n, limit in enumerate(limits) if magnitude >= limit), len(limits))


def size(n_bytes: float) -> str:
    """Write bytes in decimal units with four significant digits: `512 B`, `38.54 MB`."""
    for factor, unit in _BYTES:
        # 999,999 B would be 1000 kB after rounding; it is 1 MB.
        if abs(n_bytes) >= factor * 0.99995:
            return f"{n_bytes / factor:.4g} {unit}"
    return f"{trimmed(f'{n_bytes:.1f}')} B"


def percent(fraction: float, *, signed: bool = False) -> str:
    """Write a fraction as a percentage: `2.0 %`, `+3.1 %`, `+0.42 %`."""
    return f"{hundredths(fraction, decimals_of(fraction), signed=signed)} %"


def short_percent(fraction: float) -> str:
    """Write a fraction as a percentage without trailing zeros: `2 %`, `3.1 %`, `0.04 %`, `213
    %`.
    """
    value = 100 * fraction
    if abs(value) >= 1e15:
        return f"{value:.3g} %"
    return f"{trimmed(f'{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 2}f}')} %"


def loss(fraction: float) -> str:
    """Write the smallest loss that runs show: `2.5 %`, `more than 1000 %` where they show
    nothing.
    """
    return short_percent(fraction) if fraction <= 10 else "more than 1000 %"


def share(part: float, whole: float) -> str:
    """Write a part of a whole as a percentage, empty where there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole > 0 else ""


def probability(p: float) -> str:
    """Write a p-value with two digits: `0.031`, `<0.0001`."""
    return "<0.0001" if p < 0.0001 else f"{p:.2g}" if p < 0.995 else ">0.99"


def seconds(s: float) -> str:
    """Write a duration: `0.4 s`, `14 s`, `2 min 5 s`, `1 h 4 min`."""
    if s < 9.95:
        return f"{trimmed(f'{s:.1f}')} s"
    minutes, rest = divmod(round(s), 60)
    if minutes < 60:
        return (
            f"{minutes} min {rest} s"
            if minutes and rest
            else f"{minutes or rest} {'min' if minutes else 's'}"
        )
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def value(metric: str, amount: float | None) -> str:
    """Write a metric's value without the unit of a time, which is in the metric's name; of one that
    is not known nothing."""
    if amount is None:
        return ""
    if metric.endswith("_ms"):
        return milliseconds(amount)
    return size(amount) if metric.endswith("_bytes") else count(amount)


def change(fraction: float, unit: str, low: float | None = None, high: float | None = None) -> str:
    """Write a time's change with its interval, all with the same digits: `+3.1 % [+2.4, +3.8]`.

    `unit` is `%` of a relative change, or `pp`: percentage points of the baseline's step.
    """
    ends = [] if low is None or high is None else [low, high]
    if fraction == 0 and not ends:
        return f"0 {unit}"
    if unit == "%" and fraction >= FACTORS_FROM:
        interval = f" [x{1 + ends[0]:.3g}, x{1 + ends[1]:.3g}]" if ends else ""
        return f"x{1 + fraction:.3g}{interval}"
    decimals = decimals_of(max((fraction, *ends), key=abs))
    shown = ", ".join(hundredths(end, decimals, signed=True) for end in ends)
    interval = f" [{shown}]" if ends else ""
    return f"{hundredths(fraction, decimals, signed=True)} {unit}{interval}"


def difference(metric: str, grown: float) -> str:
    """Write with its sign by how much a metric's value grew, in its own unit."""
    return f"{'-' if grown < 0 else '+'}{value(metric, abs(grown))}"


def count_change(metric: str, before: float, after: float) -> str:
    """Write a count's change so that any is seen: `+1 (+2.2 %)`, `+2`, empty where there is none.

    Of 38.54 MB and 4 bytes more, the values look alike and the change says `+4 B`.
    """
    if before == after:
        return ""
    grown = after - before
    text = value(metric, grown)
    if text.removesuffix(" B") in ("0", "-0"):
        text = f"{grown:.2g}"
    signed = f"+{text}" if grown > 0 else text
    relative = grown / before if before else 0.0
    if abs(relative) < 0.00005:
        return signed
    of_before = f"x{1 + relative:.3g}" if relative >= 10 else percent(relative, signed=True)
    return f"{signed} ({of_before})"


def limit(budget: float, unit: str) -> str:
    """Write a budget: `2 %`, `1 pp`."""
    return f"{trimmed(f'{100 * budget:.2f}')} {unit}"


def decimals_of(fraction: float) -> int:
    """Return how many decimals a percentage is shown with: 0 from 100 % on, 1 from 1 % on,
    else 2.
    """
    per_cent = abs(100 * fraction)
    return 0 if per_cent >= 99.95 else 1 if per_cent >= 0.995 else 2


def hundredths(fraction: float, decimals: int, *, signed: bool) -> str:
    """Write a fraction in hundredths, without a sign where it rounds to zero."""
    if abs(fraction) >= 1000:
        return f"{100 * fraction:{'+' if signed else ''}.1e}"
    text = f"{100 * fraction:{'+' if signed else ''}.{decimals}f}"
    return text.replace("-", "+" if signed else "") if float(text) == 0 else text


def trimmed(text: str) -> str:
    """Return a number without trailing zeros: `2`, `3.1`, never `-0`."""
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short in ("-0", "") else short


def plural(number: float, one: str, many: str | None = None) -> str:
    """Write `1 run`, `3 runs`; with a form of its own for many, `2 copies`."""
    return f"{number} {inflected(number, one, many)}"


def inflected(number: float, one: str, many: str | None = None) -> str:
    """Return the word that agrees with a number: `run` or `runs`, `was` or `were`."""
    if number == 1:
        return one
    return f"{one}s" if many is None else many


def listed(names: Iterable[str]) -> str:
    """Write `a`, `a and b`, `a, b and c`."""
    items = list(names)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
