"""The comment on a pull request: what its gate found, or that the run left nothing to be trusted.

The run's artifact comes from the code of the pull request, which may be a stranger's. It is read as
data and shown as text; which pull request, run and commit it belongs to is taken from GitHub's
event alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from github.Artifact import Artifact
from github.IssueComment import IssueComment
from github.PullRequest import PullRequest
from github.Repository import Repository
from github.WorkflowRun import WorkflowRun

from perfgate.github.api import LONGEST_COMMENT, download
from perfgate.github.approval import APPROVED, file_of, name_of, why_fallen
from perfgate.github.context import Context, is_sha
from perfgate.github.touched import Touched, touched
from perfgate.github.untrusted import LARGEST, read_untrusted
from perfgate.model.document import GateDocument
from perfgate.model.errors import ActionsContextMissing, ArtifactUnreadable, GitHubRefused
from perfgate.model.note import Note, note
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.model.workflows import APPROVAL, ARTIFACT
from perfgate.render.markdown import gate_markdown, name, prose
from perfgate.words.say import Coded, fact, message

AUTHOR: Final = "github-actions[bot]"
"""Whose comments a workflow's own token writes."""
MOST_NAMES: Final = 10
"""Of files of the pull request that belong to what judges it."""

_MARKER: Final = re.compile(
    r"<!-- perfgate run=([1-9][0-9]{0,18}) attempt=([1-9][0-9]{0,8}) "
    r"commit=([0-9a-f]{40,64}) result=(yes|no|not-run) -->"
)
_NOT_RUN: Final = "action_required"
"""The conclusion of a run of which no job ran, because GitHub's own settings ask for an approval.
"""


_NOTHING: Final = note("run-left-nothing")


class Left(StrEnum):
    """What a run left, as the mark of a comment has it."""

    RESULT = "yes"
    NONE = "no"
    NOT_RUN = "not-run"
    """No gate of it ran, so that it takes nothing from another run, be it older."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The hidden first line of a comment: of which run it is."""

    run: int
    attempt: int
    commit: str
    left: Left

    @classmethod
    def read(cls, body: str) -> Mark | None:
        """The mark that a comment begins with. Anywhere else it may be a quotation."""
        found = _MARKER.match(body)
        if found is None:
            return None
        run, attempt, commit, left = found.groups()
        return cls(run=int(run), attempt=int(attempt), commit=commit, left=Left(left))

    @property
    def text(self) -> str:
        """As it is written."""
        return (
            f"<!-- perfgate run={self.run:d} attempt={self.attempt:d} "
            f"commit={self.commit} result={self.left} -->"
        )

    def is_kept_from(self, other: Mark) -> str | None:
        """The code of why a comment with this mark gives no way to the other run's; None where it
        does."""
        of_this_commit = other.left is Left.NOT_RUN and other.commit == self.commit
        if (other.run, other.attempt) < (self.run, self.attempt) and not (
            self.left is Left.NOT_RUN and other.commit == self.commit
        ):
            return "comment-newer"
        # Of a fork's commit that was approved, reopening starts another run that waits: it takes
        # nothing away.
        return "comment-kept" if of_this_commit else None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunToShow:
    """The result of a run: a document to be shown, or why there is none."""

    document: GateDocument | None = None
    artifact: Artifact | None = None
    waits: bool = False
    """Whether no gate of the run ran, for want of a maintainer's approval."""
    why_not: Coded = _NOTHING

    @property
    def left(self) -> Left:
        """What the comment's mark says of it."""
        if self.waits:
            return Left.NOT_RUN
        return Left.NONE if self.document is None else Left.RESULT


def comment(
    repository: Repository,
    context: Context,
    *,
    settings: Settings,
    artifact: str = ARTIFACT,
    author: str = AUTHOR,
) -> tuple[Note, ...]:
    """Write what the run of a `workflow_run` event found into the comment of its pull request.

    One comment a pull request, known by its mark and its author; the oldest such is edited. None
    where no open pull request has the run's commit as its head: a push to a branch, or a head that
    has moved on. None of a run that was skipped, either: a label of another kind started it, and
    there is nothing to say. `settings` are those of the default branch.

    Raises:
        ActionsContextMissing: the event is another.
        GitHubRefused, GitHubUnreachable: GitHub says no, or does not answer.
    """
    run = _finished_run(repository, context)
    pulls = [] if run.conclusion == "skipped" else _pull_requests(repository, run)
    if not pulls:
        return ()
    found = _result(repository, run, artifact, context.cleaner)
    return tuple(
        _comment_on(
            context,
            run,
            pull,
            found,
            ours=_ours(pull, author),
            head=_head(repository, run, pull, settings),
        )
        for pull in pulls
    )


def _finished_run(repository: Repository, context: Context) -> WorkflowRun:
    """The run that the event is about."""
    if context.event_name != "workflow_run":
        raise ActionsContextMissing("comment-event-wanted", event=context.event_name)
    event = context.event()
    sent = event.get("workflow_run")
    if event.get("action") != "completed" or not isinstance(sent, dict):
        raise ActionsContextMissing(
            "event-odd", event="workflow_run", reason="no completed run is in it"
        )
    run = WorkflowRun(repository.requester, {}, sent, completed=True)
    if not is_sha(run.head_sha):
        raise ActionsContextMissing(
            "event-odd", event="workflow_run", reason="head_sha is no commit"
        )
    return run


def _pull_requests(repository: Repository, run: WorkflowRun) -> list[PullRequest]:
    """Whose head is the run's commit. The event's own list is empty for forks, and the artifact's
    word is none."""
    whose = name_of(run.head_repository)
    if not whose or not run.head_branch:
        return []
    head = f"{run.head_repository.owner.login}:{run.head_branch}"
    # GitHub answers with all pull requests where it does not understand the filter.
    found = [
        pull
        for pull in repository.get_pulls(state="open", head=head)
        if (pull.head.sha, pull.head.ref) == (run.head_sha, run.head_branch)
        and name_of(pull.head.repo) == whose
    ]
    return sorted(found, key=lambda pull: pull.number)


def _result(
    repository: Repository, run: WorkflowRun, name_of_artifact: str, cleaner: Cleaner
) -> RunToShow:
    if run.conclusion == _NOT_RUN:
        return RunToShow(why_not=note("run-without-job"), waits=True)
    artifacts = list(run.get_artifacts())
    named = [one for one in artifacts if one.name == name_of_artifact]
    if not named and run.conclusion == "success" and not artifacts:
        return RunToShow(why_not=note("run-measured-nothing"))
    if not named:
        # A gate that ran leaves something, and of a fork none runs but by the label.
        is_fork = name_of(run.head_repository) != name_of(repository)
        ran = run.conclusion != "failure" or bool(artifacts) or file_of(run) == APPROVED
        return RunToShow(waits=is_fork and not ran)
    newest = max(named, key=lambda one: one.id)
    if newest.expired:
        return RunToShow(why_not=note("artifact-expired", artifact=newest.name))
    try:
        content = download(newest, limit_bytes=LARGEST)
        document = read_untrusted(content, run.head_sha, artifact=newest.name)
    except ArtifactUnreadable as error:
        return RunToShow(why_not=error)
    # Here: Markdown parts what a secret is made of.
    return RunToShow(document=cleaner.record(document), artifact=newest)


def _comment_on(
    context: Context,
    run: WorkflowRun,
    pull: PullRequest,
    found: RunToShow,
    *,
    ours: tuple[Mark, IssueComment] | None,
    head: Sequence[str],
) -> Note:
    mark = Mark(run=run.id, attempt=run.run_attempt, commit=run.head_sha, left=found.left)
    body = "\n".join((mark.text, *body_of(context, run, pull, found, head))) + "\n"
    if ours is None:
        return _done("comment-created", pull, pull.create_issue_comment(body))
    before, there = ours
    if (kept := before.is_kept_from(mark)) is not None:
        return _done(kept, pull, there)
    if there.body.replace("\r\n", "\n").strip() == body.strip():
        return _done("comment-unchanged", pull, there)
    there.edit(body)
    return _done("comment-edited", pull, there)


def _head(
    repository: Repository, run: WorkflowRun, pull: PullRequest, settings: Settings
) -> list[str]:
    """Lines that stand above the rest: what judges it and is changed, and what its label is worth."""
    changed = touched(repository, pull, run.head_sha, settings)
    return [*_touched_markdown(changed), *_label(repository, pull)]


def _done(code: str, pull: PullRequest, there: IssueComment) -> Note:
    return note(code, number=pull.number, url=there.html_url)


def _label(repository: Repository, pull: PullRequest) -> list[str]:
    """A line about the label that approves a commit, which is taken off where that is not the head."""
    if APPROVAL not in {label.name for label in pull.labels}:
        return []
    why = why_fallen(repository, pull)
    if why is None:
        return [f"The label `{APPROVAL}` approves commit `{pull.head.sha}`.", ""]
    lines = [f"The label `{APPROVAL}` does not approve this commit: {prose(fact(why))}.", ""]
    try:
        pull.remove_from_labels(APPROVAL)
    except GitHubRefused as refused:
        lines[0] += f" Taking it off failed: {prose(fact(refused))}."
    return lines


def _ours(pull: PullRequest, author: str) -> tuple[Mark, IssueComment] | None:
    """The oldest comment of ours. A stranger's that begins as ours do is not."""
    for one in pull.get_issue_comments():
        mark = Mark.read(one.body or "")
        login = getattr(one.user, "login", None)  # None: an user who is gone
        if mark is not None and login == author:
            return mark, one
    return None


def body_of(
    context: Context,
    run: WorkflowRun,
    pull: PullRequest,
    found: RunToShow,
    head: Sequence[str],
) -> list[str]:
    """The comment as lines of Markdown: all addresses are made of what GitHub says, all else is
    only text.

    `head` are lines that stand above the rest, each paragraph with its empty line.
    """
    page_of_run = context.page_of_run(run.id, run.run_attempt)
    page_of_commit = f"{context.page}/pull/{pull.number:d}/commits/{run.head_sha}"
    source = (
        f"Commit [`{run.head_sha[:12]}`]({page_of_commit}), "
        f"[run {run.id:d}, attempt {run.run_attempt:d}]({page_of_run}), "
        f"which ended as {name(run.conclusion)}."
    )
    document, artifact = found.document, found.artifact
    if document is None or artifact is None:
        why = f"{source} {prose(message(found.why_not))}"
        if found.waits and name_of(pull.head.repo) != name_of(pull.base.repo):
            why += f"\nA maintainer who has read the code starts the gate: label `{APPROVAL}`."
        return ["## perfgate: no result", "", *head, why]
    foot = [source]
    if document.opens_gate and run.conclusion != "success":
        foot.append("**The run itself did not succeed, whatever the gate says above.**")
    if artifact.created_at < run.run_started_at:
        foot.append("The result is of an earlier attempt of this run: the latest left none.")
    if document.commit is not None and document.commit.dirty:
        foot.append("There were uncommitted changes when it was measured.")
    page = f"{context.page_of_run(run.id)}/artifacts/{artifact.id:d}"
    whole = [gate_markdown(document, page=page).rstrip("\n"), "", *head, "---", "", *foot]
    # Characters beyond the first plane count as two: GitHub does not say how it counts.
    if len("\n".join(whole).encode("utf-16-le")) // 2 + 200 <= LONGEST_COMMENT:
        return whole
    state = "open" if document.opens_gate else "shut"
    short = f"The verdict is too long for a comment: [see the page]({page})."
    return [f"## perfgate: gate {state}", "", short, "", *head, *foot]


def _touched_markdown(found: Touched) -> list[str]:
    """A paragraph on what judges the pull request and is changed by it; nothing where that is
    nothing."""
    lines = []
    if found.paths:
        counts = ", ".join(f"{kind} ({count})" for kind, count in found.counts.items())
        names = ", ".join(name(path) for path in [*found.paths][:MOST_NAMES])
        left = len(found.paths) - MOST_NAMES
        more = f" and {left} more" if left > 0 else ""
        lines.append(f"**This pull request changes what judges it:** {counts}: {names}{more}.")
    if found.unknown is not None:
        why = prose(fact(found.unknown))
        lines.append(f"**It is not known whether it changes (more of) what judges it:** {why}.")
    return [*lines, ""] if lines else []
