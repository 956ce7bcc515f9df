"""What other workloads of a machine say of how its occasions differ: their variances are pooled.

Those of like kind share a machine: loops whose GPU waits for the CPU feel its host, others do not.
"""

from __future__ import annotations

from collections.abc import Iterable

from perfgate.judge.compare import Learnt, between_occasions, middle
from perfgate.judge.evidence import Other
from perfgate.judge.hold import blessed_x
from perfgate.judge.outliers import keep
from perfgate.judge.rows import Terms, rule_of
from perfgate.model.baseline import Baseline
from perfgate.model.metric import GATED_TIMES, METRICS, Metric

_IDLE = 0.05
"""Share of a step from which its GPU is taken to wait for the CPU."""


def learn(baselines: Iterable[Baseline], *, of: Baseline) -> dict[Metric, Learnt]:
    """Sum (S - 1) tau_hat^2, and S - 1, over the other workloads of like kind, for each metric."""
    alike = [one for one in baselines if one.workload != of.workload and _waits(one) is _waits(of)]
    found: dict[Metric, Learnt] = {}
    for metric in GATED_TIMES:
        parts = [part for one in alike if (part := _learnt(one, metric)) is not None]
        if parts:
            found[metric] = Learnt(
                squares=sum(float(part.squares) for part in parts),
                df=sum(part.df for part in parts),
            )
    return found


def _waits(baseline: Baseline) -> bool | None:
    steps, idle = baseline.values(Metric.STEP_MS), baseline.values(Metric.GAP_MS)
    return middle(idle) > _IDLE * middle(steps) if steps and idle else None


def _learnt(baseline: Baseline, metric: Metric) -> Learnt | None:
    free, spec = len(baseline.occasions) - 1, METRICS[metric].clock
    x = None if spec is None else blessed_x(baseline, metric, spec.basis)
    if free < 1 or spec is None or x is None:
        return None
    rule = rule_of(metric, spec, Other.blessed(baseline), Terms())
    kept = keep((x,), prior_sd=rule.prior_sd, budget=rule.limit).flags[0]
    shown, _ = between_occasions(x, kept, rule.occasion_runs)
    return Learnt(squares=free * float(shown), df=float(free))
