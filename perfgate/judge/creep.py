"""Compares with the best step ever blessed, so that many small losses are seen as one; knows no other metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from perfgate.judge.compare import LARGEST, compare, middle
from perfgate.judge.outliers import keep
from perfgate.judge.rows import Terms, rule_of
from perfgate.judge.stages import STORED_PLAN
from perfgate.model.baseline import Baseline, Milestone
from perfgate.model.metric import GATED_CLOCKS, METRICS, Metric
from perfgate.model.verdict import Blessed, Creep

FEWEST_TO_SHOW: Final = STORED_PLAN.fewest_to_fail
"""Fewer runs, or pairs, never show a loss against the anchor."""
_CONFIDENCE = 0.995
"""That the loss exceeds `anchor_budget`, before it is called a loss against the anchor."""
_MEDIAN_VARIANCE = math.pi / 2
"""That of a median over that of a mean, of many normal values; of few it is a little less."""


def beyond_anchor(baseline: Baseline, now: Sequence[float], *, anchor_budget: float) -> float | None:
    """Return how far `now`, ms of each run, lies above the anchor, a fraction; None where it is not beyond its budget.

    It shows nothing: of runs too few for `creep` it tells that more are wanted.
    """
    anchor, before = baseline.anchor, baseline.values(Metric.STEP_MS)
    if anchor is None or not before or not now or anchor.step_ms >= middle(before):
        return None
    above = middle(now) / anchor.step_ms - 1
    return above if above >= anchor_budget else None


def creep(
    baseline: Baseline, now: Sequence[float], terms: Terms, *, anchor_budget: float, medians: Sequence[int] = ()
) -> Creep | None:
    """Judge step_ms, `now` of each run in ms, against the anchor; None without one, or where the baseline itself is it.

    It is a loss where step_ms is shown, with 99.5 % confidence, to have lost more than `anchor_budget` (a fraction).
    As against a stored baseline (`compare`), the standard error holds the occasions, those of the anchor's own runs;
    and the `medians`, told by their runs, by which all of `now` is too high or too low where it was reckoned by them.
    """
    spec = METRICS[Metric.STEP_MS].clock
    before = baseline.values(Metric.STEP_MS)
    anchor = baseline.anchor
    if anchor is None or spec is None or len(now) < FEWEST_TO_SHOW or not before:
        return None
    if min(*before, *now) <= 0 or anchor.step_ms >= middle(before):
        return None
    rule = rule_of(Metric.STEP_MS, spec, baseline, replace(terms, plan=STORED_PLAN), clocks=len(GATED_CLOCKS))
    with np.errstate(all="ignore"):
        sides = [np.log(np.asarray(side) / anchor.step_ms) for side in (before, now)]
    if not all(np.all(np.abs(side) < LARGEST) for side in sides):
        return None
    kept = keep(sides, prior=rule.prior, budget=rule.budget_in_basis).flags
    own = compare(
        sides[0][kept[0]],
        sides[1][kept[1]],
        prior=rule.prior,
        occasion_sd=rule.occasions_of(sides[0], kept[0]),
        occasions=rule.occasions,
    )
    worth = 1 / (1 / own.candidate_runs + _MEDIAN_VARIANCE * sum(1 / runs for runs in medians))
    # The anchor's runs are not at hand: what they differ by is known from the baseline's.
    found = replace(
        rule.occasions_between(own).of_other_means(baseline_runs=anchor.runs, candidate_runs=worth),
        estimate=float(np.mean(np.sort(sides[1][kept[1]]))),
        occasions=anchor.occasions,
    )
    lost = math.log1p(anchor_budget)
    return Creep(
        change=rule.as_fraction(found.estimate),
        low=rule.as_fraction(found.lower(_CONFIDENCE)),
        high=rule.as_fraction(found.upper(_CONFIDENCE)),
        budget=anchor_budget,
        shown=found.lower(_CONFIDENCE) > lost,
        now=middle(now),
        path=(
            Blessed(
                step_ms=anchor.step_ms, at=anchor.at, commit=anchor.commit.sha if anchor.commit is not None else None
            ),
            *map(_blessed, anchor.path or (_present(baseline),)),
        ),
    )


def _blessed(milestone: Milestone) -> Blessed:
    return Blessed(
        step_ms=milestone.step_ms,
        at=milestone.at,
        commit=milestone.commit.sha if milestone.commit is not None else None,
        reason=milestone.reason,
    )


def _present(baseline: Baseline) -> Milestone:
    """The one blessing that is known where a baseline's anchor has not kept the path."""
    blessing = baseline.blessing
    return Milestone(
        step_ms=middle(baseline.values(Metric.STEP_MS)),
        at=blessing.at,
        commit=blessing.commit,
        reason=blessing.reason,
    )
