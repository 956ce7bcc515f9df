"""A maintainer's approval by label: of the one commit that the label's own event names, once that
has been there.

Whoever labels has read what the page showed. A commit that came within minutes of the label may be
one that nobody has read, and every later one is.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from perfgate.github.context import Context, Payload, is_sha
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
        sha = self.pull_request.head.sha
        is_approval = (
            self.action == "labeled" and self.label is not None and self.label.name == APPROVAL
        )
        return sha if is_approval and is_sha(sha) else None

    @property
    def pushed_just_before(self) -> bool:
        """Whether anything was pushed to the head's repository within minutes of this event, or
        after it."""
        pull = self.pull_request
        pushed = None if pull.head.repo is None else pull.head.repo.pushed_at
        return (
            pushed is not None
            and pull.updated_at is not None
            and pull.updated_at - pushed < SETTLED
        )


def admit(context: Context) -> Note:
    """Return why the job may run on a self-hosted runner, by its event alone.

    It is asked before the job, of what no pull request can edit: the workflow of a pull request is
    the pull request's own, and so is every `if` in it. What a runner asks for itself
    (ACTIONS_RUNNER_HOOK_JOB_STARTED) is not.

    Raises:
        JobNotAdmitted: it is a fork's that nobody has approved, or of an event that is not known to
        be harmless. ActionsContextMissing: it is no job, or its event is not as GitHub sends it.
    """
    kind, ours = context.event_name, context.repository
    if kind in OWN_EVENTS:
        return note("admitted-event", event=kind, repository=ours)
    if kind != "pull_request":
        # Among them pull_request_review and its like, by which a fork's workflow can be started as
        # well.
        known = ("pull_request", *sorted(OWN_EVENTS))
        raise JobNotAdmitted("event-not-admitted", event=kind, known=known)
    event = context.event_as(LabelEvent)
    pull = event.pull_request
    fork = None if pull.head.repo is None else pull.head.repo.full_name
    number, sha = pull.number, pull.head.sha
    if fork is not None and fork.casefold() == ours.casefold():
        return note("admitted-branch", number=number, commit=sha, repository=ours)
    if event.approved is not None and not event.pushed_just_before:
        return note("admitted-approved", number=number, commit=sha, label=APPROVAL)
    raise JobNotAdmitted(
        "fork-not-approved" if event.approved is None else "fork-pushed-just-before",
        number=number,
        commit=sha,
        label=APPROVAL,
        fork=fork or "a fork that is gone",
        minutes=SETTLED.seconds // 60,
    )


def labelled_head(context: Context) -> str | None:
    """The commit that the job's own event approves; None where it is another event.

    Raises:
        ActionsContextMissing: it is no job, or its event is not as GitHub sends it.
    """
    is_pull = context.event_name == "pull_request"
    return context.event_as(LabelEvent).approved if is_pull else None


def approve(repository: Repository, context: Context) -> str:
    """Return the commit that the job's label approves, by what GitHub itself knows of it.

    Raises:
        JobNotAdmitted: it came too late before the label, or is the head no more.
        ActionsContextMissing: the event is another.
        GitHubRefused, GitHubUnreachable: GitHub says no, or does not answer.
    """
    sha = labelled_head(context)
    if sha is None:
        raise ActionsContextMissing("approval-event-wanted", label=APPROVAL)
    pull = repository.get_pull(context.event_as(LabelEvent).pull_request.number)
    labelled_at = repository.get_workflow_run(context.run_id).created_at
    why = _why_not(repository, pull, sha, at=labelled_at)
    if why is not None:
        raise JobNotAdmitted(
            "label-approves-nothing",
            commit=sha,
            number=pull.number,
            label=APPROVAL,
            minutes=SETTLED.seconds // 60,
            why=why,
        )
    return sha


def why_fallen(repository: Repository, pull: PullRequest) -> Note | None:
    """Why the label that a pull request bears does not approve its head; None where it does."""
    sha = pull.head.sha
    labelled = [
        run
        for run in repository.get_workflow_runs(head_sha=sha)
        if file_of(run) == APPROVED and run.conclusion != "skipped"
    ]
    whys = [_why_not(repository, pull, sha, at=run.created_at) for run in labelled]
    return None if None in whys else next(iter(whys), note("label-of-another-commit"))


def name_of(repository: Repository | None) -> str:
    """`owner/name` in small letters; empty of a fork that was deleted."""
    return "" if repository is None else repository.full_name.casefold()


def file_of(run: WorkflowRun) -> str:
    """The file of a run's workflow, by name: `perfgate.yml`."""
    return PurePosixPath(run.path.partition("@")[0]).name


def _why_not(repository: Repository, pull: PullRequest, sha: str, *, at: datetime) -> Note | None:
    """Why a label of this moment does not approve a commit; None where it does.

    GitHub starts a run for each push to a pull request, at its own time: a commit that is pushed
    once more, after another one, has a new one.
    """
    if pull.head.sha != sha:
        return note("head-moved-on", commit=pull.head.sha)
    runs = [
        run
        for run in repository.get_workflow_runs(head_sha=sha, event="pull_request")
        if run.event == "pull_request"
        and run.head_branch == pull.head.ref
        and name_of(run.head_repository) == name_of(pull.head.repo)
    ]
    # The first of any workflow, and every push of it: what a label of any kind starts later is
    # neither.
    first = sorted(run.created_at for run in runs if file_of(run) != APPROVED)[:1]
    seen = [*first, *(run.created_at for run in runs if file_of(run) == GATE)]
    if not seen:
        return note("head-never-seen")
    if at - max(seen) < SETTLED:
        return note("head-too-young", seen=f"{max(seen):%H:%M:%S}", labelled=f"{at:%H:%M:%S}")
    return None
