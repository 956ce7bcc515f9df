"""Which kept results are unchanged repeats of what is blessed, and of which occasion: pure, it
judges no speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from perfgate.model.baseline import Baseline, Commit, Result, code_digest
from perfgate.model.machine import Machine
from perfgate.model.metric import COUNTS, GATED_TIMES, Metric
from perfgate.model.outcome import Outcome

SAME_OCCASION: Final = timedelta(minutes=15)
"""Results closer than this share one thermal state: a GPU's temperature settles within minutes, and
the drift between occasions that `tau` stands for (room, clocks, neighbours) shows over hours."""

Values = Mapping[Metric, float]

_DIGITS: Final = 6
"""Significant digits by which a run is known again in a baseline, whose file rounds times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """Runs of what is blessed, by occasion, oldest first: the baseline's own and those of kept
    results."""

    occasions: tuple[tuple[Values, ...], ...]
    first: datetime
    last: datetime
    """When the first and the last occasion began."""
    results: int
    """Kept results among them."""
    regressed: int
    """Of these, how many were judged to have lost something."""
    left_out: Mapping[str, int]
    """Kept results that are no repeats, by the reason in a phrase."""

    @property
    def runs(self) -> int:
        """All runs."""
        return sum(len(occasion) for occasion in self.occasions)


def repeats(baseline: Baseline, results: Sequence[Result]) -> Repeats:
    """Collect the unchanged repeats of a baseline from itself and from kept results, in any order.

    A result that was blessed into the baseline counts once, with the baseline; one whose folder was
    copied, once. Results within 15 minutes of one another are one occasion, as in blessing.
    """
    found: list[tuple[datetime, tuple[Values, ...]]] = [
        (occasion.measured_at, tuple(run.values for run in occasion.runs))
        for occasion in baseline.occasions
    ]
    unclaimed = _unclaimed(baseline)
    whys = [why_no_repeat(baseline, result) for result in results]
    left_out = Counter(why for why in whys if why is not None)
    kept = [result for result, why in zip(results, whys, strict=True) if why is None]
    used = regressed = 0
    for result in sorted(once(kept), key=lambda result: result.measured_at):
        values = tuple(run.measured() for run in result.runs)
        if _claimed(baseline, result, unclaimed):
            values = ()  # but its time says how long the occasion lasted
        else:
            used += 1
            regressed += result.verdict.outcome is Outcome.REGRESSED
        found.append((result.measured_at, values))
    grouped: list[list[tuple[datetime, tuple[Values, ...]]]] = []
    for one in sorted(found, key=lambda one: one[0]):
        if grouped and one[0] - grouped[-1][-1][0] < SAME_OCCASION:
            grouped[-1].append(one)
        else:
            grouped.append([one])
    measured = [group for group in grouped if any(values for _, values in group)]
    return Repeats(
        occasions=tuple(tuple(run for _, values in group for run in values) for group in measured),
        first=measured[0][0][0],
        last=measured[-1][0][0],
        results=used,
        regressed=regressed,
        left_out=dict(left_out),
    )


def once(results: Sequence[Result]) -> list[Result]:
    """Return results in their order, each measurement once: a copy of its folder says nothing more."""
    kept: list[Result] = []
    for result in results:
        if not any(
            (result.measured_at, result.runs) == (one.measured_at, one.runs) for one in kept
        ):
            kept.append(result)
    return kept


def why_no_repeat(baseline: Baseline, result: Result) -> str | None:
    """Say in a phrase why a kept result is no repeat of what is blessed; None where it is one.

    A result that REGRESSED is: the code is the same, so what moved was the machine.
    """
    if (
        result.workload.id != baseline.workload
        or baseline.as_noted(result.workload).digest() != baseline.digest
    ):
        return "of other parameters"
    if result.verdict.outcome is Outcome.NOT_MEASURED or not result.runs:
        return f"that is {Outcome.NOT_MEASURED}"
    if result.machine != baseline.machine:
        return f"of another machine ({', '.join(_differing(baseline.machine, result.machine))})"
    if result.step_value != baseline.step_value:
        return "whose step_ms is another value of the periods"
    if not of_blessed_code(baseline, result):
        return (
            "of other code" if baseline.code is not None else "not shown to be of the blessed code"
        )
    complaining = any(run.invalid or run.conditions.invalid for run in result.runs)
    if result.verdict.outcome is Outcome.INVALID or complaining:
        return f"that is {Outcome.INVALID}"
    blessed = {_counts(run.values) for run in baseline.runs}
    if any(_counts(run.measured()) not in blessed for run in result.runs):
        return "with other counts"
    lacking = [m for m in gated(baseline) if any(m not in run.measured() for run in result.runs)]
    return f"without {lacking[0]}" if lacking else None


def is_in(baseline: Baseline, result: Result) -> bool:
    """Whether a result's runs are in the baseline already, by time and values."""
    return _claimed(baseline, result, _unclaimed(baseline))


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


def of_blessed_code(baseline: Baseline, result: Result) -> bool:
    """Whether a result ran the code that is blessed: the same files, or for want of their digest a
    clean commit."""
    if baseline.code is not None:
        return code_digest(result.code) == baseline.code
    return result.commit is not None and is_blessed_commit(baseline, result.commit)


def is_blessed_commit(baseline: Baseline, commit: Commit) -> bool:
    """Whether a commit without changes is one that the baseline was measured at, or has the same
    files."""
    trees = {
        one.commit.tree
        for one in baseline.occasions
        if one.commit is not None and not one.commit.dirty
    }
    same = commit.sha in clean_commits(baseline) or (
        commit.tree is not None and commit.tree in trees
    )
    return same and not commit.dirty


def clean_commits(baseline: Baseline) -> frozenset[str]:
    """Return the commits at which the baseline was measured without uncommitted changes."""
    commits = [occasion.commit for occasion in baseline.occasions]
    return frozenset(commit.sha for commit in commits if commit is not None and not commit.dirty)


def gated(baseline: Baseline) -> tuple[Metric, ...]:
    """Return the time metrics that a gate holds against this baseline."""
    return tuple(metric for metric in GATED_TIMES if baseline.values(metric))


def _unclaimed(baseline: Baseline) -> list[Counter[tuple[object, ...]]]:
    return [
        Counter(_known_by(run.values) for run in occasion.runs) for occasion in baseline.occasions
    ]


def _claimed(
    baseline: Baseline, result: Result, unclaimed: Sequence[Counter[tuple[object, ...]]]
) -> bool:
    """Whether a result's runs are in the baseline already, by time and values; they are then taken
    off `unclaimed`."""
    begun = [
        n
        for n, occasion in enumerate(baseline.occasions)
        if occasion.measured_at <= result.measured_at
    ]
    if not begun:
        return False
    added = baseline.occasions[begun[-1]].added or baseline.blessing
    if result.measured_at > added.at:
        return False
    own = Counter(_known_by(run.measured()) for run in result.runs)
    if not own <= unclaimed[begun[-1]]:
        return False
    unclaimed[begun[-1]].subtract(own)
    return True


def _known_by(values: Values) -> tuple[object, ...]:
    return tuple(
        (metric, float(f"{value:.{_DIGITS}g}")) for metric, value in sorted(values.items())
    )


def _counts(values: Values) -> tuple[tuple[Metric, float], ...]:
    return tuple((metric, values[metric]) for metric in COUNTS if metric in values)


def known_to_differ(blessed: Machine, here: Machine) -> tuple[str, ...]:
    """Name what is known of a machine, before anything runs on it, to be other than what was
    blessed.

    Of packages only the release is known then, and of those that a workload does not load nothing
    is noted.
    """

    def release(version: str | None) -> str:
        return (version or "").partition("+")[0]

    noted = {
        name: getattr(blessed, name)
        for name in ("torch", "nvtx")
        if None in (getattr(blessed, name), getattr(here, name))
        or release(getattr(blessed, name)) == release(getattr(here, name))
    }
    noted |= {"cuda": blessed.cuda} | ({} if here.nsys is not None else {"nsys": blessed.nsys})
    return tuple(_differing(blessed, here.model_copy(update=noted)))


def _differing(one: Machine, other: Machine) -> list[str]:
    there, here = one.model_dump(), other.model_dump()
    return [name.replace("_", " ") for name in there if there[name] != here[name]]
