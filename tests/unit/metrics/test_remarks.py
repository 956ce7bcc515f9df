"""What is said of a process whose metrics hold all the same."""

from __future__ import annotations

import pytest
from support.measuring import of_range, only
from support.timelines import Call, Op, Range, build, draw

from perfgate.model.metric import Metric
from perfgate.model.sample import OUTSIDE_RANGES, ProcessSample


def test_operations_without_a_call_count_where_they_ran_and_it_is_said() -> None:
    sample = only(
        draw("""
        range   |----step----|  |----step----|  |----step----|
        launch                     ^b
        kernel      |a|             |b|             |c|
        """)
    )
    assert sample.values[Metric.KERNEL_MS] == 2.0
    assert sample.remarks == (
        "GPU operations have no API call in the capture and count where they ran (2)",
    )


def full_queue(*, calls_lost: int = 0) -> ProcessSample:
    """Twelve steps of 10 us of kernel each, launched two steps ahead of the GPU: two ran that were launched before."""
    ran = [Op(start=10_000 * k, end=10_000 * (k + 1), correlation=k + 1) for k in range(14)]
    calls = [
        Call(start=10_000 * k + 100, end=10_000 * k + 200, correlation=k + 3)
        for k in range(calls_lost, 12)
    ]
    return only(
        build(
            ranges=[Range(start=10_000 * k, end=10_000 * k + 500) for k in range(12)],
            calls=calls,
            kernels=ran,
        )
    )


def test_what_was_launched_before_the_capture_is_no_part_of_the_steps_it_ran_in_and_it_is_said() -> (
    None
):
    sample = full_queue()
    assert (sample.values[Metric.KERNEL_MS], sample.values[Metric.STEP_MS]) == (0.01, 0.01)
    assert sample.values[Metric.GAP_MS] == 0.0
    assert sample.remarks == (
        "the CPU runs ahead of the GPU: the step range lasts 0.0005 ms, a step takes 0.01 ms",
        "GPU operations were launched before the capture and are of no step (2)",
    )


def test_a_capture_that_lacks_the_calls_of_its_first_steps_does_not_tell_what_was_launched_before() -> (
    None
):
    # The kernels of the first three steps and both before them are counted where they ran.
    sample = full_queue(calls_lost=3)
    assert (
        "GPU operations have no API call in the capture and count where they ran (5)"
        in sample.remarks
    )


WHOLE = (
    "CUDA graphs were traced whole: what they copy or send with NCCL is part of their kernel time, and of no other "
    "metric (1 per step)"
)


def test_of_whole_graphs_it_is_said_that_their_copies_are_in_no_metric() -> None:
    timeline = draw("""
        range   |----step----|  |----step----|  |----step----|
        launch     ^a              ^b              ^c
        graph       |-a-|           |-b-|           |-c-|
        """)
    sample = only(timeline)
    assert WHOLE in sample.remarks
    assert WHOLE.replace("1 per step", "3 in all") in only(timeline, step=None).remarks
    assert sample.values[Metric.H2D_MS] == 0.0


def test_start_end_ranges_that_no_row_tells_of_are_named() -> None:
    told = "start/end ranges may overlap others, and are not told of where ranges are pushed and popped: load"
    beside = """
        range     |----step----|  |----step----|  |----step----|
        startend     |-load-|        |-load-|        |-load-|
        """
    assert told not in only(draw(beside)).remarks
    pushed = "range           |fwd|           |fwd|           |fwd|\n"
    assert told in only(draw(beside + pushed)).remarks


BETWEEN = "GPU operations were launched between the steps and count to the step before them (0.6667 per step)"


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
    assert sample.remarks == (
        "the CPU runs ahead of the GPU: the step range lasts 5 ms, a step takes 12 ms",
    )
