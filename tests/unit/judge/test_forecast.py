"""What is promised before runs are made."""

from __future__ import annotations

import math

import pytest
from scipy.stats import t
from support.judging import blessed

from perfgate.judge.forecast import expected_smallest, smallest_loss
from perfgate.judge.rows import Terms
from perfgate.judge.stages import DUET_PLAN, STORED_PLAN
from perfgate.model.metric import GATED_CLOCKS, Metric

M = Metric


def test_the_smallest_loss_is_the_margin_of_one_look() -> None:
    found = smallest_loss(
        M.GAP_MS, baseline_runs=10, candidate_runs=3, occasions=5, run_sd=0.02, occasion_sd=0.01, budget=0.01
    )
    within = 0.02**2 * (1 / 10 + 1 / 3)
    whole = within + 0.01**2 * (1 + 1 / 5)
    df = (2 + 10 + 3 - 2) * (whole / within) ** 2
    assert found == pytest.approx(t.ppf(1 - 0.01 / 4 / len(GATED_CLOCKS), df) * math.sqrt(whole))


def test_no_occasion_comes_between_the_sides_of_a_duet() -> None:
    sizes = {"baseline_runs": 8, "candidate_runs": 8, "occasions": 1, "run_sd": 0.02}
    duet = smallest_loss(M.GAP_MS, **sizes, occasion_sd=0.01, plan=DUET_PLAN)  # type: ignore[arg-type]
    assert duet == pytest.approx(t.ppf(1 - 0.01 / 3 / len(GATED_CLOCKS), 16) * 0.02 * math.sqrt(2 / 8))


def test_it_is_never_below_half_a_budget() -> None:
    sizes = {"baseline_runs": 10, "candidate_runs": 10, "occasions": 5, "run_sd": 1e-9, "occasion_sd": 0.0}
    assert smallest_loss(M.STEP_MS, **sizes, budget=0.05) == pytest.approx(math.sqrt(1.05) - 1)  # type: ignore[arg-type]


def test_a_count_has_no_smallest_loss() -> None:
    with pytest.raises(ValueError, match="syncs is no clock with a budget"):
        smallest_loss(M.SYNCS, baseline_runs=5, candidate_runs=3, occasions=1, run_sd=0.01, occasion_sd=0.01)


@pytest.mark.parametrize(
    "columns",
    [
        {M.SYNCS: [1.0]},
        {M.STEP_MS: [0.0, 0.0]},
        {M.STEP_MS: [10.0, 0.0]},
        {M.GAP_MS: [1.0, 1.0]},
        {M.STEP_MS: [1e-300, 1e-300, 1e308]},
    ],
    ids=["without the metric", "zeros", "a zero", "without steps", "beyond comparison"],
)
def test_nothing_is_promised_where_nothing_can_be_compared(
    columns: dict[Metric, list[float]],
) -> None:
    metric = M.GAP_MS if M.GAP_MS in columns else M.STEP_MS
    assert expected_smallest(blessed(columns), metric, runs=3, terms=Terms()) is None


def test_what_is_promised_follows_how_much_the_blessed_runs_differ() -> None:
    def promised(*steps: float, runs: int = 3) -> float:
        found = expected_smallest(blessed({M.STEP_MS: list(steps)}), M.STEP_MS, runs=runs, terms=Terms())
        assert found is not None
        return found

    assert promised(10.0, 10.0, 10.0) < promised(9.8, 10.0, 10.2)
    assert promised(9.8, 10.0, 10.2, runs=10) < promised(9.8, 10.0, 10.2)
    assert Terms().plan is STORED_PLAN


def test_one_pair_of_a_noisy_loop_rests_on_what_was_believed_and_shows_least() -> None:
    """Its own runs would leave no degree of freedom to judge by."""
    noisy = blessed({M.STEP_MS: [10.0, 10.4, 9.6, 10.3, 9.7]})
    shown = [expected_smallest(noisy, M.STEP_MS, runs=pairs, terms=Terms(plan=DUET_PLAN)) for pairs in (1, 3, 8)]
    one, three, eight = (0.0 if found is None else found for found in shown)
    assert one > three > eight > 0.02
