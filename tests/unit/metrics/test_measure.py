"""Every metric's definition on hand-drawn timelines: one column is one millisecond."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from support.timelines import Call, Op, Range, build, draw, shifted

from perfgate.metrics.measure import measure
from perfgate.model.errors import StepsNotFound
from perfgate.model.metric import METRICS, Metric
from perfgate.model.sample import OUTSIDE_RANGES, ProcessSample
from perfgate.model.timeline import CapturedGpu, CopyKind, Flags, SmallInts, Timeline


def only(timeline: Timeline, step: str | None = "step", **options: int) -> ProcessSample:
    (sample,) = measure(timeline, step=step, steps=options.get("steps"), warmup=options.get("warmup", 0))
    return sample


EXPOSED = (Metric.H2D_EXPOSED_MS, Metric.NCCL_EXPOSED_MS, Metric.MEM_EXPOSED_MS)
BETWEEN = "0.6667 GPU operations per step were launched between the steps: they count to the step before them"


def of_range(sample: ProcessSample, name: str, metric: Metric) -> float:
    return next(row.values[metric] for row in sample.ranges if row.name == name)


def test_a_step_is_complete_when_its_range_and_its_last_gpu_operation_have_ended() -> None:
    # Completions at the ends of a (col 20), of b (34) and of the third range (42), whose kernel is done before it.
    sample = only(
        draw("""
range     |-step-|  |-step-|   |---step--|
launch     ^a        ^b          ^c
kernel     |----a----||-----b-----|-c-|
        """)
    )
    assert sample.periods_ms == (41.0 - 34.0,)
    assert sample.values[Metric.STEP_MS] == 7.0


AHEAD = """
    range   |step||step||step||step||step|
    launch   ^a    ^b    ^c    ^d    ^e
    kernel   |--a--||--b--||--c--||--d--||--e--|
"""


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_capture_that_lacks_the_last_kernels_is_no_measurement(lost: int) -> None:
    # Where the CPU runs ahead, steps without their kernels are complete with their range: far too early.
    whole = draw(AHEAD)
    kept = slice(None, len(whole.kernels.start) - lost)
    cut = {field.name: getattr(whole.kernels, field.name)[kept] for field in dataclasses.fields(whole.kernels)}
    assert only(whole).complaints == ()
    assert only(dataclasses.replace(whole, kernels=dataclasses.replace(whole.kernels, **cut))).complaints == (
        (
            f"of 5 kernel launches in the steps the capture lacks {lost} kernels: the profiler was stopped before "
            "the GPU had ended them, or lost them; synchronise before it stops, or let it stop later"
        ),
    )


GRAPHS_LOST = (
    "of 30 launches of kernels and CUDA graphs in the steps the capture lacks 8 of them: the profiler was stopped "
    "before the GPU had ended them, or lost them; synchronise before it stops, or let it stop later"
)


@pytest.mark.parametrize(("lost", "complaints"), [(0, ()), (8, (GRAPHS_LOST,))])
@pytest.mark.parametrize("traced", ["whole", "by node"])
def test_graphs_that_the_capture_lacks_are_no_measurement(lost: int, complaints: tuple[str, ...], traced: str) -> None:
    ran = [Op(start=3_000_000 * k, end=3_000_000 * (k + 1), correlation=k) for k in range(1, 31 - lost)]
    timeline = build(
        ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(1, 31)],
        calls=[
            Call(start=100_000 * k + 9, end=100_000 * k + 99, name="cudaGraphLaunch", correlation=k)
            for k in range(1, 31)
        ],
        graphs=ran if traced == "whole" else [],
        kernels=[] if traced == "whole" else ran,
    )
    assert only(timeline).complaints == complaints


def test_of_graphs_of_which_the_capture_holds_nothing_the_gpus_clocks_are_absent() -> None:
    timeline = build(
        ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(1, 31)],
        calls=[
            Call(start=100_000 * k + 9, end=100_000 * k + 99, name="cudaGraphLaunch", correlation=k)
            for k in range(1, 31)
        ],
        memsets=[Op(start=100_000 * k + 200, end=100_000 * k + 300, correlation=0) for k in range(1, 31)],
        graphs=[Op(start=10, end=20, correlation=777)],
    )
    sample = only(timeline)
    why = "process 100 launched 30 CUDA graphs, the capture holds none of their work"
    assert {metric: sample.absent[metric] for metric in (Metric.KERNEL_MS, Metric.GAP_MS)} == {
        Metric.KERNEL_MS: why,
        Metric.GAP_MS: why,
    }
    assert sample.values[Metric.GRAPH_LAUNCHES] == 1


def some_calls_lost(lost: range, *, of: int = 20, has_ids: bool = True) -> ProcessSample:
    """Steps of two kernels each, in some of which their calls are lost; these bear other ids, or none."""
    ran = [
        Op(
            start=100_000 * k + 30 * n,
            end=100_000 * k + 30 * n + 20,
            correlation=has_ids * (1000 + 2 * k + n) if k in lost else 2 * k + n + 1,
        )
        for k in range(of)
        for n in (0, 1)
    ]
    calls = [
        Call(start=100_000 * k + 2 * n, end=100_000 * k + 2 * n + 1, correlation=2 * k + n + 1)
        for k in range(of)
        if k not in lost
        for n in (0, 1)
    ]
    ranges = [Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(of)]
    return only(build(ranges=ranges, calls=calls, kernels=ran))


LACKS_CALLS = "in {} of the last 15 steps GPU operations ran that have no API call in the capture: it lacks calls"


@pytest.mark.parametrize(("lost", "lacking"), [(range(4, 15), 10), (range(10), 5), (range(16, 20), 4)])
def test_where_calls_are_lost_nothing_that_they_tell_is_counted(lost: range, lacking: int) -> None:
    sample = some_calls_lost(lost)
    for metric in (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS):
        assert sample.absent[metric] == LACKS_CALLS.format(lacking)
    assert Metric.KERNEL_MS in sample.values


@pytest.mark.parametrize("lost", [range(0), range(5), range(17, 20)])
def test_what_was_launched_before_the_capture_and_single_lost_calls_leave_the_median(lost: range) -> None:
    assert some_calls_lost(lost).values[Metric.LAUNCHES] == 2


def test_operations_that_never_had_an_id_lack_no_call() -> None:
    assert Metric.LAUNCHES in some_calls_lost(range(4, 15), has_ids=False).values


def test_what_ran_before_the_steps_excuses_no_kernel_that_is_lost() -> None:
    """Nor does what ran since without a call, but for as many."""

    def ahead(*others: Op) -> ProcessSample:
        kernels = [Op(start=3_000_000 * k, end=3_000_000 * (k + 1), correlation=k) for k in range(2, 26)]
        return only(
            build(
                ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(1, 31)],
                calls=[Call(start=100_000 * k + 9, end=100_000 * k + 99, correlation=k) for k in range(1, 31)],
                kernels=[*others, *kernels],
            )
        )

    before, during = (Op(start=at, end=at + 9, correlation=777) for at in (10, 6_000_000))
    assert ahead(before).complaints[0].startswith("of 30 kernel launches in the steps the capture lacks 6 kernels: ")
    assert ahead(during).complaints[0].startswith("of 30 kernel launches in the steps the capture lacks 5 kernels: ")


def test_one_operation_without_a_call_stands_for_one_launch_of_either_kind() -> None:
    """All plain kernels and four graphs are lost, beside nodes of the others and one kernel without a call."""
    starts = {k: 100_000 * k for k in range(1, 31)}
    nodes = [Op(start=3_000_000 * k, end=3_000_000 * (k + 1), correlation=k) for k in range(1, 27)]
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 90_000) for at in starts.values()],
            calls=[
                *(Call(start=at + 9, end=at + 99, name="cudaGraphLaunch", correlation=k) for k, at in starts.items()),
                *(Call(start=at + 109, end=at + 199, correlation=k + 100) for k, at in starts.items()),
            ],
            kernels=[Op(start=6_000_000, end=6_000_009, correlation=777), *nodes],
        )
    )
    told = "of 60 launches of kernels and CUDA graphs in the steps the capture lacks 33 of them: "
    assert sample.complaints[0].startswith(told)


def offloading(*, every: int, lasts_ms: float) -> ProcessSample:
    """Steps of 4 ms, of which every n-th starts a copy that ends behind the steps after it."""
    starts = [4_000_000 * k for k in range(1, 31)]
    copying = starts[::every]
    return only(
        build(
            ranges=[Range(start=at, end=at + 3_999_000) for at in starts],
            calls=[
                *(Call(start=at + 9, end=at + 99, correlation=at) for at in starts),
                *(Call(start=at + 109, end=at + 199, name="cudaMemcpyAsync", correlation=at + 1) for at in copying),
            ],
            kernels=[Op(start=at + 50_000, end=at + 3_900_000, correlation=at) for at in starts],
            copies=[
                Op(start=at + 50_000, end=at + int(lasts_ms * 1e6), kind=CopyKind.D2H, correlation=at + 1)
                for at in copying
            ],
        )
    )


def test_steps_that_are_complete_in_clumps_have_no_period_to_judge() -> None:
    sample = offloading(every=3, lasts_ms=11.0)
    assert sample.values[Metric.STEP_MS] == pytest.approx(1.0, abs=0.01)
    assert sample.complaints == (
        (
            "GPU work of earlier steps goes on beyond 10 of the 30 steps: they are complete in clumps, whose periods "
            "are no step's; wait in a step for what it starts, or mark the whole cycle as one step"
        ),
    )
    assert offloading(every=4, lasts_ms=10.0).complaints != ()
    assert offloading(every=30, lasts_ms=100.0).complaints != ()


def test_a_copy_now_and_then_that_outlasts_its_step_does_not_move_the_median() -> None:
    for sample in (offloading(every=6, lasts_ms=11.0), offloading(every=1, lasts_ms=11.0)):
        assert sample.values[Metric.STEP_MS] == pytest.approx(4.0, abs=0.01)
        assert not any("clumps" in complaint for complaint in sample.complaints)


def test_launches_into_a_graph_that_is_being_recorded_have_no_kernel_to_lose() -> None:
    recorded = draw("""
        range   |---step---| |---step---| |----------step----------| |---step---|
        launch    ^a           ^b           ^c      ^lost              ^d
        call                                    |cudaStreamBeginCapture|
        kernel     |-a-|        |-b-|         |c|                       |-d-|
    """)
    assert only(recorded).complaints == ()


def test_kernels_that_no_call_is_known_of_are_not_missed() -> None:
    whole = draw(AHEAD)
    unlinked = dataclasses.replace(whole.kernels, correlation=np.full_like(whole.kernels.correlation, -1))
    assert only(dataclasses.replace(whole, kernels=unlinked)).complaints == ()


def test_the_first_period_is_dropped_and_the_others_median_taken() -> None:
    # Completions 12, 40, 44, 50, 60: periods 28 (dropped), 4, 6, 10.
    sample = only(build(ranges=[Range(start=a * 10**6, end=b * 10**6) for a, b in _steps(12, 40, 44, 50, 60)]))
    assert sample.periods_ms == (4.0, 6.0, 10.0)
    assert sample.values[Metric.STEP_MS] == 6.0
    assert sample.window_ms == 20.0


def _steps(*ends: int) -> list[tuple[int, int]]:
    return [(end - 3, end) for end in ends]


def test_a_step_is_not_complete_before_the_step_before_it() -> None:
    # Step 1's kernel outlives step 2: both are complete at its end.
    sample = only(
        draw("""
        range   |-step-| |-step-| |-step-|          |-step-|
        launch     ^a       ^b       ^c                ^d
        kernel      |a|      |---------b---------|      |d|
        kernel                        |c|
        """)
    )
    assert sample.periods_ms == (0.0, 59.0 - 49.0)


def test_kernel_finishing_after_its_range_still_counts() -> None:
    sample = only(
        draw("""
        range   |-step-| |-step-| |-step-|
        launch      ^a       ^b       ^c
        kernel        |----a----|
        kernel                   |-b-|  |-c-|
        """)
    )
    assert sample.values[Metric.KERNEL_MS] == (10 + 4 + 4) / 3


def test_a_kernel_belongs_to_the_step_that_launched_it_not_to_the_one_it_ran_in() -> None:
    sample = only(
        draw("""
        range   |-step-| |-step-| |-step-|  |-step-|
        range              |w1-|
        launch      ^a      ^b
        kernel        |a|       |----b----|
        """)
    )
    assert of_range(sample, "w1", Metric.KERNEL_MS) == 10 / 4
    assert of_range(sample, "step", Metric.KERNEL_MS) == 2 / 4


def test_backward_launched_from_another_thread_belongs_to_backward() -> None:
    sample = only(
        draw("""
        range              |---------step--------| |---------step--------| |---------step--------|
        range                |-fwd-| |-backward-|    |-fwd-| |-backward-|    |-fwd-| |-backward-|
        launch               ^a                      ^b                      ^c
        launch thread2                ^x  ^y                  ^z                      ^w
        kernel                |-a-|   |x||-y-|        |-b-|   |z|             |-c-|   |w|
        """)
    )
    assert of_range(sample, "fwd", Metric.KERNEL_MS) == 4.0
    assert of_range(sample, "backward", Metric.KERNEL_MS) == (2 + 4 + 2 + 2) / 3
    assert of_range(sample, "backward", Metric.LAUNCHES) == 4 / 3
    assert sample.values[Metric.LAUNCHES] == 2.0


def test_ranges_of_another_thread_are_not_the_innermost_ones() -> None:
    sample = only(
        draw("""
        range            |--step--| |--step--| |--step--|
        range thread2     |-mine-|   |-mine-|   |-mine-|
        launch thread2      ^a         ^b         ^c
        kernel              |a|        |b|        |c|
        """)
    )
    assert {row.name for row in sample.ranges} == {"step", OUTSIDE_RANGES}
    assert of_range(sample, "step", Metric.KERNEL_MS) == 2.0


def test_overlapping_streams_are_busy_once_and_add_up_in_kernel_time() -> None:
    # Completions at 19, 33, 47; the window 33-47 is busy in 36-43 and 45-47 (b's end at 47).
    timeline = draw("""
        range    |--step---|   |--step---|   |--step---|
        launch   ^a^A          ^b^B          ^c^C
        kernel    |--a--|       |--b--|       |--c--|
        kernel      |--A--|       |--B--|       |--C--|
        """)
    sample = only(timeline)
    assert sample.values[Metric.KERNEL_MS] == 12.0
    assert sample.values[Metric.STEP_MS] == 14.0
    assert sample.values[Metric.GAP_MS] == 14.0 - 8.0


def test_a_zero_length_kernel_neither_fills_nor_makes_a_gap() -> None:
    at = [(0, 10), (20, 30), (40, 50)]
    ranges = [Range(start=a, end=b) for a, b in at]
    kernels = [Op(start=a, end=b) for a, b in at]
    plain = only(build(ranges=ranges, kernels=kernels))
    with_marker = only(build(ranges=ranges, kernels=[*kernels, Op(start=35, end=35, name="empty")]))
    assert plain.values[Metric.GAP_MS] == with_marker.values[Metric.GAP_MS] == 10 / 1e6


def test_the_idle_share_of_a_window_with_a_stall_falls_to_a_step_of_usual_length() -> None:
    # Periods of 10, 10 and 40, of which 4, 4 and 34 are idle: 70 % of 60. A mean would be 14, and longer than a step.
    starts = (0, 10, 20, 30, 70)
    ranges = [Range(start=start, end=start + 5) for start in starts]
    kernels = [Op(start=start + 1, end=start + 7) for start in starts]
    sample = only(build(ranges=ranges, kernels=kernels))
    assert [period * 1e6 for period in sample.periods_ms] == pytest.approx([10, 10, 40])
    assert sample.values[Metric.STEP_MS] * 1e6 == pytest.approx(10)
    assert sample.values[Metric.GAP_MS] * 1e6 == pytest.approx(0.7 * 10)
    assert sum(row.values.get(Metric.GAP_MS, 0) for row in sample.ranges) * 1e6 == pytest.approx(7)


def test_gaps_are_clipped_to_the_window_of_the_kept_periods() -> None:
    # Window: 28 to 44. The long idle time before it, and the kernel after it, do not count.
    sample = only(
        draw("""
        range   |step|         |step|          |step|
        launch   ^a             ^b              ^c
        kernel   |a|            |-b-|           |c|        |-late-|
        """)
    )
    assert sample.window_ms == 16.0
    assert sample.values[Metric.GAP_MS] == 16.0 - 2.0 - 0.0


def test_another_process_on_the_device_keeps_it_busy() -> None:
    sample = only(
        draw("""
        range          |step|         |step|          |step|
        launch          ^a             ^b              ^c
        kernel          |a|            |b|             |c|
        kernel pid7                        |other|
        """)
    )
    assert sample.values[Metric.GAP_MS] == sample.window_ms - 2.0 - 6.0
    assert sample.values[Metric.KERNEL_MS] == 2.0


def test_h2d_is_exposed_where_no_kernel_runs() -> None:
    # Each step copies for 8 ms, of which 4 lie under the kernel.
    sample = only(
        draw("""
        range   |----step----|  |----step----|  |----step----|
        launch   ^h  ^k          ^i  ^l          ^j  ^m
        h2d       |--h----|       |---i---|       |---j---|
        kernel        |--k--|         |--l--|         |--m--|
        """)
    )
    assert sample.values[Metric.H2D_MS] == 8.0
    assert sample.values[Metric.H2D_EXPOSED_MS] == 4.0
    assert sample.values[Metric.H2D_COPIES] == 1.0
    assert sample.values[Metric.H2D_BYTES] == 8000.0


def test_two_copies_at_once_are_exposed_once() -> None:
    sample = only(
        draw("""
        range   |----step----|  |----step----|  |----step----|
        launch   ^h^H            ^i              ^j
        h2d       |---h---|       |---i---|       |---j---|
        h2d         |---H---|
        """)
    )
    assert sample.values[Metric.H2D_MS] == (8 * 4) / 3
    assert sample.values[Metric.H2D_EXPOSED_MS] == (10 + 8 + 8) / 3


def test_memsets_and_copies_are_busy_but_no_kernel_time() -> None:
    sample = only(
        draw("""
        range   |----step----|  |----step----|  |----step----|
        launch   ^a              ^b^s            ^c^d
        kernel    |-a-|           |-b-|           |-c-|
        memset                        |-s-|
        d2h                                           |d|
        """)
    )
    assert sample.values[Metric.KERNEL_MS] == 4.0
    assert sample.values[Metric.GAP_MS] == 16.0 - 4.0 - 2.0
    assert sample.values[Metric.D2H_COPIES] == 0.0  # median of 0, 0, 1
    assert {row.name: (row.count, row.gpu_ms) for row in sample.kernels} == {
        "a": (1 / 3, 4 / 3),
        "b": (1 / 3, 4 / 3),
        "c": (1 / 3, 4 / 3),
        "CUDA memset": (1 / 3, 4 / 3),
        "CUDA memcpy Device-to-Host": (1 / 3, 2 / 3),
    }


def test_pageable_copies_are_those_whose_host_end_is_pageable() -> None:
    sample = only(
        draw("""
        range         |----step----|  |----step----|  |----step----|
        launch         ^p ^q ^r        ^s ^t ^u        ^v ^w ^x
        h2d pageable   |p|             |s|             |v|
        d2h pageable      |q|             |t|             |w|
        h2d                  |r|             |u|             |x|
        """)
    )
    assert sample.values[Metric.PAGEABLE_COPIES] == 2.0
    assert sample.values[Metric.H2D_COPIES] == 2.0
    assert sample.values[Metric.D2H_COPIES] == 1.0


def test_where_the_host_end_is_unknown_pageable_copies_are_absent() -> None:
    sample = only(
        draw("""
        range         |----step----|  |----step----|  |----step----|
        launch         ^p              ^s              ^v
        h2d unknown    |p|             |s|             |v|
        """)
    )
    assert Metric.PAGEABLE_COPIES not in sample.values
    assert sample.absent[Metric.PAGEABLE_COPIES] == "of 3 copies the capture does not say which memory they used"
    assert sample.values[Metric.H2D_COPIES] == 1.0


def test_managed_memory_migrations_are_time_of_the_step_they_begin_in_and_no_count() -> None:
    sample = only(
        draw("""
        range   |----step----|  |----step----|  |----step----|
        launch     ^a              ^b              ^c
        kernel      |a|             |b|             |c|
        uvm             |mig|           |mig|           |mig|
        """)
    )
    assert sample.values[Metric.H2D_MS] == 4.0
    assert sample.values[Metric.H2D_EXPOSED_MS] == 4.0
    assert sample.values[Metric.H2D_COPIES] == 0.0
    assert sample.values[Metric.H2D_BYTES] == 0.0
    assert sample.remarks == ()


GRAPH_MODE = """
        range   |----step----|  |----step----|  |----step----|
        launch     ^g              ^h              ^i
        graph       |---g---|       |---h---|       |---i---|
        """
NODE_MODE = """
        range   |----step----|  |----step----|  |----step----|
        launch     ^g              ^h              ^i
        node        |-g-|-g-|       |-h-|-h-|       |-i-|-i-|
        """


def test_a_cuda_graph_is_equally_busy_traced_whole_and_by_node() -> None:
    whole, by_node = only(draw(GRAPH_MODE)), only(draw(NODE_MODE))
    assert whole.values == by_node.values
    assert whole.values[Metric.KERNEL_MS] == 8.0
    assert whole.values[Metric.GAP_MS] == 8.0
    assert whole.values[Metric.GRAPH_LAUNCHES] == 1.0
    assert whole.values[Metric.LAUNCHES] == 0.0
    assert [row.name for row in whole.kernels] == ["CUDA graph"]


def test_nccl_time_is_kept_apart_and_exposed_where_nothing_else_runs() -> None:
    # NCCL 8 ms a step, of which 2 under the kernel and 2 under a copy.
    sample = only(
        draw("""
        range   |------step------|  |------step------|  |------step------|
        launch   ^k^n^h              ^l^o^i              ^m^p^j
        kernel    |-k-|               |-l-|               |-m-|
        nccl        |---n---|           |---o---|           |---p---|
        h2d               |-h-|               |-i-|               |-j-|
        """)
    )
    assert sample.values[Metric.KERNEL_MS] == 4.0
    assert sample.values[Metric.NCCL_MS] == 8.0
    assert sample.values[Metric.NCCL_EXPOSED_MS] == 4.0
    assert sample.values[Metric.H2D_EXPOSED_MS] == 2.0  # NCCL's kernels hide copies, too
    assert of_range(sample, "step", Metric.NCCL_MS) == 8.0


def test_other_memory_operations_are_exposed_where_no_kernel_runs() -> None:
    # Each step copies back for 8 ms and sets memory for 4, of which 4 and 2 lie under the kernel.
    sample = only(
        draw("""
        range   |------step-----|  |------step-----|  |------step-----|
        launch   ^d^k^s             ^e^l^t             ^f^m^u
        d2h       |---d---|          |---e---|          |---f---|
        kernel        |--k--|            |--l--|            |--m--|
        memset            |-s-|              |-t-|              |-u-|
        """)
    )
    assert sample.values[Metric.MEM_EXPOSED_MS] == 6.0
    assert sample.values[Metric.H2D_EXPOSED_MS] == 0.0


def test_without_nccl_kernels_its_metrics_are_absent() -> None:
    sample = only(draw(NODE_MODE))
    assert sample.absent == {Metric.NCCL_MS: "no NCCL kernels", Metric.NCCL_EXPOSED_MS: "no NCCL kernels"}


def test_gaps_are_taken_per_device_and_summed_over_the_process() -> None:
    timeline = draw("""
        range         |----step----|  |----step----|  |----step----|
        launch         ^a^A            ^b^B            ^c^C
        kernel gpu0     |-a-|           |-b-|           |-c-|
        kernel gpu1       |---A---|       |---B---|       |---C---|
        kernel gpu2 pid7  |-----------------------------------z-|
        """)
    sample = only(timeline)
    assert [(one.device, one.values[Metric.GAP_MS], one.values[Metric.KERNEL_MS]) for one in sample.devices] == [
        (0, 12.0, 4.0),
        (1, 8.0, 8.0),
    ]
    assert sample.values[Metric.GAP_MS] == 20.0
    assert sample.values[Metric.KERNEL_MS] == 12.0


def test_each_process_has_its_own_steps_calls_and_devices() -> None:
    # Both processes use the same correlation ids, as they do in real captures.
    timeline = build(
        ranges=[
            Range(start=t, end=t + 50, pid=p) for p, first in ((1, 0), (2, 30)) for t in range(first, first + 300, 100)
        ],
        calls=[
            Call(start=t + 5, end=t + 6, pid=p, correlation=i)
            for p, first in ((1, 0), (2, 30))
            for i, t in enumerate(range(first, first + 300, 100))
        ],
        kernels=[
            Op(start=t + 10, end=t + 10 + 10 * p, pid=p, device=p - 1, correlation=i)
            for p, first in ((1, 0), (2, 30))
            for i, t in enumerate(range(first, first + 300, 100))
        ],
        gpus=[CapturedGpu(device=0, name="NVIDIA H200", uuid=None)],
    )
    one, two = measure(timeline, step="step")
    assert (one.pid, two.pid) == (1, 2)
    assert (one.values[Metric.KERNEL_MS], two.values[Metric.KERNEL_MS]) == (10 / 1e6, 20 / 1e6)
    assert (one.values[Metric.GAP_MS], two.values[Metric.GAP_MS]) == (90 / 1e6, 80 / 1e6)
    assert one.values[Metric.LAUNCHES] == two.values[Metric.LAUNCHES] == 1.0
    assert [device.name for device in one.devices] == ["NVIDIA H200"]
    assert [device.name for device in two.devices] == [None]


def test_syncs_are_the_calls_that_wait_and_belong_to_the_step_that_holds_their_start() -> None:
    sample = only(
        draw("""
        range          |-------------step--------------| |-------------step--------------|
        call            |cudaStreamSynchronize_v3020|  |cudaDeviceSynchronize_v3020|
        call thread2    |cuStreamSynchronize_ptsz|        |cudaEventSynchronize_v3020|
        call thread3    |cudaStreamWaitEvent_v3020|       |cudaEventQuery_v3020|
        """)
    )
    assert of_range(sample, "step", Metric.SYNCS) == 3 / 2
    assert of_range(sample, OUTSIDE_RANGES, Metric.SYNCS) == 1 / 2
    assert sample.values[Metric.SYNCS] == 2.0  # cudaDeviceSynchronize begins between steps: it counts to the first


def test_a_driver_launch_inside_a_runtime_launch_is_one_launch() -> None:
    def step(start: int) -> list[Call]:
        return [
            Call(start=start + 10, end=start + 20, name="cudaLaunchKernelExC_v11060", correlation=start),
            Call(start=start + 12, end=start + 18, name="cuLaunchKernelEx", correlation=start),
            Call(start=start + 12, end=start + 18, name="cuLaunchKernel", thread=2, correlation=start + 1),
            Call(start=start + 30, end=start + 35, name="cuLaunchKernel_ptsz", correlation=start + 2),
        ]

    sample = only(
        build(
            ranges=[Range(start=s, end=s + 50) for s in (0, 100, 200)],
            calls=[call for s in (0, 100, 200) for call in step(s)],
        )
    )
    assert sample.values[Metric.LAUNCHES] == 3.0


def test_counts_are_medians_over_steps_and_clocks_are_means() -> None:
    # A slip in every third step shows in kernel_ms, not in launches.
    sample = only(
        draw("""
        range   |----step----|  |----step----|  |----step----|
        launch     ^a              ^b              ^c^d^e
        kernel      |a|             |b|             |c|d|e|
        """)
    )
    assert sample.values[Metric.LAUNCHES] == 1.0
    assert sample.values[Metric.KERNEL_MS] == 10 / 3


def test_operations_without_a_call_count_where_they_ran_and_it_is_said() -> None:
    sample = only(
        draw("""
        range   |----step----|  |----step----|  |----step----|
        launch                     ^b
        kernel      |a|             |b|             |c|
        """)
    )
    assert sample.values[Metric.KERNEL_MS] == 2.0
    assert sample.remarks == ("2 GPU operations have no API call in the capture: they count where they ran",)


def test_without_any_call_the_counts_of_calls_are_absent() -> None:
    picture = """
        range   |----step----|  |----step----|  |----step----|
        kernel      |a|             |b|             |c|
        """
    sample = only(draw(picture))
    assert {
        metric: sample.absent[metric] for metric in (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS)
    } == dict.fromkeys((Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS), "the capture holds no CUDA API calls")
    assert only(draw(picture, missing={"calls": "no CUPTI_ACTIVITY_KIND_RUNTIME"})).absent[Metric.SYNCS] == (
        "no CUPTI_ACTIVITY_KIND_RUNTIME"
    )
    assert sample.remarks == ("3 GPU operations have no API call in the capture: they count where they ran",)


def test_what_is_launched_between_two_steps_counts_to_the_first_and_that_is_said() -> None:
    sample = only(
        draw("""
        range   |----step----|      |----step----|      |----step----|
        launch     ^a            ^x    ^b            ^y    ^c             ^z
        kernel      |a|           |x|   |b|           |y|   |c|            |z|
        """)
    )
    # Behind the last step nothing is known to be the loop's.
    assert sample.values[Metric.KERNEL_MS] == pytest.approx((3 * 2.0 + 2 * 2.0) / 3)
    assert sample.values[Metric.LAUNCHES] == 2.0
    assert of_range(sample, OUTSIDE_RANGES, Metric.KERNEL_MS) == pytest.approx(2 * 2.0 / 3)
    assert sample.values[Metric.STEP_MS] == 20.0
    assert sample.values[Metric.GAP_MS] == 20.0 - 4.0
    assert sample.remarks == (
        "a step takes 20 ms, of which its range is 13 ms: the rest lies between",
        BETWEEN,
    )


def test_it_is_said_when_the_cpu_runs_ahead() -> None:
    sample = only(
        draw("""
        range   |step| |step| |step|
        launch    ^a     ^b     ^c
        kernel     |-----a-----|-----b-----|-----c-----|
        """)
    )
    assert sample.nvtx_step_ms == 5.0
    assert sample.remarks == ("the CPU runs ahead of the GPU: the step range lasts 5 ms, a step takes 12 ms",)


def test_without_gpu_operations_the_step_is_cpu_time_and_everything_else_absent() -> None:
    sample = only(
        draw("range |--step--| |--step--|   |--step--|", missing={"kernels": "nsys collected no CUDA events"})
    )
    assert sample.values == {Metric.STEP_MS: 13.0}
    gpu = [m for m in METRICS if m not in (Metric.STEP_MS, Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS)]
    assert {metric: sample.absent[metric] for metric in gpu} == dict.fromkeys(gpu, "nsys collected no CUDA events")
    assert sample.remarks == ("no GPU operation was launched in the steps: step_ms is CPU time only",)
    assert sample.devices == ()


EMPTY = (
    "a step takes 0.015 ms, about what marking it takes, and launches nothing on a GPU: the work is done elsewhere; "
    "do it in the body of the loop over the steps"
)


@pytest.mark.parametrize(("period_us", "says"), [(15, (EMPTY,)), (20, ())])
def test_steps_as_short_as_their_marking_complain(period_us: int, says: tuple[str, ...]) -> None:
    at = [period_us * 1000 * index for index in range(9)]
    assert only(build(ranges=[Range(start=one, end=one + 2000) for one in at])).complaints == says


def test_steps_may_be_short_where_they_launch_work() -> None:
    at = [15_000 * index for index in range(9)]
    ranges = [Range(start=one, end=one + 2000) for one in at]
    kernels = [Op(start=one + 500, end=one + 900) for one in at]
    assert only(build(ranges=ranges, kernels=kernels)).complaints == ()


def test_a_process_without_gpu_operations_of_its_own_measures_none() -> None:
    sample = only(draw("range |--step--| |--step--|   |--step--|\nkernel pid7 |--z--|"))
    assert sample.absent[Metric.KERNEL_MS] == "process 100 launched no GPU operation in its steps"
    assert sample.absent[Metric.GAP_MS] == "process 100 launched no GPU operation in its steps"


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_steps_have_no_period_and_no_gap(count: int) -> None:
    sample = only(
        build(
            ranges=[Range(start=100 * n, end=100 * n + 50) for n in range(count)],
            kernels=[Op(start=100 * n + 10, end=100 * n + 20) for n in range(count)],
        )
    )
    assert sample.steps == count
    assert sample.absent[Metric.STEP_MS] == f"needs 3 steps, the capture holds {count}"
    assert sample.absent[Metric.GAP_MS] == f"needs 3 steps, the capture holds {count}"
    assert sample.values[Metric.KERNEL_MS] == 10 / 1e6
    assert sample.window_ms == 0.0
    assert sample.periods_ms == ()


def test_every_metric_is_either_measured_or_absent_with_a_reason() -> None:
    for picture in (GRAPH_MODE, NODE_MODE, "range |--step--| |--step--|", "range |--step--|\nkernel |--k--|"):
        for step in ("step", None):
            sample = only(draw(picture), step)
            assert set(sample.values) | set(sample.absent) == set(METRICS)
            assert not set(sample.values) & set(sample.absent)
            assert all(sample.absent.values())


def test_h2d_share_of_memory_time_is_over_the_whole_capture() -> None:
    sample = only(
        draw("""
        h2d      |--h--|
        memset          |-s-|
        range                 |step|
        """)
    )
    assert sample.memory_share_h2d == 6 / 10
    assert only(draw("range |step|")).memory_share_h2d is None


def test_without_a_step_the_whole_window_is_measured_in_totals() -> None:
    # First call at 9, last operation ends at 41: 32 ms, busy for 16.
    sample = only(
        draw("""
        range    |-outer---------------------|
        launch   ^a    ^b         ^c
        kernel     |--a--|
        h2d           |--b--|
        kernel                      |--c--|
        """),
        None,
    )
    assert sample.steps == 0
    assert sample.window_ms == 25.0
    assert sample.values[Metric.KERNEL_MS] == 12.0
    assert sample.values[Metric.H2D_MS] == 6.0
    assert sample.values[Metric.H2D_EXPOSED_MS] == 3.0
    assert sample.values[Metric.GAP_MS] == 25.0 - 9.0 - 6.0
    assert sample.values[Metric.LAUNCHES] == 2.0
    assert sample.absent[Metric.STEP_MS] == "the captured window was measured as one, without steps"
    assert sample.nvtx_step_ms is None
    assert sum(row.values[Metric.KERNEL_MS] for row in sample.ranges) == 12.0
    assert sum(row.values[Metric.GAP_MS] for row in sample.ranges) == 10.0


def test_a_window_without_any_range_is_measured_too() -> None:
    sample = only(draw("launch ^a\nkernel  |--a--|"), None)
    assert sample.values[Metric.KERNEL_MS] == 6.0
    assert [row.name for row in sample.ranges] == [OUTSIDE_RANGES]


def test_a_process_without_gpu_operations_has_a_window_and_says_why_it_has_no_more() -> None:
    other, own = measure(draw("range |--epoch--|\nkernel pid7 |--z|"), step=None)
    assert other.values[Metric.KERNEL_MS] == 4.0
    assert own.absent[Metric.GAP_MS] == "process 100 launched no GPU operation"


def test_names_are_found_under_sparse_and_negative_keys() -> None:
    timeline = draw("""
        range   |----step----|  |----step----|  |----step----|
        launch     ^a              ^b              ^c
        kernel      |a|             |b|             |c|
        """)
    keys = dict(zip(sorted(timeline.names), (-1, 5, 2_000_000_000, 7), strict=True))
    kernels, calls = timeline.kernels, timeline.calls

    def renamed(old: SmallInts) -> SmallInts:
        return np.array([keys[key] for key in old.tolist()], np.int32)

    sparse = dataclasses.replace(
        timeline,
        names={keys[key]: name for key, name in timeline.names.items()},
        kernels=dataclasses.replace(kernels, name=renamed(kernels.name)),
        calls=dataclasses.replace(calls, name=renamed(calls.name)),
    )
    assert only(sparse) == only(timeline)


def test_an_unnamed_kernel_is_told_by_its_key() -> None:
    timeline = dataclasses.replace(draw(NODE_MODE), names={})
    assert {row.name for row in only(timeline).kernels} == {"(name 1)", "(name 2)", "(name 3)"}


def test_a_window_is_what_steps_make_of_their_first_kept_completion_to_their_last() -> None:
    # window_ms is the sum of the kept periods, and gap_ms the idle share of it, of a step of median length.
    sample = only(
        draw("""
        range   |---step---|  |---step---|     |---step---|   |---step---|
        launch     ^a            ^b               ^c             ^d
        kernel      |-a-|         |-b-|            |-c-|          |-d-|
        """)
    )
    assert sample.window_ms == sum(sample.periods_ms) == 32.0
    assert sample.values[Metric.GAP_MS] == (32.0 - 8.0) / 2


def test_processes_that_share_a_device_expose_only_what_neither_hides() -> None:
    # The other process's compute kernel hides half of the first's NCCL kernel; NCCL hides no NCCL.
    one, two = measure(
        draw("""
        range pid1   |----step----|  |----step----|  |----step----|
        range pid2   |----step----|  |----step----|  |----step----|
        launch pid1   ^n              ^o              ^p
        nccl pid1      |---n---|       |---o---|       |---p---|
        kernel pid2    |-k-|           |-l-|           |-m-|
        nccl pid2          |-x-|           |-y-|           |-z-|
        """),
        step="step",
    )
    assert one.values[Metric.NCCL_MS] == 8.0
    assert one.values[Metric.NCCL_EXPOSED_MS] == two.values[Metric.NCCL_EXPOSED_MS] == 4.0
    assert one.values[Metric.GAP_MS] == two.values[Metric.GAP_MS]
    assert two.absent == dict.fromkeys(
        (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS), "the capture holds no CUDA API calls of process 2"
    )


def test_a_process_that_left_no_trace_has_no_window() -> None:
    timeline = draw("kernel |--k--|")
    (sample,) = measure(dataclasses.replace(timeline, processes=(*timeline.processes, 999)), step=None)
    assert sample.pid == 100


def test_ranges_without_a_gpu_are_per_step_too() -> None:
    ranges = [Range(start=1000 * k, end=1000 * k + 900, name="step") for k in range(4)]
    (sample,) = measure(build(ranges=ranges), step="step", steps=4)
    assert [(row.name, row.count, row.cpu_ms) for row in sample.ranges] == [("step", 1.0, 0.0009)]


SYNCHRONOUS = """
    range   |---step---|  |---step---|  |---step---|  |---step---|
    launch   ^a            ^b            ^c            ^d
    kernel    |--a--|       |--b--|       |--c--|       |--d--|
"""


def test_times_before_the_captures_zero_are_times_like_any_other() -> None:
    late, early = draw(SYNCHRONOUS), shifted(draw(SYNCHRONOUS), -(10**12))
    assert only(early).values == only(late).values
    assert only(early).periods_ms == (14.0, 14.0)


def test_without_calls_steps_that_ended_before_their_work_ran_have_no_gpu_metrics() -> None:
    # Three of four kernels ran after the last range: nothing says which step launched which.
    timeline = build(
        ranges=[Range(start=at, end=at + 10**6) for at in range(0, 4 * 10**6, 10**6)],
        kernels=[Op(start=at, end=at + 9 * 10**6) for at in range(10**6, 37 * 10**6, 9 * 10**6)],
        missing={"calls": "no calls were recorded"},
    )
    sample = only(timeline)
    why = (
        "3 GPU operations ran outside the steps, and the capture does not say which step launched them: "
        "it holds no API call with their correlation id"
    )
    assert dict(sample.values) == {}
    assert sample.absent[Metric.STEP_MS] == sample.absent[Metric.KERNEL_MS] == sample.absent[Metric.GAP_MS] == why
    assert sample.absent[Metric.LAUNCHES] == "no calls were recorded"
    assert (sample.periods_ms, sample.kernels, sample.window_ms) == ((), (), 0.0)
    assert only(timeline, step=None).values[Metric.KERNEL_MS] == 36.0


def test_without_calls_work_that_ran_in_its_step_is_measured() -> None:
    linked, lost = draw(SYNCHRONOUS), draw(SYNCHRONOUS)
    lost = dataclasses.replace(lost, calls=build().calls, missing={"calls": "no calls were recorded"})
    shared = (Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS)
    assert [only(lost).values[metric] for metric in shared] == [only(linked).values[metric] for metric in shared]
    assert "4 GPU operations have no API call in the capture: they count where they ran" in only(lost).remarks
    assert only(lost).absent[Metric.LAUNCHES] == "no calls were recorded"


def test_kernels_that_were_launched_but_not_recorded_are_absent_not_zero() -> None:
    sample = only(
        draw("""
        range   |---step---|  |---step---|  |---step---|  |---step---|
        launch   ^a            ^b            ^c            ^d
            launch       ^A            ^B            ^C            ^D
        h2d       |a|           |b|           |c|           |d|
        """)
    )
    why = "process 100 launched 4 kernels, the capture holds none"
    lost = {Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS, *EXPOSED}
    assert sample.absent == dict.fromkeys(sorted(lost, key=list(METRICS).index), why)
    assert sample.values[Metric.H2D_MS] == 2.0
    assert sample.values[Metric.LAUNCHES] == 1.0


def test_kernels_of_another_process_are_not_said_to_be_none() -> None:
    times = range(1000, 5000, 1000)
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 900) for at in times],
            calls=[Call(start=at, end=at + 9) for at in times],
            copies=[Op(start=at + 100, end=at + 200) for at in times],
            kernels=[Op(start=at + 100, end=at + 200, pid=200) for at in times],
        )
    )
    why = "process 100 launched 4 kernels, the capture holds none of them"
    assert sample.absent[Metric.KERNEL_MS] == sample.absent[Metric.GAP_MS] == why


def test_calls_and_kernels_without_names_are_not_counted_as_none() -> None:
    timeline = draw(SYNCHRONOUS, missing={"names of calls": "calls lack names", "names of kernels": "kernels too"})
    sample = only(timeline)
    assert sample.absent == {
        Metric.NCCL_MS: "kernels too",
        Metric.NCCL_EXPOSED_MS: "kernels too",
        Metric.LAUNCHES: "calls lack names",
        Metric.GRAPH_LAUNCHES: "calls lack names",
        Metric.SYNCS: "calls lack names",
    }


def test_an_operation_that_was_not_timed_does_not_stretch_the_window() -> None:
    timeline = build(
        kernels=[Op(start=0, end=0, correlation=1), Op(start=1010, end=1090, correlation=2)],
        calls=[Call(start=1000, end=1001, correlation=1), Call(start=1002, end=1003, correlation=2)],
    )
    sample = only(timeline, step=None)
    assert sample.window_ms == 90 / 1e6
    assert sample.remarks == ("1 GPU operations have no times in the capture: they count as 0 ms",)


COPIED = """
    range   |---step----|  |---step----|  |---step----|  |---step----|
    launch   ^a   ^b        ^c   ^d        ^e   ^f        ^g   ^h
    h2d       |a|            |c|            |e|            |g|
    nccl            |b|            |d|            |f|            |h|
    launch             ^i             ^j             ^k             ^l
    kernel              |i|            |j|            |k|            |l|
"""


def untimed(timeline: Timeline, table: str, rows: Flags | None = None, *, at_zero: bool = True) -> Timeline:
    """The same with all rows of a table, or these, as long as nothing."""
    ops = getattr(timeline, table)
    chosen = np.ones(len(ops.start), np.bool_) if rows is None else rows
    start = np.where(chosen, 0, ops.start) if at_zero else ops.start
    changed = dataclasses.replace(ops, start=start, end=np.where(chosen, start, ops.end))
    return dataclasses.replace(timeline, **{table: changed})


def of_nccl(timeline: Timeline) -> Flags:
    return np.array(["nccl" in timeline.names[key] for key in timeline.kernels.name.tolist()], np.bool_)


@pytest.mark.parametrize("at_zero", [True, False])
def test_kernels_of_which_none_was_timed_are_absent_not_zero(at_zero: bool) -> None:
    sample = only(untimed(draw(SYNCHRONOUS), "kernels", at_zero=at_zero))
    why = "the capture does not say how long any of the 4 kernels in the steps took"
    assert sample.absent == {
        Metric.KERNEL_MS: why,
        Metric.GAP_MS: why,
        Metric.H2D_EXPOSED_MS: why,
        Metric.MEM_EXPOSED_MS: why,
        Metric.NCCL_MS: "no NCCL kernels",
        Metric.NCCL_EXPOSED_MS: "no NCCL kernels",
    }
    assert sample.values[Metric.LAUNCHES] == 1.0
    told = ("4 GPU operations have no times in the capture",) if at_zero else ()
    assert tuple(remark for remark in sample.remarks if "no times" in remark) == told
    (device,) = sample.devices
    assert device.values.keys() == {Metric.H2D_MS}


def test_a_window_whose_kernels_were_not_timed_has_no_gap() -> None:
    sample = only(untimed(draw(SYNCHRONOUS), "kernels"), step=None)
    why = "the capture does not say how long any of the 4 kernels took"
    assert sample.absent[Metric.KERNEL_MS] == sample.absent[Metric.GAP_MS] == why


def test_one_timed_kernel_is_enough_to_measure_the_kernels() -> None:
    timeline = draw(SYNCHRONOUS)
    sample = only(untimed(timeline, "kernels", np.arange(4) > 0))
    assert sample.values[Metric.KERNEL_MS] == 6.0 / 4
    assert "3 GPU operations have no times in the capture: they count as 0 ms" in sample.remarks


def test_nccl_kernels_of_which_none_was_timed_leave_the_others_measured() -> None:
    timeline = draw(COPIED)
    sample = only(untimed(timeline, "kernels", of_nccl(timeline)))
    why = "the capture does not say how long any of the 4 NCCL kernels in the steps took"
    lost = (Metric.GAP_MS, Metric.NCCL_MS, *EXPOSED)
    assert sample.absent == dict.fromkeys(lost, why)
    assert sample.values[Metric.KERNEL_MS] == only(timeline).values[Metric.KERNEL_MS]


def test_nccl_is_measured_where_no_other_kernel_was_timed() -> None:
    timeline = draw(COPIED)
    sample = only(untimed(timeline, "kernels", ~of_nccl(timeline)))
    why = "the capture does not say how long any of the 4 kernels in the steps took"
    lost = (Metric.KERNEL_MS, Metric.GAP_MS, *EXPOSED)
    assert sample.absent == dict.fromkeys(lost, why)
    assert sample.values[Metric.NCCL_MS] == only(timeline).values[Metric.NCCL_MS]


def test_graphs_of_which_none_was_timed_are_told_as_such() -> None:
    timeline = build(
        ranges=[Range(start=1000 * k, end=1000 * k + 900) for k in range(1, 5)],
        calls=[Call(start=1000 * k, end=1000 * k + 9, name="cudaGraphLaunch", correlation=k) for k in range(1, 5)],
        graphs=[Op(start=0, end=0, correlation=k) for k in range(1, 5)],
    )
    why = "the capture does not say how long any of the 4 kernels and CUDA graphs in the steps took"
    assert only(timeline).absent[Metric.GAP_MS] == only(timeline).absent[Metric.KERNEL_MS] == why


def test_copies_of_which_none_was_timed_are_absent_not_zero() -> None:
    timeline = draw(COPIED)
    sample = only(untimed(timeline, "copies"))
    why = "the capture does not say how long any of the 4 host-to-device copies in the steps took"
    assert sample.absent == {Metric.H2D_MS: why, Metric.H2D_EXPOSED_MS: why}
    assert sample.values[Metric.H2D_COPIES] == 1.0
    assert sample.values[Metric.KERNEL_MS] == only(timeline).values[Metric.KERNEL_MS]


def test_there_is_no_gap_between_operations_of_which_none_was_timed() -> None:
    timeline = build(
        ranges=[Range(start=1000 * k, end=1000 * k + 900) for k in range(1, 5)],
        calls=[Call(start=1000 * k, end=1000 * k + 9, name="cudaMemcpyAsync", correlation=k) for k in range(1, 5)],
        copies=[Op(start=0, end=0, correlation=k) for k in range(1, 5)],
    )
    why = "the capture does not say how long any of the 4 GPU operations in the steps took"
    assert only(timeline).absent[Metric.GAP_MS] == why


def test_a_window_with_no_range_but_an_open_one_is_measured() -> None:
    timeline = build(kernels=[Op(start=10, end=90)], ranges=[Range(start=20, end=20, closed=False)])
    assert only(timeline, step=None).values[Metric.KERNEL_MS] == 80 / 1e6
    with pytest.raises(StepsNotFound):
        measure(timeline, step="step")


# What other devices, processes and lost records do


def on_two(every: int) -> ProcessSample:
    """Forty steps of 100 ns with 20 ns of work on a GPU, and as much on another in each so many of them."""
    second = range(0, 40, every)
    return only(
        build(
            ranges=[Range(start=t * 100, end=t * 100 + 90) for t in range(40)],
            calls=[Call(start=t * 100 + 5, end=t * 100 + 6, correlation=t + 1) for t in range(40)]
            + [Call(start=t * 100 + 7, end=t * 100 + 8, correlation=t + 101) for t in second],
            kernels=[Op(start=t * 100 + 10, end=t * 100 + 30, correlation=t + 1) for t in range(40)]
            + [Op(start=t * 100 + 10, end=t * 100 + 30, correlation=t + 101, device=1) for t in second],
        )
    )


def test_a_device_that_next_to_no_step_uses_has_no_idle_time_that_counts() -> None:
    stray, used = on_two(20), on_two(10)
    assert stray.values[Metric.GAP_MS] * 1e6 == pytest.approx(80)
    assert [one.device for one in stray.devices if Metric.GAP_MS in one.values] == [0]
    assert stray.values[Metric.KERNEL_MS] * 1e6 == pytest.approx(21)
    assert "GPU 1 ran something in next to none of the steps: no idle time is counted there" in stray.remarks
    assert used.values[Metric.GAP_MS] * 1e6 > 170
    assert not any("no idle time" in told for told in used.remarks)


def test_work_of_a_process_without_steps_on_the_steps_gpu_is_a_complaint() -> None:
    lanes = """
        range         |----step----|  |----step----|  |----step----|
        launch         ^a              ^b              ^c
        kernel gpu0     |-a-|           |-b-|           |-c-|
        """
    alone = only(draw(lanes))
    beside = only(draw(lanes + "kernel gpu0 pid7                    |----z----|\n"))
    elsewhere = only(draw(lanes + "kernel gpu1 pid7                    |----z----|\n"))
    assert alone.complaints == elsewhere.complaints == ()
    (told,) = beside.complaints
    assert told.startswith("process 7 of the same workload, in which no step is marked, kept GPU 0 busy for ")
    assert beside.values[Metric.KERNEL_MS] == alone.values[Metric.KERNEL_MS]


def test_processes_whose_steps_follow_one_another_are_no_ranks() -> None:
    after = measure(
        build(ranges=[Range(start=t, end=t + 50, pid=p) for p in (1, 2) for t in range(p * 1000, p * 1000 + 300, 100)]),
        step="step",
    )
    assert [one.complaints[0] for one in after] == [
        f"the steps of processes {own} and {other} are one after the other: they are no ranks of one job; let `step` "
        "match those of one of them"
        for own, other in ((1, 2), (2, 1))
    ]
    beside = measure(
        build(ranges=[Range(start=t, end=t + 50, pid=p) for p in (1, 2) for t in range(p * 100, p * 100 + 300, 100)]),
        step="step",
    )
    assert not any("one after the other" in told for one in beside for told in one.complaints)


def copied(
    held: int,
    *,
    calls: int = 40,
    name: str = "cudaMemcpyAsync_v3020",
    empty: Sequence[int] = (),
    recording: int | None = None,
) -> Timeline:
    """Steps with one copying call each, of which the capture holds the copies of the first ones.

    In each step so many calls more are `empty`: they leave no copy. The step `recording` records a CUDA graph.
    """
    spare = [(t * 100 + 10 + 2 * n, 2001 + 100 * t + n) for t, number in enumerate(empty) for n in range(number)]
    return build(
        ranges=[Range(start=t * 100, end=t * 100 + 90) for t in range(calls)],
        calls=[
            *(Call(start=t * 100 + 5, end=t * 100 + 6, correlation=t + 1, name=name) for t in range(calls)),
            *(Call(start=t * 100 + 8, end=t * 100 + 9, correlation=t + 1001) for t in range(calls)),
            *(Call(start=at, end=at + 1, correlation=one, name=name) for at, one in spare),
            *(
                Call(start=t * 100 + 1, end=t * 100 + 2, name="cudaStreamBeginCapture_v10000")
                for t in range(calls)
                if t == recording
            ),
        ],
        copies=[Op(start=t * 100 + 10, end=t * 100 + 30, correlation=t + 1) for t in range(held)],
        kernels=[Op(start=t * 100 + 40, end=t * 100 + 60, correlation=t + 1001) for t in range(calls)],
    )


def test_a_capture_that_lacks_copies_is_no_run() -> None:
    assert only(copied(40)).complaints == only(copied(38)).complaints == ()
    (told,) = only(copied(30)).complaints
    assert told.startswith("of 40 calls that copy in the steps the capture lacks the copies of 10: ")


def test_where_the_capture_holds_no_copy_at_all_none_is_counted() -> None:
    sample = only(copied(0))
    assert sample.complaints == ()
    why = "the steps make 40 calls that copy, the capture holds no copy"
    assert sample.absent[Metric.H2D_MS] == sample.absent[Metric.PAGEABLE_COPIES] == why
    assert {Metric.KERNEL_MS, Metric.GAP_MS} <= sample.values.keys()


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param([1] * 40, id="one a step"),
        pytest.param([*[1] * 39, 0], id="one a step but in the last"),
        pytest.param([0, *[1] * 39], id="one a step but in the first"),
        pytest.param([2, 0, 0, 0] * 10, id="some in every fourth"),
        pytest.param([*[0] * 39, 9], id="many in the last"),
    ],
)
def test_calls_that_copy_nothing_are_none_whose_copies_were_lost(empty: Sequence[int]) -> None:
    assert only(copied(40, empty=empty)).complaints == ()
    (told,) = only(copied(30, empty=empty)).complaints
    assert told.startswith(f"of {40 + sum(empty)} calls that copy in the steps the capture lacks the copies of ")


def test_a_step_that_records_a_graph_proves_no_copy_lost() -> None:
    assert only(copied(40, empty=[1] * 40, recording=3)).complaints == ()


def test_copies_that_one_of_two_streams_had_not_ended_are_lost() -> None:
    whole = copied(40, empty=[1] * 40)
    second = [Op(start=t * 100 + 60, end=t * 100 + 70, correlation=2001 + 100 * t) for t in range(30)]
    copies = [Op(start=t * 100 + 10, end=t * 100 + 30, correlation=t + 1) for t in range(40)]
    (told,) = only(dataclasses.replace(whole, copies=build(copies=[*copies, *second]).copies)).complaints
    assert told.startswith("of 80 calls that copy in the steps the capture lacks the copies of 10: ")


def test_single_calls_that_copy_nothing_make_no_metric_absent() -> None:
    timeline = copied(0)
    few = dataclasses.replace(
        timeline,
        calls=dataclasses.replace(
            timeline.calls,
            **{field.name: getattr(timeline.calls, field.name)[39:] for field in dataclasses.fields(timeline.calls)},
        ),
    )
    assert Metric.H2D_MS in only(few).values


def test_calls_that_never_leave_a_copy_are_not_asked_after() -> None:
    timeline = copied(40)
    with_batch = copied(0, name="cudaMemcpyBatchAsync_v12080")
    assert only(timeline).complaints == only(with_batch).complaints == ()
    assert Metric.H2D_MS in only(with_batch).values


def test_kernels_without_times_are_a_complaint_unless_they_are_all() -> None:
    def untimed(number: int, of: int = 40) -> ProcessSample:
        return only(
            build(
                ranges=[Range(start=t * 100, end=t * 100 + 90) for t in range(1, of + 1)],
                calls=[Call(start=t * 100 + 8, end=t * 100 + 9, correlation=t) for t in range(1, of + 1)],
                kernels=[
                    Op(start=0, end=0, correlation=t)
                    if t <= number
                    else Op(start=t * 100 + 40, end=t * 100 + 60, correlation=t)
                    for t in range(1, of + 1)
                ],
            )
        )

    assert untimed(0).complaints == untimed(1, of=200).complaints == untimed(2, of=400).complaints == ()
    assert any("have no times" in told for told in untimed(3, of=600).complaints)
    assert "of 40 GPU operations 2 have no times in the capture, and would count as 0 ms: run it again" in (
        untimed(2).complaints
    )
    assert Metric.KERNEL_MS in untimed(40).absent
    assert not any("have no times" in told for told in untimed(40).complaints)


def test_a_sample_tells_the_names_of_its_steps() -> None:
    named = [
        "Batch 1 of 3f2b9c1, loss=-0.12",
        "Batch 20 of 6f1c2a3b-dead-4bee-8fad-facefeedbeef, loss=1e-05",
        "eval [3, 4]",
        "eval [3, 4, 5]",
    ]
    ranges = [Range(start=t * 100, end=t * 100 + 50, name=name) for t, name in enumerate(named)]
    (sample,) = measure(build(ranges=ranges), step=r".*", is_pattern=True, steps=4)
    assert sample.step_names == {"Batch # of #, loss=#": 0.5, "eval [#]": 0.5}
    assert only(build(ranges=ranges), step=None).step_names == {}


def test_replicas_that_begin_at_different_times_on_gpus_of_their_own_are_one_job() -> None:
    def beside(device: int, missing: Mapping[str, str] | None = None) -> bool:
        starts = [(pid, t, pid * 1000) for pid in (1, 2) for t in range(3)]
        samples = measure(
            build(
                ranges=[Range(start=first + t * 100, end=first + t * 100 + 90, pid=pid) for pid, t, first in starts],
                calls=[
                    Call(start=first + t * 100 + 5, end=first + t * 100 + 6, pid=pid, correlation=t + 1)
                    for pid, t, first in starts
                ],
                kernels=[
                    Op(
                        start=first + t * 100 + 10,
                        end=first + t * 100 + 30,
                        pid=pid,
                        correlation=t + 1,
                        device=device * (pid - 1),
                    )
                    for pid, t, first in starts
                ],
                missing=missing,
            ),
            step="step",
        )
        return not any("one after the other" in told for one in samples for told in one.complaints)

    assert beside(1)
    assert beside(0, missing={"devices": "it cannot be told"})
    assert not beside(0)


def test_the_gpu_idles_under_the_launch_of_what_was_queued_and_else_where_the_cpu_was() -> None:
    # Before b the GPU waits for itself: b was launched while a ran. Before c it waits for the CPU.
    as_one = only(
        draw("""
        range    |-fwd-|   |------load------|
        launch    ^a^b                       ^c
        kernel     |--a--|     |b|             |c|
        """),
        step=None,
    )
    gaps = {row.name: row.values[Metric.GAP_MS] for row in as_one.ranges if row.values[Metric.GAP_MS]}
    assert gaps == {"fwd": 1.0 + 6.0, "load": 11.0, OUTSIDE_RANGES: 3.0}
    assert sum(gaps.values()) == as_one.values[Metric.GAP_MS]
