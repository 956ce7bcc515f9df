"""A maintainer's approval by label: of the one commit that the label's own event names, once that
has been there.

Whoever labels has read what the page showed. A commit that came within minutes of the label may be
one that nobody has read, and every later one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from perfgate.github.context import Payload, event_as, variable
from perfgate.model.errors import ActionsContextMissing, JobNotAdmitted
from perfgate.model.note import Note, note
from perfgate.model.options import APPROVAL

if TYPE_CHECKING:
    from github.PullRequest import PullRequest
    from github.Repository import Repository
    from github.WorkflowRun import WorkflowRun

SETTLED: Final = timedelta(minutes=5)
"""How long a commit has to have been the head before the label, by GitHub's clock."""
GATE: Final = "perfgate.yml"
"""The workflow that every push to a pull request starts."""
APPROVED: Final = "perfgate-approved.yml"
"""The one that labels start. A repository may not have it."""
OWN_EVENTS: Final = frozenset({"push", "schedule", "workflow_dispatch", "merge_group"})
"""Whose workflow and code are of a branch of the repository itself."""


class _Repo(Payload):
    full_name: str
    pushed_at: datetime | None = None


class _Head(Payload):
    sha: str
    repo: _Repo | None
    """None where the fork was deleted."""


class _Pull(Payload):
    number: int
    head: _Head
    updated_at: datetime | None = None


class _Label(Payload):
    name: str


class LabelEvent(Payload):
    """The event `pull_request`, as far as it concerns an approval."""

    action: str
    label: _Label | None = None
    pull_request: _Pull

    @property
    def approved(self) -> str | None:
        """The commit that its label approves; None where it is another label, or none."""
        is_approval = self.action == "labeled" and self.label == _Label(name=APPROVAL)
        return self.pull_request.head.sha if is_approval else None

    @property
    def pushed_just_before(self) -> bool:
        """Whether anything was pushed to the head's repository within minutes of this event, or
        after it."""
        pull = self.pull_request
        pushed = None if pull.head.repo is None else pull.head.repo.pushed_at
        at = pull.updated_at
        return pushed is not None and at is not None and at - pushed < SETTLED


def admit(env: Mapping[str, str]) -> Note:
    """Return why the job may run on a self-hosted runner, by its event alone.

    It is asked before the job, of what no pull request can edit: the workflow of a pull request is
    the pull request's own, and so is every `if` in it. What a runner asks for itself
    (ACTIONS_RUNNER_HOOK_JOB_STARTED) is not.

    Raises:
        JobNotAdmitted: it is a fork's that nobody has approved, or of an event that is not known to
        be harmless. ActionsContextMissing: it is no job, or its event is not as GitHub sends it.
    """
    kind, ours = variable(env, "GITHUB_EVENT_NAME"), variable(env, "GITHUB_REPOSITORY")
    if kind in OWN_EVENTS:
        return note("admitted", event=kind, repository=ours)
    if kind != "pull_request":
        # Among them pull_request_review and its like, by which a fork's workflow can be started as
        # well.
        known = ("pull_request", *sorted(OWN_EVENTS))
        raise JobNotAdmitted("event-not-admitted", event=kind, known=known)
    event = event_as(env, LabelEvent)
    number, head = event.pull_request.number, event.pull_request.head
    fork = "a fork that is gone" if head.repo is None else head.repo.full_name
    if fork.casefold() == ours.casefold():
        return note("admitted", event=kind, repository=ours)
    if event.approved is not None and not event.pushed_just_before:
        return note("label-approves", label=APPROVAL, commit=head.sha)
    raise JobNotAdmitted(
        "fork-not-approved",
        number=number,
        commit=head.sha,
        label=APPROVAL,
        fork=fork,
        minutes=SETTLED.seconds // 60,
    )


def labelled_head(env: Mapping[str, str]) -> str | None:
    """The commit that the job's own event approves; None where it is another event.

    Raises:
        ActionsContextMissing: it is no job, or its event is not as GitHub sends it.
    """
    is_pull = variable(env, "GITHUB_EVENT_NAME") == "pull_request"
    return event_as(env, LabelEvent).approved if is_pull else None


def approve(repository: Repository, env: Mapping[str, str]) -> str:
    """Return the commit that the job's label approves, by what GitHub itself knows of it.

    Raises:
        JobNotAdmitted: it came too late before the label, or is the head no more.
        ActionsContextMissing: the event is another.
        GitHubRefused, GitHubUnreachable: GitHub says no, or does not answer.
    """
    sha = labelled_head(env)
    if sha is None:
        raise ActionsContextMissing("approval-event-wanted", label=APPROVAL)
    pull = repository.get_pull(event_as(env, LabelEvent).pull_request.number)
    labelled = repository.get_workflow_run(int(variable(env, "GITHUB_RUN_ID")))
    if pull.head.sha != sha or not _was_settled(repository, pull, at=labelled.created_at):
        raise JobNotAdmitted(
            "label-approves-nothing",
            commit=sha,
            number=pull.number,
            label=APPROVAL,
            minutes=SETTLED.seconds // 60,
        )
    return sha


def is_approved(repository: Repository, pull: PullRequest) -> bool:
    """Whether the label that a pull request bears approves its head."""
    return any(
        _was_settled(repository, pull, at=run.created_at)
        for run in repository.get_workflow_runs(head_sha=pull.head.sha)
        if file_of(run) == APPROVED and run.conclusion != "skipped"
    )


def _was_settled(repository: Repository, pull: PullRequest, *, at: datetime) -> bool:
    """Whether the head had been there for a while at the moment of a label.

    GitHub starts a run for each push to a pull request, at its own time: a commit that is pushed
    once more, after another one, has a new one.
    """
    runs = [
        run
        for run in repository.get_workflow_runs(head_sha=pull.head.sha, event="pull_request")
        if run.event == "pull_request"
        and run.head_branch == pull.head.ref
        and name_of(run.head_repository) == name_of(pull.head.repo)
    ]
    # The first of any workflow, and every push of it: what a label of any kind starts later is
    # neither.
    first = sorted(run.created_at for run in runs if file_of(run) != APPROVED)[:1]
    seen = [*first, *(run.created_at for run in runs if file_of(run) == GATE)]
    return bool(seen) and at - max(seen) >= SETTLED


def name_of(repository: Repository | None) -> str:
    """`owner/name` in small letters; empty of a fork that was deleted."""
    return "" if repository is None else repository.full_name.casefold()


def file_of(run: WorkflowRun) -> str:
    """The file of a run's workflow, by name: `perfgate.yml`."""
    return PurePosixPath(run.path.partition("@")[0]).name
