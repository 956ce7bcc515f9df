"""Time cut into segments: innermost ranges, their grouping, and the way from a correlation id to a
segment."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.timelines import Range, build, draw

from perfgate.metrics.attribution import Segments, cut
from perfgate.metrics.steps import find_steps
from perfgate.model.sample import OUTSIDE_RANGES
from perfgate.model.timeline import Timeline


def segments_of(timeline: Timeline, step: str | None = "step") -> Segments:
    (steps,) = find_steps(timeline, step=step, steps=1000)
    return cut(timeline.ranges, steps)


def labels_at(segments: Segments, columns: list[int]) -> list[str]:
    at = segments.at(np.array(columns, np.int64) * 10**6)
    return [segments.labels[label] for label in segments.label[at]]


@pytest.mark.parametrize("name", ["a", "z"])
def test_of_two_ranges_with_the_same_span_the_step_is_outer_whatever_they_are_called(
    name: str,
) -> None:
    steps = [Range(start=n * 10**8, end=n * 10**8 + 10**7) for n in range(3)]
    inner = [Range(start=one.start, end=one.end, name=name) for one in steps]
    assert labels_at(segments_of(build(ranges=[*inner, *steps])), [0, 9, 105]) == [name] * 3


def test_start_end_ranges_count_only_where_there_is_no_other_range() -> None:
    alone = segments_of(draw("range     |---step---|\nstartend    |---S---|"))
    assert labels_at(alone, [14]) == ["S"]
    mixed = segments_of(draw("range     |---step-----|\nstartend    |---S---|\nrange        |A|"))
    assert labels_at(mixed, [12, 13, 16]) == ["step", "A", "step"]


def test_pytorchs_unique_suffixes_are_cut_off() -> None:
    segments = segments_of(
        build(
            ranges=[
                *(Range(start=100 * n, end=100 * n + 90) for n in range(3)),
                *(
                    Range(start=100 * n, end=100 * n + 10, name=f"aten::add, op_id = {n}")
                    for n in range(3)
                ),
                *(
                    Range(
                        start=100 * n + 20, end=100 * n + 30, name=f"aten::mm, seq = {n}, op_id = 7"
                    )
                    for n in range(3)
                ),
                Range(start=40, end=50, name="aten::mm, seq = 9, op_id = 1, sizes = [[2, 2], []]"),
            ]
        )
    )
    assert segments.labels == (OUTSIDE_RANGES, "aten::add", "aten::mm", "step")
    assert segments.begun[0].tolist() == [[0, 3, 4, 3], [0, 30, 40, 270]]


def test_ranges_between_the_steps_are_counted_apart_from_those_in_them() -> None:
    segments = segments_of(
        draw("""
range    |load| |-step--| |load| |-step--||load||-step-------| |load|
range                                             |load|
        """)
    )
    label = segments.labels.index("load")
    in_steps, between = segments.begun[:, :, label].tolist()
    assert in_steps == [1, 5_000_000]
    # Not what comes before the first step or after the last: who knows whether that is the loop's.
    assert between == [2, 10_000_000]


def test_a_range_begun_between_the_steps_counts_until_the_last_one_ends() -> None:
    segments = segments_of(
        build(
            ranges=[
                *(Range(start=100 * n, end=100 * n + 50) for n in range(4)),
                Range(start=160, end=9_000, name="epoch"),
                Range(start=60, end=9_000, name="left open", closed=False),
            ]
        )
    )
    cpu_ns = dict(zip(segments.labels, segments.begun[1, 1].tolist(), strict=True))
    assert cpu_ns == {OUTSIDE_RANGES: 0, "epoch": 190, "left open": 0, "step": 0}


def test_names_of_one_step_that_hold_ids_or_amounts_are_grouped() -> None:
    shown = [
        *(f"forward {uuid.uuid4()}" for _ in range(3)),
        *(f"loss={loss}" for loss in ("-0.25", "1.5e-07", "3")),
        *(f"batch [{n}, {n + 1}, {n + 2}]" for n in range(3)),
    ]
    segments = segments_of(
        build(
            ranges=[
                *(Range(start=100 * n, end=100 * n + 90) for n in range(3)),
                *(
                    Range(start=100 * (n % 3) + n, end=100 * (n % 3) + 80 - n, name=name)
                    for n, name in enumerate(shown)
                ),
            ]
        )
    )
    assert segments.labels == (OUTSIDE_RANGES, "batch [#]", "forward #", "loss=#", "step")


def test_a_range_within_another_of_its_name_is_open_no_longer_than_that() -> None:
    nested = [
        Range(start=100 * n + at, end=100 * n + until, name="data")
        for n in range(1, 4)
        for at, until in ((10, 50), (20, 40), (25, 30), (45, 50), (60, 70))
    ]
    other_thread = [
        Range(start=100 * n + 12, end=100 * n + 48, name="data", thread=2) for n in range(1, 4)
    ]
    steps = [Range(start=100 * n, end=100 * n + 90) for n in range(1, 4)]
    segments = segments_of(build(ranges=[*steps, *other_thread, *nested]))
    data = segments.labels.index("data")
    assert segments.begun[0, :, data].tolist() == [15, 3 * (40 + 10)]
    assert segments.begun[0, 1, segments.labels.index("step")] == 3 * 90


def test_a_window_groups_names_only_where_there_are_many() -> None:
    few = build(ranges=[Range(start=10 * n, end=10 * n + 5, name=f"layer.{n}") for n in range(40)])
    many = build(ranges=[Range(start=10 * n, end=10 * n + 5, name=f"Batch {n}") for n in range(41)])
    assert len(segments_of(few, None).labels) == 41
    assert segments_of(many, None).labels == (OUTSIDE_RANGES, "Batch #")


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.sampled_from("abcd")), max_size=9)
)
def test_the_innermost_range_is_the_last_begun_that_is_open(
    spans: list[tuple[int, int, str]],
) -> None:
    """Whether ranges nest or cross one another, as those of two domains may."""
    ranges = [
        Range(name=name, start=min(one, other), end=max(one, other)) for one, other, name in spans
    ]
    around = Range(name="step", start=-5, end=20)
    segments = segments_of(build(ranges=[around, *ranges]))
    for time in range(-4, 20):
        opened = [one for one in ranges if one.start <= time < one.end]
        last = max(opened, key=lambda one: (one.start, -one.end, one.name), default=around)
        (at,) = segments.at(np.array([time]))
        assert segments.labels[segments.label[at]] == last.name
