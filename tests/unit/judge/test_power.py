"""How often the stored-only looks cry wolf, and how often they find a loss, on a seeded quiet
population.

The populations in full belong to the simulation (`benchmarks/decision`); this is its smoke alarm.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from support.judging import Columns, blessed, judged, measured

from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome

RUN_SD = 0.003
OCCASION_SD = 0.002


def quiet_runs(
    rng: np.random.Generator, runs: int, *, slowdown: float = 0.0
) -> dict[Metric, list[float]]:
    """One occasion: five clocks, 10 ms steps, run-to-run SD 0.3 % of a step (kernel time a fifth of
    that)."""
    mood = rng.normal(0.0, OCCASION_SD)
    factor = (1 + slowdown) * np.exp(mood + rng.normal(0.0, RUN_SD, runs))
    return {
        Metric.STEP_MS: list(10.0 * factor),
        Metric.KERNEL_MS: list(8.0 * np.exp(rng.normal(0.0, RUN_SD / 5, runs))),
        Metric.GAP_MS: list(1.0 + 10.0 * rng.normal(0.0, RUN_SD, runs)),
        Metric.H2D_MS: list(0.5 + 10.0 * rng.normal(0.0, RUN_SD / 3, runs)),
        Metric.H2D_EXPOSED_MS: list(0.3 + 10.0 * rng.normal(0.0, RUN_SD / 3, runs)),
    }


def gate(rng: np.random.Generator, *, slowdown: float) -> tuple[Outcome, int]:
    """One gate from start to end: ten blessed runs over five occasions, then as many runs as the
    judge wants."""
    occasions = [quiet_runs(rng, 2) for _ in range(5)]
    before: Columns = {
        m: [occasions[o][m][run] for run in range(2) for o in range(5)] for m in occasions[0]
    }
    baseline = blessed(before, occasions=5)
    runs = measured(quiet_runs(rng, 10, slowdown=slowdown))
    taken = 3
    while True:
        verdict = judged(baseline, runs[:taken])
        if not verdict.more:
            return verdict.outcome, taken
        taken += verdict.more


def gates(*, slowdown: float, number: int) -> tuple[Counter[Outcome], float]:
    rng = np.random.default_rng(20260301)
    found = [gate(rng, slowdown=slowdown) for _ in range(number)]
    return Counter(outcome for outcome, _ in found), sum(taken for _, taken in found) / number


def test_unchanged_quiet_workloads_are_hardly_ever_called_slower_and_take_few_runs() -> None:
    outcomes, mean_runs = gates(slowdown=0.0, number=500)
    assert outcomes[Outcome.REGRESSED] <= 5
    assert outcomes[Outcome.PASSED] >= 450
    assert mean_runs <= 5.2


def test_a_slowdown_of_5_percent_is_found_in_95_of_100_quiet_workloads() -> None:
    outcomes, mean_runs = gates(slowdown=0.05, number=200)
    assert outcomes[Outcome.REGRESSED] >= 190
    assert mean_runs <= 5.2
