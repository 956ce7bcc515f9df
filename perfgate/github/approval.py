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

from perfgate.github.context import Payload, at, event_as, variable
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


class LabelEvent(Payload):
    """The event `pull_request`, as far as it concerns an approval."""

    action: str
    label: str | None = at("label.name", default=None)
    number: int = at("pull_request.number")
    sha: str = at("pull_request.head.sha")
    fork: str = at("pull_request.head.repo.full_name", default="a fork that is gone")
    """The head's repository."""
    pushed_at: datetime | None = at("pull_request.head.repo.pushed_at", default=None)
    updated_at: datetime | None = at("pull_request.updated_at", default=None)

    @property
    def approves(self) -> bool:
        """Whether it is the label that approves the head, and no other."""
        return (self.action, self.label) == ("labeled", APPROVAL)

    @property
    def pushed_just_before(self) -> bool:
        """Whether anything was pushed to the head's repository within minutes of this event, or
        after it."""
        pushed, now = self.pushed_at, self.updated_at
        return bool(pushed and now and now - pushed < SETTLED)


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
    if event.fork.casefold() == ours.casefold():
        return note("admitted", event=kind, repository=ours)
    if event.approves and not event.pushed_just_before:
        return note("label-approves", label=APPROVAL, commit=event.sha)
    raise JobNotAdmitted(
        "fork-not-approved",
        number=event.number,
        commit=event.sha,
        label=APPROVAL,
        fork=event.fork,
        minutes=SETTLED.seconds // 60,
    )


def labelled(env: Mapping[str, str]) -> LabelEvent | None:
    """The job's own event, if that is the approval of a commit.

    Raises:
        ActionsContextMissing: it is no job, or its event is not as GitHub sends it.
    """
    if variable(env, "GITHUB_EVENT_NAME") != "pull_request":
        return None
    event = event_as(env, LabelEvent)
    return event if event.approves else None


def approve(repository: Repository, env: Mapping[str, str]) -> str:
    """Return the commit that the job's label approves, by what GitHub itself knows of it.

    Raises:
        JobNotAdmitted: it came too late before the label, or is the head no more.
        ActionsContextMissing: the event is another.
        GitHubRefused, GitHubUnreachable: GitHub says no, or does not answer.
    """
    event = labelled(env)
    if event is None:
        raise ActionsContextMissing("approval-event-wanted", label=APPROVAL)
    pull = repository.get_pull(event.number)
    run = repository.get_workflow_run(int(variable(env, "GITHUB_RUN_ID")))
    if pull.head.sha != event.sha or not _was_settled(repository, pull, at=run.created_at):
        raise JobNotAdmitted(
            "label-approves-nothing",
            commit=event.sha,
            number=event.number,
            label=APPROVAL,
            minutes=SETTLED.seconds // 60,
        )
    return event.sha


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
