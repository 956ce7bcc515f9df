"""Which kept results are unchanged repeats of what is blessed, of which occasion, and plainly of
another speed: pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

import numpy as np

from perfgate.judge.compare import PRIOR_DF, Floats, Occasions, SideSums, with_stored
from perfgate.judge.times import SPECS, as_x, columns, is_usable
from perfgate.model.baseline import (
    Baseline,
    BlessedRun,
    Blessing,
    Commit,
    Occasion,
    Result,
    code_digest,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import COUNTS, GATED_TIMES, METRICS, Basis, Metric, TimeSpec, budget_of
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

_Timed = TypeVar("_Timed")


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """What is blessed, and what kept results add to it."""

    occasions: tuple[Occasion, ...]
    """The baseline's own and those of kept results, oldest first."""
    results: int
    """Kept results among them."""
    regressed: int
    """Of these, how many were judged to have lost something."""
    left_out: tuple[Note, ...]
    """Why each of the other kept results is no repeat."""

    @property
    def runs(self) -> int:
        """All runs."""
        return sum(len(occasion.runs) for occasion in self.occasions)


def repeats(baseline: Baseline, results: Sequence[Result]) -> Repeats:
    """Collect the unchanged repeats of a baseline from itself and from kept results, in any order.

    A result that was blessed into the baseline counts once, with the baseline; one whose folder was
    copied, once. Results within 15 minutes of one another are one occasion, as in blessing.
    """
    whys = [(result, why_no_repeat(baseline, result)) for result in results]
    runs = [(occasion.measured_at, occasion.runs) for occasion in baseline.occasions]
    added: list[Result] = []
    for result in once([result for result, why in whys if why is None]):
        if is_in(baseline, result):  # which adds no runs, but says how long the occasion lasted
            runs.append((result.measured_at, ()))
        else:
            runs.append((result.measured_at, tuple(map(BlessedRun.of, result.runs))))
            added.append(result)
    together = by_occasion(runs, at=lambda timed: timed[0])
    return Repeats(
        occasions=tuple(
            Occasion(measured_at=of[0][0], runs=found)
            for of in together
            if (found := tuple(run for _, runs in of for run in runs))
        ),
        results=len(added),
        regressed=sum(one.verdict.outcome is Outcome.REGRESSED for one in added),
        left_out=tuple(why for _, why in whys if why is not None),
    )


def by_occasion(timed: Iterable[_Timed], *, at: Callable[[_Timed], datetime]) -> list[list[_Timed]]:
    """Put together what was measured within 15 minutes of one another, oldest first."""
    found: list[list[_Timed]] = []
    for one in sorted(timed, key=at):
        if found and at(one) - at(found[-1][-1]) < SAME_OCCASION:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def occasion_of(results: Sequence[Result], added: Blessing | None = None) -> Occasion:
    """The occasion that results are, which were measured together, oldest first."""
    last = results[-1]
    return Occasion(
        measured_at=results[0].measured_at,
        commit=last.commit,
        runs=tuple(BlessedRun.of(run) for result in results for run in result.runs),
        gpus=tuple(gpu.uuid for gpu in last.machine.gpus),
        environment=last.environment,
        added=added,
    )


def once(results: Sequence[Result]) -> list[Result]:
    """Return results in their order, each measurement once: a copy of its folder adds nothing."""
    found: dict[datetime, Result] = {}
    for result in results:
        found.setdefault(result.measured_at, result)
    return list(found.values())


def why_no_repeat(baseline: Baseline, result: Result) -> Note | None:
    """Why a kept result is no repeat of what is blessed; None where it is one.

    A result that REGRESSED is: the code is the same, so what moved was the machine.
    """
    digest = baseline.as_noted(result.workload).digest()
    if (result.workload.id, digest) != (baseline.workload, baseline.digest):
        return note("repeat-other-parameters")
    if result.verdict.outcome is Outcome.NOT_MEASURED or not result.runs:
        return note("repeat-unsound", outcome=Outcome.NOT_MEASURED)
    if result.machine != baseline.machine:
        return note("repeat-other-machine", names=differing(baseline.machine, result.machine))
    if result.step_value != baseline.step_value:
        return note("repeat-other-step-value")
    if not _of_blessed_code(baseline, result):
        code_known = baseline.code is not None
        return note("repeat-other-code" if code_known else "repeat-code-unknown")
    is_invalid = any(run.invalid or run.conditions.invalid for run in result.runs)
    if result.verdict.outcome is Outcome.INVALID or is_invalid:
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


def near_occasion(baseline: Baseline, result: Result, kept: Sequence[Result]) -> datetime | None:
    """Return when the nearest measurement in the baseline began that shares its occasion with a
    result, if one does.

    Args:
        baseline: what is blessed.
        result: of which this is asked, not in the baseline itself.
        kept: other results; those that are in the baseline say how long its occasions lasted.
    """
    begun = [occasion.measured_at for occasion in baseline.occasions]
    begun += [other.measured_at for other in kept if is_in(baseline, other)]
    near = [at for at in begun if abs(result.measured_at - at) < SAME_OCCASION]
    return min(near, key=lambda at: abs(result.measured_at - at), default=None)


def is_blessed_commit(baseline: Baseline, commit: Commit | None) -> bool:
    """Whether a commit without changes is one that the baseline was measured at, or has the same
    files."""
    if commit is None or commit.dirty:
        return False
    blessed = _clean(baseline)
    trees = {one.tree for one in blessed} - {None}
    return commit.sha in {one.sha for one in blessed} or commit.tree in trees


def clean_commits(baseline: Baseline) -> frozenset[str]:
    """Return the commits at which the baseline was measured without uncommitted changes."""
    return frozenset(commit.sha for commit in _clean(baseline))


def gated(baseline: Baseline) -> tuple[Metric, ...]:
    """Return the time metrics that a gate holds against this baseline."""
    return tuple(metric for metric in GATED_TIMES if baseline.values(metric))


def _clean(baseline: Baseline) -> list[Commit]:
    commits = [occasion.commit for occasion in baseline.occasions]
    return [commit for commit in commits if commit is not None and not commit.dirty]


def _of_blessed_code(baseline: Baseline, result: Result) -> bool:
    """Whether a result ran the code that is blessed: the same files, or for want of their digest a
    clean commit."""
    if baseline.code is not None:
        return code_digest(result.code) == baseline.code
    return is_blessed_commit(baseline, result.commit)


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
    blessed, now = columns(baseline.runs), columns([BlessedRun.of(run) for run in result.runs])
    for metric in SPECS.keys() & blessed.keys() & now.keys():
        budget = budget_of(metric, budgets)
        before, after = (as_x(metric, of[metric], blessed) for of in (blessed, now))
        if budget is None:
            continue
        if is_usable(before, after):
            if _differ(SPECS[metric], before, after, budget=budget):
                return True
        elif SPECS[metric].basis is Basis.LOG and max(blessed[metric].min(), now[metric].min()) > 0:
            return True  # one of them is 0 now and then, the other never
    return False


def _differ(spec: TimeSpec, before: Floats, after: Floats, *, budget: float) -> bool:
    beyond = math.log1p(budget) if spec.basis is Basis.LOG else budget
    sums = [SideSums.of(x, np.ones_like(x, dtype=np.bool_)) for x in (before, after)]
    occasions = Occasions(sd=np.asarray(spec.occasion_sd), df=PRIOR_DF, number=1)
    found = with_stored(*sums, prior_sd=spec.prior_sd, occasions=occasions)
    p_value = found.p_value(slower=bool(found.estimate > 0))
    return bool(abs(found.estimate) > _BUDGETS * beyond and p_value < _SURELY)
