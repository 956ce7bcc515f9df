"""How far the ranks of a job lie apart, and for which of them the others wait, as notes; it judges
nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.explain.breakdown import (
    APART,
    MOST_OF_IT,
    RunBreakdown,
    Straggler,
    beyond_others,
    label,
    of_each,
    own_values,
    straggler,
)
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import UNNAMED, Run

SHOWN: Final = (
    Metric.STEP_MS,
    Metric.KERNEL_MS,
    Metric.GAP_MS,
    Metric.H2D_EXPOSED_MS,
    Metric.MEM_EXPOSED_MS,
    Metric.NCCL_MS,
    Metric.NCCL_EXPOSED_MS,
)
AS_MUCH: Final = 0.8
"""A range within another that is longer is longer by about as much: by this share of it at least.
"""
MOST_NAMED: Final = 3


def rank_notes(runs: Sequence[Run]) -> tuple[Note, ...]:
    """Say of several processes with steps how far they lie apart and which is waited for; nothing
    of one."""
    each = of_each(runs)
    if not each:
        return ()
    labels = [label(process) for process in runs[-1].processes]
    late = straggler(each)
    return _spread(each, labels), *([] if late is None else [_late(each, late, labels)])


def _spread(each: Sequence[RunBreakdown], labels: Sequence[str]) -> Note:
    step = max(own_values(each, Metric.STEP_MS), default=0.0)
    found: list[Note] = []
    for metric in SHOWN:
        values = own_values(each, metric) or [0.0]
        least, most = min(values), max(values)
        if step and most - least >= APART * step:
            low, high = (labels[values.index(one)] for one in (least, most))
            found.append(
                note("ranks-apart", metric=metric, least=least, most=most, low=low, high=high)
            )
    apart = note("apart", values=tuple(found)) if found else None
    return note("ranks", processes=len(each), apart=apart)


def _late(each: Sequence[RunBreakdown], late: Straggler, labels: Sequence[str]) -> Note:
    rank, cause = labels[late.place], late.cause
    if cause is None:
        return note("rank-late", rank=rank, waited_ms=late.waited_ms)
    on_host = cause is Metric.GAP_MS
    tables = [
        {row.name: row.cpu_ms if on_host else row.values.get(cause, 0.0) for row in one.ranges}
        for one in each
    ]
    where = _where(tables, late)
    return note(
        "rank-late-by",
        rank=rank,
        waited_ms=late.waited_ms,
        metric=cause,
        more_ms=late.cause_ms,
        where=note("late-on-host" if on_host else "late-under", ranges=where) if where else None,
    )


def _where(tables: Sequence[Mapping[str, float]], late: Straggler) -> tuple[Note, ...]:
    """The ranges in which a straggler does more than the others, the largest first, of what each
    process has under each range.

    Idle time does not say it, but time on the CPU: a host that is late stays late, so that its GPU
    waits under every range that follows, while on the other GPUs NCCL's kernels fill that time. Of
    ranges that take its host longer by about as much, which may lie one within the other, it is the
    innermost.
    """
    own = tables[late.place]
    left = {
        name: more
        for name in own
        if (more := beyond_others([of.get(name, 0.0) for of in tables], late.place))
        >= MOST_OF_IT * late.cause_ms
    }
    found: list[Note] = []
    while left and len(found) < MOST_NAMED:
        alike = [name for name in left if left[name] >= AS_MUCH * max(left.values())]
        name = min(alike, key=lambda one: own[one])
        found.append(note("longer-under", ms=left[name], range=name or UNNAMED))
        left = {name: more for name, more in left.items() if name not in alike}
    return tuple(found)
