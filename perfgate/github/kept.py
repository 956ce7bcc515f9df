"""What the gate of one commit has kept, and that commit beside it: both are data, which is read and never run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from perfgate.github.api import Artifact, Repository, Run
from perfgate.github.artifacts import Limits, unpacked
from perfgate.github.request import Branch
from perfgate.model.baseline import ALL_TRACKED, FEWEST_RUNS, Baseline, Commit, Result
from perfgate.model.errors import (
    ArtifactUnreadable,
    BlessRefused,
    GitHubRefused,
    RepositoryUnreadable,
    ResultMissing,
    ResultUnreadable,
)
from perfgate.model.limits import LARGEST_RESULT, LONGEST_ID, MOST_ENTRIES
from perfgate.render.page import inert
from perfgate.store import Store, file_name
from perfgate.system import git

WORKFLOW: Final = "perfgate.yml"
"""The workflow of the gate, whose results are promoted and which is started for the new commit."""
APPROVED: Final = "perfgate-approved.yml"
"""The workflow of a gate that a label has started: its results are promoted as well. A repository may not have it."""
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
"""How a run concludes that came to a verdict; others were cancelled, or skipped for want of an approval."""
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
                raise BlessRefused(
                    subject=inert(place.as_posix(), longest=200),
                    fact="it is a link",
                    expectation="From CI, baselines are committed as files, to folders",
                    next_step="Bless at a desk.",
                )
        return (self.prefix / inside).as_posix()

    def code_now(self, paths: Mapping[str, str]) -> dict[str, str]:
        """Return the SHA-256 of the files at paths that a stranger names: of those of the repository, and no other."""
        root = self.root.resolve()
        top = root.parents[len(self.prefix.parts) - 1] if self.prefix.parts else root
        found: dict[str, str] = {}
        if ALL_TRACKED in paths:
            with suppress(RepositoryUnreadable):
                found[ALL_TRACKED] = git.content_digest(
                    root, baselines=self.baselines, env=self.env
                )
        for path in paths:
            if PurePosixPath(path).is_absolute() or "\0" in path:
                continue
            try:
                file = (root / path).resolve()
                if (
                    file.is_relative_to(top)
                    and not file.is_relative_to(top / ".git")
                    and file.is_file()
                ):
                    found[path] = hashlib.sha256(file.read_bytes()).hexdigest()
            except (OSError, RuntimeError):  # a name that is too long, or links in a circle
                continue
        return found


def checkout(root: Path, baselines: str, head_sha: str, *, env: Mapping[str, str]) -> Checkout:
    """Return the project at `root`, which has to be the commit that is asked about, unchanged.

    Args:
        root: the project's root.
        baselines: the folder of the baselines, as the commit's own settings say; a stranger may have written them.
        head_sha: the commit.
        env: the environment, for git.

    Raises:
        BlessRefused: another commit is checked out, something was changed, or the baselines lie elsewhere.
        RepositoryUnreadable: git cannot tell.
    """
    _refuse_elsewhere(baselines)
    commit = git.require_commit(root, env=env, baselines=baselines)
    if commit.sha != head_sha:
        raise BlessRefused(
            subject="the checkout",
            fact=f"it is at {commit.sha[:12]}",
            expectation=f"It should be {head_sha[:12]}, the head of the branch, whose files say what is blessed",
            next_step="The branch may have moved: look at its newest commit, then ask again.",
        )
    if commit.dirty:
        raise BlessRefused(
            subject="the checkout",
            fact=f"files in it are not those of {commit.sha[:12]}",
            expectation="The files of the commit say what is blessed",
            next_step="See what was changed or added before this step: git status",
        )
    return Checkout(
        root=root,
        store=Store(root, baselines),
        prefix=git.prefix(root, env=env),
        commit=Commit(sha=head_sha),
        baselines=baselines,
        env=env,
    )


def _refuse_elsewhere(baselines: str) -> None:
    folder = PurePosixPath(baselines)
    odd = (
        folder.is_absolute()
        or ".." in folder.parts
        or not folder.parts
        or not baselines.isprintable()
    )
    hidden = any(part.casefold().startswith(".git") for part in folder.parts)
    if odd or hidden:
        raise BlessRefused(
            subject="[tool.perfgate] baselines",
            fact=f"it is {inert(baselines, longest=80)!r}",
            expectation="From CI, baselines are committed to a folder of the project's own",
            next_step="Bless at a desk.",
        )


# What the gate of the commit has kept


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What the newest finished gate of a commit has kept, and with it other measurements of the same commit."""

    run: Run
    results: Mapping[tuple[str, str], Sequence[Result]]
    """By machine and workload: that gate's own result, then older ones of the same commit, newest first."""


def kept_by_gate(repository: Repository, branch: Branch, *, asked_at: datetime | None) -> Kept:
    """Download what the gate of a branch's head commit has kept.

    Older gates of the very same commit are asked only where runs are wanting. A fork can hold the commit too, and its
    pull request starts runs of its own: they are a stranger's, and are not looked at.

    Args:
        repository: whom to ask.
        branch: the branch and its head commit.
        asked_at: when a comment asked; a commit whose first gate began later is not what was looked at.

    Raises:
        BlessRefused: the commit came after the comment; or a result is of another commit, or there twice.
        ResultMissing: no gate of this commit came to an end and kept something.
        ResultUnreadable, ArtifactUnreadable: what it kept cannot be read.
    """
    commit = f"commit {branch.head_sha[:12]}"
    own_name = repository.name.casefold()
    runs = [
        run
        for run in _runs(repository, branch.head_sha)
        if run.head_repository is not None and run.head_repository.casefold() == own_name
    ]
    finished = [run for run in runs if run.status == "completed" and run.conclusion in _FINISHED]
    if not finished:
        going = any(run.status != "completed" for run in runs)
        raise ResultMissing(
            subject=commit,
            fact="its gate has not come to an end yet"
            if going
            else f"no gate of it ({WORKFLOW}) came to an end",
            expectation="What the gate of this very commit has kept is blessed, and nothing is measured for it",
            next_step="Wait for it, then ask again."
            if going
            else f"Let {WORKFLOW} run on the branch, then ask again.",
        )
    if asked_at is not None and min(run.created_at for run in runs) > asked_at:
        raise BlessRefused(
            subject=commit,
            fact="it was pushed after the comment was written",
            expectation="What is blessed is what there was to look at",
            next_step="Look at it, then comment anew.",
        )
    newest = finished[0]
    artifacts = _kept_artifacts(repository, newest, commit)
    own: dict[tuple[str, str], Result] = {}
    for artifact in artifacts:
        for result in _results(repository, artifact, branch.head_sha):
            key = result.machine.slug, result.workload.id
            if key in own:
                raise BlessRefused(
                    subject=result.workload.id,
                    fact=f"the gate has kept two results of it on {result.machine.gpu_name}",
                    expectation="Which of them is meant cannot be told",
                    next_step="Let each workload be in one shard and one gate of a machine only.",
                )
            own[key] = result
    found = {key: [result] for key, result in own.items()}
    for run in finished[1:]:
        if all(sum(len(one.runs) for one in results) >= FEWEST_RUNS for results in found.values()):
            break
        try:
            older = _kept_artifacts(repository, run, commit)
        except ResultMissing:
            continue
        for result in (
            one for artifact in older for one in _results(repository, artifact, branch.head_sha)
        ):
            if (key := (result.machine.slug, result.workload.id)) in found:
                found[key].append(result)
    return Kept(run=newest, results=found)


def _runs(repository: Repository, head_sha: str) -> list[Run]:
    """The runs of a commit's gate in both workflows, newest first."""
    runs = [*repository.runs(WORKFLOW, head_sha)]
    with suppress(
        GitHubRefused
    ):  # it has no such workflow: whoever may read the one may read the other
        runs += repository.runs(APPROVED, head_sha)
    return sorted(runs, key=lambda run: (run.created_at, run.id), reverse=True)


def _kept_artifacts(repository: Repository, run: Run, commit: str) -> list[Artifact]:
    """The artifacts with kept results, of each name the newest."""
    by_name: dict[str, Artifact] = {}
    for artifact in repository.artifacts(run.id):
        if artifact.name.startswith(KEPT):
            by_name.setdefault(artifact.name, artifact)
    if not by_name or any(artifact.expired for artifact in by_name.values()):
        raise ResultMissing(
            subject=commit,
            fact="what its gate has kept has expired" if by_name else "its gate has kept no result",
            expectation=f"It is uploaded as {KEPT}..., by perfgate's action",
            next_step="Let the gate run again on the branch, then ask again.",
        )
    if len(by_name) > MOST_ARTIFACTS:
        raise ArtifactUnreadable(
            subject=commit,
            fact=f"its gate has {len(by_name)} artifacts {KEPT}...",
            expectation=f"At most {MOST_ARTIFACTS} are read",
            next_step="Bless at a desk.",
        )
    return [by_name[one] for one in sorted(by_name)]


def _results(repository: Repository, artifact: Artifact, head_sha: str) -> list[Result]:
    content = repository.download(artifact, limit_bytes=LIMITS.packed_bytes)
    what = f"artifact {inert(artifact.name, longest=80)}"
    members = unpacked(content, lambda _: True, what=what, limits=LIMITS)
    return [
        read_result(path, raw, artifact.name, head_sha) for path, raw in sorted(members.items())
    ]


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
    told = PurePosixPath(inert(where), inert(path, longest=200))
    if place is None or len(raw) > LARGEST_RESULT:
        raise ResultUnreadable(
            subject=str(told),
            fact="this is no place of a kept result"
            if place is None
            else f"it has {len(raw):,} bytes",
            expectation="Expected are results/<machine>/<workload>/<time>/result.json, of a few hundred KB",
            next_step="See what the gate's job has uploaded.",
        )
    result = Store(Path(), ".").results.parse(raw, Path(told))
    if not result.workload.id.isprintable() or len(result.workload.id) > LONGEST_ID:
        raise ResultUnreadable(
            subject=str(told),
            fact=f"the workload in it is called {inert(result.workload.id)}",
            expectation=f"From CI, a name is one line of at most {LONGEST_ID} characters that can be seen",
            next_step="Rename the workload, or bless at a desk.",
        )
    if place.groups() != (file_name(result.machine.slug), file_name(result.workload.id)):
        raise ResultUnreadable(
            subject=str(told),
            fact=f"the result in it is that of {inert(result.workload.id)} on {inert(result.machine.gpu_name)}",
            expectation="A result lies in the folder of its machine and workload",
            next_step="See what the gate's job has uploaded.",
        )
    if result.commit is None or result.commit.sha != head_sha or result.commit.dirty:
        of = "no commit" if result.commit is None else f"commit {inert(result.commit.sha[:12])}"
        changed = (
            ", with changes that it does not hold"
            if result.commit is not None and result.commit.dirty
            else ""
        )
        raise BlessRefused(
            subject=result.workload.id,
            fact=f"the kept result is of {of}{changed}",
            expectation=f"It should be of {head_sha[:12]}, and of nothing else",
            next_step="See the gate's log: its checkout should be the head commit, and clean.",
        )
    return result


def runner_of(repository: Repository, run_id: int) -> str | None:
    """Return where a run's gates ran; None where GitHub does not say, which is no reason to refuse."""
    try:
        runners = repository.runners(run_id)
    except GitHubRefused:
        return None
    return ", ".join(inert(runner) for runner in runners[:3]) or None
