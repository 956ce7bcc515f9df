"""Remarks beside a verdict: unconfirmed counts, another SM clock, which decide nothing."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.judge.compare import middle
from perfgate.judge.rows import Rows
from perfgate.judge.words import amount
from perfgate.model.baseline import Baseline
from perfgate.model.sample import Run

_CLOCK_CHANGE = 0.005
"""Kernel time follows the SM clock: beyond this, stored kernel times are not what they would be now."""


def remarks(judged: Rows, baseline: Baseline, runs: Sequence[Run]) -> tuple[str, ...]:
    """Return what is worth knowing beside the verdict, as sentences without full stop."""
    told = [count.remark for count in judged.counts if count.remark is not None]
    moved = clock_moved(baseline, runs)
    if moved is not None:
        told.append(f"{moved}: kernel time follows it")
    return tuple(told)


def clock_moved(baseline: Baseline, runs: Sequence[Run]) -> str | None:
    """Say that the GPU ran at another SM clock than when the baseline was measured; None where it did not."""
    clocks = _clocks(baseline, runs)
    if clocks is None or abs(clocks[1] / clocks[0] - 1) <= _CLOCK_CHANGE:
        return None
    return (
        f"the SM clock was {amount(clocks[0])} MHz in the baseline and {amount(clocks[1])} MHz now"
    )


def clock_rise(baseline: Baseline, runs: Sequence[Run]) -> float:
    """By which fraction the SM clock is higher now, 0 where it is not, or not known: it hides a loss of that size."""
    clocks = _clocks(baseline, runs)
    return 0.0 if clocks is None else max(0.0, clocks[1] / clocks[0] - 1)


def longer_by_clock(baseline: Baseline, runs: Sequence[Run]) -> float:
    """By which fraction kernels may take longer since the SM clock is lower now, 0 where it is not, or not known."""
    clocks = _clocks(baseline, runs)
    if clocks is None or clocks[1] <= 0 or clock_moved(baseline, runs) is None:
        return 0.0
    return max(0.0, clocks[0] / clocks[1] - 1)


def _clocks(baseline: Baseline, runs: Sequence[Run]) -> tuple[float, float] | None:
    """The SM clock in MHz, then and now, where both are known."""
    before = [run.sm_clock_mhz for run in baseline.runs if run.sm_clock_mhz is not None]
    after = [run.conditions.sm_clock_mhz for run in runs if run.conditions.sm_clock_mhz is not None]
    if not before or not after or middle(before) <= 0:
        return None
    return middle(before), middle(after)
