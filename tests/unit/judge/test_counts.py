"""Counts: exact where the baseline was, confirmed by a second process; of others, beyond what chance makes."""

from __future__ import annotations

import pytest

from perfgate.judge.counts import CountJudgement, judge_count, same
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome


def judged(blessed: list[float], now: list[float], max_runs: int = 10) -> CountJudgement:
    return judge_count(Metric.SYNCS, blessed, now, max_runs=max_runs, exact=same(blessed))


VARYING = [4.0, 6.0, 5.0, 4.0, 5.0]


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
        (
            VARYING,
            [7, 8] * 3,
            Outcome.REGRESSED,
            "rose from 6 to 7.5 per step (not exact: 4 to 6 in the baseline)",
        ),
        (
            VARYING,
            [7, 8] * 4 + [5],
            Outcome.REGRESSED,
            "rose from 6 to 7.5 per step (not exact: 4 to 6 in the baseline)",
        ),
        (
            VARYING * 2,
            [7] * 3,
            Outcome.REGRESSED,
            "rose from 6 to 7 per step (not exact: 4 to 6 in the baseline)",
        ),
        ([4, 6], [6, 5], Outcome.PASSED, "within its maximum (not exact: 4 to 6 in the baseline)"),
        ([4, 6], [1, 1], Outcome.PASSED, "within its maximum (not exact: 4 to 6 in the baseline)"),
        (
            VARYING,
            [3, 2] * 3,
            Outcome.IMPROVED,
            "fell from 4 to 2.5 per step (not exact: 4 to 6 in the baseline)",
        ),
        (
            VARYING * 2,
            [3] * 3,
            Outcome.IMPROVED,
            "fell from 4 to 3 per step (not exact: 4 to 6 in the baseline)",
        ),
        (
            VARYING,
            [3] * 4,
            Outcome.PASSED,
            "within its maximum (not exact: 4 to 6 in the baseline)",
        ),
        (
            VARYING * 2,
            [3] * 9 + [4],
            Outcome.PASSED,
            "within its maximum (not exact: 4 to 6 in the baseline)",
        ),
        (
            [739, 738, 738, 739, 739],
            [37] * 5,
            Outcome.IMPROVED,
            "fell from 738 to 37 per step (not exact: 738 to 739 in the baseline)",
        ),
        (
            [739, 738, 738, 739, 739],
            [736] * 3,
            Outcome.PASSED,
            "within its maximum (not exact: 738 to 739 in the baseline)",
        ),
    ],
)
def test_a_count_is_judged(
    blessed: list[float], now: list[float], outcome: Outcome, reason: str
) -> None:
    found = judged(blessed, now)
    assert (found.row.outcome, found.row.reason) == (outcome, reason)
    assert (found.wants_second_run, found.remark) == (False, None)


@pytest.mark.parametrize(("now", "told"), [(4.0, "fell from 5 to 4"), (6.0, "rose from 5 to 6")])
def test_a_count_that_is_known_to_vary_is_told_without_a_range_where_it_happened_not_to(
    now: float, told: str
) -> None:
    found = judge_count(Metric.SYNCS, [5.0] * 5, [now] * 5, max_runs=8, exact=False)
    assert found.row.reason == f"{told} per step (not exact)"


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


@pytest.mark.parametrize(
    ("now", "chance", "shown_by"),
    [([7.0], "16.7", 5), ([7.0, 8.0], "4.8", 5), ([7.0] * 3, "1.8", 5), ([7.0] * 4, "0.79", 5)],
)
def test_a_varying_count_that_rose_in_every_run_is_open_while_chance_makes_that(
    now: list[float], chance: str, shown_by: int
) -> None:
    found = judged(VARYING, now, max_runs=1)
    assert found.row.outcome is Outcome.INCONCLUSIVE
    assert found.row.reason.endswith(
        f" in {len(now)} of {len(now)} run{'s' * (len(now) > 1)}, as chance alone has it in {chance} % of gates"
    )
    assert (found.shown_by, found.wants_second_run, found.remark) == (shown_by, False, None)


def test_without_a_spread_no_rise_is_far() -> None:
    few = judge_count(Metric.SYNCS, [4.0] * 5, [20.0] * 3, max_runs=10, exact=False)
    assert few.row.outcome is Outcome.INCONCLUSIVE


def test_a_varying_count_that_rose_in_some_runs_is_remarked_on_with_its_spread() -> None:
    found = judged(VARYING, [7.0, 6.0, 8.0])
    told = (
        "rose from 6 to 7.5 per step (not exact: 4 to 6 in the baseline) in 2 of 3 runs, "
        "as chance alone has it in 10.7 % of gates"
    )
    assert (found.row.outcome, found.row.reason, found.remark) == (
        Outcome.PASSED,
        told,
        f"syncs {told}",
    )


def test_several_varying_counts_share_the_error() -> None:
    def of(runs: int, varying: int, *, in_pairs: bool = False) -> tuple[Outcome | None, int | None]:
        found = judge_count(
            Metric.SYNCS,
            VARYING,
            [7.0] * runs,
            max_runs=10,
            exact=False,
            varying=varying,
            in_pairs=in_pairs,
        )
        return found.row.outcome, found.shown_by

    assert of(5, 1) == (Outcome.REGRESSED, None)
    assert of(5, 2) == (Outcome.INCONCLUSIVE, 6)
    assert of(5, 2, in_pairs=True) == (Outcome.INCONCLUSIVE, 6)
    assert of(5, 100) == (Outcome.INCONCLUSIVE, 16)
    assert of(5, 100, in_pairs=True) == (Outcome.INCONCLUSIVE, 9)
    assert of(5, 10**9) == (Outcome.INCONCLUSIVE, None)


def test_a_change_beyond_doubles_is_left_out() -> None:
    assert judged([1e-300], [1e300, 1e300]).row.change is None
