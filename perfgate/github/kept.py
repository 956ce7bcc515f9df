"""What the gate of one commit has kept, and that commit next to it: both are data, which is read
and never run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from github.Repository import Repository
from github.WorkflowRun import WorkflowRun

from perfgate.github.api import download
from perfgate.github.approval import APPROVED, GATE, name_of
from perfgate.github.artifacts import unpacked
from perfgate.model.baseline import Baseline, Commit, Result
from perfgate.model.errors import BlessRefused, GitHubRefused, ResultMissing, ResultUnreadable
from perfgate.model.record import LARGEST_RESULT, LONGEST_ID
from perfgate.store import Store, file_name
from perfgate.system import git

KEPT: Final = "kept-"
"""How the names of artifacts begin that hold kept results."""
LARGEST: Final = 4 * LARGEST_RESULT
"""Bytes of one artifact."""
MOST_ARTIFACTS: Final = 50
"""Of one run, how many are read at most."""

_FINISHED: Final = frozenset({"success", "failure"})
"""How a run concludes that came to a verdict; others were cancelled, or skipped for want of an
approval."""
_RESULT: Final = re.compile(r"results/([^/]+)/([^/]+)/\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}/result\.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkout:
    """The project as it is in the commit that was measured."""

    root: Path
    store: Store
    prefix: PurePath
    """Where the project lies in its repository."""
    commit: Commit

    def path_in_tree(self, baseline: Baseline) -> str:
        """Return where a baseline lies, POSIX and from the top of the repository."""
        place = self.store.baselines.path(baseline.machine.slug, baseline.workload)
        return (self.prefix / place.relative_to(self.root)).as_posix()


def checkout(root: Path, baselines: str, head_sha: str, *, env: Mapping[str, str]) -> Checkout:
    """Return the project at `root`, which has to be the commit that is asked about, unchanged.

    Args:
        root: the project's root.
        baselines: the folder of the baselines, as the commit's own settings say; a stranger may
            have written them.
        head_sha: the commit.
        env: the environment, for git.

    Raises:
        BlessRefused: another commit is checked out, something was changed, or the baselines lie
        elsewhere. RepositoryUnreadable: git does not answer.
    """
    # That it lies in the project, reading the settings has seen to.
    is_git = any(part.casefold().startswith(".git") for part in PurePosixPath(baselines).parts)
    if is_git or not baselines.isprintable():
        raise BlessRefused("baselines-elsewhere", folder=baselines)
    commit = git.require_commit(root, env=env, baselines=baselines)
    if commit.sha != head_sha:
        raise BlessRefused("checkout-elsewhere", commit=commit.sha[:12], expected=head_sha[:12])
    if commit.dirty:
        raise BlessRefused("checkout-changed", commit=commit.sha[:12])
    return Checkout(
        root=root,
        store=Store(root, baselines),
        prefix=git.prefix(root, env=env),
        commit=Commit(sha=head_sha),
    )


def kept_by_gate(
    repository: Repository, head_sha: str, *, asked_at: datetime | None
) -> tuple[WorkflowRun, tuple[Result, ...]]:
    """Download what the newest finished gate of a commit has kept, one result of each workload on
    each machine; return its run with it.

    A fork can hold the commit too, and its pull request starts runs of its own: they are a
    stranger's, and are not looked at.

    Args:
        repository: whom to ask.
        head_sha: the commit.
        asked_at: when a comment asked; a commit whose first gate began later is not what was looked
            at.

    Raises:
        BlessRefused: the commit came after the comment; or a result is of another commit, or there
        twice. ResultMissing: no gate of this commit came to an end and kept something.
        ResultUnreadable, ArtifactUnreadable: what it kept cannot be read.
    """
    runs = _runs(repository, head_sha)
    finished = [run for run in runs if run.status == "completed" and run.conclusion in _FINISHED]
    if not finished:
        going = any(run.status != "completed" for run in runs)
        code = "gate-still-runs" if going else "gate-never-ended"
        raise ResultMissing(code, commit=head_sha[:12], workflow=GATE)
    if asked_at is not None and min(run.created_at for run in runs) > asked_at:
        raise BlessRefused("commit-after-comment", commit=head_sha[:12])
    groups = by_workload(kept_by_run(finished[0], head_sha))
    return finished[0], tuple(map(only, groups))


def by_workload(results: Iterable[Result]) -> list[list[Result]]:
    """Return the results of each workload on each machine."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result.machine.slug, result.workload.id), []).append(result)
    return [found[key] for key in sorted(found)]


def only(results: Sequence[Result]) -> Result:
    """Return the one result of a workload on a machine.

    Raises:
        BlessRefused: there are several.
    """
    first = results[0]
    if len(results) > 1:
        raise BlessRefused("kept-twice", workload=first.workload.id, gpu=first.machine.gpu_name)
    return first


def _runs(repository: Repository, head_sha: str) -> list[WorkflowRun]:
    """The runs of a commit's gate in both workflows, newest first."""
    runs = [*repository.get_workflow(GATE).get_runs(head_sha=head_sha)]
    with suppress(GitHubRefused):  # no such workflow: whoever may read the one may read the other
        runs += repository.get_workflow(APPROVED).get_runs(head_sha=head_sha)
    own = (
        run
        for run in runs
        if run.head_sha == head_sha and name_of(run.head_repository) == name_of(repository)
    )
    return sorted(own, key=lambda run: (run.created_at, run.id), reverse=True)


def kept_by_run(run: WorkflowRun, head_sha: str) -> Iterator[Result]:
    """Download what a run has kept of a commit, of artifacts of one name the newest.

    Raises:
        ResultMissing: it has kept nothing, or that has expired.
        BlessRefused: a result is of another commit.
        ResultUnreadable, ArtifactUnreadable: one cannot be read.
    """
    listed = [one for one in run.get_artifacts() if one.name.startswith(KEPT)]
    by_name = {one.name: one for one in sorted(listed, key=lambda one: one.id)}
    if not by_name or any(artifact.expired for artifact in by_name.values()):
        code = "kept-expired" if by_name else "kept-nothing"
        raise ResultMissing(code, commit=head_sha[:12], artifact=KEPT)
    for name in sorted(by_name)[:MOST_ARTIFACTS]:
        content = download(by_name[name], limit_bytes=LARGEST)
        members = unpacked(content, _RESULT, artifact=name, limit_bytes=LARGEST)
        for path, raw in members.items():
            yield read_result(path, raw, name, head_sha)


def read_result(path: str, raw: bytes, where: str, head_sha: str) -> Result:
    """Return a result that a gate has kept of a commit.

    Args:
        path: as `results/<machine>/<workload>/<time>/result.json`.
        raw: what the file holds.
        where: what messages call the place that it comes from.
        head_sha: the commit that it has to be of.

    Raises:
        ResultUnreadable: it is no whole result, or lies where another should.
        BlessRefused: it is of another commit, or of files that were changed in it.
    """
    place = _RESULT.fullmatch(path)
    shown = f"{where}/{path}"
    if place is None or len(raw) > LARGEST_RESULT:
        raise ResultUnreadable("kept-out-of-place", path=shown, most_bytes=LARGEST_RESULT)
    result = Store(Path(), ".").results.parse(raw, Path(shown))
    workload, slug = result.workload.id, result.machine.slug
    if (
        not workload.isprintable()
        or len(workload) > LONGEST_ID
        or place.groups() != (file_name(slug), file_name(workload))
    ):
        raise ResultUnreadable("kept-out-of-place", path=shown, most_bytes=LARGEST_RESULT)
    commit = result.commit
    if commit is None or commit.sha != head_sha or commit.dirty:
        raise BlessRefused(
            "kept-of-another-commit",
            workload=workload,
            commit="no commit" if commit is None else commit.sha[:12],
            expected=head_sha[:12],
        )
    return result


def runner_of(run: WorkflowRun) -> str | None:
    """Return where a run's gates ran; None where GitHub does not say: no reason to refuse."""
    try:
        jobs = list(run.jobs("all"))
    except GitHubRefused:
        return None
    own = [job.runner_name for job in jobs if "self-hosted" in (job.labels or ())]
    return ", ".join([*dict.fromkeys(filter(None, own))][:3]) or None
