"""The plan of looks, and what is a loss at each."""

from __future__ import annotations

import pytest

from perfgate.judge.compare import Comparison
from perfgate.judge.stages import CLEAR, LOOKS, STORED, losses_at, next_look


def comparison(estimate: float) -> Comparison:
    """With a standard error of 0.5 % and so many df that t is normal."""
    return Comparison(
        estimate=estimate,
        run_sd=0.0005,
        prior_df=1e6,
        baseline_runs=2,
        candidate_runs=2,
        occasion_sd=0.005 * (0.99 / 2) ** 0.5,
        occasions=1,
    )


def test_the_looks_are_3_5_8_and_10_runs_and_one_run_can_only_pass() -> None:
    assert [look.runs for look in LOOKS if look.losses] == [3, 5, 8, 10]
    assert [losses_at(runs) for runs in (0, 1, 2)] == [(), (), ()]
    assert losses_at(3) == losses_at(4) == (CLEAR, STORED)
    assert losses_at(5) == losses_at(9) == losses_at(10) == losses_at(99) == (STORED,)


@pytest.mark.parametrize(
    ("runs", "max_runs", "expected"),
    [
        (1, 10, 3),
        (2, 10, 3),
        (3, 10, 5),
        (4, 10, 5),
        (5, 10, 8),
        (8, 10, 10),
        (10, 10, 10),
        (3, 4, 4),
        (5, 6, 6),
        (1, 2, 2),
        (1, 1, 1),
        (5, 3, 5),
        (11, 20, 11),
    ],
)
def test_the_next_look_is_the_plans_or_the_last_run_allowed(runs: int, max_runs: int, expected: int) -> None:
    assert next_look(runs, max_runs=max_runs) == expected


@pytest.mark.parametrize("first", range(1, 11))
@pytest.mark.parametrize("max_runs", range(1, 11))
def test_no_choice_of_first_and_last_run_looks_for_losses_more_than_four_times(first: int, max_runs: int) -> None:
    looks = [first]
    while (following := next_look(looks[-1], max_runs=max_runs)) > looks[-1]:
        looks.append(following)
    assert sum(bool(losses_at(look)) for look in looks) <= 4


def test_a_stored_loss_needs_half_a_budget_and_p_at_a_quarter_of_alpha() -> None:
    # one-sided normal quantiles: 0.0025 -> 2.807, 0.0005 -> 3.291 standard errors of 0.5 %
    def loses(estimate: float, *, budget: float = 0.02, clocks: int = 1) -> bool:
        return STORED.shown(comparison(estimate), budget=budget, clocks=clocks, separated=False)

    assert [loses(0.0140), loses(0.0141)] == [False, True]
    assert [loses(0.0164, clocks=5), loses(0.0165, clocks=5)] == [False, True]
    assert [loses(0.0249, budget=0.05), loses(0.0250, budget=0.05)] == [False, True]


def test_a_clear_loss_needs_two_budgets_and_every_run_slower() -> None:
    def loses(estimate: float, *, separated: bool = True, clocks: int = 1) -> bool:
        return CLEAR.shown(comparison(estimate), budget=0.01, clocks=clocks, separated=separated)

    assert [loses(0.0199), loses(0.0200)] == [False, True]
    assert loses(0.0200, separated=False) is False
    assert [loses(0.0200, clocks=15), loses(0.0200, clocks=16)] == [True, False]  # 4 standard errors: p 3.17e-5


def test_the_smallest_loss_is_half_a_budget_or_what_the_error_allows() -> None:
    assert STORED.smallest(comparison(0.0), budget=0.05, clocks=1) == 0.025
    assert STORED.smallest(comparison(0.0), budget=0.02, clocks=1) == pytest.approx(2.807 * 0.005, rel=1e-3)
