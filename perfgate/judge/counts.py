"""Judges one count: exactly where the baseline was exact, against its blessed maximum where not; knows no clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.compare import middle
from perfgate.judge.words import amount, plural
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict

_CONFIRMED = 2
"""Processes that must show a rise: one may be a fluke of its start."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CountJudgement:
    """One count's row, and what it asks of the gate."""

    row: MetricVerdict
    wants_second_run: bool = False
    """A rise in the only run so far: a second process must confirm it."""
    remark: str | None = None


def judge_count(metric: Metric, blessed: Sequence[float], now: Sequence[float], *, max_runs: int) -> CountJudgement:
    """Judge one count; both sides hold at least one value, one per run."""
    exact = all(_same(value, blessed[0]) for value in blessed)
    limit = max(blessed)
    risen = [value for value in now if value > limit and not _same(value, limit)]
    fallen = [value for value in now if exact and value < limit and not _same(value, limit)]
    bound = "exact" if exact else f"not exact: {amount(min(blessed))} to {amount(limit)} in the baseline"
    runs = len(now)

    def row(outcome: Outcome, reason: str, values: Sequence[float] = now) -> MetricVerdict:
        here, there = middle(values), middle(blessed)
        change = (here - there) / there if there else None
        return MetricVerdict(
            metric=metric,
            outcome=outcome,
            baseline=there,
            now=here,
            change=change if change is not None and math.isfinite(change) else None,
            exact=exact,
            reason=reason,
        )

    if risen:
        rise = f"rose from {amount(limit)} to {amount(middle(risen))} per step ({bound})"
        if len(risen) >= _CONFIRMED:
            return CountJudgement(row=row(Outcome.REGRESSED, rise, risen))
        if runs == 1 and max_runs < _CONFIRMED:
            return CountJudgement(row=row(Outcome.REGRESSED, f"{rise}, in the only run allowed", risen))
        if runs == 1:
            asked = f"{rise}, to be confirmed by a second run"
            return CountJudgement(row=row(Outcome.INCONCLUSIVE, asked, risen), wants_second_run=True)
        once = f"{rise} in 1 of {plural(runs, 'run')}, not confirmed"
        return CountJudgement(row=row(Outcome.PASSED, once), remark=f"{metric} {once}")
    if len(fallen) == runs:
        fall = f"fell from {amount(limit)} to {amount(middle(fallen))} per step ({bound})"
        return CountJudgement(row=row(Outcome.IMPROVED, fall))
    if fallen:
        some = f"fell from {amount(limit)} in {len(fallen)} of {plural(runs, 'run')}"
        return CountJudgement(row=row(Outcome.PASSED, some), remark=f"{metric} {some}")
    return CountJudgement(row=row(Outcome.PASSED, "unchanged (exact)" if exact else f"within its maximum ({bound})"))


def _same(one: float, other: float) -> bool:
    """Counts are medians over steps, so x.5 occurs; only the last bits are forgiven."""
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
