"""What a gate can hold on a machine: the smallest loss that an unchanged candidate is shown to be
below.

Knows no run that is still to come. Formulas, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from perfgate.judge.compare import FLOOR_SD, PRIOR_DF, Flags, Floats, SideSums, with_stored
from perfgate.judge.distributions import nctdtrit, stdtrit
from perfgate.judge.looks import NOISY, PASS_CONFIDENCE, SCREEN_PLAN, STORED_PLAN, Plan
from perfgate.judge.rule import SPECS, TimeRule, as_x, columns, is_usable, rule_of
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric, budget_of
from perfgate.model.verdict import Stage

COARSEST: Final = 0.25
"""A slowdown of step_ms below which a gate that can show none is no gate."""
_FARTHEST: Final = 10.0
"""A loss of more than this, as x, is as good as none that can be held."""


def holds(
    baseline: Baseline,
    metric: Metric,
    budgets: Mapping[Metric, float],
    plan: Plan = STORED_PLAN,
    *,
    runs: int | None = None,
    fuller: tuple[int, int] | None = None,
) -> float | None:
    """Return the loss of a time metric that a gate can hold, a fraction in its basis, at least its
    budget.

    max(D, SE q): SE that of the last look, q the 97.5 % quantile of the noncentral t with the
    degrees of freedom of the baseline's own variance (within occasions, no prior) and noncentrality
    t(0.975, df of the last look).

    Args:
        baseline: what its runs differ by is taken for what runs will differ by.
        metric: a time metric.
        budgets: fractions, over the defaults.
        plan: whose last look it is of.
        runs: of the last look, where that is not the plan's.
        fuller: asks the same of a baseline of so many runs and occasions, which differ as these do.

    Returns:
        None where the baseline does not hold the metric, or holds nothing to compare with.
    """
    if (found := stored_x(baseline, metric, budgets, plan)) is None:
        return None
    rule, x = found
    smallest = _smallest(
        rule, x, runs=runs or plan.most_runs, of=fuller or (len(x), len(baseline.occasions))
    )
    return rule.as_fraction(min(_FARTHEST, max(float(rule.limit), smallest)))


def stored_x(
    baseline: Baseline,
    metric: Metric,
    budgets: Mapping[Metric, float],
    plan: Plan = STORED_PLAN,
) -> tuple[TimeRule, Floats] | None:
    """Return how a metric is judged, and its blessed values as x; None where there is nothing to
    compare with."""
    there = columns(baseline.runs)
    if metric not in there or metric not in SPECS:
        return None
    x = as_x(metric, there[metric], there)
    rule = rule_of(metric, there, budgets, plan=plan, baseline=baseline)
    return (rule, x) if is_usable(x) else None


def _smallest(rule: TimeRule, x: Floats, *, runs: int, of: tuple[int, int]) -> float:
    """SE q of the last look, as x; `of` so many blessed runs and occasions."""
    within, own_df = _within(rule, x)
    if rule.plan.in_pairs:
        squared, df, own_df = rule.spec.block_sd**2 / runs, PRIOR_DF + runs - 1, PRIOR_DF + runs - 1
    elif rule.plan.stage is Stage.AB_RUN:
        squared, df = within * 2 / runs, 2.0 * runs - 2
    else:
        blessed, occasions = of
        between = rule.occasions(x, _kept(rule, x))
        tau = max(float(between.sd), rule.spec.occasion_sd) ** 2 * (1 + 1 / occasions)
        of_runs = within * (1 / blessed + 1 / runs)
        squared = of_runs + tau
        tau_df = between.df + occasions - between.number
        df = 1 / ((of_runs / squared) ** 2 / max(own_df, PRIOR_DF) + (tau / squared) ** 2 / tau_df)
    noncentral = float(stdtrit(df, PASS_CONFIDENCE))
    quantile = float(nctdtrit(max(own_df, PRIOR_DF), noncentral, PASS_CONFIDENCE))
    return math.sqrt(squared) * quantile if math.isfinite(quantile) else math.inf


def _within(rule: TimeRule, x: Floats) -> tuple[float, float]:
    """The variance of kept runs within their occasions, no prior, and its degrees of freedom."""
    ends, kept = np.cumsum(rule.occasion_runs)[:-1], _kept(rule, x)
    groups = zip(np.split(x, ends), np.split(kept, ends), strict=True)
    own = [group[flags] for group, flags in groups if np.any(flags)]
    df = float(sum(len(group) - 1 for group in own))
    squares = sum(float(np.sum(np.square(group - np.mean(group)))) for group in own)
    return max(squares / max(df, 1.0), FLOOR_SD**2), df


def _kept(rule: TimeRule, x: Floats) -> Flags:
    """The blessed runs to keep, each held against its own occasion."""
    groups = np.split(x, np.cumsum(rule.occasion_runs)[:-1])
    return rule.keep(np.concatenate([group - np.median(group) for group in groups])).flags[0]


def differs_much(baseline: Baseline) -> bool:
    """Whether the step times of blessed runs have an SD beyond `NOISY`: an A/B run is then better
    made in blocks."""
    found = stored_x(baseline, Metric.STEP_MS, {})
    return found is not None and math.sqrt(_within(*found)[0]) > NOISY


def may_screen(baseline: Baseline, budgets: Mapping[Metric, float]) -> bool:
    """Whether unchanged runs that differ as much as the blessed ones could pass the screen.

    The same code measured again lies at the same mean, so that its upper bound is the margin.
    """
    found = stored_x(baseline, Metric.STEP_MS, budgets, SCREEN_PLAN)
    if found is None:
        return True
    rule, x = found
    kept = rule.keep(x).flags[0]
    own, runs = SideSums.of(x, kept), SCREEN_PLAN.fewest_to_pass
    again = SideSums(mean=own.mean, squares=own.variance * (runs - 1), runs=np.asarray(float(runs)))
    occasions = rule.occasions(x, kept)
    bound = with_stored(own, again, prior_sd=rule.spec.prior_sd, occasions=occasions)
    return bool(bound.upper(PASS_CONFIDENCE) < rule.limit)


def too_coarse(baseline: Baseline, budgets: Mapping[Metric, float]) -> float | None:
    """Return what stored runs can hold of step_ms; None where that will do.

    It will do up to `COARSEST`, or the budget of step_ms where that is wider.
    """
    held = holds(baseline, Metric.STEP_MS, budgets)
    enough = max(COARSEST, budget_of(Metric.STEP_MS, budgets) or 0.0)
    return held if held is not None and held > enough else None
