"""One repository by GitHub's REST API: what perfgate asks of it and does in it, as records of its own.

Names, branches and texts in these records may be a stranger's: they are data.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, TypeVar
from urllib.parse import quote

from pydantic import Field, TypeAdapter, ValidationError

from perfgate.github.asking import Ask, Patience
from perfgate.github.context import Context, Payload, first_fault, is_sha
from perfgate.model.errors import BranchMoved, GitHubRefused, GitHubUnreachable, PackageMissing
from perfgate.model.record import ObjectName, Record
from perfgate.render.page import inert
from perfgate.system import git

if TYPE_CHECKING:
    from perfgate.github.client import Client

LONGEST_COMMENT: Final = 65_536
"""Characters that GitHub takes."""
MOST_CHANGED_FILES: Final = 3000
"""Of one pull request, that GitHub lists; of further ones it says nothing."""

READ_PULLS: Final = "pull-requests: read"
WRITE_PULLS: Final = "pull-requests: write"
READ_RUNS: Final = "actions: read"
WRITE_RUNS: Final = "actions: write"
READ_CONTENTS: Final = "contents: read"
WRITE_CONTENTS: Final = "contents: write"
READ_METADATA: Final = "metadata: read"

_WORKFLOW_FILE: Final = re.compile(r"[\w.-]+\.ya?ml", re.ASCII)


class PullRequest(Record):
    """One pull request."""

    number: int = Field(ge=1)
    open: bool
    title: str
    url: str
    author: str | None
    """None: an account that is gone."""
    head_sha: str
    head_branch: str
    head_repository: str | None
    """`owner/name`; None where the fork was deleted."""
    base_branch: str
    base_repository: str
    base_sha: str = ""
    labels: tuple[str, ...] = ()

    @property
    def from_fork(self) -> bool:
        """Whether its branch lies in another repository."""
        return self.head_repository != self.base_repository


FileStatus = Literal["added", "removed", "modified", "renamed", "copied", "changed", "unchanged"]


class ChangedFile(Record):
    """One file that a pull request changes. Its name is a stranger's."""

    path: str = Field(min_length=1)
    """POSIX, from the top; where it was, if it was removed."""
    previous_path: str | None
    """Where it was before it was renamed, or what it was copied from."""
    status: FileStatus


class Comment(Record):
    """One comment in the conversation of a pull request."""

    id: int
    author: str | None
    """A login, of a bot as `github-actions[bot]`; None: an account that is gone."""
    body: str
    url: str


class Run(Record):
    """One run of a workflow, in its latest attempt."""

    id: int
    attempt: int
    event: str
    status: str
    """`completed`, or what it still waits for or does."""
    conclusion: str | None
    """`success`, `failure`, `cancelled`...; None before it is completed."""
    head_sha: str
    head_branch: str | None
    head_repository: str | None
    """`owner/name`; None where the fork was deleted."""
    created_at: datetime
    url: str
    file: str = ""
    """Of its workflow, by name: `perfgate.yml`."""


class Artifact(Record):
    """One uploaded artifact of a run. Nothing of it but its id is GitHub's own."""

    id: int
    name: str
    size_bytes: int = Field(ge=0)
    """Of the zip file."""
    expired: bool
    created_at: datetime


class Repository:
    """One repository. Every method asks GitHub.

    All raise GitHubRefused where GitHub says no, with its own words and the permission that is needed, and
    GitHubUnreachable where it does not answer, also not when asked again.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        """`owner/name`."""
        self._path = f"/repos/{name}"

    @classmethod
    def connect(cls, context: Context, *, patience: Patience | None = None) -> Repository:
        """Make the connection that a job's context describes; asks nothing yet.

        Raises:
            ActionsContextMissing: the repository, the API's address or the token is missing.
            PackageMissing: PyGithub is not installed.
        """
        try:
            from perfgate.github.client import Client  # noqa: PLC0415 - PyGithub is of an extra, and slow to import
        except ModuleNotFoundError as error:
            raise PackageMissing(
                subject="perfgate github",
                fact=f"the package {error.name} is not installed",
                expectation="It asks GitHub by means of PyGithub",
                next_step="Install what the extra github brings: "
                'pip install "PyGithub>=2.6" "requests>=2.31" "urllib3>=2.0"',
            ) from error
        name, api_url, token = context.repository, context.api_url, context.token
        client = Client(
            api_url=api_url,
            token=token,
            patience=patience or Patience(),
            clean=context.cleaner.clean,
        )
        return cls(client, name)

    @property
    def owner(self) -> str:
        """Whom it belongs to."""
        return self.name.partition("/")[0]

    # Pull requests

    def pull_requests(
        self, *, head_owner: str, head_branch: str, head_sha: str
    ) -> tuple[PullRequest, ...]:
        """The open pull requests of a branch whose head is this very commit; oldest first."""
        ask = Ask(act=f"the pull requests of commit {head_sha[:12]}", needs=READ_PULLS)
        asked = {"state": "open", "head": f"{head_owner}:{head_branch}"}
        found = self._list(ask, f"{self._path}/pulls", _Pull, asked)
        # GitHub answers with all pull requests where it does not understand the filter.
        named = (f"{head_owner}:{head_branch}".casefold(), head_sha)
        return tuple(
            sorted(
                (one.record for one in found if (one.head.label.casefold(), one.head.sha) == named),
                key=lambda one: one.number,
            )
        )

    def pull_request(self, number: int) -> PullRequest:
        """One pull request, open or not."""
        ask = Ask(act=f"pull request {number}", needs=READ_PULLS)
        return _read(ask, _Pull, self._client.get(ask, f"{self._path}/pulls/{number:d}")).record

    def changed_files(self, number: int) -> tuple[ChangedFile, ...]:
        """What a pull request changes, as of its head now; of more than `MOST_CHANGED_FILES` only the first."""
        ask = Ask(act=f"the files of pull request {number}", needs=READ_PULLS)
        found = self._list(ask, f"{self._path}/pulls/{number:d}/files", _ChangedFile)
        return tuple(one.record for one in itertools.islice(found, MOST_CHANGED_FILES))

    def find_pull_request(self, head_branch: str) -> PullRequest | None:
        """The open pull request from a branch of this repository itself; the oldest where there are several."""
        ask = Ask(act=f"the pull request of branch {_shown(head_branch)}", needs=READ_PULLS)
        asked = {"state": "open", "head": f"{self.owner}:{_branch(head_branch)}"}
        found = (one.record for one in self._list(ask, f"{self._path}/pulls", _Pull, asked))
        own = [
            one
            for one in found
            if one.head_branch == head_branch and one.head_repository == self.name
        ]
        return min(own, key=lambda one: one.number, default=None)

    def open_pull_request(
        self, *, head_branch: str, base_branch: str, title: str, body: str
    ) -> PullRequest:
        """Open a pull request from one branch of this repository to another."""
        ask = Ask(
            act=f"opening a pull request from {_shown(head_branch)}",
            needs=WRITE_PULLS,
            or_else=(
                " And in the repository's settings, under Actions, General: \"Allow GitHub Actions to create and "
                'approve pull requests".'
            ),
        )
        body_sent = {
            "head": _branch(head_branch),
            "base": _branch(base_branch),
            "title": title,
            "body": body,
        }
        return _read(
            ask,
            _Pull,
            self._client.send(ask, "POST", f"{self._path}/pulls", body_sent, again=False),
        ).record

    def edit_pull_request(self, number: int, *, title: str, body: str) -> PullRequest:
        """Give a pull request another title and text."""
        ask = Ask(act=f"editing pull request {number}", needs=WRITE_PULLS)
        sent = {"title": title, "body": body}
        return _read(
            ask, _Pull, self._client.send(ask, "PATCH", f"{self._path}/pulls/{number:d}", sent)
        ).record

    def remove_label(self, number: int, label: str) -> None:
        """Take a label off a pull request; one that is not there is no error."""
        ask = Ask(act=f"taking label {_shown(label)} off pull request {number}", needs=WRITE_PULLS)
        try:
            self._client.send(
                ask, "DELETE", f"{self._path}/issues/{number:d}/labels/{quote(label, safe='')}", {}
            )
        except GitHubRefused:
            if label in self.pull_request(number).labels:
                raise

    # Comments

    def comments(self, number: int) -> Iterator[Comment]:
        """The comments in the conversation of a pull request, oldest first; asks for page after page."""
        ask = Ask(act=f"the comments of pull request {number}", needs=READ_PULLS)
        for one in self._list(ask, f"{self._path}/issues/{number:d}/comments", _Comment):
            yield one.record

    def create_comment(self, number: int, body: str) -> Comment:
        """Comment on a pull request."""
        ask = Ask(act=f"commenting on pull request {number}", needs=WRITE_PULLS)
        path = f"{self._path}/issues/{number:d}/comments"
        return _read(
            ask, _Comment, self._client.send(ask, "POST", path, {"body": body}, again=False)
        ).record

    def edit_comment(self, comment_id: int, body: str) -> Comment:
        """Give a comment another text."""
        ask = Ask(act=f"editing comment {comment_id}", needs=WRITE_PULLS)
        path = f"{self._path}/issues/comments/{comment_id:d}"
        return _read(ask, _Comment, self._client.send(ask, "PATCH", path, {"body": body})).record

    def permission(self, user: str) -> str:
        """What a user may do here: `admin`, `write`, `read` or `none`; to maintain is `write`, to triage `read`."""
        ask = Ask(act=f"the permission of {_shown(user)}", needs=READ_METADATA)
        path = f"{self._path}/collaborators/{quote(user, safe='')}/permission"
        return _read(ask, _Permission, self._client.get(ask, path)).permission

    # Runs and artifacts

    def runs(self, workflow_file: str, head_sha: str) -> tuple[Run, ...]:
        """The runs of a workflow (`perfgate.yml`) for exactly one commit, newest first."""
        ask = Ask(
            act=f"the runs of {_shown(workflow_file)} for commit {head_sha[:12]}", needs=READ_RUNS
        )
        path = f"{self._path}/actions/workflows/{_workflow(ask, workflow_file)}/runs"
        found = self._list(
            ask, path, _Run, {"head_sha": _sha(ask, head_sha)}, within="workflow_runs"
        )
        of_commit = (one.record for one in found if one.head_sha == head_sha)
        return tuple(sorted(of_commit, key=lambda one: (one.created_at, one.id), reverse=True))

    def run(self, run_id: int) -> Run:
        """One run, in its latest attempt."""
        ask = Ask(act=f"run {run_id}", needs=READ_RUNS)
        return _read(
            ask, _Run, self._client.get(ask, f"{self._path}/actions/runs/{run_id:d}")
        ).record

    def runs_for(self, head_sha: str) -> tuple[Run, ...]:
        """The runs of all workflows for exactly one commit, newest first."""
        ask = Ask(act=f"the runs for commit {head_sha[:12]}", needs=READ_RUNS)
        asked = {"head_sha": _sha(ask, head_sha)}
        found = self._list(ask, f"{self._path}/actions/runs", _Run, asked, within="workflow_runs")
        of_commit = (one.record for one in found if one.head_sha == head_sha)
        return tuple(sorted(of_commit, key=lambda one: (one.created_at, one.id), reverse=True))

    def runners(self, run_id: int) -> tuple[str, ...]:
        """The self-hosted runners that a run's jobs ran on, in all its attempts, by name."""
        ask = Ask(act=f"the jobs of run {run_id}", needs=READ_RUNS)
        path = f"{self._path}/actions/runs/{run_id:d}/jobs"
        jobs = self._list(ask, path, _Job, {"filter": "all"}, within="jobs")
        return tuple(
            sorted(
                {job.runner_name for job in jobs if job.runner_name and "self-hosted" in job.labels}
            )
        )

    def artifacts(self, run_id: int) -> tuple[Artifact, ...]:
        """What a run uploaded, newest first. Of several attempts a name may be there more than once."""
        ask = Ask(act=f"the artifacts of run {run_id}", needs=READ_RUNS)
        path = f"{self._path}/actions/runs/{run_id:d}/artifacts"
        found = (one.record for one in self._list(ask, path, _Artifact, within="artifacts"))
        return tuple(sorted(found, key=lambda one: one.id, reverse=True))

    def download(self, artifact: Artifact, *, limit_bytes: int) -> bytes:
        """An artifact's zip file; see `perfgate.github.artifacts` for how to read what a stranger packed.

        Raises:
            ArtifactUnreadable: it is larger than the limit.
        """
        ask = Ask(act=f"artifact {_shown(artifact.name)}", needs=READ_RUNS)
        path = f"{self._path}/actions/artifacts/{artifact.id:d}/zip"
        return self._client.fetch(ask, path, limit_bytes=limit_bytes)

    def dispatch(self, workflow_file: str, *, ref: str, inputs: Mapping[str, str]) -> None:
        """Start a workflow that has `workflow_dispatch`, on a branch."""
        ask = Ask(act=f"starting {_shown(workflow_file)} on {_shown(ref)}", needs=WRITE_RUNS)
        path = f"{self._path}/actions/workflows/{_workflow(ask, workflow_file)}/dispatches"
        self._client.send(
            ask, "POST", path, {"ref": _branch(ref), "inputs": dict(inputs)}, again=False
        )

    # Commits and branches

    def head(self, branch: str) -> str | None:
        """The commit that a branch is at; None where there is no such branch."""
        ask = Ask(act=f"branch {_shown(branch)}", needs=READ_CONTENTS)
        # One that begins with this name is in this list too, but it is an answer where the exact one is missing.
        path = f"{self._path}/git/matching-refs/heads/{_quoted(branch)}"
        refs = self._list(ask, path, _Ref)
        return next((ref.object.sha for ref in refs if ref.ref == f"refs/heads/{branch}"), None)

    def create_branch(self, branch: str, sha: str) -> None:
        """Make a branch at a commit. One that is there already is refused by GitHub."""
        ask = Ask(act=f"making branch {_shown(branch)}", needs=WRITE_CONTENTS)
        sent = {"ref": f"refs/heads/{_branch(branch)}", "sha": _sha(ask, sha)}
        _read(
            ask, _Ref, self._client.send(ask, "POST", f"{self._path}/git/refs", sent, again=False)
        )

    def commit_files(
        self, *, branch: str, expected_head: str, files: Mapping[str, bytes], message: str
    ) -> str:
        """Add one commit to a branch, in which these files (POSIX, from the top) are what is given; return its SHA.

        Raises:
            BranchMoved: the branch is not at `expected_head`, or was moved meanwhile; it stays as it is.
        """
        paths = {_path_in_tree(path): content for path, content in files.items()}
        if not paths:
            raise ValueError("a commit of no files")
        ask = Ask(act=f"committing to branch {_shown(branch)}", needs=WRITE_CONTENTS)
        _sha(ask, expected_head)
        now = self.head(branch)
        if now != expected_head:
            raise _moved(branch, expected_head, now)
        commit = self._commit(ask, paths, onto=expected_head, message=message)
        ref = f"{self._path}/git/refs/heads/{_quoted(branch)}"
        try:
            self._client.send(ask, "PATCH", ref, {"sha": commit, "force": False})
        except (GitHubRefused, GitHubUnreachable) as error:
            now = self.head(branch)
            if now == commit:  # it was done, and only the answer was lost
                return commit
            if now != expected_head:
                raise _moved(branch, expected_head, now) from error
            raise
        return commit

    def rebuild_branch(
        self,
        *,
        branch: str,
        expected_head: str | None,
        onto: str,
        files: Mapping[str, bytes],
        message: str,
    ) -> str:
        """Make a branch of perfgate's own one commit on top of another, in which these files are what is given.

        What the branch held is given up: `expected_head` is what was looked at, None where there was no such branch.
        Returns the commit's SHA.

        Raises:
            BranchMoved: the branch is not at `expected_head`; it stays as it is.
        """
        paths = {_path_in_tree(path): content for path, content in files.items()}
        if not paths:
            raise ValueError("a commit of no files")
        ask = Ask(act=f"rebuilding branch {_shown(branch)}", needs=WRITE_CONTENTS)
        commit = self._commit(ask, paths, onto=onto, message=message)
        now = self.head(branch)
        if now != expected_head:
            raise _moved(branch, expected_head, now)
        if now is None:
            self.create_branch(branch, commit)
        else:
            ref = f"{self._path}/git/refs/heads/{_quoted(branch)}"
            self._client.send(ask, "PATCH", ref, {"sha": commit, "force": True})
        return commit

    def message(self, sha: str) -> str:
        """A commit's message."""
        ask = Ask(act=f"commit {sha[:12]}", needs=READ_CONTENTS)
        return _read(
            ask, _GitCommit, self._client.get(ask, f"{self._path}/git/commits/{_sha(ask, sha)}")
        ).message

    def blobs(self, sha: str, folder: str) -> Mapping[str, str]:
        """The files in a folder of a commit, POSIX and from the top, with the blob of each; none where there is none.

        Raises:
            GitHubUnreachable: they are more than GitHub lists at once.
        """
        ask = Ask(act=f"the files in {_shown(folder)} of commit {sha[:12]}", needs=READ_CONTENTS)
        trees = f"{self._path}/git/trees"
        tree = _read(
            ask, _GitCommit, self._client.get(ask, f"{self._path}/git/commits/{_sha(ask, sha)}")
        ).tree.sha
        for part in PurePosixPath(folder).parts:
            entries = _read(ask, _Tree, self._client.get(ask, f"{trees}/{tree}")).tree
            found = next(
                (one.sha for one in entries if one.path == part and one.type == "tree"), None
            )
            if found is None:
                return {}
            tree = found
        listed = _read(ask, _Tree, self._client.get(ask, f"{trees}/{tree}", {"recursive": 1}))
        if listed.truncated:
            raise GitHubUnreachable(
                subject=ask.act,
                fact="GitHub listed only some of them",
                expectation="Which baselines are there has to be known whole",
                next_step="Keep baselines in a folder of their own.",
            )
        return {
            str(PurePosixPath(folder, one.path)): one.sha
            for one in listed.tree
            if one.type == "blob"
        }

    def blob(self, sha: str, *, limit_bytes: int) -> bytes:
        """What a blob holds.

        Raises:
            GitHubUnreachable: it is larger than the limit.
        """
        ask = Ask(act=f"file {sha[:12]}", needs=READ_CONTENTS)
        found = _read(ask, _Blob, self._client.get(ask, f"{self._path}/git/blobs/{_sha(ask, sha)}"))
        if found.size > limit_bytes:
            raise GitHubUnreachable(
                subject=ask.act,
                fact=f"it has {found.size:,} bytes",
                expectation=f"No more than {limit_bytes:,} are read",
                next_step="Look at what lies on the branch.",
            )
        return base64.b64decode(found.content)

    def _commit(self, ask: Ask, paths: Mapping[str, bytes], *, onto: str, message: str) -> str:
        """Make a commit that no branch is at yet."""
        parent = _read(
            ask, _GitCommit, self._client.get(ask, f"{self._path}/git/commits/{_sha(ask, onto)}")
        )
        entries = [
            {"path": path, "mode": "100644", "type": "blob", "sha": self._blob(ask, content)}
            for path, content in sorted(paths.items())
        ]
        tree = self._object(ask, "trees", {"base_tree": parent.tree.sha, "tree": entries})
        return self._object(ask, "commits", {"message": message, "tree": tree, "parents": [onto]})

    def _blob(self, ask: Ask, content: bytes) -> str:
        cleaned = self._client.clean(content.decode(errors="surrogateescape")).encode(
            errors="surrogateescape"
        )
        return self._object(
            ask,
            "blobs",
            {"content": base64.b64encode(cleaned).decode("ascii"), "encoding": "base64"},
        )

    def _object(self, ask: Ask, kind: str, body: Mapping[str, object]) -> str:
        # An object that is made twice is one object, or one that nothing points at.
        return _read(
            ask, _Object, self._client.send(ask, "POST", f"{self._path}/git/{kind}", body)
        ).sha

    def _list(
        self,
        ask: Ask,
        path: str,
        model: type[PayloadT],
        parameters: Mapping[str, str | int] | None = None,
        *,
        within: str | None = None,
    ) -> Iterator[PayloadT]:
        rows = TypeAdapter(list[model])  # type: ignore[valid-type]
        for page in self._client.pages(ask, path, parameters):
            listed = (
                page if within is None else page.get(within) if isinstance(page, dict) else None
            )
            try:
                yield from rows.validate_python(listed)
            except ValidationError as error:
                raise _not_understood(ask, error) from error


# GitHub's answers, as far as they are read

PayloadT = TypeVar("PayloadT", bound=Payload)


class _User(Payload):
    login: str


class _Named(Payload):
    full_name: str


class _Label(Payload):
    name: str


class _Side(Payload):
    label: str
    ref: str
    sha: ObjectName
    repo: _Named | None


class _Base(Payload):
    ref: str
    sha: ObjectName
    repo: _Named


class _Pull(Payload):
    number: int
    state: str
    title: str
    html_url: str
    user: _User | None
    head: _Side
    base: _Base
    labels: tuple[_Label, ...] = ()

    @property
    def record(self) -> PullRequest:
        return PullRequest(
            number=self.number,
            open=self.state == "open",
            title=self.title,
            url=self.html_url,
            author=None if self.user is None else self.user.login,
            head_sha=self.head.sha,
            head_branch=self.head.ref,
            head_repository=None if self.head.repo is None else self.head.repo.full_name,
            base_branch=self.base.ref,
            base_sha=self.base.sha,
            labels=tuple(label.name for label in self.labels),
            base_repository=self.base.repo.full_name,
        )


class _ChangedFile(Payload):
    filename: str = Field(min_length=1)
    previous_filename: str | None = None
    status: FileStatus

    @property
    def record(self) -> ChangedFile:
        return ChangedFile(
            path=self.filename, previous_path=self.previous_filename, status=self.status
        )


class _Comment(Payload):
    id: int
    user: _User | None
    body: str | None
    html_url: str

    @property
    def record(self) -> Comment:
        return Comment(
            id=self.id,
            author=None if self.user is None else self.user.login,
            body=self.body or "",
            url=self.html_url,
        )


class _Permission(Payload):
    permission: str


class _Run(Payload):
    id: int
    run_attempt: int = 1
    event: str
    status: str
    conclusion: str | None
    head_sha: ObjectName
    head_branch: str | None
    head_repository: _Named | None
    created_at: datetime
    html_url: str
    path: str = ""

    @property
    def record(self) -> Run:
        return Run(
            id=self.id,
            attempt=self.run_attempt,
            event=self.event,
            status=self.status,
            conclusion=self.conclusion,
            head_sha=self.head_sha,
            head_branch=self.head_branch,
            head_repository=None
            if self.head_repository is None
            else self.head_repository.full_name,
            created_at=self.created_at,
            url=self.html_url,
            file=PurePosixPath(self.path.partition("@")[0]).name,
        )


class _Artifact(Payload):
    id: int
    name: str
    size_in_bytes: int
    expired: bool
    created_at: datetime

    @property
    def record(self) -> Artifact:
        return Artifact(
            id=self.id,
            name=self.name,
            size_bytes=self.size_in_bytes,
            expired=self.expired,
            created_at=self.created_at,
        )


class _Object(Payload):
    sha: ObjectName


class _Ref(Payload):
    ref: str
    object: _Object


class _GitCommit(Payload):
    tree: _Object
    message: str = ""


class _Entry(Payload):
    path: str
    type: str
    sha: ObjectName


class _Tree(Payload):
    tree: list[_Entry]
    truncated: bool = False


class _Blob(Payload):
    content: str
    encoding: Literal["base64"]
    size: int


class _Job(Payload):
    runner_name: str | None
    labels: list[str]


def _read(ask: Ask, model: type[PayloadT], answer: object) -> PayloadT:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        raise _not_understood(ask, error) from error


def _not_understood(ask: Ask, error: ValidationError) -> GitHubUnreachable:
    return GitHubUnreachable(
        subject=ask.act,
        fact=f"the answer is not what GitHub's REST API says: {first_fault(error)}",
        expectation="Perhaps something between here and GitHub answered in its place",
        next_step="Look whether GITHUB_API_URL is GitHub's.",
    )


def _moved(branch: str, expected: str | None, now: str | None) -> BranchMoved:
    told = "It was not to be there" if expected is None else f"It was to be at {expected[:12]}"
    return BranchMoved(
        subject=f"branch {_shown(branch)}",
        fact=f"it is at {now[:12]}" if now is not None else "it is gone",
        expectation=f"{told}; nothing was committed",
        next_step="Start again, with what the branch is now.",
    )


def _branch(name: str) -> str:
    if not git.is_branch(name):
        raise GitHubRefused(
            subject=f"branch {_shown(name)}",
            fact="this can be no branch's name",
            expectation="GitHub was not asked",
            next_step="See git check-ref-format for what can.",
        )
    return name


def _sha(ask: Ask, sha: str) -> str:
    if not is_sha(sha):
        raise GitHubRefused(
            subject=ask.act,
            fact="this can be no commit's name",
            expectation="It has 40 or 64 hex digits; GitHub was not asked",
            next_step="Name the commit in full.",
        )
    return sha


def _quoted(branch: str) -> str:
    return quote(_branch(branch), safe="/")


def _workflow(ask: Ask, file: str) -> str:
    if _WORKFLOW_FILE.fullmatch(file) is None:
        raise GitHubRefused(
            subject=ask.act,
            fact="this can be no workflow's file",
            expectation="GitHub was not asked",
            next_step="Name a file of .github/workflows, as perfgate.yml.",
        )
    return file


def _path_in_tree(path: str) -> str:
    pure = PurePosixPath(path)
    bad = (
        pure.is_absolute()
        or str(pure) != path
        or any(part.casefold() in {"..", ".git"} for part in pure.parts)
    )
    if bad or "\\" in path or not path.isprintable() or path == ".":
        raise ValueError(f"no path of a file in a repository: {path!r}")
    return path


def _shown(name: str) -> str:
    return f'"{inert(name, longest=60)}"'
