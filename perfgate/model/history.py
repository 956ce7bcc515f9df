"""The baselines of one workload through git's history, as they are told: rows, notes and the series
to draw."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from perfgate.model.baseline import Blessing
from perfgate.model.metric import Metric
from perfgate.model.record import Record

HISTORY_FORMAT: Final = 1
"""History: 1, the first."""


class VersionKind(StrEnum):
    """What a commit did to a baseline's file."""

    BLESSED = "blessed"
    RECREATED = "re-created"
    """Blessed anew after it was deleted."""
    RESTORED = "restored"
    """An earlier blessing is the baseline again: a revert, or a deletion taken back."""
    EXTENDED = "extended"
    """The blessing is that of the version before, with more occasions: those of `perfgate bless
    --occasion`."""
    REWRITTEN = "rewritten"
    """The blessing is that of the version before: a calibration."""
    DELETED = "deleted"
    UNREADABLE = "unreadable"


class Version(Record):
    """One version of a baseline's file. All values are medians over the blessed runs, per step."""

    kind: VersionKind
    commit: str | None
    """The commit that brought it; None of what is not committed."""
    at: datetime | None = None
    """When that commit was made."""
    author: str = ""
    """Who made it, as `Name <email>`."""
    subject: str = ""
    """The first line of its message."""
    merge: bool = False
    """Whether that commit is a merge that left the file as neither side had it."""
    at_cut: bool = False
    """Whether this clone's history ends at that commit: the version is of then or older."""
    path: str
    """From the top of the repository; without one, from the project's root."""
    blessing: Blessing | None = None
    """Present on whatever holds a baseline, as are the next four."""
    runs: int = 0
    occasions: int = 0
    values: Mapping[Metric, float] = {}
    anchor_ms: float | None = None
    """The best step ever blessed, as the baseline itself says."""
    before: float | None = None
    """The history's metric in the version before, where both have it; in a history that is not one
    line, the version that the commit's first parent had."""
    change: float | None = None
    """The gain against that, a fraction: of that version's step for clocks judged so, of `before`
    for all else; None where that has no meaning."""
    first: float | None = None
    """The metric in the first version that has it, on all later ones."""
    since_first: float | None = None
    """The gain against that."""
    since_anchor: float | None = None
    """The gain against `anchor_ms`; of step_ms only."""
    unlike: tuple[str, ...] = ()
    """What makes it incomparable with the version before: GPU, nsys and its options, parameters."""
    unlike_first: tuple[str, ...] = ()
    """The same of the first version that has the metric."""
    fault: str = ""
    """Why it is UNREADABLE."""
    added: tuple[Blessing, ...] = ()
    """Of an EXTENDED one: who added each of its new occasions, and why."""

    @property
    def is_point(self) -> bool:
        """Whether it is a point of a series: a baseline that came into force, or one that is not
        committed."""
        match self.kind:
            case VersionKind.BLESSED | VersionKind.RECREATED | VersionKind.RESTORED:
                return True
            case VersionKind.REWRITTEN | VersionKind.EXTENDED:
                return self.commit is None
            case VersionKind.DELETED | VersionKind.UNREADABLE:
                return False


class MachineHistory(Record):
    """The versions of one workload's baseline on one machine, newest last."""

    slug: str
    gpu: str
    """The GPUs of the newest version that can be read; the slug where none can."""
    file: str
    """Where the baseline lies or would lie, relative to the project's root."""
    versions: tuple[Version, ...]
    dropped: tuple[str, ...] = ()
    """Commits of blessings on branches whose version a merge dropped: they never came into force
    here."""


class History(Record):
    """The baselines of one workload on all machines, the machine with the newest version last."""

    format: Literal[1] = HISTORY_FORMAT
    workload: str
    metric: Metric
    """The metric that the changes are of."""
    commit: str | None = None
    """What is checked out; None before the first commit, or without git."""
    branch: str | None = None
    shallow: bool = False
    """Whether the history is cut: this clone does not have what is older."""
    trouble: str = ""
    """Why there is no history but what lies in the working tree."""
    machines: tuple[MachineHistory, ...]


class Point(Record):
    """One point of a series."""

    at: datetime
    """When it was blessed."""
    value: float
    """The median over the blessed runs, per step."""
    by: str
    reason: str
    commit: str | None
    """The commit that brought it; None of what is not committed."""
    joined: bool
    """Whether a line may lead here from the point before: nothing was deleted or unreadable
    between, and it is comparable."""


def points(machine: MachineHistory, metric: Metric) -> tuple[Point, ...]:
    """Return one metric on one machine as a series to draw, oldest first; versions without the
    metric are left out.

    The order is that of git's history, in which the times of blessing need not rise: a revert
    brings an old one back.
    """
    found: list[Point] = []
    joined = False
    for version in machine.versions:
        joined = joined and not version.unlike
        if version.kind in (VersionKind.DELETED, VersionKind.UNREADABLE):
            joined = False
        if not version.is_point or version.blessing is None:
            continue
        value = version.values.get(metric)
        if value is None:
            joined = False
            continue
        found.append(
            Point(
                at=version.blessing.at,
                value=value,
                by=version.blessing.by,
                reason=version.blessing.reason,
                commit=version.commit,
                joined=joined,
            )
        )
        joined = True
    return tuple(found)
