"""What the gate of one commit has kept, that commit next to it, and the commit that blesses it: the
first two are data, which is read and never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Final

from github import InputGitTreeElement
from github.Repository import Repository
from github.WorkflowRun import WorkflowRun

from perfgate.bless import bless as blessing
from perfgate.github.approval import APPROVED, GATE, file_of, name_of
from perfgate.github.artifacts import download, newest_of, unpacked
from perfgate.model.baseline import Baseline, Blessing, Commit, Result
from perfgate.model.errors import BlessRefused, ResultMissing
from perfgate.model.pyproject import load_settings
from perfgate.model.settings import Settings
from perfgate.model.verdict import MetricVerdict
from perfgate.store import RESULT_FILE, Store, baseline_text, file_name
from perfgate.system import git

KEPT: Final = "kept-"
"""How the names of artifacts begin that hold kept results."""
FINISHED: Final = ("success", "failure")
"""How a run concludes that came to a verdict; others were cancelled, or skipped for want of an
approval."""
LONGEST_SUBJECT: Final = 72
"""Characters of the first line of a commit's message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkout:
    """The project as it is in the commit that was measured."""

    settings: Settings
    store: Store
    prefix: PurePath
    """Where it lies in its repository."""

    def path_in_tree(self, baseline: Baseline) -> str:
        """Return where a baseline lies, POSIX and from the top of the repository."""
        place = self.store.baselines.path(baseline.machine.slug, baseline.workload)
        return (self.prefix / place.relative_to(self.store.root)).as_posix()


def checkout(root: Path, head_sha: str, *, env: Mapping[str, str]) -> Checkout:
    """Return the project at `root`, which has to be the commit that is asked about, unchanged.

    Raises:
        ConfigInvalid: its settings are not accepted.
        BlessRefused: another commit is checked out, or something was changed.
        RepositoryUnreadable: git does not answer.
    """
    settings = load_settings(root, {})
    commit = git.require_commit(root, env=env, baselines=settings.baselines)
    if commit.sha != head_sha or commit.dirty:
        raise BlessRefused("checkout-elsewhere", commit=commit.sha[:12], expected=head_sha[:12])
    store, prefix = Store(root, settings.baselines), git.prefix(root, env=env)
    return Checkout(settings=settings, store=store, prefix=prefix)


# The results


def gate_of(repository: Repository, head_sha: str, *, asked_at: datetime | None) -> WorkflowRun:
    """Return the newest finished gate of a commit.

    A fork can hold the commit too, and its pull request starts runs of its own: they are a
    stranger's, and are not looked at.

    Args:
        repository: whom to ask.
        head_sha: the commit.
        asked_at: when a comment asked; a commit whose first gate began later is not what was looked
            at.

    Raises:
        BlessRefused: the commit came after the comment.
        ResultMissing: no gate of this commit came to an end.
    """
    own = [
        run
        for run in repository.get_workflow_runs(head_sha=head_sha)
        if file_of(run) in {GATE, APPROVED} and name_of(run.head_repository) == name_of(repository)
    ]
    own.sort(key=lambda run: (run.created_at, run.id))
    finished = [run for run in own if run.conclusion in FINISHED]
    if not finished:
        raise ResultMissing("gate-never-ended", commit=head_sha[:12], workflow=GATE)
    if asked_at is not None and own[0].created_at > asked_at:
        raise BlessRefused("commit-after-comment", commit=head_sha[:12])
    return finished[-1]


def kept_by(run: WorkflowRun, head_sha: str) -> list[list[Result]]:
    """Download what a run has kept of a commit: the results of each workload on each machine,
    newest first.

    Raises:
        ResultMissing: it has kept nothing, or that has expired.
        BlessRefused: a result is of another commit, or of files that were changed in it.
        ResultUnreadable, ArtifactUnreadable: one cannot be read.
    """
    groups: dict[tuple[str, str], list[Result]] = {}
    for name, artifact in newest_of(run).items():
        if not name.startswith(KEPT):
            continue
        for path, raw in unpacked(download(artifact), RESULT_FILE, artifact=name).items():
            result = Store(Path(), ".").results.parse(raw, Path(name, path))
            commit = result.commit
            if commit is None or commit.sha != head_sha or commit.dirty:
                raise BlessRefused(
                    "kept-of-another-commit",
                    workload=result.workload.id,
                    commit="no commit" if commit is None else commit.sha[:12],
                    expected=head_sha[:12],
                )
            groups.setdefault((result.machine.slug, result.workload.id), []).append(result)
    if not groups:
        raise ResultMissing("kept-nothing", commit=head_sha[:12], artifact=KEPT)
    return [
        sorted(results, key=lambda one: one.measured_at, reverse=True)
        for _, results in sorted(groups.items())
    ]


# The commit


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """One baseline that is to be committed."""

    old: Baseline | None
    new: Baseline
    path: str

    @property
    def changes(self) -> Sequence[MetricVerdict]:
        """What becomes of its values."""
        return blessing.differences(self.old, self.new)


def blessed_by(by: str, run: WorkflowRun, reason: str, head_sha: str) -> Blessing:
    """What a baseline says of where it comes from: who asked now, and which run measured it."""
    return Blessing(
        by=by,
        at=datetime.now(UTC),
        reason=reason,
        commit=Commit(sha=head_sha),
        run_url=run.html_url,
    )


def commit(
    repository: Repository, planned: Sequence[Planned], *, onto: str, blessed: Blessing
) -> str:
    """Commit baselines on top of a commit, that no branch is at yet; return the SHA.

    Raises:
        GitHubRefused: the token may not commit there.
    """
    parent = repository.get_git_commit(onto)
    entries = [
        InputGitTreeElement(one.path, "100644", "blob", content=baseline_text(one.new))
        for one in planned
    ]
    tree = repository.create_git_tree(entries, parent.tree)
    message = commit_message([one.new.workload for one in planned], blessed)
    return repository.create_git_commit(message, tree, [parent]).sha


def commit_message(workloads: Sequence[str], blessed: Blessing) -> str:
    """Return a commit's message: what was blessed, the reason in quotation marks on a line of its
    own, and where it comes from as trailers."""
    names = {file_name(workload) for workload in workloads}
    subject = f"bless: {names.pop() if len(names) == 1 else f'{len(names)} workloads'}"
    reason = " ".join(blessed.reason.split())
    trailers = f"Perfgate-Run: {blessed.run_url}\nBlessed-by: {blessed.by}\n"
    return f'{subject[:LONGEST_SUBJECT]}\n\n"{reason}"\n\n{trailers}'
