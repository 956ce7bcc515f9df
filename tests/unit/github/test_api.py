"""GitHub's REST API: how often it is asked, as what it fails, and what it never learns."""

from __future__ import annotations

import pytest
from github import InputGitTreeElement
from github.Repository import Repository
from support.rest import (
    NOT_ACCESSIBLE,
    TOKEN,
    Answer,
    GitHub,
    invalid,
    not_found,
    primary_limit,
    secondary_limit,
)

from perfgate.github import api
from perfgate.model.errors import (
    GitHubRefused,
    GitHubUnreachable,
    PerfgateError,
)

FAILS = Answer(502, {"message": "Bad Gateway"})


@pytest.mark.parametrize(
    ("answer", "error", "code"),
    [
        (Answer(401, {"message": "Bad credentials"}), GitHubRefused, "github-refused"),
        (NOT_ACCESSIBLE, GitHubRefused, "github-refused"),
        (not_found(), GitHubRefused, "github-refused"),
        (invalid("Validation Failed", "a", {"message": "b"}), GitHubRefused, "github-refused"),
        (FAILS, GitHubUnreachable, "github-unreachable"),
        (primary_limit(3000), GitHubUnreachable, "github-unreachable"),
        (Answer(200, b"<html>"), GitHubUnreachable, "github-unreachable"),
        (Answer(301, None, {"Location": "http://evil.example/x"}), GitHubUnreachable, None),
    ],
)
def test_a_request_fails_with_a_code_and_the_permission_that_is_needed(
    hub: GitHub,
    repository: Repository,
    answer: Answer,
    error: type[PerfgateError],
    code: str | None,
) -> None:
    number = hub.pull()
    hub.fail("GET /pulls", answer, times=9)
    with pytest.raises(error) as caught:
        repository.get_pull(number).complete()
    assert code in (None, caught.value.code)
    assert str(caught.value.fields["request"]).endswith(f"/repos/octo/loops/pulls/{number}")
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "answer", [secondary_limit(retry_after=0), secondary_limit(retry_after=0, status=429), FAILS]
)
def test_what_fails_for_a_moment_is_asked_again(
    hub: GitHub, repository: Repository, answer: Answer
) -> None:
    number = hub.pull()
    hub.fail("GET /pulls", answer)
    assert repository.get_pull(number).title == "Faster"


def test_what_may_have_been_made_is_not_made_again(hub: GitHub, repository: Repository) -> None:
    number = hub.pull()
    hub.fail("POST /issues", FAILS, after=True)
    with pytest.raises(GitHubUnreachable):
        repository.get_pull(number).create_issue_comment("once")
    assert [one["body"] for one in hub.comments[number]] == ["once"]


def test_a_next_page_elsewhere_is_not_asked_for(hub: GitHub, repository: Repository) -> None:
    elsewhere = {"Link": '<http://evil.example/api/v3/x>; rel="next"'}
    hub.fail("GET /pulls", Answer(200, [{"number": 7}], elsewhere))
    with pytest.raises(GitHubUnreachable):
        list(repository.get_pulls())


def test_nothing_that_is_published_holds_a_secret(hub: GitHub) -> None:
    repository = api.connect(hub.env(DB_PASSWORD="Sw0rd-Fish-22"))
    number, base = hub.pull(), hub.commit({"a": "1"}, branch="main")
    repository.get_pull(number).create_issue_comment("it is Sw0rd-Fish-22")
    parent = repository.get_git_commit(base)
    entry = InputGitTreeElement("b", "100644", "blob", content="Sw0rd-Fish-22")
    tree = repository.create_git_tree([entry], parent.tree)
    made = repository.create_git_commit("Sw0rd-Fish-22", tree, [parent]).sha
    assert "Sw0rd" not in str(hub.comments[number])
    assert "Sw0rd" not in hub.commits[made].message
    assert b"Sw0rd" not in hub.commits[made].files["b"]
