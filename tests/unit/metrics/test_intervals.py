"""Unions and gaps against slow references that count nanosecond by nanosecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.metrics.intervals import Idle, counted

Interval = tuple[int, int]
intervals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 15)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    ),
    max_size=12,
)


def idle_of(some: list[Interval]) -> Idle:
    return Idle.from_intervals(
        [np.array([a for a, _ in some], np.int64)], [np.array([b for _, b in some], np.int64)]
    )


def ticks(some: list[Interval]) -> set[int]:
    return {tick for start, end in some for tick in range(start, end)}


@given(intervals, st.integers(-5, 80), st.integers(0, 40))
def test_idle_time_of_a_window_is_what_no_interval_covers(
    some: list[Interval], first: int, length: int
) -> None:
    before, after = idle_of(some).until(np.array([first, first + length], np.int64))
    assert after - before == len(set(range(first, first + length)) - ticks(some))


@given(
    intervals,
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 3)), max_size=30),
)
def test_overlap_with_idle_time_is_union_minus_union_and_of_the_key_that_began_first(
    busy: list[Interval], rows: list[tuple[int, int, int]]
) -> None:
    others = [(key, start, start + length) for start, length, key in rows]
    keys, starts, ends = (
        np.array([row[column] for row in others], np.int64) for column in range(3)
    )
    expected, taken = [0, 0, 0, 0], ticks(busy)
    for start, key, end in sorted((start, key, end) for key, start, end in others):
        own = ticks([(start, end)]) - taken
        expected[key] += len(own)
        taken |= own
    assert idle_of(busy).overlap_by(keys, starts, ends, 4).tolist() == expected
    assert sum(expected) == len(ticks([(start, end) for _, start, end in others]) - ticks(busy))


@pytest.mark.parametrize(
    ("periods", "expected"),
    [
        ([10, 10, 10, 40, 0, 0, 0, 10, 10, 10, 10], [10, 10, 10, 40, 0, 0, 0, 10, 10, 10, 10]),
        ([10, 10, 10, 40, 10, 10, 10], [10, 10, 10, 12, 10, 10, 10]),
        ([10, 10, 10, 40, 10, 0, 0], [10, 10, 10, 12, 10, 0, 0]),
        ([10, 10, 10, 40, 2, 10, 10], [10, 10, 10, 20, 2, 10, 10]),
        ([10, 10, 10, 13, 0, 10, 10], [10, 10, 10, 13, 0, 10, 10]),
        ([0, 0, 10, 10, 10, 10, 10], [0, 0, 10, 10, 10, 10, 10]),
        ([10, 10, 10, 9, 9, 10, 40], [10, 10, 10, 9, 9, 10, 12]),
        ([38, 2, 38, 2, 38, 2], [38, 2, 38, 2, 38, 2]),
    ],
    ids=[
        "one that ends late, and three that it outlasts",
        "a stall",
        "short ones that come later",
        "partly given back",
        "no more than there was",
        "short ones at the beginning",
        "hardly short ones",
        "every second one outlasts the next",
    ],
)
def test_a_period_counts_up_to_the_cap_and_what_is_given_back_right_behind_it(
    periods: list[int], expected: list[float]
) -> None:
    kept = np.ones(len(periods), np.bool_)
    assert counted(np.array(periods, np.int64), kept).tolist() == expected


def test_nothing_is_given_back_across_a_wait() -> None:
    periods = np.array([10, 10, 40, 900, 0, 10, 10], np.int64)
    kept = np.array([True, True, True, False, True, True, True])
    assert counted(periods, kept)[kept].tolist() == [10, 10, 12, 0, 10, 10]
