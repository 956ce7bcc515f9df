"""What the captures of a run show: whose steps they are, what nsys's own reports say, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support import records
from support.timelines import Op, Range, build

from perfgate.execute.captures import (
    gpu_unseen,
    share_of_h2d,
    steps_lost,
    unshown_warmup,
    with_ranks,
)
from perfgate.metrics.measure import measure
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note
from perfgate.model.reports import MemTimeRow, Reports
from perfgate.model.sample import DeviceSample
from perfgate.model.timeline import CopyKind

# What makes a run INVALID


def test_lost_steps_are_told_process_by_process() -> None:
    whole, half = records.process(pid=1, steps=30), records.process(pid=2, steps=28)
    assert steps_lost(records.workload(), (whole,)) == ()
    assert steps_lost(records.workload(), (whole, half)) == (
        "steps were lost: process 2 shows 28 of 30 measured steps",
    )


def test_of_steps_that_lie_in_one_another_the_likely_cause_is_told() -> None:
    inside = note("ranges-nested", Severity.WARN, ranges=11)
    nested = records.process(pid=2, steps=1).model_copy(update={"notes": (inside,)})
    assert steps_lost(records.workload(), (nested,)) == (
        (
            "steps were lost: process 2 shows 1 of 30 measured steps; a range that a step pushes and does not pop "
            "takes the pop of the step's own: each push needs its pop"
        ),
    )


def test_of_what_a_pattern_matches_within_another_match_no_push_is_blamed() -> None:
    inside = note("ranges-nested", Severity.WARN, ranges=11)
    nested = records.process(pid=2, steps=1).model_copy(update={"notes": (inside,)})
    (told,) = steps_lost(records.workload(nodeid=None), (nested,))
    assert told.endswith(
        " asks for 40 (warmup and steps): others that match lie inside these; match the outermost alone, and if tasks "
        "take turns on a thread (asyncio), where push and pop of one close the other's ranges, draw them with "
        "nvtx.start_range and nvtx.end_range"
    )
    (enough,) = steps_lost(
        records.workload(nodeid=None, steps=1), (nested.model_copy(update={"steps": 2}),)
    )
    assert enough.endswith("(warmup and steps)")


def test_of_a_command_with_fewer_steps_than_its_file_asks_for_it_is_told_how_many_there_are() -> (
    None
):
    asked = records.workload(nodeid=None, steps=30).model_copy(update={"warmup": 10})
    assert steps_lost(asked, (records.process(pid=2, steps=10),)) == (
        (
            "steps were lost: process 2 shows 10 of 30 measured steps; its capture holds 20, and workloads/mlp.py asks "
            "for 40 (warmup and steps): the script takes fewer, leaves by os._exit before nsys has written its last, "
            "or has a launcher that does not wait for it"
        ),
    )
    (more,) = steps_lost(asked, (records.process(pid=2, steps=31),))
    assert more.endswith(
        "its capture holds 41, and workloads/mlp.py asks for 40 (warmup and steps)"
    )


def test_of_a_window_too_short_to_show_it_it_is_said_that_the_warmup_may_not_suffice() -> None:
    assert unshown_warmup(records.workload(steps=8)) == ()
    assert unshown_warmup(records.workload(steps=7)) == (
        "whether the warm-up was long enough is not shown: that takes 8 measured steps or more, and 7 were asked for",
    )


def test_a_gpu_that_did_nothing_is_told_with_the_reason_of_the_capture() -> None:
    seen = records.process()
    unseen = records.process(
        {Metric.STEP_MS: 1.0},
        absent={Metric.KERNEL_MS: "the capture has no table of kernels"},
        ranges=(),
    )
    plain = records.process({Metric.STEP_MS: 1.0}, ranges=())
    gpu = records.machine()
    assert gpu_unseen(gpu, (seen, unseen)) == ()
    assert gpu_unseen(Machine(), (unseen,)) == ()
    assert gpu_unseen(gpu, (unseen,)) == (
        "no GPU operation was recorded in any step (the capture has no table of kernels)",
    )
    assert gpu_unseen(gpu, (plain,)) == (
        "no GPU operation was recorded in any step (the workload launched none)",
    )


# What nsys says of the copies


def mem_row(operation: str, percent: float) -> MemTimeRow:
    return MemTimeRow(
        time_percent=percent,
        total_ns=10,
        count=1,
        avg_ns=10,
        med_ns=10,
        min_ns=10,
        max_ns=10,
        stddev_ns=0,
        operation=operation,
    )


def test_the_share_of_host_to_device_is_nsys_own_column() -> None:
    rows = (
        mem_row("CUDA memcpy Host-to-Device", 62.5),
        mem_row("CUDA memcpy Device-to-Host", 37.5),
    )
    assert share_of_h2d(Reports(cuda_gpu_mem_time_sum=rows)) == 0.625
    assert share_of_h2d(Reports(cuda_gpu_mem_time_sum=rows[1:])) == 0
    assert share_of_h2d(Reports()) is None


def test_the_share_of_host_to_device_is_the_same_of_the_report_and_of_the_capture() -> None:
    copies = [
        Op(start=0, end=200, correlation=1),
        Op(start=200, end=300, correlation=2, kind=CopyKind.UVM_H2D),
    ]
    (sample,) = measure(build(copies=copies, ranges=[Range(start=0, end=400)]), step="step")
    rows = (
        mem_row("CUDA memcpy Host-to-Device", 66.7),
        mem_row("CUDA memcpy Unified Host-to-Device", 33.3),
    )
    assert share_of_h2d(Reports(cuda_gpu_mem_time_sum=rows)) == sample.memory_share_h2d == 0.667


# Whose steps they are


def test_processes_are_in_the_order_of_their_ranks() -> None:
    made = [records.process(pid=pid) for pid in (7, 8, 9)]
    ranked = with_ranks(made, {7: 2, 8: 0, 9: 1, 10: 1})
    assert [(process.pid, process.rank) for process in ranked] == [(8, 0), (9, 1), (7, 2)]


@pytest.mark.parametrize("ranks", [{}, {7: 0}, {7: 0, 8: 0}, {9: 0, 10: 1}])
def test_ranks_that_do_not_tell_the_processes_apart_are_left_out(ranks: Mapping[int, int]) -> None:
    made = (records.process(pid=7), records.process(pid=8))
    assert with_ranks(made, ranks) == made


def test_processes_whose_ranks_are_not_known_are_in_the_order_of_their_gpus() -> None:
    first, second = (
        records.process(pid=pid).model_copy(update={"devices": (DeviceSample(device=gpu),)})
        for pid, gpu in ((7, 1), (8, 0))
    )
    assert with_ranks([first, second], {}) == with_ranks([second, first], {}) == (second, first)
    assert with_ranks([first, second], {7: 0, 8: 1})[0].pid == 7
    assert with_ranks([first, first, second], {}) == (first, first, second)


def test_one_process_has_no_rank() -> None:
    made = (records.process(pid=7),)
    assert with_ranks(made, {7: 0}) == made
