"""The blessed baselines of a workload through git's history; it judges nothing and writes nothing.

Files are followed through moves, not by `git log --follow`: that takes similar files for copies of one another, and the
baseline of a new machine is similar to that of another, whose history it would continue with.
"""

from __future__ import annotations

import difflib
import math
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath, PurePosixPath
from statistics import median
from typing import Final

from perfgate.model.baseline import Baseline, Blessing
from perfgate.model.errors import BaselineMissing, BaselineUnreadable, RepositoryUnreadable
from perfgate.model.history import Creation, History, MachineHistory, Version, VersionKind
from perfgate.model.metric import METRICS, Metric
from perfgate.store import NEAR_NAMES, Store, file_name, near_names, workload_of
from perfgate.system import git
from perfgate.system.git import FileChange

MOST_NAMES: Final = 10
"""Workloads that a message lists."""

_Env = Mapping[str, str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundHistory:
    """A history, and what was in the way of git's part in it."""

    history: History
    trouble: RepositoryUnreadable | None


def read_history(
    root: Path, baselines: str, workload: str, metric: Metric, *, env: _Env = None
) -> FoundHistory:
    """Return the baselines of a workload through the history of the branch that is checked out.

    One that is not committed is the last version. Where git cannot tell, that is all there is, and `trouble` says why.

    Args:
        root: the project's root.
        baselines: the folder of the baselines, relative to the root.
        workload: its id.
        metric: what the changes are told of.
        env: the environment for git; by default that of the process.

    Raises:
        BaselineMissing: it never had a baseline on any machine.
        RepositoryUnreadable: there is no baseline in the working tree, and git cannot tell whether there was one.
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    files = _Files(root, baselines, workload)
    repository: _Repository | None = None
    ever: set[str] = set()
    trouble: RepositoryUnreadable | None = None
    machines: list[MachineHistory] = []
    try:
        repository = _Repository(files.folder, env)
        ever = repository.files_ever()
        slugs = sorted({*files.slugs(), *_slugs(ever, files.name)})
        machines = [_machine(files, slug, metric, repository) for slug in slugs]
    except RepositoryUnreadable as error:
        trouble = _retold(error)
        machines = [_machine(files, slug, metric, None) for slug in files.slugs()]
    machines = [machine for machine in machines if machine.versions]
    shallow = repository is not None and bool(repository.cuts)
    if not machines:
        raise trouble or _never(workload, known=_workloads(files.store, ever), shallow=shallow)
    history = History(
        workload=workload,
        metric=metric,
        commit=repository.head if repository else None,
        branch=repository.branch if repository else None,
        shallow=shallow,
        trouble=trouble.fact if trouble else "",
        machines=tuple(sorted(machines, key=_newest)),
    )
    return FoundHistory(history=history, trouble=trouble)


class _Files:
    """The files of one workload's baselines in the working tree."""

    def __init__(self, root: Path, baselines: str, workload: str) -> None:
        self._root = root
        self._workload = workload
        self.folder = root / baselines
        self.store = Store(root, baselines)
        self.name = f"{file_name(workload)}.json" if workload else ""

    def slugs(self) -> tuple[str, ...]:
        """The machines that have a baseline now."""
        return self.store.baselines.other_machines(self._workload) if self._workload else ()

    def path(self, slug: str) -> Path:
        return self.folder / slug / self.name

    def told(self, slug: str) -> str:
        """A file as it is shown: relative to the project's root."""
        return PurePath(os.path.relpath(self.path(slug), self._root)).as_posix()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """One commit on a file's way, and where the file was before, if that commit moved it."""

    change: FileChange
    source: str | None = None
    source_blob: str | None = None

    @property
    def before(self) -> str | None:
        """The blob that its first parent had."""
        return self.change.before[0] if self.source is None else self.source_blob


class _Repository:
    """What git knows of the folder of the baselines, which may be that of another repository than the project's."""

    def __init__(self, folder: Path, env: _Env) -> None:
        folder = folder.resolve()
        self.at = next(place for place in (folder, *folder.parents) if place.is_dir())
        self.env = env
        within = PurePosixPath(git.prefix(self.at, env=env).as_posix())
        self.top = within / folder.relative_to(self.at).as_posix()
        """The folder of the baselines, from the top of the repository."""
        self.head, self.branch = git.checked_out(self.at, env=env)
        self.cuts = git.cuts(self.at, env=env)

    def path(self, slug: str, name: str) -> str:
        return (self.top / slug / name).as_posix()

    def files_ever(self) -> set[str]:
        """All files `machine/name` that were ever in the folder of the baselines."""
        if self.head is None:
            return set()
        paths = (
            PurePosixPath(path)
            for path in git.files_ever(self.at, self.top.as_posix(), env=self.env)
        )
        below = (path.relative_to(self.top) for path in paths if path.is_relative_to(self.top))
        return {
            path.as_posix() for path in below if len(path.parts) == 2 and path.suffix == ".json"
        }

    def steps(self, path: str) -> tuple[list[_Step], Creation | None]:
        """The commits on a file's way, oldest first, through moves; and what else was deleted where it was created."""
        if self.head is None:
            return [], None
        found: list[_Step] = []
        creation: Creation | None = None
        revision = self.head
        while True:
            for change in git.file_changes(self.at, path, revision=revision, env=self.env):
                creation = None
                if change.blob is None or change.before != (None,) or not change.parents:
                    found.append(_Step(change=change))
                    continue
                deleted = git.deleted_by(self.at, change.commit, env=self.env)
                source = self._source(change, deleted)
                if source is not None:
                    found.append(_Step(change=change, source=source, source_blob=deleted[source]))
                    path, revision = source, change.parents[0]
                    break
                found.append(_Step(change=change))
                creation = _creation(change, deleted)
            else:
                return found[::-1], creation

    def _source(self, change: FileChange, deleted: Mapping[str, str]) -> str | None:
        """The file that a commit moved to where it created one: of the same name, and of the same machine.

        The folder says which machine that is or, where that was renamed, the baseline.
        """
        new = PurePosixPath(change.path)
        alike = [path for path in deleted if PurePosixPath(path).name == new.name]
        here = [path for path in alike if PurePosixPath(path).parent.name == new.parent.name]
        if not here and alike and change.blob is not None:
            read = self.read({change.blob: change.path} | {deleted[path]: path for path in alike})
            now = read[change.blob]
            here = [path for path in alike if _same_machine(read[deleted[path]], now)]
        return min(
            here,
            key=lambda path: (deleted[path] != change.blob, -_common(path, change.path), path),
            default=None,
        )

    def read(self, blobs: Mapping[str, str]) -> Mapping[str, Baseline | str]:
        """What blobs hold, by their path: a baseline, or why it is none."""
        store = Store(Path(), ".")
        contents = git.read_blobs(self.at, blobs, env=self.env)
        return {blob: _opened(store, Path(path), contents[blob]) for blob, path in blobs.items()}


def _opened(store: Store, path: Path, blob: git.Blob) -> Baseline | str:
    if blob.content is None:
        return blob.fault
    try:
        return _dated(store.baselines.parse(blob.content, path))
    except BaselineUnreadable as error:
        return error.fact


def _dated(baseline: Baseline) -> Baseline | str:
    """A baseline whose date can be told in every time zone."""
    try:
        baseline.blessing.at.astimezone(UTC)
    except (OverflowError, ValueError):
        return f"it was blessed at {baseline.blessing.at.isoformat()}, which is no date"
    return baseline


def _same_machine(old: Baseline | str, new: Baseline | str) -> bool:
    return (
        isinstance(old, Baseline)
        and isinstance(new, Baseline)
        and old.machine.slug == new.machine.slug
    )


def _common(path: str, other: str) -> int:
    """How many last parts two paths have in common."""
    pairs = zip(
        reversed(PurePosixPath(path).parts), reversed(PurePosixPath(other).parts), strict=False
    )
    return next((n for n, (a, b) in enumerate(pairs) if a != b), len(PurePosixPath(path).parts))


def _creation(change: FileChange, deleted: Mapping[str, str]) -> Creation | None:
    """What a renamed workload looks like: its baseline is created where another one is deleted."""
    new = PurePosixPath(change.path)
    beside = [
        path
        for path in map(PurePosixPath, deleted)
        if path.parent == new.parent and path.suffix == ".json"
    ]
    names = [workload_of(path.stem) or path.stem for path in beside]
    near = difflib.get_close_matches(
        workload_of(new.stem) or new.stem, names, n=NEAR_NAMES, cutoff=0
    )
    return Creation(commit=change.commit, deleted=tuple(near)) if near else None


def _machine(
    files: _Files, slug: str, metric: Metric, repository: _Repository | None
) -> MachineHistory:
    """One machine's versions; without a repository what lies in the working tree."""
    steps: list[_Step] = []
    creation: Creation | None = None
    dropped: tuple[str, ...] = ()
    path = files.told(slug)
    line = _Line(metric)
    if repository is not None:
        path = repository.path(slug, files.name)
        steps, creation = repository.steps(path)
        read = repository.read(
            {step.change.blob: step.change.path for step in steps if step.change.blob is not None}
        )
        for step in steps:
            line.commit(step, read, at_cut=step.change.commit in repository.cuts)
        dropped = _dropped(repository, path, steps, line.blessings)
    if repository is None or git.differs_from_head(repository.at, path, env=repository.env):
        line.working_tree(_on_disk(files, slug), path)
    return MachineHistory(
        slug=slug,
        gpu=line.last.machine.gpu_name if line.last is not None else slug,
        file=files.told(slug),
        versions=tuple(line.versions),
        dropped=dropped,
        creation=creation,
    )


def _on_disk(files: _Files, slug: str) -> Baseline | str | None:
    """What lies in the working tree, why it is no baseline, or None where nothing does."""
    try:
        return _dated(files.store.baselines.own(files.path(slug)))
    except BaselineMissing:
        return None
    except BaselineUnreadable as error:
        return error.fact


def _dropped(
    repository: _Repository, path: str, steps: Sequence[_Step], blessings: Iterable[Blessing]
) -> tuple[str, ...]:
    """The commits of blessings that the branch has in its history, and never had as its baseline."""
    if repository.head is None:
        return ()
    kept = {step.change.blob for step in steps}
    changes = git.file_changes(repository.at, path, dropped=True, env=repository.env)
    others = {
        change.blob: change
        for change in changes[::-1]
        if change.blob is not None and change.blob not in kept
    }
    read = repository.read(dict.fromkeys(others, path))
    known = set(blessings)
    found: list[str] = []
    for blob, change in others.items():
        baseline = read[blob]
        if isinstance(baseline, Baseline) and baseline.blessing not in known:
            known.add(baseline.blessing)
            found.append(change.commit)
    return tuple(found)


class _Line:
    """The versions of one file, oldest first, each told against those before it."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self.versions: list[Version] = []
        self.last: Baseline | None = None
        """The newest that could be read."""
        self._first: Baseline | None = None
        """The oldest that has the metric."""
        self.blessings: set[Blessing] = set()
        self._measured: set[datetime] = set()

    def commit(self, step: _Step, read: Mapping[str, Baseline | str], *, at_cut: bool) -> None:
        """Add what a commit left."""
        change = step.change
        base = Version(
            kind=VersionKind.DELETED,
            commit=change.commit,
            at=change.at,
            author=change.author,
            subject=change.subject,
            merge=len(change.parents) > 1,
            at_cut=at_cut,
            path=_printable(change.path),
            moved_from=None if step.source is None else _printable(step.source),
        )
        if change.blob is None:
            self.versions.append(base)
        elif not change.is_file:
            self._unreadable(base, "it is a link or a submodule, not a file")
        else:
            before = read.get(step.before) if step.before is not None else None
            moved = step.source is not None and step.before == change.blob
            self._add(base, read[change.blob], before=before, moved=moved)

    def working_tree(self, found: Baseline | str | None, path: str) -> None:
        """Add what is not committed, where it is not what the last commit left."""
        base = Version(kind=VersionKind.DELETED, commit=None, path=_printable(path))
        if found is None:
            if self.versions and self.versions[-1].kind is not VersionKind.DELETED:
                self.versions.append(base)
        elif found != self.last or not self.versions or self._broken:
            self._add(base, found, before=None, moved=False)

    @property
    def _broken(self) -> bool:
        """Whether there was no baseline just before."""
        return bool(self.versions) and self.versions[-1].kind in (
            VersionKind.DELETED,
            VersionKind.UNREADABLE,
        )

    def _unreadable(self, base: Version, fault: str) -> None:
        self.versions.append(
            base.model_copy(update={"kind": VersionKind.UNREADABLE, "fault": fault})
        )

    def _add(
        self, base: Version, found: Baseline | str, *, before: Baseline | str | None, moved: bool
    ) -> None:
        if isinstance(found, str):
            self._unreadable(base, found)
            return
        # In a history that is not one line, the version before is the parent's, not the one that was added last.
        old = before if isinstance(before, Baseline) else self.last
        kind = self._kind(found, old, moved=moved)
        values = _medians(found)
        anchor = found.anchor.step_ms if found.anchor is not None else None
        self.versions.append(
            base.model_copy(
                update={
                    "kind": kind,
                    "blessing": found.blessing,
                    "added": _added(old, found) if kind is VersionKind.EXTENDED else (),
                    "runs": len(found.runs),
                    "occasions": len(found.occasions),
                    "values": values,
                    "anchor_ms": anchor,
                    "before": self._value(old) if self._metric in values else None,
                    "change": self._change(old, found),
                    "first": self._value(self._first) if self._metric in values else None,
                    "since_first": self._change(self._first, found),
                    "since_anchor": self._since_anchor(anchor, values),
                    "unlike": _unlike(old, found),
                    "unlike_first": _unlike(self._first, found),
                }
            )
        )
        self.last = found
        self.blessings.add(found.blessing)
        self._measured |= _measured(found)
        if self._first is None and self._metric in values:
            self._first = found

    def _kind(self, found: Baseline, old: Baseline | None, *, moved: bool) -> VersionKind:
        if moved:
            return VersionKind.MOVED
        if found.blessing in self.blessings:
            if old is None or old.blessing != found.blessing or self._broken:
                return VersionKind.RESTORED
            if old.occasions == found.occasions:
                return VersionKind.REWRITTEN
            # A revert brings back what was left out for the occasion that it takes away.
            now, then = _measured(found), _measured(old)
            is_revert = bool(then - now) and now - then <= self._measured
            return (
                VersionKind.EXTENDED
                if _added(old, found) and not is_revert
                else VersionKind.RESTORED
            )
        deleted = bool(self.versions) and self.versions[-1].kind is VersionKind.DELETED
        return VersionKind.RECREATED if deleted else VersionKind.BLESSED

    def _value(self, baseline: Baseline | None) -> float | None:
        return None if baseline is None else _medians(baseline).get(self._metric)

    def _change(self, old: Baseline | None, new: Baseline) -> float | None:
        was, now = self._value(old), self._value(new)
        if old is None or was is None or now is None:
            return None
        return _finite(
            METRICS[self._metric].change(was, now, step_ms=_medians(old).get(Metric.STEP_MS))
        )

    def _since_anchor(
        self, anchor_ms: float | None, values: Mapping[Metric, float]
    ) -> float | None:
        if self._metric is not Metric.STEP_MS or anchor_ms is None or Metric.STEP_MS not in values:
            return None
        return _finite(
            METRICS[Metric.STEP_MS].change(anchor_ms, values[Metric.STEP_MS], step_ms=anchor_ms)
        )


def _medians(baseline: Baseline) -> dict[Metric, float]:
    found = {metric: median(values) for metric in METRICS if (values := baseline.values(metric))}
    return {metric: value for metric, value in found.items() if math.isfinite(value)}


def _measured(baseline: Baseline) -> set[datetime]:
    """When each of its occasions was measured."""
    return {occasion.measured_at for occasion in baseline.occasions}


def _added(old: Baseline | None, new: Baseline) -> tuple[Blessing, ...]:
    """Who added each occasion that only the new one has; nobody where one of them was not added to what was there."""
    held = () if old is None else old.occasions
    added = [occasion.added for occasion in new.occasions if occasion not in held]
    return () if None in added else tuple(one for one in added if one is not None)


def _finite(fraction: float | None) -> float | None:
    return fraction if fraction is not None and math.isfinite(fraction) else None


def _unlike(old: Baseline | None, new: Baseline) -> tuple[str, ...]:
    """Name what makes two baselines incomparable, as `nsys 2023.4.4, then 2024.2.3`; empty if nothing does."""
    if old is None or old is new:
        return ()
    pairs = [
        ("", old.machine.gpu_name, new.machine.gpu_name),
        ("MIG slices ", *(str(sum(gpu.mig for gpu in of.machine.gpus)) for of in (old, new))),
        ("nsys ", old.machine.nsys or "unknown", new.machine.nsys or "unknown"),
        ("nsys options ", *(" ".join(of.machine.nsys_options) or "none" for of in (old, new))),
    ]
    pairs += [
        (f"{name} ", old.parameters.get(name, "not set"), new.parameters.get(name, "not set"))
        for name in sorted({*old.parameters, *new.parameters})
    ]
    return tuple(f"{name}{was}, then {now}" for name, was, now in pairs if was != now)


def _printable(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")


def _newest(machine: MachineHistory) -> tuple[bool, datetime, str]:
    """Machines by their last version; one that is not committed is the newest."""
    last = machine.versions[-1]
    at = last.at or (last.blessing.at if last.blessing else None)
    return (
        last.commit is None,
        datetime.min.replace(tzinfo=UTC) if at is None else at.astimezone(UTC),
        machine.slug,
    )


def _slugs(ever: Iterable[str], name: str) -> set[str]:
    return {PurePosixPath(path).parent.name for path in ever if PurePosixPath(path).name == name}


def _workloads(store: Store, ever: Iterable[str]) -> list[str]:
    """The workloads that have or had a baseline."""
    stems = (PurePosixPath(path).name.removesuffix(".json") for path in ever)
    return sorted(
        {
            *(one.workload for one in store.baselines.listed()),
            *(workload_of(stem) or stem for stem in stems),
        }
    )


def _retold(error: RepositoryUnreadable) -> RepositoryUnreadable:
    return RepositoryUnreadable(
        subject=error.subject,
        fact=error.fact,
        expectation="The history of a baseline is that of its file in git",
        next_step=error.next_step,
    )


def _never(workload: str, *, known: Sequence[str], shallow: bool) -> BaselineMissing:
    near = near_names(workload, known)
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    if near:
        expectation = f"Perhaps you meant {' or '.join(near)}"
    elif known:
        expectation = f"There are or were baselines of: {', '.join(known[:MOST_NAMES])}{more}"
    else:
        expectation = "Nor had any other workload"
    if near:
        next_step = f"Look there: perfgate history {shlex.quote(near[0])}"
    else:
        next_step = 'Make one: pytest --perfgate; perfgate bless --reason "..."'
    if shallow:
        next_step = "In GitHub Actions set fetch-depth: 0 of checkout; elsewhere fetch the whole history: git fetch --unshallow"
    return BaselineMissing(
        subject=workload or repr(workload),
        fact="this clone, which is shallow, has no baseline of it"
        if shallow
        else "it never had a baseline here",
        expectation=expectation,
        next_step=next_step,
    )
