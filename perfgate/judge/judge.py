"""Puts rows together into one verdict and says how many runs it wants; knows no file, no clock and no other room."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfgate.judge.remarks import remarks
from perfgate.judge.rows import Rows, judge_rows
from perfgate.judge.stages import MOST_RUNS, next_look
from perfgate.judge.tell import tell
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """A verdict, and whether it is the last word."""

    verdict: Verdict
    wanted_runs: int
    """More than `verdict.runs`: not settled; measure up to so many and judge again."""

    @property
    def settled(self) -> bool:
        """Whether no further run is wanted."""
        return self.wanted_runs <= self.verdict.runs


def judge(
    baseline: Baseline,
    runs: Sequence[Run],
    *,
    budgets: Mapping[Metric, float],
    max_runs: int = MOST_RUNS,
) -> Judgement:
    """Judge valid runs against a comparable baseline, by DECISION's stored-only looks.

    `budgets` are fractions and override the defaults; one for a metric that is shown only has no effect. While
    `wanted_runs` exceeds the runs given, the verdict is INCONCLUSIVE: the word so far.

    Raises ValueError for a budget that is negative or no number: the border should have refused it.
    """
    for metric, budget in budgets.items():
        if not (math.isfinite(budget) and budget >= 0):
            raise ValueError(f"budget of {metric} is {budget}, expected a fraction of at least 0")
    judged = judge_rows(baseline, runs, budgets=budgets, max_runs=max_runs)
    outcome = _aggregate(judged, runs)
    wanted = len(runs)
    if outcome is Outcome.INCONCLUSIVE:
        unconfirmed = any(count.wants_second_run for count in judged.counts)
        wanted = len(runs) + 1 if unconfirmed else next_look(len(runs), max_runs=max_runs)
    reason, next_step = tell(outcome, judged, baseline, runs, wanted=wanted)
    return Judgement(
        verdict=Verdict(
            workload=baseline.workload,
            outcome=outcome,
            reason=reason,
            next_step=next_step,
            metrics=tuple(judged.rows),
            runs=len(runs),
            baseline_runs=len(baseline.runs),
            dropped=tuple(drop for clock in judged.clocks for drop in clock.dropped),
            remarks=remarks(judged, baseline, runs, budgets),
        ),
        wanted_runs=wanted,
    )


def _aggregate(judged: Rows, runs: Sequence[Run]) -> Outcome:
    """Say what the rows come to. PASSED is what remains when something was judged and nothing spoke against it."""
    gated = [row.outcome for row in judged.rows if row.outcome is not None]
    if not runs or not gated:
        return Outcome.NOT_MEASURED
    ranked = (Outcome.REGRESSED, Outcome.NOT_MEASURED, Outcome.INCONCLUSIVE, Outcome.IMPROVED)
    return next((outcome for outcome in ranked if outcome in gated), Outcome.PASSED)
