"""What GitHub Actions tells a job by its environment and the event's file; asks GitHub nothing.

Each value is checked when it is asked for: a command needs only those that it uses. Much of an event is a stranger's
text (branches, titles, comments): it is data, for whoever asks to check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from perfgate.model.errors import ActionsContextMissing
from perfgate.model.secrets import Cleaner
from perfgate.render.page import inert

NAMES: Final = (
    "GITHUB_REPOSITORY",
    "GITHUB_API_URL",
    "GITHUB_SERVER_URL",
    "GITHUB_TOKEN",
    "GITHUB_EVENT_NAME",
    "GITHUB_EVENT_PATH",
    "GITHUB_RUN_ID",
    "GITHUB_RUN_ATTEMPT",
    "GITHUB_SHA",
    "GITHUB_REF",
    "GITHUB_WORKSPACE",
    "GITHUB_ACTOR",
)
LARGEST_EVENT: Final = 25 << 20
"""Bytes of an event's file; GitHub sends no larger ones."""

_REPOSITORY: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(?!\.\.?\Z)[\w.-]{1,100}", re.ASCII
)
_SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LOGIN: Final = re.compile(r"[A-Za-z0-9][\w-]{0,99}(?:\[bot\])?", re.ASCII)

_NEXT_STEP: Final = "It is meant for a job of GitHub Actions: see perfgate's workflows."


class Payload(BaseModel):
    """The base of what is read of an event or of an answer: the fields that are used; what else is there is left."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="ignore", allow_inf_nan=False
    )


PayloadT = TypeVar("PayloadT", bound=Payload)


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The job's surroundings. Every property raises ActionsContextMissing where its value is missing or malformed."""

    values: Mapping[str, str] = field(repr=False)
    """Of `NAMES`, those that are set; the token among them, so it is not shown."""
    cleaner: Cleaner = field(default_factory=Cleaner, repr=False, compare=False)
    """Takes the secrets of the whole environment out of what is published."""

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Context:
        """Take what GitHub Actions set in an environment. Nothing is missed yet."""
        return cls(
            values={name: env[name] for name in NAMES if env.get(name, "").strip()},
            cleaner=Cleaner(env),
        )

    @property
    def repository(self) -> str:
        """`owner/name`."""
        return self._matching("GITHUB_REPOSITORY", _REPOSITORY, "owner/name")

    @property
    def owner(self) -> str:
        """The user or organisation that the repository belongs to."""
        return self.repository.partition("/")[0]

    @property
    def api_url(self) -> str:
        """The REST API's address, without a slash at its end."""
        return self._address("GITHUB_API_URL")

    @property
    def server_url(self) -> str:
        """The website's address, without a slash at its end."""
        return self._address("GITHUB_SERVER_URL")

    @property
    def token(self) -> str:
        """What the job may do with the API; a secret."""
        if "GITHUB_TOKEN" not in self.values:
            raise ActionsContextMissing(
                subject="GITHUB_TOKEN",
                fact="it is not set",
                expectation="GitHub gives the token to a step only where the workflow hands it over",
                next_step="Add to the step: env: {GITHUB_TOKEN: ${{ github.token }}}",
            )
        token = self.values["GITHUB_TOKEN"].strip()
        if not token.isascii() or not token.isprintable() or " " in token:
            raise _wrong(
                "GITHUB_TOKEN",
                "it holds characters that no token has",
                "It is one word of ASCII letters",
            )
        return token

    @property
    def event_name(self) -> str:
        """What started the workflow: `pull_request`, `workflow_run`..."""
        return self._matching("GITHUB_EVENT_NAME", re.compile(r"[a-z_]+"), "the name of an event")

    @property
    def run_id(self) -> int:
        """The run of the workflow."""
        return self._number("GITHUB_RUN_ID")

    @property
    def run_attempt(self) -> int:
        """How often this run was started, from 1."""
        return self._number("GITHUB_RUN_ATTEMPT")

    @property
    def sha(self) -> str:
        """The commit that started the workflow: of a pull request its merge commit, not its head."""
        return self._matching("GITHUB_SHA", _SHA, "a commit")

    @property
    def ref(self) -> str:
        """As `refs/heads/...`; a branch's name is its author's choice."""
        return self._matching(
            "GITHUB_REF", re.compile(r"refs/[^\x00-\x20\x7f]+"), "refs/heads/..., for example"
        )

    @property
    def branch(self) -> str:
        """The branch that `ref` is."""
        kind, _, name = self.ref.partition("refs/heads/")
        if kind or not name:
            raise _wrong(
                "GITHUB_REF", f"it is {_shown(self.ref)}", "A branch is wanted: refs/heads/..."
            )
        return name

    @property
    def workspace(self) -> Path:
        """Where the repository is checked out."""
        return Path(self._text("GITHUB_WORKSPACE"))

    @property
    def actor(self) -> str:
        """The login of whoever, or whatever, started the run."""
        return self._matching("GITHUB_ACTOR", _LOGIN, "a login")

    @property
    def run_url(self) -> str:
        """This run's page."""
        return self.page_of_run(self.run_id)

    def page_of_run(self, run_id: int, attempt: int | None = None) -> str:
        """The address of a run of this repository, or of one attempt of it."""
        page = f"{self.server_url}/{self.repository}/actions/runs/{run_id:d}"
        return page if attempt is None else f"{page}/attempts/{attempt:d}"

    def page_of_artifact(self, run_id: int, artifact_id: int) -> str:
        """The address at which a person downloads an artifact of a run."""
        return f"{self.page_of_run(run_id)}/artifacts/{artifact_id:d}"

    def event(self) -> Mapping[str, object]:
        """Read the event's file: a JSON object, of which each part may be a stranger's.

        Raises:
            ActionsContextMissing: there is no such file, it is too large or not an object.
        """
        file = Path(self._text("GITHUB_EVENT_PATH"))
        expectation = f"It should be a JSON object of at most {LARGEST_EVENT >> 20} MiB"
        try:
            with file.open("rb") as stream:
                content = stream.read(LARGEST_EVENT + 1)
        except OSError as error:
            raise _wrong(
                str(file), f"the event cannot be read: {error.strerror or error}", expectation
            ) from error
        if len(content) > LARGEST_EVENT:
            raise _wrong(str(file), "the event is too large", expectation)
        try:
            event = json.loads(content, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise _wrong(str(file), "the event is not JSON", expectation) from error
        if not isinstance(event, dict):
            raise _wrong(str(file), "the event is not an object", expectation)
        return event

    def event_as(self, model: type[PayloadT]) -> PayloadT:
        """Read the parts of the event that a command needs.

        Raises:
            ActionsContextMissing: as of `event`, or a part is missing or of another form.
        """
        try:
            return model.model_validate(self.event())
        except ValidationError as error:
            raise _wrong(
                f"event {self.event_name}",
                f"it is not what this command is for: {first_fault(error)}",
                "It should be the event that the workflow of this command is started by",
            ) from error

    def _text(self, name: str) -> str:
        if name not in self.values:
            raise _wrong(name, "it is not set", "GitHub Actions sets it in every job")
        return self.values[name].strip()

    def _checked(self, name: str, what: str, accepts: Callable[[str], object]) -> str:
        text = self._text(name)
        if not accepts(text):
            raise _wrong(name, f"it is {_shown(text)}", f"It should be {what}")
        return text

    def _matching(self, name: str, pattern: re.Pattern[str], what: str) -> str:
        return self._checked(name, what, pattern.fullmatch)

    def _number(self, name: str) -> int:
        return int(self._matching(name, re.compile(r"[1-9][0-9]{0,18}"), "a number from 1"))

    def _address(self, name: str) -> str:
        return self._checked(name, "an address as https://api.github.com", _is_address).rstrip("/")


def first_fault(error: ValidationError) -> str:
    """Where and what the first thing wrong is; without the value, which may be a stranger's."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in fault["loc"]) or "the whole"
    return inert(f"{place}: {fault['msg']}", longest=200)


def is_sha(text: str) -> bool:
    """Whether a text is a commit's full name."""
    return _SHA.fullmatch(text) is not None


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    return (
        parts.scheme in {"https", "http"}
        and re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9a-f:]+\]", parts.netloc.removesuffix(f":{port}"))
        is not None
        and re.fullmatch(r"(?:/[\w.-]+)*/?", parts.path, re.ASCII) is not None
        and not (parts.query or parts.fragment or text.endswith(("?", "#")))
    )


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def _shown(text: str) -> str:
    return f'"{inert(text, longest=80)}"'


def _wrong(subject: str, fact: str, expectation: str) -> ActionsContextMissing:
    return ActionsContextMissing(
        subject=subject, fact=fact, expectation=expectation, next_step=_NEXT_STEP
    )
