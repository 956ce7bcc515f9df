"""What a verdict leads with: what the user loses or gains, by what, under which range; and how many
small losses became a large one."""

from __future__ import annotations

import math
from typing import Final

from perfgate.model.baseline import FEWEST_RUNS
from perfgate.model.diagnosis import Axis
from perfgate.model.metric import PERIODS, Basis
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import OTHER_RANGES, OUTSIDE_RANGES, UNNAMED
from perfgate.model.verdict import Blessed, Drift, MetricVerdict, Verdict
from perfgate.words.escape import one_line
from perfgate.words.numbers import value

NO_RANGE: Final = frozenset({"", OUTSIDE_RANGES, OTHER_RANGES, UNNAMED})
_LONGEST_NAME = 60


def headline(verdict: Verdict) -> Note:
    """Say what a REGRESSED or IMPROVED verdict's user loses or gains, and by what.

    `+68 % step_ms (3.26 to 5.48 ms): d2h_copies 0 to 1 under `log``. It leads with the step, also
    where that is an estimate, unless it has hardly moved: `launches 38 to 39; step_ms unchanged`.
    """
    outcome = verdict.outcome
    rows = [row for row in verdict.metrics if row.outcome is outcome]
    step = next(
        (row for one in PERIODS if (row := verdict.of(one)) and row.change is not None), None
    )
    cause = min((row for row in rows if row.metric not in PERIODS), key=_weight, default=None)
    first = cause or rows[0]
    estimate = because = and_step = None
    if step is not None and (step in rows or _is_estimated(step, outcome)):
        first = step
        if step not in rows:
            of = "estimate-of-runs" if verdict.ab_run is None else "estimate-of-pairs"
            estimate = note(of, runs=verdict.compared)
        if cause is not None:
            because = note("because", what=_moved_to(cause))
    elif step is not None:
        and_step = note("and-step", what=_moved_or_not(step))
    lead = note(
        "headline",
        lead=_moved(first),
        estimate=estimate,
        cause=because,
        part=_under(cause or first, verdict),
        step=and_step,
    )
    others = tuple(str(row.metric) for row in rows if row not in (first, cause))
    is_loss = outcome is Outcome.REGRESSED
    also = note("also-regressed" if is_loss else "also-improved", metrics=others)
    return note(
        "regressed" if is_loss else "improved",
        what=lead,
        also=also if others else None,
        workload=verdict.workload,
        bless_it=_bless_it(verdict.runs),
    )


def _is_estimated(row: MetricVerdict, outcome: Outcome) -> bool:
    """Whether a row that is not judged, or open, is estimated to have moved so by half a budget."""
    if row.outcome not in (None, Outcome.INCONCLUSIVE) or row.low is None or row.change is None:
        return False
    towards = -row.change if outcome is Outcome.IMPROVED else row.change
    return towards >= (row.budget or 0.0) / 2


def _weight(row: MetricVerdict) -> tuple[bool, float]:
    """The order of what may be a step's cause: counts first, then what takes most time."""
    change = math.inf if row.change is None else abs(row.change)
    return not row.is_count, -(change if row.is_count else abs(row.growth))


def _moved(row: MetricVerdict) -> Note:
    """Say how a row moved: `+68 % step_ms (3.26 to 5.48 ms)`, `syncs 0 to 1`."""
    if row.is_count or row.change is None or row.basis is None:
        return _moved_to(row)
    return note(
        "moved",
        change=row.change,
        unit=row.basis.unit,
        metric=row.metric,
        before=row.baseline or 0.0,
        now=row.now or 0.0,
    )


def _moved_to(row: MetricVerdict) -> Note:
    code = "moved-to" if row.is_count else "moved-to-ms"
    return note(code, metric=row.metric, before=row.baseline or 0.0, now=row.now or 0.0)


def _moved_or_not(row: MetricVerdict) -> Note:
    shown = {value(row.metric, one or 0.0) for one in (row.baseline, row.now)}
    return _moved(row) if len(shown) > 1 else note("unmoved", metric=row.metric, now=row.now or 0.0)


def _under(row: MetricVerdict, verdict: Verdict) -> Note | None:
    """Name the range that holds most of what a metric changed by, and what of it, where that is
    another metric."""
    parts = (
        one.parts
        for one in verdict.attributions
        if one.metric is row.metric and one.axis is Axis.RANGE
    )
    largest = next((found[0] for found in parts if found), None)
    moved = row.growth
    if largest is None or largest.name in NO_RANGE or 2 * largest.change * moved < moved * moved:
        return None
    name = one_line(" ".join(largest.name.split()), longest=_LONGEST_NAME)
    if largest.metric in (row.metric, *PERIODS):
        return note("under-range", range=name)
    code = "less-under-range" if largest.change < 0 else "more-under-range"
    return note(code, metric=largest.metric, ms=abs(largest.change), range=name)


def _bless_it(runs: int) -> Note:
    enough = runs >= FEWEST_RUNS
    return note("bless-it") if enough else note("gate-and-bless", fewest=FEWEST_RUNS)


def anchor_lost(found: Drift, workload: str, *, runs: int) -> Note:
    """Say that many small losses have become one large one, and on which path."""
    return note(
        "anchor-lost",
        change=found.change,
        low=found.low,
        high=found.high,
        unit=Basis.LOG.unit,
        budget=found.budget,
        path=tuple(map(_point, found.path)),
        now=found.now,
        bless_it=_bless_it(runs),
        workload=workload,
    )


def _point(blessed: Blessed) -> Note:
    day, ms = f"{blessed.at:%Y-%m-%d}", blessed.step_ms
    if blessed.commit is None:
        return note("blessed-at", step_ms=ms, day=day)
    return note("blessed-at-commit", step_ms=ms, day=day, commit=blessed.commit[:7])
