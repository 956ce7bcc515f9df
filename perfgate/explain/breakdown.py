"""What several runs say of where time and counts go, put into one, and cut down to what a baseline
keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final, TypeVar

from perfgate.explain.names import key
from perfgate.explain.ranks import label, straggler
from perfgate.model.metric import Metric
from perfgate.model.record import Record
from perfgate.model.sample import (
    OTHER_KERNELS,
    OTHER_RANGES,
    OTHER_SYNCS,
    Breakdown,
    ProcessSample,
    Run,
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


def leading(run: Run) -> ProcessSample | None:
    """The process of a run that says most: the one that the others wait for, else the slowest;
    None without any.

    Of those that are as slow, the first: the one of the lowest rank.
    """
    if len(run.processes) > 1:
        return run.processes[_place([run])]
    return next(iter(run.processes), None)


def breakdown_of(runs: Sequence[Run]) -> Breakdown:
    """The median over the runs of each row of the leading process, as metrics are medians over
    runs.

    What a run lacks counts as none there; a metric that it did not measure is left out. It is the
    same process of all runs, if they have as many, and else each run's own.
    """
    numbers = {len(run.processes) for run in runs}
    if len(numbers) == 1 and min(numbers) > 1:
        of_each = zip(*(run.processes for run in runs), strict=True)
        each = tuple(_of_process(processes, of_several=True) for processes in of_each)
        place = _place(runs)
        return each[place].model_copy(update={"each": each, "place": place})
    chosen = [process for run in runs if (process := leading(run)) is not None]
    return _of_process(chosen, of_several=max(numbers) > 1) if chosen else Breakdown()


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
        row if row.name == OTHER_KERNELS else row.model_copy(update={"name": key(row.name)})
        for row in whole.kernels
        if row.kind == "kernel"
    ]
    others = (row for row in whole.kernels if row.kind != "kernel")
    return Breakdown(
        ranges=_cut(whole.ranges, lambda row: row.size_ms, MOST_RANGES_KEPT, name=OTHER_RANGES),
        kernels=(
            *_cut(kernels, lambda row: row.gpu_ms, MOST_KERNELS_KEPT, name=OTHER_KERNELS),
            *others,
        ),
        copies=whole.copies,
        syncs=_cut(
            whole.syncs, lambda row: row.count, MOST_KEPT, call=OTHER_SYNCS, range=OTHER_RANGES
        ),
    )


def _place(runs: Sequence[Run]) -> int:
    """The place of the process that says most, by medians over runs that have as many."""
    late = straggler(runs)
    if late is not None:
        return late.place
    steps = [
        median(run.processes[place].values.get(Metric.STEP_MS, 0.0) for run in runs)
        for place in range(len(runs[0].processes))
    ]
    return next(place for place, ms in enumerate(steps) if ms >= (1 - TIED) * max(steps))


Row = TypeVar("Row", bound=Record)
"""A row of one of the tables of a breakdown."""


def _medians(tables: Sequence[Sequence[Row]], *names: str) -> tuple[Row, ...]:
    """The rows of several runs, of each name the median of what they say."""

    def over(values: Sequence[float]) -> float:
        return median([*values, *[0.0] * (len(tables) - len(values))])

    alike: dict[tuple[object, ...], list[Row]] = {}
    for table in tables:
        for row in table:
            alike.setdefault(tuple(getattr(row, name) for name in names), []).append(row)
    return tuple(_combined(rows, over) for rows in alike.values())


def _combined(rows: Sequence[Row], over: Callable[[Sequence[float]], float], **names: str) -> Row:
    """Several rows as one: each of its numbers over theirs, and other names."""
    update: dict[str, object] = {**names}
    for name, value in rows[0]:
        if isinstance(value, float):
            update[name] = over([getattr(row, name) for row in rows])
        elif isinstance(value, Mapping):
            by_metric = [getattr(row, name) for row in rows]
            metrics = dict.fromkeys(metric for values in by_metric for metric in values)
            update[name] = {
                metric: over([values.get(metric, 0.0) for values in by_metric])
                for metric in metrics
            }
    return rows[0].model_copy(update=update)


def _cut(
    rows: Sequence[Row], size: Callable[[Row], float], most: int, **other: str
) -> tuple[Row, ...]:
    """The largest named rows, and one for all others if there are any."""
    ordered = sorted(rows, key=size, reverse=True)
    others = [row for row in ordered if all(getattr(row, at) == name for at, name in other.items())]
    named = [row for row in ordered if row not in others]
    rest = [*named[most:], *others]
    return (*named[:most], *((_combined(rest, sum, **other),) if rest else ()))
