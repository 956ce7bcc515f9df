"""Which remarks of the runs their verdict repeats, and how loudly: told apart by their words, which metrics choose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from perfgate.judge.rows import why_unmeasured
from perfgate.model.metric import COUNTS, GATED_CLOCKS, METRICS
from perfgate.model.note import Note, Severity, note, quoted
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict

ROUTINE: Final = re.compile(
    "the CPU runs ahead of the GPU: .*|no GPU operation was launched in the steps: step_ms is CPU time only",
    re.DOTALL,
)
"""What is so in run after run of sound loops: told where a run is shown, and by no verdict."""
COUNTED: Final = re.compile(
    r".* and count (to the step before them|where they ran) \(.*\)"
    r"|.* begin inside the step before them, which is measured until there \(.*\)"
    "|a step takes .*, of which its range is .*: the rest lies between"
    "|CUDA graphs were traced whole: .*"
    "|start/end ranges may overlap others, and are not told of where ranges are pushed and popped: .*",
    re.DOTALL,
)
"""What is in the numbers all the same: told beside a verdict's table, which PASSED ones do without."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def shared(runs: Sequence[Run]) -> tuple[str, ...]:
    """The remarks that most of the runs have, each once, with the numbers of the first run that has it."""
    first: dict[str, str] = {}
    holding: Counter[str] = Counter()
    for run in runs:
        alike: dict[str, str] = {}
        for remark in run.remarks:
            alike.setdefault(_NUMBER.sub("#", remark), remark)
        holding.update(alike.keys())
        first = alike | first
    return tuple(remark for likeness, remark in first.items() if 2 * holding[likeness] > len(runs))


def caveats(remarks: Iterable[str]) -> tuple[str, ...]:
    """Those without which a verdict is trusted too far: something of the runs is not in their numbers."""
    return tuple(
        one for one in remarks if not ROUTINE.fullmatch(one) and not COUNTED.fullmatch(one)
    )


def asides(remarks: Iterable[str]) -> tuple[str, ...]:
    """Those that explain the numbers, of which nothing is missing."""
    return tuple(one for one in remarks if COUNTED.fullmatch(one))


def unjudged(verdict: Verdict, runs: Sequence[Run]) -> tuple[Note, ...]:
    """What would be gated, had either side measured it; nothing where nothing is compared.

    Times, and counts that some process of the runs has, so that one without them keeps them from
    being judged.
    """
    if verdict.stage is None:
        return ()
    lacking: dict[str, list[str]] = {}
    seen = {metric for run in runs for process in run.processes for metric in process.values}
    for metric in (*GATED_CLOCKS, *(count for count in COUNTS if count in seen)):
        row, why = verdict.of(metric), why_unmeasured(runs, metric)
        if why is not None and (row is None or row.now is row.baseline is None):
            lacking.setdefault(why, []).append(metric)
    return tuple(
        note("metrics-not-measured", Severity.WARN, metrics=tuple(metrics), why=quoted(why))
        for why, metrics in lacking.items()
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
