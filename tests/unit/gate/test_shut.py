"""What an INCONCLUSIVE verdict leaves open, and whether that is too much for any setting."""

from __future__ import annotations

import math

import pytest
from support.cases import named

from perfgate.judge.looks import AB_PLAN, INTERLEAVED_PLAN, SCREEN_PLAN, STORED_PLAN
from perfgate.model.metric import Basis, Metric
from perfgate.model.note import quoted
from perfgate.model.outcome import OnInconclusive, Outcome
from perfgate.model.settings import Settings
from perfgate.model.verdict import FEWEST_TO_JUDGE, FEWEST_TO_PASS, MetricVerdict, Verdict

WARNS = Settings(inconclusive=OnInconclusive.WARN)
OPEN = MetricVerdict(
    metric=Metric.STEP_MS, outcome=Outcome.INCONCLUSIVE, basis=Basis.LOG, change=0.03, budget=0.02
)


def verdict(
    *rows: MetricVerdict, outcome: Outcome = Outcome.INCONCLUSIVE, runs: int = 5
) -> Verdict:
    return Verdict(workload="loop", outcome=outcome, why=quoted("open"), metrics=rows, runs=runs)


@pytest.mark.parametrize(
    ("changed", "budgets"),
    named(
        {
            "its own change": ({}, 1.5),
            "a gain": ({"change": -0.1}, 0.0),
            "two budgets": ({"change": 0.04}, 2.0),
            "another estimate decides": ({"estimate": 0.1}, 5.0),
            "nobody knows how large": ({"change": None}, math.inf),
            "nothing may be lost": ({"budget": 0.0}, math.inf),
            "shown, and held to a budget": ({"outcome": None}, 1.5),
            "shown only": ({"outcome": None, "budget": None}, 0.0),
            "passed": ({"outcome": Outcome.PASSED, "change": 0.1}, 0.0),
            "a count that rose": ({"metric": Metric.SYNCS}, math.inf),
        }
    ),
)
def test_a_row_says_how_many_budgets_its_loss_is_estimated_at(
    changed: dict[str, object], budgets: float
) -> None:
    row = OPEN.model_copy(update=changed)
    assert row.budgets_lost == pytest.approx(budgets)
    found = verdict(row)
    assert WARNS.opens(found) is (budgets < 2)
    assert not Settings().opens(found)


def test_the_largest_loss_is_named() -> None:
    large = OPEN.model_copy(update={"metric": Metric.KERNEL_MS, "change": 0.2})
    assert verdict(OPEN.model_copy(update={"change": 0.05}), large).beyond[0] is large


def test_fewer_runs_than_a_verdict_needs_open_no_gate() -> None:
    assert not WARNS.opens(verdict(OPEN, runs=FEWEST_TO_PASS - 1))
    assert {plan.fewest_to_pass for plan in (SCREEN_PLAN, STORED_PLAN)} == {FEWEST_TO_PASS}
    assert {plan.fewest_to_pass for plan in (AB_PLAN, INTERLEAVED_PLAN)} == {FEWEST_TO_JUDGE}


def test_other_outcomes_are_the_settings_own() -> None:
    large = OPEN.model_copy(update={"change": 0.5})
    assert Settings().opens(verdict(large, outcome=Outcome.PASSED, runs=1))
