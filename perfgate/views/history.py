"""The blessed baselines of a workload through git's history; it judges nothing and writes nothing.

A file's history is that of its path: a renamed folder or workload begins a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path, PurePosixPath
from statistics import median

from perfgate.model.baseline import Baseline, Blessing
from perfgate.model.errors import BaselineMissing, BaselineUnreadable
from perfgate.model.history import BlessedVersion, History, MachineHistory, Point
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note, note, noted
from perfgate.store import Store, file_name
from perfgate.system import git


def read_history(
    root: Path,
    baselines: str,
    workload: str,
    metric: Metric,
    *,
    env: Mapping[str, str] | None = None,
) -> History:
    """Return the baselines of a workload that led to what is checked out, and to what lies there.

    Args:
        root: the project's root.
        baselines: the folder of the baselines, relative to the root.
        workload: its id.
        metric: what the changes are of.
        env: the environment for git; by default that of the process.

    Raises:
        BaselineMissing: it never had a baseline on any machine.
        RepositoryUnreadable: git cannot say.
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    store = Store(root, baselines)
    pattern = PurePosixPath(escape(baselines)) / "*" / f"{escape(file_name(workload))}.json"
    lines: dict[str, _Line] = {}
    for left in git.file_versions(root, pattern.as_posix(), env=env):
        line = lines.setdefault(PurePosixPath(left.path).parent.name, _Line(metric))
        found = None if left.content is None else _parsed(store, left)
        line.add(found, left)
    for slug in {*lines, *store.baselines.other_machines(workload)}:
        lines.setdefault(slug, _Line(metric)).add(_here(store, slug, workload), None)
    shallow = git.is_shallow(root, env=env)
    if not lines:
        raise _never(workload, store, shallow=shallow)
    machines = [
        MachineHistory(
            slug=slug,
            gpu=slug if line.last is None else line.last.machine.gpu_name,
            versions=tuple(line.versions),
        )
        for slug, line in sorted(lines.items())
    ]
    return History(workload=workload, metric=metric, shallow=shallow, machines=tuple(machines))


def points(machine: MachineHistory, metric: Metric) -> tuple[Point, ...]:
    """Return one metric on one machine as a series to draw, oldest first; versions without the
    metric are left out."""
    found: list[Point] = []
    joined = False
    for version in machine.versions:
        value = version.values.get(metric)
        if value is not None and version.at is not None:
            found.append(
                Point(
                    at=version.at,
                    value=value,
                    by=version.by,
                    reason=version.reason,
                    commit=version.commit,
                    joined=joined and not version.unlike,
                )
            )
        joined = value is not None
    return tuple(found)


def _parsed(store: Store, left: git.FileVersion) -> Baseline | Note:
    assert left.content is not None
    try:
        return store.baselines.parse(left.content, Path(left.path))
    except BaselineUnreadable as error:
        return noted(error)


def _here(store: Store, slug: str, workload: str) -> Baseline | Note | None:
    """What lies in the working tree: a baseline, why it cannot be read, or None."""
    try:
        return store.baselines.load(slug, workload)
    except BaselineUnreadable as error:
        return noted(error)


@dataclass
class _Line:
    """The versions of one file, oldest first, each compared with the one before it."""

    metric: Metric
    versions: list[BlessedVersion] = field(default_factory=list)
    last: Baseline | None = None
    """The newest that could be read."""

    def add(self, found: Baseline | Note | None, left: git.FileVersion | None) -> None:
        """Add what a commit left, or what is not committed, where it is not what there was."""
        commit = None if left is None else left.commit
        if isinstance(found, Baseline):
            version = self._blessed(found, commit)
            before = self.last
            self.last = found
            if self._ends("blessed") and before is not None and _latest(before) == _latest(found):
                return
        else:
            version = BlessedVersion(
                state="deleted" if found is None else "unreadable",
                commit=commit,
                at=None if left is None else left.at,
                by="" if left is None else left.author,
                reason="" if left is None else left.subject,
                why=found,
            )
            if self._ends(version.state) and left is None:
                return
        self.versions.append(version)

    def _ends(self, state: str) -> bool:
        return bool(self.versions) and self.versions[-1].state == state

    def _blessed(self, found: Baseline, commit: str | None) -> BlessedVersion:
        blessing, values = _latest(found), _medians(found)
        before = {} if self.last is None else _medians(self.last)
        was, now = before.get(self.metric), values.get(self.metric)
        spec, step = METRICS[self.metric], METRICS[Metric.STEP_MS]
        anchor_ms = None if found.anchor is None else found.anchor.step_ms
        return BlessedVersion(
            state="blessed",
            commit=commit,
            at=blessing.at,
            by=blessing.by,
            reason=blessing.reason,
            runs=len(found.runs),
            values=values,
            change=None
            if was is None or now is None
            else spec.change(was, now, step_ms=before.get(Metric.STEP_MS)),
            since_anchor=None
            if anchor_ms is None or Metric.STEP_MS not in values
            else step.change(anchor_ms, values[Metric.STEP_MS], step_ms=anchor_ms),
            unlike=() if self.last is None else tuple(_unlike(self.last, found)),
        )


def _latest(baseline: Baseline) -> Blessing:
    """Who blessed it, or added to it last."""
    added = [one.added for one in baseline.occasions if one.added is not None]
    return max([baseline.blessing, *added], key=lambda one: one.at)


def _medians(baseline: Baseline) -> dict[Metric, float]:
    return {metric: median(values) for metric in METRICS if (values := baseline.values(metric))}


def _unlike(then: Baseline, now: Baseline) -> Iterator[Note]:
    before, after = _facts(then), _facts(now)
    for name in sorted(before.keys() | after.keys()):
        pair = [facts.get(name) or "not set" for facts in (before, after)]
        if pair[0] != pair[1]:
            yield note("history-unlike", name=name, then=pair[0], now=pair[1])


def _facts(baseline: Baseline) -> dict[str, str | None]:
    """What makes a baseline comparable, by name."""
    machine = baseline.machine
    options = {"nsys": machine.nsys, "nsys options": " ".join(machine.nsys_options)}
    return {**options, **baseline.parameters}


def _never(workload: str, store: Store, *, shallow: bool) -> BaselineMissing:
    if shallow:
        return BaselineMissing("history-shallow", workload=workload)
    known = tuple(sorted({one.workload for one in store.baselines.listed()}))
    if known:
        return BaselineMissing("baseline-unknown", subject=workload, known=known)
    return BaselineMissing("baselines-none", subject=workload)
