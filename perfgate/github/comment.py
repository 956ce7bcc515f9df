"""The comment on a pull request: what its gate found, or that the run left nothing to be trusted.

The run's artifact comes from the code of the pull request, which may be a stranger's. It is read as
data and shown as text; which pull request, run and commit it belongs to is taken from GitHub's
event alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from github.Artifact import Artifact
from github.PullRequest import PullRequest
from github.Repository import Repository
from github.WorkflowRun import WorkflowRun

from perfgate.github.approval import APPROVED, file_of, is_approved, name_of
from perfgate.github.artifacts import download, newest_of, read_untrusted
from perfgate.github.context import Payload, event_as, variable
from perfgate.model.document import GateDocument
from perfgate.model.errors import ActionsContextMissing, ArtifactUnreadable
from perfgate.model.note import Note, note
from perfgate.model.options import APPROVAL, ARTIFACT
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.render.markdown import filled, gate_markdown
from perfgate.words.say import Coded

AUTHOR: Final = "github-actions[bot]"
"""Whose comments a workflow's own token writes."""
MOST_NAMES: Final = 10
"""Of files of the pull request that belong to what judges it."""
MOST_CHANGED_FILES: Final = 3000
"""Of one pull request, that GitHub lists; of further ones it says nothing."""

_MARKER: Final = re.compile(
    r"<!-- perfgate run=([1-9][0-9]{0,18}) attempt=([1-9][0-9]{0,8}) "
    r"commit=[0-9a-f]{40,64} result=(?:yes|no|not-run) -->"
)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class RunToShow:
    """The result of a run: a document to be shown, or why there is none."""

    document: GateDocument | None = None
    artifact: Artifact | None = None
    why_not: Coded | None = None
    waits: bool = False
    """Whether no gate ran, for want of an approval."""


def mark_of(run: WorkflowRun) -> str:
    """The hidden first line of a comment: of which run it is."""
    return (
        f"<!-- perfgate run={run.id:d} attempt={run.run_attempt:d} commit={run.head_sha} "
        "result=yes -->"
    )


def marked(body: str) -> tuple[int, int] | None:
    """The run and the attempt that a comment begins with. Anywhere else they may be a quotation."""
    found = _MARKER.match(body)
    return None if found is None else (int(found[1]), int(found[2]))


def comment(
    repository: Repository,
    env: Mapping[str, str],
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
    kind = variable(env, "GITHUB_EVENT_NAME")
    if kind != "workflow_run":
        raise ActionsContextMissing("comment-event-wanted", event=kind)
    sent = event_as(env, _Finished).workflow_run
    run = WorkflowRun(repository.requester, {}, dict(sent), completed=True)
    pulls = [] if run.conclusion == "skipped" else _pull_requests(repository, run)
    if not pulls:
        return ()
    found = _result(repository, run, artifact, Cleaner(env))
    done = []
    for pull in pulls:
        label = label_of(repository, pull)
        body = f"{mark_of(run)}\n{body_of(run, pull, found, touched(pull, settings), label)}"
        done.append(_written(pull, run, author, body))
    return tuple(done)


def _pull_requests(repository: Repository, run: WorkflowRun) -> list[PullRequest]:
    """Whose head is the run's commit. The event's own list is empty for forks, and the artifact's
    word is none."""
    whose = name_of(run.head_repository)
    if not whose or not run.head_branch:
        return []
    head = f"{run.head_repository.owner.login}:{run.head_branch}"
    # GitHub answers with all pull requests where it does not understand the filter.
    return [
        pull
        for pull in repository.get_pulls(state="open", head=head)
        if (pull.head.sha, pull.head.ref) == (run.head_sha, run.head_branch)
        and name_of(pull.head.repo) == whose
    ]


def _result(repository: Repository, run: WorkflowRun, name: str, cleaner: Cleaner) -> RunToShow:
    left = newest_of(run)
    if name not in left:
        # A gate that ran leaves something, and of a fork none runs but by the label. Where GitHub's
        # own settings ask for an approval, no job runs at all.
        is_fork = name_of(run.head_repository) != name_of(repository)
        ran = run.conclusion != "failure" or file_of(run) == APPROVED or not is_fork
        waits = not left and (run.conclusion == "action_required" or not ran)
        nothing = run.conclusion == "success" and not left
        why = note("run-measured-nothing" if nothing else "run-left-nothing")
        return RunToShow(why_not=why, waits=waits)
    artifact = left[name]
    try:
        document = read_untrusted(download(artifact), run.head_sha, artifact=name)
    except ArtifactUnreadable as error:
        return RunToShow(why_not=error)
    # Here: Markdown parts what a secret is made of.
    return RunToShow(document=cleaner.record(document), artifact=artifact)


def _written(pull: PullRequest, run: WorkflowRun, author: str, body: str) -> Note:
    """Write the comment into the oldest of ours, or leave that to a newer run; say what was done.

    A stranger's that begins as ours do is not ours.
    """
    for there in pull.get_issue_comments():
        before = marked(there.body or "")
        login = getattr(there.user, "login", None)  # None: an user who is gone
        if before is None or login != author:
            continue
        code = "comment-left"
        if before <= (run.id, run.run_attempt):
            code = "comment-edited"
            there.edit(body)
        return note(code, number=pull.number, url=there.html_url)
    made = pull.create_issue_comment(body)
    return note("comment-created", number=pull.number, url=made.html_url)


# What it says


def label_of(repository: Repository, pull: PullRequest) -> Note | None:
    """What the approving label is worth; it is taken off where it does not approve the head."""
    if APPROVAL not in {label.name for label in pull.labels}:
        return None
    if is_approved(repository, pull):
        return note("label-approves", label=APPROVAL, commit=pull.head.sha)
    pull.remove_from_labels(APPROVAL)
    return note("label-taken-off", label=APPROVAL)


def touched(pull: PullRequest, settings: Settings) -> tuple[list[str], bool]:
    """Return which files of a pull request judge it, by the default branch's settings, and whether
    these are all: a rename is both of its paths."""
    files = list(pull.get_files())
    changed = {one.filename for one in files}
    changed |= {
        one.previous_filename for one in files if one.previous_filename and one.status != "copied"
    }
    paths = [path for path in sorted(changed) if judges(path, settings)]
    return paths, len(files) < MOST_CHANGED_FILES


def judges(path: str, settings: Settings) -> bool:
    """Whether a file belongs to what judges a pull request.

    Whatever its case, for where files have none, and wherever its folder lies; and a folder's own
    name counts, since a link may take its place.
    """
    folders = (".github", settings.baselines, settings.workloads)
    within = f"/{path.casefold()}/"
    return PurePosixPath(path).name.casefold() in _FILES or any(
        f"/{PurePosixPath(folder)}/".casefold() in within for folder in folders
    )


def body_of(
    run: WorkflowRun,
    pull: PullRequest,
    found: RunToShow,
    changed: tuple[list[str], bool],
    label: Note | None,
) -> str:
    """The comment in Markdown: addresses are made of what GitHub says, all else is only text."""
    document, artifact = found.document, found.artifact
    page = None if artifact is None else f"{run.html_url}/artifacts/{artifact.id:d}"
    paths, are_all = changed
    return filled(
        "comment.md.j2",
        run=run,
        pull=pull,
        found=found,
        gate="" if document is None else gate_markdown(document, page=page),
        paths=paths,
        most_names=MOST_NAMES,
        unlisted=None if are_all else MOST_CHANGED_FILES,
        label=label,
        approval=APPROVAL,
        is_fork=name_of(pull.head.repo) != name_of(pull.base.repo),
    )
