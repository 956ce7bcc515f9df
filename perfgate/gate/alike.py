"""Whether two sides took the same steps, in as many processes, and launched anything. A note where
they did not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from perfgate.model.baseline import Baseline, BlessedRun, common_step_ranges
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import Form, Run

MOST_OTHERS: Final = 0.2
"""Share of the steps whose names the other side does not know, from which they are other steps."""
FEWEST_TO_RECUR: Final = 2
"""Runs of the other side that tell names of steps from data in them."""
MOST_NAMES: Final = 5
"""Names of steps that a note holds."""


def other_steps(then: Sequence[BlessedRun], run: Run) -> Note | None:
    """Note that other ranges are steps of a run than were of the other side; None where unknown."""
    return _other_names(then, run) or _other_number(then, run)


def _other_names(then: Sequence[BlessedRun], run: Run) -> Note | None:
    """By their names.

    A few of other names are work of another kind, now and then; `MOST_OTHERS` of them are another
    step. Names that differ as much among the runs of the other side are data, which one run alone
    does not show.
    """
    known = [frozenset(map(_folded, one.step_names)) for one in then]
    here = [
        {_folded(name): share for name, share in process.step_names.items()}
        for process in run.processes
    ]
    if len(known) < FEWEST_TO_RECUR or not here or not all([*known, *here]) or _are_data(known):
        return None
    before = frozenset.union(*known)
    new = [sum(share for name, share in names.items() if name not in before) for names in here]
    if max(new) < MOST_OTHERS:
        return None
    return note("other-step-names", before=_some(before), now=_some(BlessedRun.of(run).step_names))


def _folded(name: str) -> str:
    """A name whose numbers are one sign each: older baselines have one of each digit."""
    return re.sub(r"#{2,}", "#", name)


def _are_data(runs: Sequence[frozenset[str]]) -> bool:
    """Whether in most runs so many names are of no other run as make other steps: ids, or texts."""
    held = Counter(name for names in runs for name in names)
    own = [sum(held[name] == 1 for name in names) >= MOST_OTHERS * len(names) for names in runs]
    return 2 * sum(own) > len(runs)


def _some(names: Iterable[str]) -> tuple[str, ...]:
    ordered = sorted(names)
    return (*ordered[:MOST_NAMES], *(["..."] if len(ordered) > MOST_NAMES else []))


def _other_number(then: Sequence[BlessedRun], run: Run) -> Note | None:
    """By how many match: a script may have put other steps in front, or made two of one.

    Where the number differs among the runs of the other side, it says nothing. One more or less in
    a process may be the end of the capture.
    """
    if sum(one.step_ranges is not None for one in then) < FEWEST_TO_RECUR:
        return None
    before, now = common_step_ranges(then), BlessedRun.of(run).step_ranges
    if before is None or now is None or abs(now - before) <= len(run.processes):
        return None
    return note("other-step-count", before=before, now=now)


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
    """Note that most steps launch nothing on a GPU, which none did on the other side.

    What a profiler that lost the rest has left on the GPU is no faster than it was.
    """
    there, here = _launched([one.values.get for one in then]), _launched([run.value])
    if not there or not here or any(here[0]) or not (least := min(sum(one) for one in there)):
        return None
    return note("launches-nothing", then=least)


def _launched(of_runs: Iterable[Callable[[Metric], float | None]]) -> list[tuple[float, float]]:
    """Kernels and graphs that each run launched; empty where they are not known of all."""
    found: list[tuple[float, float]] = []
    for value in of_runs:
        kernels, graphs = value(Metric.LAUNCHES), value(Metric.GRAPH_LAUNCHES)
        if kernels is None or graphs is None:
            return []
        found.append((kernels, graphs))
    return found


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
