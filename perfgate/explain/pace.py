"""Whether a loop's pace changes for good within its measured steps, or is slow at first; it decides
nothing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from statistics import median
from typing import Final

from perfgate.model.note import Note, Severity, note
from perfgate.model.sample import Run

FEWEST_RUNS: Final = 2
"""The host's noise changes the pace of one."""
SHORTEST: Final = 5
"""Periods that one pace must last for."""
BEYOND: Final = 0.02
"""Of the faster pace: step_ms's default budget."""
MOSTLY: Final = 0.95
"""Share of the pairs of a period of either pace in which that of the slower one is longer."""
MOST_PLACES: Final = 100
"""At which a change is looked for."""
SLOW: Final = 2.0
"""A step at the start is slow from so many times the median of those after it on."""
BEYOND_ALL: Final = 1.25
"""And from so many times the longest of these: what comes now and then comes first by chance."""
_DROPPED: Final = 2
"""Steps before the one that ends the first period kept."""


def pace_notes(runs: Sequence[Run]) -> tuple[Note, ...]:
    """Say how the pace of the measured steps is not one pace; nothing where it is one.

    A slow start, which may hide a loss, is a warning. One that is too short to be a pace may be
    taken for part of one, whose median then says nothing of it.
    """
    is_short = any(last < SHORTEST + _DROPPED for _, _, last in _starts(runs))
    found = (slow_start(runs), pace_changed(runs))
    return tuple(one for one in (found if is_short else found[::-1]) if one is not None)[:1]


def slow_start(runs: Sequence[Run]) -> Note | None:
    """Say that the first measured steps of every run are far slower than all others; None if not.

    One step alone is slow by chance, also the first: of 8024 windows of a launch-bound loop 1.6 to
    2.3 % began with one of more than 1.25 times the median, and longer than all of the later half
    (`benchmarks/host-noise`). Not in every run.
    """
    found = _starts(runs)
    if not found:
        return None
    longest, usual, last = sorted(found)[len(found) // 2]
    return note(
        "slow-start",
        Severity.WARN,
        found=len(found),
        runs=len(runs),
        longest_ms=longest,
        usual_ms=usual,
        last=last,
        warmup=max(last for _, _, last in found),
    )


def _starts(runs: Sequence[Run]) -> list[tuple[float, float, int]]:
    """The slow start of each run; none where not all of them, and two at least, have one."""
    looked_at = [run for run in runs if run.begins is None]
    found = [start for run in looked_at if (start := _start(run)) is not None]
    return found if len(found) >= max(FEWEST_RUNS, len(looked_at)) else []


def _start(run: Run) -> tuple[float, float, int] | None:
    """The longest step of a slow start and the median of the others, in ms, and the last slow step;
    None without."""
    periods = run.processes[0].periods_ms if run.processes else ()
    if len(periods) < 2 * SHORTEST:
        return None
    slow = 0
    for period in periods[: len(periods) // 2]:
        rest = periods[slow + 1 :]
        if period <= max(SLOW * median(rest), BEYOND_ALL * max(periods[len(periods) // 2 :])):
            break
        slow += 1
    return (max(periods[:slow]), median(periods[slow:]), slow + _DROPPED) if slow else None


def pace_changed(runs: Sequence[Run]) -> Note | None:
    """Say that most runs change their pace within the measured steps; None if not.

    A GPU that meets its power cap a second after the first heavy step does so, and a cache that
    grows full. Runs of an A/B run of blocks are not looked at: its blocks have paces of their own.
    """
    changing = [(change, run) for run in runs if (change := _change(run)) is not None]
    if len(changing) < FEWEST_RUNS or 2 * len(changing) <= len(runs):
        return None
    step, before, after, steps = sorted(change for change, _ in changing)[len(changing) // 2]
    gpus = [gpu for _, run in changing for gpu in run.conditions.gpus]
    capped = any(one.code == "gpu-power-cap" for gpu in gpus for one in gpu.information)
    return note(
        "pace-changes-at-power-cap" if capped else "pace-changes",
        found=len(changing),
        runs=len(runs),
        before_ms=before,
        after_ms=after,
        step=step,
        steps=steps,
    )


def _change(run: Run) -> tuple[int, float, float, int] | None:
    """The first measured step of the second pace, both paces in ms, and how many steps there are;
    None without one."""
    if not run.processes or run.begins is not None:
        return None
    process = run.processes[0]
    periods = process.periods_ms
    places = range(SHORTEST, len(periods) - SHORTEST + 1, max(1, len(periods) // MOST_PLACES))
    if not places:
        return None
    place = min(places, key=lambda place: _spread(periods[:place]) + _spread(periods[place:]))
    first, last = sorted(periods[:place]), periods[place:]
    before, after = median(first), median(last)
    if abs(after - before) <= BEYOND * min(before, after):
        return None
    shorter = sum(bisect_left(first, period) for period in last)
    longer = sum(len(first) - bisect_right(first, period) for period in last)
    if max(shorter, longer) < MOSTLY * len(first) * len(last):
        return None
    return place + _DROPPED + 1, before, after, process.steps


def _spread(periods: Sequence[float]) -> float:
    """The sum of the distances from their median."""
    pace = median(periods)
    return sum(abs(period - pace) for period in periods)
