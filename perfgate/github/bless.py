"""Blessing from CI: the kept results of a commit's own gate become baselines on its branch, and
nothing is measured.

Who asks, and in which words, says GitHub's event; what they may do, GitHub itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from github.PullRequest import PullRequest
from github.Repository import Repository

from perfgate.bless import bless as blessing
from perfgate.bless.refusals import refuse_unasked
from perfgate.execute.provenance import code_now
from perfgate.github import api
from perfgate.github.approval import GATE, name_of
from perfgate.github.commit import Origin, Planned, commit
from perfgate.github.context import Context, Payload, append_summary
from perfgate.github.kept import Checkout, checkout, kept_by_gate, runner_of
from perfgate.model.baseline import Result
from perfgate.model.errors import BlessRefused, ConfigInvalid, PerfgateError, ResultMissing
from perfgate.model.note import note
from perfgate.model.pyproject import load_settings
from perfgate.model.record import LONGEST_ID
from perfgate.model.settings import Settings
from perfgate.render.markdown import filled, shortened
from perfgate.words.say import Coded

COMMAND: Final = "/perfgate bless"
ACCEPT: Final = "--accept-regression"
LONGEST_REASON: Final = 300
MAY_BLESS: Final = frozenset({"admin", "maintain", "write"})

_COMMENT: Final = re.compile(
    rf"{COMMAND}\s+(?P<before>(?:{ACCEPT}\s+)*)(?:`(?P<quoted>[^`]+)`|(?P<word>[^\s`-][^\s`]*))"
    r"\s+(?P<reason>\S.*)"
)
_INPUTS: Final = {
    "workload": rf".{{0,{LONGEST_ID}}}",
    "reason": rf".{{1,{LONGEST_REASON}}}",
    "accept-regression": "true|false|",
}
"""By input of the dispatch, what it may be, as a regular expression."""


class _User(Payload):
    login: str


class Comment(Payload):
    """What was written, when and by whom."""

    body: str
    created_at: datetime
    user: _User


class _Issue(Payload):
    number: int
    pull_request: Mapping[str, object] | None = None


class _CommentEvent(Payload):
    action: str
    issue: _Issue
    comment: Comment


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What somebody wants to have blessed."""

    workload: str | None
    """None: all that the gate has kept."""
    reason: str
    accept_regression: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Where it was asked, and which commit it is about."""

    branch: str
    head_sha: str
    by: str
    at: datetime | None = None
    """When a comment was written."""


def bless(root: Path, env: Mapping[str, str], say: Callable[[Coded], None]) -> None:
    """Commit what the gate of a branch's head commit has kept as its baselines, as the job's event
    asks.

    Args:
        root: of the project in the head commit, which is only read.
        env: the job's.
        say: takes what was done, and what of the answer could not be.

    Raises:
        PerfgateError: nothing was blessed, or no gate of the new commit was started.
    """
    context = Context.from_env(env)
    event = _comment_event(context)
    if event is None:
        read_inputs(env)  # what is wrong with them needs no GitHub to be known
    repository = api.connect(context)
    pull: PullRequest | None = None
    if event is not None:
        # Nobody else is answered: whoever may comment could have perfgate write.
        refuse_strangers(repository, event.comment.user.login)
        pull = repository.get_pull(event.issue.number)

    try:
        wish = read_inputs(env) if event is None else read_comment(event.comment.body)
        asked = _asked(context, pull, None if event is None else event.comment)
        settings = load_settings(root, {})
        here = checkout(root, settings.baselines, asked.head_sha, env=env)
        run, kept = kept_by_gate(repository, asked.head_sha, asked_at=asked.at)
        origin = Origin(
            by=f"{asked.by} via GitHub",
            run_url=context.page_of_run(run.id),
            runner=runner_of(run),
        )
        planned = plan(kept, wish, here, settings, origin)
        made = commit(repository, planned, onto=asked.head_sha, reason=wish.reason, origin=origin)
        api.move_branch(repository, asked.branch, expected=asked.head_sha, to=made)
    except PerfgateError as error:
        _answer(env, pull, say, filled("refused.md.j2", error=error))
        raise
    not_started = _start_gate(repository, asked.branch)
    markdown = filled(
        "blessed.md.j2",
        planned=planned,
        commit=made,
        page=f"{context.page}/commit/{made}",
        asked=asked,
        run_url=origin.run_url,
        reason=wish.reason,
        gate=GATE,
        not_started=not_started,
    )
    _answer(env, pull, say, markdown)
    paths = tuple(one.path for one in planned)
    say(note("baselines-committed", commit=made, branch=asked.branch, paths=paths))
    if not_started is not None:
        raise not_started


def _answer(
    env: Mapping[str, str], pull: PullRequest | None, say: Callable[[Coded], None], markdown: str
) -> None:
    """Write the answer to the job's summary and, where a comment asked, under that."""
    append_summary(env, shortened(markdown))
    if pull is not None:
        try:
            pull.create_issue_comment(shortened(markdown))
        except PerfgateError as error:
            say(error)  # what was done is done; the summary has it


def _start_gate(repository: Repository, branch: str) -> PerfgateError | None:
    """Start a gate of the new commit: one that is made with a workflow's own token starts no
    workflow by itself. Return why it could not be."""
    try:
        repository.get_workflow(GATE).create_dispatch(branch, throw=True)
    except PerfgateError as error:
        return error
    return None


# Who asks, and for what


def _comment_event(context: Context) -> _CommentEvent | None:
    """The event, if it is a new comment on a pull request; None of a dispatch.

    Raises:
        BlessRefused: it is another event, a comment elsewhere, or one that was edited.
    """
    kind = context.event_name
    if kind == "workflow_dispatch":
        return None
    event = context.event_as(_CommentEvent) if kind == "issue_comment" else None
    if event is None or event.issue.pull_request is None or event.action != "created":
        raise BlessRefused("bless-event-wanted", event=kind, command=COMMAND)
    return event


def refuse_strangers(repository: Repository, by: str) -> None:
    """Ask GitHub what somebody may do here; what a comment says of its author is not enough.

    Raises:
        BlessRefused: they may not write.
    """
    permission = repository.get_collaborator_permission(by)
    if permission not in MAY_BLESS:
        raise BlessRefused("bless-by-stranger", login=by, permission=permission)


def _asked(context: Context, pull: PullRequest | None, comment: Comment | None) -> Asked:
    """Where it was asked, and which commit it is about.

    Raises:
        BlessRefused: it is no branch that the token could commit to.
    """
    if pull is None or comment is None:
        return Asked(branch=context.branch, head_sha=context.sha, by=context.actor)
    if pull.state != "open" or name_of(pull.head.repo) != name_of(pull.base.repo):
        raise BlessRefused("bless-branch-elsewhere", number=pull.number)
    by, at = comment.user.login, comment.created_at
    return Asked(branch=pull.head.ref, head_sha=pull.head.sha, by=by, at=at)


def read_inputs(env: Mapping[str, str]) -> Wish:
    """Return what the inputs of a dispatch ask for.

    Raises:
        ConfigInvalid: one of them is nothing that it can be.
    """
    given: dict[str, str] = {}
    for name, form in _INPUTS.items():
        value = env.get(f"PERFGATE_INPUT_{name.upper().replace('-', '_')}", "").strip()
        if not value.isprintable() or not re.fullmatch(form, value):
            raise ConfigInvalid("bless-input-odd", input=name, value=value, most=LONGEST_REASON)
        given[name] = value
    return Wish(
        workload=given["workload"] or None,
        reason=given["reason"],
        accept_regression=given["accept-regression"] == "true",
    )


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


# What becomes of it


def plan(
    kept: Sequence[Result], wish: Wish, here: Checkout, settings: Settings, origin: Origin
) -> tuple[Planned, ...]:
    """Return the baselines that are to be committed: by the rules of `perfgate bless`, all of them
    or none.

    Raises:
        ResultMissing: the gate has kept nothing of the workload.
        BlessRefused: of one or several workloads; of several, one that names all.
    """
    wanted = [one for one in kept if wish.workload in (None, one.workload.id)]
    if not wanted:
        known = tuple(sorted({one.workload.id for one in kept})[:10])
        raise ResultMissing("kept-without-workload", workload=wish.workload, known=known)
    refuse_unasked(wish.reason, in_ci=True, allow_ci=True)
    planned: list[Planned] = []
    refused: list[BlessRefused] = []
    for result in wanted:
        old = here.store.baselines.load(result.machine.slug, result.workload.id)
        try:
            new = blessing.bless(
                [result],
                old,
                origin.blessing(wish.reason, here.commit),
                code_now=code_now(result.code, here.root, baselines=settings.baselines),
                settings=settings,
                consent=blessing.Consent(accept_regression=wish.accept_regression),
            )
        except BlessRefused as error:
            refused.append(_as_done_here(error))
            continue
        planned.append(Planned(old=old, new=new, path=here.path_in_tree(new)))
    if refused and len(wanted) > 1:
        raise BlessRefused("bless-all-or-none", count=len(wanted), refused=tuple(refused))
    if refused:
        raise refused[0]
    return tuple(planned)


def _as_done_here(refused: BlessRefused) -> BlessRefused:
    """A refusal with what is to be done about it in Actions."""
    if refused.code != "bless-too-few-runs":
        return refused
    return BlessRefused("bless-too-few-runs-in-ci", **refused.fields, workflow=GATE)
