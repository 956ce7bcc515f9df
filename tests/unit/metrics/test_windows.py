"""When steps are complete, and which periods count, on hand-drawn timelines."""

from __future__ import annotations

import pytest
from support.measuring import only
from support.timelines import Range, build

from perfgate.model.metric import Metric


def test_the_first_period_is_dropped_and_the_others_mean_taken() -> None:
    # Completions 12, 40, 44, 50, 60: periods 28 (dropped), 4, 6, 10, which counts as 7.2.
    sample = only(
        build(ranges=[Range(start=a * 10**6, end=b * 10**6) for a, b in _steps(12, 40, 44, 50, 60)])
    )
    assert sample.periods_ms == (4.0, 6.0, 10.0)
    assert sample.values[Metric.STEP_MS] == pytest.approx(17.2 / 3)
    assert sample.window_ms == 20.0


def _steps(*ends: int) -> list[tuple[int, int]]:
    return [(end - 3, end) for end in ends]


def test_the_last_step_of_work_in_flight_ends_no_period_as_nothing_cuts_it_short() -> None:
    # Each lasts 25 ms and the next begins after 10; the last one would end a period of 25.
    starts = [10**7 * number for number in range(1, 9)]
    flying = only(
        build(ranges=[Range(start=at, end=at + 25 * 10**6, push_pop=False) for at in starts])
    )
    assert flying.periods_ms == (10.0,) * 5
    behind = only(
        build(ranges=[Range(start=at, end=at + 9 * 10**6, push_pop=False) for at in starts])
    )
    assert behind.periods_ms == (10.0,) * 6
