"""Interleaved A/B runs: what passes while a process waits between its steps is in no metric; one
column is 1 ms."""

from __future__ import annotations

import dataclasses

import pytest
from support.timelines import draw

from perfgate.metrics.measure import measure
from perfgate.metrics.steps import find_steps
from perfgate.model.arrays import RangeNames
from perfgate.model.metric import Metric
from perfgate.model.note import note
from perfgate.model.sample import ProcessSample
from perfgate.model.timeline import Timeline
from perfgate.model.workload import WAIT_RANGE


def drawn(picture: str) -> Timeline:
    """A timeline from a picture in which the ranges called `wait` are waits."""
    timeline = draw(picture)
    names = [WAIT_RANGE if name == "wait" else name for name in list(timeline.ranges.name)]
    return dataclasses.replace(
        timeline, ranges=dataclasses.replace(timeline.ranges, name=RangeNames.of(names))
    )


def only(timeline: Timeline, step: str | None = "step") -> ProcessSample:
    (sample,) = measure(timeline, step=step, steps=None if step is None else 1000)
    return sample


def resumes(picture: str) -> list[bool]:
    timeline = drawn(picture)
    (found,) = find_steps(timeline, step="step", steps=1000)
    return [bool(one) for one in found.resumes]


BLOCKS = """
    range   |-step-| |-step-| |-step-|           |-step-| |-step-|           |-step-| |-step-| |-step-|
    launch   ^a       ^b       ^c                 ^d       ^e                 ^f       ^g       ^h
    kernel   |-a-|    |-b-|    |--c-|             |--d--|  |-e-|              |-f-|    |-g-|    |--h--|
    range                             |--wait--|                  |--wait--|
"""
"""Completions at 19, 28, 37 | 56, 65 | 84, 93, 102."""


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        # After the step before, and before the step that resumes; their edges may touch.
        ("range |step| |step| |wait| |step|", [False, False, True]),
        ("range |step| |step|wait|step|", [False, False, True]),
        ("range |step| |wait| |wait| |step| |step|", [False, True, False]),
        ("range |step| |wait|step|wait| |step|", [False, True, True]),
        # Before the first step and after the last there is nothing to leave out.
        ("range |wait| |step| |step| |wait|", [False, False]),
        # Inside a step, or only partly between two, it is a range that somebody called so.
        ("range |----step----| |step|\nrange   |wait|", [False, False]),
        ("range |step|  |step| |step|\nstartend  |-wait-|", [False, False, False]),
        ("range |step|  |step| |step|\nstartend    |--wait--|", [False, False, False]),
        ("range |step|      |step| |step|\nstartend      |---wait---|", [False, False, False]),
        # Never closed, of another thread, or of another process.
        ("range |step|        |step|\nrange unclosed |wait|", [False, False]),
        ("range |step|               |step|\nrange thread2      |wait|", [False, False]),
        ("range |step|            |step|\nrange pid7      |wait|", [False, False]),
        # Within a range of the loop's own.
        ("range |------epoch-----------|\nrange  |step| |wait| |step|", [False, True]),
    ],
)
def test_a_step_resumes_after_a_closed_wait_between_it_and_the_one_before(
    picture: str, expected: list[bool]
) -> None:
    assert resumes(picture) == expected


def test_blocks_are_reported_each_by_itself() -> None:
    # The windows above, each with its own periods; the first two steps of all open none.
    sample = only(drawn(BLOCKS))
    shown = [(block.number, block.step_ms, block.gap_ms) for block in sample.blocks]
    assert shown == [(0, 9.0, 9.0 - 5.0), (1, 9.0, 9.0 - 4.0), (2, 9.0, (18.0 - 10.0) / 2)]
    assert only(drawn("range |step| |step| |step| |step|")).blocks == ()


def test_a_block_without_a_period_is_left_out_and_the_next_keep_their_numbers() -> None:
    picture = "range |step| |step| |wait| |step| |wait| |step|  |step| |wait| |step| |step|"
    without_gpu = only(drawn(picture))
    assert [(block.number, block.step_ms, block.gap_ms) for block in without_gpu.blocks] == [
        (2, 8.0, None),
        (3, 7.0, None),
    ]


@pytest.mark.parametrize(
    ("picture", "held"),
    [
        ("range |step| |step| |wait| |step|\nkernel |a|", (3, 2)),
        (
            "range |step| |wait| |step| |wait| |step| |wait| |step|\nkernel |a|",
            (4, 4),
        ),
    ],
)
def test_blocks_too_short_for_a_period_leave_no_period_and_no_gap(
    picture: str, held: tuple[int, int]
) -> None:
    sample = only(drawn(picture))
    why = note("no-period", steps=held[0], blocks=held[1])
    assert sample.absent[Metric.STEP_MS] == sample.absent[Metric.GAP_MS] == why
    assert (sample.periods_ms, sample.window_ms) == ((), 0.0)
    assert sample.values[Metric.KERNEL_MS] == 2.0 / sample.steps


def test_a_synchronisation_at_the_end_of_a_block_or_in_the_wait_is_in_no_step() -> None:
    sample = only(
        drawn("""
        range  |-step-| |-step-| |-step-|                                   |-step-| |-step-|
        call                              |cudaDeviceSynchronize_v3020|
        call                                 |cudaStreamSynchronize_v3020|
        range                               |------------wait------------|
        """)
    )
    assert sample.values[Metric.SYNCS] == 0.0
    assert [(row.name, row.values[Metric.SYNCS]) for row in sample.ranges] == [
        ("step", 0.0),
        ("(no range)", 0.0),
    ]


def test_each_process_of_a_capture_has_waits_of_its_own() -> None:
    one, two = measure(
        drawn("""
        range pid1   |step| |step| |step| |---wait---| |step| |step|
        range pid2   |step| |step| |step|              |step| |step|
        """),
        step="step",
    )
    assert one.periods_ms == (7.0, 7.0)
    assert two.periods_ms == (7.0, 20.0, 7.0)


def test_a_whole_window_is_without_its_waits() -> None:
    # From 27 to 61: the waits take 4 ms of it, and 7 where two overlap. Of the 23 left, 2 of a's, b
    # and c are busy.
    timeline = drawn("""
        range      |-------wait|
        range           |-----------------outer----------------|
        launch             ^a             ^b              ^c
        kernel             |--a--|         |--b--|         |c|
        range                      |wait|
        startend                     |wait|
    """)
    sample = only(timeline, None)
    assert sample.window_ms == 34.0 - 4.0 - 7.0
    assert sample.values[Metric.GAP_MS] == 23.0 - 2.0 - 6.0 - 2.0
    assert sample.values[Metric.KERNEL_MS] == 14.0
    assert {row.name: row.values[Metric.GAP_MS] for row in sample.ranges} == {"outer": 13.0}
