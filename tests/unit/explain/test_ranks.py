"""Several processes: how far they lie apart, and which one the others wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from support import records

from perfgate.explain.breakdown import telling
from perfgate.explain.ranks import label, rank_notes, stragglers
from perfgate.model.metric import Metric
from perfgate.model.sample import (
    WHOLE_GRAPHS,
    DeviceSample,
    KernelSample,
    ProcessSample,
    RangeSample,
    Run,
)

STEP, GAP, KERNEL = Metric.STEP_MS, Metric.GAP_MS, Metric.KERNEL_MS
NCCL, EXPOSED = Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS


def rank(
    number: int,
    values: Mapping[Metric, float],
    ranges: Mapping[str, Mapping[Metric, float]] | None = None,
) -> ProcessSample:
    return ProcessSample(
        pid=100 + number,
        rank=number,
        steps=20,
        values=values,
        window_ms=600.0,
        ranges=tuple(
            RangeSample(name=name, count=1.0, cpu_ms=1.0, values=held)
            for name, held in (ranges or {}).items()
        ),
    )


def run(*processes: ProcessSample) -> Run:
    return records.run().model_copy(update={"processes": processes})


FIRST = rank(
    0,
    {STEP: 30.0, KERNEL: 12.7, GAP: 0.1, NCCL: 17.6, EXPOSED: 16.6},
    {"data": {GAP: 0.1}, "backward": {GAP: 0.0}},
)
LATE = rank(
    1,
    {STEP: 30.1, KERNEL: 12.8, GAP: 5.2, NCCL: 5.6, EXPOSED: 4.6},
    {"data": {GAP: 5.0}, "backward": {GAP: 0.2}},
)


def test_the_rank_that_spends_least_in_nccl_is_waited_for_and_said_why() -> None:
    assert rank_notes([run(FIRST, LATE)]) == (
        (
            "2 processes took the steps, and each value is the worst of theirs, of NCCL the least: step_ms 30 to 30.1 "
            "ms, kernel_ms 12.7 to 12.8 ms, gap_ms 0.1 ms (rank 0) to 5.2 (rank 1), nccl_ms 5.6 ms (rank 1) to 17.6 "
            "(rank 0), nccl_exposed_ms 4.6 ms (rank 1) to 16.6 (rank 0)"
        ),
        (
            "rank 1 is late: the other waits 12 ms a step for it in NCCL kernels that nothing hides; its GPU idles "
            "5.1 ms a step more than the other's, 4.9 ms of that under data"
        ),
    )


def on_host(process: ProcessSample, cpu_ms: Mapping[str, float]) -> ProcessSample:
    ranges = tuple(one.model_copy(update={"cpu_ms": cpu_ms[one.name]}) for one in process.ranges)
    return process.model_copy(update={"ranges": ranges})


def test_the_range_that_takes_a_late_host_longer_is_named_though_its_gpu_idles_more_under_another() -> (
    None
):
    # As recorded on two H200s, with 5 ms of sleep under "get batch" on rank 1; its host is late for
    # all that follows. Of NCCL nothing hides what kernels and idle time leave of the step.
    idle = {"epoch 0": 0.01, "step #": 0.0, "get batch": 0.0, "forward": 0.14, "backward": 0.54}
    first = on_host(
        rank(
            0,
            {STEP: 32.32, KERNEL: 19.2, GAP: 0.78, NCCL: 27.01, EXPOSED: 12.34},
            {name: {GAP: ms} for name, ms in idle.items()},
        ),
        {"epoch 0": 0.0, "step #": 33.4, "get batch": 0.081, "forward": 10.43, "backward": 21.2},
    )
    idle = {"epoch 0": 0.04, "step #": 0.05, "get batch": 4.22, "forward": 6.76, "backward": 5.83}
    late = on_host(
        rank(
            1,
            {STEP: 32.32, KERNEL: 17.2, GAP: 17.44, NCCL: 0.49, EXPOSED: 0.0},
            {name: {GAP: ms} for name, ms in idle.items()},
        ),
        {"epoch 0": 0.0, "step #": 35.2, "get batch": 5.206, "forward": 12.27, "backward": 16.2},
    )
    (_, told) = rank_notes([run(first, late)])
    assert told == (
        "rank 1 is late: the other waits 12.34 ms a step for it in NCCL kernels that nothing hides; its GPU idles "
        "16.66 ms a step more than the other's, and its host takes 5.125 ms longer under get batch, 1.84 ms under "
        "forward"
    )


def test_of_ranges_that_are_longer_by_about_as_much_the_innermost_is_named() -> None:
    idle = {"step": {GAP: 0.1}, "data": {GAP: 4.9}, "read": {GAP: 0.2}}
    first = on_host(rank(0, FIRST.values, idle), {"step": 29.0, "data": 1.0, "read": 0.5})
    late = on_host(rank(1, LATE.values, idle), {"step": 34.2, "data": 6.1, "read": 5.4})
    assert rank_notes([run(first, late)])[1].endswith(
        ", and its host takes 4.9 ms longer under read"
    )


def test_all_ranges_that_take_a_late_host_much_longer_are_told_by_their_medians() -> None:
    # As seen on two H100s, whose second host was slower by itself: more under "forward" than was
    # planted elsewhere.
    idle = {"get batch": {GAP: 0.1}, "forward": {GAP: 0.2}, "optimizer": {GAP: 0.1}}
    usual = {"get batch": 0.1, "forward": 10.0, "optimizer": 3.0}
    runs = [
        run(
            on_host(rank(0, FIRST.values, idle), usual),
            on_host(
                rank(1, LATE.values, idle), {"get batch": 5.2, "forward": forward, "optimizer": 3.9}
            ),
        )
        for forward in (10.1, 17.0, 60.0)
    ]
    told = rank_notes(runs)[1]
    assert told.endswith(", and its host takes 7 ms longer under forward, 5.1 ms under get batch")


def test_the_range_of_a_stragglers_kernels_is_told_by_medians_over_the_runs_as_they_are() -> None:
    def of(number: int, kernel: float, ranges: Mapping[str, float]) -> ProcessSample:
        values = {STEP: 30.0, KERNEL: kernel, GAP: 0.1, NCCL: 20.0 - kernel, EXPOSED: 18.0 - kernel}
        return rank(number, values, {name: {KERNEL: ms} for name, ms in ranges.items()})

    first = of(0, 10.0, {"fwd": 5.0, "bwd": 5.0})
    late = of(1, 12.0, {"fwd": 7.0, "bwd": 5.0})
    for other in (of(1, 12.0, {"fwd": 2.0, "bwd": 10.0}), of(1, 10.0, {"fwd": 5.0, "bwd": 5.0})):
        told = rank_notes([run(first, late), run(first, late), run(first, other)])[1]
        assert told.endswith(
            "its kernels take 2 ms a step more than the other's, 2 ms of that under fwd"
        )


def waiting(number: int, exposed: float) -> ProcessSample:
    return rank(number, {STEP: 30.0, GAP: 0.1, NCCL: exposed + 1, EXPOSED: exposed})


def test_of_more_than_two_the_others_are_taken_by_their_median() -> None:
    of_four = run(waiting(0, 16.0), LATE, waiting(2, 17.0), waiting(3, 90.0))
    (found,) = stragglers([of_four])
    assert (found.place, found.others, found.waited_ms, found.cause) == (
        1,
        (0, 2, 3),
        17.0 - 4.6,
        GAP,
    )
    assert "rank 1 is late: the others wait 12.4 ms a step" in rank_notes([of_four])[1]


def test_several_that_are_late_are_all_named_each_with_its_own_reason() -> None:
    heavier = rank(2, {STEP: 30.0, KERNEL: 22.7, GAP: 0.1, NCCL: 5.0, EXPOSED: 4.0})
    others = [
        rank(place, {STEP: 30.0, KERNEL: 12.7, GAP: 0.1, NCCL: 17.0, EXPOSED: 16.6})
        for place in (0, 3)
    ]
    of_four = run(others[0], LATE, heavier, others[1])
    assert [(one.place, one.others, one.cause) for one in stragglers([of_four])] == [
        (1, (0, 3), GAP),
        (2, (0, 3), KERNEL),
    ]
    assert rank_notes([of_four])[1] == (
        "rank 1 and rank 2 are late: the others wait 12.3 ms a step for them in NCCL kernels that nothing hides; "
        "rank 1's GPU idles 5.1 ms a step more than theirs, 5 ms of that under data; rank 2's kernels take 10 ms a "
        "step more than theirs"
    )


def test_of_many_that_are_late_the_first_are_named() -> None:
    of_eight = run(*(waiting(place, 2.0 if place % 2 else 16.0) for place in range(8)))
    assert rank_notes([of_eight])[1] == (
        "4 ranks (rank 1, rank 3, rank 5, ...) are late: the others wait 14 ms a step for them in NCCL kernels that "
        "nothing hides"
    )


def test_where_most_are_late_none_is() -> None:
    of_three = run(waiting(0, 16.0), waiting(1, 2.0), waiting(2, 2.5))
    assert stragglers([of_three]) == ()
    assert len(rank_notes([of_three])) == 1


def test_a_wait_that_kernels_hide_costs_nobody_anything() -> None:
    # Ten buckets of gradients wait for the same 0.3 ms each, behind kernels of the backward pass;
    # the last one shows.
    hidden = run(
        rank(0, {STEP: 8.3, NCCL: 4.0, EXPOSED: 0.5}), rank(1, {STEP: 8.3, NCCL: 1.0, EXPOSED: 0.2})
    )
    assert stragglers([hidden]) == ()
    assert len(rank_notes([hidden])) == 1


def in_kernels(
    process: ProcessSample, counts: Mapping[str, float], *, kind: str = "nccl"
) -> ProcessSample:
    rows = [
        KernelSample.model_validate({"name": n, "count": c, "gpu_ms": 1.0, "kind": kind})
        for n, c in counts.items()
    ]
    return process.model_copy(update={"kernels": (*process.kernels, *rows)})


SEND, REDUCE = "ncclDevKernel_SendRecv", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


@pytest.mark.parametrize(
    ("of_first", "of_late"),
    [
        pytest.param({SEND: 4.0}, {SEND: 2.0}, id="the end of a pipeline"),
        pytest.param({REDUCE: 5.0, SEND: 1.0}, {REDUCE: 5.0}, id="in fewer communicators"),
        pytest.param({REDUCE: 5.0}, {}, id="in none"),
    ],
)
def test_of_ranks_that_do_not_run_the_same_nccl_kernels_none_is_called_late(
    of_first: Mapping[str, float], of_late: Mapping[str, float]
) -> None:
    unlike = run(in_kernels(FIRST, of_first), in_kernels(LATE, of_late))
    assert stragglers([unlike]) == ()
    assert rank_notes([unlike])[1:] == (
        "which of them the others wait for is not told: they do not run the same NCCL kernels",
    )


def test_a_kernel_more_at_the_edge_of_the_window_changes_nothing() -> None:
    alike = run(in_kernels(FIRST, {REDUCE: 5.0}), in_kernels(LATE, {REDUCE: 4.9}))
    assert [one.place for one in stragglers([alike])] == [1]


def test_of_ranks_whose_graphs_were_traced_whole_none_is_called_late() -> None:
    whole = in_kernels(LATE, {WHOLE_GRAPHS: 1.0}, kind="kernel")
    assert stragglers([run(FIRST, whole)]) == ()
    assert rank_notes([run(FIRST, whole)])[1:] == (
        (
            "which of them the others wait for is not told: their CUDA graphs were traced whole, and may hold NCCL "
            'kernels; it may be with cuda_graph_trace = "node"'
        ),
    )
    close = run(FIRST, in_kernels(FIRST, {WHOLE_GRAPHS: 1.0}, kind="kernel"))
    assert len(rank_notes([close])) == 1


def test_ranks_close_to_one_another_have_no_straggler() -> None:
    # As recorded on two H200s without any hindrance.
    close = run(
        rank(0, {STEP: 13.687, KERNEL: 12.739, NCCL: 1.838, EXPOSED: 0.3089}),
        rank(1, {STEP: 13.688, KERNEL: 12.771, NCCL: 2.103, EXPOSED: 0.3531}),
    )
    assert stragglers([close]) == ()
    (spread,) = rank_notes([close])
    assert spread.endswith(
        "kernel_ms 12.74 to 12.77 ms, nccl_ms 1.838 to 2.103 ms, nccl_exposed_ms 0.3089 to 0.3531 ms"
    )


def test_one_odd_run_of_three_makes_no_straggler() -> None:
    fair = run(waiting(0, 4.0), waiting(1, 4.0))
    assert stragglers([fair, run(FIRST, LATE), fair]) == ()
    assert [one.place for one in stragglers([run(FIRST, LATE), fair, run(FIRST, LATE)])] == [1]


def test_of_several_runs_it_is_said_that_each_rank_has_its_own_median() -> None:
    first, second = (run(waiting(0, 4.0), waiting(1, 4.0)) for _ in range(2))
    (told,) = rank_notes([first, second])
    assert told.startswith(
        "2 processes took the steps, and a run's value is the worst of theirs, of NCCL the least. Each by its median "
        "over the runs: step_ms 30 to 30 ms, "
    )


def test_a_wait_without_a_reason_among_the_metrics_is_told_without() -> None:
    (_, told) = rank_notes(
        [
            run(
                rank(0, {STEP: 30.0, GAP: 1.0, NCCL: 9.0, EXPOSED: 8.0}),
                rank(1, {STEP: 30.0, GAP: 1.1, NCCL: 5.0, EXPOSED: 4.0}),
            )
        ]
    )
    assert (
        told
        == "rank 1 is late: the other waits 4 ms a step for it in NCCL kernels that nothing hides"
    )


def test_kernels_that_take_longer_are_a_reason_too() -> None:
    heavier = rank(1, {STEP: 30.0, KERNEL: 18.0, NCCL: 5.0, EXPOSED: 4.0})
    (_, told) = rank_notes(
        [run(rank(0, {STEP: 30.0, KERNEL: 14.0, NCCL: 9.0, EXPOSED: 8.0}), heavier)]
    )
    assert told.endswith(
        "in NCCL kernels that nothing hides; its kernels take 4 ms a step more than the other's"
    )


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([], id="no run"),
        pytest.param([run()], id="no process"),
        pytest.param([run(FIRST)], id="one process"),
        pytest.param([run(FIRST, LATE), run(FIRST)], id="a rank lost"),
    ],
)
def test_without_several_processes_throughout_nothing_is_told(runs: Sequence[Run]) -> None:
    assert rank_notes(runs) == ()
    assert stragglers(runs) == ()


def test_without_nccl_kernels_there_is_a_spread_and_no_straggler() -> None:
    (told,) = rank_notes([run(rank(0, {STEP: 30.0}), rank(1, {STEP: 36.0, NCCL: 1.0}))])
    assert told.endswith("step_ms 30 ms (rank 0) to 36 (rank 1)")


def on_cpu(number: int, own: Mapping[str, float]) -> ProcessSample:
    return rank(number, {STEP: 16.0}, {name: {STEP: ms} for name, ms in own.items()})


def test_of_ranks_without_a_gpu_it_is_told_what_each_does_for_longer_and_of_none_that_it_is_late() -> (
    None
):
    # Rank 1 sleeps under "data", and rank 0 waits for it under "backward".
    waits, late = (
        on_cpu(0, {"data": 0.2, "backward": 14.8}),
        on_cpu(1, {"data": 10.2, "backward": 4.9}),
    )
    assert rank_notes([run(waits, late)] * 3)[1:] == (
        (
            "rank 1 spends 10 ms a step more under data than the other, rank 0 9.9 ms more under backward: what is "
            "longer of one may be its wait for another"
        ),
    )
    others = [waits.model_copy(update={"rank": number}) for number in (2, 3)]
    told = "rank 1 spends 10 ms a step more under data than the others"
    assert rank_notes([run(waits, late, *others)])[1:] == (told,)


def test_ranks_without_a_gpu_that_do_the_same_are_told_no_further() -> None:
    alike = on_cpu(0, {"data": 0.2, "backward": 14.8}), on_cpu(1, {"data": 0.5, "backward": 14.5})
    assert rank_notes([run(*alike)])[1:] == ()
    odd = on_cpu(1, {"data": 10.2, "backward": 4.9})
    assert rank_notes([run(*alike), run(alike[0], odd), run(*alike)])[1:] == ()


def test_a_process_without_a_rank_is_called_by_its_gpu_or_its_id() -> None:
    bare = FIRST.model_copy(update={"rank": None})
    on_gpu = bare.model_copy(update={"devices": (DeviceSample(device=3, ordinal=3),)})
    on_two = bare.model_copy(update={"devices": (DeviceSample(device=0), DeviceSample(device=1))})
    assert [label(one) for one in (FIRST, bare, on_gpu, on_two)] == [
        "rank 0",
        "process 100",
        "the process on GPU 3",
        "process 100",
    ]


def test_the_process_that_tells_most_is_the_straggler_and_else_the_slowest() -> None:
    slower = FIRST.model_copy(update={"values": {**FIRST.values, STEP: 31.0}})
    assert telling(run(slower, LATE)) is LATE
    assert telling(run(slower, FIRST)) is slower
    assert telling(run()) is None
