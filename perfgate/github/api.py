"""GitHub's REST API by PyGithub's own objects: how long it is waited for, how it fails, and what it
never learns.

Names, branches and texts in its answers may be a stranger's: they are data.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from perfgate.github.context import Context
from perfgate.model.errors import (
    ArtifactUnreadable,
    BranchMoved,
    GitHubRefused,
    GitHubUnreachable,
    PackageMissing,
    PerfgateError,
)

try:
    import requests
    from github import Auth, Github, InputGitTreeElement
    from github.Artifact import Artifact
    from github.GithubException import GithubException
    from github.GithubRetry import GithubRetry
    from github.GitRef import GitRef
    from github.Repository import Repository
    from github.Requester import Requester
except ModuleNotFoundError as error:
    raise PackageMissing("github-package-missing", package=str(error.name)) from error

LONGEST_COMMENT: Final = 65_536
"""Characters that GitHub takes."""
MOST_CHANGED_FILES: Final = 3000
"""Of one pull request, that GitHub lists; of further ones it says nothing."""

_CHUNK: Final = 1 << 16
_LIMITED: Final = (403, 429)
_PUBLISHED: Final = frozenset({"title", "body", "message", "content"})
"""Keys of what is sent whose values people read."""
_PERMISSIONS: Final = {
    "pulls": "pull-requests",
    "issues": "pull-requests",
    "actions": "actions",
    "git": "contents",
    "collaborators": "metadata",
}
"""The permission that a path below a repository needs."""

_REFUSALS: Final = {
    401: "github-token-unknown",
    403: "github-forbidden",
    404: "github-not-found",
}

# PyGithub logs each failure to stderr, in the middle of what the command says.
logging.getLogger("github").setLevel(logging.ERROR)


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long GitHub is waited for."""

    timeout_s: int = 20
    """For a connection, and for each part of an answer."""
    repeats: int = 4
    backoff_s: float = 1.0
    """Doubled with each repeat; the first is made at once."""
    longest_wait_s: float = 300.0
    """The longest rate limit that is waited for."""
    between_writes_s: float = 1.0
    """What GitHub asks for between changes."""


PATIENCE: Final = Patience()


def connect(context: Context) -> Repository:
    """Return the repository of a job; asks nothing yet.

    All that is asked through it raises GitHubRefused where GitHub says no, and GitHubUnreachable
    where it does not answer, also not when asked again.

    Raises:
        ActionsContextMissing: the repository, the API's address or the token is missing.
    """
    retry = _Retry(
        total=PATIENCE.repeats,
        backoff_factor=PATIENCE.backoff_s,
        status_forcelist=[*range(500, 600), 429],
        allowed_methods={"GET", "HEAD", "PATCH", "DELETE"},
        max_rate_limit_wait=PATIENCE.longest_wait_s,
    )
    plain = Github(
        auth=Auth.Token(context.token),
        base_url=context.api_url,
        timeout=PATIENCE.timeout_s,
        user_agent="perfgate",
        per_page=100,
        retry=retry,
        seconds_between_requests=None,
        seconds_between_writes=PATIENCE.between_writes_s,
        lazy=True,
    )
    requester = _Requester(**plain.requester.kwargs)
    requester.context = context
    name = context.repository
    return Repository(requester, attributes={"url": f"/repos/{name}", "full_name": name})


class _Retry(GithubRetry):
    """Repeats what failed for the moment.

    A rate limit is known before anything was done, so any request may be repeated after it. After
    another failure of GitHub's only those of `allowed_methods` are: the request may have been
    carried out.
    """

    def is_retry(
        self,
        method: str,
        status_code: int,
        has_retry_after: bool = False,  # noqa: FBT001, FBT002 - urllib3's
    ) -> bool:
        """Say whether an answer is looked at again."""
        return status_code in _LIMITED or super().is_retry(method, status_code, has_retry_after)


class _Requester(Requester):
    """Takes secrets out of what is published, and turns failures into perfgate's errors."""

    context: Context

    def requestJsonAndCheck(  # noqa: N802 - PyGithub's
        self,
        verb: str,
        url: str,
        parameters: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        input: Any | None = None,  # noqa: A002, ANN401
        follow_302_redirect: bool = False,  # noqa: FBT001, FBT002
    ) -> tuple[dict[str, Any], Any]:
        """Ask, and return the headers and the content of the answer."""
        sent = self._cleaned(input)
        try:
            found, answer = super().requestJsonAndCheck(
                verb, url, parameters, headers, sent, follow_302_redirect
            )
            if isinstance(answer, dict) and isinstance(answer.get("data"), str):
                raise requests.exceptions.InvalidJSONError("the answer is no JSON")
        except _FAILURES as error:
            raise _failure(verb, url, error) from error
        return found, answer

    def _cleaned(self, sent: object, key: str = "") -> Any:  # noqa: ANN401 - JSON
        match sent:
            case str() if key in _PUBLISHED:
                return self.context.cleaner.clean(sent)
            case dict():
                return {name: self._cleaned(value, name) for name, value in sent.items()}
            case list():
                return [self._cleaned(one) for one in sent]
            case _:
                return sent


_FAILURES: Final = (
    *(GithubException, requests.RequestException, RuntimeError, ValueError, AssertionError),
)
"""What PyGithub raises: its own, those of the connection, and those of a redirection or an answer
that is no JSON."""


def _failure(verb: str, url: str, error: Exception) -> PerfgateError:
    path = urlsplit(url).path
    request = f"{verb} {path[path.find('/repos/') :]}"
    if not isinstance(error, GithubException):
        return GitHubUnreachable("github-unreachable", request=request, reason=str(error))
    answered = {
        "request": request,
        "status": error.status,
        "message": _message(error.data),
        "needs": _needs(verb, path),
    }
    if error.status >= 500 or error.status == 429 or _is_rate_limit(error):
        return GitHubUnreachable("github-fails", **answered)
    code = _REFUSALS.get(error.status, "github-refused")
    if error.status == 403 and verb == "POST" and path.endswith("/pulls"):
        code = "github-pulls-forbidden"
    return GitHubRefused(code, **answered)


def _is_rate_limit(error: GithubException) -> bool:
    return "retry-after" in (error.headers or {}) or Requester.isRateLimitError(
        _message(error.data)
    )


def _needs(verb: str, path: str) -> str:
    found = re.search(r"/repos/[^/]+/[^/]+/(\w+)", path)
    area = _PERMISSIONS.get(found[1], "contents") if found else "metadata"
    return f"{area}: {'read' if verb == 'GET' else 'write'}"


def _message(data: object) -> str:
    """GitHub's message with its list of errors; names of strangers may be in it."""
    if not isinstance(data, Mapping):
        return ""
    errors = [
        one.get("message") or one.get("code") if isinstance(one, Mapping) else one
        for one in data.get("errors") or ()
    ]
    return ": ".join(
        str(part).strip().rstrip(".") for part in (data.get("message"), *errors) if part
    )


def download(artifact: Artifact, *, limit_bytes: int) -> bytes:
    """Return an artifact's zip file; the token is not shown at the address where it lies.

    Raises:
        ArtifactUnreadable: it is larger than the limit.
        GitHubUnreachable: it does not come.
    """
    url = artifact.archive_download_url
    headers, _ = artifact.requester.requestJsonAndCheck("GET", url)
    content = bytearray()
    # The address holds a signature: it goes into no message.
    try:
        with requests.get(
            headers.get("location", ""),
            stream=True,
            allow_redirects=False,
            auth=lambda request: request,  # keeps a .netrc file out of it
            timeout=PATIENCE.timeout_s,
        ) as answer:
            answer.raise_for_status()
            for chunk in answer.iter_content(_CHUNK):
                content += chunk
                if len(content) > limit_bytes:
                    raise ArtifactUnreadable(
                        "artifact-too-large", artifact=artifact.name, limit_bytes=limit_bytes
                    )
    except requests.RequestException as failed:
        raise GitHubUnreachable(
            "artifact-not-downloaded", artifact=artifact.name, reason=type(failed).__name__
        ) from None
    return bytes(content)


# Files and branches


def content_of(repository: Repository, path: str, sha: str) -> bytes | None:
    """Return what a file of a commit holds; None where there is no such file."""
    try:
        found = repository.get_contents(path, ref=sha)
    except GitHubRefused as refused:
        if refused.code != "github-not-found":
            raise
        return None
    return None if isinstance(found, list) else found.decoded_content


def commit(repository: Repository, *, onto: str, files: Mapping[str, str], message: str) -> str:
    """Make a commit in which these files are what is given, that no branch is at yet; return its
    SHA."""
    parent = repository.get_git_commit(onto)
    entries = [
        InputGitTreeElement(path, "100644", "blob", content=content)
        for path, content in sorted(files.items())
    ]
    tree = repository.create_git_tree(entries, parent.tree)
    return repository.create_git_commit(message, tree, [parent]).sha


def move_branch(
    repository: Repository, branch: str, *, expected: str | None, to: str, force: bool = False
) -> None:
    """Let a branch be at another commit; make it where it was not expected to be there.

    Raises:
        BranchMoved: it is not where it was expected; it stays as it is.
    """
    ref = _ref(repository, branch)
    now = None if ref is None else ref.object.sha
    if now != expected:
        raise BranchMoved(
            "branch-moved", branch=branch, commit=now or "gone", expected=expected or "not there"
        )
    if ref is None:
        repository.create_git_ref(f"refs/heads/{branch}", to)
    else:
        ref.edit(to, force=force)


def head_of(repository: Repository, branch: str) -> str | None:
    """Return the commit that a branch is at; None where there is no such branch."""
    ref = _ref(repository, branch)
    return None if ref is None else ref.object.sha


def _ref(repository: Repository, branch: str) -> GitRef | None:
    # One that begins with this name is in this list too, but it is an answer where the exact one is
    # missing.
    refs = repository.get_git_matching_refs(f"heads/{branch}")
    return next((ref for ref in refs if ref.ref == f"refs/heads/{branch}"), None)
