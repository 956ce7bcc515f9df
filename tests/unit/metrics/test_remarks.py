"""What is said of a process whose metrics hold all the same."""

from __future__ import annotations

import pytest
from support.measuring import of_range, only
from support.timelines import draw

from perfgate.model.metric import Metric
from perfgate.model.sample import OUTSIDE_RANGES


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


BETWEEN = "0.6667 GPU operations per step were launched between the steps: they count to the step before them"


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
