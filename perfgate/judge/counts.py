"""Judges counts: exactly where the baseline was exact, by how many runs rose or fell where not.

Formulas, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from perfgate.judge.compare import middle
from perfgate.judge.evidence import Case
from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import COUNTS, Metric
from perfgate.model.note import note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict

_CONFIRMED = 2
"""Processes that must show a rise of an exact count: one may be a fluke of its start."""
_CHANCE = 0.005
"""What a look may spend of alpha, 1 %, on counts that vary: up to four, of the same runs."""
_RUNS_TO_BE_EXACT = 3
"""Runs of either side, in an A/B run, that must agree: over fewer, any count is the same in all."""


class _Place(NamedTuple):
    """A count of the processes that have most of it, or the next most: one value per run."""

    blessed: Sequence[float]
    now: Sequence[float]
    exact: bool
    """Whether it is known to be the same in every run of `blessed`'s code."""


def judge_counts(case: Case) -> dict[Metric, MetricVerdict]:
    """Judge each count that all runs have."""
    now = [BlessedRun.of(run) for run in case.runs]
    places = {
        metric: _places(metric, case, now)
        for metric in COUNTS
        if metric in case.there.keys() & case.here
    }
    varying = sum(not place.exact for of_metric in places.values() for place in of_metric)
    return {
        metric: _judge_count([_judge_place(metric, place, case, varying) for place in of_metric])
        for metric, of_metric in places.items()
    }


def _places(metric: Metric, case: Case, now: Sequence[BlessedRun]) -> list[_Place]:
    """Return a count by processes, the highest first; the highest alone where runs do not match.

    Whether it is exact blessed runs know better than the other side's of an A/B run.
    """
    then, here, known_then = (_by_process(metric, runs) for runs in (case.other, now, case.stored))
    number = len(here[0]) if len({len(one) for one in (*then, *here)}) == 1 else 1
    places: list[_Place] = []
    for place in range(number):
        blessed, values = ([one[place] for one in side] for side in (then, here))
        known = [one[place] for one in known_then if place < len(one)]
        enough = len(blessed) >= _RUNS_TO_BE_EXACT and _same(values)
        exact = _same(blessed) and (_same(known) if known else enough)
        places.append(_Place(blessed, values, exact))
    return places


def _by_process(metric: Metric, runs: Sequence[BlessedRun]) -> list[tuple[float, ...]]:
    """A count of each run's processes, the highest first; none where a run has none."""
    if any(metric not in run.values for run in runs):
        return []
    return [run.counts.get(metric) or (run.values[metric],) for run in runs]


def _judge_count(rows: Sequence[MetricVerdict]) -> MetricVerdict:
    """Judge a count by the process that has most of it and, if that has no more, by the others."""
    for outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
        for row in rows:
            if row.outcome is outcome:
                why = note("count-of-process", count=row.note, processes=len(rows))
                return row if row is rows[0] else row.model_copy(update={"note": why})
    return rows[0]


def _judge_place(metric: Metric, place: _Place, case: Case, varying: int) -> MetricVerdict:
    """Judge one place, of so many of all counts that are not exact."""
    (blessed, now, exact), runs = place, len(place.now)
    limit, least = max(blessed) * (1 + case.budgets.get(metric, 0.0)), min(blessed)
    risen = [value for value in now if _exceeds(value, limit)]
    fallen = [value for value in now if _exceeds(least, value)]
    # How probable it is that the highest so many of all runs are of the same code's `now`.
    chance, of_fall = (
        math.comb(runs, len(moved)) / math.comb(runs + len(blessed), len(moved))
        for moved in (risen, fallen)
    )
    outcome, code, values = Outcome.PASSED, "count-same" if exact else "count-within", now
    if risen and exact:
        if len(risen) >= _CONFIRMED:
            outcome, code, values = Outcome.REGRESSED, "count-rose", risen
        elif runs > 1:
            code = "count-rose-once"
        elif case.most < _CONFIRMED:
            outcome, code = Outcome.REGRESSED, "count-rose-in-only"
        else:
            outcome, code = Outcome.INCONCLUSIVE, "count-rose-in-first"
    elif risen and chance * varying <= _CHANCE:
        outcome, code, values = Outcome.REGRESSED, "count-rose", risen
    elif risen:
        outcome = Outcome.INCONCLUSIVE if len(risen) == runs else Outcome.PASSED
        code = "count-rose-by-chance"
    elif len(fallen) == runs and (exact or of_fall * varying <= _CHANCE):
        outcome, code = Outcome.IMPROVED, "count-fell"
    elif fallen and exact:
        code = "count-fell-in-some"
    there, here = middle(blessed), middle(values)
    change = (here - there) / there if there else math.nan
    return MetricVerdict(
        metric=metric,
        outcome=outcome,
        baseline=there,
        now=here,
        change=change if math.isfinite(change) else None,
        exact=exact,
        note=note(code, limit=limit, least=least, now=here, runs=runs, chance=chance),
    )


def _same(values: Sequence[float]) -> bool:
    """Whether a count is one."""
    return not _exceeds(max(values), min(values))


def _exceeds(value: float, limit: float) -> bool:
    """Whether a count is above another: they are medians over steps; the last bits are forgiven."""
    return value > limit and not math.isclose(value, limit, rel_tol=1e-9, abs_tol=1e-9)
