"""What GitHub Actions says to a job by its environment and the event's file, and the files by which
a job speaks to it; asks GitHub nothing.

Each value is checked when it is asked for: a command needs only those that it uses. Much of an
event is a stranger's text (branches, titles, comments): it is data, for whoever asks to check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from perfgate.model.errors import ActionsContextMissing, StoreFailed
from perfgate.model.secrets import Cleaner
from perfgate.system import git

_ADDRESS: Final = r"https?://(?:[A-Za-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?(?:/[\w.-]+)*/?"
_FORMS: Final[Mapping[str, str]] = {
    "GITHUB_REPOSITORY": r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(?!\.\.?\Z)[\w.-]{1,100}",
    "GITHUB_API_URL": _ADDRESS,
    "GITHUB_SERVER_URL": _ADDRESS,
    "GITHUB_TOKEN": r"[!-~]+",
    "GITHUB_EVENT_NAME": r"[a-z_]+",
    "GITHUB_EVENT_PATH": r".+",
    "GITHUB_RUN_ID": r"[1-9][0-9]{0,18}",
    "GITHUB_SHA": r"[0-9a-f]{40}|[0-9a-f]{64}",
    "GITHUB_REF": r"refs/heads/[^\x00-\x20\x7f]+",
    "GITHUB_ACTOR": r"[A-Za-z0-9][\w-]{0,99}(?:\[bot\])?",
}
"""The environment's variables that are read, each with its form as a regular expression."""


class Payload(BaseModel):
    """The base of what is read of an event: the fields that are used, and no others."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="ignore", allow_inf_nan=False
    )


PayloadT = TypeVar("PayloadT", bound=Payload)


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The job's surroundings. Every property raises ActionsContextMissing where its value is
    missing or malformed."""

    values: Mapping[str, str] = field(repr=False)
    """The token is among them, so it is not shown."""
    cleaner: Cleaner = field(default_factory=Cleaner, repr=False, compare=False)
    """Takes the secrets of the whole environment out of what is published."""

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Context:
        """Take what GitHub Actions set in an environment. Nothing is missed yet."""
        return cls(
            values={name: env[name].strip() for name in _FORMS if env.get(name, "").strip()},
            cleaner=Cleaner(env),
        )

    @property
    def repository(self) -> str:
        """`owner/name`."""
        return self._value("GITHUB_REPOSITORY")

    @property
    def api_url(self) -> str:
        """The REST API's address, without a slash at its end."""
        return self._value("GITHUB_API_URL").rstrip("/")

    @property
    def token(self) -> str:
        """What the job may do with the API; a secret."""
        if "GITHUB_TOKEN" not in self.values:
            raise ActionsContextMissing("actions-token-missing")
        return self._value("GITHUB_TOKEN")

    @property
    def event_name(self) -> str:
        """What started the workflow: `pull_request`, `workflow_run`..."""
        return self._value("GITHUB_EVENT_NAME")

    @property
    def run_id(self) -> int:
        """The run of the workflow."""
        return int(self._value("GITHUB_RUN_ID"))

    @property
    def sha(self) -> str:
        """The commit that started the workflow: of a pull request its merge, not its head."""
        return self._value("GITHUB_SHA")

    @property
    def branch(self) -> str:
        """The branch that the run is on; its name is its author's choice."""
        return self._value("GITHUB_REF").removeprefix("refs/heads/")

    @property
    def actor(self) -> str:
        """The login of whoever, or whatever, started the run."""
        return self._value("GITHUB_ACTOR")

    @property
    def page(self) -> str:
        """The address of the repository on the website."""
        return f"{self._value('GITHUB_SERVER_URL').rstrip('/')}/{self.repository}"

    def page_of_run(self, run_id: int, attempt: int | None = None) -> str:
        """The address of a run of this repository, or of one attempt of it."""
        page = f"{self.page}/actions/runs/{run_id:d}"
        return page if attempt is None else f"{page}/attempts/{attempt:d}"

    def event(self) -> Mapping[str, object]:
        """Read the event's file: a JSON object, of which each part may be a stranger's.

        Raises:
            ActionsContextMissing: there is no such file, or it is no object.
        """
        path = self._value("GITHUB_EVENT_PATH")
        try:
            event = json.loads(Path(path).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise ActionsContextMissing("event-unreadable", path=path, reason=str(error)) from error
        if not isinstance(event, dict):
            raise ActionsContextMissing("event-unreadable", path=path, reason="not an object")
        return event

    def event_as(self, model: type[PayloadT]) -> PayloadT:
        """Read the parts of the event that a command needs.

        Raises:
            ActionsContextMissing: as of `event`, or a part is missing or of another form.
        """
        try:
            return model.model_validate(self.event())
        except ValidationError as error:
            raise ActionsContextMissing(
                "event-odd", event=self.event_name, reason=first_fault(error)
            ) from error

    def _value(self, name: str) -> str:
        if name not in self.values:
            raise ActionsContextMissing("actions-variable-missing", name=name)
        value = self.values[name]
        if not re.fullmatch(_FORMS[name], value, re.ASCII):
            shown = "..." if name == "GITHUB_TOKEN" else value
            raise ActionsContextMissing("actions-variable-odd", name=name, value=shown)
        return value


def first_fault(error: ValidationError) -> str:
    """Where and what the first thing wrong is; without the value, which may be a stranger's."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in fault["loc"]) or "the whole"
    return f"{place}: {fault['msg']}"


def is_sha(text: str) -> bool:
    """Whether a text is a commit's full name."""
    return re.fullmatch(_FORMS["GITHUB_SHA"], text) is not None


# The branch that a change is for


class _Group(Payload):
    base_ref: str
    base_sha: str


class _Repository(Payload):
    default_branch: str


class _Event(Payload):
    merge_group: _Group | None = None
    repository: _Repository | None = None


def base_branch(env: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The branch that a pull request or a merge queue is for, else the default one; None where none
    is known.

    And of a merge queue the commit that it has put the change on: the branch with all that waits
    before it.
    """
    named, since = env.get("GITHUB_BASE_REF"), None
    if not named:
        try:
            event = Context.from_env(env).event_as(_Event)
        except ActionsContextMissing:
            return None, None
        if event.merge_group is not None:
            named, since = event.merge_group.base_ref, event.merge_group.base_sha
        elif event.repository is not None:
            named = event.repository.default_branch
    branch = (named or "").removeprefix("refs/heads/")
    known = since if since is not None and is_sha(since) else None
    return (branch if git.is_branch(branch) else None), known


# What a step says to the runner


def append_summary(env: Mapping[str, str], markdown: str) -> None:
    """Append to the summary of a job, without the secrets of its environment; outside a job there
    is none.

    Raises:
        StoreFailed: the file does not take it.
    """
    if env.get("GITHUB_STEP_SUMMARY"):
        append(Path(env["GITHUB_STEP_SUMMARY"]), Cleaner(env).clean(markdown))


def append(file: Path, text: str) -> None:
    """Append to a file by which a step speaks to the runner.

    Raises:
        StoreFailed: the file does not take it.
    """
    try:
        with file.open("a", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
    except OSError as error:
        raise StoreFailed(
            "runner-file-not-written", path=str(file), reason=error.strerror or str(error)
        ) from error
