"""GitHub's REST API by PyGithub's own objects: how long it is waited for, how it fails, and what it
never learns.

Names, branches and texts in its answers may be a stranger's: they are data.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from perfgate.github.context import variable
from perfgate.model.errors import (
    GitHubRefused,
    GitHubUnreachable,
    PackageMissing,
    PerfgateError,
)
from perfgate.model.secrets import Cleaner

try:
    import requests
    from github import Auth, Github
    from github.GithubException import GithubException, RateLimitExceededException
    from github.GithubRetry import GithubRetry
    from github.Repository import Repository
    from github.Requester import Requester
except ModuleNotFoundError as error:
    raise PackageMissing("github-package-missing", package=str(error.name)) from error

TIMEOUT_S: Final = 20
"""For a connection, and for each part of an answer."""
RETRY: Final = GithubRetry(
    total=4,
    backoff_factor=1.0,
    max_rate_limit_wait=300.0,
    allowed_methods=frozenset({"GET", "PATCH", "DELETE"}),
)
"""A POST is never repeated: it may have been carried out."""
BETWEEN_WRITES_S: Final = 1.0
"""What GitHub asks for between changes."""

_PUBLISHED: Final = frozenset({"title", "body", "message", "content"})
"""Keys of what is sent whose values people read."""

# PyGithub logs each failure to stderr, in the middle of what the command says.
logging.getLogger("github").setLevel(logging.ERROR)


def connect(env: Mapping[str, str]) -> Repository:
    """Return the repository of a job; asks nothing yet.

    All that is asked through it raises GitHubRefused where GitHub says no, and GitHubUnreachable
    where it does not answer, also not when asked again.

    Raises:
        ActionsContextMissing: the repository, the API's address or the token is missing.
    """
    plain = Github(
        auth=Auth.Token(variable(env, "GITHUB_TOKEN")),
        base_url=variable(env, "GITHUB_API_URL"),
        timeout=TIMEOUT_S,
        user_agent="perfgate",
        per_page=100,
        retry=RETRY,
        seconds_between_requests=None,
        seconds_between_writes=BETWEEN_WRITES_S,
        lazy=True,
    )
    requester = _Requester(**plain.requester.kwargs)
    requester.cleaner = Cleaner(env)
    name = variable(env, "GITHUB_REPOSITORY")
    return Repository(requester, attributes={"url": f"/repos/{name}", "full_name": name})


class _Requester(Requester):
    """Takes secrets out of what is published, and turns failures into perfgate's errors."""

    cleaner: Cleaner

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
        # What PyGithub raises: its own, those of the connection, and those of a redirection or an
        # answer that is no JSON.
        except (
            *(GithubException, requests.RequestException),
            *(RuntimeError, ValueError, AssertionError),
        ) as error:
            raise _failure(f"{verb} {urlsplit(url).path}", error) from error
        return found, answer

    def _cleaned(self, sent: object, key: str = "") -> Any:  # noqa: ANN401 - JSON
        match sent:
            case str() if key in _PUBLISHED:
                return self.cleaner.clean(sent)
            case dict():
                return {name: self._cleaned(value, name) for name, value in sent.items()}
            case list():
                return [self._cleaned(one) for one in sent]
            case _:
                return sent


def _failure(request: str, error: Exception) -> PerfgateError:
    is_refusal = (
        isinstance(error, GithubException)
        and error.status < 500
        and error.status != 429
        and not isinstance(error, RateLimitExceededException)
    )
    if is_refusal:
        return GitHubRefused("github-refused", request=request, reason=str(error))
    return GitHubUnreachable("github-unreachable", request=request, reason=str(error))
