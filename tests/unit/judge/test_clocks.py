"""One clock against its budget: the rules, the row and its sentence."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfgate.judge.clocks import ClockJudgement, ClockRule, at_level, judge_clock
from perfgate.judge.compare import Prior
from perfgate.judge.stages import DUET_PLAN, INTERLEAVED_PLAN
from perfgate.judge.words import told_change
from perfgate.model.metric import Basis, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Dropped, MetricVerdict

STEP = ClockRule(
    metric=Metric.STEP_MS,
    basis=Basis.LOG,
    budget=0.02,
    prior=Prior(sd=0.005),
    occasion_sd=0.005,
    occasions=5,
    clocks=5,
)
KERNEL = replace(STEP, metric=Metric.KERNEL_MS, budget=0.01, prior=Prior(sd=0.001), occasion_sd=0.001)
GAP = replace(STEP, metric=Metric.GAP_MS, basis=Basis.STEP, budget=0.01, prior=Prior(sd=0.003), occasion_sd=0.002)

BLESSED = [10.0, 10.02, 9.98, 10.01, 9.99] * 2


def judged(
    now: list[float], *, rule: ClockRule = STEP, blessed: list[float] = BLESSED, step_ms: float | None = 10.0
) -> ClockJudgement:
    return judge_clock(rule, blessed, now, step_ms=step_ms)


def times(factor: float, runs: int = 3) -> list[float]:
    return [value * factor for value in BLESSED[:runs]]


def decided(row: MetricVerdict, *, may_fail: bool = True) -> Outcome:
    """What the interval that is shown comes to."""
    assert row.low is not None
    assert row.high is not None
    assert row.change is not None
    assert row.budget is not None
    assert row.reason == told_change(row.change, row.low, row.high, budget=row.budget, basis=row.basis or Basis.LOG)
    if row.high < row.budget:
        return Outcome.IMPROVED if row.change < -row.budget else Outcome.PASSED
    return Outcome.REGRESSED if row.low > 0 and may_fail else Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("factor", "runs", "outcome"),
    [
        (1.0, 3, Outcome.PASSED),
        (1.0, 1, Outcome.PASSED),
        (1.008, 3, Outcome.PASSED),
        (1.016, 3, Outcome.INCONCLUSIVE),
        (1.03, 1, Outcome.INCONCLUSIVE),
        (1.03, 3, Outcome.REGRESSED),
        (1.03, 4, Outcome.REGRESSED),
        (0.99, 3, Outcome.PASSED),
        (0.95, 3, Outcome.IMPROVED),
        (2.0, 3, Outcome.REGRESSED),
    ],
)
def test_step_time_is_judged_by_the_interval_that_is_shown(factor: float, runs: int, outcome: Outcome) -> None:
    row = judged(times(factor, runs)).row
    assert (row.outcome, decided(row, may_fail=runs >= 3)) == (outcome, outcome)


@pytest.mark.parametrize("runs", [1, 2])
def test_a_clock_never_fails_before_three_runs(runs: int) -> None:
    row = judged(times(2.0, runs)).row
    assert (row.outcome, row.smallest) == (Outcome.INCONCLUSIVE, None)


def test_within_budget_comes_before_a_loss_that_is_shown_but_small() -> None:
    # kernel time repeats so well that +0.6 % is certain (p < 1e-5): it is a loss, and shown to be within budget
    row = judged([10.06, 10.061, 10.059], rule=KERNEL, blessed=[10.0, 10.001, 9.999, 10.0, 10.0] * 2).row
    assert row.outcome is Outcome.PASSED
    assert row.p_value is not None
    assert row.p_value < 1e-5


def test_one_percent_of_kernel_time_is_found_by_three_runs() -> None:
    blessed = [8.0, 8.002, 7.998, 8.001, 7.999] * 2
    row = judged([8.08, 8.081, 8.079], rule=KERNEL, blessed=blessed).row
    assert (row.outcome, decided(row)) == (Outcome.REGRESSED, Outcome.REGRESSED)


@pytest.mark.parametrize(
    ("added_ms", "outcome"),
    [
        (0.0, Outcome.PASSED),
        (0.08, Outcome.INCONCLUSIVE),
        (0.2, Outcome.REGRESSED),
        (-0.2, Outcome.IMPROVED),
    ],
)
def test_gaps_are_judged_in_shares_of_the_baselines_step(added_ms: float, outcome: Outcome) -> None:
    blessed = [1.0, 1.02, 0.98, 1.01, 0.99] * 2
    row = judged([1.0 + added_ms] * 3, rule=GAP, blessed=blessed).row
    assert (row.outcome, decided(row)) == (outcome, outcome)


def test_the_row_says_all_that_decided() -> None:
    row = judged([10.3] * 3, blessed=[10.0] * 10).row
    assert row.baseline == pytest.approx(10.0)
    assert row.now == pytest.approx(10.3)
    assert row.change == pytest.approx(0.03)
    assert (row.budget, row.basis) == (0.02, Basis.LOG)
    # v = 2 * 0.005^2 / 13, SE^2 = v (1/10 + 1/3) + 0.005^2 * 1.2, df = 13 (SE^2 / first term)^2: t is normal here
    error = math.sqrt(2 * 0.005**2 / 13 * (1 / 10 + 1 / 3) + 0.005**2 * 1.2)
    assert row.low == pytest.approx(math.exp(math.log(1.03) - 3.2920 * error) - 1, rel=1e-3)
    assert row.high == pytest.approx(math.exp(math.log(1.03) + 1.9600 * error) - 1, rel=1e-3)
    assert row.standard_error == pytest.approx(error)
    assert at_level(row, 0.025).low == pytest.approx(math.exp(math.log(1.03) - 1.9600 * error) - 1, rel=1e-3)
    bare = row.model_copy(update={"low": None})
    assert at_level(bare, 0.025) is bare
    assert row.smallest == pytest.approx(math.exp(3.2920 * error) - 1, rel=1e-3)
    assert row.p_value == pytest.approx(7.82e-8, rel=0.01)


def test_what_is_shown_as_smallest_is_where_losses_begin() -> None:
    smallest = judged([10.0] * 3, blessed=[10.0] * 10).row.smallest
    assert smallest is not None
    outcomes = [judged([10.0 * (1 + smallest * f)] * 3, blessed=[10.0] * 10).row.outcome for f in (0.999, 1.001)]
    assert outcomes == [Outcome.INCONCLUSIVE, Outcome.REGRESSED]


FAST, SLOW = [5.30, 5.31, 5.29, 5.30, 5.32, 5.28, 5.30, 5.31], [8.20, 8.21, 8.19, 8.20, 8.22, 8.18, 8.20, 8.21]
"""Of a core of two speeds."""


@pytest.mark.parametrize(
    ("blessed", "now", "outcome", "doubted"),
    [
        pytest.param(
            [*FAST[:7], SLOW[0]], [*SLOW[:6], *FAST[:2]], Outcome.INCONCLUSIVE, True, id="both in both, slower"
        ),
        pytest.param(
            [*SLOW[:6], *FAST[:2]], [*FAST[:7], SLOW[0]], Outcome.INCONCLUSIVE, True, id="both in both, faster"
        ),
        pytest.param([*FAST[:7], SLOW[0]], SLOW, Outcome.REGRESSED, False, id="one slow run before, all eight now"),
        pytest.param([*FAST, *FAST[:1], SLOW[0]], SLOW[:3], Outcome.INCONCLUSIVE, True, id="too few to say so"),
        pytest.param([*SLOW, *SLOW[:2]], [*FAST[:2], SLOW[0]], Outcome.PASSED, False, id="a gain that may be none"),
        pytest.param(SLOW, FAST, Outcome.IMPROVED, False, id="a gain that is one"),
        pytest.param(
            [*SLOW[:2], FAST[0]], [5.6, 5.61, 5.59], Outcome.INCONCLUSIVE, True, id="a gain that may hide 6 % more"
        ),
        pytest.param([*FAST[:7], SLOW[0]], [*FAST[:7], SLOW[1]], Outcome.PASSED, False, id="the same in both"),
    ],
)
def test_of_two_modes_only_what_chance_does_not_explain_is_a_change(
    blessed: list[float], now: list[float], outcome: Outcome, doubted: bool
) -> None:
    rule = replace(STEP, occasion_sd=0.0, clocks=1, plan=DUET_PLAN)
    found = judged(now, rule=rule, blessed=blessed)
    assert (found.row.outcome, found.may_be_modes) == (outcome, doubted)
    assert (found.level is not None) == (outcome is Outcome.REGRESSED)


def test_what_two_modes_may_have_made_is_no_loss_either_where_other_workloads_leave_more_to_spend() -> None:
    blessed, now = [*FAST[:7], SLOW[0]], [*SLOW[:6], *FAST[:2]]
    many = replace(STEP, occasion_sd=0.0, clocks=1, workloads=10**100, plan=DUET_PLAN)
    found = judged(now, rule=many, blessed=blessed)
    assert found.comparison is not None
    assert found.rule.level(found.comparison, runs=8, separated=False) is not None
    assert (found.row.outcome, found.level) == (Outcome.INCONCLUSIVE, None)


def test_a_gross_outlier_is_set_aside_and_shown_and_the_rest_decides() -> None:
    found = judged([10.0, 10.01, 13.0], blessed=[*BLESSED[:9], 7.0])
    assert found.row.outcome is Outcome.PASSED
    assert found.row.now == pytest.approx(10.005, rel=1e-6)
    fast, slow = found.dropped
    assert fast == Dropped(side="baseline", index=9, metric=Metric.STEP_MS, distance=fast.distance)
    assert slow == Dropped(side="candidate", index=2, metric=Metric.STEP_MS, distance=slow.distance)
    assert [fast.distance, slow.distance] == pytest.approx([-0.3, 13 / 10.01 - 1])
    assert found.comparison is not None
    assert (found.comparison.baseline_runs, found.comparison.candidate_runs) == (9, 2)


@pytest.mark.parametrize(
    ("blessed", "now", "outcome", "reason"),
    [
        ([0.0] * 3, [0.0] * 3, Outcome.PASSED, "0 in every run, as in the baseline"),
        ([0.0] * 3, [0.2] * 3, Outcome.REGRESSED, "rose from 0 to 0.2 ms per step"),
        ([0.0] * 3, [0.2] * 2, Outcome.INCONCLUSIVE, "rose from 0 to 0.2 ms per step"),
        ([1.5] * 3, [0.0] * 3, Outcome.NOT_MEASURED, "1.5 ms per step in the baseline, 0 in every run"),
        (
            [1.5] * 3,
            [1.5, 0.0, 1.5],
            Outcome.INCONCLUSIVE,
            "not above 0 in 1 of 3 runs, which leaves no relative change to judge",
        ),
        (
            [1.5, 0.0],
            [-1.0],
            Outcome.INCONCLUSIVE,
            "not above 0 in 1 of 2 baseline runs and 1 of 1 run, which leaves no relative change to judge",
        ),
    ],
)
def test_zeros_of_a_relative_clock_are_judged_apart(
    blessed: list[float], now: list[float], outcome: Outcome, reason: str
) -> None:
    found = judged(now, rule=KERNEL, blessed=blessed)
    assert (found.row.outcome, found.row.reason) == (outcome, reason)
    assert found.comparison is None


def test_zeros_of_a_clock_on_the_steps_basis_are_numbers_like_others() -> None:
    assert judged([0.0] * 3, rule=GAP, blessed=[0.0] * 3).row.outcome is Outcome.PASSED
    assert judged([1.0] * 3, rule=GAP, blessed=[0.0] * 3).row.outcome is Outcome.REGRESSED


@pytest.mark.parametrize("step_ms", [None, 0.0, -1.0])
def test_without_a_step_time_a_share_of_it_is_not_measured(step_ms: float | None) -> None:
    row = judged([1.0] * 3, rule=GAP, blessed=[1.0] * 3, step_ms=step_ms).row
    assert row.outcome is Outcome.NOT_MEASURED
    assert row.reason == "the baseline holds no step time to measure it against"


def test_where_the_runs_have_no_step_time_either_they_say_why() -> None:
    why = "needs 3 steps, the capture holds 2"
    row = judge_clock(GAP, [1.0] * 3, [1.0] * 3, step_ms=None, why_no_step=why).row
    assert row.outcome is Outcome.NOT_MEASURED
    assert row.reason == "neither side holds a step time to measure it against: needs 3 steps, the capture holds 2"


@pytest.mark.parametrize(
    ("rule", "blessed", "now"),
    [
        (STEP, [1e-308, 1e308], [1.0]),
        (GAP, [1e300], [1e-300]),
        (replace(STEP, occasion_sd=1e200), [1.0], [1.0]),
        (replace(STEP, prior=Prior(sd=1e200)), [1.0], [1.0]),
    ],
)
def test_numbers_that_cannot_be_squared_are_inconclusive(
    rule: ClockRule, blessed: list[float], now: list[float]
) -> None:
    row = judged(now, rule=rule, blessed=blessed).row
    assert (row.outcome, row.reason) == (Outcome.INCONCLUSIVE, "its values lie too far apart to be compared")


def test_a_change_beyond_doubles_is_still_a_loss() -> None:
    row = judged([1e295] * 3, blessed=[1e-10] * 3).row
    assert row.outcome is Outcome.REGRESSED
    assert row.change is not None
    assert math.isfinite(row.change)


def test_a_calibrated_clock_uses_its_own_spread() -> None:
    noisy = replace(STEP, prior=Prior(sd=0.05), occasion_sd=0.03)
    assert judged(times(1.05), rule=noisy).row.outcome is Outcome.INCONCLUSIVE
    assert judged(times(1.05)).row.outcome is Outcome.REGRESSED


def test_a_budget_of_zero_passes_only_what_is_shown_faster() -> None:
    strict = replace(STEP, budget=0.0)
    assert judged(times(1.0), rule=strict).row.outcome is Outcome.INCONCLUSIVE
    assert judged(times(0.95), rule=strict).row.outcome is Outcome.IMPROVED


APART = [10.0, 10.01, 10.2, 10.21, 9.8, 9.81, 10.15, 10.16, 9.85, 9.86]
"""Five occasions of two runs each, which differ by 2 %, and the runs of one by 0.1 %."""


@pytest.mark.parametrize(
    ("occasion_runs", "guessed", "outcome"),
    [
        ((2, 2, 2, 2, 2), True, Outcome.INCONCLUSIVE),
        ((), True, Outcome.REGRESSED),
        pytest.param((2, 2, 2, 2, 2), False, Outcome.REGRESSED, id="calibrated"),
    ],
)
def test_a_baseline_whose_occasions_lie_apart_is_one_more_of_them_away_from_the_candidate(
    occasion_runs: tuple[int, ...], guessed: bool, outcome: Outcome
) -> None:
    rule = replace(STEP, occasions=5, occasion_guessed=guessed, occasion_runs=occasion_runs)
    found = judged([10.45 + 0.001 * run for run in range(10)], rule=rule, blessed=APART)
    assert found.row.outcome is outcome


def test_pairs_of_which_a_side_is_missing_are_not_compared() -> None:
    row = judged(BLESSED[:3], rule=replace(STEP, plan=INTERLEAVED_PLAN), blessed=BLESSED[:4]).row
    assert (row.outcome, row.reason) == (Outcome.INCONCLUSIVE, "not every run has the other of its pair")
