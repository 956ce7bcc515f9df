"""Extreme runs, chance mixes of two modes, and slow runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from perfgate.judge.outliers import (
    Slow,
    as_many_by_chance,
    keep,
    may_be_chance,
    slow_runs,
)

QUIET = np.array([0.0, 0.002, -0.003, 0.001, -0.001])
PRIOR, BUDGET = 0.005, 0.02


def test_a_run_beyond_five_scales_and_two_budgets_is_dropped_and_its_side_alone_says_so() -> None:
    after = np.array([0.001, 0.06, 0.0])
    found = keep((QUIET, after), prior_sd=PRIOR, budget=BUDGET)
    assert float(found.threshold) == pytest.approx(2 * BUDGET)
    assert [flags.tolist() for flags in found.flags] == [[True] * 5, [True, False, True]]
    assert bool(found.any_extreme)
    assert not keep((QUIET, QUIET), prior_sd=PRIOR, budget=BUDGET).any_extreme


def test_the_scale_is_that_of_the_prior_and_of_the_median_distance() -> None:
    wide = np.array([-0.05, -0.02, 0.0, 0.02, 0.05])
    found = keep((wide, wide), prior_sd=PRIOR, budget=BUDGET)
    mad = 1.4826 * 0.02 * 10 / (10 - 1.8)
    df = 0.4 * 8
    assert float(found.threshold) == pytest.approx(
        5 * np.sqrt((2 * PRIOR**2 + df * mad**2) / (2 + df))
    )


def test_a_side_that_lies_half_here_and_half_there_is_kept_as_it_is() -> None:
    halves = np.array([0.0, 0.0, 0.9, 0.9])
    found = keep((np.zeros(10), halves), prior_sd=PRIOR, budget=BUDGET)
    assert found.flags[1].all()


def test_a_side_that_differs_more_than_the_other_is_not_taken_for_outliers() -> None:
    scattered = np.log([28.273, 31.601, 30.835, 29.139, 24.667])
    found = keep((QUIET, scattered), prior_sd=PRIOR, budget=BUDGET)
    assert found.flags[1].all()
    assert not found.any_extreme


@pytest.mark.parametrize(
    ("here", "there", "runs", "others"), [(2, 0, 3, 5), (0, 2, 3, 5), (3, 2, 3, 5), (5, 2, 12, 12)]
)
def test_a_chance_is_the_upper_tail_of_a_hypergeometric_distribution(
    here: int, there: int, runs: int, others: int
) -> None:
    found = as_many_by_chance(np.asarray(here), np.asarray(there), runs, others)
    peer = stats.hypergeom(runs + others, here + there, runs)
    assert float(found) == pytest.approx(peer.sf(here - 1))


def test_two_modes_of_which_each_side_met_both_may_be_chance() -> None:
    fast = np.array([0.0, 0.0, 0.0, 0.0, 0.4])
    slow = np.array([0.4, 0.4, 0.4, 0.4, 0.0])
    kept = keep((fast, slow), prior_sd=PRIOR, budget=BUDGET).flags
    assert may_be_chance(fast, slow, (kept[0], kept[1]), between=np.asarray(0.2))
    far = np.array([0.0] * 11 + [0.4]), np.array([0.4] * 11 + [0.0])
    kept = keep(far, prior_sd=PRIOR, budget=BUDGET).flags
    assert not may_be_chance(*far, (kept[0], kept[1]), between=np.asarray(0.2)), (
        "11 of 12 on either side are no chance"
    )


def test_a_run_far_above_the_other_sides_median_is_slow() -> None:
    limit = np.asarray(0.04)
    one = slow_runs(QUIET, np.array([0.0, 0.4, 0.0]), limit)
    assert (int(one.candidate), int(one.other), one.candidates, one.others) == (1, 0, 3, 5)
    assert int(slow_runs(QUIET, np.array([0.4, 0.41, 0.4]), limit).candidate) == 3
    assert int(slow_runs(np.array([0.0, 0.0, 0.4]), QUIET, limit).other) == 1


def test_pairs_of_blocks_are_slow_on_either_side() -> None:
    differences = np.array([0.0, 0.3, -0.2, 0.01])
    found = slow_runs(-differences, differences, np.asarray(0.04))
    assert (int(found.candidate), int(found.other), found.candidates) == (1, 1, 4)


@pytest.mark.parametrize(
    ("candidate", "other", "chance", "hides"),
    [
        pytest.param(0, 0, None, True, id="none"),
        pytest.param(1, 0, None, False, id="one, before the last look"),
        pytest.param(1, 1, None, True, id="as many, at any look"),
        pytest.param(1, 1, 0.1, True, id="as many on the other side"),
        pytest.param(4, 0, 0.1, False, id="four that the other side does not have"),
    ],
)
def test_slow_runs_hide_nothing_where_the_other_side_has_as_many(
    candidate: int, other: int, chance: float | None, *, hides: bool
) -> None:
    slow = Slow(candidate=np.asarray(candidate), other=np.asarray(other), candidates=8, others=8)
    assert bool(slow.hides_nothing(chance=chance)) is hides


def test_slow_runs_of_two_stages_are_counted_together() -> None:
    three = Slow(candidate=np.asarray(1), other=np.asarray(0), candidates=3, others=5)
    twelve = Slow(candidate=np.asarray(2), other=np.asarray(1), candidates=12, others=12)
    both = three + twelve
    assert (int(both.candidate), int(both.other), both.candidates, both.others) == (3, 1, 15, 17)
