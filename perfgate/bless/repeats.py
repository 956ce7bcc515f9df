"""Which kept results are unchanged repeats of what is blessed, of which occasion, and plainly of
another speed: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from perfgate.judge.compare import SideSums, compared, of_occasions
from perfgate.judge.times import SPECS, as_x, columns, is_usable, to_x
from perfgate.model.baseline import (
    Baseline,
    BlessedRun,
    Blessing,
    Occasion,
    Result,
    code_digest,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import COUNTS, METRICS, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome

SAME_OCCASION: Final = timedelta(minutes=15)
"""Results closer than this share one thermal state: a GPU's temperature settles within minutes, and
the drift between occasions that `tau` stands for (room, clocks, neighbours) shows over hours."""

_DIGITS: Final = 6
"""Significant digits by which a run is known again in a baseline, whose file rounds times."""

_SURELY: Final = 0.0005
_BUDGETS: Final = 2
"""The level and the size of a difference in speed that leave no doubt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """What is blessed, and what kept results add to it."""

    occasions: tuple[Occasion, ...]
    """The baseline's own and those of kept results, oldest first."""
    regressed: int
    """How many kept results among them were judged to have lost something."""
    left_out: tuple[Note, ...]
    """Why each of the other kept results is no repeat."""

    @property
    def runs(self) -> int:
        """All runs."""
        return sum(len(occasion.runs) for occasion in self.occasions)


def repeats(baseline: Baseline, results: Sequence[Result]) -> Repeats:
    """Collect the unchanged repeats of a baseline from itself and from kept results, in any order.

    A result that was blessed into the baseline counts once, with the baseline. Results within 15
    minutes of one another are one occasion, as in blessing.
    """
    left_out: list[Note] = []
    added: list[Result] = []
    for result in results:
        if (why := why_no_repeat(baseline, result)) is not None:
            left_out.append(why)
        elif not is_in(baseline, result):
            added.append(result)
    return Repeats(
        occasions=together((*baseline.occasions, *map(occasion_of, added))),
        regressed=sum(one.verdict.outcome is Outcome.REGRESSED for one in added),
        left_out=tuple(left_out),
    )


def together(occasions: Iterable[Occasion]) -> tuple[Occasion, ...]:
    """Make one occasion of those within 15 minutes of one another; oldest first."""
    found: list[Occasion] = []
    before: datetime | None = None
    for one in sorted(occasions, key=lambda occasion: occasion.measured_at):
        if before is not None and one.measured_at - before < SAME_OCCASION:
            first = found.pop()
            whole = {"measured_at": first.measured_at, "runs": (*first.runs, *one.runs)}
            found.append(one.model_copy(update=whole))
        else:
            found.append(one)
        before = one.measured_at
    return tuple(found)


def occasion_of(result: Result, added: Blessing | None = None) -> Occasion:
    """The occasion that a result is."""
    return Occasion(
        measured_at=result.measured_at,
        commit=result.commit,
        runs=tuple(map(BlessedRun.of, result.runs)),
        gpus=tuple(gpu.uuid for gpu in result.machine.gpus),
        environment=result.environment,
        added=added,
    )


def why_no_repeat(baseline: Baseline, result: Result) -> Note | None:
    """Why a kept result is no repeat of what is blessed; None where it is one.

    A result that REGRESSED is: the code is the same, so what moved was the machine.
    """
    digest = baseline.as_noted(result.workload).digest()
    if (result.workload.id, digest) != (baseline.workload, baseline.digest):
        return note("repeat-other-parameters")
    outcome = result.verdict.outcome
    if outcome is Outcome.NOT_MEASURED or not result.runs:
        return note("repeat-unsound", outcome=Outcome.NOT_MEASURED)
    if result.machine != baseline.machine:
        return note("repeat-other-machine", names=differing(baseline.machine, result.machine))
    if result.step_value != baseline.step_value:
        return note("repeat-other-step-value")
    if baseline.code is None:
        return note("repeat-code-unknown")
    if code_digest(result.code) != baseline.code:
        return note("repeat-other-code")
    is_invalid = any(run.invalid or run.conditions.invalid for run in result.runs)
    if outcome is Outcome.INVALID or is_invalid:
        return note("repeat-unsound", outcome=Outcome.INVALID)
    counts = {_counts(run) for run in baseline.runs}
    runs = list(map(BlessedRun.of, result.runs))
    if any(_counts(run) not in counts for run in runs):
        return note("repeat-other-counts")
    for metric in METRICS:
        if baseline.values(metric) and any(metric not in run.values for run in runs):
            return note("repeat-lacks-metric", metric=metric)
    return None


def differing(then: Machine, now: Machine) -> tuple[str, ...]:
    """What of two machines differs, in words."""
    there, here = then.model_dump(), now.model_dump()
    return tuple(name.replace("_", " ") for name in there if there[name] != here[name])


def is_in(baseline: Baseline, result: Result) -> bool:
    """Whether a result's runs are in the baseline already, by time and values."""
    begun = [one for one in baseline.occasions if one.measured_at <= result.measured_at]
    if not begun or result.measured_at > (begun[-1].added or baseline.blessing).at:
        return False
    blessed = {_known_by(run) for run in begun[-1].runs}
    return all(_known_by(BlessedRun.of(run)) in blessed for run in result.runs)


def gated(baseline: Baseline, budgets: Mapping[Metric, float]) -> dict[Metric, float]:
    """Return the time metrics that a gate holds against this baseline, with their budgets, as
    fractions: `budgets`, over the defaults."""
    return {
        metric: budgets.get(metric, spec.budget)
        for metric, spec in SPECS.items()
        if baseline.values(metric)
    }


def few(paths: Sequence[str]) -> tuple[str, ...]:
    """The first three of some paths, and how many more there are."""
    return (*paths[:3], *([f"{len(paths) - 3} more"] if len(paths) > 3 else []))


def _known_by(run: BlessedRun) -> frozenset[tuple[Metric, float]]:
    return frozenset(
        (metric, float(f"{value:.{_DIGITS}g}")) for metric, value in run.values.items()
    )


def _counts(run: BlessedRun) -> tuple[float | None, ...]:
    return tuple(run.values.get(metric) for metric in COUNTS)


# Whether runs are of one speed, so that they may be taken together


def plainly_differ(baseline: Baseline, result: Result, budgets: Mapping[Metric, float]) -> bool:
    """Whether a time metric lies further apart than chance and another occasion account for, and
    than two budgets.

    As against a baseline of one occasion, by the default SDs: what is calibrated may be of another
    speed.
    """
    there, now = columns(baseline.runs), columns([BlessedRun.of(run) for run in result.runs])
    for metric, budget in gated(baseline, budgets).items():
        if metric not in now:
            continue
        spec, sides = SPECS[metric], [as_x(metric, of[metric], there) for of in (there, now)]
        if not is_usable(*sides):
            continue
        before, after = (SideSums.of(x, np.ones_like(x, dtype=np.bool_)) for x in sides)
        between = of_occasions(spec.occasion_sd, 1)
        found = compared(before, after, prior_sd=spec.prior_sd, between=between)
        plainly = _BUDGETS * to_x(spec.basis, budget)
        p_value = found.p_value(slower=bool(found.estimate > 0))
        if abs(found.estimate) > plainly and p_value < _SURELY:
            return True
    return False
