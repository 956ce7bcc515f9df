"""Verdicts that rest on no judgement, and what is said next to others."""

from __future__ import annotations

from perfgate.gate.expect import Expectation
from perfgate.model.note import Note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict


def verdict_of(expected: Expectation, outcome: Outcome, why: Note, *, runs: int = 0) -> Verdict:
    """A verdict that rests on no judgement of the runs that were made."""
    blessed = () if expected.baseline is None else expected.baseline.runs
    return Verdict(
        workload=expected.workload.id,
        outcome=outcome,
        why=why,
        runs=runs,
        baseline_runs=len(blessed),
    )


def not_measured(workload: str, why: Note) -> Verdict:
    """The verdict of a workload that never came to its first run."""
    return Verdict(workload=workload, outcome=Outcome.NOT_MEASURED, why=why)


def because(verdict: Verdict, outcome: Outcome, why: Note) -> Verdict:
    """The verdict with another outcome and its reason."""
    return verdict.model_copy(update={"outcome": outcome, "why": why, "next": None})


def noting(verdict: Verdict, *notes: Note) -> Verdict:
    """The verdict with further notes."""
    return verdict.model_copy(update={"notes": (*verdict.notes, *notes)})
