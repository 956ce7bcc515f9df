"""Requests to GitHub's REST API through PyGithub: patience, time limits and errors; knows no request by name.

The only file that imports PyGithub, which is an extra; `perfgate.github.api` loads it when it connects.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Final, cast
from urllib.parse import urlsplit

import github
import requests
from github.GithubException import GithubException
from github.GithubRetry import GithubRetry
from github.Requester import Requester
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse, HTTPResponse, Retry
from urllib3.connectionpool import ConnectionPool
from urllib3.exceptions import MaxRetryError

from perfgate.github.asking import Ask, Patience
from perfgate.model.errors import ArtifactUnreadable, GitHubRefused, GitHubUnreachable
from perfgate.render.page import inert, uncommanding

API_VERSION: Final = "2022-11-28"
PER_PAGE: Final = 100
MOST_PAGES: Final = 100
LONGEST_MESSAGE: Final = 300
_CHUNK: Final = 1 << 16
_LIMITED: Final = (403, 429)
_UNSAID_WAIT_S: Final = 60.0
"""Where a rate limit does not say how long; what GitHub's documentation asks for."""


# PyGithub tells of each failure on stderr, in the middle of what the command says.
logging.getLogger("github").setLevel(logging.ERROR)


class Waiting(GithubRetry):
    """Repeats what failed for the moment.

    A rate limit is told before anything was done, so any request may be repeated after it. After another failure
    of GitHub's only those of `allowed_methods` are: the request may have been carried out.
    """

    longest_wait_s: float = 120.0
    _wait_s: float | None = None

    def new(self, **changes: object) -> Waiting:
        """Return a copy, which has its own time to wait."""
        made: Waiting = super().new(**changes)
        made.longest_wait_s = self.longest_wait_s
        return made

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:  # noqa: FBT001, FBT002 - urllib3's
        """Say whether an answer is looked at again."""
        return status_code in _LIMITED or super().is_retry(method, status_code, has_retry_after)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        error: Exception | None = None,
        _pool: ConnectionPool | None = None,
        _stacktrace: TracebackType | None = None,
    ) -> Waiting:
        """Return what is left of the patience after one more failure."""
        try:
            wait = None if response is None else self._wait_for(response)
            if wait is None:
                answer = response if isinstance(response, HTTPResponse) else None
                return cast(
                    "Waiting", super().increment(method, url, answer, error, _pool, _stacktrace)
                )
            if wait > self.longest_wait_s:
                raise Limited(wait)
            left = Retry.increment(self, method, url, response, error, _pool, _stacktrace)
        except MaxRetryError as spent:
            if response is None or response.status != 403:
                raise
            # A 403 is repeated only for a rate limit, and its text, which said so, has been read by now.
            response.close()
            raise Limited(None) from spent
        except (Limited, GithubException):
            if response is not None:
                response.close()  # urllib3 expects no other error here, and would leave the connection open
            raise
        left._wait_s = wait
        return left

    def get_backoff_time(self) -> float:
        """Seconds to wait where no Retry-After says it."""
        return super().get_backoff_time() if self._wait_s is None else self._wait_s

    def _wait_for(self, response: BaseHTTPResponse) -> float | None:
        """Seconds that a rate limit asks for; None of other answers, and of a 403 of which only the text can tell."""
        if response.status not in _LIMITED:
            return None
        told = response.headers.get("Retry-After", "").strip()
        if told.isdigit():
            return float(told)
        reset, date = response.headers.get("X-RateLimit-Reset", ""), response.headers.get("Date")
        if (
            response.headers.get("X-RateLimit-Remaining") == "0"
            and reset.isdigit()
            and date is not None
        ):
            # By GitHub's own clock. One more, since the reset may be anywhere in its second.
            return max(int(reset) - parsedate_to_datetime(date).timestamp(), 0) + 1
        return _UNSAID_WAIT_S if response.status == 429 else None


class Limited(Exception):
    """A rate limit that is not waited for, or not any more."""

    def __init__(self, wait_s: float | None) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s
        """None: GitHub did not say how long."""


_FAILURES: Final = (
    GithubException,
    requests.RequestException,
    Limited,
    RuntimeError,
    ValueError,
    AssertionError,
)
"""What PyGithub raises: its own, those of the connection, and those of a redirection or an answer that is no JSON."""


PUBLISHED: Final = frozenset({"title", "body", "message"})
"""What people read of what is sent."""


class Client:
    """A connection to the API of one GitHub."""

    def __init__(
        self, *, api_url: str, token: str, patience: Patience, clean: Callable[[str], str]
    ) -> None:
        self.clean = clean
        """Takes secrets out of what is published."""
        self._api_url = api_url
        self._patience = patience
        self._careful = self._requester(token, {"GET", "HEAD", "PATCH", "PUT", "DELETE"})
        self._repeating = self._requester(token, {"GET", "HEAD", "PATCH", "PUT", "DELETE", "POST"})

    def get(self, ask: Ask, path: str, parameters: Mapping[str, str | int] | None = None) -> object:
        """Return what is at a path."""
        return self._answer(ask, "GET", path, parameters=parameters)[1]

    def pages(
        self, ask: Ask, path: str, parameters: Mapping[str, str | int] | None = None
    ) -> Iterator[object]:
        """Yield page after page of a list."""
        asked = {**(parameters or {}), "per_page": PER_PAGE}
        headers, page = self._answer(ask, "GET", path, parameters=asked)
        yield page
        for _ in range(MOST_PAGES - 1):
            following = requests.utils.parse_header_links(headers.get("link", ""))
            address = next((link["url"] for link in following if link.get("rel") == "next"), None)
            if address is None:
                return
            if not address.startswith(f"{self._api_url}/"):
                raise _odd(ask, "the next page is said to be at another address than the API")
            headers, page = self._answer(ask, "GET", address)
            yield page
        raise _odd(ask, f"there are more than {MOST_PAGES} pages")

    def send(
        self, ask: Ask, verb: str, path: str, body: Mapping[str, object], *, again: bool = True
    ) -> object:
        """Make a change and return GitHub's answer.

        Args:
            ask: what for.
            verb: of HTTP.
            path: of the API.
            body: sent as JSON.
            again: whether doing it twice is as good as once, so that a POST may be repeated after an error of GitHub's.
        """
        cleaned = {
            name: self.clean(str(value)) if name in PUBLISHED else value
            for name, value in body.items()
        }
        return self._answer(ask, verb, path, body=cleaned, again=again)[1]

    def fetch(self, ask: Ask, path: str, *, limit_bytes: int) -> bytes:
        """Return the file that a path of the API redirects to; the token is not shown at that other address.

        Raises:
            ArtifactUnreadable: it is larger than the limit.
        """
        headers, _ = self._answer(ask, "GET", path)
        address = headers.get("location", "")
        scheme, host = urlsplit(address).scheme, urlsplit(address).hostname
        if not host or scheme not in {"https", urlsplit(self._api_url).scheme}:
            raise _odd(ask, "it does not say at which address the file is")
        # The address holds a signature: it goes into no message.
        try:
            return self._stream(ask, address, limit_bytes)
        except requests.RequestException as error:
            raise _unreachable(ask, f"{host}: {type(error).__name__}") from None

    def _stream(self, ask: Ask, address: str, limit_bytes: int) -> bytes:
        patience = self._patience
        with requests.Session() as session:
            session.auth = _nobody
            retry = Retry(
                total=patience.repeats,
                backoff_factor=patience.backoff_s,
                status_forcelist=(*range(500, 600), 429),
                respect_retry_after_header=False,
                raise_on_status=False,
            )
            session.mount("https://", HTTPAdapter(max_retries=retry))
            session.mount("http://", HTTPAdapter(max_retries=retry))
            give_up = time.monotonic() + patience.download_s
            with session.get(
                address, stream=True, allow_redirects=False, timeout=patience.timeout_s
            ) as answer:
                if answer.status_code != 200:
                    raise _unreachable(ask, f"the file's server answered {answer.status_code}")
                content = bytearray()
                for chunk in answer.iter_content(_CHUNK):
                    content += chunk
                    if len(content) > limit_bytes:
                        raise ArtifactUnreadable(
                            subject=ask.act,
                            fact=f"it is larger than {limit_bytes} bytes",
                            expectation="So much is not taken from a run",
                            next_step="Look at the run's artifacts by hand.",
                        )
                    if time.monotonic() > give_up:
                        raise _unreachable(
                            ask, f"the file did not come within {patience.download_s:g} s"
                        )
                return bytes(content)

    def _requester(self, token: str, methods: set[str]) -> Requester:
        patience = self._patience
        waiting = Waiting(
            total=patience.repeats,
            backoff_factor=patience.backoff_s,
            allowed_methods=methods,
            raise_on_status=False,
            secondary_rate_wait=min(_UNSAID_WAIT_S, patience.longest_wait_s),
        )
        waiting.longest_wait_s = patience.longest_wait_s
        return github.Github(
            auth=github.Auth.Token(token),
            base_url=self._api_url,
            timeout=patience.timeout_s,
            user_agent="perfgate",
            retry=waiting,
            seconds_between_requests=None,
            seconds_between_writes=patience.between_writes_s,
        ).requester

    def _answer(
        self,
        ask: Ask,
        verb: str,
        path: str,
        *,
        parameters: Mapping[str, str | int] | None = None,
        body: Mapping[str, object] | None = None,
        again: bool = True,
    ) -> tuple[Mapping[str, str], object]:
        requester = self._repeating if again else self._careful
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION}
        try:
            return requester.requestJsonAndCheck(
                verb, path, None if parameters is None else dict(parameters), headers, body
            )
        except _FAILURES as error:
            raise _told(ask, error) from error


def _nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keeps a .netrc file out of it."""
    return request


def _told(ask: Ask, error: Exception) -> GitHubRefused | GitHubUnreachable:
    """What went wrong, in words: GitHub's own where it said something."""
    if isinstance(error, Limited):
        rest = "" if error.wait_s is None else f" for {error.wait_s:.0f} s more"
        return GitHubUnreachable(
            subject=ask.act,
            fact=f"GitHub's rate limit lasts{rest}",
            expectation="So long is not waited for",
            next_step="Run the job again later.",
        )
    if not isinstance(error, GithubException):
        return _unreachable(ask, type(error).__name__)
    told = f"GitHub answered {error.status}: {_message(error.data)}"
    if error.status >= 500 or _is_rate_limit(error):
        return _unreachable(ask, told)
    return GitHubRefused(
        subject=ask.act,
        fact=told,
        expectation=_expectation(ask, error),
        next_step=_next_step(ask, error),
    )


def _is_rate_limit(error: GithubException) -> bool:
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    return (
        error.status == 429
        or "retry-after" in headers
        or headers.get("x-ratelimit-remaining") == "0"
        or Requester.isRateLimitError(_message(error.data))
    )


def _expectation(ask: Ask, error: GithubException) -> str:
    match error.status:
        case 401:
            return "The token should be one that GitHub knows and that has not ended"
        case 403:
            return f"The token needs {ask.needs}"
        case 404:
            return f"It should be there, and the token may see it only with {ask.needs}"
        case _:
            return ""


def _next_step(ask: Ask, error: GithubException) -> str:
    match error.status:
        case 401:
            return "Hand the job's own token over: env: {GITHUB_TOKEN: ${{ github.token }}}"
        case 403:
            return f"Give it to the job, in its workflow: permissions: {{{ask.needs}}}{ask.or_else}"
        case 404:
            return f"Look whether it is still there, and whether the job has permissions: {{{ask.needs}}}"
        case _:
            return (
                ask.or_else.strip()
                or "See GitHub's documentation of its REST API for what it wants."
            )


def _message(data: object) -> str:
    """GitHub's message with its list of errors, on one line; names of strangers may be in it."""
    if not isinstance(data, Mapping):
        return "nothing more"
    parts = [data.get("message")]
    errors = data.get("errors")
    for one in errors if isinstance(errors, list) else []:
        if isinstance(one, Mapping):
            parts.append(
                one.get("message")
                or " ".join(str(one.get(key, "")) for key in ("resource", "field", "code"))
            )
        else:
            parts.append(one)
    told = ": ".join(str(part).strip().rstrip(".") for part in parts if part)
    return uncommanding(inert(" ".join(told.split()) or "nothing more", longest=LONGEST_MESSAGE))


def _unreachable(ask: Ask, fact: str) -> GitHubUnreachable:
    return GitHubUnreachable(
        subject=ask.act,
        fact=fact,
        expectation="It was asked again where that can do no harm",
        next_step="Run the job again; https://www.githubstatus.com/ tells of failures.",
    )


def _odd(ask: Ask, fact: str) -> GitHubUnreachable:
    return GitHubUnreachable(
        subject=ask.act,
        fact=fact,
        expectation="That is not GitHub's REST API as perfgate knows it",
        next_step="Look whether GITHUB_API_URL is GitHub's.",
    )
