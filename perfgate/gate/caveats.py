"""Which remarks of the runs their verdict repeats, and how loudly: told apart by their words, which metrics choose."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from perfgate.judge.rows import why_unmeasured
from perfgate.model.metric import COUNTS, GATED_CLOCKS, METRICS
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict
from perfgate.model.words import listed

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


def unjudged(verdict: Verdict, runs: Sequence[Run]) -> tuple[str, ...]:
    """What would be gated, had either side measured it, with the reason; nothing where nothing is compared.

    Clocks, and counts that some process of the runs has, so that one without them keeps them from being judged.
    """
    lacking: dict[str, list[str]] = {}
    told = {metric for run in runs for process in run.processes for metric in process.values}
    named = [
        metric
        for metric in METRICS
        if metric in GATED_CLOCKS or (metric in COUNTS and metric in told)
    ]
    for metric in named if verdict.stage is not None else ():
        row = verdict.of(metric)
        why = why_unmeasured(runs, metric)
        if why is not None and (row is None or row.now is row.baseline is None):
            lacking.setdefault(why, []).append(metric)
    return tuple(
        f"not judged, as neither side measured {'it' if len(metrics) == 1 else 'them'}: {listed(metrics)} ({why})"
        for why, metrics in lacking.items()
    )


def unblessed(verdict: Verdict) -> tuple[str, ...]:
    """What would be gated, had the baseline or the other commit had it; nothing where nothing is compared."""
    rows = verdict.metrics if verdict.stage is not None else ()
    new = [
        row.metric
        for row in rows
        if row.outcome is None and row.baseline is None and row.now is not None
    ]
    lacking = [metric for metric in new if METRICS[metric].gated]
    if not lacking:
        return ()
    them = "it" if len(lacking) == 1 else "them"
    return (
        f"not judged, as the baseline does not have {them}: {listed(lacking)}; bless anew to gate {them}",
    )
