"""Of several processes, which one a metric's change is told of: the same on both sides; it takes
nothing apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final

from perfgate.explain.breakdown import ReadableBreakdown
from perfgate.model.metric import METRICS, PERIODS, WAITS, Kind, Metric
from perfgate.model.sample import Breakdown
from perfgate.model.verdict import Attribution, MetricVerdict

MUCH_BETTER: Final = 0.5
"""Share of the change by which another process has to explain it better than the likeliest one, to
be told instead."""
UNTOLD: Final = 2.0
"""What is told of no part weighs so much more than what moves to and fro: of nothing moved, nothing
is explained."""

Pair = tuple[Breakdown, Breakdown]


def told_pair(
    row: MetricVerdict,
    before: Breakdown,
    now: Breakdown,
    take_apart: Callable[[MetricVerdict, Breakdown, Breakdown], Sequence[Attribution]],
) -> Pair:
    """The two sides of the process that a metric's change is told of.

    A value is the worst of the ranks: what the rank that is worst now has gained, or the one that
    was worst before has lost, is all of the change at least. Ranks that wait for one another have
    the step in common, and a baseline tells one process and not which: of these the process is told
    that explains the change best, the likeliest if several explain it about as well.
    """
    pairs = _pairs(row, before, now)
    if len(pairs) == 1:
        return pairs[0]
    change = (row.now or 0.0) - (row.baseline or 0.0)
    unexplained = [_unexplained(take_apart(row, *pair), change) for pair in pairs]
    enough = min(unexplained) + MUCH_BETTER * abs(change)
    return next(pair for pair, amount in zip(pairs, unexplained, strict=True) if amount <= enough)


def same_process(a: Breakdown, b: Breakdown) -> Pair:
    """The two sides of the process that b tells, if a has as many."""
    theirs, own = _each(a), _each(b)
    if not isinstance(b, ReadableBreakdown) or not own or len(theirs) != len(own):
        return a, b
    return theirs[b.place], own[b.place]


def _each(side: Breakdown) -> Sequence[ReadableBreakdown]:
    return side.each if isinstance(side, ReadableBreakdown) else ()


def _pairs(row: MetricVerdict, before: Breakdown, now: Breakdown) -> Sequence[Pair]:
    """The processes that may tell it, the likeliest first."""
    theirs, own = _each(before), _each(now)
    if theirs and own and len(theirs) != len(own):
        return [(before, now)]
    # Of what has grown, the rank that is worst now; of what has not, the one that was worst.
    if own and (not theirs or _has_grown(row)):
        places = _likeliest(row.metric, now, row.now or 0.0, others=theirs)
    elif theirs:
        places = _likeliest(row.metric, before, row.baseline or 0.0, others=own)
    else:
        return [(before, now)]
    if theirs and own and row.metric not in PERIODS:
        places = places[:1]
    return [(theirs[place] if theirs else before, own[place] if own else now) for place in places]


def _has_grown(row: MetricVerdict) -> bool:
    return (row.now or 0.0) >= (row.baseline or 0.0)


def _likeliest(
    metric: Metric, side: Breakdown, judged: float, *, others: Sequence[ReadableBreakdown]
) -> list[int]:
    """The places of a side's processes: those first whose value is the one that was judged.

    Of counts, and of time that holds waiting, this may be another than the highest. Of equal values
    the one that changed most goes first, then that of the lowest rank. Of the step, which ranks
    have in common, the one that tells most goes first.
    """
    each = _each(side)
    if metric in PERIODS:
        assert isinstance(side, ReadableBreakdown)
        return sorted(range(len(each)), key=lambda place: place != side.place)

    def order(place: int) -> tuple[float, float]:
        value = each[place].own.get(metric, 0.0)
        far = (
            abs(value - judged) if METRICS[metric].kind is Kind.COUNT or metric in WAITS else -value
        )
        return far, others[place].own.get(metric, 0.0) if others else 0.0

    return sorted(range(len(each)), key=order)


def _unexplained(found: Sequence[Attribution], change: float) -> float:
    """How far a process is from explaining a change: what its parts leave of it, and how much moved
    to and fro."""
    told = [
        UNTOLD * abs(one.rest) + sum(abs(part.change) for part in one.parts)
        for one in found
        if one.tells_all
    ]
    return fmean(told) if told else UNTOLD * abs(change)
