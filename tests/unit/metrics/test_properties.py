"""All metrics of random small captures: against a tick-by-tick reference, and under changes that
change nothing."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.timelines import Call, Op, Range, build, permuted, shifted

from perfgate.metrics.measure import measure
from perfgate.metrics.values import TOP_KERNELS, TOP_RANGES
from perfgate.model.metric import EXPOSED, PERIODS, Metric
from perfgate.model.sample import OTHER_KERNELS, OTHER_RANGES, ProcessSample
from perfgate.model.timeline import CopyKind, MemoryKind, Timeline
from perfgate.model.workload import WAIT_RANGE

Work = list[tuple[Call | None, Op, str]]
Capture = tuple[Timeline, list[Range], list[Range], Work]
STEP, INSIDE = 40, 30
"""Steps begin every 40 ns and last 30."""


@st.composite
def launched(draw: st.DrawFn, steps: int) -> tuple[Call | None, Op, str]:
    at = draw(st.integers(0, STEP * steps))
    start = at + draw(st.integers(0, 25))
    correlation = draw(st.integers(1, 10**6))
    lane = draw(st.sampled_from(["kernel", "kernel", "nccl", "h2d", "d2h", "memset", "graph"]))
    op = Op(
        start=start,
        end=start + draw(st.integers(0, 30)),
        name="ncclDevKernel_AllReduce"
        if lane == "nccl"
        else draw(st.sampled_from(["gemm", "relu"])),
        device=draw(st.integers(0, 1)),
        correlation=correlation,
        bytes=draw(st.integers(0, 1000)),
        kind=CopyKind.D2H if lane == "d2h" else CopyKind.H2D,
        source=draw(st.sampled_from([MemoryKind.PAGEABLE, MemoryKind.PINNED])),
        target=draw(st.sampled_from([MemoryKind.PAGEABLE, MemoryKind.PINNED])),
    )
    name = {
        "graph": "cudaGraphLaunch_v10000",
        "kernel": "cudaLaunchKernel_v7000",
        "nccl": "cuLaunchKernelEx",
    }
    call = Call(
        start=at,
        end=at + 1,
        name=name.get(lane, "cudaMemcpyAsync"),
        correlation=correlation,
        thread=draw(st.integers(1, 2)),
    )
    return draw(st.sampled_from([call, call, call, None])), op, lane


@st.composite
def captures(draw: st.DrawFn) -> Capture:
    count = draw(st.integers(3, 6))
    steps = [Range(start=STEP * n, end=STEP * n + INSIDE) for n in range(count)]
    inner = []
    for step in steps:
        middle = draw(st.integers(1, INSIDE - 2))
        inner.append(Range(start=step.start + 1, end=step.start + middle, name="front"))
        inner.append(Range(start=step.start + middle, end=step.end - 1, name="back"))
    # A thread makes one call at a time: two at once would be a driver call within a runtime call,
    # and count once.
    work = draw(
        st.lists(launched(count), min_size=1, max_size=14, unique_by=(correlation_of, moment_of))
    )
    return timeline_of([*steps, *inner], work), steps, inner, work


def timeline_of(ranges: Sequence[Range], work: Work) -> Timeline:
    return build(
        ranges=ranges,
        calls=[call for call, _, _ in work if call is not None],
        kernels=[op for _, op, lane in work if lane in ("kernel", "nccl")],
        copies=[op for _, op, lane in work if lane in ("h2d", "d2h")],
        memsets=[op for _, op, lane in work if lane == "memset"],
        graphs=[op for _, op, lane in work if lane == "graph"],
    )


def correlation_of(one: tuple[Call | None, Op, str]) -> int:
    return one[1].correlation


def moment_of(one: tuple[Call | None, Op, str]) -> tuple[int, int]:
    call, op, _ = one
    return (-1, op.correlation) if call is None else (call.thread, call.start)


def moment_of_launch(call: Call | None, op: Op) -> int:
    return op.start if call is None else call.start


def is_earlier(call: Call | None, op: Op, steps: list[Range], calls: Sequence[Call]) -> bool:
    """Whether it was launched before the capture, which has the calls from its first step on."""
    from_first = (
        len(steps) == 1 or min((one.start for one in calls), default=math.inf) < steps[1].start
    )
    return (
        call is None
        and bool(calls)
        and from_first
        and 0 < op.correlation < min(one.correlation for one in calls)
    )


def ticks(ops: Sequence[Op]) -> set[int]:
    return {tick for op in ops for tick in range(op.start, op.end)}


def counted_slowly(period_of: dict[int, int]) -> list[float]:
    """How long each period counts, by the number of the step that ends it."""
    if not period_of:
        return []
    median = statistics.median(period_of.values())
    found: list[float] = []
    for index, period in period_of.items():
        most, later = 1.2 * median, index + 1
        while later in period_of and period_of[later] * 1.2 < median:
            most += median - period_of[later]
            later += 1
        found.append(min(period, most))
    return found


def slow_reference(
    steps: list[Range], work: Work, resumes: Sequence[int] = ()
) -> dict[Metric, float]:
    """Every metric by its definition, one tick and one operation at a time; ns, not ms."""
    count = len(steps)
    inside: list[list[Op]] = [[] for _ in steps]
    mine: list[list[tuple[Op, str]]] = [[] for _ in steps]
    launches, graph_launches = [0] * count, [0] * count
    calls = [call for call, _, _ in work if call is not None]
    for call, op, lane in work:
        if is_earlier(call, op, steps, calls):
            continue
        moment = moment_of_launch(call, op)
        for index, step in enumerate(steps):
            if step.start <= moment < step.end:
                inside[index].append(op)
            until = step.end if index + 1 in (count, *resumes) else steps[index + 1].start
            if step.start <= moment < until:
                mine[index].append((op, lane))
                launches[index] += call is not None and lane in ("kernel", "nccl")
                graph_launches[index] += call is not None and lane == "graph"
    done = [
        max([step.end, *(op.end for op in own)]) for step, own in zip(steps, inside, strict=True)
    ]
    done = [max(done[: index + 1]) for index in range(count)]
    used = [one for own in mine for one in own]
    first = next(
        (index for index in range(2, count) if done[index - 2] < done[index - 1] < done[index]),
        count,
    )
    period_of = {
        index: done[index] - done[index - 1]
        for index in range(first, count)
        if index not in resumes
    }
    kept = [(done[index - 1], done[index]) for index in period_of]
    window = {tick for first, last in kept for tick in range(first, last)}
    values: dict[Metric, float] = {
        Metric.STEP_MS: statistics.fmean(counted_slowly(period_of) or [math.nan]),
        Metric.STEP_MEAN_MS: statistics.fmean([*period_of.values()] or [math.nan]),
    }

    def mean(lanes: str) -> float:
        return sum(op.end - op.start for op, lane in used if lane in lanes.split()) / count

    def median(chosen: str, what: str = "count") -> float:
        return statistics.median(
            sum(op.bytes if what == "bytes" else 1 for op, lane in own if lane == chosen)
            for own in mine
        )

    values |= {
        Metric.KERNEL_MS: mean("kernel graph"),
        Metric.NCCL_MS: mean("nccl"),
        Metric.H2D_MS: mean("h2d"),
    }
    values |= {Metric.H2D_COPIES: median("h2d"), Metric.D2H_COPIES: median("d2h")}
    values |= {Metric.H2D_BYTES: median("h2d", "bytes"), Metric.SYNCS: 0.0}
    values |= {
        Metric.LAUNCHES: statistics.median(launches),
        Metric.GRAPH_LAUNCHES: statistics.median(graph_launches),
    }
    values[Metric.PAGEABLE_COPIES] = statistics.median(
        sum(
            (op.source if lane == "h2d" else op.target) == MemoryKind.PAGEABLE
            for op, lane in own
            if lane in ("h2d", "d2h")
        )
        for own in mine
    )
    gap = h2d_exposed = nccl_exposed = memory_exposed = 0
    steps_on = {
        device: sum(any(op.device == device for op, _ in own) for own in mine) for device in (0, 1)
    }
    steady = {device for device, number in steps_on.items() if number > 0.05 * count}
    for device in {op.device for op, _ in used}:
        here = [(op, lane) for _, op, lane in work if op.device == device]
        own = [(op, lane) for op, lane in used if op.device == device]
        if not steady or device in steady:
            gap += len(window - ticks([op for op, _ in here]))
        running = ticks([op for op, lane in here if lane in ("kernel", "nccl", "graph")])
        h2d_exposed += len(ticks([op for op, lane in own if lane == "h2d"]) - running)
        not_memory = ("kernel", "nccl", "graph", "h2d")
        memory_exposed += len(ticks([op for op, lane in own if lane not in not_memory]) - running)
        rest = ticks([op for op, lane in here if lane != "nccl"])
        nccl_exposed += len(ticks([op for op, lane in own if lane == "nccl"]) - rest)
    typical = values[Metric.STEP_MS]
    windows = len(window) / typical if kept and typical else len(kept)
    gpus = max(1, len(steady or {op.device for op, _ in used}))
    values |= {Metric.GAP_MS: gap / windows / gpus if kept else math.nan}
    exposed = {
        Metric.H2D_EXPOSED_MS: h2d_exposed,
        Metric.NCCL_EXPOSED_MS: nccl_exposed,
        Metric.MEM_EXPOSED_MS: memory_exposed,
    }
    values |= {metric: ns / count / gpus for metric, ns in exposed.items()}
    return values


def only(timeline: Timeline, step: str | None = "step") -> ProcessSample:
    (sample,) = measure(timeline, step=step, steps=None if step is None else 1000)
    return sample


CLOCKS = {metric for metric in Metric if metric.value.endswith("_ms")}


@settings(max_examples=100)
@given(captures(), st.integers(0, 99), st.sampled_from(["step", None]))
def test_the_order_of_rows_changes_nothing(capture: Capture, seed: int, step: str | None) -> None:
    assert only(permuted(capture[0], seed), step) == only(capture[0], step)


@settings(max_examples=100)
@given(
    captures(),
    st.integers(1, 2**60) | st.integers(-(2**60), -(2**40)),
    st.sampled_from(["step", None]),
)
def test_the_clocks_zero_changes_nothing(capture: Capture, by_ns: int, step: str | None) -> None:
    # Not from 0: what begins and ends there was not timed.
    assert only(shifted(capture[0], by_ns), step) == only(shifted(capture[0], 1), step)


@settings(max_examples=100)
@given(captures(), st.sampled_from(["step", None]))
def test_rows_of_ranges_kernels_and_devices_add_up(capture: Capture, step: str | None) -> None:
    sample = only(capture[0], step)
    for metric in (Metric.KERNEL_MS, Metric.NCCL_MS, Metric.H2D_MS, Metric.GAP_MS, *EXPOSED):
        if metric in sample.values:
            assert sum(row.values[metric] for row in sample.ranges) == pytest.approx(
                sample.values[metric]
            )
            of_each = [one.values.get(metric, 0) for one in sample.devices]
            gpus = sum(Metric.GAP_MS in one.values for one in sample.devices) or 1
            waiting = metric in (Metric.GAP_MS, *EXPOSED)
            if (
                not waiting or Metric.GAP_MS in sample.values
            ):  # which is shown of the devices in use
                assert sum(of_each) / (gpus if waiting else 1) == pytest.approx(
                    sample.values[metric]
                )
    named = sum(row.gpu_ms for row in sample.kernels if not row.name.startswith("CUDA mem"))
    assert named == pytest.approx(
        sample.values.get(Metric.KERNEL_MS, 0.0) + sample.values.get(Metric.NCCL_MS, 0.0)
    )
    if step is None and Metric.LAUNCHES in sample.values:
        assert (
            sum(row.values[Metric.LAUNCHES] for row in sample.ranges)
            == sample.values[Metric.LAUNCHES]
        )


def paused(capture: Capture, before: Sequence[int], length: int) -> Capture:
    """The same capture, stopped before these steps until the GPU is done, and for `length` ns more.

    ```
    range    |--0--| |--1--|                 |--0--|                |--1--|
    kernel         |--a--|         ->              |--a--|
    wait                                                 |--wait--|
    ```
    """
    _, steps, inner, work = capture
    edges = [steps[index].start for index in before]
    later, waits = [0], []
    for edge in edges:
        ends = [one.end for one in steps if one.start < edge]
        ends += [op.end for call, op, _ in work if moment_of_launch(call, op) < edge]
        waits.append(
            Range(start=later[-1] + max(ends), end=later[-1] + max(ends) + length, name=WAIT_RANGE)
        )
        later.append(later[-1] + max(0, max(ends) - edge) + length)

    def by(moment: int) -> int:
        return later[sum(edge <= moment for edge in edges)]

    def moved(ranges: list[Range]) -> list[Range]:
        return [
            dataclasses.replace(r, start=r.start + by(r.start), end=r.end + by(r.start))
            for r in ranges
        ]

    moved_work: Work = []
    for call, op, lane in work:
        add = by(moment_of_launch(call, op))
        called = call and dataclasses.replace(call, start=call.start + add, end=call.end + add)
        moved_work.append(
            (called, dataclasses.replace(op, start=op.start + add, end=op.end + add), lane)
        )
    ranges = [*moved(steps), *moved(inner), *waits]
    return timeline_of(ranges, moved_work), moved(steps), moved(inner), moved_work


pauses = st.sets(st.integers(1, 5), max_size=5).map(sorted)


@settings(max_examples=250)
@given(captures(), st.just([]) | pauses, st.integers(0, 200))
def test_with_pauses_every_metric_is_that_of_the_slow_reference(
    capture: Capture, before: list[int], length: int
) -> None:
    before = [index for index in before if index < len(capture[1])]
    timeline, steps, _, work = paused(capture, before, length)
    sample, expected = only(timeline), slow_reference(steps, work, before)
    for metric, value in sample.values.items():
        assert value * (1e6 if metric in CLOCKS else 1) == pytest.approx(
            expected[metric], abs=1e-9
        ), metric
    if math.isnan(expected[Metric.STEP_MS]):
        assert {*PERIODS, Metric.GAP_MS} <= sample.absent.keys()
        assert (sample.periods_ms, sample.window_ms) == ((), 0.0)


def test_the_smallest_rows_are_folded_and_still_add_up() -> None:
    count = 120
    timeline = build(
        ranges=[
            *(Range(start=n * 20_000, end=n * 20_000 + 19_000) for n in range(4)),
            *(
                Range(start=n * 20_000 + 150 * k, end=n * 20_000 + 150 * k + 140, name=f"layer.{k}")
                for n in range(4)
                for k in range(count)
            ),
        ],
        kernels=[
            Op(start=n * 20_000 + 150 * k, end=n * 20_000 + 150 * k + k + 1, name=f"kernel{k}")
            for n in range(4)
            for k in range(count)
        ],
    )
    sample = only(timeline)
    assert len(sample.ranges) == TOP_RANGES + 1
    assert sample.ranges[-1].name == OTHER_RANGES
    assert sum(row.values[Metric.KERNEL_MS] for row in sample.ranges) == pytest.approx(
        sample.values[Metric.KERNEL_MS]
    )
    assert sum(row.values[Metric.GAP_MS] for row in sample.ranges) == pytest.approx(
        sample.values[Metric.GAP_MS]
    )
    assert sum(row.count for row in sample.ranges) == count + 1
    assert len(sample.kernels) == TOP_KERNELS + 1
    other = next(row for row in sample.kernels if row.name == OTHER_KERNELS)
    assert other.count == float(count - TOP_KERNELS)
    assert other.gpu_ms == pytest.approx(sum(range(1, count + 1 - TOP_KERNELS)) / 1e6)
