"""What the user decided, as the gate's policy."""

from __future__ import annotations

from support import records

from perfgate.gate import Policy
from perfgate.model.metric import Metric
from perfgate.model.outcome import OnInconclusive, OnNew
from perfgate.model.settings import Settings


def test_the_policy_is_the_settings_with_the_workloads_budgets_before_the_projects() -> None:
    settings = Settings(
        runs=4,
        max_runs=8,
        budgets={Metric.STEP_MS: 0.03, Metric.GAP_MS: 0.02},
        inconclusive=OnInconclusive.FAIL,
        new=OnNew.ALLOW,
    )
    workload = records.workload(budgets={Metric.STEP_MS: 0.1})
    assert Policy.from_settings(settings, workload, runs_given=False) == Policy(
        runs=4,
        new_runs=5,
        max_runs=8,
        budgets={Metric.STEP_MS: 0.1, Metric.GAP_MS: 0.02},
        on_inconclusive=OnInconclusive.FAIL,
        on_new=OnNew.ALLOW,
    )
    by_hand = Policy.from_settings(
        settings, workload, runs_given=False, budgets_given=[Metric.STEP_MS]
    )
    assert by_hand.budgets == settings.budgets
    assert Policy.from_settings(settings, None, runs_given=True).new_runs == 4
    assert Policy.from_settings(settings, None, runs_given=True).budgets == settings.budgets
