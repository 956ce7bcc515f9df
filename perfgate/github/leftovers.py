"""What a runner is left with: what a gate has left is ended and removed, and the workspace is
looked at."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Final

from perfgate.execute.worktree import remove_abandoned
from perfgate.github.job import Job
from perfgate.model.errors import ConfigInvalid, RepositoryUnreadable
from perfgate.model.note import Note, Severity, note
from perfgate.system import git
from perfgate.system.ending import end_marked, processes_of

MOST_NAMES: Final = 5
"""Files that are named where the workspace is not clean."""


def clean(job: Job, *, before: bool) -> list[Note]:
    """End what a gate has left running, remove what it has checked out and kept, and look at the
    workspace.

    Args:
        job: the step; `mark` says which processes, and the name of the gate is a part of it.
        before: whether a gate is yet to come. What lies under `.perfgate` is then none of this
            job's to publish.

    Raises:
        ConfigInvalid: it is no job of GitHub Actions: results that somebody keeps would be lost.
    """
    if job.env.get("GITHUB_ACTIONS") != "true":
        raise ConfigInvalid("clean-outside-a-job")
    notes = [*_processes(job), *_files(job, before=before), *_changes(job)]
    return notes or [note("runner-clean")]


def _processes(job: Job) -> Iterator[Note]:
    ended = end_marked(job.mark)
    if ended:
        yield note("gate-processes-ended", processes=ended)
    left = len(processes_of(job.mark))
    if left:
        yield note("gate-processes-left", Severity.INVALID, count=left)


def _files(job: Job, *, before: bool) -> Iterator[Note]:
    try:
        for name in remove_abandoned(job.root, job.kept / "worktrees", env=job.env):
            yield note("checkout-removed", checkout=name)
        # The files of this gate stay: later steps of the job read them by the action's outputs.
        for folder in (job.kept / "results", *([job.folder] if before else [])):
            if folder.exists():
                shutil.rmtree(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        yield note("folder-not-removed", Severity.WARN, folder=str(job.kept), reason=reason)


def _changes(job: Job) -> Iterator[Note]:
    try:
        changes = git.changes(job.root, env=job.env)
    except RepositoryUnreadable as unknown:
        yield note("workspace-unknown", Severity.WARN, reason=unknown.fact)
        return
    if changes:
        first = changes[:MOST_NAMES]
        yield note("workspace-changed", Severity.WARN, count=len(changes), first=first)
