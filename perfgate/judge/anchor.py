"""What time alone changes: many small losses since the best step ever blessed, seen as one, and
whether the GPU's SM clock is what it was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from perfgate.judge.compare import SideSums, middle, of_occasions, variance_of, with_known
from perfgate.judge.times import columns, is_usable, rule_of
from perfgate.model.baseline import Anchor, Baseline, BlessedRun, Milestone
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import Run
from perfgate.model.verdict import FEWEST_TO_JUDGE, Blessed, Drift

_CONFIDENCE = 0.995
"""That the loss exceeds `anchor_budget`, before it is called a loss against the anchor."""
_MEDIAN_VARIANCE = math.pi / 2
"""That of a median over that of a mean, of many normal values; of few it is a little less."""
_CLOCK_CHANGE = 0.005
"""Beyond this, stored kernel times are not what they would be now: they follow the SM clock, copies
and the host do not."""


def drift(
    baseline: Baseline,
    now: Sequence[float],
    budgets: Mapping[Metric, float],
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
    anchor, there = baseline.anchor, columns(baseline.runs)
    before = there.get(Metric.STEP_MS)
    if anchor is None or before is None or len(now) < FEWEST_TO_JUDGE:
        return None
    if anchor.step_ms >= middle(before):
        return None
    with np.errstate(all="ignore"):
        sides = [np.log(np.asarray(side) / anchor.step_ms) for side in (before, now)]
    if not is_usable(*sides):
        return None
    rule = rule_of(Metric.STEP_MS, there, budgets, baseline=baseline)
    kept = rule.keep(*sides).flags
    own, runs = (SideSums.of(x, flags) for x, flags in zip(sides, kept, strict=True))
    tau, _ = rule.tau(sides[0], kept[0])
    variance, own_df = variance_of(own, runs, prior_sd=rule.spec.prior_sd)
    worth = 1 / (1 / runs.runs + _MEDIAN_VARIANCE * sum(1 / number for number in medians))
    # The anchor's runs are not at hand: what they differ by is known from the baseline's.
    of_runs = variance * (1 / anchor.runs + 1 / worth)
    tau = np.maximum(tau, rule.spec.occasion_sd)
    between = of_occasions(tau, anchor.occasions)
    found = with_known(runs.mean, of_runs, own_df, between=between)
    low = found.lower(_CONFIDENCE)
    return Drift(
        change=rule.as_fraction(found.estimate),
        low=rule.as_fraction(low),
        high=rule.as_fraction(found.upper(_CONFIDENCE)),
        budget=anchor_budget,
        shown=bool(low > math.log1p(anchor_budget)),
        now=middle(now),
        path=(_blessed(anchor), *(_blessed(one, one.reason) for one in anchor.path)),
    )


def _blessed(one: Anchor | Milestone, reason: str = "") -> Blessed:
    commit = None if one.commit is None else one.commit.sha
    return Blessed(step_ms=one.step_ms, at=one.at, commit=commit, reason=reason)


def clock_moved(blessed: Sequence[BlessedRun], runs: Sequence[Run]) -> tuple[Note | None, float]:
    """Say that the SM clock is another than the baseline's, and by which fraction that alone makes
    kernels take longer now, or below 0 shorter; None where it is not another, or not known."""
    before = [run.sm_clock_mhz for run in blessed if run.sm_clock_mhz is not None]
    after = [run.conditions.sm_clock_mhz for run in runs if run.conditions.sm_clock_mhz is not None]
    if not before or not after or min(middle(before), middle(after)) <= 0:
        return None, 0.0
    then, now = middle(before), middle(after)
    is_other = abs(now / then - 1) > _CLOCK_CHANGE
    moved = note("clock-moved", then_mhz=round(then), now_mhz=round(now)) if is_other else None
    return moved, then / now - 1
