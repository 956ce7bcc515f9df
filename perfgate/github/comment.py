"""The comment on a pull request: what its gate found, or that the run left nothing to be trusted.

The run's artifact comes from the code of the pull request, which may be a stranger's. It is read as
data and shown as text; which pull request, run and commit it belongs to is taken from GitHub's
event alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final, Literal

from github.Artifact import Artifact
from github.IssueComment import IssueComment
from github.PullRequest import PullRequest
from github.Repository import Repository
from github.WorkflowRun import WorkflowRun

from perfgate.github.api import LONGEST_COMMENT, MOST_CHANGED_FILES, download
from perfgate.github.approval import APPROVED, file_of, name_of, why_fallen
from perfgate.github.artifacts import LARGEST, read_untrusted
from perfgate.github.context import Context, Payload, is_sha
from perfgate.model.document import GateDocument
from perfgate.model.errors import (
    ActionsContextMissing,
    ArtifactUnreadable,
    GitHubRefused,
    GitHubUnreachable,
)
from perfgate.model.note import Note, note, noted
from perfgate.model.options import APPROVAL, ARTIFACT
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.render.markdown import filled, gate_markdown
from perfgate.words.say import Coded

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
_FILES: Final = frozenset(
    {
        *("pyproject.toml", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"),
        *("tox.ini", "setup.cfg", "conftest.py"),
    }
)
"""Files in which pytest looks for its configuration and hooks, or perfgate for its settings."""


class _Finished(Payload):
    action: Literal["completed"]
    workflow_run: Mapping[str, object]


class Left(StrEnum):
    """What a run left, as the mark of a comment has it."""

    RESULT = "yes"
    NONE = "no"
    NOT_RUN = "not-run"
    """No gate of it ran, for want of an approval: it takes nothing from another, older run."""


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
        is_same = other.commit == self.commit
        is_older = (other.run, other.attempt) < (self.run, self.attempt)
        if is_older and not (is_same and self.left is Left.NOT_RUN):
            return "comment-newer"
        # Of a fork's commit that was approved, reopening starts another run that waits: it takes
        # nothing away.
        return "comment-kept" if is_same and other.left is Left.NOT_RUN else None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunToShow:
    """The result of a run: a document to be shown, or why there is none."""

    document: GateDocument | None = None
    artifact: Artifact | None = None
    left: Left = Left.NONE
    """What the comment's mark says of it."""
    why_not: Coded = _NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class Touched:
    """What a pull request changes of what judges it. Names are a stranger's."""

    paths: tuple[str, ...] = ()
    """A rename is both of its paths."""
    unknown: Coded | None = None
    """Why there may be others."""


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
    done = []
    for pull in pulls:
        ours = _ours(pull, author)
        changed = touched(repository, pull, run.head_sha, settings)
        label = _label(repository, pull)
        mark = Mark(run=run.id, attempt=run.run_attempt, commit=run.head_sha, left=found.left)
        body = f"{mark.text}\n{body_of(context, run, pull, found, changed, label)}"
        done.append(_written(pull, ours, mark, body))
    return tuple(done)


def _finished_run(repository: Repository, context: Context) -> WorkflowRun:
    """The run that the event is about."""
    if context.event_name != "workflow_run":
        raise ActionsContextMissing("comment-event-wanted", event=context.event_name)
    sent = context.event_as(_Finished).workflow_run
    run = WorkflowRun(repository.requester, {}, dict(sent), completed=True)
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
        return RunToShow(why_not=note("run-without-job"), left=Left.NOT_RUN)
    artifacts = list(run.get_artifacts())
    named = [one for one in artifacts if one.name == name_of_artifact]
    if not named and run.conclusion == "success" and not artifacts:
        return RunToShow(why_not=note("run-measured-nothing"))
    if not named:
        # A gate that ran leaves something, and of a fork none runs but by the label.
        is_fork = name_of(run.head_repository) != name_of(repository)
        ran = run.conclusion != "failure" or bool(artifacts) or file_of(run) == APPROVED
        return RunToShow(left=Left.NOT_RUN if is_fork and not ran else Left.NONE)
    newest = max(named, key=lambda one: one.id)
    if newest.expired:
        return RunToShow(why_not=note("artifact-expired", artifact=newest.name))
    try:
        content = download(newest, limit_bytes=LARGEST)
        document = read_untrusted(content, run.head_sha, artifact=newest.name)
    except ArtifactUnreadable as error:
        return RunToShow(why_not=error)
    # Here: Markdown parts what a secret is made of.
    clean = cleaner.record(document)
    return RunToShow(document=clean, artifact=newest, left=Left.RESULT)


def _ours(pull: PullRequest, author: str) -> tuple[Mark, IssueComment] | None:
    """The oldest comment of ours. A stranger's that begins as ours do is not."""
    for one in pull.get_issue_comments():
        mark = Mark.read(one.body or "")
        login = getattr(one.user, "login", None)  # None: an user who is gone
        if mark is not None and login == author:
            return mark, one
    return None


def _written(
    pull: PullRequest, ours: tuple[Mark, IssueComment] | None, mark: Mark, body: str
) -> Note:
    """Write the comment, or leave the one that is there; say what was done."""
    if ours is None:
        code, there = "comment-created", pull.create_issue_comment(body)
    else:
        before, there = ours
        is_same = there.body.replace("\r\n", "\n").strip() == body.strip()
        code = before.is_kept_from(mark) or ("comment-unchanged" if is_same else "comment-edited")
        if code == "comment-edited":
            there.edit(body)
    return note(code, number=pull.number, url=there.html_url)


# What it says


def _label(repository: Repository, pull: PullRequest) -> list[Note]:
    """What the approving label is worth; it is taken off where it does not approve the head."""
    if APPROVAL not in {label.name for label in pull.labels}:
        return []
    why = why_fallen(repository, pull)
    if why is None:
        return [note("label-approves", label=APPROVAL, commit=pull.head.sha)]
    said = [note("label-approves-another", label=APPROVAL, why=why)]
    try:
        pull.remove_from_labels(APPROVAL)
    except GitHubRefused as refused:
        said.append(note("label-stays", why=noted(refused)))
    return said


def touched(
    repository: Repository, pull: PullRequest, head_sha: str, settings: Settings
) -> Touched:
    """Return what of a commit judges it, by the default branch's settings. What GitHub does not say
    is not known, and no reason to fail."""
    try:
        files = list(pull.get_files())
        now = repository.get_pull(pull.number).head.sha
    except (GitHubRefused, GitHubUnreachable) as error:
        return Touched(unknown=error)
    if now != head_sha:
        # The list is of the head, which may have moved since the pull request was looked for.
        return Touched(unknown=note("head-moved-on", commit=now))
    changed = {one.filename for one in files}
    changed |= {
        one.previous_filename for one in files if one.previous_filename and one.status != "copied"
    }
    all_listed = len(files) < MOST_CHANGED_FILES
    return Touched(
        paths=tuple(path for path in sorted(changed) if judges(path, settings)),
        unknown=None if all_listed else note("files-listed-in-part", most=MOST_CHANGED_FILES),
    )


def judges(path: str, settings: Settings) -> bool:
    """Whether a file belongs to what judges a pull request.

    Whatever its case, for where files have none, and wherever its folder lies; and a folder's own
    name counts, since a link may take its place.
    """
    folded = PurePosixPath(path.casefold())
    folders = (".github", settings.baselines.casefold(), settings.workloads.casefold())
    within = f"/{folded}/"
    return folded.name in _FILES or any(
        f"/{PurePosixPath(folder)}/" in within for folder in folders
    )


def body_of(
    context: Context,
    run: WorkflowRun,
    pull: PullRequest,
    found: RunToShow,
    changed: Touched,
    label: Sequence[Note],
) -> str:
    """The comment in Markdown: addresses are made of what GitHub says, all else is only text."""
    document, artifact = found.document, found.artifact
    pages = context.page_of_run(run.id)
    page = None if artifact is None else f"{pages}/artifacts/{artifact.id:d}"
    values = {
        "run": run,
        "page_of_commit": f"{context.page}/pull/{pull.number:d}/commits/{run.head_sha}",
        "page_of_run": context.page_of_run(run.id, run.run_attempt),
        "page": page,
        "changed": changed,
        "label": label,
        "approval": APPROVAL,
        "most_names": MOST_NAMES,
        "document": document,
        "why_not": found.why_not,
        "waits_for_label": found.left is Left.NOT_RUN
        and name_of(pull.head.repo) != name_of(pull.base.repo),
        "is_earlier": artifact is not None and artifact.created_at < run.run_started_at,
    }
    if document is None:
        return filled("comment.md.j2", gate="", **values)
    gate = gate_markdown(document, page=page)
    whole = filled("comment.md.j2", gate=gate, **values)
    # Characters beyond the first plane count as two: GitHub does not say how it counts.
    if len(whole.encode("utf-16-le")) // 2 + 200 <= LONGEST_COMMENT:
        return whole
    return filled("comment.md.j2", gate="", **values)
