"""How much faster each variant is than the first of its loop, and what its GPU did: the numbers
behind the picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.series.judging import Shares, ordered_variants, shares_of
from benchmarks.series.lessons import VARIANTS
from benchmarks.series.recording import Recording
from benchmarks.series.table import ordered_loops
from perfgate.model.metric import Metric


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One variant; all are ratios of speeds, above 1 faster than the first variant that was
    measured.
    """

    variant: str
    ours: float
    """By the median run of either."""
    slowest: float
    fastest: float
    """By single runs of this variant."""
    published: float | None
    shares: Shares | None
    """Of its step; None where no GPU was measured."""


def bars_of(recording: Recording) -> dict[str, tuple[Bar, ...]]:
    """Return the bars of each loop that has at least two variants with a step time, in the series'
    order."""
    bars = {loop: _bars(recording, loop) for loop in ordered_loops(recording)}
    return {loop: found for loop, found in bars.items() if len(found) > 1}


def _bars(recording: Recording, loop: str) -> tuple[Bar, ...]:
    variants = [
        variant for variant in ordered_variants(recording, loop) if variant.values(Metric.STEP_MS)
    ]
    if not variants:
        return ()
    first = median(variants[0].values(Metric.STEP_MS))
    found = []
    for variant in variants:
        times = variant.values(Metric.STEP_MS)
        theirs, base = (_published(loop, one.variant) for one in (variant, variants[0]))
        found.append(
            Bar(
                variant=variant.variant,
                ours=first / median(times),
                slowest=first / max(times),
                fastest=first / min(times),
                published=theirs / base if theirs and base else None,
                shares=shares_of(variant),
            )
        )
    return tuple(found)


def _published(loop: str, name: str) -> float | None:
    series = VARIANTS.get(loop)
    variant = None if series is None else series.variant(name)
    return None if variant is None else variant.published
