"""What other workloads of a machine say of how its occasions differ: their variances are pooled.

Those of like kind share a machine: loops whose GPU waits for the CPU feel its host, others do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from perfgate.judge.compare import Learnt, between_occasions
from perfgate.judge.hold import stored_x
from perfgate.model.baseline import Baseline
from perfgate.model.metric import GATED_TIMES, Metric

_IDLE = 0.05
"""Share of a step from which its GPU is taken to wait for the CPU."""


def learn(baselines: Iterable[Baseline], *, of: Baseline) -> dict[Metric, Learnt]:
    """Sum (S - 1) tau_hat^2, and S - 1, over the other workloads of like kind, for each metric."""
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
