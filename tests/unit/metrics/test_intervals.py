"""How long periods count, of which some are stalls and some give time back."""

from __future__ import annotations

import numpy as np
import pytest

from perfgate.metrics.intervals import counted


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
