"""What a loop is bound by and what usually helps: only what its figures show, and nothing where
they show nothing."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from perfgate.explain.breakdown import ReadableBreakdown
from perfgate.explain.names import one_line
from perfgate.explain.traces import NOTHING
from perfgate.explain.waits import wait_for
from perfgate.model.advice import Advice, Bound, Classified, Topic
from perfgate.model.metric import EXPOSED, Metric
from perfgate.model.sample import OTHER_RANGES, OTHER_SYNCS, OUTSIDE_RANGES, Breakdown, RangeSample
from perfgate.words.names import inflected, listed

WORTH: Final = 0.02
"""Share of the step from which a cause is worth an advice: step_ms's default budget."""
BOUND: Final = 0.2
"""Share of the step from which it is bound by what is not compute; below, its GPU computes for four
fifths of it."""
NAMED: Final = 0.1
"""Share of the idle time from which a range that it lies under is worth its name, if there are any
such."""
MOST_NAMED: Final = 3
MOSTLY: Final = 0.5
"""Share of the idle time from which the ranges that it lies under are its cause."""
NOTHING_HIDES: Final = 0.95
"""Share of the copies' time without a kernel beside it from which nothing hides them."""
FEW_LAUNCHES: Final = 0.01
"""Share of all launches up to which a range launches next to nothing."""
LAUNCHING_MS: Final = 0.05
"""Idle GPU per launch up to which the CPU may be launching meanwhile: on an H200's host a launch
takes 12-21 us."""
OVERFULL: Final = 1.9
"""Work and idle time of so many steps are of more than one GPU: of two they are two steps at least.
"""

_DATA: Final = ("data", "load", "batch", "input", "fetch", "prefetch", "next")
_KEEPING: Final = ("save", "saving", "write", "writing", "dump", "checkpoint", "ckpt")
"""What the words begin with of the name of a range that makes data, and of one that keeps some."""
_LOGGING: Final = ("log", "logs", "logger", "logging")
"""Such words that others begin with."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LOADED: Final = (
    "Worker processes (DataLoader(num_workers=...)) make the next batches meanwhile; more of them, or less work for "
    "each batch, where there are some already."
)
_ANY_WORK: Final = (
    "The GPU waits for work of the CPU there: what loads or makes data, worker processes (DataLoader(num_workers=...)) "
    "can do meanwhile; what saves or logs can be done more rarely, or in another thread."
)

_LAUNCHED: Final = (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES)

Values = Mapping[Metric, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Process:
    """The figures of one process: those of its breakdown, and no others' beside them."""

    values: Values
    breakdown: Breakdown
    gpus: int
    """Over which its work is a sum, and its waiting a mean; 0 if they are several, and it is not
    known how many."""

    @classmethod
    def of(cls, values: Values, breakdown: Breakdown) -> _Process:
        """Of several processes each of `values` is the worst of theirs: the breakdown's own are
        taken instead."""
        if isinstance(breakdown, ReadableBreakdown):
            own, known = breakdown.own or values, breakdown.gpus
        else:
            own, known = _added_up(values, breakdown), 0
        return cls(
            values=own, breakdown=breakdown, gpus=known or (0 if _overfull(own, breakdown) else 1)
        )

    @property
    def step(self) -> float:
        return self.values.get(Metric.STEP_MS, 0.0)

    @property
    def kernels(self) -> float:
        """Launched one by one."""
        return self.values.get(Metric.LAUNCHES, 0.0)

    @property
    def graphs(self) -> float:
        """CUDA graphs launched; of those that fewer than half of the steps launch the mean."""
        return self.values.get(Metric.GRAPH_LAUNCHES, 0.0) or _sum(
            self.breakdown, Metric.GRAPH_LAUNCHES
        )

    @property
    def each(self) -> str:
        """What does what is told of one GPU."""
        return (
            f"the GPU{self.whose}"
            if self.gpus == 1
            else f"on average each of the {self.gpus} GPUs{self.whose}"
        )

    @property
    def whose(self) -> str:
        """Of several processes, which one it is told of."""
        told = isinstance(self.breakdown, ReadableBreakdown) and self.breakdown.of
        return f" of {told}" if told else ""

    def work_on_each(self, metric: Metric) -> float:
        """What a GPU does of a clock that is their sum; of several their mean."""
        return self.values.get(metric, 0.0) / self.gpus


def classify(values: Values, breakdown: Breakdown) -> Classified | None:
    """Say what a step's time mostly goes to; None where the figures do not say.

    A step is idle GPU (`gap_ms`), what nothing hides of copies to the GPU, of NCCL's kernels, and
    of other copies and memsets, and the rest, which is compute where most of it is kernels. The
    largest of all but the rest names it from `BOUND` on; idle time only if it lies mostly under
    ranges that launch next to nothing (input), or under those that launch and leave the GPU idle
    for no longer than that takes (launch): where it idles for longer, the CPU does something else.
    Of several processes it is told of the one that the breakdown is of, of several GPUs their mean;
    where sums over them are not known to be of how many, nothing is said.
    """
    return _classified(_Process.of(values, breakdown))


def _classified(one: _Process) -> Classified | None:
    step, values = one.step, one.values
    if step <= 0 or not one.gpus or Metric.GAP_MS not in values or Metric.KERNEL_MS not in values:
        return None
    shares = (Metric.GAP_MS, Metric.H2D_EXPOSED_MS, Metric.NCCL_EXPOSED_MS, Metric.MEM_EXPOSED_MS)
    gap, copied, nccl, other = (values.get(metric, 0.0) for metric in shares)
    largest = max(gap, copied, nccl, other)
    if largest > step:
        return None
    computed = max(step - gap - copied - nccl - other, 0.0)
    over = "" if one.gpus == 1 else f"on average over {one.gpus} GPUs, "
    if largest < BOUND * step:
        # Of a baseline without `mem_exposed_ms` the rest may as well be copies to the host and
        # memsets.
        if computed <= 0 or one.work_on_each(Metric.KERNEL_MS) < MOSTLY * computed:
            return None
        told = f"{one.each} computes for {_percent(computed, step)} of the step and idles for {_percent(gap, step)}"
        return Classified(bound=Bound.COMPUTE, share=computed / step, evidence=told)
    if largest == nccl:
        told = f"{over}NCCL's kernels{one.whose} run for {_ms(nccl)} of a step of {_ms(step)} while nothing else does"
        return Classified(bound=Bound.COMMUNICATION, share=nccl / step, evidence=told)
    if largest == copied:
        told = f"{over}copies to the GPU{one.whose} take {_ms(copied)} of a step of {_ms(step)} while no kernel runs"
        return Classified(bound=Bound.COPY, share=copied / step, evidence=told)
    if largest == other:
        told = f"{over}memsets and copies{one.whose} not to the GPU take {_ms(other)} of a step of {_ms(step)} while no"
        return Classified(bound=Bound.COPY, share=other / step, evidence=f"{told} kernel runs")
    return _idle(one, gap)


def _idle(one: _Process, gap: float) -> Classified | None:
    if Metric.LAUNCHES not in one.values:
        return None
    loading = _loading(one)
    # Means of ranges may add up to more than the median of the whole.
    whole = max(one.values[Metric.GAP_MS], _sum(one.breakdown, Metric.GAP_MS))
    idles = f"{one.each} idles for {_percent(gap, one.step)} of the step"
    if sum(map(_gap, loading)) >= MOSTLY * whole:
        told = f"{idles}, {_mostly_under(loading, whole)} next to nothing"
        return Classified(bound=Bound.INPUT, share=gap / one.step, evidence=told)
    unnamed = (OUTSIDE_RANGES, OTHER_RANGES)
    working = [
        row for row in one.breakdown.ranges if row not in loading and row.name not in unnamed
    ]
    busy = [row for row in working if _gap(row) <= LAUNCHING_MS * _launches(row)]
    if (
        not one.kernels
        or gap > LAUNCHING_MS * (one.kernels + one.graphs)
        or sum(map(_gap, busy)) < MOSTLY * whole
    ):
        return None
    told = f"{idles} while the CPU launches: {_launched(one)}"
    return Classified(bound=Bound.LAUNCH, share=gap / one.step, evidence=told)


def _mostly_under(loading: Sequence[RangeSample], whole: float) -> str:
    """Name the ranges that matter of those that launch next to nothing, with their share of the
    idle time."""
    rows = sorted(loading, key=_gap, reverse=True)
    rows = [row for row in rows if _gap(row) >= NAMED * whole] or rows
    told = [one_line(row.name) for row in rows[:MOST_NAMED]]
    if more := len(rows) - len(told):
        told.append(_counted(more, "other range"))
    launch = "launches" if len(rows) == 1 else "launch"
    return f"{_percent(sum(map(_gap, rows)), whole)} of that under {listed(told)}, which {launch}"


def _launched(one: _Process) -> str:
    """What the CPU launches; of kernels their length only where `kernel_ms` is of these alone."""
    told = _counted(one.kernels, "kernel")
    if one.graphs:
        every = _time(one.step / (one.kernels + one.graphs))
        return f"{told} and {_counted(one.graphs, 'CUDA graph')} a step, a launch every {every}"
    if not one.values.get(Metric.NCCL_MS):
        told += f" of {_time(one.values[Metric.KERNEL_MS] / one.kernels)}{'' if one.kernels == 1 else ' each'}"
    return f"{told}, one every {_time(one.step / one.kernels)}"


def advise(values: Values, breakdown: Breakdown) -> tuple[Advice, ...]:
    """What usually helps against what a step is seen to lose time with, the evidence beside it."""
    one = _Process.of(values, breakdown)
    if one.step <= 0:
        return ()
    return (*_on_copies(one), *_on_syncs(one), *_on_idle_time(one))


def new_advice(before: Sequence[Advice], now: Sequence[Advice]) -> tuple[Advice, ...]:
    """Those that had no reason before: of another topic, or about another range."""
    known = {(one.topic, one.range) for one in before}
    return tuple(one for one in now if (one.topic, one.range) not in known)


def _on_copies(one: _Process) -> Iterator[Advice]:
    step, values, breakdown = one.step, one.values, one.breakdown
    inbound = [row for row in breakdown.copies if row.direction == "Host-to-Device"]
    pageable = [row for row in inbound if row.host == "pageable"]
    spent = sum(row.gpu_ms for row in pageable)
    if one.gpus == 1 and len(pageable) == len(inbound):
        # All copies to the GPU: the figure that the verdict's table has of them.
        spent = values.get(Metric.H2D_MS, spent)
    if spent >= WORTH * step:
        under = _of_pageable(breakdown, spent, has_others=len(pageable) < len(inbound))
        count, moved = sum(row.count for row in pageable), sum(row.bytes for row in pageable)
        # Of several GPUs, or streams, it is a sum of what may be at the same time.
        share = f", {_percent(spent, step)} of the step" if one.gpus == 1 and spent <= step else ""
        yield Advice(
            topic=Topic.PAGEABLE,
            range=under,
            evidence=f"{_counted(count, 'copy', 'copies')} a step ({_plain(moved / 1e6, 4)} MB) from pageable memory"
            f"{_under(under)}: {_ms(spent)}{share}",
            usually="Batches in pinned memory (DataLoader(pin_memory=True)) and .to(device, non_blocking=True) are "
            "copied faster, and the CPU does not wait for them.",
        )
        return
    under = _most_of(breakdown, Metric.H2D_MS)
    exposed = values.get(Metric.H2D_EXPOSED_MS, 0.0)
    h2d = one.work_on_each(Metric.H2D_MS) if one.gpus else 0.0
    if exposed >= WORTH * step and exposed >= NOTHING_HIDES * h2d > 0:
        gpus, there = (
            (f"each of the {one.gpus} GPUs", " there") if one.gpus > 1 else ("the GPU", "")
        )
        yield Advice(
            topic=Topic.UNHIDDEN_COPIES,
            range=under,
            evidence=f"copies to {gpus}{one.whose}{_under(under)} take {_ms(h2d)} a step; no kernel runs{there} for "
            f"{_ms(exposed)} of it",
            usually="In a stream of its own, the next batch is copied while this one is computed.",
        )


def _on_syncs(one: _Process) -> Iterator[Advice]:
    for row in one.breakdown.syncs:
        if row.call == OTHER_SYNCS or row.cpu_ms < WORTH * one.step:
            continue
        under = "" if row.range in (OUTSIDE_RANGES, OTHER_RANGES) else row.range
        cause = wait_for(row, one.breakdown)
        yield Advice(
            topic=Topic.SYNCHRONISATION,
            range=under,
            evidence=f"the CPU waits {_ms(row.cpu_ms)} a step in {row.call}{_under(under)}, "
            f"{_counted(row.count, 'call')}{cause.words}",
            usually=cause.usually,
        )


def _on_idle_time(one: _Process) -> Iterator[Advice]:
    found = _classified(one)
    if found is None:
        return
    match found.bound:
        case Bound.INPUT:
            loading = max(_loading(one), key=_gap)
            # Only where the GPU waits for as long as the loading takes is it the loading that it
            # waits for. A range that was open before the steps takes an unknown time.
            waits = min(_gap(loading), loading.cpu_ms)
            if waits >= MOSTLY * loading.cpu_ms > 0:
                yield Advice(
                    topic=Topic.LOADER,
                    range=loading.name,
                    evidence=f"{one_line(loading.name)} takes {_ms(loading.cpu_ms)} a step on the CPU, and {one.each} "
                    f"idles for {_ms(waits)} of it",
                    usually=_LOADED if _makes_data(loading) else _ANY_WORK,
                )
        case Bound.LAUNCH:
            yield Advice(
                topic=Topic.LAUNCHES,
                evidence=found.evidence,
                usually="What is launched outside the CUDA graphs can be captured in one as well; several steps in a "
                "graph, fused optimizers and larger batches launch fewer."
                if one.graphs
                else "CUDA graphs or torch.compile(mode='reduce-overhead') launch a step's kernels at once; fused "
                "optimizers and larger batches launch fewer.",
            )
        case Bound.COMPUTE | Bound.COPY | Bound.COMMUNICATION:
            return


def _makes_data(row: RangeSample) -> bool:
    """Whether its name, or a copy to the GPU under it, hints that it makes data; not if named for
    keeping some."""
    words = [word.lower() for word in _WORD.findall(row.name)]
    if any(word in _LOGGING or word.startswith(_KEEPING) for word in words):
        return False
    return row.values.get(Metric.H2D_COPIES, 0.0) > NOTHING or any(
        word.startswith(_DATA) for word in words
    )


def _loading(one: _Process) -> list[RangeSample]:
    """The ranges that launch next to nothing."""
    named = [row for row in one.breakdown.ranges if row.name not in (OUTSIDE_RANGES, OTHER_RANGES)]
    return [row for row in named if _launches(row) <= FEW_LAUNCHES * (one.kernels + one.graphs)]


def _added_up(values: Values, breakdown: Breakdown) -> Values:
    """What the ranges add up to, where they say; where not, what nothing hides of copies is at most
    all of them."""
    attributed = (
        Metric.KERNEL_MS,
        Metric.GAP_MS,
        Metric.H2D_MS,
        Metric.NCCL_MS,
        *EXPOSED,
        *_LAUNCHED,
    )
    own = {
        metric: whole
        for metric in attributed
        if metric in values and (whole := _sum(breakdown, metric))
    }
    for exposed, of in (
        (Metric.H2D_EXPOSED_MS, Metric.H2D_MS),
        (Metric.NCCL_EXPOSED_MS, Metric.NCCL_MS),
    ):
        if exposed in values and exposed not in own and of in own:
            own[exposed] = min(values[exposed], own[of])
    return {**values, **own}


def _overfull(values: Values, breakdown: Breakdown) -> bool:
    """Whether a step holds more than one GPU can do in it, and may so be of several."""
    work = sum(row.gpu_ms for row in breakdown.kernels)
    told = sum(values.get(metric, 0.0) for metric in (Metric.KERNEL_MS, Metric.NCCL_MS))
    return values.get(Metric.GAP_MS, 0.0) + max(work, told) >= OVERFULL * values.get(
        Metric.STEP_MS, 0.0
    )


def _sum(breakdown: Breakdown, metric: Metric) -> float:
    return sum(row.values.get(metric, 0.0) for row in breakdown.ranges)


def _launches(row: RangeSample) -> float:
    """Of kernels and CUDA graphs."""
    return sum(row.values.get(metric, 0.0) for metric in _LAUNCHED)


def _gap(row: RangeSample) -> float:
    return row.values.get(Metric.GAP_MS, 0.0)


def _most_of(breakdown: Breakdown, metric: Metric) -> str:
    """The range that holds most of a metric; empty where none holds half of it."""
    parts = {row.name: row.values.get(metric, 0.0) for row in breakdown.ranges}
    name = max(parts, key=lambda one: parts[one], default="")
    whole = sum(parts.values())
    told = (
        name not in ("", OUTSIDE_RANGES, OTHER_RANGES)
        and whole > 0
        and parts[name] >= MOSTLY * whole
    )
    return name if told else ""


def _of_pageable(breakdown: Breakdown, spent: float, *, has_others: bool) -> str:
    """The range that is known to hold most of the time of pageable copies to the GPU; empty where
    none is.

    A range says how long all of its copies to the GPU take, and how many of all of its copies are
    pageable.
    """
    if not has_others:
        return _most_of(breakdown, Metric.H2D_MS)
    least: defaultdict[str, float] = defaultdict(float)
    most: defaultdict[str, float] = defaultdict(float)
    for row in breakdown.ranges:
        h2d_ms, pageable = (
            row.values.get(Metric.H2D_MS, 0.0),
            row.values.get(Metric.PAGEABLE_COPIES),
        )
        sent, read = row.values.get(Metric.H2D_COPIES), row.values.get(Metric.D2H_COPIES)
        if pageable is None or pageable > NOTHING:
            most[row.name] += h2d_ms
        if (
            pageable is not None
            and sent is not None
            and read is not None
            and pageable - read >= sent - NOTHING
        ):
            least[row.name] += h2d_ms
    for name, at_most in most.items():
        # What the others cannot hold is its own as well.
        others = sum(most.values()) - at_most
        if max(least[name], min(at_most, spent - others)) >= MOSTLY * spent:
            return "" if name in (OUTSIDE_RANGES, OTHER_RANGES) else name
    return ""


def _counted(number: float, one: str, many: str | None = None) -> str:
    return f"{_plain(number, 4)} {inflected(number, one, many)}"


def _under(name: str) -> str:
    return f" under {one_line(name)}" if name else ""


def _ms(value: float) -> str:
    return f"{_plain(value, 4)} ms"


def _time(ms: float) -> str:
    """Write what may be as short as a launch, or as long as a step."""
    return f"{_plain(ms, 3)} ms" if ms >= 1 else f"{_plain(1000 * ms, 3)} us"


def _percent(part: float, whole: float) -> str:
    return f"{_plain(100 * part / whole, 3)} %"


def _plain(value: float, digits: int) -> str:
    """Write a number that is not below 0 with so many digits that count, and all that stand before
    the point."""
    decimals = 0 if value <= 0 else min(max(digits - 1 - math.floor(math.log10(value)), 0), 9)
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text
