"""What the GPU did of a variant's step: computed, copied with nothing to hide it, or idled; judges
nothing."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.series.recording import RecordedRun, RecordedVariant
from perfgate.model.metric import Metric


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Fractions of a step that add up to 1; medians over the runs."""

    computing: float
    """The rest: some kernel ran."""
    copying: float
    """Copies and memsets during which no kernel ran."""
    idle: float
    """No kernel, copy or memset ran."""


def shares_of(variant: RecordedVariant) -> Shares | None:
    """Of a variant's runs that count; None where no GPU was measured in them."""
    copying, idle = [], []
    for one in variant.sound:
        found = _of_step(one)
        if found is not None:
            copying.append(found[0])
            idle.append(found[1])
    if not idle:
        return None
    unhidden, waiting = median(copying), min(median(idle), 1.0)
    unhidden = min(unhidden, 1.0 - waiting)
    return Shares(computing=1.0 - waiting - unhidden, copying=unhidden, idle=waiting)


def _of_step(one: RecordedRun) -> tuple[float, float] | None:
    step_ms, gap_ms = (one.run.value(metric) for metric in (Metric.STEP_MS, Metric.GAP_MS))
    if not step_ms or gap_ms is None:
        return None
    exposed = (
        one.run.value(metric) or 0.0 for metric in (Metric.H2D_EXPOSED_MS, Metric.MEM_EXPOSED_MS)
    )
    return sum(exposed) / step_ms, gap_ms / step_ms
