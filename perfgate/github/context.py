"""What GitHub Actions says to a job by its environment and the event's file, and the files by which
a job speaks to it; asks GitHub nothing.

Much of an event is a stranger's text (branches, titles, comments): it is data, for whoever asks to
check.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from perfgate.model.errors import ActionsContextMissing
from perfgate.model.secrets import Cleaner
from perfgate.store.disk import Disk
from perfgate.store.sealed import first_complaint


def variable(env: Mapping[str, str], name: str) -> str:
    """What GitHub sets in every job, or the workflow hands over.

    Raises:
        ActionsContextMissing: it is not set.
    """
    value = env.get(name, "").strip()
    if not value:
        is_token = name == "GITHUB_TOKEN"
        code = "actions-token-missing" if is_token else "actions-variable-missing"
        raise ActionsContextMissing(code, name=name)
    return value


class Payload(BaseModel):
    """The base of what is read of an event: the values that are used, and no others."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")


def at(place: str, **default: object) -> Any:  # noqa: ANN401 - as pydantic's Field
    """A field of an event by its place, as `pull_request.head.sha`; with a `default`, it need not
    be there."""
    return Field(validation_alias=AliasPath(*place.split(".")), **default)  # type: ignore[call-overload]


PayloadT = TypeVar("PayloadT", bound=Payload)


def event_as(env: Mapping[str, str], model: type[PayloadT]) -> PayloadT:
    """Read the parts of the event that a command needs.

    Raises:
        ActionsContextMissing: there is no event, or a part is missing or of another form.
    """
    path = variable(env, "GITHUB_EVENT_PATH")
    try:
        return model.model_validate_json(Path(path).read_bytes())
    except (OSError, ValidationError) as error:
        why = first_complaint(error) if isinstance(error, ValidationError) else str(error)
        raise ActionsContextMissing("event-odd", path=path, reason=why) from error


# The branch that a change is for


class _Base(Payload):
    queue: str | None = at("merge_group.base_ref", default=None)
    default: str | None = at("repository.default_branch", default=None)


def base_branch(env: Mapping[str, str]) -> str | None:
    """The branch that a pull request or a merge queue is for, else the default one; None where none
    is known."""
    if env.get("GITHUB_BASE_REF"):
        return env["GITHUB_BASE_REF"]
    try:
        event = event_as(env, _Base)
    except ActionsContextMissing:
        return None
    return event.default if event.queue is None else event.queue.removeprefix("refs/heads/")


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
        raise Disk(file.parent).failed(file, error) from error
