"""What a judge's rows leave to be done: whether more runs or a duet could settle them, and what ends a gate early."""

from __future__ import annotations

from perfgate.model.metric import METRICS, Kind
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict
from perfgate.model.words import plural


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


def exact_count_rose(verdict: Verdict) -> bool:
    """Whether an exact count shuts the gate: the one thing that ends a gate between its looks.

    A clock's word between looks is not taken, neither for nor against, nor that of a count that varies: each further
    look costs error.
    """
    return any(row.outcome is Outcome.REGRESSED and row.exact for row in verdict.metrics)


def without_doubtful_clocks(verdict: Verdict, runs: int) -> Verdict:
    """Show as estimates, and not judge, the times that a loss which ended the gate early left no runs for."""
    reason = f"not judged: a loss settled the gate after {plural(runs, 'run')}"
    settled = (Outcome.REGRESSED, Outcome.NOT_MEASURED)
    rows = tuple(
        row.model_copy(update={"outcome": None, "reason": reason})
        if row.outcome is Outcome.INCONCLUSIVE
        or (METRICS[row.metric].kind is Kind.CLOCK and row.outcome not in settled)
        else row
        for row in verdict.metrics
    )
    return verdict.model_copy(update={"metrics": rows})
