"""GitHub's REST API: how often it is asked, as what it fails, and what it never learns."""

from __future__ import annotations

import pytest
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
from perfgate.github.context import Context
from perfgate.model.errors import (
    ArtifactUnreadable,
    BranchMoved,
    GitHubRefused,
    GitHubUnreachable,
    PerfgateError,
)

FAILS = Answer(502, {"message": "Bad Gateway"})


@pytest.mark.parametrize(
    ("answer", "error", "code"),
    [
        (Answer(401, {"message": "Bad credentials"}), GitHubRefused, "github-token-unknown"),
        (NOT_ACCESSIBLE, GitHubRefused, "github-forbidden"),
        (not_found(), GitHubRefused, "github-not-found"),
        (invalid("Validation Failed", "a", {"message": "b"}), GitHubRefused, "github-refused"),
        (FAILS, GitHubUnreachable, "github-unreachable"),
        (primary_limit(3000), GitHubUnreachable, "github-fails"),
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
    assert caught.value.fields["request"] == f"GET /repos/octo/loops/pulls/{number}"
    assert caught.value.fields.get("needs") in (None, "pull-requests: read")
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


def test_a_change_is_made_again_after_a_rate_limit_and_not_where_it_may_have_been_made(
    hub: GitHub, repository: Repository
) -> None:
    number = hub.pull()
    hub.fail("POST /issues", secondary_limit(retry_after=0))
    repository.get_pull(number).create_issue_comment("once")
    hub.fail("POST /issues", FAILS, after=True)
    with pytest.raises(GitHubUnreachable):
        repository.get_pull(number).create_issue_comment("twice")
    assert [one["body"] for one in hub.comments[number]] == ["once", "twice"]


def test_a_next_page_elsewhere_is_not_asked_for(hub: GitHub, repository: Repository) -> None:
    elsewhere = {"Link": '<http://evil.example/api/v3/x>; rel="next"'}
    hub.fail("GET /pulls", Answer(200, [{"number": 7}], elsewhere))
    with pytest.raises(GitHubUnreachable):
        list(repository.get_pulls())


def test_nothing_that_is_published_holds_a_secret(hub: GitHub) -> None:
    repository = api.connect(Context.from_env(hub.env(DB_PASSWORD="Sw0rd-Fish-22")))
    number, base = hub.pull(), hub.commit({"a": "1"}, branch="main")
    repository.get_pull(number).create_issue_comment("it is Sw0rd-Fish-22")
    made = api.commit(repository, onto=base, files={"b": "Sw0rd-Fish-22"}, message="Sw0rd-Fish-22")
    assert "Sw0rd" not in str(hub.comments[number])
    assert "Sw0rd" not in hub.commits[made].message
    assert not any(b"Sw0rd" in blob for blob in hub.blobs.values())


def test_an_artifact_is_downloaded_up_to_a_limit_without_the_token(
    hub: GitHub, repository: Repository
) -> None:
    run = hub.run()
    hub.artifact(run, "perfgate", b"x" * 1000)
    (artifact,) = repository.get_workflow_run(run).get_artifacts()
    assert api.download(artifact, limit_bytes=1000) == b"x" * 1000
    with pytest.raises(ArtifactUnreadable):
        api.download(artifact, limit_bytes=999)
    assert all("authorization" not in asked.headers for asked in hub.fetched)
    hub.fail(r"GET /\d+\.zip", Answer(500, b"sig=secret"))
    with pytest.raises(GitHubUnreachable) as caught:
        api.download(artifact, limit_bytes=1000)
    assert "sig" not in str(caught.value)


def test_a_file_of_a_commit_is_read_and_none_that_is_not_there(
    hub: GitHub, repository: Repository
) -> None:
    sha = hub.commit({"a/b.json": "1"}, branch="main")
    assert api.content_of(repository, "a/b.json", sha) == b"1"
    assert api.content_of(repository, "c", sha) is None
    hub.fail("GET /contents", NOT_ACCESSIBLE)
    with pytest.raises(GitHubRefused):
        api.content_of(repository, "a/b.json", sha)


def test_a_branch_is_moved_only_from_where_it_was_seen(hub: GitHub, repository: Repository) -> None:
    base = hub.commit({"a": "1"}, branch="main")
    hub.commit({"a": "1"}, branch="main2")
    made = api.commit(repository, onto=base, files={"b": "2"}, message="more")
    api.move_branch(repository, "main", expected=base, to=made)
    assert hub.content("main") == {"a": b"1", "b": b"2"}
    for branch, expected in (("main", base), ("gone", base), ("main", None)):
        with pytest.raises(BranchMoved):
            api.move_branch(repository, branch, expected=expected, to=made)
    api.move_branch(repository, "new", expected=None, to=made)
    assert (hub.branches["main"], hub.branches["new"]) == (made, made)


def test_a_push_that_comes_between_wins(hub: GitHub, repository: Repository) -> None:
    base = hub.commit({"a": "1"}, branch="main")
    sideways = api.commit(repository, onto=hub.base, files={"b": "2"}, message="more")
    with pytest.raises(GitHubRefused):
        api.move_branch(repository, "main", expected=base, to=sideways)
    assert hub.branches["main"] == base
