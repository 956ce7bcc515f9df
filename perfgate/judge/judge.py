"""Puts rows together into one verdict and says how many runs it wants; knows no file, no clock and no other room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.looks import NOISY
from perfgate.judge.remarks import remarks
from perfgate.judge.rows import Rows, Terms, judge_rows
from perfgate.judge.tell import headline, tell
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """A verdict, and whether it is the last word of its plan."""

    verdict: Verdict
    wanted_runs: int
    """More than `verdict.runs`: not settled; measure up to so many and judge again."""
    noisy: bool = False
    """Whether runs lie so far apart that an A/B run is better made in blocks."""

    @property
    def settled(self) -> bool:
        """Whether no further run is wanted."""
        return self.wanted_runs <= self.verdict.runs


def judge(baseline: Baseline, runs: Sequence[Run], terms: Terms) -> Judgement:
    """Judge valid runs against a comparable baseline, or against the other side of a duet, by the looks of a plan.

    While `wanted_runs` exceeds the runs given, the verdict is INCONCLUSIVE: the word so far.

    Raises ValueError for a budget that is negative or no number: the border should have refused it.
    """
    for metric, budget in terms.budgets.items():
        if not (math.isfinite(budget) and budget >= 0):
            raise ValueError(f"budget of {metric} is {budget}, expected a fraction of at least 0")
    judged = judge_rows(baseline, runs, terms)
    outcome = _aggregate(judged, runs)
    wanted = len(runs)
    if outcome in (Outcome.PASSED, Outcome.IMPROVED) and len(runs) < terms.plan.fewest_to_pass:
        outcome = Outcome.INCONCLUSIVE
        wanted = terms.plan.next_look(len(runs), max_runs=terms.max_runs)
    elif outcome is Outcome.INCONCLUSIVE and any(count.wants_second_run for count in judged.counts):
        wanted = len(runs) + 1
    elif outcome is Outcome.INCONCLUSIVE and terms.plan.fails:
        wanted = terms.plan.next_look(len(runs), max_runs=terms.max_runs)
    reason, next_step = tell(outcome, judged, baseline, runs, terms, wanted=wanted)
    loss_level, loss_by = _clearest_loss(judged, terms)
    verdict = Verdict(
        workload=baseline.workload,
        outcome=outcome,
        reason=reason,
        next_step=next_step,
        metrics=tuple(judged.rows),
        runs=len(runs),
        baseline_runs=len(baseline.runs),
        stage=terms.plan.stage,
        workloads=terms.workloads,
        loss_level=loss_level,
        loss_by=loss_by,
        loss_alpha=judged.times[0].rule.loss_alpha if judged.times else None,
        dropped=tuple(drop for time in judged.times for drop in time.dropped),
        remarks=remarks(judged, baseline, runs),
    )
    if outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
        verdict = verdict.model_copy(update={"reason": headline(verdict)})
    return Judgement(verdict=verdict, wanted_runs=wanted, noisy=_noisy(judged))


def _noisy(judged: Rows) -> bool:
    """Whether kept step times have an SD beyond `NOISY`, those of both sides or the candidate's own."""
    step = next((time for time in judged.times if time.rule.metric is Metric.STEP_MS), None)
    return step is not None and step.look is not None and bool(step.look.run_sd > NOISY)


def _clearest_loss(judged: Rows, terms: Terms) -> tuple[float, Metric] | tuple[None, None]:
    """Return the level of the clearest loss of time, over what a gate of this workload alone may spend."""
    levels = [
        (time.level * time.rule.shares / terms.workloads, time.rule.metric)
        for time in judged.times
        if time.level is not None
    ]
    return min(levels, default=(None, None))


def _aggregate(judged: Rows, runs: Sequence[Run]) -> Outcome:
    """Say what the rows come to. PASSED is what remains when something was judged and nothing spoke against it."""
    gated = [row.outcome for row in judged.rows if row.outcome is not None]
    if not runs or not gated:
        return Outcome.NOT_MEASURED
    ranked = (Outcome.REGRESSED, Outcome.NOT_MEASURED, Outcome.INCONCLUSIVE, Outcome.IMPROVED)
    return next((outcome for outcome in ranked if outcome in gated), Outcome.PASSED)
