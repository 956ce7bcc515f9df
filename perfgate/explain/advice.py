"""What a loop is bound by and what usually helps: only what its figures show, and nothing where
they show nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from perfgate.explain.attribution import judged_to_move
from perfgate.explain.breakdown import RunBreakdown, as_measured
from perfgate.explain.traces import NOTHING
from perfgate.model.diagnosis import Advice, Bound, Classified, Topic
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import (
    OTHER_RANGES,
    OTHER_SYNCS,
    OUTSIDE_RANGES,
    Breakdown,
    RangeSample,
    SyncSample,
)
from perfgate.model.verdict import MetricVerdict

WORTH: Final = 0.02
"""Share of the step from which a cause is worth an advice: step_ms's default budget."""
BOUND: Final = 0.2
"""Share of the step from which it is bound by what is not compute; below, its GPU computes for four
fifths of it."""
MOSTLY: Final = 0.5
"""Share of a time from which the ranges that it lies under are its cause."""
NOTHING_HIDES: Final = 0.95
"""Share of the copies' time with no kernel next to it from which nothing hides them."""
FEW_LAUNCHES: Final = 0.01
"""Share of all launches up to which a range launches next to nothing."""
LAUNCHING_MS: Final = 0.05
"""Idle GPU per launch up to which the CPU may be launching meanwhile: on an H200's host a launch
takes 12-21 us."""
MOST_NAMED: Final = 3

RISEN: Final[Mapping[Topic, frozenset[Metric]]] = {
    Topic.PAGEABLE: frozenset({Metric.PAGEABLE_COPIES, Metric.H2D_MS, Metric.H2D_BYTES}),
    Topic.UNHIDDEN_COPIES: frozenset({Metric.H2D_MS, Metric.H2D_COPIES, Metric.H2D_BYTES}),
    Topic.SYNCHRONISATION: frozenset({Metric.SYNCS, Metric.D2H_COPIES, Metric.GAP_MS}),
    Topic.LOADER: frozenset({Metric.GAP_MS}),
    Topic.LAUNCHES: frozenset({Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.GAP_MS}),
}
"""What has risen where an advice is about what a change has brought."""
_WAITS_FOR_WORK: Final = re.compile(r"cu(?:da)?(?:Device|Thread|Ctx|Event)Synchronize")
"""Calls that say what they wait for. cudaStreamSynchronize does not: torch copies by
cudaMemcpyAsync, then waits."""
_BOUND_BY: Final = {
    Metric.NCCL_EXPOSED_MS: (Bound.COMMUNICATION, "bound-by-nccl"),
    Metric.H2D_EXPOSED_MS: (Bound.COPY, "bound-by-copies"),
    Metric.MEM_EXPOSED_MS: (Bound.COPY, "bound-by-other-copies"),
}
_NO_RANGE: Final = ("", OUTSIDE_RANGES, OTHER_RANGES)


def classify(breakdown: Breakdown) -> Classified | None:
    """Say what a step's time mostly goes to; None where the figures do not say.

    A step is idle GPU (`gap_ms`), what nothing hides of copies to the GPU, of NCCL's kernels, and
    of other copies and memsets, and the rest, which is compute where most of it is kernels. The
    largest of all but the rest names it from `BOUND` on; idle time only if it lies mostly under
    ranges that launch next to nothing (input), or under those that launch and leave the GPU idle
    for no longer than that takes (launch): where it idles for longer, the CPU does something else.
    Of several processes it is that of the one that the breakdown is of, of several GPUs their mean;
    of a baseline, which does not say how many GPUs its figures are sums of, nothing is said.
    """
    of = as_measured(breakdown)
    own, gpu, step = of.own, _gpu(of), of.own.get(Metric.STEP_MS, 0.0)
    if not of.gpus or step <= 0 or not {Metric.GAP_MS, Metric.KERNEL_MS} <= own.keys():
        return None
    waits = {metric: own.get(metric, 0.0) for metric in (Metric.GAP_MS, *_BOUND_BY)}
    longest = max(waits, key=waits.__getitem__)
    ms = waits[longest]
    if ms > step:
        return None
    if ms < BOUND * step:
        computed = max(step - sum(waits.values()), 0.0)
        if computed <= 0 or own[Metric.KERNEL_MS] / of.gpus < MOSTLY * computed:
            return None
        share, idles = computed / step, own[Metric.GAP_MS] / step
        what = note("bound-by-compute", gpu=gpu, computes=share, idles=idles)
        return Classified(bound=Bound.COMPUTE, share=share, what=what)
    if longest is Metric.GAP_MS:
        return _idle(of, ms, step)
    bound, code = _BOUND_BY[longest]
    what = note(code, gpu=gpu, ms=ms, step_ms=step)
    return Classified(bound=bound, share=ms / step, what=what)


def _idle(breakdown: RunBreakdown, gap: float, step: float) -> Classified | None:
    own, gpu, share = breakdown.own, _gpu(breakdown), gap / step
    if Metric.LAUNCHES not in own:
        return None
    loading = _loading(breakdown)
    # Means of ranges may add up to more than the median of the whole.
    whole = max(gap, sum(map(_gap, breakdown.ranges)))
    under = sum(map(_gap, loading))
    if under >= MOSTLY * whole:
        ranges = tuple(row.name for row in loading[:MOST_NAMED] if _gap(row) > NOTHING)
        what = note("bound-by-input", gpu=gpu, idles=share, under=under / whole, ranges=ranges)
        return Classified(bound=Bound.INPUT, share=share, what=what)
    launching = sum(
        _gap(row)
        for row in breakdown.ranges
        if row not in loading
        and row.name not in _NO_RANGE
        and _gap(row) <= LAUNCHING_MS * _launches(row.values)
    )
    launches, kernels = _launches(own), own[Metric.LAUNCHES]
    if not kernels or gap > LAUNCHING_MS * launches or launching < MOSTLY * whole:
        return None
    every_ms = step / launches
    what = note("bound-by-launches", gpu=gpu, idles=share, kernels=kernels, every_ms=every_ms)
    return Classified(bound=Bound.LAUNCH, share=share, what=what)


def advise(breakdown: Breakdown) -> tuple[Advice, ...]:
    """What usually helps against what a step is seen to lose time with, with the evidence."""
    of = as_measured(breakdown)
    if not of.own.get(Metric.STEP_MS):
        return ()
    return (*_on_copies(of), *_on_syncs(of), *_on_idle_time(of))


def without_outliers(breakdown: Breakdown, rows: Sequence[MetricVerdict]) -> Breakdown:
    """A breakdown with the values of a verdict's rows, which are without runs that were dropped as
    outliers; of several processes, where a row is of the worst of each, it stays as it is."""
    of = as_measured(breakdown)
    judged = {row.metric: row.now for row in rows if row.now is not None}
    return of if of.of else of.model_copy(update={"own": {**of.own, **judged}})


def new_advice(rows: Sequence[MetricVerdict], breakdown: Breakdown) -> tuple[Advice, ...]:
    """What usually helps against what has risen."""
    risen = {row.metric for row in rows if judged_to_move(row) and row.growth > 0}
    return tuple(one for one in advise(breakdown) if risen & RISEN[one.topic])


def _on_copies(breakdown: RunBreakdown) -> Iterator[Advice]:
    own = breakdown.own
    step = own[Metric.STEP_MS]
    inbound = [row for row in breakdown.copies if "Host-to-Device" in row.direction]
    pageable = [row for row in inbound if row.host == "pageable"]
    spent = sum(row.gpu_ms for row in pageable)
    if pageable and breakdown.gpus == 1 and len(pageable) == len(inbound):
        # All copies to the GPU: the figure that the verdict's table has of them.
        spent = own.get(Metric.H2D_MS, spent)
    if spent >= WORTH * step:
        under = _most_of(breakdown.ranges, Metric.PAGEABLE_COPIES)
        what = note(
            "advice-pageable",
            copies=sum(row.count for row in pageable),
            bytes=sum(row.bytes for row in pageable),
            under=_under(under),
            ms=spent,
            # Of several GPUs it is a sum of what may be at the same time.
            share=note("of-the-step", share=spent / step) if breakdown.gpus == 1 else None,
        )
        yield Advice(topic=Topic.PAGEABLE, range=under, what=what)
        return
    exposed = own.get(Metric.H2D_EXPOSED_MS, 0.0)
    h2d = own.get(Metric.H2D_MS, 0.0) / max(breakdown.gpus, 1)
    if exposed >= WORTH * step and exposed >= NOTHING_HIDES * h2d > 0:
        under = _most_of(breakdown.ranges, Metric.H2D_MS)
        what = note("advice-unhidden", under=_under(under), ms=h2d, exposed_ms=exposed)
        yield Advice(topic=Topic.UNHIDDEN_COPIES, range=under, what=what)


def _on_syncs(breakdown: RunBreakdown) -> Iterator[Advice]:
    for row in breakdown.syncs:
        if row.call == OTHER_SYNCS or row.cpu_ms < WORTH * breakdown.own[Metric.STEP_MS]:
            continue
        under = "" if row.range in _NO_RANGE else row.range
        code = _waits_for(row, breakdown)
        what = note(code, ms=row.cpu_ms, call=row.call, under=_under(under), calls=row.count)
        yield Advice(topic=Topic.SYNCHRONISATION, range=under, what=what)


def _waits_for(row: SyncSample, breakdown: Breakdown) -> str:
    """What a call waits for: what its name says, else the copies that are launched under the same
    range: one that the CPU reads in each step waits for all work before it."""
    if _WAITS_FOR_WORK.match(row.call):
        return "advice-wait-for-work"
    values = next((one.values for one in breakdown.ranges if one.name == row.range), {})
    # Where it is not known, something is read.
    sent, read = values.get(Metric.H2D_COPIES, 0.0), values.get(Metric.D2H_COPIES, 1.0)
    if "HtoD" in row.call or (sent and read < min(row.count, 1.0)):
        return "advice-wait-for-sent"
    is_read = sent or read or "DtoH" in row.call
    return "advice-wait-for-read" if is_read else "advice-wait-for-work"


def _on_idle_time(breakdown: RunBreakdown) -> Iterator[Advice]:
    found = classify(breakdown)
    if found is not None and found.bound is Bound.INPUT:
        loading, *_ = _loading(breakdown)
        # Only where the GPU waits for as long as the loading takes is it the loading that it waits
        # for. A range that was open before the steps takes an unknown time.
        waits = min(_gap(loading), loading.cpu_ms)
        if waits >= MOSTLY * loading.cpu_ms > 0:
            name, cpu_ms, gpu = loading.name, loading.cpu_ms, _gpu(breakdown)
            what = note("advice-loader", gpu=gpu, range=name, cpu_ms=cpu_ms, idle_ms=waits)
            yield Advice(topic=Topic.LOADER, range=name, what=what)
    if found is not None and found.bound is Bound.LAUNCH:
        has_graphs = breakdown.own.get(Metric.GRAPH_LAUNCHES, 0.0) > 0
        code = "advice-more-graphs" if has_graphs else "advice-graphs"
        yield Advice(topic=Topic.LAUNCHES, what=note(code, because=found.what))


def _gpu(breakdown: RunBreakdown) -> Note:
    """What does what is said of one GPU."""
    if breakdown.gpus > 1:
        return note("each-gpu", gpus=breakdown.gpus)
    return note("the-gpu-of", process=breakdown.of) if breakdown.of else note("the-gpu")


def _under(name: str) -> Note | None:
    return note("in-range", range=name) if name else None


def _loading(breakdown: RunBreakdown) -> list[RangeSample]:
    """The ranges that launch next to nothing, those that idle longest first."""
    few = FEW_LAUNCHES * _launches(breakdown.own)
    named = [row for row in breakdown.ranges if row.name not in (OUTSIDE_RANGES, OTHER_RANGES)]
    return sorted((row for row in named if _launches(row.values) <= few), key=_gap, reverse=True)


def _launches(values: Mapping[Metric, float]) -> float:
    """Of kernels and CUDA graphs."""
    return values.get(Metric.LAUNCHES, 0.0) + values.get(Metric.GRAPH_LAUNCHES, 0.0)


def _gap(row: RangeSample) -> float:
    return row.values.get(Metric.GAP_MS, 0.0)


def _most_of(ranges: Sequence[RangeSample], metric: Metric) -> str:
    """The range that holds most of a metric; empty where none holds half of it."""
    parts = {row.name: row.values.get(metric, 0.0) for row in ranges}
    name = max(parts, key=lambda one: parts[one], default="")
    holds_most = name not in _NO_RANGE and parts[name] >= MOSTLY * sum(parts.values()) > 0
    return name if holds_most else ""
