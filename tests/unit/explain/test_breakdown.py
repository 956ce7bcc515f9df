"""What several runs are made of, as one, and what a baseline keeps of it."""

from __future__ import annotations

from collections.abc import Mapping

from support import records

from perfgate.explain.breakdown import (
    MOST_KEPT,
    MOST_KERNELS_KEPT,
    MOST_RANGES_KEPT,
    RunBreakdown,
    breakdown_of,
    kept,
)
from perfgate.explain.names import key
from perfgate.model.metric import Metric
from perfgate.model.note import note
from perfgate.model.sample import (
    OTHER_KERNELS,
    OTHER_RANGES,
    OTHER_SYNCS,
    Breakdown,
    DeviceSample,
    KernelSample,
    RangeSample,
    Run,
    SyncSample,
)

GAP, SYNCS = Metric.GAP_MS, Metric.SYNCS
LONG = "void at::native::fill<(int)4>(int)"


def under(
    name: str, values: Mapping[Metric, float], *, count: float = 1.0, cpu_ms: float = 1.0
) -> RangeSample:
    return RangeSample(name=name, count=count, cpu_ms=cpu_ms, values=values)


def run(
    *,
    ranges: tuple[RangeSample, ...] = (),
    kernels: tuple[KernelSample, ...] = (),
    syncs: tuple[SyncSample, ...] = (),
) -> Run:
    made = records.process(ranges=ranges, kernels=kernels).model_copy(update={"syncs": syncs})
    return records.run(processes=[made])


def test_it_is_the_mean_over_the_runs_and_what_a_run_lacks_is_none_there() -> None:
    first = run(
        ranges=(under("a", {GAP: 1.0}), under("b", {GAP: 4.0}, cpu_ms=6.0)),
        kernels=(
            KernelSample(name="k", count=2, gpu_ms=1.0),
            KernelSample(name="once", count=1, gpu_ms=0.5),
        ),
        syncs=(SyncSample(call="cudaStreamSynchronize", range="a", count=1, cpu_ms=2.0),),
    )
    second = run(
        ranges=(under("a", {GAP: 3.0}, count=3.0),),
        kernels=(KernelSample(name="k", count=2, gpu_ms=2.0),),
    )
    found = breakdown_of([first, second])
    assert isinstance(found, RunBreakdown)
    assert found.model_copy(update={"own": {}}) == RunBreakdown(
        ranges=(under("a", {GAP: 2.0}, count=2.0), under("b", {GAP: 2.0}, count=0.5, cpu_ms=3.0)),
        kernels=(
            KernelSample(name="k", count=2, gpu_ms=1.5),
            KernelSample(name="once", count=0.5, gpu_ms=0.25),
        ),
        syncs=(SyncSample(call="cudaStreamSynchronize", range="a", count=0.5, cpu_ms=1.0),),
    )


def test_what_a_run_did_not_measure_is_no_zero_of_its_ranges() -> None:
    first = run(ranges=(under("a", {GAP: 1.0, SYNCS: 1.0}),))
    blind = run(ranges=(under("a", {GAP: 3.0}),))
    (process,) = blind.processes
    why = {SYNCS: note("no-calls", pid=process.pid)}
    blind = blind.model_copy(update={"processes": (process.model_copy(update={"absent": why}),)})
    assert breakdown_of([first, blind, blind]).ranges == (under("a", {GAP: 3.0}),)


def test_a_baseline_keeps_the_largest_rows_and_the_sum_of_the_others() -> None:
    sizes = [float(n) for n in range(60)]
    whole = Breakdown(
        ranges=(
            *(under(f"r{n:g}", {GAP: n}, cpu_ms=n) for n in sizes),
            under(OTHER_RANGES, {GAP: 100.0}, cpu_ms=100.0),
        ),
        kernels=(
            *(KernelSample(name=f"{LONG}{n:g}", count=1, gpu_ms=n) for n in sizes),
            KernelSample(name=OTHER_KERNELS, count=7, gpu_ms=100.0),
            KernelSample(name="ncclDevKernel", count=1, gpu_ms=0.1, kind="nccl"),
        ),
        syncs=tuple(SyncSample(call=f"c{n:g}", range="a", count=n, cpu_ms=1.0) for n in sizes),
    )
    small = kept(whole)

    def largest(text: str, most: int) -> list[str]:
        return [f"{text}{n}" for n in range(59, 59 - most, -1)]

    kernels = [key(name) for name in largest(LONG, MOST_KERNELS_KEPT)]
    assert [row.name for row in small.ranges] == [*largest("r", MOST_RANGES_KEPT), OTHER_RANGES]
    assert [row.name for row in small.kernels] == [*kernels, OTHER_KERNELS, "ncclDevKernel"]
    assert [row.call for row in small.syncs] == [*largest("c", MOST_KEPT), OTHER_SYNCS]
    for side in (small, whole):
        assert sum(row.values[GAP] for row in side.ranges) == sum(sizes) + 100
        assert sum(row.gpu_ms for row in side.kernels) == sum(sizes) + 100.1
    assert kept(small) == small


def of_ranks(*ranks: tuple[float, float], gpus: tuple[int, ...] = (0,)) -> RunBreakdown:
    """Of three runs, whose ranks have these step and gap times."""
    devices = [DeviceSample(device=number) for number in gpus]
    made = [
        records.process({Metric.STEP_MS: step, GAP: gap}, rank=rank, devices=devices)
        for rank, (step, gap) in enumerate(ranks)
    ]
    found = breakdown_of([records.run(processes=made)] * 3)
    assert isinstance(found, RunBreakdown)
    return found


def test_of_several_processes_it_says_which_one_it_is_of_and_what_each_measured() -> None:
    found = of_ranks((10.0, 6.0), (10.1, 1.0))
    assert (found.of, found.own, found.gpus) == ("rank 1", {Metric.STEP_MS: 10.1, GAP: 1.0}, 1)
    assert [(one.of, one.own[GAP], one.each) for one in found.each] == [
        ("rank 0", 6.0, ()),
        ("rank 1", 1.0, ()),
    ]
    assert type(kept(found)) is Breakdown
    alone = of_ranks((10.0, 6.0), gpus=(0, 1))
    assert (alone.of, alone.own, alone.gpus) == ("", {Metric.STEP_MS: 10.0, GAP: 6.0}, 2)


def test_runs_whose_ranks_are_slower_by_turns_are_all_named_by_the_same_rank() -> None:
    runs = [
        records.run(
            processes=[
                records.process({Metric.STEP_MS: 9.0 + (n == late), GAP: gap + n}, rank=n)
                for n in range(2)
            ]
        )
        for late, gap in ((0, 1.0), (1, 3.0), (1, 3.0))
    ]
    found = breakdown_of(runs)
    assert isinstance(found, RunBreakdown)
    assert (found.of, found.own) == ("rank 1", {Metric.STEP_MS: 10.0, GAP: 4.0})


def test_of_runs_that_are_not_alike_it_says_no_more_than_it_knows() -> None:
    two = [records.process({Metric.STEP_MS: 9.0}, rank=n) for n in range(2)]
    found = breakdown_of(
        [records.run(processes=two), records.run(processes=[*two, records.process(rank=2)])]
    )
    assert isinstance(found, RunBreakdown)
    assert (found.of, found.each) == ("one process", ())
    assert breakdown_of([records.run(processes=[])] * 2) == breakdown_of([]) == Breakdown()
