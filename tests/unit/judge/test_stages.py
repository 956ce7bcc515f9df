"""The plan of looks, and what is a loss at each."""

from __future__ import annotations

import pytest

from perfgate.judge.compare import Comparison
from perfgate.judge.stages import CLEAR, DUEL, DUET_PLAN, SCREEN_PLAN, STORED, STORED_PLAN, Loss, Plan


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
    plan = STORED_PLAN
    assert [look.runs for look in plan.looks] == [3, 5, 8, 10]
    assert [plan.losses_at(runs) for runs in (0, 1, 2)] == [(), (), ()]
    assert plan.losses_at(3) == plan.losses_at(4) == (CLEAR, STORED)
    assert plan.losses_at(5) == plan.losses_at(9) == plan.losses_at(10) == plan.losses_at(99) == (STORED,)
    assert (plan.fewest_to_fail, plan.most_runs) == (3, 10)


def test_a_screen_looks_once_and_a_duet_after_3_5_and_8_pairs() -> None:
    assert [(look.runs, look.losses) for look in SCREEN_PLAN.looks] == [(3, (CLEAR,))]
    assert [(look.runs, look.losses) for look in DUET_PLAN.looks] == [(3, (DUEL,)), (5, (DUEL,)), (8, (DUEL,))]
    assert [SCREEN_PLAN.next_look(runs, max_runs=19) for runs in (1, 3, 4)] == [3, 3, 4]
    assert [DUET_PLAN.next_look(pairs, max_runs=8) for pairs in (1, 3, 5, 8)] == [3, 5, 8, 8]
    assert DUET_PLAN.next_look(5, max_runs=6) == 6


def test_the_levels_of_all_looks_of_a_plan_add_up_to_one_per_cent() -> None:
    assert sum(STORED.alpha for _ in STORED_PLAN.looks) == pytest.approx(0.01)
    assert sum(DUEL.alpha for _ in DUET_PLAN.looks) == pytest.approx(0.01)
    assert CLEAR.alpha == 0.0005


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
    assert STORED_PLAN.next_look(runs, max_runs=max_runs) == expected


@pytest.mark.parametrize("plan", [SCREEN_PLAN, STORED_PLAN, DUET_PLAN], ids=lambda plan: plan.stage)
@pytest.mark.parametrize("first", range(1, 11))
@pytest.mark.parametrize("max_runs", range(1, 11))
def test_no_choice_of_first_and_last_run_looks_for_losses_more_often(plan: Plan, first: int, max_runs: int) -> None:
    looks = [first]
    while (following := plan.next_look(looks[-1], max_runs=max_runs)) > looks[-1]:
        looks.append(following)
    assert sum(bool(plan.losses_at(look)) for look in looks) <= len(plan.looks)


def is_shown(loss: Loss, comparison: Comparison, *, budget: float, shares: int, separated: bool) -> bool:
    level = loss.level(comparison, budget=budget, separated=separated)
    return level is not None and level * shares <= 1


def test_a_stored_loss_needs_half_a_budget_and_p_at_a_quarter_of_alpha() -> None:
    # one-sided normal quantiles: 0.0025 -> 2.807, 0.0005 -> 3.291 standard errors of 0.5 %
    def loses(estimate: float, *, budget: float = 0.02, shares: int = 1) -> bool:
        return is_shown(STORED, comparison(estimate), budget=budget, shares=shares, separated=False)

    assert [loses(0.0140), loses(0.0141)] == [False, True]
    assert [loses(0.0164, shares=5), loses(0.0165, shares=5)] == [False, True]
    assert [loses(0.0249, budget=0.05), loses(0.0250, budget=0.05)] == [False, True]


def test_a_clear_loss_needs_two_budgets_and_every_run_slower() -> None:
    def loses(estimate: float, *, separated: bool = True, shares: int = 1) -> bool:
        return is_shown(CLEAR, comparison(estimate), budget=0.01, shares=shares, separated=separated)

    assert [loses(0.0199), loses(0.0200)] == [False, True]
    assert loses(0.0200, separated=False) is False
    assert [loses(0.0200, shares=15), loses(0.0200, shares=16)] == [True, False]  # 4 standard errors: p 3.17e-5


def test_the_smallest_loss_is_half_a_budget_or_what_the_error_allows() -> None:
    assert STORED.smallest(comparison(0.0), budget=0.05, shares=1) == 0.025
    assert STORED.smallest(comparison(0.0), budget=0.02, shares=1) == pytest.approx(2.807 * 0.005, rel=1e-3)
