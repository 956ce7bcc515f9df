"""Whether two sides took the same steps, in as many processes, and launched anything. A note where
they did not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from perfgate.model.baseline import Baseline, BlessedRun, common_step_ranges
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.sample import Form, Run

MOST_OTHERS: Final = 0.2
"""Share of the steps whose names the other side does not know, from which they are other steps."""
FEWEST_TO_RECUR: Final = 2
"""Runs of the other side that tell names of steps from data in them."""
MOST_NAMES: Final = 5
"""Names of steps that a note holds."""
_DIGITS: Final = re.compile("##+")


def other_steps(then: Sequence[BlessedRun], run: Run) -> Note | None:
    """Note that other ranges are steps of a run than were of the other side; None where unknown.

    By their names, or by how many match: a script may have put other steps in front, or made two of
    one. Where the number differs among the runs of the other side, it says nothing. One more or
    less in a process may be the end of the capture.
    """
    if (named := _other_names(then, run)) is not None:
        return named
    if sum(one.step_ranges is not None for one in then) < FEWEST_TO_RECUR:
        return None
    before, now = common_step_ranges(then), BlessedRun.of(run).step_ranges
    if before is None or now is None or abs(now - before) <= len(run.processes):
        return None
    return note("other-step-count", before=before, now=now)


def _other_names(then: Sequence[BlessedRun], run: Run) -> Note | None:
    """By their names, in which each number is one sign: older baselines have one of each digit.

    A few of other names are work of another kind, now and then; `MOST_OTHERS` of them are another
    step. Names that differ as much among the runs of the other side are data (ids, or texts), which
    one run alone does not show.
    """
    known = [frozenset(_DIGITS.sub("#", name) for name in one.step_names) for one in then]
    here = [
        {_DIGITS.sub("#", name): share for name, share in process.step_names.items()}
        for process in run.processes
    ]
    if len(known) < FEWEST_TO_RECUR or not here or not all([*known, *here]):
        return None
    held = Counter(name for names in known for name in names)
    own = [sum(held[name] == 1 for name in names) >= MOST_OTHERS * len(names) for names in known]
    new = [sum(share for name, share in names.items() if name not in held) for names in here]
    if 2 * sum(own) > len(known) or max(new) < MOST_OTHERS:
        return None
    return note("other-step-names", before=_some(held), now=_some(BlessedRun.of(run).step_names))


def _some(names: Iterable[str]) -> tuple[str, ...]:
    ordered = sorted(names)
    return (*ordered[:MOST_NAMES], *(["..."] if len(ordered) > MOST_NAMES else []))


def first_time_work(runs: Sequence[Run]) -> Note | None:
    """What most of at least two runs show of first-time work; in one a pace may have changed."""
    slow = [[one for one in run.notes if one.code == "first-steps-slow"] for run in runs]
    found = [notes[0].fields for notes in slow if notes]
    if len(found) <= max(1, len(runs) / 2):
        return None
    return Note(code="first-time-work", severity=Severity.INVALID, fields=found[-1])


def processes_lost(runs: Sequence[Run]) -> Note | None:
    """A rank that took no step leaves no trace in the values, which are those of the others."""
    first, now = len(runs[0].processes), len(runs[-1].processes)
    return None if first == now else note("processes-lost", first=first, now=now)


def other_processes(baseline: Baseline, run: Run) -> Note | None:
    """Note that other processes took the steps than when it was blessed; None where unknown."""
    blessed = sorted({one.processes for one in baseline.runs if one.processes is not None})
    now = len(run.processes)
    if not blessed or now in blessed:
        return None
    return note("other-processes", then=blessed[-1], now=now)


def launches_gone(then: Sequence[BlessedRun], run: Run) -> Note | None:
    """Note that most steps launch nothing on a GPU, which none did on the other side; None where
    unknown.

    What a profiler that lost the rest has left on the GPU is no faster than it was.
    """
    launched = [
        (one.values.get(Metric.LAUNCHES), one.values.get(Metric.GRAPH_LAUNCHES))
        for one in (*then, BlessedRun.of(run))
    ]
    if not then or any(None in of_run for of_run in launched):
        return None
    *there, here = [sum(filter(None, of_run)) for of_run in launched]
    least = min(there)
    return None if here or not least else note("launches-nothing", then=least)


def other_form(then: Sequence[BlessedRun], runs: Sequence[Run]) -> Note | None:
    """Note that runs waited elsewhere than those of the other side, where CUDA graphs take another
    time for it."""
    launched = (
        any(one.values.get(Metric.GRAPH_LAUNCHES) for one in then),
        any(run.value(Metric.GRAPH_LAUNCHES) for run in runs),
    )
    forms = [
        {one.form if one.form in (Form.EARLY, Form.LATE) else Form.ALONE for one in side}
        for side in (then, runs)
    ]
    if len(forms[0] | forms[1]) < 2 or not all(launched):
        return None
    before, now = (tuple(sorted(side)) for side in forms)
    return note("other-form", then=before, now=now)
