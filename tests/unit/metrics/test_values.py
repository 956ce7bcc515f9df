"""Every metric's definition on hand-drawn timelines: one column is one millisecond."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.measuring import of_range, only
from support.timelines import Call, Range, build, draw

from perfgate.metrics.measure import measure
from perfgate.model.metric import CALLED, EXPOSED, Metric
from perfgate.model.note import note
from perfgate.model.sample import OUTSIDE_RANGES, ProcessSample


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


def test_what_nothing_hides_is_of_the_ranges_that_launched_it() -> None:
    # Of h's 10 ms three lie under k and n, of n's 8 one under h; s and d share one of the 8 that
    # they take together.
    sample = only(
        draw("""
        range   |---------step---------|  |---------step---------|  |---------step---------|
        range    |A||--B--||-----C----|    |A||--B--||-----C----|    |A||--B--||-----C----|
        launch    ^h ^k^n^s      ^d         ^i ^l^o^t      ^e         ^j ^m^p^u      ^f
        h2d        |----h----|               |----i----|               |----j----|
        kernel           |k|                       |l|                       |m|
        nccl                |---n---|                 |---o---|                 |---p---|
        memset                       |-s-|                     |-t-|                     |-u-|
        d2h                             |--d-|                    |--e-|                    |--f-|
        """)
    )
    shown = {
        metric: {row.name: row.values[metric] for row in sample.ranges if row.values[metric]}
        for metric in EXPOSED
    }
    assert shown == {
        Metric.H2D_EXPOSED_MS: {"A": 7.0},
        Metric.NCCL_EXPOSED_MS: {"B": 7.0},
        Metric.MEM_EXPOSED_MS: {"B": 4.0, "C": 4.0},
    }
    assert {metric: sum(parts.values()) for metric, parts in shown.items()} == {
        metric: sample.values[metric] for metric in EXPOSED
    }


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
    assert sample.notes == ()


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
    assert two.absent == dict.fromkeys(CALLED, note("no-calls", pid=2))


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
    assert (
        sample.values[Metric.SYNCS] == 2.0
    )  # cudaDeviceSynchronize begins between steps: it counts to the first


def test_a_driver_launch_inside_a_runtime_launch_is_one_launch() -> None:
    def step(start: int) -> list[Call]:
        return [
            Call(
                start=start + 10,
                end=start + 20,
                name="cudaLaunchKernelExC_v11060",
                correlation=start,
            ),
            Call(start=start + 12, end=start + 18, name="cuLaunchKernelEx", correlation=start),
            Call(
                start=start + 12,
                end=start + 18,
                name="cuLaunchKernel",
                thread=2,
                correlation=start + 1,
            ),
            Call(
                start=start + 30, end=start + 35, name="cuLaunchKernel_ptsz", correlation=start + 2
            ),
        ]

    sample = only(
        build(
            ranges=[Range(start=s, end=s + 50) for s in (0, 100, 200)],
            calls=[call for s in (0, 100, 200) for call in step(s)],
        )
    )
    assert sample.values[Metric.LAUNCHES] == 3.0


# --- when steps are complete, and where the GPU idles -----------------------


def test_the_last_step_of_work_in_flight_ends_no_period_as_nothing_cuts_it_short() -> None:
    # Each lasts 25 ms and the next begins after 10; the last one would end a period of 25.
    starts = [10**7 * number for number in range(1, 9)]
    for lasts, periods in ((25, 5), (9, 6)):
        ranges = [Range(start=at, end=at + lasts * 10**6, push_pop=False) for at in starts]
        assert only(build(ranges=ranges)).periods_ms == (10.0,) * periods


def gaps_of(sample: ProcessSample) -> dict[str, float]:
    """gap_ms by range."""
    shown = {row.name: row.values[Metric.GAP_MS] for row in sample.ranges}
    return {name: gap_ms for name, gap_ms in shown.items() if gap_ms}


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
    gaps = gaps_of(as_one)
    assert gaps == {"fwd": 1.0 + 6.0, "load": 11.0, OUTSIDE_RANGES: 3.0}
    assert sum(gaps.values()) == as_one.values[Metric.GAP_MS]


@pytest.mark.parametrize("correlation", [-1, 0, 1])
def test_idle_time_that_a_migration_ends_is_the_cpus_whichever_launch_has_its_id(
    correlation: int,
) -> None:
    drawn = draw("""
        range    |-fwd-| |----host work----|
        launch    ^a      ^b
        kernel     |--a--| |b|
        uvm                         |-m-|
        """)
    copies = dataclasses.replace(drawn.copies, correlation=np.array([correlation], np.int64))
    sample = only(dataclasses.replace(drawn, copies=copies), step=None)
    assert gaps_of(sample) == {"fwd": 1.0, "host work": 2.0 + 7.0}
