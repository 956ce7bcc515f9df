"""Names the NVTX ranges under which a metric moved, from what was attributed to ranges; adds nothing of its own."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from perfgate.model.metric import METRICS, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import OUTSIDE_RANGES, RangeSample, Run
from perfgate.model.verdict import MetricVerdict, Verdict

_MOST_NAMED: Final = 3
_LEAST_SHARE: Final = 0.05
"""A range whose part of the whole is smaller is not worth its name."""
_WHOLE: Final = 0.99
"""From this share on, the named ranges are the whole of it."""
_PARTS_OF_STEP: Final = (Metric.KERNEL_MS, Metric.GAP_MS)
"""A step is no range's own: kernel time, idle time and copies that nothing hides, which are, stand for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """What one range added to one metric, per step."""

    metric: Metric
    range_name: str
    change: float
    note: str = ""


def where(
    baseline_ranges: Sequence[RangeSample], now: Run | Sequence[RangeSample], verdict: Verdict
) -> dict[Metric, str]:
    """Say for each metric that moved by how much, and under which ranges: `+1: +1 under loss_log`.

    A metric moved if it is REGRESSED or IMPROVED, or INCONCLUSIVE with a change of more than half its budget. Ranges
    are matched by name; of a run with several processes, those of its slowest. At most three ranges are named, and
    only those that moved the way the whole did. A metric about which ranges say nothing has no entry.
    """
    ranges = ranges_of(now) if isinstance(now, Run) else now
    if not baseline_ranges or not ranges:
        return {}
    told: dict[Metric, str] = {}
    for row in verdict.metrics:
        if row.baseline is None or row.now is None or not _moved(row):
            continue
        sources = _parts_of_step(verdict) if row.metric is Metric.STEP_MS else (row.metric,)
        whole = row.now - row.baseline
        parts = [part for source in sources for part in _parts(source, baseline_ranges, ranges, verdict)]
        named = _largest(parts, whole)
        if named:
            told[row.metric] = _tell(row.metric, whole, named)
    return told


def _parts_of_step(verdict: Verdict) -> tuple[Metric, ...]:
    exposed, copied = verdict.of(Metric.H2D_EXPOSED_MS), verdict.of(Metric.H2D_MS)
    if exposed is None or copied is None or _growth(exposed) * 2 < _growth(copied) or _growth(exposed) <= 0:
        return _PARTS_OF_STEP
    return (*_PARTS_OF_STEP, Metric.H2D_MS)


def _growth(row: MetricVerdict) -> float:
    return (row.now or 0.0) - (row.baseline or 0.0)


def ranges_of(run: Run) -> tuple[RangeSample, ...]:
    """Return the ranges of the run's slowest process, which is the one whose values the judge took."""
    slowest = max(run.processes, key=lambda process: process.values.get(Metric.STEP_MS, 0.0), default=None)
    return () if slowest is None else slowest.ranges


def _moved(row: MetricVerdict) -> bool:
    if row.outcome is Outcome.INCONCLUSIVE:
        return row.change is not None and row.budget is not None and row.change > row.budget / 2
    return row.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)


def _parts(
    metric: Metric, baseline_ranges: Sequence[RangeSample], ranges: Sequence[RangeSample], verdict: Verdict
) -> list[_Part]:
    """Return every range's change of one metric."""
    before, after = _by_name(metric, baseline_ranges), _by_name(metric, ranges)
    row = verdict.of(metric)
    if row is None or row.baseline is None or row.now is None:
        return []
    if (row.baseline and not before) or (row.now and not after):
        return []  # measured and never attributed: what its ranges hold is unknown, not zero
    names = {sample.name for sample in baseline_ranges}
    # A baseline keeps its largest ranges only: unless they account for all of it, an unknown one may have been small.
    complete = math.isclose(sum(before.values()), row.baseline, rel_tol=1 - _WHOLE, abs_tol=1e-9)
    unknown = " (new)" if complete else " (not among the baseline's largest)"
    return [
        _Part(
            metric=metric,
            range_name=name,
            change=after.get(name, 0.0) - before.get(name, 0.0),
            note="" if name in names else unknown,
        )
        for name in sorted(before.keys() | after.keys())
    ]


def _by_name(metric: Metric, ranges: Sequence[RangeSample]) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for sample in ranges:
        if metric in sample.values:
            found[sample.name] += sample.values[metric]
    return found


def _largest(parts: Sequence[_Part], whole: float) -> list[_Part]:
    """Return the parts worth naming, the largest first: those that went the whole's way by a fair share of it."""
    sign = math.copysign(1.0, whole)
    fair = [part for part in parts if part.change * sign > max(_LEAST_SHARE * abs(whole), 1e-9)]
    return sorted(fair, key=lambda part: -abs(part.change))[:_MOST_NAMED]


def _tell(metric: Metric, whole: float, named: Sequence[_Part]) -> str:
    unit = METRICS[metric].unit
    signed = [
        f"{'' if part.metric is metric else f'{part.metric} '}{_number(part.change)} {_under(part)}" for part in named
    ]
    of_which = abs(sum(part.change for part in named)) < _WHOLE * abs(whole)
    joint = ", of which " if of_which else ": "
    return f"{_number(whole)}{f' {unit}' if unit else ''}{joint}{', '.join(signed)}"


def _under(part: _Part) -> str:
    if part.range_name == OUTSIDE_RANGES:
        return "outside any range"
    return f"under {part.range_name}{part.note}"


def _number(value: float) -> str:
    """Write a signed number per step with three digits that count: `+1`, `+3.9`, `-0.012`, `+1572864`."""
    size = abs(value)
    if not 1e-3 <= size < 1e15:
        return f"{value:+.3g}"
    decimals = max(0, 2 - math.floor(math.log10(size)))
    text = f"{value:+.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
