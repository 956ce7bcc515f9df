"""Whether the GPU's SM clock is what it was: kernel time follows it, copies and the host do not."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.judge.compare import middle
from perfgate.model.baseline import BlessedRun
from perfgate.model.note import Note, note
from perfgate.model.sample import Run

_CHANGE = 0.005
"""Beyond this, stored kernel times are not what they would be now."""


def clock_moved(blessed: Sequence[BlessedRun], runs: Sequence[Run]) -> Note | None:
    """Say that the SM clock is another than the baseline's; None where it is not, or not known."""
    before, now = _clocks(blessed, runs)
    if abs(now / before - 1) <= _CHANGE:
        return None
    return note("clock-moved", then_mhz=round(before), now_mhz=round(now))


def by_clock(blessed: Sequence[BlessedRun], runs: Sequence[Run]) -> float:
    """By which fraction the SM clock alone makes kernels take longer now; below 0: shorter."""
    before, now = _clocks(blessed, runs)
    return before / now - 1


def _clocks(blessed: Sequence[BlessedRun], runs: Sequence[Run]) -> tuple[float, float]:
    """The SM clock in MHz, then and now; as if it had not moved where one is not known."""
    before = [run.sm_clock_mhz for run in blessed if run.sm_clock_mhz is not None]
    after = [run.conditions.sm_clock_mhz for run in runs if run.conditions.sm_clock_mhz is not None]
    if not before or not after or min(middle(before), middle(after)) <= 0:
        return 1.0, 1.0
    return middle(before), middle(after)
