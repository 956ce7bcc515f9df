"""What a gate can hold on a machine, by what the blessed runs differ by, and what other workloads
of the machine say of how its occasions differ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from scipy import stats
from support.cases import named
from support.judging import Columns, blessed

from perfgate.judge.compare import Learnt
from perfgate.judge.hold import (
    differs_much,
    holds,
    learn,
    may_screen,
    stored_x,
)
from perfgate.judge.look import look_at
from perfgate.judge.looks import AB_PLAN, INTERLEAVED_PLAN, STORED_PLAN, Plan
from perfgate.model.metric import Metric

M = Metric
SHAPE = np.array([0.0, 1.0, -1.0, 0.5, -0.5])
NEAR, FAR = (Learnt(squares=8 * sd**2, df=8) for sd in (0.0005, 0.02))
STORED, PAIRS, BLOCKS = STORED_PLAN, AB_PLAN, INTERLEAVED_PLAN


def steps(sd: float, *, runs: int = 5) -> Columns:
    shape = np.resize(SHAPE, runs)
    return {M.STEP_MS: list(10 * np.exp(sd * shape / np.std(shape, ddof=1)))}


def held(
    columns: Columns,
    plan: Plan,
    metric: Metric = M.STEP_MS,
    *,
    occasions: int = 1,
    runs: int | None = None,
) -> float:
    found = holds(blessed(columns, occasions=occasions), metric, {}, plan, runs=runs)
    assert found is not None
    return found


def test_pairs_hold_what_the_noncentral_t_of_the_blessed_runs_says() -> None:
    error = 0.02 * np.sqrt(2 / 12)
    quantile = stats.nct.ppf(0.975, 4, stats.t.ppf(0.975, 22))
    assert held(steps(0.02), PAIRS) == pytest.approx(np.expm1(error * quantile), rel=1e-3)


def test_the_same_may_be_asked_of_a_fuller_baseline() -> None:
    fuller = holds(blessed(steps(0.003)), M.STEP_MS, {}, fuller=(10, 5))
    assert fuller is not None
    assert fuller < held(steps(0.003), STORED) / 1.5
    assert held(steps(0.02), PAIRS, runs=3) > held(steps(0.02), PAIRS)


@pytest.mark.parametrize(
    ("columns", "metric"),
    named(
        {
            "not there": ({M.STEP_MS: [10.0]}, M.KERNEL_MS),
            "a step of no time": ({M.STEP_MS: [0.0, 10.0]}, M.STEP_MS),
            "beyond all numbers": ({M.STEP_MS: [1e-10], M.GAP_MS: [1e300]}, M.GAP_MS),
        }
    ),
)
def test_of_what_cannot_be_compared_nothing_is_held(columns: Columns, metric: Metric) -> None:
    assert holds(blessed(columns), metric, {}) is None


def test_a_share_of_the_step_is_held_in_its_own_basis() -> None:
    columns = {**steps(0.003), M.GAP_MS: [1.0, 1.05, 0.95, 1.02, 0.98]}
    assert held(columns, BLOCKS, M.GAP_MS) == pytest.approx(0.02)


@pytest.mark.parametrize(("sd", "much"), [(0.003, False), (0.03, True)])
def test_runs_that_differ_by_more_than_a_percent_are_better_compared_in_blocks(
    sd: float, much: bool
) -> None:
    assert differs_much(blessed(steps(sd))) is much
    assert not differs_much(blessed({M.SYNCS: [1.0]}))


def screens(
    columns: Columns,
    budgets: Mapping[Metric, float] | None = None,
    spread: Mapping[Metric, Learnt] | None = None,
) -> bool:
    return may_screen(blessed(columns), budgets or {}, spread or {})


def test_runs_that_differ_too_much_pass_no_screen_but_within_a_wide_budget() -> None:
    assert screens(steps(0.003))
    assert not screens(steps(0.03))
    assert screens(steps(0.03), {M.STEP_MS: 0.2})
    assert screens({M.SYNCS: [1.0] * 5})


def test_what_other_workloads_say_of_occasions_counts_in_a_screen() -> None:
    assert not screens(steps(0.003), spread={M.STEP_MS: FAR})
    assert not screens(steps(0.009))
    assert screens(steps(0.009), spread={M.STEP_MS: NEAR})


@pytest.mark.parametrize("plan", [STORED_PLAN, AB_PLAN])
def test_an_unchanged_candidate_is_below_what_is_held(plan: Plan) -> None:
    """Held at 97.5 %: of 200 drawn loops at most 12 lie beyond, by the pairs or runs of the last
    look."""
    rng, beyond = np.random.default_rng(5), 0
    for _ in range(200):
        x, now, other = (
            rng.normal(scale=0.02, size=5),
            rng.normal(scale=0.02, size=12),
            rng.normal(scale=0.02, size=12),
        )
        baseline = blessed({M.STEP_MS: list(10 * np.exp(x))})
        loss = holds(baseline, M.STEP_MS, {}, plan)
        assert loss is not None
        found = stored_x(baseline, M.STEP_MS, {M.STEP_MS: loss}, plan)
        assert found is not None
        sides = (x - np.median(x), now[:10]) if plan is STORED_PLAN else (other, now)
        beyond += not look_at(found[0], sides, is_last=True).within
    assert beyond <= 12


SHIFTS = (0.0, 0.02, -0.02)


def columns(idle: float) -> Columns:
    """Two runs of each occasion, the same but for the occasion; dealt in turn."""
    steps = [10.0 * float(np.exp(shift)) for shift in (*SHIFTS, *SHIFTS)]
    return {M.STEP_MS: steps, M.GAP_MS: [10.0 * idle] * len(steps)}


OWN = blessed(columns(0.2), occasions=3)
BUSY, WAITING = (
    blessed(columns(idle), occasions=3, workload=name) for idle, name in ((0.01, "a"), (0.3, "b"))
)
ONCE = blessed(columns(0.3), occasions=1, workload="c")


@pytest.mark.behaviour
def test_occasions_of_workloads_of_like_kind_are_pooled() -> None:
    found = learn([OWN, BUSY, WAITING, WAITING, ONCE], of=OWN)[M.STEP_MS]
    assert found.df == 4
    assert float(found.squares) == pytest.approx(2 * 2 * 0.02**2, rel=1e-3)
    assert learn([WAITING], of=BUSY) == {}


def test_a_workload_says_nothing_of_itself_nor_does_one_occasion() -> None:
    assert learn([OWN, ONCE], of=OWN) == {}
    unknown = blessed({M.STEP_MS: [10.0] * 2}, occasions=2, workload="d")
    assert learn([unknown], of=OWN) == {}
