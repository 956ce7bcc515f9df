"""Whether two sides took the same steps, in as many processes, and launched anything. A note where
they did not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from perfgate.model.baseline import BlessedRun, common_step_names, common_step_ranges
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.sample import Form, Run

MOST_OTHERS: Final = 0.2
"""Share of the steps whose names the other side does not know, from which they are other steps: a
few are work of another kind, now and then."""
FEWEST_TO_RECUR: Final = 2
"""Runs of the other side that tell names and numbers of steps from data."""
MOST_NAMES: Final = 5
"""Names of steps that a note holds."""
_DIGITS: Final = re.compile("##+")


def differs(then: Sequence[BlessedRun], run: Run) -> Note | None:
    """Note that a run does something else than the other side's did; None where unknown."""
    if (steps := _other_steps(then, run)) is not None:
        return steps
    known = sorted({one.processes for one in then if one.processes is not None})
    now = len(run.processes)
    if known and now not in known:
        return note("other-processes", then=known[-1], now=now)
    return _launches_gone(then, run)


def _other_steps(then: Sequence[BlessedRun], run: Run) -> Note | None:
    """By the names of their ranges, or by how many match: a script may have put other steps in
    front, or made two of one.

    What is not the same in all runs of the other side is data, and says nothing. One range more or
    less in a process may be the end of the capture.
    """
    if len(then) < FEWEST_TO_RECUR:
        return None
    known, here = _names(common_step_names(then)), [one.step_names for one in run.processes]
    new = [sum(share for name, share in of.items() if not _names([name]) <= known) for of in here]
    if known and all(here) and max(new, default=0.0) >= MOST_OTHERS:
        names = BlessedRun.of(run).step_names
        return note("other-step-names", before=_some(known), now=_some(names))
    before, now = common_step_ranges(then), BlessedRun.of(run).step_ranges
    if before is None or now is None or abs(now - before) <= len(run.processes):
        return None
    return note("other-step-count", before=before, now=now)


def _names(given: Iterable[str]) -> frozenset[str]:
    """With one sign for each number: older baselines have one for each digit."""
    return frozenset(_DIGITS.sub("#", name) for name in given)


def _some(names: Iterable[str]) -> tuple[str, ...]:
    ordered = sorted(names)
    return (*ordered[:MOST_NAMES], *(["..."] if len(ordered) > MOST_NAMES else []))


def _launches_gone(then: Sequence[BlessedRun], run: Run) -> Note | None:
    """Most steps launch nothing on a GPU, which none did on the other side.

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


def first_time_work(runs: Sequence[Run]) -> list[Note]:
    """What most of at least two runs show of first-time work; in one a pace may have changed."""
    slow = [{one.code: one.fields for one in run.notes}.get("first-steps-slow") for run in runs]
    found = [fields for fields in slow if fields is not None]
    if len(found) <= max(1, len(runs) / 2):
        return []
    return [Note(code="first-time-work", severity=Severity.INVALID, fields=found[-1])]


def other_form(then: Sequence[BlessedRun], runs: Sequence[Run]) -> Note | None:
    """Note that runs waited elsewhere than those of the other side, where CUDA graphs take another
    time for it."""
    sides = then, [BlessedRun.of(run) for run in runs]
    forms = [
        {one.form if one.form in (Form.EARLY, Form.LATE) else Form.ALONE for one in side}
        for side in sides
    ]
    graphs = (any(one.values.get(Metric.GRAPH_LAUNCHES) for one in side) for side in sides)
    if len(forms[0] | forms[1]) < 2 or not all(graphs):
        return None
    before, now = (tuple(sorted(side)) for side in forms)
    return note("other-form", then=before, now=now)
