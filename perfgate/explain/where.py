"""Where a metric moved, as one note, from its attributions; adds nothing of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.explain.names import brief
from perfgate.model.diagnosis import Attribution, Axis, Part
from perfgate.model.metric import METRICS, PERIODS, Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import OUTSIDE_RANGES, UNNAMED

MOST_NAMED: Final = 3
LEAST_SHARE: Final = 0.05
"""A part whose share of the whole is smaller is not worth its name."""
WHOLE: Final = 0.99
"""From this share on, the named parts are the whole of it."""
MORE_THAN_IT: Final = 1.1
"""From this share on, they are so much more that what moved the other way has to be named."""


def where(attributions: Sequence[Attribution]) -> Mapping[Metric, Note]:
    """Say of each metric by how much it moved and what made it up: `+1: +1 under loss_log; by call:
    ...`.

    A metric without a part that moved its way has no entry, but for a step that takes longer.
    """
    found: dict[Metric, Note] = {}
    for metric in dict.fromkeys(one.metric for one in attributions):
        own = [one for one in attributions if one.metric is metric]
        axes = [_axis(one, parts) for one in own if (parts := largest(one))]
        change, rest = own[0].change, own[0].rest
        if not axes and metric in PERIODS and rest > change / 2 > 0:
            axes = [note("where-in-turn")]
        if axes:
            unit = METRICS[metric].unit
            number = note("with-unit" if unit else "without-unit", change=change, unit=unit)
            found[metric] = note("where", change=number, axes=tuple(axes))
    return found


def largest(attribution: Attribution) -> list[Part]:
    """At most three parts, the largest first, that went the whole's way by a fair share of it.

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


def _axis(attribution: Attribution, parts: Sequence[Part]) -> Note:
    named = tuple(_part(part, attribution) for part in parts)
    if attribution.axis is not Axis.RANGE:
        return note("where-by", axis=attribution.axis, parts=named)
    if abs(attribution.rest) > abs(attribution.change):
        return note("where-ranges-and-rest", parts=named, rest=attribution.rest)
    is_all = abs(sum(part.change for part in parts)) >= WHOLE * abs(attribution.change)
    return note("where-ranges" if is_all else "where-ranges-partly", parts=named)


def _part(part: Part, attribution: Attribution) -> Note:
    of = "" if part.metric is attribution.metric else f"{part.metric} "
    if attribution.axis is Axis.RANGE and part.name == OUTSIDE_RANGES:
        return note("part-outside", of=of, change=part.change)
    name = brief(part.name) if attribution.axis is Axis.KERNEL else part.name or UNNAMED
    if attribution.axis is Axis.RANGE:
        name = f"under {name}"
    if part.notes:
        return note("part-noted", of=of, change=part.change, name=name, notes=part.notes)
    return note("part", of=of, change=part.change, name=name)
