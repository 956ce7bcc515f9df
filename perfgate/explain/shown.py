"""What stands next to a verdict and decides nothing: rows of metrics that are shown only, or are
new, and whether a loop is slow at first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run, missing_in
from perfgate.model.verdict import MetricVerdict, Verdict

_OF_COUNTS = frozenset(
    {
        "count-rose-in-only",
        "count-rose-once",
        "count-rose-by-chance",
        "count-fell-in-some",
        "count-of-process",
        "graphs-for-launches",
    }
)
"""What of a count is said next to the verdict too."""


def of_counts(verdict: Verdict) -> Iterator[Note]:
    """What of its counts is said next to a verdict too: those that nearly decided."""
    for row in verdict.metrics:
        if row.outcome is not Outcome.INCONCLUSIVE and row.note and row.note.code in _OF_COUNTS:
            yield note("metric-is", metric=row.metric, what=row.note)


def with_shown(verdict: Verdict, other: Sequence[BlessedRun], runs: Sequence[Run]) -> Verdict:
    """The verdict with a row of each further metric that either side's runs have, in the order of
    `METRICS`."""
    rows = {row.metric: row for row in verdict.metrics}
    steps = [run.values[Metric.STEP_MS] for run in other if Metric.STEP_MS in run.values]
    step_ms = median(steps) if steps and len(steps) == len(other) else None
    for metric, spec in METRICS.items():
        if metric in rows or not runs:
            continue
        before = [run.values[metric] for run in other if metric in run.values]
        now = [value for run in runs if (value := run.value(metric)) is not None]
        here = median(now) if now else None
        if before and len(before) == len(other):
            there = median(before)
            change = None if here is None else spec.change(there, here, step_ms=step_ms)
            rows[metric] = MetricVerdict(
                metric=metric,
                outcome=None,
                baseline=there,
                now=here,
                basis=None if change is None else spec.basis,
                change=change,
                note=note("only-shown") if len(now) == len(runs) else missing_in(runs, metric),
            )
        elif before or now:
            code = "new-to-gate" if spec.gated else "new-to-show"
            of_some = note(code, having=len(before), runs=len(other))
            rows[metric] = MetricVerdict(metric=metric, outcome=None, now=here, note=of_some)
    ordered = tuple(rows[metric] for metric in METRICS if metric in rows)
    return verdict.model_copy(update={"metrics": ordered})


# A slow start

FEWEST_ALIKE: Final = 2
"""Runs that start slowly: the host's noise does that to one."""
FEWEST_PERIODS: Final = 10
"""Of a run whose start is looked at."""
SLOW: Final = 2.0
"""A step at the start is slow from so many times the median of those after it on."""
BEYOND_ALL: Final = 1.25
"""And from so many times the longest of these: what comes now and then comes first by chance."""
_DROPPED: Final = 2
"""Steps before the one that ends the first period kept."""


def start_notes(runs: Sequence[Run]) -> tuple[Note, ...]:
    """Warn that the first measured steps of every run are far slower than all others, which may
    hide a loss; nothing where they are not."""
    starts = slow_starts(runs)
    if not starts:
        return ()
    longest, usual, last = sorted(starts)[len(starts) // 2]
    slow = note(
        "slow-start",
        Severity.WARN,
        found=len(starts),
        runs=len(runs),
        longest_ms=longest,
        usual_ms=usual,
        last=last,
        warmup=max(last for _, _, last in starts),
    )
    return (slow,)


def slow_starts(runs: Sequence[Run]) -> list[tuple[float, float, int]]:
    """The slow start of each run; none where not all of them, and two at least, have one.

    One step alone is slow by chance, also the first: of 8024 windows of a launch-bound loop 1.6 to
    2.3 % began with one of more than 1.25 times the median, and longer than all of the later half
    (`benchmarks/host-noise`). Not in every run.
    """
    looked_at = [run for run in runs if run.begins is None]
    found = [start for run in looked_at if (start := _start(run)) is not None]
    return found if len(found) >= max(FEWEST_ALIKE, len(looked_at)) else []


def _start(run: Run) -> tuple[float, float, int] | None:
    """The longest step of a slow start and the median of the others, in ms, and the last slow step;
    None without."""
    periods = run.processes[0].periods_ms if run.processes else ()
    if len(periods) < FEWEST_PERIODS:
        return None
    slow = 0
    for period in periods[: len(periods) // 2]:
        rest = periods[slow + 1 :]
        if period <= max(SLOW * median(rest), BEYOND_ALL * max(periods[len(periods) // 2 :])):
            break
        slow += 1
    return (max(periods[:slow]), median(periods[slow:]), slow + _DROPPED) if slow else None
