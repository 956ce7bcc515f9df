"""How far the ranks of a job lie apart, and for which of them the others wait; it judges nothing.

All-reduce makes every rank as slow as the slowest, so that step times say nothing. NCCL's kernels
spin while they wait: the rank whose kernels take the least time in them is the one that comes last.
What that costs the others is the time in which their GPUs run nothing else: one late start is
waited for in each bucket of gradients, most of it behind kernels. Of ranks that do not run the same
NCCL kernels the least time says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import UNNAMED, WHOLE_GRAPHS, ProcessSample, Run

SHOWN: Final = (
    Metric.STEP_MS,
    Metric.KERNEL_MS,
    Metric.GAP_MS,
    Metric.H2D_EXPOSED_MS,
    Metric.MEM_EXPOSED_MS,
    Metric.NCCL_MS,
    Metric.NCCL_EXPOSED_MS,
)
APART: Final = 0.05
"""Ranks lie apart, and wait for one another, from this share of the step on.

On two H200s an unhindered DistributedDataParallel loop was apart by 0.3 %
(`two-ranks-h200-nsys2025.3` among the golden captures: 0.3089 and 0.3531 ms in NCCL kernels that
nothing hid, of a step of 13.69 ms).
"""
MOST_OF_IT: Final = 0.2
"""What a straggler does more than the others is its reason from this share of their wait on."""
AS_MANY: Final = 0.05
"""Ranks run the same NCCL kernels if those of each name are as many on each, but for this share."""
AS_MUCH: Final = 0.8
"""A range within another that is longer is longer by about as much: by this share of it at least.
"""
MOST_NAMED: Final = 3
CAUSES: Final = (
    Metric.GAP_MS,
    Metric.KERNEL_MS,
    Metric.H2D_EXPOSED_MS,
    Metric.MEM_EXPOSED_MS,
)


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """The rank for which the others wait."""

    place: int
    """Among the processes of a run."""
    waited_ms: float
    """What the others have more of NCCL's kernels during which nothing else ran, per step: the
    median of them."""
    cause: Metric | None
    """Of which it has most more than they."""
    cause_ms: float = 0.0


def rank_notes(runs: Sequence[Run]) -> tuple[Note, ...]:
    """Say of several processes with steps how far they lie apart and which is waited for; nothing
    of one."""
    if not _of_several(runs):
        return ()
    found = straggler(runs)
    return (_spread(runs), *(() if found is None else (_late(runs, found),)))


def straggler(runs: Sequence[Run]) -> Straggler | None:
    """The process for which others wait by at least `APART` of the step, by medians over the runs.

    ```
    rank 0   |--kernels--|~~~~waits~~~~|     exposed by most: it waits
    rank 1   |--kernels--|~~~~waits~~~~|
    rank 2               |--kernels--|~|     exposed by least: it is late
    ```
    """
    if not _of_several(runs) or not all(map(_run_the_same, runs)):
        return None
    exposed, steps = _medians(runs, Metric.NCCL_EXPOSED_MS), _medians(runs, Metric.STEP_MS)
    if exposed is None or steps is None:
        return None
    place = exposed.index(min(exposed))
    waited_ms = _others(exposed, place) - exposed[place]
    if waited_ms <= 0 or waited_ms < APART * max(steps):
        return None
    more = {
        metric: values[place] - _others(values, place)
        for metric in CAUSES
        if (values := _medians(runs, metric)) is not None
    }
    cause = max(more, key=lambda metric: more[metric], default=None)
    if cause is None or more[cause] < MOST_OF_IT * waited_ms:
        return Straggler(place=place, waited_ms=waited_ms, cause=None)
    return Straggler(place=place, waited_ms=waited_ms, cause=cause, cause_ms=more[cause])


def label(process: ProcessSample) -> str:
    """What a process is called: by its rank, else by the one GPU it used, else by its id."""
    if process.rank is not None:
        return f"rank {process.rank}"
    if len(process.devices) == 1:
        return f"the process on {process.devices[0].title}"
    return f"process {process.pid}"


def _run_the_same(run: Run) -> bool:
    """Whether all ranks run the same NCCL kernels, so far as is seen: a graph that was traced whole
    may hold some."""
    of_each = [
        {row.name: row.count for row in process.kernels if row.kind == "nccl"}
        for process in run.processes
    ]
    is_hidden = any(row.name == WHOLE_GRAPHS for one in run.processes for row in one.kernels)
    counts = [
        [each.get(name, 0.0) for each in of_each]
        for name in {name for each in of_each for name in each}
    ]
    return not is_hidden and all(max(one) - min(one) <= AS_MANY * max(one) for one in counts)


def _of_several(runs: Sequence[Run]) -> bool:
    return (
        bool(runs) and len(runs[0].processes) > 1 and len({len(run.processes) for run in runs}) == 1
    )


def _medians(runs: Sequence[Run], metric: Metric) -> list[float] | None:
    """The metric of each process, the median over the runs; None where one did not measure it."""
    if not all(metric in process.values for run in runs for process in run.processes):
        return None
    places = range(len(runs[0].processes))
    return [median(run.processes[place].values[metric] for run in runs) for place in places]


def _others(values: Sequence[float], place: int) -> float:
    return median([*values[:place], *values[place + 1 :]])


def _spread(runs: Sequence[Run]) -> Note:
    step = max(_medians(runs, Metric.STEP_MS) or [0.0])
    found: list[Note] = []
    for metric in SHOWN:
        values = _medians(runs, metric) or [0.0]
        least, most = min(values), max(values)
        if step and most - least >= APART * step:
            low, high = (label(runs[-1].processes[values.index(one)]) for one in (least, most))
            found.append(
                note("ranks-apart", metric=metric, least=least, most=most, low=low, high=high)
            )
    apart = note("apart", values=tuple(found)) if found else None
    return note("ranks", processes=len(runs[0].processes), apart=apart)


def _late(runs: Sequence[Run], late: Straggler) -> Note:
    rank = label(runs[-1].processes[late.place])
    if late.cause is None:
        return note("rank-late", rank=rank, waited_ms=late.waited_ms)
    where = _where(runs, late)
    on_host = late.cause is Metric.GAP_MS
    return note(
        "rank-late-by",
        rank=rank,
        waited_ms=late.waited_ms,
        metric=late.cause,
        more_ms=late.cause_ms,
        where=note("late-on-host" if on_host else "late-under", ranges=where) if where else None,
    )


def _where(runs: Sequence[Run], late: Straggler) -> tuple[Note, ...]:
    """The ranges in which a straggler does more than the others, the largest first.

    Idle time does not say it: a host that is late stays late, so that its GPU waits under every
    range that follows, while on the other GPUs NCCL's kernels fill that time. Of ranges that take
    its host longer by about as much, which may lie one within the other, it is the innermost.
    """
    on_host = late.cause is Metric.GAP_MS
    of_each = [
        _by_range(runs, place, None if on_host else late.cause)
        for place in range(len(runs[0].processes))
    ]
    own = of_each[late.place]
    left = {
        name: more
        for name, ms in own.items()
        if (more := ms - _others([one.get(name, 0.0) for one in of_each], late.place))
        >= MOST_OF_IT * late.cause_ms
    }
    found: list[Note] = []
    while left and len(found) < MOST_NAMED:
        alike = [name for name in left if left[name] >= AS_MUCH * max(left.values())]
        name = min(alike, key=lambda one: own[one])
        found.append(note("longer-under", ms=left[name], range=name or UNNAMED))
        left = {name: more for name, more in left.items() if name not in alike}
    return tuple(found)


def _by_range(runs: Sequence[Run], place: int, metric: Metric | None) -> Mapping[str, float]:
    """What a process has of a metric under each range, the median over the runs; without one, time
    on the CPU."""
    tables = [
        {
            row.name: row.cpu_ms if metric is None else row.values.get(metric, 0.0)
            for row in run.processes[place].ranges
        }
        for run in runs
    ]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: median(table.get(name, 0.0) for table in tables) for name in names}
