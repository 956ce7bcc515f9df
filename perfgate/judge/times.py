"""One time metric: its values as x, what is compared, and by what rule it is judged. Of other
metrics it knows only how many share alpha.

Formulas and their sources, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from perfgate.judge.compare import PRIOR_DF, Flags, Floats, Learnt, between_occasions
from perfgate.judge.looks import STORED_PLAN, Plan
from perfgate.judge.outliers import Kept, keep
from perfgate.model.baseline import Baseline, BlessedRun
from perfgate.model.metric import METRICS, Basis, Metric, TimeSpec, budget_of

SPECS: Final[Mapping[Metric, TimeSpec]] = {
    metric: spec.time for metric, spec in METRICS.items() if spec.time is not None
}
"""How each time metric that is gated is judged."""
Columns = Mapping[Metric, Floats]
"""ms, or counts, per step: one value a run, shape (runs,) or (gates, runs)."""

_LARGEST = 1e150
"""x must stay below this, so that squares stay finite."""
_PART_OF_STEP = 0.1
"""Of the step's budget: what kernel time may lose of a step."""
_FARTHEST_LOG = 700.0
"""exp() of more than this is no double."""


# From runs to x


def columns(runs: Sequence[BlessedRun]) -> dict[Metric, Floats]:
    """Return each metric that every run has."""
    return {
        metric: np.array([run.values[metric] for run in runs])
        for metric in METRICS
        if runs and all(metric in run.values for run in runs)
    }


def as_x(metric: Metric, values: Floats, there: Columns) -> Floats:
    """Turn times into x: ln(ms / median of the other side), or ms over the other side's median
    step.

    As the log of a ratio: scaling all times then changes no bit of what follows. NaN where the
    other side leaves nothing to compare with.
    """
    is_log = METRICS[metric].basis is Basis.LOG
    reference = there.get(metric if is_log else Metric.STEP_MS, np.array([math.nan]))
    with np.errstate(all="ignore"):
        middle = np.median(reference, axis=-1, keepdims=True)
        ratio = values / np.where(middle > 0, middle, math.nan)
        return np.log(ratio) if is_log else ratio


def to_x(basis: Basis, fraction: float) -> float:
    """Turn a loss as it is shown into a difference of x: 2 % slower is log(1.02)."""
    return math.log1p(fraction) if basis is Basis.LOG else fraction


def is_usable(*x: Floats) -> bool:
    """Whether all can be reckoned with; NaN cannot."""
    return all(bool(np.all(np.abs(side) < _LARGEST)) for side in x)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeRule:
    """How one time metric of one gate is judged."""

    metric: Metric
    budget: float
    """A fraction in the metric's basis."""
    least_loss: Floats | float = 0.0
    """A loss of so much, as x, fails nobody."""
    plan: Plan = STORED_PLAN
    occasion_runs: tuple[int, ...] = (1,)
    """How many of the baseline's runs each of its occasions has, in order."""
    learnt: Learnt = field(default_factory=Learnt)
    """What else is known of the machine's occasions: of other workloads, of a calibration."""
    shares: int = 1
    """Among how many alpha is shared: time metrics times workloads."""

    @property
    def spec(self) -> TimeSpec:
        """Basis and priors."""
        return SPECS[self.metric]

    @property
    def loss_alpha(self) -> float:
        """What a p-value may be at most to show a loss at one look."""
        return self.plan.alpha / self.shares

    @property
    def limit(self) -> Floats:
        """What the upper bound must be below, as x."""
        return np.maximum(to_x(self.spec.basis, self.budget), self.least_loss)

    def as_fraction(self, x: Floats | float) -> float:
        """Turn a difference of x into what is shown: log(1.02) is 2 % slower."""
        is_log = self.spec.basis is Basis.LOG
        return math.expm1(min(float(x), _FARTHEST_LOG)) if is_log else float(x)

    def keep(self, *sides: Floats, in_pairs: bool = False) -> Kept:
        """Mark the runs to keep, or the differences of pairs: a part of the step is extreme, and
        slow, by so much at least as makes a step so."""
        spec, is_part = self.spec, self.spec.basis is Basis.STEP
        return keep(
            sides,
            prior_sd=spec.block_sd if in_pairs else spec.prior_sd,
            budget=np.maximum(self.limit, SPECS[Metric.STEP_MS].budget if is_part else 0.0),
        )

    def tau(self, before: Floats, kept: Flags) -> tuple[Floats, float]:
        """What occasions differ by next to the runs of one, an SD, and its degrees of freedom: by
        the baseline's runs that are kept, and by what was `learnt`.

        tau^2 = (2 max(tau0, run SD)^2 + sum (S - 1) tau_hat^2)/(2 + sum (S - 1)).
        """
        shown, within = between_occasions(before, kept, self.occasion_runs)
        believed = np.square(np.maximum(self.spec.occasion_sd, np.sqrt(within)))
        free = len(self.occasion_runs) - 1
        df = PRIOR_DF + free + self.learnt.df
        return np.sqrt((PRIOR_DF * believed + free * shown + self.learnt.squares) / df), df


def rule_of(
    metric: Metric,
    there: Columns,
    budgets: Mapping[Metric, float],
    *,
    plan: Plan = STORED_PLAN,
    baseline: Baseline | None = None,
) -> TimeRule:
    """Return how a time metric is judged against `there`; a `baseline`'s occasions count, and what
    a calibration found of them.

    Kernel time may lose a tenth of what the step may, whatever its own budget.
    """
    spread = None if baseline is None else baseline.calibration.get(metric)
    learnt = Learnt()
    if spread is not None:
        free = spread.occasions - 1
        learnt = Learnt(squares=free * spread.occasion_sd**2, df=free)
    return TimeRule(
        metric=metric,
        budget=budgets.get(metric, SPECS[metric].budget),
        least_loss=least_loss(there, budgets) if metric is Metric.KERNEL_MS else 0.0,
        plan=plan,
        occasion_runs=tuple(len(one.runs) for one in baseline.occasions) if baseline else (1,),
        learnt=learnt,
    )


def least_loss(there: Columns, budgets: Mapping[Metric, float]) -> Floats | float:
    """What kernel time may lose, as x: a tenth of what the step may, in ms."""
    budget = budget_of(Metric.STEP_MS, budgets) or 0.0
    if Metric.STEP_MS not in there or Metric.KERNEL_MS not in there:
        return 0.0
    with np.errstate(all="ignore"):
        step, kernel = (np.median(there[of], axis=-1) for of in (Metric.STEP_MS, Metric.KERNEL_MS))
        share = np.maximum(step, 0.0) / kernel
        return np.where(kernel > 0, np.log1p(_PART_OF_STEP * budget * share), 0.0)
