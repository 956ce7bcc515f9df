"""Baselines and runs from columns of numbers, for tests of what compares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from perfgate.judge.evidence import Evidence
from perfgate.judge.judge import judge
from perfgate.judge.looks import STORED_PLAN, Plan
from perfgate.model.baseline import Anchor, Baseline, BlessedRun, Blessing, Occasion, Spread
from perfgate.model.machine import Conditions, GpuCondition, Machine
from perfgate.model.metric import Metric
from perfgate.model.sample import ProcessSample, Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import Verdict

MOMENT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

Columns = Mapping[Metric, Sequence[float | None]]
"""One column a metric, one entry a run; None where the run did not measure it."""


def rows_of(columns: Columns) -> Iterator[dict[Metric, float]]:
    """Turn columns of equal length into one mapping a run."""
    for row in zip(*columns.values(), strict=True):
        yield {
            metric: value for metric, value in zip(columns, row, strict=True) if value is not None
        }


def blessed(
    columns: Columns,
    *,
    occasions: int = 1,
    workload: str = "matmul",
    anchor_ms: float | None = None,
    calibration: Mapping[Metric, Spread] | None = None,
    sm_clock_mhz: float | None = None,
) -> Baseline:
    """Build a baseline whose runs are dealt to the occasions in turn."""
    runs = [BlessedRun(values=values, sm_clock_mhz=sm_clock_mhz) for values in rows_of(columns)]
    return Baseline(
        workload=workload,
        digest="0123456789abcdef",
        parameters={},
        machine=Machine(),
        occasions=tuple(
            Occasion(measured_at=MOMENT, runs=tuple(runs[first::occasions]))
            for first in range(occasions)
        ),
        blessing=Blessing(by="ada", at=MOMENT, reason="first"),
        anchor=None if anchor_ms is None else Anchor(step_ms=anchor_ms, at=MOMENT),
        calibration=calibration or {},
    )


def measured(
    columns: Columns,
    *,
    absent: Mapping[Metric, Any] | None = None,
    sm_clock_mhz: float | None = None,
) -> list[Run]:
    """Build one run of one process for each entry of the columns."""
    return [_run(values, sm_clock_mhz, absent or {}) for values in rows_of(columns)]


def _run(
    values: Mapping[Metric, float], sm_clock_mhz: float | None, absent: Mapping[Metric, Any]
) -> Run:
    gpu = GpuCondition(uuid="GPU-1", samples=9, sm_clock_mhz=sm_clock_mhz)
    process = ProcessSample(pid=1, steps=30, values=values, absent=absent, window_ms=300.0)
    return Run(
        started_at=MOMENT,
        wall_s=1.0,
        processes=(process,),
        conditions=Conditions(gpus=(gpu,)),
    )


def judged(
    other: Baseline,
    runs: Sequence[Run],
    plan: Plan = STORED_PLAN,
    *,
    max_runs: int = 29,
    budgets: Mapping[Metric, float] | None = None,
    workloads: int = 1,
    stored: Baseline | None = None,
    alone: Sequence[Run] = (),
    alone_there: Sequence[Run] = (),
) -> Verdict:
    """Judge runs, at most so many a side, by a plan: against `other`, or paired with its runs."""
    is_ab_run = plan.is_ab_run
    held = Policy(
        runs=max(len(runs) + len(alone) * is_ab_run, 1),
        max_runs=2 * max_runs + len(alone) if is_ab_run else max_runs,
        stops_early=False,
        budgets=budgets or {},
        sharing=workloads,
    )
    stored_runs = [_run(run.values, run.sm_clock_mhz, {}) for run in other.runs]
    evidence = Evidence(
        workload=other.workload,
        blessed=stored if is_ab_run else other,
        alone=alone if is_ab_run else runs,
        alone_there=alone_there,
        pairs=tuple(zip(stored_runs, runs, strict=False)) if is_ab_run else (),
        spent=len(alone),
    )
    return judge(evidence, held, plan.stage)
