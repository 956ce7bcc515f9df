"""Baselines and runs from columns of numbers, for tests of what compares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from perfgate.model.baseline import Anchor, Baseline, BlessedRun, Blessing, Occasion, Spread
from perfgate.model.machine import Conditions, GpuCondition, Machine
from perfgate.model.metric import Metric
from perfgate.model.sample import ProcessSample, Run

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
    absent: Mapping[Metric, str] | None = None,
    sm_clock_mhz: float | None = None,
) -> list[Run]:
    """Build one run of one process for each entry of the columns."""
    gpu = GpuCondition(uuid="GPU-1", samples=9, sm_clock_mhz=sm_clock_mhz)
    return [
        Run(
            started_at=MOMENT,
            wall_s=1.0,
            processes=(
                ProcessSample(pid=1, steps=30, values=values, absent=absent or {}, window_ms=300.0),
            ),
            conditions=Conditions(gpus=(gpu,)),
        )
        for values in rows_of(columns)
    ]
