"""Comparisons, next to SciPy's own tests and worked examples."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from perfgate.judge.compare import (
    PRIOR_DF,
    Learnt,
    SideSums,
    beyond_stored,
    compared,
    in_blocks,
    of_occasions,
)
from perfgate.judge.times import TimeRule
from perfgate.model.metric import Metric

BEFORE = np.array([0.0, 0.004, -0.003, 0.001, 0.006, -0.002])
AFTER = np.array([0.011, 0.004, 0.013])
NONE = np.asarray(0.0)


def side(values: NDArray[np.float64], kept: NDArray[np.bool_] | None = None) -> SideSums:
    return SideSums.of(values, np.ones_like(values, dtype=np.bool_) if kept is None else kept)


def occasions(
    values: NDArray[np.float64],
    runs: tuple[int, ...],
    kept: NDArray[np.bool_] | None = None,
    *,
    metric: Metric = Metric.STEP_MS,
    learnt: Learnt | None = None,
) -> tuple[float, float]:
    """What occasions differ by, and its degrees of freedom."""
    rule = TimeRule(metric=metric, budget=0.02, occasion_runs=runs, learnt=learnt or Learnt())
    kept = np.ones_like(values, dtype=np.bool_) if kept is None else kept
    sd, df = rule.tau(values, kept)
    return float(sd), df


def test_an_ab_run_is_students_t_with_pooled_variance() -> None:
    found = compared(side(BEFORE), side(AFTER))
    peer = stats.ttest_ind(AFTER, BEFORE, alternative="greater")
    assert float(found.p_value(slower=True)) == pytest.approx(peer.pvalue)
    assert float(found.p_value(slower=False)) == pytest.approx(1 - peer.pvalue)
    interval = stats.ttest_ind(AFTER, BEFORE).confidence_interval(0.95)
    assert [float(found.lower(0.975)), float(found.upper(0.975))] == pytest.approx(list(interval))


def test_beyond_stored_is_welchs_test_with_the_candidates_degrees_of_freedom_at_most() -> None:
    more = np.concatenate([AFTER, AFTER[:1], AFTER * 3])
    for after in (AFTER, more):
        found = beyond_stored(side(BEFORE), side(after), between=NONE, between_df=PRIOR_DF)
        peer = stats.ttest_ind(after, BEFORE, equal_var=False, alternative="greater")
        df = min(peer.df, len(after) - 1)
        assert float(found.p_value(slower=True)) == pytest.approx(stats.t.sf(peer.statistic, df))


def test_what_occasions_differ_by_has_the_degrees_of_freedom_that_it_is_known_by() -> None:
    wide = of_occasions(1.0, 2)
    found = beyond_stored(side(BEFORE), side(AFTER), between=wide, between_df=1.5)
    assert float(found.df) == pytest.approx(1.5, rel=1e-3)
    assert float(found.standard_error) == pytest.approx(np.sqrt(1.5), rel=1e-3)


def test_with_stored_the_prior_weighs_two_degrees_of_freedom_and_tau_is_known() -> None:
    found = compared(side(BEFORE), side(AFTER), prior_sd=0.005, between=of_occasions(0.005, 1))
    squares = np.square(BEFORE - BEFORE.mean()).sum() + np.square(AFTER - AFTER.mean()).sum()
    variance = (2 * 0.005**2 + squares) / (2 + 7)
    of_runs = variance * (1 / 6 + 1 / 3)
    total = of_runs + 2 * 0.005**2
    assert float(found.standard_error) == pytest.approx(np.sqrt(total))
    assert float(found.df) == pytest.approx(9 * (total / of_runs) ** 2)


def test_blocks_are_a_paired_t_with_a_prior() -> None:
    found = in_blocks(AFTER, prior_sd=0.007)
    variance = (2 * 0.007**2 + np.square(AFTER - AFTER.mean()).sum()) / (2 + 2)
    assert float(found.standard_error) == pytest.approx(np.sqrt(variance / 3))
    assert float(found.estimate) == pytest.approx(AFTER.mean())
    assert float(found.df) == 4


def test_of_one_occasion_runs_that_differ_by_more_stand_for_what_nobody_knows() -> None:
    quiet, noisy = (occasions(np.array([0.0, sd, -sd]), (3,)) for sd in (0.001, 0.02))
    assert quiet == (0.005, PRIOR_DF)
    assert noisy[0] == pytest.approx(0.02)


def test_occasions_are_a_one_way_analysis_of_variance_of_groups_of_unequal_size() -> None:
    groups = [np.array([0.0, 0.01]), np.array([0.05, 0.06, 0.04]), np.array([-0.03])]
    found = occasions(np.concatenate(groups), (2, 3, 1))
    n, means = np.array([2, 3, 1]), np.array([group.mean() for group in groups])
    within = sum(np.square(group - group.mean()).sum() for group in groups) / 3
    between = (n * np.square(means - (n * means).sum() / 6)).sum() / 2
    shown = (between - within) / ((6 - np.square(n).sum() / 6) / 2)
    believed = max(0.005**2, within)
    assert found[0] == pytest.approx(np.sqrt((2 * believed + 2 * shown) / 4))
    assert found[1] == 4


def test_what_other_workloads_say_of_the_machine_is_pooled() -> None:
    """tau^2 = (2 max(tau0, run SD)^2 + sum (S - 1) tau_hat^2)/(2 + sum (S - 1))."""
    found = occasions(np.array([0.0, 1e-9]), (2,), learnt=Learnt(squares=24 * 0.01**2, df=24.0))
    assert found[0] == pytest.approx(np.sqrt((2 * 0.005**2 + 24 * 0.01**2) / 26))
    assert found[1] == 26


def test_occasions_that_lie_closer_than_their_runs_show_nothing_below_zero() -> None:
    values = np.array([-0.01, 0.01, -0.01, 0.01])
    found, _ = occasions(values, (2, 2), metric=Metric.KERNEL_MS)
    within = 2 * 2 * 0.01**2 / 2
    assert found == pytest.approx(np.sqrt(2 * within / 3))


@pytest.mark.behaviour
@pytest.mark.parametrize("runs", [(5,), (2, 3)])
def test_what_is_dropped_as_an_outlier_says_nothing_of_how_occasions_differ(
    runs: tuple[int, ...],
) -> None:
    values = np.array([0.0, 0.001, 0.3, -0.001, 0.002])
    without, _ = occasions(values, runs, np.array([True, True, False, True, True]))
    assert without <= 0.005
    assert occasions(values, runs)[0] > 0.1
