"""How much faster each rung is than the first of its loop, and what its GPU did: the numbers behind
the picture."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.ladders.judging import ordered_rungs
from benchmarks.ladders.lessons import LADDERS
from benchmarks.ladders.recording import Recording
from benchmarks.ladders.shares import Shares, shares_of
from benchmarks.ladders.table import ordered_loops
from perfgate.model.metric import Metric


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One rung; all are ratios of speeds, above 1 faster than the first rung that was measured."""

    rung: str
    ours: float
    """By the median run of either."""
    slowest: float
    fastest: float
    """By single runs of this rung."""
    published: float | None
    shares: Shares | None
    """Of its step; None where no GPU was measured."""


def bars_of(recording: Recording) -> dict[str, tuple[Bar, ...]]:
    """Return the bars of each loop that has at least two rungs with a step time, in the ladders'
    order."""
    bars = {loop: _bars(recording, loop) for loop in ordered_loops(recording)}
    return {loop: found for loop, found in bars.items() if len(found) > 1}


def _bars(recording: Recording, loop: str) -> tuple[Bar, ...]:
    rungs = [rung for rung in ordered_rungs(recording, loop) if rung.values(Metric.STEP_MS)]
    if not rungs:
        return ()
    first = median(rungs[0].values(Metric.STEP_MS))
    found = []
    for rung in rungs:
        times = rung.values(Metric.STEP_MS)
        theirs, base = (
            None if recording.small else _published(loop, one.rung) for one in (rung, rungs[0])
        )
        found.append(
            Bar(
                rung=rung.rung,
                ours=first / median(times),
                slowest=first / max(times),
                fastest=first / min(times),
                published=theirs / base if theirs and base else None,
                shares=shares_of(rung),
            )
        )
    return tuple(found)


def _published(loop: str, name: str) -> float | None:
    ladder = LADDERS.get(loop)
    rung = None if ladder is None else ladder.rung(name)
    return None if rung is None else rung.published
