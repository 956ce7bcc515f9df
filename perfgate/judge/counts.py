"""Judges one count: exactly where the baseline was exact, by how many runs rose or fell where not.

Formulas, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.compare import middle
from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import Metric
from perfgate.model.note import note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict

_CONFIRMED = 2
"""Processes that must show a rise of an exact count: one may be a fluke of its start."""
_CHANCE = 0.005
"""What a look may spend of alpha, 1 %, on counts that vary: up to four, of the same runs."""
_RUNS_TO_BE_EXACT = 3
"""Runs of either side, in an A/B run, that must agree: over fewer, any count is the same in all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedCount:
    """A count of the processes that have most of it, or the next most: one value per run."""

    blessed: Sequence[float]
    now: Sequence[float]
    exact: bool
    """Whether it is known to be the same in every run of `blessed`'s code."""


def places_of(
    metric: Metric,
    other: Sequence[BlessedRun],
    runs: Sequence[BlessedRun],
    stored: Sequence[BlessedRun],
) -> list[RankedCount]:
    """Return a count by processes, the highest first; the highest alone where runs do not match.

    Whether it is exact `stored` runs know better than the other side's of an A/B run.
    """
    then, now = _by_process(metric, other), _by_process(metric, runs)
    known_then = _by_process(metric, stored)
    number = len(now[0]) if len({len(one) for one in (*then, *now)}) == 1 else 1
    places: list[RankedCount] = []
    for place in range(number):
        blessed, here = ([one[place] for one in side] for side in (then, now))
        known = [one[place] for one in known_then if place < len(one)]
        enough = len(blessed) >= _RUNS_TO_BE_EXACT and same(here)
        exact = same(blessed) and (same(known) if known else enough)
        places.append(RankedCount(blessed=blessed, now=here, exact=exact))
    return places


def _by_process(metric: Metric, runs: Sequence[BlessedRun]) -> list[tuple[float, ...]]:
    """A count of each run's processes, the highest first; none where a run has none."""
    if any(metric not in run.values for run in runs):
        return []
    return [run.counts.get(metric) or (run.values[metric],) for run in runs]


def judge_count(
    metric: Metric,
    places: Sequence[RankedCount],
    *,
    max_runs: int,
    varying: int = 1,
    budget: float = 0.0,
) -> MetricVerdict:
    """Judge a count by the process that has most of it and, if that has no more, by the others:
    what one rank has always made and all make now is a rise.

    Args:
        metric: the count.
        places: it by processes.
        max_runs: of the candidate.
        varying: how many counts that are not exact are judged together.
        budget: what it may rise by, as a fraction.
    """
    rows = [
        _judge_place(metric, one, max_runs=max_runs, varying=varying, budget=budget)
        for one in places
    ]
    for outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
        for place, row in enumerate(rows):
            if row.outcome is outcome:
                why = note("count-of-process", count=row.note, processes=len(rows))
                return row.model_copy(update={"note": why}) if place else row
    return rows[0]


def _judge_place(
    metric: Metric, place: RankedCount, *, max_runs: int, varying: int, budget: float
) -> MetricVerdict:
    blessed, now, exact, runs = place.blessed, place.now, place.exact, len(place.now)
    limit, least = max(blessed) * (1 + budget), min(blessed)
    risen = [value for value in now if value > limit and not same((value, limit))]
    fallen = [value for value in now if value < least and not same((value, least))]
    chance = _chance(len(risen), of=runs, blessed=len(blessed))
    outcome, code, values = Outcome.PASSED, "count-same" if exact else "count-within", now
    if risen and exact:
        values = risen
        if len(risen) >= _CONFIRMED:
            outcome, code = Outcome.REGRESSED, "count-rose"
        elif runs > 1:
            code, values = "count-rose-once", now
        elif max_runs < _CONFIRMED:
            outcome, code = Outcome.REGRESSED, "count-rose-in-only"
        else:
            outcome, code = Outcome.INCONCLUSIVE, "count-rose-in-first"
    elif risen and chance * varying <= _CHANCE:
        outcome, code, values = Outcome.REGRESSED, "count-rose", risen
    elif risen:
        outcome = Outcome.INCONCLUSIVE if len(risen) == runs else Outcome.PASSED
        code = "count-rose-by-chance"
    elif len(fallen) == runs:
        if exact or _chance(runs, of=runs, blessed=len(blessed)) * varying <= _CHANCE:
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


def same(values: Sequence[float]) -> bool:
    """Whether a count is one: they are medians over steps; only the last bits are forgiven."""
    return all(math.isclose(value, values[0], rel_tol=1e-9, abs_tol=1e-9) for value in values)


def _chance(risen: int, *, of: int, blessed: int) -> float:
    """How probable it is that the `risen` highest of `of` runs and `blessed` ones are all runs.

    C(of, risen) / C(of + blessed, risen), for runs of the same code.
    """
    return math.comb(of, risen) / math.comb(of + blessed, risen)
