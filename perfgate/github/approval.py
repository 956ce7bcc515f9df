"""A maintainer's approval by label: of the one commit that the label's own event names, once that has been there.

Whoever labels has read what the page showed. A commit that came within minutes of the label may be one that nobody has
read, and every later one is.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from perfgate.github.context import Context, Payload, is_sha
from perfgate.model.errors import ActionsContextMissing, JobNotAdmitted
from perfgate.model.workflows import APPROVAL
from perfgate.render.page import inert

if TYPE_CHECKING:
    from perfgate.github.api import PullRequest, Repository, Run

SETTLED: Final = timedelta(minutes=5)
"""How long a commit has to have been the head before the label, by GitHub's clock."""
GATE: Final = "perfgate.yml"
"""The workflow that every push to a pull request starts."""
APPROVED: Final = "perfgate-approved.yml"
"""The one that labels start."""


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
    def is_approval(self) -> bool:
        """Whether it is the label that approves."""
        return self.action == "labeled" and self.label is not None and self.label.name == APPROVAL

    @property
    def pushed_just_before(self) -> bool:
        """Whether anything was pushed to the head's repository within minutes of this event, or after it."""
        pull = self.pull_request
        pushed = None if pull.head.repo is None else pull.head.repo.pushed_at
        return (
            pushed is not None
            and pull.updated_at is not None
            and pull.updated_at - pushed < SETTLED
        )


def labelled_head(context: Context) -> str | None:
    """The commit that the job's own event approves; None where it is another event.

    Raises:
        ActionsContextMissing: it is no job, or its event is not as GitHub sends it.
    """
    if context.event_name != "pull_request":
        return None
    event = context.event_as(LabelEvent)
    sha = event.pull_request.head.sha
    return sha if event.is_approval and is_sha(sha) else None


def approve(repository: Repository, context: Context) -> str:
    """Return the commit that the job's label approves, by what GitHub itself knows of it.

    Raises:
        JobNotAdmitted: it came too late before the label, or is the head no more.
        ActionsContextMissing: the event is another.
        GitHubRefused: GitHub says no.
        GitHubUnreachable: GitHub does not answer.
    """
    sha = labelled_head(context)
    if sha is None:
        raise ActionsContextMissing(
            subject="perfgate github approval",
            fact=f"its event is not the label {APPROVAL} on a pull request",
            expectation="It says whether that approves a commit",
            next_step="Call it in a workflow with on: {pull_request: {types: [labeled]}}",
        )
    pull = repository.pull_request(context.event_as(LabelEvent).pull_request.number)
    why = why_not(repository, pull, sha, at=repository.run(context.run_id).created_at)
    if why:
        raise JobNotAdmitted(
            subject=f"commit {sha} of pull request {pull.number}",
            fact=why,
            expectation=f"The label {APPROVAL} approves the one commit that was read, and takes effect only where it "
            f"had been the head for {SETTLED.seconds // 60} minutes",
            next_step=f"Read the commit that is the head now, and add the label {APPROVAL} again.",
        )
    return sha


def why_not(repository: Repository, pull: PullRequest, sha: str, *, at: datetime) -> str:
    """Why a label of this moment does not approve a commit, in a clause; empty where it does.

    GitHub starts a run for each push to a pull request, at its own time: a commit that is pushed once more, after
    another one, has a new one.
    """
    if pull.head_sha != sha:
        return f"the head is {inert(pull.head_sha)} by now"
    whose = (pull.head_branch, (pull.head_repository or "").casefold())
    runs = [
        run
        for run in repository.runs_for(sha)
        if run.event == "pull_request"
        and (run.head_branch, (run.head_repository or "").casefold()) == whose
    ]
    pushes = [run for run in runs if run.file == GATE]
    # The first of any workflow, and every push of it: what a label of any kind starts later is neither.
    counted = [*pushes, *sorted((run for run in runs if run.file != APPROVED), key=_created)[:1]]
    if not counted:
        return "GitHub knows no run of it before the label"
    late = max(counted, key=_created)
    if at - late.created_at < SETTLED:
        return f"GitHub saw it as the head at {late.created_at:%H:%M:%S}, and the label at {at:%H:%M:%S} UTC"
    return ""


def _created(run: Run) -> datetime:
    return run.created_at


def why_fallen(repository: Repository, pull: PullRequest) -> str:
    """Why the label that a pull request bears does not approve its head, in a clause; empty where it does."""
    labelled = [
        run
        for run in repository.runs_for(pull.head_sha)
        if run.file == APPROVED and run.conclusion != "skipped"
    ]
    whys = [why_not(repository, pull, pull.head_sha, at=run.created_at) for run in labelled]
    return "" if "" in whys else whys[0] if whys else "it was given to another commit"
