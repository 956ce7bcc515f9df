"""The blessed baselines of a workload through git's history; it judges nothing and writes nothing.

A file's history is that of its path: a renamed folder or workload begins a new one.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from glob import escape
from pathlib import Path, PurePosixPath

from perfgate.model.baseline import Baseline, Blessing
from perfgate.model.comparison import Side
from perfgate.model.errors import BaselineMissing, BaselineUnreadable
from perfgate.model.history import BlessedVersion, History, MachineHistory, Point
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note, note, noted
from perfgate.store import Store, file_name
from perfgate.system import git

_Left = tuple[git.FileVersion | None, Baseline | Note | None]
"""What a commit, or the working tree, has of one file."""


def read_history(store: Store, workload: str, metric: Metric) -> History:
    """Return the baselines of a workload that led to what is checked out, and to what lies there.

    Args:
        store: of the project.
        workload: its id.
        metric: what the changes are of.

    Raises:
        BaselineMissing: it never had a baseline on any machine.
        RepositoryUnreadable: git cannot say.
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    root, baselines = store.root, store.baselines
    folder = PurePosixPath(escape(os.path.relpath(baselines.folder, root)))
    pattern = folder / "*" / f"{escape(file_name(workload))}.json"
    left: defaultdict[str, list[_Left]] = defaultdict(list)
    for one in git.file_versions(root, pattern.as_posix()):
        path, content = Path(one.path), one.content
        found = None if content is None else _tried(partial(baselines.parse, content, path))
        left[path.parent.name].append((one, found))
    for slug in {*left, *baselines.other_machines(workload)}:
        left[slug].append((None, _tried(partial(baselines.load, slug, workload))))
    shallow = git.is_shallow(root)
    if not left and shallow:
        raise BaselineMissing("history-shallow", workload=workload)
    if not left:
        raise baselines.unknown(workload)
    machines = tuple(_machine(slug, of_it, metric) for slug, of_it in sorted(left.items()))
    return History(workload=workload, metric=metric, shallow=shallow, machines=machines)


def points(machine: MachineHistory) -> tuple[Point, ...]:
    """Return step_ms on one machine as a series to draw, oldest first; versions without it are left
    out."""
    found: list[Point] = []
    joined = False
    for version in machine.versions:
        value = version.values.get(Metric.STEP_MS)
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


def _tried(read: Callable[[], Baseline | None]) -> Baseline | Note | None:
    """A baseline, why it cannot be read, or None."""
    try:
        return read()
    except BaselineUnreadable as error:
        return noted(error)


def _machine(slug: str, left: Sequence[_Left], metric: Metric) -> MachineHistory:
    """The versions of one file, oldest first, each compared with the one before it that could be
    read; what is not committed, or was calibrated, only where it is not what there was."""
    versions: list[BlessedVersion] = []
    last: Baseline | None = None
    for commit, found in left:
        if isinstance(found, Baseline):
            version = _blessed(found, last, commit, metric)
            last = found
        else:
            version = BlessedVersion(state="unreadable" if found else "deleted", why=found)
            if commit is not None:
                said = {"at": commit.at, "by": commit.author, "reason": commit.subject}
                version = version.model_copy(update={"commit": commit.commit, **said})
        is_as_before = bool(versions) and versions[-1].state == version.state
        if not is_as_before or version.at not in (None, versions[-1].at):
            versions.append(version)
    gpu = slug if last is None else last.machine.gpu_name
    return MachineHistory(slug=slug, gpu=gpu, versions=tuple(versions))


def _blessed(
    found: Baseline, last: Baseline | None, commit: git.FileVersion | None, metric: Metric
) -> BlessedVersion:
    added = [one.added for one in found.occasions if one.added is not None]
    blessing: Blessing = max([found.blessing, *added], key=lambda one: one.at)
    now = Side.of_baseline("", found)
    before = None if last is None else Side.of_baseline("", last)
    values, then = now.medians(), {} if before is None else before.medians()
    unlike = [] if before is None else sorted(before.unlike(now))
    anchor = {} if found.anchor is None else {Metric.STEP_MS: found.anchor.step_ms}
    return BlessedVersion(
        state="blessed",
        commit=None if commit is None else commit.commit,
        at=blessing.at,
        by=blessing.by,
        reason=blessing.reason,
        runs=len(found.runs),
        values=values,
        change=_change(metric, then, values),
        since_anchor=_change(Metric.STEP_MS, anchor, values),
        unlike=tuple(
            note("history-unlike", name=name, then=was, now=is_now) for name, was, is_now in unlike
        ),
    )


def _change(
    metric: Metric, before: Mapping[Metric, float], now: Mapping[Metric, float]
) -> float | None:
    if metric not in before or metric not in now:
        return None
    step_ms = before.get(Metric.STEP_MS)
    return METRICS[metric].change(before[metric], now[metric], step_ms=step_ms)
