"""Who may have something blessed from CI, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from github.Repository import Repository
from support.rest import GitHub

from perfgate.github.context import Context
from perfgate.github.request import (
    LONGEST_REASON,
    Branch,
    Request,
    Wish,
    branch_of,
    read_comment,
    read_request,
    refuse_strangers,
    wish_of,
)
from perfgate.model.errors import BlessRefused, ConfigInvalid


@pytest.mark.parametrize(
    ("comment", "wish"),
    [
        ("/perfgate bless mlp fused the loss", Wish(workload="mlp", reason="fused the loss")),
        ("/perfgate bless\tmlp  a   b \r\n\r\nThank you!", Wish(workload="mlp", reason="a b")),
        ("/perfgate bless `mlp[a b]` why", Wish(workload="mlp[a b]", reason="why")),
        (
            "/perfgate bless --accept-regression mlp why",
            Wish(workload="mlp", reason="why", accept_regression=True),
        ),
        (
            "/perfgate bless mlp meant --accept-regression so",
            Wish(workload="mlp", reason="meant so", accept_regression=True),
        ),
        ("/perfgate bless mlp why -- really", Wish(workload="mlp", reason="why -- really")),
    ],
)
def test_a_comment_names_its_workload_and_its_reason(comment: str, wish: Wish) -> None:
    assert read_comment(comment) == wish


@pytest.mark.parametrize(
    "comment",
    [
        *(
            "",
            "please /perfgate bless mlp why",
            "\n/perfgate bless mlp why",
            "/perfgate blessmlp x",
        ),
        *("/perfgate bless", "/perfgate bless mlp", "/perfgate bless `mlp why"),
        *("/perfgate bless mlp --accept-regression", "/perfgate bless --accept-regression mlp"),
        *("/perfgate bless --allow-ci mlp why", "/perfgate bless mlp why --force"),
        *("/perfgate bless -x why", "/perfgate bless mlp a\x1bb", "/perfgate bless mlp a\u202eb"),
        f"/perfgate bless mlp {'x' * (LONGEST_REASON + 1)}",
    ],
)
def test_what_is_no_such_command_is_refused(comment: str) -> None:
    with pytest.raises(BlessRefused) as caught:
        read_comment(comment)
    assert caught.value.code == "bless-command-odd"
    assert not {"\x1b", "\u202e"} & set(str(caught.value))


def inputs(**given: str) -> Mapping[str, str]:
    return {f"PERFGATE_INPUT_{name.upper()}": text for name, text in given.items()}


def test_a_dispatch_says_what_is_wanted_by_its_inputs_and_a_comment_by_itself() -> None:
    env = inputs(workload=" mlp ", reason="fused", accept_regression="true")
    wish = Wish(workload="mlp", reason="fused", accept_regression=True)
    assert wish_of(Request(by="ada"), env) == wish
    assert wish_of(Request(by="ada"), inputs(reason="why")) == Wish(workload=None, reason="why")
    asked = Request(by="ada", pull_request=7, comment="/perfgate bless cnn why")
    assert wish_of(asked, env) == Wish(workload="cnn", reason="why")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "bless-input-odd"),
        ({"reason": "a\nb"}, "bless-input-odd"),
        ({"reason": "x" * (LONGEST_REASON + 1)}, "bless-input-odd"),
        ({"reason": "why", "workload": "a\nb"}, "bless-input-odd"),
        ({"reason": "why", "accept_regression": "yes"}, "bless-input-odd"),
    ],
)
def test_inputs_that_can_be_none_are_refused(given: dict[str, str], code: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        wish_of(Request(by="ada"), inputs(**given))
    assert caught.value.code == code


def comment(**changes: object) -> dict[str, object]:
    return {
        "action": "created",
        "issue": {"number": 7, "pull_request": {}},
        "comment": {"body": "x", "created_at": "2026-03-02T12:00:00Z", "user": {"login": "ada"}},
    } | changes


def test_a_dispatch_asks_by_its_actor_and_a_comment_by_its_author(
    hub: GitHub, tmp_path: Path
) -> None:
    env = hub.env(GITHUB_EVENT_NAME="workflow_dispatch", GITHUB_ACTOR="eve")
    assert read_request(Context.from_env(env)) == Request(by="eve")
    asked = read_request(Context.from_env(hub.env_of("issue_comment", comment(), tmp_path)))
    assert (asked.by, asked.pull_request, asked.comment) == ("ada", 7, "x")


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (comment(action="edited"), "issue_comment"),
        (comment(issue={"number": 7}), "issue_comment"),
        (comment(), "pull_request_target"),
    ],
)
def test_no_other_event_asks(
    hub: GitHub, tmp_path: Path, event: dict[str, object], kind: str
) -> None:
    with pytest.raises(BlessRefused):
        read_request(Context.from_env(hub.env_of(kind, event, tmp_path)))


@pytest.mark.parametrize(
    ("may", "blesses"),
    [("admin", True), ("write", True), ("read", False), ("none", False), ("Admin", False)],
)
def test_who_may_write_may_bless(
    hub: GitHub, repository: Repository, may: str, blesses: bool
) -> None:
    hub.permissions["ada"] = may
    if blesses:
        refuse_strangers(repository, "ada")
        return
    with pytest.raises(BlessRefused):
        refuse_strangers(repository, "ada")


def test_a_comment_is_about_the_head_of_its_open_pull_request(
    hub: GitHub, repository: Repository
) -> None:
    here = Context.from_env(hub.env())
    assert branch_of(Request(by="ada"), here, repository) == Branch(name="main", head_sha="1" * 40)
    number = hub.pull(branch="faster")
    asked = Request(by="ada", pull_request=number)
    assert branch_of(asked, here, repository) == Branch(name="faster", head_sha="a" * 40)
    for elsewhere in (
        hub.pull(head="eve/loops"),
        hub.pull(fork_gone=True),
        hub.pull(state="closed"),
    ):
        with pytest.raises(BlessRefused):
            branch_of(Request(by="ada", pull_request=elsewhere), here, repository)
