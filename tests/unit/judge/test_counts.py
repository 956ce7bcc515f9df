"""Counts: exact where the baseline was, confirmed by a second process."""

from __future__ import annotations

import pytest

from perfgate.judge.counts import CountJudgement, judge_count
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome


def judged(blessed: list[float], now: list[float], max_runs: int = 10) -> CountJudgement:
    return judge_count(Metric.SYNCS, blessed, now, max_runs=max_runs)


@pytest.mark.parametrize(
    ("blessed", "now", "outcome", "reason"),
    [
        ([1, 1], [1, 1, 1], Outcome.PASSED, "unchanged (exact)"),
        ([1, 1], [1 + 1e-12], Outcome.PASSED, "unchanged (exact)"),
        ([0, 0], [0], Outcome.PASSED, "unchanged (exact)"),
        ([1, 1], [2, 2, 2], Outcome.REGRESSED, "rose from 1 to 2 per step (exact)"),
        ([1, 1], [1.5, 1.5], Outcome.REGRESSED, "rose from 1 to 1.5 per step (exact)"),
        ([0, 0], [1, 1], Outcome.REGRESSED, "rose from 0 to 1 per step (exact)"),
        ([1, 1], [1, 2, 1, 2], Outcome.REGRESSED, "rose from 1 to 2 per step (exact)"),
        ([2, 2], [1, 1, 1], Outcome.IMPROVED, "fell from 2 to 1 per step (exact)"),
        ([2, 2], [1], Outcome.IMPROVED, "fell from 2 to 1 per step (exact)"),
        ([4, 6], [7, 8], Outcome.REGRESSED, "rose from 6 to 7.5 per step (not exact: 4 to 6 in the baseline)"),
        ([4, 6], [6, 5], Outcome.PASSED, "within its maximum (not exact: 4 to 6 in the baseline)"),
        ([4, 6], [1, 1], Outcome.PASSED, "within its maximum (not exact: 4 to 6 in the baseline)"),
    ],
)
def test_a_count_is_judged(blessed: list[float], now: list[float], outcome: Outcome, reason: str) -> None:
    found = judged(blessed, now)
    assert (found.row.outcome, found.row.reason) == (outcome, reason)
    assert (found.wants_second_run, found.remark) == (False, None)


def test_a_rise_in_the_only_run_so_far_asks_for_a_second() -> None:
    found = judged([1, 1], [2])
    assert found.row.outcome is Outcome.INCONCLUSIVE
    assert found.row.reason == "rose from 1 to 2 per step (exact), to be confirmed by a second run"
    assert found.wants_second_run


def test_a_rise_in_the_only_run_allowed_regresses() -> None:
    found = judged([1, 1], [2], max_runs=1)
    assert found.row.outcome is Outcome.REGRESSED
    assert found.row.reason == "rose from 1 to 2 per step (exact), in the only run allowed"
    assert not found.wants_second_run


def test_a_rise_in_one_of_several_runs_is_not_confirmed_and_remarked_on() -> None:
    found = judged([1, 1], [1, 2, 1])
    assert found.row.outcome is Outcome.PASSED
    assert found.row.reason == "rose from 1 to 2 per step (exact) in 1 of 3 runs, not confirmed"
    assert found.remark == "syncs rose from 1 to 2 per step (exact) in 1 of 3 runs, not confirmed"


def test_a_fall_in_some_runs_only_is_no_gain_and_remarked_on() -> None:
    found = judged([2, 2], [1, 2, 1])
    assert found.row.outcome is Outcome.PASSED
    assert found.remark == "syncs fell from 2 in 2 of 3 runs"


def test_the_row_shows_the_risen_runs_and_a_relative_change() -> None:
    row = judged([2, 2], [2, 2, 3, 3]).row
    assert (row.baseline, row.now, row.change, row.exact) == (2, 3, 0.5, True)
    assert (row.low, row.high, row.p_value, row.budget, row.basis) == (None,) * 5


def test_a_rise_from_zero_has_no_relative_change() -> None:
    assert judged([0, 0], [1, 1]).row.change is None


def test_a_varying_count_is_marked_as_not_exact() -> None:
    assert judged([4, 6], [5]).row.exact is False


def test_a_change_beyond_doubles_is_left_out() -> None:
    assert judged([1e-300], [1e300, 1e300]).row.change is None
