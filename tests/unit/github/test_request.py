"""Who asks for a blessing from CI, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.rest import GitHub

from perfgate.github.api import Repository
from perfgate.github.context import Context
from perfgate.github.request import (
    Branch,
    Request,
    Wish,
    branch_of,
    read_comment,
    read_request,
    refuse_strangers,
    wish_of,
)
from perfgate.model.errors import ActionsContextMissing, BlessRefused, ConfigInvalid

NO_COMMAND = (
    "A baseline says why it is one, and a comment names its workload.\n"
    "Comment anew: /perfgate bless WORKLOAD REASON... [--accept-regression]"
)


@pytest.mark.parametrize(
    ("comment", "wish"),
    [
        ("/perfgate bless mlp fused the loss", Wish(workload="mlp", reason="fused the loss")),
        ("/perfgate bless mlp\tfused   the loss  ", Wish(workload="mlp", reason="fused the loss")),
        ("/perfgate bless mlp[4-64] it's meant", Wish(workload="mlp[4-64]", reason="it's meant")),
        ("/perfgate bless `mlp[a b]` why", Wish(workload="mlp[a b]", reason="why")),
        (
            "/perfgate bless mlp why\n\nThe rest is talk, --nonsense",
            Wish(workload="mlp", reason="why"),
        ),
        ("/perfgate bless mlp why\r\nmore", Wish(workload="mlp", reason="why")),
        ("/perfgate bless mlp a -- b", Wish(workload="mlp", reason="a -- b")),
        (
            "/perfgate bless --accept-regression mlp slower and right",
            Wish(workload="mlp", reason="slower and right", accept_regression=True),
        ),
        (
            "/perfgate bless mlp slower --accept-regression and right",
            Wish(workload="mlp", reason="slower and right", accept_regression=True),
        ),
        (
            "/perfgate bless mlp why --accept-regression",
            Wish(workload="mlp", reason="why", accept_regression=True),
        ),
        (
            "/perfgate bless mlp $(id) `rm -rf` ${{ secrets }}",
            Wish(workload="mlp", reason="$(id) `rm -rf` ${{ secrets }}"),
        ),
    ],
)
def test_a_comment_names_its_workload_and_its_reason(comment: str, wish: Wish) -> None:
    assert read_comment(comment) == wish


@pytest.mark.parametrize(
    ("comment", "fact"),
    [
        ("", "the comment does not begin with it"),
        ("please /perfgate bless mlp why", "the comment does not begin with it"),
        ("\n/perfgate bless mlp why", "the comment does not begin with it"),
        ("/perfgate blessed mlp why", "the comment does not begin with it"),
        ("/perfgate bless", "the comment does not begin with it"),
        ("/perfgate bless mlp", "it gives no reason"),
        ("/perfgate bless mlp --accept-regression", "it gives no reason"),
        ("/perfgate bless `mlp", "it names no workload"),
        ("/perfgate bless `mlp`why", "it names no workload"),
        ("/perfgate bless --all why", "there is no option --all"),
        ("/perfgate bless mlp why --force", "there is no option --force"),
        (
            "/perfgate bless mlp why\x1b[2J",
            "it holds a line break, or characters that cannot be seen",
        ),
        (
            "/perfgate bless mlp a\u202eb",
            "it holds a line break, or characters that cannot be seen",
        ),
        (
            "/perfgate bless mlp " + "x" * 301,
            "the reason has 301 characters, at most 300 are taken",
        ),
        ("/perfgate bless mlp " + "x" * 2500, "it has 2505 characters"),
    ],
)
def test_what_is_no_such_command_is_refused_with_the_form(comment: str, fact: str) -> None:
    with pytest.raises(BlessRefused) as caught:
        read_comment(comment)
    assert str(caught.value) == f"/perfgate bless: {fact}. {NO_COMMAND}"


def inputs(workload: str = "", reason: str = "why", accept: str = "") -> Mapping[str, str]:
    return {
        "PERFGATE_INPUT_WORKLOAD": workload,
        "PERFGATE_INPUT_REASON": reason,
        "PERFGATE_INPUT_ACCEPT_REGRESSION": accept,
    }


def test_a_dispatch_says_what_is_wanted_by_its_inputs() -> None:
    ada = Request(by="ada")
    assert wish_of(ada, inputs()) == Wish(workload=None, reason="why")
    assert wish_of(ada, inputs(" mlp ", " a b ", "false")) == Wish(workload="mlp", reason="a b")
    assert wish_of(ada, inputs("mlp", "slower", "true")).accept_regression


def test_a_comment_is_not_overruled_by_inputs() -> None:
    asked = Request(by="ada", pull_request=1, comment="/perfgate bless mlp why")
    assert wish_of(asked, inputs("other", "because", "true")) == Wish(workload="mlp", reason="why")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            inputs(accept="yes"),
            "input accept-regression: the value is 'yes'. It should be true or false.\nCorrect it in the workflow.",
        ),
        (
            inputs(reason=" "),
            "input reason: it is empty. A baseline says why it is one.\nStart the workflow again, with a reason.",
        ),
        (
            inputs(reason="a\nSigned-off-by: eve"),
            (
                "input reason: it holds a line break, or characters that cannot be seen. "
                "It should be one line of at most 300 characters.\nStart the workflow again."
            ),
        ),
        (
            inputs(reason="x" * 301),
            (
                "input reason: it has 301 characters. It should be one line of at most 300 characters.\n"
                "Start the workflow again."
            ),
        ),
        (
            inputs(workload="x" * 2001),
            (
                "input workload: it has 2001 characters. It should be one line of at most 2000 characters.\n"
                "Start the workflow again."
            ),
        ),
    ],
)
def test_inputs_that_can_be_none_are_refused(given: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        wish_of(Request(by="ada"), given)
    assert str(caught.value) == message


# The event


def comment_event(
    *, on_pull_request: bool = True, action: str = "created", login: str = "ada"
) -> dict[str, object]:
    issue: dict[str, object] = {"number": 7, "title": "Faster"}
    if on_pull_request:
        issue["pull_request"] = {"url": "https://github.example"}
    return {
        "action": action,
        "issue": issue,
        "comment": {
            "id": 1,
            "body": "/perfgate bless mlp why",
            "created_at": "2026-03-02T13:00:00Z",
            "user": {"login": login},
            "author_association": "OWNER",
        },
    }


def test_a_comment_on_a_pull_request_asks(hub: GitHub, tmp_path: Path) -> None:
    context = Context.from_env(hub.env_of("issue_comment", comment_event(), tmp_path))
    assert read_request(context) == Request(
        by="ada",
        pull_request=7,
        comment="/perfgate bless mlp why",
        asked_at=datetime(2026, 3, 2, 13, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (comment_event(on_pull_request=False), "on an issue"),
        (comment_event(action="edited"), "edited"),
    ],
)
def test_another_comment_does_not_ask(
    hub: GitHub, tmp_path: Path, event: dict[str, object], told: str
) -> None:
    with pytest.raises(BlessRefused) as caught:
        read_request(Context.from_env(hub.env_of("issue_comment", event, tmp_path)))
    assert str(caught.value) == (
        f"/perfgate bless: the comment is {told}. It should be a new comment on a pull request.\n"
        "Comment there: /perfgate bless WORKLOAD REASON"
    )


def test_an_event_of_another_form_is_told(hub: GitHub, tmp_path: Path) -> None:
    with pytest.raises(ActionsContextMissing, match="comment: Field required"):
        read_request(
            Context.from_env(
                hub.env_of("issue_comment", {"action": "created", "issue": {"number": 1}}, tmp_path)
            )
        )


def test_a_dispatch_asks_by_its_actor(hub: GitHub) -> None:
    assert read_request(
        Context.from_env(hub.env(GITHUB_EVENT_NAME="workflow_dispatch"))
    ) == Request(by="ada")


def test_no_other_event_asks(hub: GitHub) -> None:
    with pytest.raises(BlessRefused) as caught:
        read_request(Context.from_env(hub.env(GITHUB_EVENT_NAME="pull_request_target")))
    assert str(caught.value) == (
        "github bless: the workflow was started by pull_request_target. "
        "It should be workflow_dispatch or issue_comment, by which a maintainer asks.\n"
        "See perfgate's workflow: .github/workflows/perfgate-bless.yml"
    )


# What GitHub says of both


@pytest.mark.parametrize("may", ["admin", "maintain", "write"])
def test_who_may_write_may_bless(hub: GitHub, repository: Repository, may: str) -> None:
    hub.permissions["ada"] = may
    refuse_strangers(repository, "ada")


@pytest.mark.parametrize("may", ["read", "none", "triage", "Admin"])
def test_who_may_not_write_may_not_bless(hub: GitHub, repository: Repository, may: str) -> None:
    hub.permissions["eve"] = may
    with pytest.raises(BlessRefused) as caught:
        refuse_strangers(repository, "eve")
    assert str(caught.value) == (
        f"eve: their permission in this repository is {may}. A baseline is blessed by someone who may write here.\n"
        "Ask a maintainer to bless it."
    )


def test_a_dispatch_is_about_the_branch_it_is_on(hub: GitHub, repository: Repository) -> None:
    context = Context.from_env(hub.env(GITHUB_REF="refs/heads/faster/loss", GITHUB_SHA="c" * 40))
    assert branch_of(Request(by="ada"), context, repository) == Branch(
        name="faster/loss", head_sha="c" * 40
    )
    assert hub.asked == []


def test_a_tag_cannot_be_committed_to(hub: GitHub, repository: Repository) -> None:
    with pytest.raises(ActionsContextMissing, match="A branch is wanted"):
        branch_of(
            Request(by="ada"), Context.from_env(hub.env(GITHUB_REF="refs/tags/v1")), repository
        )


def test_a_comment_is_about_the_head_of_its_pull_request(
    hub: GitHub, repository: Repository
) -> None:
    number = hub.pull(branch="faster", sha="c" * 40)
    asked = Request(by="ada", pull_request=number)
    assert branch_of(asked, Context.from_env(hub.env()), repository) == Branch(
        name="faster", head_sha="c" * 40
    )


@pytest.mark.parametrize(
    ("head", "state", "fork_gone", "told"),
    [
        ("eve/loops", "open", False, "its branch lies in a fork"),
        ("eve/loops", "open", True, "its branch lies in a fork"),
        (None, "closed", False, "it is closed"),
    ],
)
def test_a_branch_that_cannot_be_committed_to_is_left_to_a_desk(
    hub: GitHub, repository: Repository, head: str | None, state: str, told: str, *, fork_gone: bool
) -> None:
    number = hub.pull(head=head, state=state, fork_gone=fork_gone)
    with pytest.raises(BlessRefused) as caught:
        branch_of(Request(by="ada", pull_request=number), Context.from_env(hub.env()), repository)
    assert str(caught.value) == (
        f"pull request {number}: {told}, to which this workflow cannot commit. "
        "A baseline is committed to the branch of the code that it is of.\n"
        'Bless at a desk, on that branch: pytest --perfgate; perfgate bless --reason "..."'
    )
