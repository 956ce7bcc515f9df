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
from perfgate.model.sample import (
    OTHER_KERNELS,
    OTHER_RANGES,
    OTHER_SYNCS,
    Breakdown,
    CopySample,
    DeviceSample,
    KernelSample,
    RangeSample,
    Run,
    SyncSample,
)

GAP = Metric.GAP_MS
LONG = "void at::native::fill<(int)4>(int)"


def under(
    name: str, values: Mapping[Metric, float], *, count: float = 1.0, cpu_ms: float = 1.0
) -> RangeSample:
    return RangeSample(name=name, count=count, cpu_ms=cpu_ms, values=values)


def run(
    *,
    ranges: tuple[RangeSample, ...] = (),
    kernels: tuple[KernelSample, ...] = (),
    copies: tuple[CopySample, ...] = (),
    syncs: tuple[SyncSample, ...] = (),
) -> Run:
    made = records.process(ranges=ranges, kernels=kernels).model_copy(
        update={"copies": copies, "syncs": syncs}
    )
    return records.run(processes=[made])


def test_it_is_the_mean_over_the_runs_and_what_a_run_lacks_is_none_there() -> None:
    first = run(
        ranges=(under("a", {GAP: 1.0}), under("b", {GAP: 4.0}, cpu_ms=6.0)),
        kernels=(
            KernelSample(name="k", count=2, gpu_ms=1.0),
            KernelSample(name="once", count=1, gpu_ms=0.5),
        ),
        copies=(
            CopySample(direction="Host-to-Device", host="pinned", count=2, bytes=8.0, gpu_ms=0.1),
        ),
        syncs=(SyncSample(call="cudaStreamSynchronize", range="a", count=1, cpu_ms=2.0),),
    )
    second = run(
        ranges=(under("a", {GAP: 3.0}, count=3.0),),
        kernels=(KernelSample(name="k", count=2, gpu_ms=2.0),),
        copies=(
            CopySample(direction="Host-to-Device", host="pageable", count=2, bytes=8.0, gpu_ms=0.3),
        ),
    )
    found = breakdown_of([first, second])
    assert isinstance(found, RunBreakdown)
    assert found.model_copy(update={"own": {}}) == RunBreakdown(
        ranges=(under("a", {GAP: 2.0}, count=2.0), under("b", {GAP: 2.0}, count=0.5, cpu_ms=3.0)),
        kernels=(
            KernelSample(name="k", count=2, gpu_ms=1.5),
            KernelSample(name="once", count=0.5, gpu_ms=0.25),
        ),
        copies=(
            CopySample(direction="Host-to-Device", host="pinned", count=1, bytes=4.0, gpu_ms=0.05),
            CopySample(
                direction="Host-to-Device", host="pageable", count=1, bytes=4.0, gpu_ms=0.15
            ),
        ),
        syncs=(SyncSample(call="cudaStreamSynchronize", range="a", count=0.5, cpu_ms=1.0),),
    )


def spent(step_ms: float, *, data: float) -> Run:
    values = {Metric.STEP_MS: step_ms}
    ranges = (under("data", {Metric.STEP_MS: data}),)
    return records.run(processes=[records.process(values).model_copy(update={"ranges": ranges})])


def test_a_run_far_from_the_others_moves_nothing_as_in_the_metrics() -> None:
    runs = [spent(10.0 + n, data=3.0 + n) for n in (0, 1, 2, 3, 90)]
    found = breakdown_of(runs)
    assert found == breakdown_of(runs[::-1])
    assert found.ranges[0].values == {Metric.STEP_MS: 5.0}


def test_a_baseline_keeps_the_largest_rows_and_the_sum_of_the_others() -> None:
    whole = breakdown_of(
        [
            run(
                ranges=(
                    *(under(f"r{n}", {GAP: float(n)}, cpu_ms=float(n)) for n in range(60)),
                    under(OTHER_RANGES, {GAP: 100.0}, cpu_ms=100.0),
                ),
                kernels=(
                    *(KernelSample(name=f"{LONG}{n}", count=1, gpu_ms=float(n)) for n in range(60)),
                    KernelSample(name=OTHER_KERNELS, count=7, gpu_ms=100.0),
                    KernelSample(name="ncclDevKernel", count=1, gpu_ms=0.1, kind="nccl"),
                    KernelSample(name="CUDA memset", count=1, gpu_ms=0.1, kind="memory"),
                ),
                syncs=tuple(
                    SyncSample(call=f"c{n}", range="a", count=float(n), cpu_ms=1.0)
                    for n in range(20)
                ),
            )
        ]
    )
    small = kept(whole)
    assert [row.name for row in small.ranges] == [
        *(f"r{n}" for n in range(59, 59 - MOST_RANGES_KEPT, -1)),
        OTHER_RANGES,
    ]
    assert sum(row.values[GAP] for row in small.ranges) == sum(
        row.values[GAP] for row in whole.ranges
    )
    largest = [key(f"{LONG}{n}") for n in range(59, 59 - MOST_KERNELS_KEPT, -1)]
    assert [row.name for row in small.kernels] == [
        *largest,
        OTHER_KERNELS,
        "ncclDevKernel",
        "CUDA memset",
    ]
    assert sum(row.gpu_ms for row in small.kernels) == sum(row.gpu_ms for row in whole.kernels)
    assert sum(row.count for row in small.kernels) == sum(row.count for row in whole.kernels)
    assert [row.call for row in small.syncs] == [
        *(f"c{n}" for n in range(19, 19 - MOST_KEPT, -1)),
        OTHER_SYNCS,
    ]
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


def test_of_several_processes_it_says_which_one_it_is_of_and_what_that_measured() -> None:
    found = of_ranks((10.0, 6.0), (10.1, 1.0))
    assert (found.of, found.own, found.gpus) == ("rank 1", {Metric.STEP_MS: 10.1, GAP: 1.0}, 1)
    alone = of_ranks((10.0, 6.0), gpus=(0, 1))
    assert (alone.of, alone.own, alone.gpus) == ("", {Metric.STEP_MS: 10.0, GAP: 6.0}, 2)


def test_a_gpu_whose_idle_time_does_not_count_is_none_of_those_that_waiting_is_a_mean_of() -> None:
    """One operation in a window on another GPU: its devices are two, and waiting is that of the
    first alone."""
    devices = [DeviceSample(device=0, values={GAP: 6.0}), DeviceSample(device=1)]
    found = breakdown_of([records.run(processes=[records.process(devices=devices)])])
    assert isinstance(found, RunBreakdown)
    assert found.gpus == 1


def test_ranks_that_take_as_long_are_reported_by_the_lowest_of_them_but_for_a_microsecond() -> None:
    assert (
        of_ranks((13.688, 6.0), (13.687, 1.0)).of
        == of_ranks((13.687, 6.0), (13.688, 1.0)).of
        == "rank 0"
    )
    assert of_ranks((13.687, 6.0), (13.72, 1.0)).of == "rank 1"


def test_of_several_processes_all_are_reported() -> None:
    found = of_ranks((10.0, 6.0), (10.1, 1.0))
    assert [(one.of, one.own[GAP], one.each) for one in found.each] == [
        ("rank 0", 6.0, ()),
        ("rank 1", 1.0, ()),
    ]
    assert found.model_copy(update={"each": (), "place": 0}) == found.each[found.place]
    assert of_ranks((10.0, 6.0)).each == ()
    assert type(kept(found)) is Breakdown


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
    ranks = [
        records.process(
            {Metric.STEP_MS: 9.0 + (n == late), GAP: gap},
            rank=n,
            devices=[DeviceSample(device=0)] * late,
        )
        for late, gap in ((0, 1.0), (1, 3.0))
        for n in range(2)
    ]
    found = breakdown_of(
        [records.run(processes=ranks[:2]), records.run(processes=[*ranks[2:], records.process()])]
    )
    assert isinstance(found, RunBreakdown)
    assert (found.of, found.gpus, found.each) == ("one process", 0, ())
    assert breakdown_of([records.run(processes=[])] * 2) == breakdown_of([]) == Breakdown()
