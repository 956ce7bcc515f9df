"""The blessed baselines of a workload through git's history; it judges nothing and writes nothing.

A file's history is that of its path: a renamed folder or workload begins a new one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath, PurePosixPath
from statistics import median
from typing import Final

from perfgate.model.baseline import Baseline, Blessing
from perfgate.model.errors import BaselineMissing, BaselineUnreadable, RepositoryUnreadable
from perfgate.model.history import History, MachineHistory, Version, VersionKind
from perfgate.model.metric import METRICS, Metric
from perfgate.store import Store, file_name, near_names, workload_of
from perfgate.system import git
from perfgate.system.git import FileChange

MOST_NAMES: Final = 10
"""Workloads that a message lists."""

_Env = Mapping[str, str] | None
_Blobs = Mapping[str, Baseline | str]
"""What blobs hold: a baseline, or why it is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundHistory:
    """A history, and what was in the way of git's part in it."""

    history: History
    trouble: RepositoryUnreadable | None


def read_history(
    root: Path, baselines: str, workload: str, metric: Metric, *, env: _Env = None
) -> FoundHistory:
    """Return the baselines of a workload through the history of the branch that is checked out.

    One that is not committed is the last version. Where git cannot tell, that is all there is, and
    `trouble` says why.

    Args:
        root: the project's root.
        baselines: the folder of the baselines, relative to the root.
        workload: its id.
        metric: what the changes are of.
        env: the environment for git; by default that of the process.

    Raises:
        BaselineMissing: it never had a baseline on any machine.
        RepositoryUnreadable: git cannot say, and there is no baseline in the working tree.
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    store = Store(root, baselines)
    now = store.baselines.other_machines(workload) if workload else ()
    files = [_File(root=root, store=store, workload=workload, slug=slug) for slug in now]
    repository: _Repository | None = None
    trouble: RepositoryUnreadable | None = None
    try:
        repository = _Repository(root / baselines, env)
        slugs = {*now, *(repository.slugs(f"{file_name(workload)}.json") if workload else ())}
        ever = [_File(root=root, store=store, workload=workload, slug=one) for one in sorted(slugs)]
        machines = [_machine(file, metric, repository) for file in ever]
    except RepositoryUnreadable as error:
        trouble = error
        machines = [_machine(file, metric, None) for file in files]
    machines = [machine for machine in machines if machine.versions]
    if not machines:
        raise trouble or _never(workload, store, repository)
    history = History(
        workload=workload,
        metric=metric,
        commit=repository.head if repository else None,
        branch=repository.branch if repository else None,
        shallow=repository is not None and bool(repository.cuts),
        trouble=trouble.fact if trouble else "",
        machines=tuple(sorted(machines, key=_newest)),
    )
    return FoundHistory(history=history, trouble=trouble)


@dataclass(frozen=True, kw_only=True)
class _File:
    """The baseline of a workload on one machine, in the working tree."""

    root: Path
    store: Store
    workload: str
    slug: str

    @property
    def path(self) -> Path:
        return self.store.baselines.path(self.slug, self.workload)

    @property
    def shown(self) -> str:
        """Its path from the project's root."""
        return PurePath(os.path.relpath(self.path, self.root)).as_posix()

    def read(self) -> Baseline | str | None:
        """What it holds, why that is no baseline, or None where it is not there."""
        try:
            return _dated(self.store.baselines.own(self.path))
        except BaselineMissing:
            return None
        except BaselineUnreadable as error:
            return error.fact


class _Repository:
    """What git knows of the folder of the baselines, which may lie in another repository."""

    def __init__(self, folder: Path, env: _Env) -> None:
        folder = folder.resolve()
        self.at = next(place for place in (folder, *folder.parents) if place.is_dir())
        self.env = env
        within = PurePosixPath(git.prefix(self.at, env=env).as_posix())
        self.top = within / folder.relative_to(self.at).as_posix()
        """The folder of the baselines, from the top of the repository."""
        self.head, self.branch = git.checked_out(self.at, env=env)
        self.cuts = git.cuts(self.at, env=env)
        ever = git.files_ever(self.at, self.top.as_posix(), env=env) if self.head else set()
        below = [one for one in map(PurePosixPath, ever) if one.is_relative_to(self.top)]
        self.ever = [one for one in below if one.parent.parent == self.top]
        """All files `machine/name` that were ever there."""

    def slugs(self, name: str) -> set[str]:
        """The machines that ever had a baseline of this name."""
        return {one.parent.name for one in self.ever if one.name == name}

    def workloads(self) -> set[str]:
        """Those that ever had a baseline."""
        stems = [one.stem for one in self.ever if one.suffix == ".json"]
        return {workload_of(stem) or stem for stem in stems}

    def changes(self, path: str, *, dropped: bool = False) -> Sequence[FileChange]:
        """What commits did to a file, oldest first."""
        if self.head is None:
            return ()
        return git.file_changes(self.at, path, dropped=dropped, env=self.env)[::-1]

    def read(self, changes: Iterable[FileChange]) -> _Blobs:
        """What the blobs hold that commits left."""
        store = Store(Path(), ".")
        paths = {change.blob: change.path for change in changes if change.blob is not None}
        contents = git.read_blobs(self.at, paths, env=self.env)
        return {blob: _opened(store, Path(path), contents[blob]) for blob, path in paths.items()}


def _opened(store: Store, path: Path, blob: git.Blob) -> Baseline | str:
    if blob.content is None:
        return blob.fault
    try:
        return _dated(store.baselines.parse(blob.content, path))
    except BaselineUnreadable as error:
        return error.fact


def _dated(baseline: Baseline) -> Baseline | str:
    """A baseline whose date can be shown in every time zone."""
    try:
        baseline.blessing.at.astimezone(UTC)
    except (OverflowError, ValueError):
        return f"it was blessed at {baseline.blessing.at.isoformat()}, which is no date"
    return baseline


def _machine(file: _File, metric: Metric, repository: _Repository | None) -> MachineHistory:
    """One machine's versions; without a repository what lies in the working tree."""
    line = _Line(metric)
    path = file.shown
    dropped: tuple[str, ...] = ()
    if repository is not None:
        path = (repository.top / file.slug / file.path.name).as_posix()
        changes = repository.changes(path)
        blobs = repository.read(changes)
        for change in changes:
            line.commit(change, blobs, at_cut=change.commit in repository.cuts)
        dropped = _dropped(repository, path, changes, line.blessings)
    if repository is None or git.differs_from_head(repository.at, path, env=repository.env):
        line.working_tree(file.read(), path)
    return MachineHistory(
        slug=file.slug,
        gpu=line.last.machine.gpu_name if line.last is not None else file.slug,
        file=file.shown,
        versions=tuple(line.versions),
        dropped=dropped,
    )


def _dropped(
    repository: _Repository, path: str, kept: Sequence[FileChange], blessings: Iterable[Blessing]
) -> tuple[str, ...]:
    """The commits of blessings that the branch has in its history, and never had as its baseline."""
    in_force = {change.blob for change in kept}
    others = [one for one in repository.changes(path, dropped=True) if one.blob not in in_force]
    blobs = repository.read(others)
    found: dict[Blessing, str] = {}
    for change in others:
        baseline = blobs.get(change.blob or "")
        if isinstance(baseline, Baseline):
            found.setdefault(baseline.blessing, change.commit)
    known = set(blessings)
    return tuple(commit for blessing, commit in found.items() if blessing not in known)


@dataclass
class _Line:
    """The versions of one file, oldest first, each compared with those before it."""

    metric: Metric
    versions: list[Version] = field(default_factory=list)
    last: Baseline | None = None
    """The newest that could be read."""
    first: Baseline | None = None
    """The oldest that has the metric."""
    blessings: set[Blessing] = field(default_factory=set)
    measured: set[datetime] = field(default_factory=set)

    def commit(self, change: FileChange, blobs: _Blobs, *, at_cut: bool) -> None:
        """Add what a commit left."""
        base = Version(
            kind=VersionKind.DELETED,
            commit=change.commit,
            at=change.at,
            author=change.author,
            subject=change.subject,
            merge=len(change.parents) > 1,
            at_cut=at_cut,
            path=_printable(change.path),
        )
        if change.blob is None:
            self.versions.append(base)
        elif not change.is_file:
            self._add(base, "it is a link or a submodule, not a file", None)
        else:
            self._add(base, blobs[change.blob], blobs.get(change.before[0] or ""))

    def working_tree(self, found: Baseline | str | None, path: str) -> None:
        """Add what is not committed, where it is not what the last commit left."""
        base = Version(kind=VersionKind.DELETED, commit=None, path=_printable(path))
        if found is not None and (found != self.last or not self.versions or self._broken):
            self._add(base, found, None)
        elif found is None and self.versions and not self._ends(VersionKind.DELETED):
            self.versions.append(base)

    def _ends(self, *kinds: VersionKind) -> bool:
        return bool(self.versions) and self.versions[-1].kind in kinds

    @property
    def _broken(self) -> bool:
        """Whether there was no baseline just before."""
        return self._ends(VersionKind.DELETED, VersionKind.UNREADABLE)

    def _add(self, base: Version, found: Baseline | str, before: Baseline | str | None) -> None:
        if isinstance(found, str):
            fault = {"kind": VersionKind.UNREADABLE, "fault": found}
            self.versions.append(base.model_copy(update=fault))
            return
        # Where history is not one line, the version before is the parent's, not the last added.
        old = before if isinstance(before, Baseline) else self.last
        kind = self._kind(found, old)
        values = _medians(found)
        anchor = found.anchor.step_ms if found.anchor is not None else None
        has_metric = self.metric in values
        update = {
            "kind": kind,
            "blessing": found.blessing,
            "added": _added(old, found) if kind is VersionKind.EXTENDED else (),
            "runs": len(found.runs),
            "occasions": len(found.occasions),
            "values": values,
            "anchor_ms": anchor,
            "before": self._value(old) if has_metric else None,
            "change": self._change(old, found),
            "first": self._value(self.first) if has_metric else None,
            "since_first": self._change(self.first, found),
            "since_anchor": self._since_anchor(anchor, values),
            "unlike": _unlike(old, found),
            "unlike_first": _unlike(self.first, found),
        }
        self.versions.append(base.model_copy(update=update))
        self.last = found
        self.blessings.add(found.blessing)
        self.measured |= _measured(found)
        if self.first is None and has_metric:
            self.first = found

    def _kind(self, found: Baseline, old: Baseline | None) -> VersionKind:
        if found.blessing not in self.blessings:
            deleted = self._ends(VersionKind.DELETED)
            return VersionKind.RECREATED if deleted else VersionKind.BLESSED
        if old is None or old.blessing != found.blessing or self._broken:
            return VersionKind.RESTORED
        if old.occasions == found.occasions:
            return VersionKind.REWRITTEN
        # A revert brings back what was left out for the occasion that it takes away.
        now, then = _measured(found), _measured(old)
        is_revert = bool(then - now) and now - then <= self.measured
        extended = bool(_added(old, found)) and not is_revert
        return VersionKind.EXTENDED if extended else VersionKind.RESTORED

    def _value(self, baseline: Baseline | None) -> float | None:
        return None if baseline is None else _medians(baseline).get(self.metric)

    def _change(self, old: Baseline | None, new: Baseline) -> float | None:
        was, now = self._value(old), self._value(new)
        if old is None or was is None or now is None:
            return None
        step_ms = _medians(old).get(Metric.STEP_MS)
        return _finite(METRICS[self.metric].change(was, now, step_ms=step_ms))

    def _since_anchor(self, anchor: float | None, values: Mapping[Metric, float]) -> float | None:
        now = values.get(Metric.STEP_MS)
        if self.metric is not Metric.STEP_MS or anchor is None or now is None:
            return None
        return _finite(METRICS[Metric.STEP_MS].change(anchor, now, step_ms=anchor))


def _medians(baseline: Baseline) -> dict[Metric, float]:
    found = {metric: median(values) for metric in METRICS if (values := baseline.values(metric))}
    return {metric: value for metric, value in found.items() if math.isfinite(value)}


def _measured(baseline: Baseline) -> set[datetime]:
    """When each of its occasions was measured."""
    return {occasion.measured_at for occasion in baseline.occasions}


def _added(old: Baseline | None, new: Baseline) -> tuple[Blessing, ...]:
    """Who added the occasions that only the new one has; nobody where one of them is a blessing's."""
    held = () if old is None else old.occasions
    added = [occasion.added for occasion in new.occasions if occasion not in held]
    return () if None in added else tuple(one for one in added if one is not None)


def _finite(fraction: float | None) -> float | None:
    return fraction if fraction is not None and math.isfinite(fraction) else None


def _unlike(old: Baseline | None, new: Baseline) -> tuple[str, ...]:
    """Name what makes two baselines incomparable: `nsys 2023.4.4, then 2024.2.3`."""
    if old is None or old is new:
        return ()
    then, now = _facts(old), _facts(new)
    names = [*now, *sorted(then.keys() - now.keys())]
    pairs = [(name, then.get(name, "not set"), now.get(name, "not set")) for name in names]
    return tuple(f"{name} {a}, then {b}".lstrip() for name, a, b in pairs if a != b)


def _facts(baseline: Baseline) -> dict[str, str]:
    """What makes a baseline comparable, by name."""
    machine = baseline.machine
    return {
        "": machine.gpu_name,
        "MIG slices": str(sum(gpu.mig for gpu in machine.gpus)),
        "nsys": machine.nsys or "unknown",
        "nsys options": " ".join(machine.nsys_options) or "none",
        **dict(sorted(baseline.parameters.items())),
    }


def _printable(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")


def _newest(machine: MachineHistory) -> tuple[bool, datetime, str]:
    """Machines by their last version; one that is not committed is the newest."""
    last = machine.versions[-1]
    at = last.at or (last.blessing.at if last.blessing else None)
    moment = datetime.min.replace(tzinfo=UTC) if at is None else at.astimezone(UTC)
    return last.commit is None, moment, machine.slug


def _never(workload: str, store: Store, repository: _Repository | None) -> BaselineMissing:
    if repository is not None and repository.cuts:
        return BaselineMissing("history-shallow", workload=workload)
    here = {one.workload for one in store.baselines.listed()}
    known = sorted(here | (repository.workloads() if repository else set()))
    near = near_names(workload, known)
    if near:
        return BaselineMissing("history-near", workload=workload, near=near, first=near[0])
    if not known:
        return BaselineMissing("history-none", workload=workload)
    names = [*known[:MOST_NAMES], *(["..."] if len(known) > MOST_NAMES else [])]
    return BaselineMissing("history-unknown", workload=workload, known=names)
