"""The blessed baselines of a workload through git's history; it judges nothing and writes nothing.

A file's history is that of its path: a renamed folder or workload begins a new one.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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

_Left = tuple[git.FileVersion | None, Baseline | Note | None]
"""What a commit, or the working tree, has of one file."""


def read_history(
    store: Store, workload: str, metric: Metric, *, env: Mapping[str, str] | None = None
) -> History:
    """Return the baselines of a workload that led to what is checked out, and to what lies there.

    Args:
        store: of the project.
        workload: its id.
        metric: what the changes are of.
        env: the environment for git; by default that of the process.

    Raises:
        BaselineMissing: it never had a baseline on any machine.
        RepositoryUnreadable: git cannot say.
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    root, folder = store.root, os.path.relpath(store.baselines.folder, store.root)
    pattern = PurePosixPath(escape(folder)) / "*" / f"{escape(file_name(workload))}.json"
    left: defaultdict[str, list[_Left]] = defaultdict(list)
    for one in git.file_versions(root, pattern.as_posix(), env=env):
        left[PurePosixPath(one.path).parent.name].append((one, _parsed(store, one)))
    for slug in {*left, *store.baselines.other_machines(workload)}:
        left[slug].append((None, _here(store, slug, workload)))
    shallow = git.is_shallow(root, env=env)
    if not left:
        known = tuple(sorted({one.workload for one in store.baselines.listed()}))
        if shallow:
            raise BaselineMissing("history-shallow", workload=workload)
        code = "baseline-unknown" if known else "baselines-none"
        raise BaselineMissing(code, subject=workload, known=known)
    machines = tuple(_machine(slug, of_it, metric) for slug, of_it in sorted(left.items()))
    return History(workload=workload, metric=metric, shallow=shallow, machines=machines)


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


def _parsed(store: Store, left: git.FileVersion) -> Baseline | Note | None:
    """What a commit left: a baseline, why it cannot be read, or None."""
    try:
        if left.content is None:
            return None
        return store.baselines.parse(left.content, Path(left.path))
    except BaselineUnreadable as error:
        return noted(error)


def _here(store: Store, slug: str, workload: str) -> Baseline | Note | None:
    """What lies in the working tree."""
    try:
        return store.baselines.load(slug, workload)
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
            version = BlessedVersion(
                state="deleted" if found is None else "unreadable",
                commit=None if commit is None else commit.commit,
                at=None if commit is None else commit.at,
                by="" if commit is None else commit.author,
                reason="" if commit is None else commit.subject,
                why=found,
            )
        before = versions[-1] if versions else None
        is_as_before = before is not None and before.state == version.state
        if not is_as_before or (version.at is not None and version.at != versions[-1].at):
            versions.append(version)
    gpu = slug if last is None else last.machine.gpu_name
    return MachineHistory(slug=slug, gpu=gpu, versions=tuple(versions))


def _blessed(
    found: Baseline, last: Baseline | None, commit: git.FileVersion | None, metric: Metric
) -> BlessedVersion:
    blessing, values = _latest(found), _medians(found)
    before = {} if last is None else _medians(last)
    was, now = before.get(metric), values.get(metric)
    step_ms, anchor = values.get(Metric.STEP_MS), found.anchor
    return BlessedVersion(
        state="blessed",
        commit=None if commit is None else commit.commit,
        at=blessing.at,
        by=blessing.by,
        reason=blessing.reason,
        runs=len(found.runs),
        values=values,
        change=None
        if was is None or now is None
        else METRICS[metric].change(was, now, step_ms=before.get(Metric.STEP_MS)),
        since_anchor=None
        if anchor is None or step_ms is None
        else METRICS[Metric.STEP_MS].change(anchor.step_ms, step_ms, step_ms=anchor.step_ms),
        unlike=() if last is None else tuple(_unlike(last, found)),
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
