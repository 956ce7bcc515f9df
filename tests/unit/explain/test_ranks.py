"""Several processes: how far they lie apart, and which one the others wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from support import records

from perfgate.explain.breakdown import telling
from perfgate.explain.ranks import label, straggler, told_ranks
from perfgate.model.metric import Metric
from perfgate.model.sample import DeviceSample, ProcessSample, RangeSample, Run

STEP, NCCL, GAP, KERNEL = Metric.STEP_MS, Metric.NCCL_MS, Metric.GAP_MS, Metric.KERNEL_MS


def rank(
    number: int, values: Mapping[Metric, float], ranges: Mapping[str, Mapping[Metric, float]] | None = None
) -> ProcessSample:
    return ProcessSample(
        pid=100 + number,
        rank=number,
        steps=20,
        values=values,
        window_ms=600.0,
        ranges=tuple(
            RangeSample(name=name, count=1.0, cpu_ms=1.0, values=held) for name, held in (ranges or {}).items()
        ),
    )


def run(*processes: ProcessSample) -> Run:
    return records.run().model_copy(update={"processes": processes})


FIRST = rank(0, {STEP: 30.0, KERNEL: 12.7, GAP: 0.1, NCCL: 16.6}, {"data": {GAP: 0.1}, "backward": {GAP: 0.0}})
LATE = rank(1, {STEP: 30.1, KERNEL: 12.8, GAP: 5.2, NCCL: 4.6}, {"data": {GAP: 5.0}, "backward": {GAP: 0.2}})


def test_the_rank_that_spends_least_in_nccl_is_waited_for_and_said_why() -> None:
    assert told_ranks([run(FIRST, LATE)]) == (
        (
            "2 processes took the steps, and each value is the worst of theirs, of NCCL the least: step_ms 30 to 30.1 "
            "ms, kernel_ms 12.7 to 12.8 ms, gap_ms 0.1 ms (rank 0) to 5.2 (rank 1), nccl_ms 4.6 ms (rank 1) to 16.6 "
            "(rank 0)"
        ),
        (
            "rank 1 is late: the other waits 12 ms a step for it in NCCL kernels; its GPU idles 5.1 ms a step more "
            "than the other's, 4.9 ms of that under data"
        ),
    )


def on_host(process: ProcessSample, cpu_ms: Mapping[str, float]) -> ProcessSample:
    ranges = tuple(one.model_copy(update={"cpu_ms": cpu_ms[one.name]}) for one in process.ranges)
    return process.model_copy(update={"ranges": ranges})


def test_the_range_that_takes_a_late_host_longer_is_named_though_its_gpu_idles_more_under_another() -> None:
    # As recorded on two H200s, with 5 ms of sleep under "get batch" on rank 1; its host is late for all that follows.
    idle = {"epoch 0": 0.01, "step #": 0.0, "get batch": 0.0, "forward": 0.14, "backward": 0.54}
    first = on_host(
        rank(0, {STEP: 32.32, KERNEL: 19.2, GAP: 0.78, NCCL: 27.01}, {name: {GAP: ms} for name, ms in idle.items()}),
        {"epoch 0": 0.0, "step #": 33.4, "get batch": 0.081, "forward": 10.43, "backward": 21.2},
    )
    idle = {"epoch 0": 0.04, "step #": 0.05, "get batch": 4.22, "forward": 6.76, "backward": 5.83}
    late = on_host(
        rank(1, {STEP: 32.32, KERNEL: 17.2, GAP: 17.44, NCCL: 0.49}, {name: {GAP: ms} for name, ms in idle.items()}),
        {"epoch 0": 0.0, "step #": 35.2, "get batch": 5.206, "forward": 12.27, "backward": 16.2},
    )
    (_, told) = told_ranks([run(first, late)])
    assert told == (
        "rank 1 is late: the other waits 26.52 ms a step for it in NCCL kernels; its GPU idles 16.66 ms a step "
        "more than the other's, and its host takes 5.125 ms longer under get batch"
    )


def test_of_ranges_that_are_longer_by_about_as_much_the_innermost_is_named() -> None:
    idle = {"step": {GAP: 0.1}, "data": {GAP: 4.9}, "read": {GAP: 0.2}}
    first = on_host(rank(0, FIRST.values, idle), {"step": 29.0, "data": 1.0, "read": 0.5})
    late = on_host(rank(1, LATE.values, idle), {"step": 34.2, "data": 6.1, "read": 5.4})
    assert told_ranks([run(first, late)])[1].endswith(", and its host takes 4.9 ms longer under read")


def test_of_more_than_two_the_others_are_taken_by_their_median() -> None:
    others = [rank(n, {STEP: 30.0, GAP: 0.1, NCCL: nccl}) for n, nccl in ((0, 16.0), (2, 17.0), (3, 90.0))]
    found = straggler([run(others[0], LATE, *others[1:])])
    assert found is not None
    assert (found.place, found.waited_ms, found.cause) == (1, 17.0 - 4.6, GAP)
    assert "rank 1 is late: the others wait 12.4 ms a step" in told_ranks([run(others[0], LATE, *others[1:])])[1]


def test_ranks_close_to_one_another_have_no_straggler() -> None:
    # As recorded on two H200s without any hindrance.
    close = run(
        rank(0, {STEP: 13.687, KERNEL: 12.739, NCCL: 1.838}), rank(1, {STEP: 13.688, KERNEL: 12.771, NCCL: 2.103})
    )
    assert straggler([close]) is None
    (spread,) = told_ranks([close])
    assert spread.endswith("step_ms 13.69 to 13.69 ms, kernel_ms 12.74 to 12.77 ms, nccl_ms 1.838 to 2.103 ms")


def test_one_odd_run_of_three_makes_no_straggler() -> None:
    fair = run(rank(0, {STEP: 30.0, NCCL: 5.0}), rank(1, {STEP: 30.0, NCCL: 5.0}))
    assert straggler([fair, run(FIRST, LATE), fair]) is None
    assert straggler([run(FIRST, LATE), fair, run(FIRST, LATE)]) is not None


def test_a_wait_without_a_reason_among_the_metrics_is_told_without() -> None:
    (_, told) = told_ranks(
        [run(rank(0, {STEP: 30.0, GAP: 1.0, NCCL: 9.0}), rank(1, {STEP: 30.0, GAP: 1.1, NCCL: 5.0}))]
    )
    assert told == "rank 1 is late: the other waits 4 ms a step for it in NCCL kernels"


def test_kernels_that_take_longer_are_a_reason_too() -> None:
    heavier = rank(1, {STEP: 30.0, KERNEL: 18.0, NCCL: 5.0})
    (_, told) = told_ranks([run(rank(0, {STEP: 30.0, KERNEL: 14.0, NCCL: 9.0}), heavier)])
    assert told.endswith("in NCCL kernels; its kernels take 4 ms a step more than the other's")


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
    assert told_ranks(runs) == ()
    assert straggler(runs) is None


def test_without_nccl_kernels_there_is_a_spread_and_no_straggler() -> None:
    (told,) = told_ranks([run(rank(0, {STEP: 30.0}), rank(1, {STEP: 36.0, NCCL: 1.0}))])
    assert told.endswith("step_ms 30 ms (rank 0) to 36 (rank 1)")


def on_cpu(number: int, own: Mapping[str, float]) -> ProcessSample:
    return rank(number, {STEP: 16.0}, {name: {STEP: ms} for name, ms in own.items()})


def test_of_ranks_without_a_gpu_it_is_told_what_each_does_for_longer_and_of_none_that_it_is_late() -> None:
    # Rank 1 sleeps under "data", and rank 0 waits for it under "backward".
    waits, late = on_cpu(0, {"data": 0.2, "backward": 14.8}), on_cpu(1, {"data": 10.2, "backward": 4.9})
    assert told_ranks([run(waits, late)] * 3)[1:] == (
        (
            "rank 1 spends 10 ms a step more under data than the other, rank 0 9.9 ms more under backward: what is "
            "longer of one may be its wait for another"
        ),
    )
    others = [waits.model_copy(update={"rank": number}) for number in (2, 3)]
    told = "rank 1 spends 10 ms a step more under data than the others"
    assert told_ranks([run(waits, late, *others)])[1:] == (told,)


def test_ranks_without_a_gpu_that_do_the_same_are_told_no_further() -> None:
    alike = on_cpu(0, {"data": 0.2, "backward": 14.8}), on_cpu(1, {"data": 0.5, "backward": 14.5})
    assert told_ranks([run(*alike)])[1:] == ()
    odd = on_cpu(1, {"data": 10.2, "backward": 4.9})
    assert told_ranks([run(*alike), run(alike[0], odd), run(*alike)])[1:] == ()


def test_a_process_without_a_rank_is_called_by_its_gpu_or_its_id() -> None:
    bare = FIRST.model_copy(update={"rank": None})
    on_gpu = bare.model_copy(update={"devices": (DeviceSample(device=3),)})
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
