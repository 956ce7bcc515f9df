"""Who asks for a blessing from CI, in which words and on which branch: GitHub's event, and what
GitHub says of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from perfgate.github.approval import name_of
from perfgate.github.context import Context, Payload
from perfgate.model.errors import BlessRefused, ConfigInvalid
from perfgate.model.limits import LONGEST_ID

if TYPE_CHECKING:
    from github.Repository import Repository

COMMAND: Final = "/perfgate bless"
ACCEPT: Final = "--accept-regression"
LONGEST_REASON: Final = 300
MAY_BLESS: Final = frozenset({"admin", "maintain", "write"})

_COMMENT: Final = re.compile(
    rf"{COMMAND}\s+(?P<before>(?:{ACCEPT}\s+)*)(?:`(?P<quoted>[^`]+)`|(?P<word>[^\s`-][^\s`]*))"
    r"\s+(?P<reason>\S.*)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What somebody wants to have blessed."""

    workload: str | None
    """None: all that the gate has kept."""
    reason: str
    accept_regression: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Who asked, where, and in which words: the event, read and not yet judged."""

    by: str
    """A login."""
    pull_request: int | None = None
    """Where a comment asked; None of a dispatch, which is on a branch."""
    comment: str = ""
    asked_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """What is to be committed to."""

    name: str
    head_sha: str


class _User(Payload):
    login: str


class _Comment(Payload):
    body: str
    created_at: datetime
    user: _User


class _Issue(Payload):
    number: int
    pull_request: Mapping[str, object] | None = None


class _CommentEvent(Payload):
    action: str
    issue: _Issue
    comment: _Comment


def read_request(context: Context) -> Request:
    """Return what the event says.

    Raises:
        ActionsContextMissing: the event's file is not what it should be.
        BlessRefused: it is another event, a comment elsewhere, or one that was edited.
    """
    kind = context.event_name
    if kind == "workflow_dispatch":
        return Request(by=context.actor)
    event = context.event_as(_CommentEvent) if kind == "issue_comment" else None
    if event is None or event.issue.pull_request is None or event.action != "created":
        raise BlessRefused("bless-event-wanted", event=kind, command=COMMAND)
    return Request(
        by=event.comment.user.login,
        pull_request=event.issue.number,
        comment=event.comment.body,
        asked_at=event.comment.created_at,
    )


def refuse_strangers(repository: Repository, by: str) -> None:
    """Ask GitHub what somebody may do here; what a comment says of its author is not enough.

    Raises:
        BlessRefused: they may not write.
    """
    permission = repository.get_collaborator_permission(by)
    if permission not in MAY_BLESS:
        raise BlessRefused("bless-by-stranger", login=by, permission=permission)


def wish_of(request: Request, env: Mapping[str, str]) -> Wish:
    """Return what is wanted: of a comment what its first line says, of a dispatch its inputs.

    Raises:
        BlessRefused: the comment is no such command.
        ConfigInvalid: an input is nothing that it can be.
    """
    if request.pull_request is not None:
        return read_comment(request.comment)
    workload = _input(env, "workload", rf".{{0,{LONGEST_ID}}}")
    reason = _input(env, "reason", rf".{{1,{LONGEST_REASON}}}")
    accept = _input(env, "accept-regression", "true|false|")
    return Wish(workload=workload or None, reason=reason, accept_regression=accept == "true")


def _input(env: Mapping[str, str], name: str, form: str) -> str:
    value = env.get(f"PERFGATE_INPUT_{name.upper().replace('-', '_')}", "").strip()
    if not value.isprintable() or not re.fullmatch(form, value):
        raise ConfigInvalid("bless-input-odd", input=name, value=value, most=LONGEST_REASON)
    return value


def read_comment(body: str) -> Wish:
    """Return what the first line of a comment asks for: `/perfgate bless WORKLOAD REASON...`.

    A workload whose name holds spaces stands in backquotes; `--accept-regression` may stand
    anywhere behind the command.

    Raises:
        BlessRefused: it is anything else.
    """
    line = body.split("\n", 1)[0].strip().replace("\t", " ")
    found = _COMMENT.fullmatch(line) if line.isprintable() else None
    words = found["reason"].split() if found else []
    reason = " ".join(word for word in words if word != ACCEPT)
    workload = (found["quoted"] or found["word"]).strip() if found else ""
    unknown = any(word.startswith("--") and word not in {"--", ACCEPT} for word in words)
    if found is None or not reason or unknown or len(reason) > LONGEST_REASON or not workload:
        raise BlessRefused(
            "bless-command-odd", line=line, command=COMMAND, option=ACCEPT, most=LONGEST_REASON
        )
    return Wish(
        workload=workload,
        reason=reason,
        accept_regression=bool(found["before"]) or ACCEPT in words,
    )


def branch_of(request: Request, context: Context, repository: Repository) -> Branch:
    """Return the branch that is to be committed to, and the commit that was asked about.

    Raises:
        BlessRefused: it is no branch that the token could commit to.
    """
    if request.pull_request is None:
        return Branch(name=context.branch, head_sha=context.sha)
    pull = repository.get_pull(request.pull_request)
    if pull.state != "open" or name_of(pull.head.repo) != name_of(pull.base.repo):
        raise BlessRefused("bless-branch-elsewhere", number=pull.number)
    return Branch(name=pull.head.ref, head_sha=pull.head.sha)
