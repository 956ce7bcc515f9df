"""Who asks for a blessing from CI, in which words and on which branch: GitHub's event, and what GitHub says of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from perfgate.github.api import Repository
from perfgate.github.context import Context, Payload
from perfgate.model.errors import BlessRefused, ConfigInvalid
from perfgate.model.limits import LONGEST_ID
from perfgate.render.page import inert

COMMAND: Final = "/perfgate bless"
LONGEST_REASON: Final = 300
MAY_BLESS: Final = frozenset({"admin", "maintain", "write"})

_ACCEPT: Final = "--accept-regression"


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
    match context.event_name:
        case "workflow_dispatch":
            return Request(by=context.actor)
        case "issue_comment":
            event = context.event_as(_CommentEvent)
            if event.issue.pull_request is None or event.action != "created":
                where = "on an issue" if event.issue.pull_request is None else event.action
                raise BlessRefused(
                    subject=COMMAND,
                    fact=f"the comment is {inert(where)}",
                    expectation="It should be a new comment on a pull request",
                    next_step=f"Comment there: {COMMAND} WORKLOAD REASON",
                )
            return Request(
                by=event.comment.user.login,
                pull_request=event.issue.number,
                comment=event.comment.body,
                asked_at=event.comment.created_at,
            )
        case other:
            raise BlessRefused(
                subject="github bless",
                fact=f"the workflow was started by {other}",
                expectation="It should be workflow_dispatch or issue_comment, by which a maintainer asks",
                next_step="See perfgate's workflow: .github/workflows/perfgate-bless.yml",
            )


def refuse_strangers(repository: Repository, by: str) -> None:
    """Ask GitHub what somebody may do here; what a comment says of its author is not enough.

    Raises:
        BlessRefused: they may not write.
    """
    permission = repository.permission(by)
    if permission not in MAY_BLESS:
        raise BlessRefused(
            subject=inert(by),
            fact=f"their permission in this repository is {inert(permission)}",
            expectation="A baseline is blessed by someone who may write here",
            next_step="Ask a maintainer to bless it.",
        )


def wish_of(request: Request, env: Mapping[str, str]) -> Wish:
    """Return what is wanted: of a comment what its first line says, of a dispatch its inputs.

    Raises:
        BlessRefused: the comment is no such command.
        ConfigInvalid: an input is nothing that it can be.
    """
    if request.pull_request is not None:
        return read_comment(request.comment)
    accept = env.get("PERFGATE_INPUT_ACCEPT_REGRESSION", "").strip()
    if accept not in {"", "true", "false"}:
        raise ConfigInvalid(
            subject="input accept-regression",
            fact=f"the value is {inert(accept, longest=40)!r}",
            expectation="It should be true or false",
            next_step="Correct it in the workflow.",
        )
    workload = env.get("PERFGATE_INPUT_WORKLOAD", "").strip()
    reason = env.get("PERFGATE_INPUT_REASON", "").strip()
    for field, text, longest in (
        ("workload", workload, LONGEST_ID),
        ("reason", reason, LONGEST_REASON),
    ):
        fault = _fault(text, longest)
        if fault is not None:
            raise ConfigInvalid(
                subject=f"input {field}",
                fact=fault,
                expectation=f"It should be one line of at most {longest} characters",
                next_step="Start the workflow again.",
            )
    if not reason:
        raise ConfigInvalid(
            subject="input reason",
            fact="it is empty",
            expectation="A baseline says why it is one",
            next_step="Start the workflow again, with a reason.",
        )
    return Wish(workload=workload or None, reason=reason, accept_regression=accept == "true")


def read_comment(body: str) -> Wish:
    """Return what the first line of a comment asks for: `/perfgate bless WORKLOAD REASON...`.

    A workload whose name holds spaces stands in backquotes; `--accept-regression` may stand anywhere behind the
    command.

    Raises:
        BlessRefused: it is anything else.
    """
    line = body.split("\n", 1)[0].strip()
    rest = line.removeprefix(COMMAND)
    if rest == line or rest[:1] not in {" ", "\t"}:
        raise _no_command("the comment does not begin with it")
    fault = _fault(rest.replace("\t", " "), LONGEST_REASON + LONGEST_ID)
    if fault is not None:
        raise _no_command(fault)
    found = re.fullmatch(
        rf"(?P<before>(?:{_ACCEPT}\s+)*)(?:`(?P<quoted>[^`]+)`|(?P<word>[^\s`]+))(?P<reason>\s.*)?",
        rest.strip(),
    )
    if found is None:
        raise _no_command("it names no workload")
    workload = (found["quoted"] or found["word"]).strip()
    words = (found["reason"] or "").split()
    unknown = [word for word in words if word.startswith("--") and word not in {"--", _ACCEPT}]
    if workload.startswith("-") or unknown:
        shown = inert(unknown[0] if unknown else workload, longest=40)
        raise _no_command(f"there is no option {shown}")
    reason = " ".join(word for word in words if word != _ACCEPT)
    if not reason:
        raise _no_command("it gives no reason")
    if len(reason) > LONGEST_REASON:
        raise _no_command(
            f"the reason has {len(reason)} characters, at most {LONGEST_REASON} are taken"
        )
    return Wish(
        workload=workload,
        reason=reason,
        accept_regression=bool(found["before"]) or _ACCEPT in words,
    )


def _no_command(fact: str) -> BlessRefused:
    return BlessRefused(
        subject=COMMAND,
        fact=fact,
        expectation="A baseline says why it is one, and a comment names its workload",
        next_step=f"Comment anew: {COMMAND} WORKLOAD REASON... [{_ACCEPT}]",
    )


def _fault(text: str, longest: int) -> str | None:
    if len(text) > longest:
        return f"it has {len(text)} characters"
    if not text.isprintable():
        return "it holds a line break, or characters that cannot be seen"
    return None


def branch_of(request: Request, context: Context, repository: Repository) -> Branch:
    """Return the branch that is to be committed to, and the commit that was asked about.

    Raises:
        BlessRefused: it is no branch that the token could commit to.
    """
    if request.pull_request is None:
        return Branch(name=context.branch, head_sha=context.sha)
    pull = repository.pull_request(request.pull_request)
    if pull.from_fork or not pull.open:
        fact = "its branch lies in a fork" if pull.from_fork else "it is closed"
        raise BlessRefused(
            subject=f"pull request {pull.number}",
            fact=f"{fact}, to which this workflow cannot commit",
            expectation="A baseline is committed to the branch of the code that it is of",
            next_step='Bless at a desk, on that branch: pytest --perfgate; perfgate bless --reason "..."',
        )
    return Branch(name=pull.head_branch, head_sha=pull.head_sha)
