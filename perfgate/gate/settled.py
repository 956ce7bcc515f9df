"""What a judge's rows leave to be done: whether more runs or a duet could settle them, and what ends a gate early."""

from __future__ import annotations

from perfgate.model.metric import METRICS, Kind
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict


def is_open(verdict: Verdict) -> bool:
    """Whether there is a clock, or a count that varies, that a duet or more runs could settle."""
    return any(
        row.outcome is Outcome.INCONCLUSIVE
        and (METRICS[row.metric].kind is Kind.CLOCK or not row.exact)
        for row in verdict.metrics
    )


def count_rose(verdict: Verdict) -> bool:
    """Whether a count shuts the gate."""
    return any(
        row.outcome is Outcome.REGRESSED and METRICS[row.metric].kind is Kind.COUNT
        for row in verdict.metrics
    )
