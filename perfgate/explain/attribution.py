"""Takes apart what moved, by range, kernel, kind of copy and call, and says where that was; it adds
nothing of its own and judges nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from perfgate.explain.breakdown import RunBreakdown
from perfgate.explain.names import brief, short
from perfgate.explain.parts import by_call, by_copy, by_kernel, by_range
from perfgate.explain.traces import NOTHING
from perfgate.model.diagnosis import Attribution, Axis, Part
from perfgate.model.metric import EXPOSED, METRICS, PERIODS, Kind, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import OUTSIDE_RANGES, UNNAMED, Breakdown
from perfgate.model.verdict import MetricVerdict

_PARTS_OF_STEP: Final = (Metric.KERNEL_MS, Metric.GAP_MS, *EXPOSED)
MOST_NAMED: Final = 3
LEAST_SHARE: Final = 0.05
"""A part whose share of the whole is smaller is not worth its name."""
WHOLE: Final = 0.99
"""From this share on, the named parts are the whole of it."""
MORE_THAN_IT: Final = 1.1
"""From this share on, they are so much more that what moved the other way has to be named."""


def judged_to_move(row: MetricVerdict) -> bool:
    """Whether a metric is REGRESSED or IMPROVED, or INCONCLUSIVE with a change of more than half
    its budget."""
    if row.outcome is Outcome.INCONCLUSIVE:
        return row.change is not None and row.budget is not None and row.change > row.budget / 2
    return row.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)


def attributions(
    before: Breakdown,
    now: Breakdown,
    rows: Sequence[MetricVerdict],
    *,
    moved: Callable[[MetricVerdict], bool] = judged_to_move,
    named: Callable[[str], str] = short,
) -> tuple[Attribution, ...]:
    """Take apart what `moved`: per metric one attribution an axis that both sides know, by range
    first.

    The metrics that say most come first: losses before gains, counts before times, which follow
    from them, of times what changed most, and the step, in which all of it shows, last. A step is
    no range's own: kernel time, idle time and copies that nothing hides, which are, stand for it;
    and of steps that use no GPU the ranges' own time on the CPU. Kernels bear the names that
    `named` makes of theirs.
    """
    of_metric = {row.metric: row for row in rows if None not in (row.baseline, row.now)}
    chosen = [row for row in of_metric.values() if moved(row)]
    found: list[Attribution] = []
    for row in sorted(chosen, key=_weight):
        a, b = of_process(row, before, now)
        by_axis = {
            Axis.RANGE: _of_ranges(row, a, b, of_metric),
            Axis.KERNEL: by_kernel(row.metric, a, b, named),
            Axis.COPY: by_copy(row.metric, a, b),
            Axis.CALL: by_call(row.metric, a, b),
        }
        made = [_attribution(row, axis, parts, a, b) for axis, parts in by_axis.items() if parts]
        found += [one for one in made if one.parts or one.covers_all]
    return tuple(found)


def of_process(
    row: MetricVerdict, before: Breakdown, now: Breakdown
) -> tuple[Breakdown, Breakdown]:
    """The two sides of the process that a metric's value is of.

    A value is the worst of the ranks: of what has grown, the rank that has it now; of what has not,
    the one that had it. Of the step, which ranks have in common, it is the leading one.
    """
    own, theirs = _each(now), _each(before)
    if not own or (theirs and len(own) != len(theirs)):
        return before, now
    has_grown = _growth(row) >= 0
    side, judged = (own, row.now) if has_grown else (theirs, row.baseline)
    if row.metric in PERIODS or not side:
        place = now.place if isinstance(now, RunBreakdown) else 0
    else:
        far = [abs(one.own.get(row.metric, math.inf) - (judged or 0.0)) for one in side]
        place = far.index(min(far))
    return theirs[place] if theirs else before, own[place]


def _each(side: Breakdown) -> Sequence[RunBreakdown]:
    return side.each if isinstance(side, RunBreakdown) else ()


def _weight(row: MetricVerdict) -> tuple[int, bool, bool, bool, float]:
    outcomes = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.IMPROVED)
    loss = outcomes.index(row.outcome) if row.outcome in outcomes else len(outcomes)
    is_time = METRICS[row.metric].kind is Kind.TIME
    change = abs(row.change) if is_time and row.change is not None else 0.0
    return loss, _growth(row) < 0, is_time, row.metric in PERIODS, -change


def _growth(row: MetricVerdict) -> float:
    return (row.now or 0.0) - (row.baseline or 0.0)


def _attribution(
    row: MetricVerdict, axis: Axis, parts: Sequence[Part], before: Breakdown, now: Breakdown
) -> Attribution:
    whole, process = _growth(row), ""
    if isinstance(now, RunBreakdown):
        process, is_now = now.of, now.own.get(row.metric)
        was = before.own.get(row.metric) if isinstance(before, RunBreakdown) else None
        if process and was is not None and is_now is not None:
            whole = is_now - was
    changed = (part for part in parts if abs(part.change) > NOTHING)
    moved = tuple(sorted(changed, key=lambda part: -abs(part.change)))
    rest = whole - sum(part.change for part in moved)
    return Attribution(
        metric=row.metric, axis=axis, change=whole, parts=moved, rest=rest, process=process
    )


def _of_ranges(
    row: MetricVerdict, before: Breakdown, now: Breakdown, rows: Mapping[Metric, MetricVerdict]
) -> list[Part]:
    of_cpu = any(Metric.STEP_MS in sample.values for sample in now.ranges)
    if row.metric not in PERIODS or of_cpu:
        return by_range(row, before, now)
    parts = (rows[metric] for metric in _PARTS_OF_STEP if metric in rows)
    return [part for one in parts for part in by_range(one, before, now)]


# Where it was, as notes


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

    Behind them the one that went the other way by most, where they are more than the whole.
    """
    sign = math.copysign(1.0, attribution.change)
    least = max(LEAST_SHARE * abs(attribution.change), 1e-9)
    found = [part for part in attribution.parts if part.change * sign > least][:MOST_NAMED]
    overshoots = sum(part.change for part in found) * sign > MORE_THAN_IT * abs(attribution.change)
    if not overshoots:
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
