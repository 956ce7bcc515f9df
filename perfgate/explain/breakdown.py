"""What several runs say of where time and counts go, put into one, and cut down to what a baseline
keeps; and which of several processes says most.

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

from perfgate.explain.names import key
from perfgate.model.metric import Metric
from perfgate.model.sample import (
    OTHER_KERNELS,
    OTHER_RANGES,
    OTHER_SYNCS,
    WHOLE_GRAPHS,
    Breakdown,
    ProcessSample,
    Row,
    Run,
    combined,
    folded,
)

MOST_KEPT: Final = 12
"""Calls in a baseline, besides the row for all others: enough to say where, few enough for a diff.
"""
MOST_RANGES_KEPT: Final = 40
"""The same of ranges: all that a run tells apart. What grew among those that are not kept has no
name."""
MOST_KERNELS_KEPT: Final = 40
"""The same of kernels: loops that were recorded on an H200 run some 35 of them, and of one that is
not named it can only be guessed how much of its time is new."""
TIED: Final = 0.001
"""Ranks whose steps differ by a smaller share take as long: all-reduce keeps them in step, and
which one is slower by a microsecond changes from run to run. On two H200s they differed by 0.03 per
mille (golden `two-ranks`)."""
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
CAUSES: Final = (
    Metric.GAP_MS,
    Metric.KERNEL_MS,
    Metric.H2D_EXPOSED_MS,
    Metric.MEM_EXPOSED_MS,
)


class RunBreakdown(Breakdown):
    """A breakdown of runs that are at hand, of the process that says most; never kept."""

    own: Mapping[Metric, float] = {}
    """This process's values, the median over the runs."""
    of: str = ""
    """Which of several processes it is of; empty of one alone."""
    gpus: int = 0
    """How many GPUs its steps used; 0 where that differs from run to run."""
    each: tuple[RunBreakdown, ...] = ()
    """Those of all of several processes, in the order of their ranks; none where runs have not as
    many of them."""
    place: int = 0
    """Which of `each` it is."""


def as_measured(side: Breakdown) -> RunBreakdown:
    """The same with what is known of runs at hand: of what a baseline keeps nothing."""
    return side if isinstance(side, RunBreakdown) else RunBreakdown(**dict(side))


def label(process: ProcessSample) -> str:
    """What a process is called: by its rank, else by the one GPU it used, else by its id."""
    if process.rank is not None:
        return f"rank {process.rank}"
    if len(process.devices) == 1:
        return f"the process on {process.devices[0].title}"
    return f"process {process.pid}"


def leading(run: Run) -> ProcessSample | None:
    """The process of a run that says most: the one that the others wait for, else the slowest;
    None without any.

    Of those that are as slow, the first: the one of the lowest rank.
    """
    if each := of_each([run]):
        return run.processes[_place(each)]
    return next(iter(run.processes), None)


def breakdown_of(runs: Sequence[Run]) -> Breakdown:
    """The median over the runs of each row of the leading process, as metrics are medians over
    runs.

    What a run lacks counts as none there; a metric that it did not measure is left out. It is the
    same process of all runs, if they have as many, and else each run's own.
    """
    if each := of_each(runs):
        place = _place(each)
        return each[place].model_copy(update={"each": each, "place": place})
    chosen = [process for run in runs if (process := leading(run)) is not None]
    of_several = any(len(run.processes) > 1 for run in runs)
    return _of_process(chosen, of_several=of_several) if chosen else Breakdown()


def of_each(runs: Sequence[Run]) -> tuple[RunBreakdown, ...]:
    """Each of several processes, over all runs; none where there are not several, as many in every
    run."""
    numbers = {len(run.processes) for run in runs}
    if len(numbers) != 1 or max(numbers) < 2:
        return ()
    same = zip(*(run.processes for run in runs), strict=True)
    return tuple(_of_process(processes, of_several=True) for processes in same)


def _of_process(chosen: Sequence[ProcessSample], *, of_several: bool) -> RunBreakdown:
    """The medians over runs of which these are a process each."""
    labels = {label(process) for process in chosen} if of_several else {""}
    gpus = {process.gpus for process in chosen}
    unknown = {metric for process in chosen for metric in process.absent}
    return RunBreakdown(
        own={
            metric: median(process.values[metric] for process in chosen)
            for metric in Metric
            if all(metric in process.values for process in chosen)
        },
        of=labels.pop() if len(labels) == 1 else "one process",
        gpus=gpus.pop() if len(gpus) == 1 else 0,
        ranges=tuple(
            row.model_copy(
                update={"values": {m: ms for m, ms in row.values.items() if m not in unknown}}
            )
            for row in _medians([process.ranges for process in chosen], "name")
        ),
        kernels=_medians([process.kernels for process in chosen], "name", "kind"),
        copies=_medians([process.copies for process in chosen], "direction", "host"),
        syncs=_medians([process.syncs for process in chosen], "call", "range"),
    )


def kept(whole: Breakdown) -> Breakdown:
    """What a baseline keeps: the largest rows, the others as one, so that sums stay the same;
    kernels by their key."""
    kernels = [
        row.model_copy(update={"name": key(row.name)})
        for row in whole.kernels
        if row.kind == "kernel"
    ]
    others = (row for row in whole.kernels if row.kind != "kernel")
    return Breakdown(
        ranges=folded(whole.ranges, lambda row: row.size_ms, MOST_RANGES_KEPT, name=OTHER_RANGES),
        kernels=(
            *folded(kernels, lambda row: row.gpu_ms, MOST_KERNELS_KEPT, name=OTHER_KERNELS),
            *others,
        ),
        copies=whole.copies,
        syncs=folded(
            whole.syncs, lambda row: row.count, MOST_KEPT, call=OTHER_SYNCS, range=OTHER_RANGES
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """The process for which the others wait."""

    place: int
    """Among the processes of a run."""
    waited_ms: float
    """What the others have more of NCCL's kernels during which nothing else ran, per step: the
    median of them."""
    cause: Metric | None
    """Of which it has most more than they."""
    cause_ms: float = 0.0


def straggler(each: Sequence[RunBreakdown]) -> Straggler | None:
    """The process for which others wait by at least `APART` of the step.

    ```
    rank 0   |--kernels--|~~~~waits~~~~|     exposed by most: it waits
    rank 1   |--kernels--|~~~~waits~~~~|
    rank 2               |--kernels--|~|     exposed by least: it is late
    ```
    """
    exposed, steps = own_values(each, Metric.NCCL_EXPOSED_MS), own_values(each, Metric.STEP_MS)
    if not exposed or not steps or not _run_the_same(each):
        return None
    place = exposed.index(min(exposed))
    waited_ms = -beyond_others(exposed, place)
    if waited_ms <= 0 or waited_ms < APART * max(steps):
        return None
    more = {
        metric: beyond_others(values, place)
        for metric in CAUSES
        if (values := own_values(each, metric))
    }
    cause = max(more, key=more.__getitem__, default=None)
    if cause is None or more[cause] < MOST_OF_IT * waited_ms:
        return Straggler(place=place, waited_ms=waited_ms, cause=None)
    return Straggler(place=place, waited_ms=waited_ms, cause=cause, cause_ms=more[cause])


def own_values(each: Sequence[RunBreakdown], metric: Metric) -> list[float]:
    """A metric of each process; none where one of them did not measure it."""
    known = [one.own[metric] for one in each if metric in one.own]
    return known if len(known) == len(each) else []


def beyond_others(values: Sequence[float], place: int) -> float:
    """By how much one of some values is above the median of the others."""
    return values[place] - median([*values[:place], *values[place + 1 :]])


def _run_the_same(each: Sequence[RunBreakdown]) -> bool:
    """Whether all run the same NCCL kernels, so far as is seen: a graph that was traced whole may
    hold some."""
    of_each = [{row.name: row.count for row in one.kernels if row.kind == "nccl"} for one in each]
    is_hidden = any(row.name == WHOLE_GRAPHS for one in each for row in one.kernels)
    counts = [
        [kernels.get(name, 0.0) for kernels in of_each]
        for name in {name for kernels in of_each for name in kernels}
    ]
    return not is_hidden and all(max(one) - min(one) <= AS_MANY * max(one) for one in counts)


def _place(each: Sequence[RunBreakdown]) -> int:
    """The place of the process that says most."""
    late = straggler(each)
    if late is not None:
        return late.place
    steps = [one.own.get(Metric.STEP_MS, 0.0) for one in each]
    return next(place for place, ms in enumerate(steps) if ms >= (1 - TIED) * max(steps))


def _medians(tables: Sequence[Sequence[Row]], *names: str) -> tuple[Row, ...]:
    """The rows of several runs, of each name the median of what they say."""

    def over(values: Sequence[float]) -> float:
        return median([*values, *[0.0] * (len(tables) - len(values))])

    alike: dict[tuple[object, ...], list[Row]] = {}
    for table in tables:
        for row in table:
            alike.setdefault(tuple(getattr(row, name) for name in names), []).append(row)
    return tuple(combined(rows, over) for rows in alike.values())
