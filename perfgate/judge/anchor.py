"""Compares with the best step ever blessed, so that many small losses are seen as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfgate.judge.compare import LARGEST, PRIOR_DF, Comparison, Side, middle, with_stored
from perfgate.judge.evidence import Other
from perfgate.judge.looks import STORED_PLAN
from perfgate.judge.outliers import keep
from perfgate.judge.reasons import bless_it
from perfgate.judge.rows import Terms, rule_of
from perfgate.model.baseline import Baseline, Milestone
from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.note import Note, note
from perfgate.model.verdict import FEWEST_TO_JUDGE, Blessed, Drift

_CONFIDENCE = 0.995
"""That the loss exceeds `anchor_budget`, before it is called a loss against the anchor."""
_MEDIAN_VARIANCE = math.pi / 2
"""That of a median over that of a mean, of many normal values; of few it is a little less."""


def beyond_anchor(
    baseline: Baseline, now: Sequence[float], *, anchor_budget: float
) -> float | None:
    """Return how far `now`, ms of each run, lies above the anchor; None if not beyond its budget.

    It shows nothing: of runs too few for `drift` it says that more are wanted.
    """
    anchor, before = baseline.anchor, baseline.values(Metric.STEP_MS)
    if anchor is None or not before or not now or anchor.step_ms >= middle(before):
        return None
    above = middle(now) / anchor.step_ms - 1
    return above if above >= anchor_budget else None


def drift(
    baseline: Baseline,
    now: Sequence[float],
    terms: Terms,
    *,
    anchor_budget: float,
    medians: Sequence[int] = (),
) -> Drift | None:
    """Judge step_ms, `now` of each run in ms, against the anchor; None without one that is better.

    It is a loss where step_ms is shown, with 99.5 % confidence, to have lost more than
    `anchor_budget` (a fraction). As against a stored baseline (`compare`), the standard error holds
    the occasions, those of the anchor's own runs; and the `medians`, given by their runs, by which
    all of `now` is too high or too low where it was reckoned by them.
    """
    spec = METRICS[Metric.STEP_MS].clock
    other, anchor = Other.blessed(baseline), baseline.anchor
    before = other.values(Metric.STEP_MS)
    if anchor is None or spec is None or len(now) < FEWEST_TO_JUDGE or not before:
        return None
    if min(*before, *now) <= 0 or anchor.step_ms >= middle(before):
        return None
    rule = rule_of(Metric.STEP_MS, spec, other, replace(terms, plan=STORED_PLAN))
    with np.errstate(all="ignore"):
        sides = [np.log(np.asarray(side) / anchor.step_ms) for side in (before, now)]
    if not all(np.all(np.abs(side) < LARGEST) for side in sides):
        return None
    kept = keep(sides, prior_sd=rule.prior_sd, budget=rule.limit).flags
    own, runs = (Side.of(x, flags) for x, flags in zip(sides, kept, strict=True))
    between = rule.occasions(sides[0], kept[0])
    spread = with_stored(own, runs, prior_sd=rule.prior_sd, occasions=between).run_sd
    worth = 1 / (1 / runs.runs + _MEDIAN_VARIANCE * sum(1 / number for number in medians))
    # The anchor's runs are not at hand: what they differ by is known from the baseline's.
    of_runs = np.square(spread) * (1 / anchor.runs + 1 / worth)
    total = of_runs + np.square(np.maximum(between.sd, rule.occasion_sd)) * (
        1 + 1 / anchor.occasions
    )
    df = (PRIOR_DF + own.runs + runs.runs - 2) * np.square(total / of_runs)
    found = Comparison(estimate=runs.mean, standard_error=np.sqrt(total), df=df, run_sd=spread)
    lost = math.log1p(anchor_budget)
    return Drift(
        change=rule.as_fraction(float(found.estimate)),
        low=rule.as_fraction(float(found.lower(_CONFIDENCE))),
        high=rule.as_fraction(float(found.upper(_CONFIDENCE))),
        budget=anchor_budget,
        shown=bool(found.lower(_CONFIDENCE) > lost),
        now=middle(now),
        path=(
            Blessed(
                step_ms=anchor.step_ms,
                at=anchor.at,
                commit=anchor.commit.sha if anchor.commit is not None else None,
            ),
            *map(_blessed, anchor.path or (_present(baseline),)),
        ),
    )


def anchor_lost(found: Drift, workload: str, *, runs: int) -> Note:
    """Say that many small losses have become one large one, and on which path."""
    return note(
        "anchor-lost",
        change=found.change,
        low=found.low,
        high=found.high,
        unit=Basis.LOG.unit,
        budget=found.budget,
        path=tuple(map(_point, found.path)),
        now=found.now,
        bless_it=bless_it(runs),
        workload=workload,
    )


def _point(blessed: Blessed) -> Note:
    day, ms = f"{blessed.at:%Y-%m-%d}", blessed.step_ms
    if blessed.commit is None:
        return note("blessed-at", step_ms=ms, day=day)
    return note("blessed-at-commit", step_ms=ms, day=day, commit=blessed.commit[:7])


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
