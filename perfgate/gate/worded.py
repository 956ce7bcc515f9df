"""Verdicts and what they say: the one place of the gate that puts notes into them."""

from __future__ import annotations

from perfgate.gate.expect import Expectation
from perfgate.model.note import Note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict
from perfgate.words import say


def verdict_of(expected: Expectation, outcome: Outcome, why: Note, *, runs: int = 0) -> Verdict:
    """A verdict that rests on no judgement of the runs that were made."""
    baseline = expected.baseline
    return Verdict(
        workload=expected.workload.id,
        outcome=outcome,
        why=why,
        runs=runs,
        baseline_runs=len(baseline.runs) if baseline is not None else 0,
    )


def not_measured(workload: str, why: Note) -> Verdict:
    """The verdict of a workload that never came to its first run."""
    return Verdict(workload=workload, outcome=Outcome.NOT_MEASURED, why=why)


def because(verdict: Verdict, outcome: Outcome, why: Note) -> Verdict:
    """The verdict with another outcome and its reason."""
    return verdict.model_copy(update={"outcome": outcome, "why": why, "next": None})


def doing(verdict: Verdict, what: Note) -> Verdict:
    """The verdict with the next step of a note, where that has one."""
    return verdict.model_copy(update={"next": what}) if say.next_step(what) else verdict


def noting(verdict: Verdict, *notes: Note) -> Verdict:
    """The verdict with further notes."""
    return verdict.model_copy(update={"notes": (*verdict.notes, *notes)})
