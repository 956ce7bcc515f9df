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
from typing import TYPE_CHECKING, Final

from perfgate.bless import bless as blessing
from perfgate.execute.provenance import code_now
from perfgate.github import api
from perfgate.github.approval import GATE, name_of
from perfgate.github.context import Payload, append_summary, at, event_as, variable
from perfgate.github.kept import (
    Checkout,
    Planned,
    blessed_by,
    checkout,
    commit,
    gate_of,
    kept_by,
)
from perfgate.model.baseline import Blessing, Result
from perfgate.model.errors import BlessRefused, BranchMoved, PerfgateError, ResultMissing
from perfgate.model.note import Note, note
from perfgate.render.markdown import filled

if TYPE_CHECKING:
    from github.PullRequest import PullRequest
    from github.Repository import Repository

COMMAND: Final = "/perfgate bless"
ACCEPT: Final = "--accept-regression"
LONGEST_REASON: Final = 300
MAY_BLESS: Final = frozenset({"admin", "maintain", "write"})

_COMMENT: Final = re.compile(rf"{COMMAND} (?:`([^`]+)`|([^ `-][^ `]*)) (.+)")


class _Comment(Payload):
    """What was written on a pull request, when and by whom."""

    action: str
    number: int = at("issue.number")
    pull_request: Mapping[str, object] = at("issue.pull_request")
    body: str = at("comment.body")
    created_at: datetime = at("comment.created_at")
    login: str = at("comment.user.login")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What somebody wants to have blessed."""

    workload: str | None
    """None: all that the gate has kept."""
    reason: str
    accept_regression: bool = False


def bless(root: Path, env: Mapping[str, str], say: Callable[[Note], None]) -> None:
    """Commit what the gate of a branch's head commit has kept as its baselines, as the job's event
    asks, and start the gate of the new commit.

    Args:
        root: of the project in the head commit, which is only read.
        env: the job's.
        say: takes what was done.

    Raises:
        PerfgateError: nothing was blessed, or no gate of the new commit was started.
    """
    repository = api.connect(env)
    comment = _comment(env)
    # A stranger is not answered: whoever may comment could have perfgate write.
    pull = None if comment is None else _pull_of_maintainer(repository, comment)

    def answer(markdown: str) -> None:
        append_summary(env, markdown)
        if pull is not None:
            pull.create_issue_comment(markdown)

    try:
        if comment is None or pull is None:
            wish, asked_at = read_inputs(env), None
            branch = variable(env, "GITHUB_REF").removeprefix("refs/heads/")
            sha, by = variable(env, "GITHUB_SHA"), variable(env, "GITHUB_ACTOR")
        else:
            wish, asked_at = read_comment(comment.body), comment.created_at
            branch, sha, by = pull.head.ref, pull.head.sha, comment.login
            if pull.state != "open" or name_of(pull.head.repo) != name_of(pull.base.repo):
                # No branch that the token could commit to.
                raise BlessRefused("bless-branch-elsewhere", number=pull.number)
        here = checkout(root, sha, env=env)
        run = gate_of(repository, sha, asked_at=asked_at)
        blessed = blessed_by(f"{by} via GitHub", run, wish.reason, sha)
        planned = plan(kept_by(run, sha), wish, here, blessed)
        made = commit(repository, planned, onto=sha, blessed=blessed)
        _move(repository, branch, sha, made)
    except PerfgateError as error:
        answer(filled("refused.md.j2", error=error))
        raise
    paths = tuple(one.path for one in planned)
    say(note("baselines-committed", commit=made, branch=branch, paths=paths))
    answer(
        filled(
            "blessed.md.j2",
            planned=planned,
            commit=made,
            branch=branch,
            measured=sha,
            run_url=run.html_url,
            reason=wish.reason,
            gate=GATE,
        )
    )
    # A commit that is made with a workflow's own token starts no workflow by itself.
    repository.get_workflow(GATE).create_dispatch(branch, throw=True)


def _move(repository: Repository, branch: str, measured: str, made: str) -> None:
    """Let a branch be at the new commit.

    Raises:
        BranchMoved: it is not at what was measured any more; it stays as it is.
    """
    ref = repository.get_git_ref(f"heads/{branch}")
    if ref.object.sha != measured:
        raise BranchMoved("branch-moved", branch=branch, commit=ref.object.sha, expected=measured)
    ref.edit(made)


# Who asks, and for what


def _comment(env: Mapping[str, str]) -> _Comment | None:
    """What the event is, if it is a new comment on a pull request; None of a dispatch.

    Raises:
        BlessRefused: it is another event, or a comment that was edited.
        ActionsContextMissing: it is a comment elsewhere.
    """
    kind = variable(env, "GITHUB_EVENT_NAME")
    if kind == "workflow_dispatch":
        return None
    comment = event_as(env, _Comment) if kind == "issue_comment" else None
    if comment is None or comment.action != "created":
        raise BlessRefused("bless-event-wanted", event=kind, command=COMMAND)
    return comment


def _pull_of_maintainer(repository: Repository, comment: _Comment) -> PullRequest:
    """Return the pull request that was commented on, where its author may bless: what the comment
    says of them is not enough.

    Raises:
        BlessRefused: they may not write.
    """
    permission = repository.get_collaborator_permission(comment.login)
    if permission not in MAY_BLESS:
        raise BlessRefused("bless-by-stranger", login=comment.login, permission=permission)
    return repository.get_pull(comment.number)


def read_inputs(env: Mapping[str, str]) -> Wish:
    """Return what the inputs of a dispatch ask for.

    Raises:
        BlessRefused: the reason is none.
    """
    workload, reason, accept = (
        env.get(f"PERFGATE_INPUT_{name}", "").strip()
        for name in ("WORKLOAD", "REASON", "ACCEPT_REGRESSION")
    )
    accepts = accept == "true"
    return Wish(workload=workload or None, reason=_reason(reason), accept_regression=accepts)


def read_comment(body: str) -> Wish:
    """Return what the first line of a comment asks for: `/perfgate bless WORKLOAD REASON...`.

    A workload whose name holds spaces stands in backquotes; `--accept-regression` may stand
    anywhere behind the command.

    Raises:
        BlessRefused: it is anything else.
    """
    words = body.partition("\n")[0].split()
    line = " ".join(word for word in words if word != ACCEPT)
    found = _COMMENT.fullmatch(line)
    if found is None:
        raise BlessRefused("bless-command-odd", line=line, command=COMMAND, option=ACCEPT)
    quoted, word, reason = found.groups()
    accept = ACCEPT in words
    return Wish(workload=quoted or word, reason=_reason(reason), accept_regression=accept)


def _reason(text: str) -> str:
    if not text or len(text) > LONGEST_REASON or not text.isprintable():
        raise BlessRefused("bless-reason-odd", reason=text, most=LONGEST_REASON)
    return text


# What becomes of it


def plan(
    kept: Sequence[Sequence[Result]], wish: Wish, here: Checkout, blessed: Blessing
) -> tuple[Planned, ...]:
    """Return the baselines that are to be committed: by the rules of `perfgate bless`, all of them
    or none.

    Raises:
        ResultMissing: the gate has kept nothing of the workload.
        BlessRefused: of one of them.
    """
    ids = {results[0].workload.id for results in kept}
    if wish.workload is not None and wish.workload not in ids:
        known = tuple(sorted(ids)[:10])
        raise ResultMissing("kept-without-workload", workload=wish.workload, known=known)
    consent = blessing.Consent(accept_regression=wish.accept_regression)
    planned = []
    for results in kept:
        newest = results[0]
        if wish.workload not in (None, newest.workload.id):
            continue
        old = here.store.baselines.load(newest.machine.slug, newest.workload.id)
        now = code_now(newest.code, here.store.root, baselines=here.settings.baselines)
        new = blessing.bless(
            results, old, blessed, code_now=now, settings=here.settings, consent=consent
        )
        planned.append(Planned(old=old, new=new, path=here.path_in_tree(new)))
    return tuple(planned)
