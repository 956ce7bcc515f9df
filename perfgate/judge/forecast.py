"""Says before runs are made what they could show; knows no run that is still to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from perfgate.judge.clocks import ClockRule
from perfgate.judge.compare import FLOOR_SD, LARGEST, PRIOR_DF, Comparison, Prior, middle, run_sd_of
from perfgate.judge.outliers import keep
from perfgate.judge.rows import Terms, rule_of
from perfgate.judge.stages import DUET_PLAN, INTERLEAVED_PLAN, INTERLEAVED_SDS, NOISY, STORED_PLAN, Plan
from perfgate.model.baseline import Baseline
from perfgate.model.metric import GATED_CLOCKS, METRICS, Basis, Metric, budget_of


def smallest_loss(
    metric: Metric,
    *,
    baseline_runs: int,
    candidate_runs: int,
    occasions: int,
    run_sd: float,
    occasion_sd: float,
    budget: float | None = None,
    clocks: int = len(GATED_CLOCKS),
    plan: Plan = STORED_PLAN,
    prior_df: float = PRIOR_DF,
) -> float:
    """Return the smallest loss of a gated clock, a fraction in its basis, that so many runs can show.

    max(D/2, t SE) with budget D, t of Student at the level of one look of the plan and SE as in `compare`: half of all
    losses of this size are told from noise. (What is shown to be within the budget passes all the same.) SDs are
    fractions in the clock's basis, `budget` (by default the metric's) is a fraction.

    Raises:
        ValueError: the metric is gated by no budget.
    """
    spec = METRICS[metric].clock
    if spec is None:
        raise ValueError(f"{metric} is no clock with a budget")
    rule = ClockRule(
        metric=metric,
        basis=spec.basis,
        budget=spec.budget if budget is None else budget,
        prior=Prior(sd=run_sd, df=prior_df),
        occasion_sd=0.0 if plan.is_duet else occasion_sd,
        occasions=occasions,
        clocks=clocks,
        plan=plan,
    )
    return rule.smallest(_comparison(rule, run_sd=run_sd, baseline_runs=baseline_runs, candidate_runs=candidate_runs))


def expected_smallest(
    baseline: Baseline,
    metric: Metric,
    *,
    runs: int,
    terms: Terms,
    blessed_runs: int | None = None,
    occasions: int | None = None,
) -> float | None:
    """Return the smallest loss that so many runs, or pairs of a duet, can be expected to show of one metric.

    What the runs will differ by is taken from the baseline's own, moderated as in a comparison; `blessed_runs` and
    `occasions` ask the same of a fuller baseline whose runs differ as these do. None where the baseline does not hold
    the metric, or holds nothing to compare with.
    """
    spec = METRICS[metric].clock
    blessed = baseline.values(metric)
    steps = baseline.values(Metric.STEP_MS)
    if spec is None or not blessed:
        return None
    basis_ms = middle(blessed) if spec.basis is Basis.LOG else middle(steps) if steps else 0.0
    if basis_ms <= 0 or (spec.basis is Basis.LOG and min(blessed) <= 0):
        return None
    sharing = sum(bool(baseline.values(clock)) for clock in GATED_CLOCKS)
    rule = rule_of(metric, spec, baseline, terms, clocks=sharing)
    with np.errstate(all="ignore"):
        values = np.asarray(blessed) / basis_ms
        x = np.log(values) if spec.basis is Basis.LOG else values
    if not np.all(np.abs(x) < LARGEST):
        return None
    (kept,) = keep((x,), prior=rule.prior, budget=rule.budget_in_basis).flags
    own = x[kept]
    told = run_sd_of(float(np.sum(np.square(own - np.mean(own)))), df=len(own) - 1, prior=rule.prior)
    against = runs if terms.plan.is_duet else blessed_runs or len(own)
    if runs > 1:  # One run alone differs from nothing that could refute what was believed of it.
        rule = replace(rule, prior=replace(rule.prior, df=told.prior_df))
    rule = replace(rule, occasions=occasions or rule.occasions)
    return rule.smallest(_comparison(rule, run_sd=told.sd, baseline_runs=against, candidate_runs=runs))


COARSEST: Final = 0.25
"""A slowdown of step_ms below which a gate that can show none is no gate."""


def too_coarse(baseline: Baseline, budgets: Mapping[Metric, float]) -> float | None:
    """Return the smallest slowdown that all runs of a gate could show against stored ones; None where that will do.

    It will do up to `COARSEST`, or the budget of step_ms where that is wider.
    """
    budget = budget_of(Metric.STEP_MS, budgets)
    smallest = expected_smallest(
        baseline, Metric.STEP_MS, runs=STORED_PLAN.most_runs, terms=Terms(budgets=dict(budgets))
    )
    return smallest if smallest is not None and smallest > max(COARSEST, budget or 0.0) else None


def differs_too_much(baseline: Baseline, terms: Terms) -> bool:
    """Whether the blessed runs differ so much in step time that alternate pairs could not show the budget."""
    spec = METRICS[Metric.STEP_MS].clock
    duet = replace(terms, plan=DUET_PLAN)
    smallest = expected_smallest(baseline, Metric.STEP_MS, runs=DUET_PLAN.most_runs, terms=duet)
    return (
        spec is not None and smallest is not None and smallest > NOISY * terms.budgets.get(Metric.STEP_MS, spec.budget)
    )


def expected_interleaved(metric: Metric, *, pairs: int, budget: float, workloads: int = 1) -> float:
    """Return the smallest loss of one of `INTERLEAVED_SDS` that so many interleaved pairs can be expected to show.

    `budget` is a fraction, as in `smallest_loss`; so many `workloads` share alpha.
    """
    return smallest_loss(
        metric,
        baseline_runs=pairs,
        candidate_runs=pairs,
        occasions=1,
        run_sd=INTERLEAVED_SDS[metric],
        occasion_sd=0.0,
        budget=budget,
        clocks=len(GATED_CLOCKS) * workloads,
        plan=INTERLEAVED_PLAN,
    )


def _comparison(rule: ClockRule, *, run_sd: float, baseline_runs: int, candidate_runs: int) -> Comparison:
    return rule.occasions_between(
        Comparison(
            estimate=0.0,
            run_sd=max(run_sd, FLOOR_SD),
            prior_df=rule.prior.df,
            baseline_runs=baseline_runs,
            candidate_runs=candidate_runs,
            occasion_sd=rule.occasion_sd,
            occasions=rule.occasions,
            in_pairs=rule.plan.in_pairs,
        )
    )
