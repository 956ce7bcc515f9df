"""Extreme runs, chance mixes of two modes, and slow runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from perfgate.judge.outliers import as_many_by_chance, keep

QUIET = np.array([0.0, 0.002, -0.003, 0.001, -0.001])
PRIOR, BUDGET = 0.005, 0.02


def test_a_run_beyond_five_scales_and_two_budgets_is_dropped() -> None:
    after = np.array([0.001, 0.06, 0.0])
    found = keep((QUIET, after), prior_sd=PRIOR, budget=BUDGET)
    assert float(found.threshold) == pytest.approx(2 * BUDGET)
    assert [flags.tolist() for flags in found.flags] == [[True] * 5, [True, False, True]]


def test_the_scale_is_that_of_the_prior_and_of_the_median_distance() -> None:
    wide = np.array([-0.05, -0.02, 0.0, 0.02, 0.05])
    found = keep((wide, wide), prior_sd=PRIOR, budget=BUDGET)
    mad = 1.4826 * 0.02 * 10 / (10 - 1.8)
    df = 0.4 * 8
    assert float(found.threshold) == pytest.approx(
        5 * np.sqrt((2 * PRIOR**2 + df * mad**2) / (2 + df))
    )


@pytest.mark.parametrize(
    ("here", "there", "runs", "others"), [(2, 0, 3, 5), (0, 2, 3, 5), (3, 2, 3, 5), (5, 2, 12, 12)]
)
def test_a_chance_is_the_upper_tail_of_a_hypergeometric_distribution(
    here: int, there: int, runs: int, others: int
) -> None:
    found = as_many_by_chance(np.asarray(here), np.asarray(there), runs, others)
    peer = stats.hypergeom(runs + others, here + there, runs)
    assert float(found) == pytest.approx(peer.sf(here - 1))
