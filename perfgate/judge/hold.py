"""What a gate can hold on a machine: the smallest loss that an unchanged candidate is shown to be
below.

Knows no run that is still to come. Formulas, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from scipy.special import nctdtrit, stdtrit

from perfgate.judge.compare import FLOOR_SD, LARGEST, PRIOR_DF, Flags, Floats, middle
from perfgate.judge.evidence import Other
from perfgate.judge.looks import NOISY, PASS_CONFIDENCE, STORED_PLAN
from perfgate.judge.outliers import keep_by_occasion
from perfgate.judge.rows import Terms, rule_of
from perfgate.judge.times import TimeRule, in_basis
from perfgate.model.baseline import Baseline
from perfgate.model.metric import METRICS, Basis, Metric, budget_of
from perfgate.model.verdict import Stage

COARSEST: Final = 0.25
"""A slowdown of step_ms below which a gate that can show none is no gate."""
_FARTHEST: Final = 10.0
"""A loss of more than this, in the basis, is as good as none that can be held."""


def holds(
    baseline: Baseline,
    metric: Metric,
    terms: Terms,
    *,
    runs: int | None = None,
    blessed_runs: int | None = None,
    occasions: int | None = None,
) -> float | None:
    """Return the loss of a time metric that a gate can hold, a fraction in its basis, at least its
    budget.

    max(D, SE q): SE that of the last look, q the 97.5 % quantile of the noncentral t with the
    degrees of freedom of the baseline's own variance (within occasions, no prior) and noncentrality
    t(0.975, df of the last look).

    Args:
        baseline: what its runs differ by is taken for what runs will differ by.
        metric: a time metric that is gated.
        terms: the plan whose last look it is of, the budgets, and the workloads that share alpha.
        runs: of the last look, where that is not the plan's.
        blessed_runs: asks the same of a fuller baseline whose runs differ as these do.
        occasions: those of that one.

    Returns:
        None where the baseline does not hold the metric, or holds nothing to compare with.
    """
    spec = METRICS[metric].clock
    blessed = baseline.values(metric)
    if spec is None or not blessed or (x := blessed_x(baseline, metric, spec.basis)) is None:
        return None
    rule = rule_of(metric, spec, Other.blessed(baseline), terms)
    number = blessed_runs or len(blessed)
    return rule.as_fraction(
        min(
            _FARTHEST,
            max(
                float(rule.limit),
                _smallest(
                    rule, x, runs=runs or terms.plan.most_runs, blessed=number, occasions=occasions
                ),
            ),
        )
    )


def blessed_x(baseline: Baseline, metric: Metric, basis: Basis) -> Floats | None:
    """Return the blessed values as x; None where they cannot be compared."""
    blessed, steps = baseline.values(metric), baseline.values(Metric.STEP_MS)
    of = blessed if basis is Basis.LOG else steps
    reference = middle(of) if of else 0.0
    if not blessed or reference <= 0 or (basis is Basis.LOG and min(blessed) <= 0):
        return None
    x = in_basis(np.asarray(blessed), basis, reference)
    return x if np.all(np.abs(x) < LARGEST) else None


def _smallest(
    rule: TimeRule, x: Floats, *, runs: int, blessed: int, occasions: int | None
) -> float:
    """SE q of the last look, on the scale of `x`."""
    within, own_df = _within(rule, x)
    if rule.plan.in_pairs:
        squared, df, own_df = rule.block_sd**2 / runs, PRIOR_DF + runs - 1, PRIOR_DF + runs - 1
    elif rule.plan.stage is Stage.AB_RUN:
        squared, df = within * 2 / runs, 2.0 * runs - 2
    else:
        between = rule.occasions(x, _kept(rule, x))
        number = occasions or between.number
        tau = max(float(between.sd), rule.occasion_sd) ** 2 * (1 + 1 / number)
        of_runs = within * (1 / blessed + 1 / runs)
        squared = of_runs + tau
        tau_df = between.df + number - between.number
        df = 1 / ((of_runs / squared) ** 2 / max(own_df, PRIOR_DF) + (tau / squared) ** 2 / tau_df)
    noncentral = float(stdtrit(df, PASS_CONFIDENCE))
    quantile = float(nctdtrit(max(own_df, PRIOR_DF), noncentral, PASS_CONFIDENCE))
    return math.sqrt(squared) * quantile if math.isfinite(quantile) else math.inf


def _within(rule: TimeRule, x: Floats) -> tuple[float, float]:
    """The variance of kept runs within their occasions, no prior, and its degrees of freedom."""
    ends, kept = np.cumsum(rule.occasion_runs)[:-1], _kept(rule, x)
    own = [group[flag] for group, flag in zip(np.split(x, ends), np.split(kept, ends), strict=True)]
    own = [group for group in own if len(group)]
    df = sum(len(group) - 1 for group in own)
    squares = sum(float(np.sum(np.square(group - np.mean(group)))) for group in own)
    return max(squares / max(df, 1), FLOOR_SD**2), float(df)


def _kept(rule: TimeRule, x: Floats) -> Flags:
    return keep_by_occasion(x, rule.occasion_runs, prior_sd=rule.prior_sd, budget=rule.limit)


def differs_much(baseline: Baseline) -> bool:
    """Whether the step times of blessed runs have an SD beyond `NOISY`: an A/B run is then better
    made in blocks."""
    x, spec = blessed_x(baseline, Metric.STEP_MS, Basis.LOG), METRICS[Metric.STEP_MS].clock
    if x is None or spec is None:
        return False
    rule = rule_of(Metric.STEP_MS, spec, Other.blessed(baseline), Terms())
    return math.sqrt(_within(rule, x)[0]) > NOISY


def too_coarse(baseline: Baseline, budgets: Mapping[Metric, float]) -> float | None:
    """Return what stored runs can hold of step_ms; None where that will do.

    It will do up to `COARSEST`, or the budget of step_ms where that is wider.
    """
    held = holds(baseline, Metric.STEP_MS, Terms(budgets=dict(budgets), plan=STORED_PLAN))
    return (
        held
        if held is not None and held > max(COARSEST, budget_of(Metric.STEP_MS, budgets) or 0.0)
        else None
    )
