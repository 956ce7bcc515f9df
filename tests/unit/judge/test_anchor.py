"""Against the best step ever blessed, and at another SM clock."""

from __future__ import annotations

import pytest
from support.judging import blessed, measured

from perfgate.judge.anchor import clock_moved, drift
from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import Metric

STEPS = {Metric.STEP_MS: [10.0] * 5}


def test_fewer_than_three_runs_show_no_drift_nor_do_steps_too_far_away() -> None:
    baseline = blessed({Metric.STEP_MS: [10.0] * 3}, anchor_ms=5.0)
    assert drift(baseline, [10.0] * 2, {}, anchor_budget=0.05) is None
    found = drift(baseline, [10.0] * 3, {}, anchor_budget=0.05)
    assert found is not None
    assert found.shown
    assert found.change == pytest.approx(1.0)
    far = blessed({Metric.STEP_MS: [1e308] * 3}, anchor_ms=1e-300)
    assert drift(far, [0.0] * 3, {}, anchor_budget=0.05) is None


def test_a_budget_beyond_the_anchors_does_not_hide_a_drift() -> None:
    baseline, budgets = blessed(STEPS, anchor_ms=9.9), {Metric.STEP_MS: 0.2}
    shown = [
        found.shown
        for ms in (10.3, 11.0)
        if (found := drift(baseline, [ms] * 5, budgets, anchor_budget=0.05))
    ]
    assert shown == [False, True]


@pytest.mark.parametrize(
    ("then", "now", "moved", "longer"),
    [
        (2000.0, 2100.0, True, 2000 / 2100 - 1),
        (2100.0, 2000.0, True, 0.05),
        (2000.0, 2001.0, False, 2000 / 2001 - 1),
        (None, 2000.0, False, 0.0),
    ],
)
def test_another_sm_clock_makes_kernels_longer_or_hides_a_loss(
    then: float | None, now: float, moved: bool, longer: float
) -> None:
    before = [BlessedRun(values={}, sm_clock_mhz=then)]
    runs = measured({Metric.STEP_MS: [10.0]}, sm_clock_mhz=now)
    said, by_it = clock_moved(before, runs)
    assert (said is not None) is moved
    assert by_it == pytest.approx(longer)
