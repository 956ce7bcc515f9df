"""Which notes of the runs their verdict repeats, and how loudly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from perfgate.judge.rows import why_unmeasured
from perfgate.model.metric import COUNTS, GATED_CLOCKS, METRICS
from perfgate.model.note import Note, Severity, Value, note
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict


def shared(runs: Sequence[Run]) -> tuple[Note, ...]:
    """The notes that most of the runs have, each once, with the numbers of the first run that has it."""
    first: dict[str, Note] = {}
    holding: Counter[str] = Counter()
    for run in runs:
        alike: dict[str, Note] = {}
        for one in run.notes:
            alike.setdefault(_likeness(one), one)
        holding.update(alike.keys())
        first = alike | first
    return tuple(one for likeness, one in first.items() if 2 * holding[likeness] > len(runs))


def _likeness(one: Note) -> str:
    """What two notes have in common that differ in numbers only."""
    words = {name: one.fields[name] for name in one.fields if _is_text(one.fields[name])}
    return f"{one.code} {words}"


def _is_text(value: Value) -> bool:
    return not isinstance(value, int | float)


def caveats(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Those without which a verdict is trusted too far: something of the runs is not in their numbers."""
    return tuple(one for one in notes if one.severity is Severity.WARN)


def asides(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Those that explain the numbers, of which nothing is missing."""
    return tuple(one for one in notes if one.severity is Severity.INFO)


def unjudged(verdict: Verdict, runs: Sequence[Run]) -> tuple[Note, ...]:
    """What would be gated, had either side measured it; nothing where nothing is compared.

    Times, and counts that some process of the runs has, so that one without them keeps them from
    being judged.
    """
    if verdict.stage is None:
        return ()
    lacking: list[tuple[Note, list[str]]] = []
    seen = {metric for run in runs for process in run.processes for metric in process.values}
    for metric in (*GATED_CLOCKS, *(count for count in COUNTS if count in seen)):
        row, why = verdict.of(metric), why_unmeasured(runs, metric)
        if why is not None and (row is None or row.now is row.baseline is None):
            metrics = next((its for other, its in lacking if other == why), None)
            if metrics is None:
                lacking.append((why, metrics := []))
            metrics.append(metric)
    return tuple(
        note("metrics-not-measured", Severity.WARN, metrics=tuple(metrics), why=why)
        for why, metrics in lacking
    )


def unblessed(verdict: Verdict) -> tuple[Note, ...]:
    """What would be gated, had the other side had it; nothing where nothing is compared."""
    lacking = tuple(
        row.metric
        for row in verdict.metrics
        if row.outcome is None and row.baseline is None and row.now is not None
    )
    gated = tuple(metric for metric in lacking if METRICS[metric].gated)
    if verdict.stage is None or not gated:
        return ()
    return (note("metrics-not-blessed", Severity.WARN, metrics=gated),)
