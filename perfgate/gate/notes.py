"""What is said next to a verdict: of its runs, and of what it leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from perfgate.model.metric import COUNTS, GATED_TIMES, METRICS
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run, why_absent
from perfgate.model.verdict import Verdict


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


def left_out(verdict: Verdict, runs: Sequence[Run], *, has_gpu: bool) -> Iterator[Note]:
    """What a comparison did not judge, and would have gated, had both sides measured it.

    Of counts those that some process has, so that one without them keeps them unjudged; nothing
    where there is no GPU.
    """
    if verdict.stage is None:
        return
    seen = {metric for run in runs for process in run.processes for metric in process.values}
    lacking: dict[str, tuple[Note, list[str]]] = {}
    for metric in (*GATED_TIMES, *(count for count in COUNTS if count in seen)):
        row, why = verdict.of(metric), why_absent(runs, metric)
        is_nowhere = row is None or row.now is row.baseline is None
        if has_gpu and why and is_nowhere and not why.code.startswith(NO_NCCL.code):
            lacking.setdefault(str(why), (why, []))[1].append(metric)
    for why, metrics in lacking.values():
        yield note("metrics-not-measured", Severity.WARN, metrics=tuple(metrics), why=why)
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
