"""Many small losses that have become a large one, and how they came about."""

from __future__ import annotations

from perfgate.model.baseline import FEWEST_RUNS
from perfgate.model.metric import Basis
from perfgate.model.note import Note, note
from perfgate.model.verdict import Blessed, Drift


def anchor_lost(found: Drift, workload: str, *, runs: int) -> Note:
    """Say that many small losses have become one large one, and on which path."""
    can_bless = runs >= FEWEST_RUNS
    return note(
        "anchor-lost",
        change=found.change,
        low=found.low,
        high=found.high,
        unit=Basis.LOG.unit,
        budget=found.budget,
        path=tuple(map(_point, found.path)),
        now=found.now,
        bless_it=note("bless-it") if can_bless else note("gate-and-bless", fewest=FEWEST_RUNS),
        workload=workload,
    )


def _point(blessed: Blessed) -> Note:
    day, ms = f"{blessed.at:%Y-%m-%d}", blessed.step_ms
    if blessed.commit is None:
        return note("blessed-at", step_ms=ms, day=day)
    return note("blessed-at-commit", step_ms=ms, day=day, commit=blessed.commit[:7])
