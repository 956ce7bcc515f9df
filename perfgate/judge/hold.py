"""What baselines say by themselves: the smallest loss that a gate can hold on their machine,
whether unchanged runs can pass a screen, and how occasions differ.

Knows no run that is still to come. Formulas, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final

import numpy as np

from perfgate.judge.compare import (
    PRIOR_DF,
    Flags,
    Floats,
    Learnt,
    SideSums,
    between_occasions,
    special,
    variance_of,
)
from perfgate.judge.evidence import Evidence
from perfgate.judge.judge import judge
from perfgate.judge.looks import NOISY, PASS_CONFIDENCE, STORED_PLAN, Plan
from perfgate.judge.times import (
    SPECS,
    TimeRule,
    as_x,
    columns,
    is_usable,
    rule_of,
)
from perfgate.model.baseline import Baseline
from perfgate.model.metric import GATED_TIMES, Metric
from perfgate.model.outcome import PASSING
from perfgate.model.sample import ProcessSample, Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import Stage

_FARTHEST: Final = 10.0
"""A loss of more than this, as x, is as good as none that can be held."""
_IDLE: Final = 0.05
"""Share of a step from which its GPU is taken to wait for the CPU."""


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
    t(what the last look's upper bound is at, df of the last look).

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
    within, own_df, kept = _within(rule, x)
    runs = runs or plan.most_runs
    if plan.in_pairs:
        squared, df, own_df = rule.spec.block_sd**2 / runs, PRIOR_DF + runs - 1, PRIOR_DF + runs - 1
    elif plan.is_ab_run:
        squared, df = within * 2 / runs, 2.0 * runs - 2
    else:
        blessed, occasions = fuller or (len(x), len(baseline.occasions))
        sd, sd_df = rule.tau(x, kept)
        tau = max(float(sd), rule.spec.occasion_sd) ** 2 * (1 + 1 / occasions)
        of_runs = within * (1 / blessed + 1 / runs)
        squared = of_runs + tau
        tau_df = sd_df + occasions - len(baseline.occasions)
        df = 1 / ((of_runs / squared) ** 2 / max(own_df, PRIOR_DF) + (tau / squared) ** 2 / tau_df)
    noncentral = float(special().stdtrit(df, plan.pass_confidence(runs)))
    quantile = float(special().nctdtrit(max(own_df, PRIOR_DF), noncentral, PASS_CONFIDENCE))
    smallest = math.sqrt(squared) * quantile if math.isfinite(quantile) else math.inf
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


def _within(rule: TimeRule, x: Floats) -> tuple[float, float, Flags]:
    """The variance of kept runs within their occasions, no prior, its degrees of freedom, and which
    runs these are: each is held against its own occasion."""
    ends = np.cumsum(rule.occasion_runs)[:-1]
    groups = np.split(x, ends)
    kept = rule.keep(np.concatenate([group - np.median(group) for group in groups])).flags[0]
    of_kept = zip(groups, np.split(kept, ends), strict=True)
    own = [SideSums.of(group, flags) for group, flags in of_kept if np.any(flags)]
    variance, df = variance_of(*own)
    return float(variance), float(df), kept


def differs_much(baseline: Baseline) -> bool:
    """Whether the step times of blessed runs have an SD beyond `NOISY`: an A/B run is then better
    made in blocks."""
    found = stored_x(baseline, Metric.STEP_MS, {})
    return found is not None and math.sqrt(_within(*found)[0]) > NOISY


def may_screen(
    baseline: Baseline, budgets: Mapping[Metric, float], spread: Mapping[Metric, Learnt]
) -> bool:
    """Whether the blessed runs themselves, were they made again, would pass the screen; `spread` is
    what other workloads say of occasions (`learn`)."""
    again = [
        Run(
            started_at=occasion.measured_at,
            wall_s=0.0,
            processes=(ProcessSample(pid=1, steps=0, values=run.values, window_ms=0.0),),
        )
        for occasion in baseline.occasions
        for run in occasion.runs
    ]
    evidence = Evidence(workload=baseline.workload, blessed=baseline, alone=again, spread=spread)
    policy = Policy(runs=len(again), budgets=budgets)
    return judge(evidence, policy, Stage.SCREEN).outcome in PASSING


def learn(baselines: Iterable[Baseline], *, of: Baseline) -> dict[Metric, Learnt]:
    """Sum (S - 1) tau_hat^2, and S - 1, over the other workloads of like kind, for each metric.

    Those of like kind share a machine: loops whose GPU waits for the CPU feel its host, others do
    not.
    """
    found: dict[Metric, Learnt] = {}
    for one in baselines:
        free = len(one.occasions) - 1
        if one.workload == of.workload or free < 1 or _waits(one) is not _waits(of):
            continue
        for metric in GATED_TIMES:
            if (stored := stored_x(one, metric, {})) is None:
                continue
            rule, x = stored
            shown, _ = between_occasions(x, rule.keep(x).flags[0], rule.occasion_runs)
            more = Learnt(squares=free * float(shown), df=free)
            found[metric] = found.get(metric, Learnt()) + more
    return found


def _waits(baseline: Baseline) -> bool | None:
    steps, idle = baseline.values(Metric.STEP_MS), baseline.values(Metric.GAP_MS)
    return median(idle) > _IDLE * median(steps) if steps and idle else None
