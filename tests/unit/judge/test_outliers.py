"""Which runs are set aside as gross outliers."""

from __future__ import annotations

import numpy as np
import pytest

from perfgate.judge.compare import Prior
from perfgate.judge.outliers import hides_loss, in_opposite_modes, keep, more_by_chance

QUIET = [0.0, 0.001, -0.001, 0.002, -0.002]


def kept(*groups: list[float], budget: float = 0.02, prior_sd: float = 0.005) -> list[list[bool]]:
    flags = keep([np.array(group) for group in groups], prior=Prior(sd=prior_sd), budget=budget).flags
    return [[bool(flag) for flag in group] for group in flags]


def test_nothing_is_dropped_from_quiet_runs() -> None:
    assert kept(QUIET, QUIET[:3]) == [[True] * 5, [True] * 3]


def test_a_run_far_from_its_own_group_is_dropped_however_fast() -> None:
    assert kept([*QUIET, -0.3], [0.0, 0.3, 0.001]) == [[True] * 5 + [False], [True, True, True]]


def test_a_shift_of_a_whole_group_drops_nothing() -> None:
    assert kept(QUIET, [0.5, 0.501, 0.499]) == [[True] * 5, [True] * 3]


@pytest.mark.parametrize(("distance", "drops"), [(0.0399, False), (0.0401, True)])
def test_the_threshold_is_two_budgets_where_runs_are_quiet(distance: float, drops: bool) -> None:
    assert kept([0.0] * 10, [0.0, 0.0, distance], prior_sd=0.0)[1][2] is not drops


@pytest.mark.parametrize(("distance", "drops"), [(0.0219, False), (0.0221, True)])
def test_the_threshold_is_five_moderated_scales_where_budgets_are_small(distance: float, drops: bool) -> None:
    # MAD 0: scale^2 = d0 s0^2 / (d0 + nu), nu = 0.4 (13 - 2) = 4.4; five scales of s0 0.00786 are 0.02197
    prior_sd = 0.0044 * (6.4 / 2) ** 0.5
    assert kept([0.0] * 10, [0.0, 0.0, distance], budget=0.001, prior_sd=prior_sd)[1][2] is not drops


def test_runs_of_a_host_that_became_noisier_are_no_outliers_among_themselves() -> None:
    # 5 scales of the noisy group: mad = 1.4826 * 0.05 * 5 / 4.1, df 1.6, and 2 of the prior's 0.005
    noisy = [0.0, 0.05, -0.05, 0.09, -0.1]
    assert kept([0.0] * 20, noisy, budget=0.002) == [[True] * 20, [True] * 5]
    assert kept([0.0] * 20, [*noisy[:4], -0.4], budget=0.002) == [[True] * 20, [True] * 4 + [False]]
    # four are too few to say so of themselves
    assert kept([0.0] * 21, noisy[:3] + noisy[4:], budget=0.002) == [[True] * 21, [True] * 4]
    assert kept([0.0] * 21, [0.0, 0.001, -0.001, 0.05], budget=0.002)[1] == [True, True, True, False]


def test_half_a_group_is_a_mode_and_stays() -> None:
    assert kept([0.0] * 20, [0.0, 0.3]) == [[True] * 20, [True, True]]
    assert kept([0.0] * 16, [0.0, 0.0, 0.4, 0.4]) == [[True] * 16, [True] * 4]


def test_at_most_a_fifth_of_all_runs_is_dropped_and_the_farthest_first() -> None:
    # 13 runs: two at most
    baseline = [0.0] * 7 + [0.3, 0.5, 0.4]
    assert kept(baseline, [0.0] * 3)[0] == [True] * 8 + [False, False]


def test_four_runs_are_too_few_to_drop_one() -> None:
    assert kept([0.0], [0.0, 0.0, 9.0]) == [[True], [True] * 3]


def test_of_two_equally_far_the_slow_one_goes_whatever_the_order() -> None:
    assert kept([0.0] * 4 + [0.5, -0.5], [0.0])[0] == [True] * 4 + [False, True]
    assert kept([-0.5, 0.5] + [0.0] * 4, [0.0])[0] == [True, False] + [True] * 4


def test_outliers_that_had_to_be_kept_are_told() -> None:
    """Two of three are no outliers but a mode; of one, the scale does not speak."""
    crowded = keep([np.zeros(10), np.array([0.0, 0.3, 0.4, 0.0, 0.5])], prior=Prior(sd=0.005), budget=0.02)
    assert [int((~flags).sum()) for flags in crowded.flags] == [0, 0]
    assert crowded.crowded
    assert crowded.scale < 0.01
    single = keep([np.zeros(10), np.array([0.0, 0.0, 0.3])], prior=Prior(sd=0.005), budget=0.02)
    assert [int((~flags).sum()) for flags in single.flags] == [0, 1]
    assert not single.crowded


# Two modes


FAST, SLOW = 0.0, 0.5
THRESHOLD = 0.04


@pytest.mark.parametrize(
    ("fast", "slow", "by_chance"),
    [
        pytest.param([FAST] * 7 + [SLOW], [SLOW] * 6 + [FAST] * 2, True, id="both in both modes"),
        pytest.param([FAST] * 10, [SLOW] * 3, False, id="each in its own"),
        # One of ten and three of three: 4 of 286 choices.
        pytest.param([FAST] * 9 + [SLOW], [SLOW] * 3, True, id="one stray, three runs"),
        # One of eight and eight of eight: 9 of 12870.
        pytest.param([FAST] * 7 + [SLOW], [SLOW] * 8, False, id="one stray, eight runs"),
        # 45 of 12870, and 165 of them.
        pytest.param([FAST] * 6 + [SLOW] * 2, [SLOW] * 8, False, id="two strays of eight"),
        pytest.param([FAST] * 5 + [SLOW] * 3, [SLOW] * 8, True, id="three strays of eight"),
        pytest.param([FAST] * 8, [SLOW] * 7 + [FAST], False, id="one stray of the slow side"),
        pytest.param([FAST] * 7 + [-SLOW], [SLOW] * 3, False, id="an outlier that is no stray"),
    ],
)
def test_a_mode_met_more_often_by_chance_is_told_from_a_change(
    fast: list[float], slow: list[float], by_chance: bool
) -> None:
    assert more_by_chance(np.array(fast), np.array(slow), THRESHOLD, middle=(FAST + SLOW) / 2) == by_chance


def test_what_overlaps_without_being_an_outlier_is_no_stray() -> None:
    fast, slow = np.array([0.0, 0.03, -0.02]), np.array([0.01, 0.02, 0.04])
    assert not more_by_chance(fast, slow, THRESHOLD, middle=0.015)


@pytest.mark.parametrize(
    ("slow", "fast", "opposite"),
    [
        ([SLOW, SLOW, FAST], [FAST, FAST, SLOW], True),
        # The fast side runs 10 % longer in either mode: the modes lie as far apart.
        ([SLOW, SLOW, FAST], [FAST + 0.1, FAST + 0.1, SLOW + 0.1], True),
        ([SLOW, SLOW, FAST], [FAST, FAST, FAST], False),
        ([SLOW, SLOW, SLOW], [FAST, FAST, SLOW], False),
        ([FAST, FAST, SLOW], [FAST, FAST, SLOW], False),
        pytest.param([SLOW, SLOW, FAST], [FAST, FAST, 0.3], False, id="an outlier of its own"),
    ],
)
def test_sides_in_opposite_modes_have_met_the_other_ones_too(
    slow: list[float], fast: list[float], opposite: bool
) -> None:
    assert in_opposite_modes(np.array(slow), np.array(fast), THRESHOLD) == opposite


BETWEEN = 0.3


@pytest.mark.parametrize(
    ("before", "after", "hidden"),
    [
        pytest.param([SLOW, SLOW, FAST], [BETWEEN] * 3, True, id="slower than the fast run before"),
        pytest.param([SLOW] * 3, [BETWEEN, BETWEEN, BETWEEN + SLOW], True, id="its slow run slower than any before"),
        pytest.param([SLOW, SLOW, FAST], [FAST + 0.019] * 3, False, id="as fast as the fast run before"),
        pytest.param([SLOW, SLOW, FAST], [FAST - 0.1] * 3, False, id="faster than all before"),
        pytest.param([SLOW] * 3, [BETWEEN, BETWEEN, SLOW + 0.019], False, id="its slow run as slow as those before"),
        pytest.param([SLOW] * 3, [BETWEEN] * 3, False, id="no modes to be seen"),
        pytest.param([SLOW, SLOW, FAST], [SLOW - 0.019] * 3, False, id="no gain to speak of"),
        # All five of five and one of five: 5 of 210 choices. With two of five 10 of 120.
        pytest.param([SLOW] * 4 + [FAST], [BETWEEN] * 5, False, id="hardly by chance"),
        pytest.param([SLOW] * 3 + [FAST] * 2, [BETWEEN] * 5, True, id="perhaps by chance"),
        # One of ten and three of three: 10 of 715.
        pytest.param([SLOW] * 9 + [FAST], [BETWEEN] * 3, False, id="an outlier of many"),
    ],
)
def test_a_gain_against_the_slower_mode_may_hide_a_loss_against_the_faster(
    before: list[float], after: list[float], hidden: bool
) -> None:
    assert hides_loss(np.array(before), np.array(after), THRESHOLD, budget=0.02) == hidden
