"""Baselines whose step_ms is the median period, as it was before: an A/B run compares them, stored values do not."""

from __future__ import annotations

from support.prepared import FULL, Candidate, duel, expect, outcome_of, slower

from perfgate.gate import Policy, as_not_measured, check
from perfgate.model.errors import WorkloadFailed
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Stage

MEDIANS = FULL.model_copy(update={"step_value": "median"})


def test_a_baseline_of_medians_is_compared_by_an_ab_run_without_a_screen() -> None:
    checked = check(expect(MEDIANS), Policy(), Candidate(slower(0)), duel(0, 0))
    assert outcome_of(checked) == (Outcome.PASSED, Stage.DUET, 3, 3)


def test_a_loss_against_it_is_found() -> None:
    checked = check(expect(MEDIANS), Policy(), Candidate(slower(0)), duel(0, 5))
    assert outcome_of(checked)[:2] == (Outcome.REGRESSED, Stage.DUET)


def test_without_an_ab_run_it_is_not_comparable_and_what_a_bless_takes_is_measured() -> None:
    checked = check(expect(MEDIANS), Policy(), Candidate(slower(0)))
    assert (checked.verdict.outcome, len(checked.runs)) == (Outcome.INCOMPARABLE, 5)
    assert "perfgate bless mlp" in checked.verdict.next_step


def test_a_workload_that_never_came_to_its_first_run_is_not_measured() -> None:
    verdict = as_not_measured(
        "mlp", WorkloadFailed(subject="mlp", fact="it raised", expectation="", next_step="See.")
    )
    assert (verdict.workload, verdict.outcome) == ("mlp", Outcome.NOT_MEASURED)
