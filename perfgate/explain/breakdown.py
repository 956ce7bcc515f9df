"""What several runs say of where time and counts go, put into one, and cut down to what a baseline
keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Final, Literal, TypeVar

from perfgate.explain.names import key
from perfgate.explain.ranks import label, stragglers
from perfgate.model.metric import Metric
from perfgate.model.sample import (
    OTHER_KERNELS,
    OTHER_RANGES,
    OTHER_SYNCS,
    Breakdown,
    CopySample,
    KernelSample,
    ProcessSample,
    RangeSample,
    Run,
    SyncSample,
)

MOST_KEPT: Final = 12
"""Calls in a baseline, besides the row for all others: enough to say where, few enough for a diff.
"""
MOST_RANGES_KEPT: Final = 40
"""The same of ranges: all that a run tells apart. What grew among those that are not told has no
name."""
MOST_KERNELS_KEPT: Final = 40
"""The same of kernels: loops that were recorded on an H200 run some 35 of them, and of one that is
not told it can only be guessed how much of its time is new."""
TIED: Final = 0.001
"""Ranks whose steps differ by a smaller share take as long: all-reduce keeps them in step, and
which one is slower by a microsecond changes from run to run. On two H200s they differed by 0.03 per
mille (golden `two-ranks`)."""


class ReadableBreakdown(Breakdown):
    """A breakdown of runs that are at hand, with what is known of the process of each that it is
    of; never kept."""

    own: Mapping[Metric, float] = {}
    """Of several processes: this one's values, the median over the runs. Of one alone a run's
    values are its own."""
    of: str = ""
    """Which of several processes it is of; empty of one alone."""
    gpus: int = 0
    """How many GPUs its steps used; 0 where that is not known, or differs from run to run."""
    each: tuple[ReadableBreakdown, ...] = ()
    """Of several processes, those of all, in the order of their ranks; none where runs have not as
    many of them."""
    place: int = 0
    """Which of `each` it is."""


def telling(run: Run) -> ProcessSample | None:
    """The process of a run that tells most: the one that the others wait for, else the slowest;
    None without any.

    Of those that are as slow, the first: the one of the lowest rank.
    """
    return run.processes[_telling([run])] if run.processes else None


def breakdown_of(runs: Sequence[Run]) -> Breakdown:
    """The median over the runs of each row of the telling process, as metrics are medians over
    runs.

    A row that a run lacks counts as none there. It is the same process of all runs, if they have as
    many, and else each run's own. A range's value that some run did not measure at all is left out.
    """
    several = {len(run.processes) for run in runs}
    if len(several) == 1 and min(several) > 1:
        each = tuple(
            _middle([run.processes[place] for run in runs], is_of_several=True)
            for place in range(min(several))
        )
        place = _telling(runs)
        return each[place].model_copy(update={"each": each, "place": place})
    told = [process for run in runs if (process := telling(run)) is not None]
    return _middle(told, is_of_several=max(several) > 1) if told else Breakdown()


def _telling(runs: Sequence[Run]) -> int:
    """The place of the process that tells most, by medians over runs that have as many."""
    if late := stragglers(runs):
        return late[0].place
    places = range(len(runs[0].processes))
    steps = [
        median(run.processes[place].values.get(Metric.STEP_MS, 0.0) for run in runs)
        for place in places
    ]
    return next(place for place in places if steps[place] >= (1 - TIED) * max(steps))


def _middle(told: Sequence[ProcessSample], *, is_of_several: bool) -> ReadableBreakdown:
    labels, gpus = {label(process) for process in told}, {process.gpus for process in told}
    return ReadableBreakdown(
        own=_medians(told) if is_of_several else {},
        of="" if not is_of_several else labels.pop() if len(labels) == 1 else "one process",
        gpus=gpus.pop() if len(gpus) == 1 else 0,
        ranges=_ranges([process.ranges for process in told]),
        kernels=_rows(
            [process.kernels for process in told], lambda row: (row.name, row.kind), _kernel
        ),
        copies=_rows(
            [process.copies for process in told], lambda row: (row.direction, row.host), _copy
        ),
        syncs=_rows([process.syncs for process in told], lambda row: (row.call, row.range), _sync),
    )


def kept(whole: Breakdown) -> Breakdown:
    """What a baseline keeps: the largest rows, the others as one, so that sums stay the same;
    kernels by their key."""
    kernels = [
        row if row.name == OTHER_KERNELS else _renamed(row)
        for row in whole.kernels
        if row.kind == "kernel"
    ]
    return Breakdown(
        ranges=_cut(
            whole.ranges,
            lambda row: row.size_ms,
            lambda row: row.name != OTHER_RANGES,
            _other_ranges,
            most=MOST_RANGES_KEPT,
        ),
        kernels=(
            *_cut(
                kernels,
                lambda row: row.gpu_ms,
                lambda row: row.name != OTHER_KERNELS,
                lambda rest: _kernel(OTHER_KERNELS, "kernel", rest),
                most=MOST_KERNELS_KEPT,
            ),
            *(row for row in whole.kernels if row.kind != "kernel"),
        ),
        copies=whole.copies,
        syncs=_cut(
            whole.syncs,
            lambda row: row.count,
            lambda row: row.call != OTHER_SYNCS,
            lambda rest: _sync(OTHER_SYNCS, OTHER_RANGES, rest),
        ),
    )


def _medians(told: Sequence[ProcessSample]) -> dict[Metric, float]:
    throughout = [metric for metric in Metric if all(metric in process.values for process in told)]
    return {metric: median(process.values[metric] for process in told) for metric in throughout}


_Over = Callable[[Sequence[float]], float]
"""How the figures of several rows become one."""

Row = TypeVar("Row", bound=RangeSample | KernelSample | CopySample | SyncSample)
"""A row of one of the tables of a breakdown."""


def _rows(
    tables: Sequence[Sequence[Row]],
    named: Callable[[Row], tuple[str | None, ...]],
    added: Callable[..., Row],
) -> tuple[Row, ...]:
    """The rows of several runs, of each name the median of what they say."""

    def over(values: Sequence[float]) -> float:
        return median([*values, *[0.0] * (len(tables) - len(values))])

    alike: dict[tuple[str | None, ...], list[Row]] = {}
    for table in tables:
        for row in table:
            alike.setdefault(named(row), []).append(row)
    return tuple(added(*name, rows, over=over) for name, rows in alike.items())


def _renamed(row: KernelSample) -> KernelSample:
    return row.model_copy(update={"name": key(row.name)})


def _kernel(
    name: str,
    kind: Literal["kernel", "nccl", "memory"],
    rows: Sequence[KernelSample],
    *,
    over: _Over = sum,
) -> KernelSample:
    return KernelSample(
        name=name,
        kind=kind,
        count=over([row.count for row in rows]),
        gpu_ms=over([row.gpu_ms for row in rows]),
    )


def _copy(
    direction: str, host: str | None, rows: Sequence[CopySample], *, over: _Over = sum
) -> CopySample:
    return CopySample(
        direction=direction,
        host=host,
        count=over([row.count for row in rows]),
        bytes=over([row.bytes for row in rows]),
        gpu_ms=over([row.gpu_ms for row in rows]),
    )


def _sync(call: str, under: str, rows: Sequence[SyncSample], *, over: _Over = sum) -> SyncSample:
    return SyncSample(
        call=call,
        range=under,
        count=over([row.count for row in rows]),
        cpu_ms=over([row.cpu_ms for row in rows]),
    )


def _ranges(tables: Sequence[Sequence[RangeSample]]) -> tuple[RangeSample, ...]:
    measured = [{metric for row in table for metric in row.values} for table in tables]
    throughout = set.intersection(*measured)

    def added(name: str, rows: Sequence[RangeSample], *, over: _Over) -> RangeSample:
        return _range(name, rows, [metric for metric in Metric if metric in throughout], over=over)

    return _rows(tables, lambda row: (row.name,), added)


def _range(
    name: str, rows: Sequence[RangeSample], metrics: Iterable[Metric], *, over: _Over
) -> RangeSample:
    return RangeSample(
        name=name,
        count=over([row.count for row in rows]),
        cpu_ms=over([row.cpu_ms for row in rows]),
        values={metric: over([row.values.get(metric, 0.0) for row in rows]) for metric in metrics},
    )


def _other_ranges(rest: Sequence[RangeSample]) -> RangeSample:
    metrics: Mapping[Metric, None] = dict.fromkeys(metric for row in rest for metric in row.values)
    return _range(OTHER_RANGES, rest, metrics, over=sum)


def _cut(
    rows: Sequence[Row],
    size: Callable[[Row], float],
    is_named: Callable[[Row], bool],
    folded: Callable[[Sequence[Row]], Row],
    *,
    most: int = MOST_KEPT,
) -> tuple[Row, ...]:
    """The largest named rows, and one for all others if there are any."""
    ordered = sorted(rows, key=size, reverse=True)
    named = [row for row in ordered if is_named(row)]
    rest = [*named[most:], *(row for row in ordered if not is_named(row))]
    return (*named[:most], *((folded(rest),) if rest else ()))
