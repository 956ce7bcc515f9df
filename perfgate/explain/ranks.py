"""How far the ranks of a job lie apart, and for which of them the others wait; it judges nothing.

All-reduce makes every rank as slow as the slowest, so that step times tell nothing. NCCL's kernels spin while they
wait: the rank whose kernels take the least time in them is the one that comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from perfgate.explain.names import one_line
from perfgate.model.metric import Metric
from perfgate.model.sample import OUTSIDE_RANGES, ProcessSample, RangeSample, Run

SHOWN: Final = (
    Metric.STEP_MS,
    Metric.KERNEL_MS,
    Metric.GAP_MS,
    Metric.H2D_EXPOSED_MS,
    Metric.NCCL_MS,
    Metric.NCCL_EXPOSED_MS,
)
APART: Final = 0.05
"""Ranks lie apart, and wait for one another, from this share of the step on.

On two H200s an unhindered DistributedDataParallel loop was apart by 1.9 % (`two-ranks-h200-nsys2025.3` among the golden
captures: 1.838 and 2.103 ms in NCCL kernels of a step of 13.69 ms).
"""
MOST_OF_IT: Final = 0.2
"""What a straggler does more than the others is its reason from this share of their wait on."""
MOST_TOLD: Final = 3
"""Of ranks that differ from the others in what they do on the CPU, no more are told."""
_AS_MUCH: Final = 0.8
"""A range within another that is longer is longer by about as much: by this share of it at least."""
_REASONS: Final[Mapping[Metric, str]] = {
    Metric.GAP_MS: "its GPU idles {more} a step more than {theirs}",
    Metric.KERNEL_MS: "its kernels take {more} a step more than {theirs}",
    Metric.H2D_EXPOSED_MS: "copies to its GPU that nothing hides take {more} a step more than {theirs}",
}


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """A rank for which the others wait."""

    place: int
    """Among the processes of a run."""
    waited_ms: float
    """What the others' NCCL kernels take longer, per step: the median of them."""
    cause: Metric | None
    """Of which it has most more than the others."""
    cause_ms: float = 0.0


def told_ranks(runs: Sequence[Run]) -> tuple[str, ...]:
    """Say of several processes with steps how far they lie apart and which is waited for; nothing of one."""
    if not _of_several(runs):
        return ()
    found = straggler(runs)
    if found is not None:
        return _spread(runs), _waited_for(runs, found)
    unlike = _unlike(runs)
    return _spread(runs), *((unlike,) if unlike else ())


def straggler(runs: Sequence[Run]) -> Straggler | None:
    """The process for which the others wait by at least `APART` of the step, by medians over the runs, if any does."""
    if not _of_several(runs):
        return None
    in_nccl, step = _medians(runs, Metric.NCCL_MS), _medians(runs, Metric.STEP_MS)
    if in_nccl is None or step is None:
        return None
    place = min(range(len(in_nccl)), key=lambda one: in_nccl[one])
    waited = _others(in_nccl, place) - in_nccl[place]
    if waited < APART * max(step):
        return None
    more = {
        metric: values[place] - _others(values, place)
        for metric in _REASONS
        if (values := _medians(runs, metric)) is not None
    }
    cause = max(more, key=lambda metric: more[metric], default=None)
    if cause is None or more[cause] < MOST_OF_IT * waited:
        return Straggler(place=place, waited_ms=waited, cause=None)
    return Straggler(place=place, waited_ms=waited, cause=cause, cause_ms=more[cause])


def label(process: ProcessSample) -> str:
    """What a process is called: by its rank, else by the one GPU it used, else by its id."""
    if process.rank is not None:
        return f"rank {process.rank}"
    if len(process.devices) == 1:
        return f"the process on GPU {process.devices[0].device}"
    return f"process {process.pid}"


def _of_several(runs: Sequence[Run]) -> bool:
    return bool(runs) and len(runs[0].processes) > 1 and len({len(run.processes) for run in runs}) == 1


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
    return f"{took}, and each value is the worst of theirs, of NCCL the least: {', '.join(told)}"


def _waited_for(runs: Sequence[Run], found: Straggler) -> str:
    own = label(runs[-1].processes[found.place])
    others, theirs = ("the other waits", "the other's") if len(_places(runs)) == 2 else ("the others wait", "theirs")
    told = f"{own} is late: {others} {found.waited_ms:.4g} ms a step for it in NCCL kernels"
    if found.cause is None:
        return told
    told += "; " + _REASONS[found.cause].format(more=f"{found.cause_ms:.4g} ms", theirs=theirs)
    longer = _longer_on_host(runs[-1], found) if found.cause is Metric.GAP_MS else None
    if longer is not None:
        return f"{told}, and its host takes {longer[1]:.4g} ms longer under {one_line(longer[0])}"
    where = _range_of(runs[-1], found)
    return told if where is None else f"{told}, {where[1]:.4g} ms of that under {one_line(where[0])}"


def _unlike(runs: Sequence[Run]) -> str:
    """What ranks without a GPU do for longer than the others, by `APART` of the step; empty where none does.

    Nothing tells here which of them waits: one that is late takes longer under its own range, the others under that in
    which they wait for it.
    """
    of_each = [
        _median_by_range([_by_range(run.processes[place].ranges, Metric.STEP_MS) for run in runs])
        for place in _places(runs)
    ]
    step = max(_medians(runs, Metric.STEP_MS) or [0.0])
    longest: list[tuple[float, str, str]] = []
    for place, own in enumerate(of_each):
        more = {name: ms - _others([each.get(name, 0.0) for each in of_each], place) for name, ms in own.items()}
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


def _median_by_range(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: median(table.get(name, 0.0) for table in tables) for name in names}


def _under(name: str) -> str:
    return "outside any range" if name == OUTSIDE_RANGES else f"under {one_line(name)}"


def _longer_on_host(run: Run, found: Straggler) -> tuple[str, float] | None:
    """The range that takes the straggler's host longer than the others' by `APART` of the step, in ms a step.

    Idle time does not tell it: a host that is late stays late, so that its GPU waits under every range that follows,
    while on the other GPUs NCCL's kernels fill that time.
    """
    of_each = [{one.name: one.cpu_ms for one in process.ranges} for process in run.processes]
    own = of_each[found.place]
    others = [*of_each[: found.place], *of_each[found.place + 1 :]]
    more = {name: cpu_ms - median(other.get(name, 0.0) for other in others) for name, cpu_ms in own.items()}
    most = max(more.values(), default=0.0)
    step_ms = max(process.values.get(Metric.STEP_MS, 0.0) for process in run.processes)
    if not most or most < APART * step_ms:
        return None
    name = min((one for one in more if more[one] >= _AS_MUCH * most), key=lambda one: own[one])
    return name, more[name]


def _range_of(run: Run, found: Straggler) -> tuple[str, float] | None:
    """The range under which the straggler has most more of its cause than the others, in ms a step."""
    assert found.cause is not None
    of_each = [_by_range(process.ranges, found.cause) for process in run.processes]
    own = of_each[found.place]
    others = [*of_each[: found.place], *of_each[found.place + 1 :]]
    more = {name: value - median(other.get(name, 0.0) for other in others) for name, value in own.items()}
    name = max(more, key=lambda one: more[one], default=None)
    return None if name is None or more[name] < MOST_OF_IT * found.cause_ms else (name, more[name])


def _by_range(ranges: Sequence[RangeSample], metric: Metric) -> dict[str, float]:
    return {one.name: one.values[metric] for one in ranges if metric in one.values}
