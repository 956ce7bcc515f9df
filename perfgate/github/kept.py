"""What the gate of one commit has kept, and that commit beside it: both are data, which is read and
never run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from github.Artifact import Artifact
from github.Repository import Repository
from github.WorkflowRun import WorkflowRun

from perfgate.github.api import download
from perfgate.github.approval import APPROVED, GATE, name_of
from perfgate.github.artifacts import Limits, unpacked
from perfgate.github.request import Branch
from perfgate.model.baseline import ALL_TRACKED, FEWEST_RUNS, Baseline, Commit, Result
from perfgate.model.errors import (
    BlessRefused,
    GitHubRefused,
    RepositoryUnreadable,
    ResultMissing,
    ResultUnreadable,
)
from perfgate.model.limits import LARGEST_RESULT, LONGEST_ID, MOST_ENTRIES
from perfgate.store import Store, file_name
from perfgate.system import git

KEPT: Final = "kept-"
"""How the names of artifacts begin that hold kept results."""
LIMITS: Final = Limits(
    packed_bytes=4 * LARGEST_RESULT,
    members=MOST_ENTRIES,
    member_bytes=LARGEST_RESULT,
    total_bytes=4 * LARGEST_RESULT,
)
MOST_ARTIFACTS: Final = 50
"""Of one run, how many are read at most."""

_FINISHED: Final = frozenset({"success", "failure"})
"""How a run concludes that came to a verdict; others were cancelled, or skipped for want of an
approval."""
_RESULT: Final = re.compile(r"results/([^/]+)/([^/]+)/\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}/result\.json")


# The commit that is checked out beside, as data


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkout:
    """The project as it is in the commit that was measured."""

    root: Path
    store: Store
    prefix: PurePath
    """Where the project lies in its repository."""
    commit: Commit
    baselines: str
    """The folder of the baselines, from the project's root."""
    env: Mapping[str, str]
    """What git is asked in."""

    def path_in_tree(self, baseline: Baseline) -> str:
        """Return where a baseline lies, POSIX and from the top of the repository.

        Raises:
            BlessRefused: there, or on the way, is a link.
        """
        inside = self.store.baselines.path(baseline.machine.slug, baseline.workload).relative_to(
            self.root
        )
        for place in (inside, *inside.parents):
            if place.parts and (self.root / place).is_symlink():
                raise BlessRefused("link-not-committed-to", path=place.as_posix())
        return (self.prefix / inside).as_posix()

    def code_now(self, paths: Mapping[str, str]) -> dict[str, str]:
        """Return the SHA-256 of the files at paths that a stranger names: of those of the
        repository, and no other."""
        root = self.root.resolve()
        top = root.parents[len(self.prefix.parts) - 1] if self.prefix.parts else root
        found: dict[str, str] = {}
        if ALL_TRACKED in paths:
            with suppress(RepositoryUnreadable):
                found[ALL_TRACKED] = git.content_digest(
                    root, baselines=self.baselines, env=self.env
                )
        for path in paths:
            # A name that is too long, holds a zero byte, or links in a circle.
            with suppress(OSError, RuntimeError, ValueError):
                file = (root / path).resolve()
                is_ours = file.is_relative_to(top) and not file.is_relative_to(top / ".git")
                if is_ours and not PurePosixPath(path).is_absolute() and file.is_file():
                    found[path] = hashlib.sha256(file.read_bytes()).hexdigest()
        return found


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
    parts = PurePosixPath(baselines).parts
    if (
        not parts
        or not baselines.isprintable()
        or any(part in {"/", ".."} or part.casefold().startswith(".git") for part in parts)
    ):
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
        baselines=baselines,
        env=env,
    )


# What the gate of the commit has kept


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What the newest finished gate of a commit has kept, and with it other measurements of the
    same commit."""

    run: WorkflowRun
    results: Mapping[tuple[str, str], Sequence[Result]]
    """By machine and workload: that gate's own result, then older ones of the same commit, newest
    first."""


def kept_by_gate(repository: Repository, branch: Branch, *, asked_at: datetime | None) -> Kept:
    """Download what the gate of a branch's head commit has kept.

    Older gates of the very same commit are asked only where runs are wanting. A fork can hold the
    commit too, and its pull request starts runs of its own: they are a stranger's, and are not
    looked at.

    Args:
        repository: whom to ask.
        branch: the branch and its head commit.
        asked_at: when a comment asked; a commit whose first gate began later is not what was looked
            at.

    Raises:
        BlessRefused: the commit came after the comment; or a result is of another commit, or there
        twice. ResultMissing: no gate of this commit came to an end and kept something.
        ResultUnreadable, ArtifactUnreadable: what it kept cannot be read.
    """
    commit = branch.head_sha[:12]
    runs = _runs(repository, branch.head_sha)
    finished = [run for run in runs if run.status == "completed" and run.conclusion in _FINISHED]
    if not finished:
        going = any(run.status != "completed" for run in runs)
        code = "gate-still-runs" if going else "gate-never-ended"
        raise ResultMissing(code, commit=commit, workflow=GATE)
    if asked_at is not None and min(run.created_at for run in runs) > asked_at:
        raise BlessRefused("commit-after-comment", commit=commit)
    newest = finished[0]
    found: dict[tuple[str, str], list[Result]] = {}
    for result in _results(_kept_artifacts(newest, commit), branch.head_sha):
        key = result.machine.slug, result.workload.id
        if key in found:
            raise twice_kept(result)
        found[key] = [result]
    for run in finished[1:]:
        if all(sum(len(one.runs) for one in results) >= FEWEST_RUNS for results in found.values()):
            break
        with suppress(ResultMissing):
            for result in _results(_kept_artifacts(run, commit), branch.head_sha):
                if (key := (result.machine.slug, result.workload.id)) in found:
                    found[key].append(result)
    return Kept(run=newest, results=found)


def twice_kept(result: Result) -> BlessRefused:
    """Return the error of a workload of which a gate has kept several results on one machine."""
    return BlessRefused("kept-twice", workload=result.workload.id, gpu=result.machine.gpu_name)


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


def _kept_artifacts(run: WorkflowRun, commit: str) -> list[Artifact]:
    """The artifacts with kept results, of each name the newest."""
    listed = [one for one in run.get_artifacts() if one.name.startswith(KEPT)]
    by_name = {one.name: one for one in sorted(listed, key=lambda one: one.id)}
    if not by_name or any(artifact.expired for artifact in by_name.values()):
        code = "kept-expired" if by_name else "kept-nothing"
        raise ResultMissing(code, commit=commit, artifact=KEPT)
    return [by_name[one] for one in sorted(by_name)[:MOST_ARTIFACTS]]


def _results(artifacts: Sequence[Artifact], head_sha: str) -> Iterator[Result]:
    for artifact in artifacts:
        content = download(artifact, limit_bytes=LIMITS.packed_bytes)
        members = unpacked(content, lambda _: True, artifact=artifact.name, limits=LIMITS)
        for path, raw in sorted(members.items()):
            yield read_result(path, raw, artifact.name, head_sha)


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


def runner_of(repository: Repository, run_id: int) -> str | None:
    """Return where a run's gates ran; None where GitHub does not say, which is no reason to refuse."""
    try:
        jobs = list(repository.get_workflow_run(run_id).jobs("all"))
    except GitHubRefused:
        return None
    names = {
        job.runner_name: None
        for job in jobs
        if job.runner_name and "self-hosted" in (job.labels or ())
    }
    return ", ".join([*names][:3]) or None
