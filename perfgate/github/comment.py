"""The comment on a pull request: what its gate found, or that the run left nothing to be trusted.

The run's artifact comes from the code of the pull request, which may be a stranger's. It is read as data and shown as
text; which pull request, run and commit it belongs to is taken from GitHub's event alone.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final, Literal, assert_never

from pydantic import Field, ValidationError

from perfgate.github.api import (
    LONGEST_COMMENT,
    MOST_CHANGED_FILES,
    Artifact,
    ChangedFile,
    Comment,
    PullRequest,
    Repository,
)
from perfgate.github.approval import why_fallen
from perfgate.github.artifacts import Limits, unpacked
from perfgate.github.context import Context, Payload, first_fault, is_sha
from perfgate.model.document import GateDocument
from perfgate.model.errors import (
    ActionsContextMissing,
    ArtifactUnreadable,
    GitHubRefused,
    GitHubUnreachable,
)
from perfgate.model.limits import LARGEST_DOCUMENT, LONGEST_TEXT, MOST_ENTRIES, MOST_WORKLOADS
from perfgate.model.outcome import OnInconclusive, OnNew
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.model.workflows import APPROVAL, ARTIFACT
from perfgate.render.markdown import gate_markdown, name, prose

AUTHOR: Final = "github-actions[bot]"
"""Whose comments a workflow's own token writes."""
DOCUMENT: Final = "perfgate.json"
LIMITS: Final = Limits(
    packed_bytes=4 * LARGEST_DOCUMENT,
    members=100,
    member_bytes=LARGEST_DOCUMENT,
    total_bytes=LARGEST_DOCUMENT,
)
"""The document lies beside the page, what that is made of, and pytest's file."""
MOST_NAMES: Final = 10
"""Of files of the pull request that belong to what judges it."""
LONGEST_FACT: Final = 300
_ONLY_SOME: Final = f"GitHub lists only {MOST_CHANGED_FILES} of its files"
_DIFFERS: Final = "It should be what perfgate wrote of this very commit"

_MARKER: Final = re.compile(
    r"<!-- perfgate run=([1-9][0-9]{0,18}) attempt=([1-9][0-9]{0,8}) "
    r"commit=([0-9a-f]{40,64}) result=(yes|no|not-run) -->"
)
_NOT_RUN: Final = "action_required"
"""The conclusion of a run of which no job ran, because GitHub's own settings ask for an approval."""
_APPROVED: Final = re.compile(r"(?:.*/)?perfgate-approved\.ya?ml(?:@.*)?")
"""The path of the workflow that the label starts."""


class _Owner(Payload):
    login: str


class _HeadRepository(Payload):
    full_name: str
    owner: _Owner


class FinishedRun(Payload):
    """The run that the event is about, as GitHub tells it."""

    id: int = Field(ge=1)
    run_attempt: int = Field(default=1, ge=1)
    run_started_at: datetime
    """When this attempt began."""
    conclusion: str
    path: str = ""
    """Of the workflow's file."""
    head_sha: str
    head_branch: str | None
    head_repository: _HeadRepository | None
    """None where the fork was deleted."""

    @property
    def is_nothing(self) -> bool:
        """Whether it was skipped, as the one is that a label of another kind starts."""
        return self.conclusion == "skipped"


class Finished(Payload):
    """The event `workflow_run`, completed."""

    action: Literal["completed"]
    workflow_run: FinishedRun


class Act(StrEnum):
    """What was done about the comment of a pull request."""

    CREATED = "created"
    EDITED = "edited"
    UNCHANGED = "unchanged"
    """It said this already."""
    NEWER = "newer"
    """It is of a newer run."""
    KEPT = "kept"
    """It is of this very commit, and no gate of this run ran."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What was done, for one pull request."""

    act: Act
    number: int
    url: str
    """Of the comment."""

    @property
    def sentence(self) -> str:
        """One line."""
        match self.act:
            case Act.CREATED:
                told = "commented"
            case Act.EDITED:
                told = "edited the comment"
            case Act.UNCHANGED:
                told = "the comment says this already"
            case Act.NEWER:
                told = "the comment is of a newer run, and was left as it is"
            case Act.KEPT:
                told = "the comment is of this commit, this run measured nothing, and it was left as it is"
            case _:
                assert_never(self.act)
        return f"pull request {self.number}: {told}: {self.url}"


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
        return f"<!-- perfgate run={self.run:d} attempt={self.attempt:d} commit={self.commit} result={self.left} -->"

    def outdated_by(self, other: Mark) -> bool:
        """Whether the other is of a later run, or of a later attempt of the same, and says more than that it waits."""
        waits = other.left is Left.NOT_RUN and other.commit == self.commit
        return (self.run, self.attempt) < (other.run, other.attempt) and not waits


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The result of a run: a document to be shown, or why there is none."""

    document: GateDocument | None = None
    artifact: Artifact | None = None
    earlier: bool = False
    """Whether it was uploaded by an earlier attempt of the run."""
    waits: bool = False
    """Whether no gate of the run ran, for want of a maintainer's approval."""
    why_not: str = ""
    """A sentence without its full stop, in which a stranger's words may be."""


class Part(StrEnum):
    """Of what judges a pull request, in the order in which it is told."""

    BASELINES = "baselines"
    WORKLOADS = "workloads"
    CONFTEST = "conftest"
    SETTINGS = "settings"
    GITHUB = ".github"


_CONFIGURED: Final = (Part.BASELINES, Part.WORKLOADS)
"""Parts whose folders the settings name."""
_SETTINGS: Final = frozenset(
    {
        "pyproject.toml",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "setup.cfg",
    }
)
"""Files in which pytest looks for its configuration, or perfgate for its own."""
_FIRST: Final = (Part.GITHUB, Part.BASELINES, Part.WORKLOADS)
"""What a path belongs to that lies in folders of several."""
_GITHUB: Final = (Part.GITHUB, (".github",))
MOST_PROJECTS: Final = 50
LARGEST_PROJECT: Final = 1 << 20
"""Bytes of a pyproject.toml that is read."""

Folders = frozenset[tuple[Part, tuple[str, ...]]]
"""What of a repository judges it: folders, as parts of their paths in small letters, wherever they lie."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judges:
    """Which paths that a pull request changes belong to what judges it."""

    paths: tuple[tuple[Part, str], ...] = ()
    """In order, each once; a rename is both of its paths. The names are a stranger's."""
    not_known: str = ""
    """Why there may be others: a clause without its full stop, in which a stranger's words may be."""

    @classmethod
    def of(
        cls, files: Iterable[ChangedFile], folders: Folders | None = None, *, why: str = ""
    ) -> Judges:
        """Those among the files that GitHub lists; `why` tells what of the folders is not known."""
        listed = tuple(files)
        changed = {one.path for one in listed}
        changed |= {
            one.previous_path for one in listed if one.previous_path and one.status != "copied"
        }
        found = [
            (part, path) for path in sorted(changed) if (part := part_of(path, folders)) is not None
        ]
        whys = [
            *([] if len(listed) < MOST_CHANGED_FILES else [_ONLY_SOME]),
            *([why] if why else []),
        ]
        return cls(
            paths=tuple(sorted(found, key=lambda pair: list(Part).index(pair[0]))),
            not_known=" and ".join(whys),
        )

    @property
    def sentence(self) -> str:
        """One line of Markdown; empty where it is known that there is none."""
        why = prose(self.not_known, longest=LONGEST_FACT)
        if not self.paths:
            return (
                f"**Whether this pull request changes what judges it is not known:** {why}."
                if why
                else ""
            )
        columns = [[path for whose, path in self.paths if whose is part] for part in Part]
        counts = (
            f"{part} ({len(column)} file{'s' if len(column) > 1 else ''})"
            for part, column in zip(Part, columns, strict=True)
            if column
        )
        # A name of each part in turn: many files of one part hide none of another.
        turns = (
            path for row in itertools.zip_longest(*columns) for path in row if path is not None
        )
        shown = frozenset(itertools.islice(turns, MOST_NAMES))
        names = ", ".join(name(path) for _, path in self.paths if path in shown)
        left = len(self.paths) - len(shown)
        more = f" and {left} more" if left else ""
        others = f" Whether it changes more of it is not known: {why}." if why else ""
        return f"**This pull request changes what judges it:** {', '.join(counts)}: {names}{more}.{others}"


def folders_of(projects: Iterable[bytes]) -> Folders:
    """The folders of workloads and baselines by what each pyproject.toml of a repository sets; else the usual ones."""
    found: set[tuple[Part, tuple[str, ...]]] = set()
    for content in projects:
        try:
            table = tomllib.loads(content.decode("utf-8"))["tool"]["perfgate"]
            named = {
                part: table.get(part.value, getattr(Settings(), part.value)) for part in _CONFIGURED
            }
            found |= {(part, _parts(folder)) for part, folder in named.items()}
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
            continue  # no project of perfgate's, or one that no gate accepts
    usual = {(part, _parts(getattr(Settings(), part.value))) for part in _CONFIGURED}
    return frozenset({_GITHUB, *(found or usual)})


def _parts(folder: str) -> tuple[str, ...]:
    return PurePosixPath(folder.casefold()).parts


def part_of(path: str, folders: Folders | None = None) -> Part | None:
    """To which part of what judges a pull request a path belongs.

    Whatever its case, for where files have none; and a folder's own name counts, since a link may take its place.
    """
    parts = path.casefold().split("/")
    if parts[-1] in _SETTINGS:
        return Part.SETTINGS
    if parts[-1] == "conftest.py":
        return Part.CONFTEST
    held = [
        part
        for part, folder in (folders_of(()) if folders is None else folders)
        if any(tuple(parts[start : start + len(folder)]) == folder for start in range(len(parts)))
    ]
    return next((part for part in _FIRST if part in held), None)


def comment(
    repository: Repository, context: Context, *, artifact: str = ARTIFACT, author: str = AUTHOR
) -> tuple[Done, ...]:
    """Write what the run of a `workflow_run` event found into the comment of its pull request.

    One comment a pull request, known by its mark and its author; the oldest such is edited. None where no open pull
    request has the run's commit as its head: a push to a branch, or a head that has moved on. None of a run that was
    skipped, either: a label of another kind started it, and there is nothing to say.

    Raises:
        ActionsContextMissing: the event is another.
        GitHubRefused: GitHub says no.
        GitHubUnreachable: GitHub does not answer.
    """
    run = finished_run(context)
    pulls = () if run.is_nothing else _pull_requests(repository, run)
    if not pulls:
        return ()
    found = _result(repository, run, artifact, context.cleaner)
    return tuple(_told(repository, context, run, pull, found, author) for pull in pulls)


def finished_run(context: Context) -> FinishedRun:
    """The run that the event is about.

    Raises:
        ActionsContextMissing: the event is another, or is not as GitHub sends it.
    """
    if context.event_name != "workflow_run":
        raise ActionsContextMissing(
            subject="perfgate github comment",
            fact=f"the event is {context.event_name}",
            expectation="It comments on what a finished run left, at the event workflow_run",
            next_step="Call it in a workflow with on: {workflow_run: {workflows: [perfgate], types: [completed]}}",
        )
    run = context.event_as(Finished).workflow_run
    if not is_sha(run.head_sha):
        raise ActionsContextMissing(
            subject="event workflow_run",
            fact="its head_sha is no commit",
            expectation="GitHub tells the commit that a run was for",
            next_step="Run the job again.",
        )
    return run


def _pull_requests(repository: Repository, run: FinishedRun) -> tuple[PullRequest, ...]:
    """Whose head is the run's commit. The event's own list is empty for forks, and the artifact's word is none."""
    head = run.head_repository
    if head is None or not run.head_branch:
        return ()
    found = repository.pull_requests(
        head_owner=head.owner.login, head_branch=run.head_branch, head_sha=run.head_sha
    )
    whose = head.full_name.casefold()
    return tuple(one for one in found if (one.head_repository or "").casefold() == whose)


def _result(
    repository: Repository, run: FinishedRun, name_of_artifact: str, cleaner: Cleaner
) -> Found:
    if run.conclusion == _NOT_RUN:
        return Found(why_not="no job of it ran", waits=True)
    artifacts = repository.artifacts(run.id)
    named = [one for one in artifacts if one.name == name_of_artifact]
    if not named:
        # A gate that ran leaves something, and of a fork none runs but by the label.
        is_fork = (
            run.head_repository is None
            or run.head_repository.full_name.casefold() != repository.name.casefold()
        )
        waits = (
            is_fork
            and run.conclusion == "failure"
            and not artifacts
            and not _APPROVED.fullmatch(run.path)
        )
        unmeasured = run.conclusion == "success" and not artifacts
        why_not = (
            "it measured nothing, and passed: all that is changed is named as unmeasured"
            if unmeasured
            else ""
        )
        return Found(why_not=why_not or "it left no result", waits=waits)
    newest = named[0]
    if newest.expired:
        return Found(why_not="its result has expired")
    earlier = newest.created_at < run.run_started_at
    try:
        content = repository.download(newest, limit_bytes=LIMITS.packed_bytes)
        # Here: Markdown parts what a secret is made of.
        document = cleaner.record(read_untrusted(content, run.head_sha))
    except ArtifactUnreadable as error:
        return Found(why_not=f"it left no result that can be trusted for this commit: {error.fact}")
    return Found(document=document, artifact=newest, earlier=earlier)


def read_untrusted(content: bytes, head_sha: str) -> GateDocument:
    """Return the document in an artifact's zip file, of this very commit.

    Raises:
        ArtifactUnreadable: it is unsafe, is not what the published schema says, contradicts itself, or is of
            another commit.
    """
    members = unpacked(content, lambda path: path == DOCUMENT, what="the artifact", limits=LIMITS)
    if DOCUMENT not in members:
        raise _distrusted(f"there is no {DOCUMENT} in it")
    text = members[DOCUMENT]
    try:
        # Strict: as the schema has it, a number is no text, and a text no number. Its depth is limited, too.
        document = GateDocument.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise _distrusted(
            f"{DOCUMENT} is not what its schema says: {first_fault(error)}"
        ) from error
    whole = json.loads(text)
    fault = _excess(whole) or _contradiction(document)
    if fault is not None:
        raise _distrusted(f"{DOCUMENT} {fault}")
    if document.commit is None:
        raise _distrusted(f"{DOCUMENT} does not say which commit it is of")
    if document.commit.sha != head_sha:
        raise _distrusted(f"{DOCUMENT} is of another commit")
    return document


def _excess(whole: object) -> str | None:
    """What there is too much of, in a document that is well formed."""
    left = [whole]
    while left:
        one = left.pop()
        if isinstance(one, str):
            if len(one) > LONGEST_TEXT:
                return f"holds a text of more than {LONGEST_TEXT} characters"
        elif isinstance(one, list | dict):
            if len(one) > MOST_ENTRIES:
                return f"holds more than {MOST_ENTRIES} entries in one place"
            left += one if isinstance(one, list) else [*one.keys(), *one.values()]
    return None


def _contradiction(document: GateDocument) -> str | None:
    """What keeps a gate shut, in a document that says it is open."""
    if len(document.workloads) > MOST_WORKLOADS:
        return f"holds more than {MOST_WORKLOADS} workloads"
    for one in document.workloads:
        may = one.verdict.opens(on_inconclusive=OnInconclusive.WARN, on_new=OnNew.ALLOW)
        if one.opens_gate and not may:
            return "says of a workload that it opens the gate, and of its outcome what never does"
    if not document.opens_gate:
        return None
    if not document.workloads:
        return "says that the gate is open, and holds no workload"
    parts = (
        *(one.opens_gate for one in document.workloads),
        *(gate.opens_gate for gate in document.gates),
    )
    if document.shut_by or document.exit_status != 0 or not all(parts):
        return "says that the gate is open, and what keeps it shut"
    return None


def _told(
    repository: Repository,
    context: Context,
    run: FinishedRun,
    pull: PullRequest,
    found: Found,
    author: str,
) -> Done:
    mark = Mark(run=run.id, attempt=run.run_attempt, commit=run.head_sha, left=_left(found))
    fallen = _taken_off(repository, pull)
    ours = _ours(repository, pull.number, author)
    if ours is not None:
        there, old = ours
        if mark.outdated_by(there):
            return Done(act=Act.NEWER, number=pull.number, url=old.url)
        if mark.left is Left.NOT_RUN and there.commit == mark.commit:
            # Of a fork's commit that was approved, reopening starts another run that waits: it takes nothing away.
            return Done(act=Act.KEPT, number=pull.number, url=old.url)
    body = body_of(
        mark, context, run, pull, found, _judges(repository, pull, run.head_sha), fallen=fallen
    )
    if ours is None:
        made = repository.create_comment(pull.number, body)
        return Done(act=Act.CREATED, number=pull.number, url=made.url)
    if _same(old.body, body):
        return Done(act=Act.UNCHANGED, number=pull.number, url=old.url)
    repository.edit_comment(old.id, body)
    return Done(act=Act.EDITED, number=pull.number, url=old.url)


def _taken_off(repository: Repository, pull: PullRequest) -> str:
    """Take off a label that approves another commit than the head; say why, or nothing where it stays."""
    if APPROVAL not in pull.labels:
        return ""
    fallen = why_fallen(repository, pull)
    if fallen:
        try:
            repository.remove_label(pull.number, APPROVAL)
        except GitHubRefused as refused:
            return f"{fallen} (taking it off failed: {refused.fact})"
    return fallen


def _judges(repository: Repository, pull: PullRequest, head_sha: str) -> Judges:
    """What of a commit judges it. What GitHub does not tell is not known, and no reason to say nothing else."""
    try:
        files = repository.changed_files(pull.number)
        now = repository.pull_request(pull.number).head_sha
    except (GitHubRefused, GitHubUnreachable) as error:
        return Judges(not_known=error.fact)
    if now != head_sha:
        # The list is of the head, which may have moved since the pull request was looked for.
        return Judges(not_known="its head has moved on")
    try:
        return Judges.of(files, folders_of(_projects(repository, pull.base_sha)))
    except (GitHubRefused, GitHubUnreachable) as error:
        return Judges.of(files, why=f"the base's folders are not known: {error.fact}")


def _projects(repository: Repository, sha: str) -> Iterator[bytes]:
    """What every pyproject.toml of a commit holds."""
    found = [
        blob
        for path, blob in repository.blobs(sha, "").items()
        if PurePosixPath(path).name == "pyproject.toml"
    ]
    for blob in found[:MOST_PROJECTS]:
        yield repository.blob(blob, limit_bytes=LARGEST_PROJECT)


def _left(found: Found) -> Left:
    if found.waits:
        return Left.NOT_RUN
    return Left.NONE if found.document is None else Left.RESULT


def _ours(repository: Repository, number: int, author: str) -> tuple[Mark, Comment] | None:
    """The oldest comment of ours. A stranger's that begins as ours do is not."""
    for one in repository.comments(number):
        mark = Mark.read(one.body)
        if one.author == author and mark is not None:
            return mark, one
    return None


def _same(old: str, new: str) -> bool:
    return old.replace("\r\n", "\n").strip() == new.strip()


def body_of(
    mark: Mark,
    context: Context,
    run: FinishedRun,
    pull: PullRequest,
    found: Found,
    judges: Judges,
    *,
    fallen: str = "",
) -> str:
    """The comment as Markdown: all addresses are made of what GitHub told, all else is only text."""
    page_of_run = context.page_of_run(run.id, run.run_attempt)
    page_of_commit = (
        f"{context.server_url}/{context.repository}/pull/{pull.number:d}/commits/{run.head_sha}"
    )
    source = (
        f"Commit [`{run.head_sha[:12]}`]({page_of_commit}), "
        f"[run {run.id:d}, attempt {run.run_attempt:d}]({page_of_run}), which ended as {name(run.conclusion)}."
    )
    warning = [judges.sentence, ""] if judges.sentence else []
    if fallen:
        warning += [
            f"The label `{APPROVAL}` does not approve this commit, and was taken off: {prose(fallen)}.",
            "",
        ]
    elif APPROVAL in pull.labels:
        warning += [f"The label `{APPROVAL}` approves commit `{run.head_sha}`.", ""]
    document = found.document
    if document is None or found.artifact is None:
        lines = [
            "## perfgate: no result",
            "",
            *warning,
            f"{source} {prose(_capital(found.why_not))}.",
        ]
        if found.waits and pull.from_fork:
            lines.append(
                f"A maintainer who has read the code starts the gate with the label `{APPROVAL}`."
            )
        return "\n".join((mark.text, *lines)) + "\n"
    remarks = [source]
    if document.opens_gate and run.conclusion != "success":
        remarks.append("**The run itself did not succeed, whatever the gate says above.**")
    if found.earlier:
        remarks.append("The result is of an earlier attempt of this run: the latest left none.")
    if document.commit is not None and document.commit.dirty:
        remarks.append("There were uncommitted changes when it was measured.")
    page = context.page_of_artifact(run.id, found.artifact.id)
    told = gate_markdown(document, page=page)
    whole = "\n".join((mark.text, told.rstrip("\n"), "", *warning, "---", "", *remarks)) + "\n"
    if _length(whole) <= LONGEST_COMMENT:
        return whole
    state = "open" if document.opens_gate else "shut"
    short = [
        f"## perfgate: gate {state}",
        "",
        f"It is too long to be told here: [see the page]({page}).",
        "",
        *warning,
        *remarks,
    ]
    return "\n".join((mark.text, *short)) + "\n"


def _length(text: str) -> int:
    """Characters, of which those beyond the first plane are two: GitHub does not say how it counts."""
    return len(text.encode("utf-16-le")) // 2


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _distrusted(fact: str) -> ArtifactUnreadable:
    return ArtifactUnreadable(
        subject="the artifact",
        fact=fact,
        expectation=_DIFFERS,
        next_step="Look at the run that uploaded it.",
    )
