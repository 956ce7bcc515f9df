"""The metrics of a run: names, units, how each is judged, and the defaults (budget, prior,
occasion)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field


def _fraction(value: object) -> object:
    """A percentage as a fraction: `2%` is 0.02; all else as it is."""
    return (
        float(value.strip()[:-1]) / 100
        if isinstance(value, str) and value.strip().endswith("%")
        else value
    )


Budget = Annotated[float, Field(gt=0, lt=1), BeforeValidator(_fraction)]
"""A fraction, or a percentage as text."""


class Metric(StrEnum):
    """A number of one run, always per step; the unit is in the name, counts have none."""

    STEP_MS = "step_ms"
    STEP_MEAN_MS = "step_mean_ms"
    KERNEL_MS = "kernel_ms"
    GAP_MS = "gap_ms"
    H2D_MS = "h2d_ms"
    H2D_EXPOSED_MS = "h2d_exposed_ms"
    NCCL_MS = "nccl_ms"
    NCCL_EXPOSED_MS = "nccl_exposed_ms"
    MEM_EXPOSED_MS = "mem_exposed_ms"
    LAUNCHES = "launches"
    GRAPH_LAUNCHES = "graph_launches"
    H2D_COPIES = "h2d_copies"
    H2D_BYTES = "h2d_bytes"
    D2H_COPIES = "d2h_copies"
    PAGEABLE_COPIES = "pageable_copies"
    SYNCS = "syncs"


Values = Mapping[Metric, float]
"""By metric: measured values, per step, or budgets, as fractions."""


def _with_budget(metric: Metric) -> Metric:
    if metric not in (*WITH_BUDGET, *NO_LONGER_GATED):
        raise ValueError("expected a metric that has a budget")
    return metric


Budgeted = Annotated[Metric, AfterValidator(_with_budget)]
"""A metric that may have a budget."""
Budgets = Mapping[Budgeted, Budget]


class Kind(StrEnum):
    """How a metric is judged: a count exactly, a time with statistics."""

    TIME = "time"
    COUNT = "count"


class Basis(StrEnum):
    """What a time metric's change is measured in."""

    LOG = "relative"
    """Change of log(ms): 0.02 is 2 % slower."""
    STEP = "share of the baseline step"
    """Change of ms over the baseline's median step_ms: 0.01 is one percentage point of a step."""

    @property
    def unit(self) -> str:
        """Of a change as it is shown: per cent, or percentage points of the baseline's step."""
        return "%" if self is Basis.LOG else "pp"


class TimeSpec(NamedTuple):
    """How one time metric is judged. All numbers are fractions in its basis."""

    basis: Basis
    budget: float
    prior_sd: float
    """Run-to-run SD that is believed before the runs have spoken."""
    occasion_sd: float
    """SD between occasions where nothing is known of them."""
    block_sd: float
    """SD of what the two sides of a pair of interleaved blocks differ by."""


class MetricSpec(NamedTuple):
    """One row of the metrics table."""

    meaning: str
    kind: Kind
    unit: str
    time: TimeSpec | None
    """Present on time metrics that are gated; one without it is shown only."""
    gated: bool
    """Whether a loss in this metric can shut the gate."""
    basis: Basis
    """What a change of a time metric is given in: of waiting, a share of the step, also where it is
    shown only."""

    def change(self, before: float, after: float, *, step_ms: float | None) -> float | None:
        """Return a gain as a fraction: of `step_ms` for times judged as shares of a step, of
        `before` for all else.

        None where that has no meaning: `before` or `step_ms` is zero or unknown, or it is beyond
        all numbers.
        """
        whole = step_ms if self.basis is Basis.STEP else before
        if before == after:
            return 0.0
        if not whole:
            return None
        change = (float(after) - float(before)) / float(whole)
        return change if math.isfinite(change) else None


_OF_STEPS = TimeSpec(
    basis=Basis.LOG, budget=0.02, prior_sd=0.005, occasion_sd=0.005, block_sd=0.007
)
_OF_KERNELS = TimeSpec(
    basis=Basis.LOG, budget=0.01, prior_sd=0.001, occasion_sd=0.001, block_sd=0.0028
)
_IDLE = TimeSpec(basis=Basis.STEP, budget=0.02, prior_sd=0.005, occasion_sd=0.005, block_sd=0.007)
"""Idle time carries the noise of the step: in launch-bound loops it is the step but for its
kernels."""
_MOVED = TimeSpec(basis=Basis.STEP, budget=0.01, prior_sd=0.003, occasion_sd=0.002, block_sd=0.003)

_TIMES: Mapping[Metric, TimeSpec] = {
    Metric.STEP_MS: _OF_STEPS,
    Metric.KERNEL_MS: _OF_KERNELS,
    Metric.GAP_MS: _IDLE,
    Metric.H2D_MS: _MOVED,
    Metric.NCCL_EXPOSED_MS: _MOVED,
}
_MEANINGS: Mapping[Metric, str] = {
    Metric.STEP_MS: (
        "mean period between step completions on the GPU timeline, each capped at 1.2 medians"
    ),
    Metric.STEP_MEAN_MS: "mean period between step completions, stalls and all",
    Metric.KERNEL_MS: "kernel time, NCCL's kernels apart",
    Metric.GAP_MS: (
        "time in which a GPU ran no kernel, copy or memset, in the mean of the process's GPUs"
    ),
    Metric.H2D_MS: "host-to-device copy time",
    Metric.H2D_EXPOSED_MS: "host-to-device copy time during which no kernel ran",
    Metric.NCCL_MS: "NCCL kernel time",
    Metric.NCCL_EXPOSED_MS: "NCCL kernel time during which nothing else ran",
    Metric.MEM_EXPOSED_MS: (
        "time of memsets and of copies other than host-to-device during which no kernel ran"
    ),
    Metric.LAUNCHES: "kernel launches, runtime and driver API",
    Metric.GRAPH_LAUNCHES: "CUDA graph launches",
    Metric.H2D_COPIES: "host-to-device copies",
    Metric.H2D_BYTES: "bytes copied host to device",
    Metric.D2H_COPIES: "device-to-host copies",
    Metric.PAGEABLE_COPIES: "copies whose host side is pageable memory",
    Metric.SYNCS: "calls that make the CPU wait for the GPU",
}

EXPOSED: Final = (Metric.H2D_EXPOSED_MS, Metric.NCCL_EXPOSED_MS, Metric.MEM_EXPOSED_MS)
"""Clocks of what lies in the idle time of all that it could have overlapped with."""
METRICS: Mapping[Metric, MetricSpec] = {
    metric: MetricSpec(
        meaning,
        kind=Kind.TIME if metric.endswith("_ms") else Kind.COUNT,
        unit="ms" if metric.endswith("_ms") else "B" if metric.endswith("_bytes") else "",
        time=time,
        gated=time is not None or not metric.endswith("_ms"),
        basis=time.basis if time else Basis.STEP if metric in EXPOSED else Basis.LOG,
    )
    for metric, meaning in _MEANINGS.items()
    for time in (_TIMES.get(metric),)
}
"""Every metric, in the order in which it is shown."""

PERIODS: Final = (Metric.STEP_MS, Metric.STEP_MEAN_MS)
"""What a step takes, in the median and in the mean; all others are a part of it or a count."""
WAITS: Final = frozenset({Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS})
"""Clocks that hold the waiting for other processes: NCCL's kernels spin until all ranks are there.
"""
GATED_TIMES: Final = tuple(m for m, s in METRICS.items() if s.time is not None)
WITH_BUDGET: Final = tuple(m for m, s in METRICS.items() if s.gated)
NO_LONGER_GATED: Final = (
    Metric.STEP_MEAN_MS,
    Metric.H2D_EXPOSED_MS,
    Metric.MEM_EXPOSED_MS,
)
"""Time metrics that a budget may name, as older projects do, without effect."""
COUNTS: Final = tuple(m for m, s in METRICS.items() if s.kind is Kind.COUNT)
CALLED: Final = (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS)
"""Counts of what the CPU calls, which say nothing of what ran on a GPU."""


def budget_of(metric: Metric, given: Values) -> float | None:
    """What a time metric may lose, a fraction in its basis: as given, else by default; None of what
    has no budget."""
    time = METRICS[metric].time
    return given.get(metric, time.budget if time else None)
