"""Verdicts that rest on no judgement, and what is said next to others: of their runs, of what they
leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from perfgate.gate.expect import Expectation
from perfgate.model.metric import COUNTS, GATED_TIMES, METRICS
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run, why_absent
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


def shared(runs: Sequence[Run]) -> Iterator[Note]:
    """The warnings and notes of most runs, each once, with the numbers of the first that has it:
    notes that differ in numbers only are one."""
    first: dict[str, Note] = {}
    held: Counter[str] = Counter()
    for run in runs:
        alike: dict[str, Note] = {}
        for one in run.notes:
            fields = one.fields.items()
            texts = {name: value for name, value in fields if not isinstance(value, int | float)}
            alike.setdefault(f"{one.code} {texts}", one)
        held.update(alike.keys())
        first = alike | first
    for likeness, one in first.items():
        if 2 * held[likeness] > len(runs) and one.severity in (Severity.WARN, Severity.INFO):
            yield one


def shut_anyway(verdict: Verdict) -> Iterator[Note]:
    """Why an INCONCLUSIVE verdict keeps the gate shut whatever the settings say, if it does."""
    if verdict.too_few_runs:
        yield note("shut-by-few-runs", Severity.WARN)
    elif verdict.beyond:
        yield note("shut-by-size", Severity.WARN, metric=verdict.beyond[0].metric)


def left_out(verdict: Verdict, runs: Sequence[Run], *, has_gpu: bool) -> Iterator[Note]:
    """What a comparison did not judge, and would have gated, had both sides measured it."""
    if verdict.stage is None:
        return
    if has_gpu:  # without one nobody expects them
        yield from _unmeasured(verdict, runs)
    unblessed = tuple(
        row.metric
        for row in verdict.metrics
        if METRICS[row.metric].gated
        and row.outcome is None
        and row.baseline is None
        and row.now is not None
    )
    if unblessed:
        yield note("metrics-not-blessed", Severity.WARN, metrics=unblessed)


def _unmeasured(verdict: Verdict, runs: Sequence[Run]) -> Iterator[Note]:
    """Times, and counts that some process has, so that one without them keeps them unjudged."""
    seen = {metric for run in runs for process in run.processes for metric in process.values}
    lacking: dict[str, tuple[Note, list[str]]] = {}
    for metric in (*GATED_TIMES, *(count for count in COUNTS if count in seen)):
        row, why = verdict.of(metric), why_absent(runs, metric)
        is_none = why is None or why.code.startswith(NO_NCCL.code)
        if why and not is_none and (row is None or row.now is row.baseline is None):
            lacking.setdefault(str(why), (why, []))[1].append(metric)
    for why, metrics in lacking.values():
        yield note("metrics-not-measured", Severity.WARN, metrics=tuple(metrics), why=why)
