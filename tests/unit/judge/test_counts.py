"""Counts: exact where the baseline was, confirmed by a second process; of others, beyond chance."""

from __future__ import annotations

import pytest
from support.cases import named
from support.judging import blessed as baseline_of
from support.judging import judged as verdict_of
from support.judging import measured

from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict


def judged(
    blessed: list[float], now: list[float], *, max_runs: int = 10, budget: float = 0.0
) -> MetricVerdict:
    """Judge a count against stored runs."""
    sides = baseline_of({Metric.SYNCS: blessed}), measured({Metric.SYNCS: now})
    row = verdict_of(*sides, max_runs=max_runs, budgets={Metric.SYNCS: budget}).of(Metric.SYNCS)
    assert row is not None
    return row


def code(found: MetricVerdict) -> str | None:
    return None if found.note is None else found.note.code


VARYING = [4.0, 6.0, 5.0, 4.0, 5.0]
LONG = [739.0, 738.0, 738.0, 739.0, 739.0]


@pytest.mark.parametrize(
    ("blessed", "now", "outcome", "why", "shown"),
    [
        ([1, 1], [1, 1, 1], Outcome.PASSED, "count-same", 1),
        ([1, 1], [1 + 1e-12], Outcome.PASSED, "count-same", 1),
        ([0, 0], [0], Outcome.PASSED, "count-same", 0),
        ([1, 1], [2, 2, 2], Outcome.REGRESSED, "count-rose", 2),
        ([1, 1], [1, 2, 1, 2], Outcome.REGRESSED, "count-rose", 2),
        ([2, 2], [1, 1, 1], Outcome.IMPROVED, "count-fell", 1),
        (VARYING, [7, 8] * 3, Outcome.REGRESSED, "count-rose", 7.5),
        (VARYING, [7, 8] * 4 + [5], Outcome.REGRESSED, "count-rose", 7.5),
        ([4, 6], [6, 5], Outcome.PASSED, "count-within", 5.5),
        (VARYING, [3, 2] * 3, Outcome.IMPROVED, "count-fell", 2.5),
        (VARYING, [3] * 4, Outcome.PASSED, "count-within", 3),
        (LONG, [736] * 3, Outcome.PASSED, "count-within", 736),
        # What only some runs show passes, and is noted.
        ([1, 1], [1, 2, 1], Outcome.PASSED, "count-rose-once", 1),
        ([2, 2], [1, 2, 1], Outcome.PASSED, "count-fell-in-some", 1),
        (VARYING, [7, 6, 8], Outcome.PASSED, "count-rose-by-chance", 7),
        # A second run is to confirm it.
        ([1, 1], [2], Outcome.INCONCLUSIVE, "count-rose-in-first", 2),
    ],
)
def test_a_count_is_judged(
    blessed: list[float], now: list[float], outcome: Outcome, why: str, shown: float
) -> None:
    found = judged(blessed, now)
    assert (found.outcome, code(found)) == (outcome, why)
    assert found.now == pytest.approx(shown)


def test_the_row_shows_the_risen_runs_and_a_relative_change() -> None:
    row = judged([2, 2], [2, 2, 3, 3])
    assert (row.baseline, row.now, row.change, row.exact) == (2, 3, 0.5, True)
    assert (row.low, row.high, row.p_value, row.budget, row.basis) == (None,) * 5


def test_a_rise_from_zero_or_beyond_doubles_has_no_relative_change() -> None:
    assert judged([0, 0], [1, 1]).change is None
    assert judged([1e-300], [1e300, 1e300]).change is None


@pytest.mark.parametrize(("runs", "chance"), [(1, 1 / 6), (2, 1 / 21), (3, 1 / 56), (4, 1 / 126)])
def test_a_varying_count_that_rose_in_every_run_is_open_while_chance_makes_that(
    runs: int, chance: float
) -> None:
    found = judged(VARYING, [7.0] * runs, max_runs=1)
    assert (found.outcome, found.exact) == (Outcome.INCONCLUSIVE, False)
    assert found.note is not None
    assert found.note.fields["chance"] == pytest.approx(chance)


@pytest.mark.parametrize(
    ("found", "outcome"),
    named(
        {
            "the only run allowed": (judged([1, 1], [2], max_runs=1), Outcome.REGRESSED),
            "one that varies": (judged(VARYING, [7] * 5), Outcome.REGRESSED),
            "its budget": (judged([100] * 5, [101] * 5, budget=0.01), Outcome.PASSED),
        }
    ),
)
def test_a_count_is_judged_by_what_else_is_known(found: MetricVerdict, outcome: Outcome) -> None:
    assert found.outcome is outcome


def test_counts_that_vary_share_what_chance_may_spend() -> None:
    before, now = {Metric.SYNCS: VARYING, Metric.LAUNCHES: VARYING}, [7.0] * 5
    verdict = verdict_of(baseline_of(before), measured({Metric.SYNCS: now, Metric.LAUNCHES: now}))
    assert {row.outcome for row in verdict.metrics} == {Outcome.INCONCLUSIVE}
