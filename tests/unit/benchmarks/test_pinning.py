"""What is said of pairs that were pinned early and late, and in which order they are made; none is made here."""

from __future__ import annotations

import math

import pytest

from benchmarks.moods.pinning import EARLY, LATE, MadePair, begins, mode, summary


def pair(mode: str, difference: float, *, wall_s: float) -> MadePair:
    return MadePair(
        mode=mode,
        begins="reference",
        wall_s=wall_s,
        runs_s=wall_s,
        reference_ms=2.8,
        candidate_ms=2.8 * math.exp(difference / 100),
        remarks=(),
    )


def test_modes_take_turns_and_each_begins_with_either_side_as_often() -> None:
    assert [mode(number) for number in range(8)] == [EARLY, LATE, LATE, EARLY] * 2
    for one in (EARLY, LATE):
        sides = [begins(number) for number in range(16) if mode(number) == one]
        assert sides.count("reference") == sides.count("candidate") == 4


def test_a_line_a_mode_tells_time_spread_and_mean() -> None:
    early = [pair(EARLY, difference, wall_s=20 + index) for index, difference in enumerate((-1.0, 1.0, 0.0))]
    late = [pair(LATE, difference, wall_s=10) for difference in (-2.0, 2.5, 1.0)]
    assert summary([*early, *late]).splitlines()[2:] == [
        "| early | 3 | 21.0 (20.0 to 22.0) | 2.800 | 1.00 (0.58 to 4.42) | +0.00 ± 0.58 |",
        "| late | 3 | 10.0 (10.0 to 10.0) | 2.800 | 2.29 (1.32 to 10.12) | +0.50 ± 1.32 |",
    ]


def test_of_one_pair_no_spread_is_told() -> None:
    assert len(summary([pair(EARLY, 1.0, wall_s=20)]).splitlines()) == 2


def test_a_difference_is_that_of_the_logarithms() -> None:
    assert pair(LATE, 2.0, wall_s=1).difference == pytest.approx(2.0)
