"""Says in a sentence where a metric moved, from its attributions; adds nothing of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.explain.names import brief, one_line
from perfgate.model.metric import METRICS, PERIODS, Metric
from perfgate.model.sample import OUTSIDE_RANGES
from perfgate.model.verdict import Attribution, Axis, Part

MOST_NAMED: Final = 3
LEAST_SHARE: Final = 0.05
"""A part whose share of the whole is smaller is not worth its name."""
WHOLE: Final = 0.99
"""From this share on, the named parts are the whole of it."""
IN_TURN: Final = (
    ", for which no kernel, copy or idle time tells: what ran side by side may run in turn"
)
"""Of a step that takes longer, while all that it is made of does not."""
MORE_THAN_IT: Final = 1.1
"""From this share on, they are so much more that what moved the other way has to be named."""


def where(attributions: Sequence[Attribution]) -> Mapping[Metric, str]:
    """Say of each metric by how much it moved and what made it up: `+1: +1 under loss_log; by call:
    ...`.

    At most three parts of an axis are named that moved the way the whole did; where ranges are more
    than the whole, the largest that moved the other way as well; and what no range accounts for,
    where that is more than the whole. A metric without such a part has no entry, but for a step
    that takes longer.
    """
    told: dict[Metric, str] = {}
    for metric in dict.fromkeys(one.metric for one in attributions):
        own = [one for one in attributions if one.metric is metric]
        sentences = [_tell(one, parts) for one in own if (parts := largest(one))]
        if (
            not sentences
            and metric in PERIODS
            and own[0].change > 0
            and own[0].rest > own[0].change / 2
        ):
            sentences = [IN_TURN]
        if sentences:
            unit = METRICS[metric].unit
            told[metric] = "".join([_number(own[0].change), f" {unit}" if unit else "", *sentences])
    return told


def largest(attribution: Attribution) -> list[Part]:
    """The parts worth naming, the largest first: those that went the whole's way by a fair share of
    it.

    Behind them, of ranges, the one that went the other way by most, where they are more than the
    whole.
    """
    sign = math.copysign(1.0, attribution.change)
    least = max(LEAST_SHARE * abs(attribution.change), 1e-9)
    found = [part for part in attribution.parts if part.change * sign > least][:MOST_NAMED]
    overshoots = sum(part.change for part in found) * sign > MORE_THAN_IT * abs(attribution.change)
    if attribution.axis is not Axis.RANGE or not overshoots:
        return found
    against = [part for part in attribution.parts if -part.change * sign > least]
    return [*found, *sorted(against, key=lambda part: part.change * sign)[:1]]


def _tell(attribution: Attribution, parts: Sequence[Part]) -> str:
    signed = ", ".join(
        f"{'' if part.metric is attribution.metric else f'{part.metric} '}{_number(part.change)} "
        f"{_under(part) if attribution.axis is Axis.RANGE else _named(part, attribution.axis)}"
        for part in parts
    )
    if attribution.axis is not Axis.RANGE:
        return f"; by {attribution.axis}: {signed}"
    if attribution.tells_all and abs(attribution.rest) > abs(attribution.change):
        return f": {signed}, and {_number(attribution.rest)} is not accounted for"
    of_which = abs(sum(part.change for part in parts)) < WHOLE * abs(attribution.change)
    return f"{', of which ' if of_which else ': '}{signed}"


def _under(part: Part) -> str:
    return (
        "outside any range" if part.name == OUTSIDE_RANGES else f"under {_named(part, Axis.RANGE)}"
    )


def _named(part: Part, axis: Axis) -> str:
    name = brief(part.name) if axis is Axis.KERNEL else one_line(part.name)
    return f"{name} ({part.note})" if part.note else name


def _number(value: float) -> str:
    """Write a signed number per step with three digits that count: `+1`, `+3.9`, `-0.012`,
    `+1572864`."""
    size = abs(value)
    if not 1e-3 <= size < 1e15:
        return f"{value:+.3g}"
    decimals = max(0, 2 - math.floor(math.log10(size)))
    text = f"{value:+.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
