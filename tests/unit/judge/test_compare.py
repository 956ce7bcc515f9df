"""Comparing two sets of runs, checked by hand and against SciPy's own t distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from perfgate.judge.compare import Comparison, Floats, Prior, compare, compare_pairs, middle, occasions_apart

BEFORE, AFTER = np.array([0.0, 0.01]), np.array([0.02, 0.03])


def test_without_occasions_the_variance_is_smyths_and_df_is_prior_plus_runs_less_two() -> None:
    # SS = 4 * 0.005^2 = 1e-4; v = (2 * 0.01^2 + 1e-4) / (2 + 4 - 2) = 7.5e-5; SE^2 = v * (1/2 + 1/2)
    duet = compare(BEFORE, AFTER, prior=Prior(sd=0.01), occasion_sd=0.0, occasions=1)
    assert duet.estimate == pytest.approx(0.02)
    assert duet.run_sd == pytest.approx(7.5e-5**0.5)
    assert duet.standard_error == pytest.approx(7.5e-5**0.5)
    assert duet.df == 4.0
    assert duet.occasion_share == 0.0


def test_occasions_widen_the_standard_error_and_raise_df_by_satterthwaite() -> None:
    # tau^2 (1 + 1/2) = 7.5e-5 doubles SE^2, so df = 4 * 2^2
    stored = compare(BEFORE, AFTER, prior=Prior(sd=0.01), occasion_sd=5e-5**0.5, occasions=2)
    assert stored.standard_error == pytest.approx(1.5e-4**0.5)
    assert stored.df == pytest.approx(16.0)
    assert stored.occasion_share == pytest.approx(0.5)


def test_p_values_and_bounds_are_students() -> None:
    c = compare(BEFORE, AFTER, prior=Prior(sd=0.01), occasion_sd=5e-5**0.5, occasions=2)
    student = stats.t(df=16.0)
    assert c.p_slower == pytest.approx(student.sf(0.02 / c.standard_error))
    assert c.p_faster == pytest.approx(student.cdf(0.02 / c.standard_error))
    assert c.upper(0.975) == pytest.approx(0.02 + student.ppf(0.975) * c.standard_error)
    assert c.lower(0.99375) == pytest.approx(0.02 - student.ppf(0.99375) * c.standard_error)


def test_equal_runs_are_not_believed_beyond_the_floor_of_0_05_percent() -> None:
    c = compare(np.zeros(3), np.zeros(3), prior=Prior(sd=0.0), occasion_sd=0.0, occasions=1)
    assert c.run_sd == 0.0005


def test_one_run_a_side_rests_on_the_prior_alone() -> None:
    c = compare(np.zeros(1), np.array([0.01]), prior=Prior(sd=0.005), occasion_sd=0.0, occasions=1)
    assert (c.run_sd, c.df) == (0.005, 2.0)


def test_a_stronger_prior_weighs_more() -> None:
    c = compare(BEFORE, AFTER, prior=Prior(sd=0.01, df=4.0), occasion_sd=0.0, occasions=1)
    assert c.run_sd == pytest.approx(((4 * 0.01**2 + 1e-4) / 6) ** 0.5)


QUIET, NOISY = np.array([0.0, 0.001, -0.001, 0.0005, -0.0005, 0.0002]), np.array([0.03, 0.06, 0.0])


@pytest.mark.parametrize(("before", "after"), [(QUIET, NOISY), (NOISY, QUIET)])
def test_where_the_side_of_fewer_runs_is_noisier_each_has_its_own_variance(before: Floats, after: Floats) -> None:
    c = compare(before, after, prior=Prior(sd=1e-5), occasion_sd=0.0, occasions=1)
    welch = stats.ttest_ind(after, before, equal_var=False, alternative="greater")
    assert c.p_slower == pytest.approx(welch.pvalue)
    assert c.df == pytest.approx(welch.df)
    assert c.estimate / c.standard_error == pytest.approx(welch.statistic)


def test_measured_together_both_sides_met_the_same_host() -> None:
    c = compare(QUIET, NOISY, prior=Prior(sd=1e-5), occasion_sd=0.0, occasions=1, together=True)
    assert c.apart is None
    assert c.p_slower == pytest.approx(stats.ttest_ind(NOISY, QUIET, alternative="greater").pvalue)


def test_each_variance_is_moderated_by_the_prior_on_its_own() -> None:
    # Both of NOISY's degrees of freedom say 9e-4, 4 times the prior's variance: 1/16 of its weight is left
    c = compare(QUIET, NOISY, prior=Prior(sd=0.015), occasion_sd=0.0, occasions=1)
    left = 2 / 16
    noisy = (left * 2.25e-4 + 1.8e-3) / (left + 2)
    quiet = (2 * 2.25e-4 + float(np.sum(np.square(QUIET - QUIET.mean())))) / (2 + 5)
    assert c.standard_error**2 == pytest.approx(quiet / 6 + noisy / 3)
    parts = (quiet / 6) ** 2 / (2 + 5) + (noisy / 3) ** 2 / (left + 2)
    assert c.run_df == pytest.approx((quiet / 6 + noisy / 3) ** 2 / parts)


def test_each_has_its_own_variance_also_where_squares_are_nearly_too_large() -> None:
    one, other = (
        compare(QUIET * by, NOISY * by, prior=Prior(sd=1e-5), occasion_sd=0.0, occasions=1) for by in (1e3, 1e150)
    )
    assert other.apart is not None
    assert other.df == pytest.approx(one.df)
    assert other.p_slower == pytest.approx(one.p_slower)


def test_a_side_is_only_noisier_where_chance_would_not_make_it_so() -> None:
    # F(2, 5) is 5.79 at 5 %
    for times, pooled in ((5.7, True), (5.9, False)):
        scale = (times * float(np.var(QUIET, ddof=1)) / float(np.var(NOISY, ddof=1))) ** 0.5
        c = compare(QUIET, NOISY * scale, prior=Prior(sd=1e-5), occasion_sd=0.0, occasions=1)
        assert (c.apart is None) is pooled
        assert stats.f(2, 5).sf(times) == pytest.approx(0.05, abs=0.002)


@pytest.mark.parametrize(
    ("before", "after", "sd"),
    [
        pytest.param(QUIET, NOISY, 0.03, id="no more than was believed"),
        pytest.param(np.zeros(6), np.array([0.0, 0.0004, -0.0004]), 0.0001, id="both below the floor"),
        pytest.param(QUIET, np.array([0.03]), 0.0001, id="one run"),
        pytest.param(QUIET[:3], NOISY, 0.0001, id="as many on the quiet side"),
        pytest.param(QUIET[:3], np.tile(NOISY, 2), 0.0001, id="the noisy side has more runs"),
    ],
)
def test_both_sides_are_pooled(before: Floats, after: Floats, sd: float) -> None:
    c = compare(before, after, prior=Prior(sd=sd), occasion_sd=0.0, occasions=1)
    assert c.apart is None
    assert c.run_df == pytest.approx(c.prior_df + len(before) + len(after) - 2)


def test_apart_the_noisier_side_tells_what_runs_differ_by() -> None:
    for before, after in ((QUIET, NOISY), (NOISY, QUIET)):
        c = compare(before, after, prior=Prior(sd=1e-5), occasion_sd=0.0, occasions=1)
        assert c.run_sd == pytest.approx(np.std(NOISY, ddof=1))


def test_more_runs_of_the_noisier_side_are_foretold_by_its_own_variance() -> None:
    three = compare(QUIET, NOISY, prior=Prior(sd=1e-5), occasion_sd=0.0, occasions=1)
    quiet, noisy = float(np.var(QUIET, ddof=1)), float(np.var(NOISY, ddof=1))
    thirty = three.with_more_runs(27)
    assert thirty.standard_error**2 == pytest.approx(quiet / 6 + noisy / 30)
    parts = (quiet / 6) ** 2 / 5 + (noisy / 30) ** 2 / 29
    assert thirty.run_df == pytest.approx((quiet / 6 + noisy / 30) ** 2 / parts)


def test_for_other_means_each_side_keeps_its_degrees_of_freedom() -> None:
    own = compare(QUIET, NOISY, prior=Prior(sd=1e-5), occasion_sd=0.0, occasions=1)
    other = own.of_other_means(baseline_runs=20, candidate_runs=1.5)
    quiet, noisy = float(np.var(QUIET, ddof=1)) / 20, float(np.var(NOISY, ddof=1)) / 1.5
    assert other.standard_error**2 == pytest.approx(quiet + noisy)
    assert other.run_df == pytest.approx((quiet + noisy) ** 2 / (quiet**2 / 5 + noisy**2 / 2))
    pooled = compare(BEFORE, AFTER, prior=Prior(sd=0.01), occasion_sd=0.0, occasions=1)
    others = pooled.of_other_means(baseline_runs=20, candidate_runs=1.5)
    assert others.run_df == pytest.approx(pooled.run_df)
    assert others.standard_error**2 == pytest.approx(pooled.run_sd**2 * (1 / 20 + 1 / 1.5))


@pytest.mark.parametrize("df", [2.0, 4.0])
def test_a_prior_below_what_runs_differ_by_weighs_less(df: float) -> None:
    # SS / 2 = 5e-5, twice the prior's 2.5e-5: a quarter of its weight is left
    c = compare(BEFORE, AFTER, prior=Prior(sd=0.005, df=df), occasion_sd=0.0, occasions=1)
    assert c.run_sd == pytest.approx(((df / 4 * 2.5e-5 + 1e-4) / (df / 4 + 2)) ** 0.5)
    assert c.df == pytest.approx(df / 4 + 2)


def test_a_prior_far_below_what_runs_differ_by_weighs_nothing() -> None:
    c = compare(BEFORE, AFTER, prior=Prior(sd=1e-5), occasion_sd=0.0, occasions=1)
    assert c.p_slower == pytest.approx(stats.ttest_ind(AFTER, BEFORE, alternative="greater").pvalue)


def test_a_prior_below_what_pairs_differ_by_weighs_less_too() -> None:
    # Differences of 0.01 and 0.03: SS = 2e-4, of one run 1e-4, twice the prior's 5e-5
    c = compare_pairs(np.array([0.01, 0.03]), prior=Prior(sd=5e-5**0.5))
    assert c.run_sd == pytest.approx(((0.5 * 5e-5 + 1e-4) / 1.5) ** 0.5)
    assert c.df == pytest.approx(1.5)


@pytest.mark.parametrize("runs", [[0.0, 0.01], [0.0, 0.004, 0.01], [0.0, 0.0, 0.0, 0.01]])
def test_where_runs_begin_to_belie_the_prior_nothing_jumps(runs: list[float]) -> None:
    sd = float(np.std(runs, ddof=1))
    just_within, just_beyond = (
        compare(np.array(runs), np.array([0.02]), prior=Prior(sd=sd * near), occasion_sd=0.0, occasions=1)
        for near in (1 + 1e-9, 1 - 1e-9)
    )
    assert just_beyond.p_slower == pytest.approx(just_within.p_slower, rel=1e-6)


def test_the_order_of_runs_changes_no_bit() -> None:
    runs = np.array([0.1, 0.7, 0.30000000000000004, 1e-17, 0.2, 0.6])
    for before in (runs, runs * 0.01):
        one = compare(before, runs[:3], prior=Prior(sd=0.005), occasion_sd=0.005, occasions=3)
        other = compare(before[::-1], runs[2::-1], prior=Prior(sd=0.005), occasion_sd=0.005, occasions=3)
        assert one == other


def test_an_occasion_sd_far_above_the_run_sd_leaves_df_finite() -> None:
    c = compare(BEFORE, AFTER, prior=Prior(sd=0.005), occasion_sd=1e100, occasions=1)
    assert c.df == 1e9
    assert c.p_slower == pytest.approx(0.5)


def test_more_candidate_runs_shrink_the_run_term_only() -> None:
    three = Comparison(
        estimate=0.01,
        run_sd=0.01,
        prior_df=2.0,
        baseline_runs=10,
        candidate_runs=3,
        occasion_sd=0.005,
        occasions=5,
    )
    eight = three.with_more_runs(5)
    assert eight.candidate_runs == 8
    assert eight.standard_error**2 == pytest.approx(1e-4 * (1 / 10 + 1 / 8) + 2.5e-5 * 1.2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3.0], 3.0), ([3.0, 1.0], 2.0), ([5.0, 1.0, 3.0], 3.0), ([1.7e308, 1.6e308], 1.65e308), ([5e-324] * 2, 5e-324)],
)
def test_the_middle_is_the_median_and_stays_finite(values: list[float], expected: float) -> None:
    assert middle(values) == pytest.approx(expected, rel=1e-15, abs=0)


def test_pairs_are_compared_by_their_differences() -> None:
    """A paired t test: mean 0.02, SD of the differences 0.01, four of them, and no prior to speak of."""
    differences = np.array([0.01, 0.02, 0.02, 0.03])
    own = float(np.std(differences, ddof=1))
    found = compare_pairs(differences, prior=Prior(sd=0.0, df=1e-12))
    assert found.estimate == pytest.approx(0.02)
    assert found.standard_error == pytest.approx(own / 2)
    assert found.df == pytest.approx(3)
    assert found.in_pairs


def test_the_prior_of_pairs_is_that_of_one_run() -> None:
    found = compare_pairs(np.array([0.02]), prior=Prior(sd=0.007))
    assert found.run_sd == pytest.approx(0.007)
    assert found.standard_error == pytest.approx(0.007 * 2**0.5)
    assert found.run_df == 2


def occasions_of(*means: float, apart: float = 0.001, runs: int = 2) -> list[Floats]:
    """Occasions of these means, the runs of each spread evenly around its own."""
    return [np.array([mean + apart * (run - (runs - 1) / 2) for run in range(runs)]) for mean in means]


@pytest.mark.parametrize(
    "occasions",
    [
        pytest.param(occasions_of(0.0, 0.004, -0.004), id="within what is believed"),
        pytest.param(occasions_of(0.0, 0.04), id="two"),
        pytest.param(occasions_of(0.0, 0.04, -0.04, runs=1), id="single runs"),
        pytest.param([], id="not known"),
    ],
)
def test_occasions_that_do_not_belie_it_leave_what_is_believed_of_them(
    occasions: list[Floats],
) -> None:
    assert occasions_apart(occasions, believed=0.005, prior=Prior(sd=0.005)) == 0.005


def test_occasions_farther_apart_than_is_believed_say_by_how_much() -> None:
    # MSB = (2 * 0.02^2 + 2 * 0.02^2) / 2 = 8e-4; v = (2 * 0.005^2 + 3 * 5e-7) / 5 = 1.03e-5, n0 = 2
    found = occasions_apart(occasions_of(0.0, 0.02, -0.02), believed=0.005, prior=Prior(sd=0.005))
    assert found**2 == pytest.approx((2 * 0.005**2 + 2 * (8e-4 - 1.03e-5) / 2) / 4)
    shuffled = occasions_of(-0.02, 0.0, 0.02)[::-1]
    assert occasions_apart(shuffled, believed=0.005, prior=Prior(sd=0.005)) == found
