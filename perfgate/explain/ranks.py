"""How far the ranks of a job lie apart, and for which of them the others wait; it judges nothing.

All-reduce makes every rank as slow as the slowest, so that step times tell nothing. NCCL's kernels
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

from perfgate.explain.names import one_line
from perfgate.model.metric import Metric
from perfgate.model.sample import OUTSIDE_RANGES, WHOLE_GRAPHS, ProcessSample, RangeSample, Run
from perfgate.words.names import listed

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
MOST_TOLD: Final = 3
"""Of ranks that are late, or differ from the others in what they do on the CPU, no more are told.
"""
MOST_LATE: Final = 0.5
"""Share of the ranks up to which those that come last are late: of more, the others are early."""
AS_MANY: Final = 0.05
"""Ranks run the same NCCL kernels if those of each name are as many on each, but for this share."""
_AS_MUCH: Final = 0.8
"""A range within another that is longer is longer by about as much: by this share of it at least.
"""
_REASONS: Final[Mapping[Metric, str]] = {
    Metric.GAP_MS: "{whose} GPU idles {more} a step more than {theirs}",
    Metric.KERNEL_MS: "{whose} kernels take {more} a step more than {theirs}",
    Metric.H2D_EXPOSED_MS: "copies to {whose} GPU that nothing hides take {more} a step more than {theirs}",
    Metric.MEM_EXPOSED_MS: "other copies and memsets of {whose} GPU that nothing hides take {more} a step more than "
    "{theirs}",
}


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """A rank for which others wait."""

    place: int
    """Among the processes of a run."""
    others: tuple[int, ...]
    """The places of those that wait."""
    waited_ms: float
    """What these have more of NCCL's kernels during which nothing else ran, per step: the median of
    them."""
    cause: Metric | None
    """Of which it has most more than they."""
    cause_ms: float = 0.0


def rank_notes(runs: Sequence[Run]) -> tuple[str, ...]:
    """Say of several processes with steps how far they lie apart and which is waited for; nothing
    of one."""
    if not _of_several(runs):
        return ()
    if found := stragglers(runs):
        told = _waited_for(runs, found)
    else:
        told = (_why_untold(runs) if _apart(runs) is not None else "") or _unlike(runs)
    return _spread(runs), *((told,) if told else ())


def stragglers(runs: Sequence[Run]) -> tuple[Straggler, ...]:
    """The processes for which others wait by at least `APART` of the step, by medians over the
    runs.

    ```
    rank 0   |--kernels--|~~~~waits~~~~|     exposed by most: it waits
    rank 1   |--kernels--|~~~~waits~~~~|
    rank 2               |--kernels--|~|     exposed by least: it is late
    ```
    """
    apart = _apart(runs) if _of_several(runs) else None
    if apart is None or _why_untold(runs):
        return ()
    exposed, least = apart
    late = [place for place in _places(runs) if exposed[place] < min(exposed) + least]
    if len(late) > MOST_LATE * len(exposed):
        return ()
    others = tuple(place for place in _places(runs) if place not in late)
    waiting = median(exposed[place] for place in others)
    return tuple(
        _straggler(runs, place, others, waited_ms=waiting - exposed[place]) for place in late
    )


def _straggler(
    runs: Sequence[Run], place: int, others: tuple[int, ...], *, waited_ms: float
) -> Straggler:
    more = {
        metric: values[place] - median(values[other] for other in others)
        for metric in _REASONS
        if (values := _medians(runs, metric)) is not None
    }
    cause = max(more, key=lambda metric: more[metric], default=None)
    if cause is None or more[cause] < MOST_OF_IT * waited_ms:
        return Straggler(place=place, others=others, waited_ms=waited_ms, cause=None)
    return Straggler(
        place=place, others=others, waited_ms=waited_ms, cause=cause, cause_ms=more[cause]
    )


def _apart(runs: Sequence[Run]) -> tuple[list[float], float] | None:
    """How long each rank's GPU runs NCCL's kernels alone, and `APART` of the step; None where they
    differ by less."""
    exposed, step = _medians(runs, Metric.NCCL_EXPOSED_MS), _medians(runs, Metric.STEP_MS)
    if exposed is None or step is None:
        return None
    least = APART * max(step)
    return (exposed, least) if max(exposed) - min(exposed) >= least > 0 else None


def _why_untold(runs: Sequence[Run]) -> str:
    """Why the ranks' time in NCCL's kernels does not say which of them is late; empty where it
    does."""
    if any(
        row.name == WHOLE_GRAPHS
        for run in runs
        for process in run.processes
        for row in process.kernels
    ):
        return (
            "which of them the others wait for is not told: their CUDA graphs were traced whole, and may hold NCCL "
            'kernels; it may be with cuda_graph_trace = "node"'
        )
    if not all(_run_the_same(run) for run in runs):
        return (
            "which of them the others wait for is not told: they do not run the same NCCL kernels"
        )
    return ""


def _run_the_same(run: Run) -> bool:
    of_each = [
        {row.name: row.count for row in process.kernels if row.kind == "nccl"}
        for process in run.processes
    ]
    counts = [
        [each.get(name, 0.0) for each in of_each]
        for name in {name for each in of_each for name in each}
    ]
    return all(max(of_name) - min(of_name) <= AS_MANY * max(of_name) for of_name in counts)


def label(process: ProcessSample) -> str:
    """What a process is called: by its rank, else by the one GPU it used, else by its id."""
    if process.rank is not None:
        return f"rank {process.rank}"
    if len(process.devices) == 1:
        return f"the process on {process.devices[0].title}"
    return f"process {process.pid}"


def _of_several(runs: Sequence[Run]) -> bool:
    return (
        bool(runs) and len(runs[0].processes) > 1 and len({len(run.processes) for run in runs}) == 1
    )


def _medians(runs: Sequence[Run], metric: Metric) -> list[float] | None:
    """The metric of each process, the median over the runs; None where one did not measure it."""
    values = [[run.processes[place].values.get(metric) for run in runs] for place in _places(runs)]
    if any(value is None for of_place in values for value in of_place):
        return None
    return [median(value for value in of_place if value is not None) for of_place in values]


def _places(runs: Sequence[Run]) -> range:
    return range(len(runs[0].processes))


def _others(values: Sequence[float], place: int) -> float:
    return median([*values[:place], *values[place + 1 :]])


def _spread(runs: Sequence[Run]) -> str:
    step = max(_medians(runs, Metric.STEP_MS) or [0.0])
    told: list[str] = []
    for metric in SHOWN:
        values = _medians(runs, metric)
        if values is None or not any(values):
            continue
        least, most = min(values), max(values)
        if step and most - least >= APART * step:
            low, high = (label(runs[-1].processes[values.index(one)]) for one in (least, most))
            told.append(f"{metric} {least:.4g} ms ({low}) to {most:.4g} ({high})")
        else:
            told.append(f"{metric} {least:.4g} to {most:.4g} ms")
    took = f"{len(_places(runs))} processes took the steps"
    if len(runs) == 1:
        return (
            f"{took}, and each value is the worst of theirs, of NCCL the least: {', '.join(told)}"
        )
    # The worst of each run and then the median is more than the worst median, where it is not the
    # same rank each time.
    worst = "and a run's value is the worst of theirs, of NCCL the least"
    return f"{took}, {worst}. Each by its median over the runs: {', '.join(told)}"


def _waited_for(runs: Sequence[Run], found: Sequence[Straggler]) -> str:
    late = [label(runs[-1].processes[one.place]) for one in found]
    own = (
        listed(late)
        if len(late) <= MOST_TOLD
        else f"{len(late)} ranks ({', '.join(late[:MOST_TOLD])}, ...)"
    )
    are, them = ("is", "it") if len(late) == 1 else ("are", "them")
    others, theirs = (
        ("the other waits", "the other's")
        if len(found[0].others) == 1
        else ("the others wait", "theirs")
    )
    waited = median(one.waited_ms for one in found)
    told = f"{own} {are} late: {others} {waited:.4g} ms a step for {them} in NCCL kernels that nothing hides"
    reasons = (
        _reason(runs, one, "its" if len(late) == 1 else f"{name}'s", theirs)
        for one, name in zip(found[:MOST_TOLD], late, strict=False)
    )
    return "; ".join([told, *(reason for reason in reasons if reason)])


def _reason(runs: Sequence[Run], found: Straggler, whose: str, theirs: str) -> str:
    """What a straggler does more than those that wait for it, and where; empty where nothing that
    was measured does."""
    if found.cause is None:
        return ""
    told = _REASONS[found.cause].format(whose=whose, more=f"{found.cause_ms:.4g} ms", theirs=theirs)
    if found.cause is Metric.GAP_MS and (longer := _longer_on_host(runs, found)):
        (name, more_ms), *rest = longer
        others = "".join(f", {ms:.4g} ms under {one_line(another)}" for another, ms in rest)
        return (
            f"{told}, and {whose} host takes {more_ms:.4g} ms longer under {one_line(name)}{others}"
        )
    where = _range_of(runs, found)
    return (
        told if where is None else f"{told}, {where[1]:.4g} ms of that under {one_line(where[0])}"
    )


def _unlike(runs: Sequence[Run]) -> str:
    """What ranks without a GPU do for longer than the others, by `APART` of the step; empty where
    none does.

    Nothing tells here which of them waits: one that is late takes longer under its own range, the
    others under that in which they wait for it.
    """
    of_each = _by_place(runs, Metric.STEP_MS)
    step = max(_medians(runs, Metric.STEP_MS) or [0.0])
    longest: list[tuple[float, str, str]] = []
    for place, own in enumerate(of_each):
        more = {
            name: ms - _others([each.get(name, 0.0) for each in of_each], place)
            for name, ms in own.items()
        }
        name = max(more, key=lambda one: more[one], default=None)
        if name is not None and more[name] > 0 and more[name] >= APART * step:
            longest.append((more[name], label(runs[-1].processes[place]), _under(name)))
    if not longest:
        return ""
    (ms, who, under), *rest = sorted(longest, key=lambda one: -one[0])[:MOST_TOLD]
    others = "the other" if len(of_each) == 2 else "the others"
    told = "".join(f", {another} {more_ms:.4g} ms more {where}" for more_ms, another, where in rest)
    ends = ": what is longer of one may be its wait for another" if rest else ""
    return f"{who} spends {ms:.4g} ms a step more {under} than {others}{told}{ends}"


def _by_place(runs: Sequence[Run], metric: Metric | None) -> list[dict[str, float]]:
    """What each process has of a metric under each range, the median over the runs; without one,
    time on the CPU."""
    return [
        _median_by_range([_by_range(run.processes[place].ranges, metric) for run in runs])
        for place in _places(runs)
    ]


def _median_by_range(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: median(table.get(name, 0.0) for table in tables) for name in names}


def _more_than_others(of_each: Sequence[Mapping[str, float]], found: Straggler) -> dict[str, float]:
    """How much more a straggler has under each of its ranges than those that wait for it."""
    others = [of_each[place] for place in found.others]
    return {
        name: value - median(other.get(name, 0.0) for other in others)
        for name, value in of_each[found.place].items()
    }


def _under(name: str) -> str:
    return "outside any range" if name == OUTSIDE_RANGES else f"under {one_line(name)}"


def _longer_on_host(runs: Sequence[Run], found: Straggler) -> list[tuple[str, float]]:
    """The ranges that take the straggler's host longer than the others' by `APART` of the step, in
    ms a step.

    Idle time does not tell it: a host that is late stays late, so that its GPU waits under every
    range that follows, while on the other GPUs NCCL's kernels fill that time. Of ranges that are
    longer by about as much, which may lie one within the other, the innermost is told.
    """
    of_each = _by_place(runs, None)
    own, more = of_each[found.place], _more_than_others(of_each, found)
    least = APART * max(_medians(runs, Metric.STEP_MS) or [0.0])
    left = {name: ms for name, ms in more.items() if ms >= least > 0}
    told: list[tuple[str, float]] = []
    while left and len(told) < MOST_TOLD:
        most = max(left.values())
        name = min((one for one in left if left[one] >= _AS_MUCH * most), key=lambda one: own[one])
        told.append((name, left[name]))
        left = {one: ms for one, ms in left.items() if ms < _AS_MUCH * most}
    return told


def _range_of(runs: Sequence[Run], found: Straggler) -> tuple[str, float] | None:
    """The range under which the straggler has most more of its cause than the others, in ms a step."""
    assert found.cause is not None
    more = _more_than_others(_by_place(runs, found.cause), found)
    name = max(more, key=lambda one: more[one], default=None)
    return None if name is None or more[name] < MOST_OF_IT * found.cause_ms else (name, more[name])


def _by_range(ranges: Sequence[RangeSample], metric: Metric | None) -> dict[str, float]:
    if metric is None:
        return {one.name: one.cpu_ms for one in ranges}
    return {one.name: one.values[metric] for one in ranges if metric in one.values}
