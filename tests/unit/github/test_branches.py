"""Files, branches and runners by GitHub's API, as far as a branch of perfgate's own needs them."""

from __future__ import annotations

import pytest
from support.rest import GitHub, not_found

from perfgate.github.api import Repository
from perfgate.model.errors import BranchMoved, GitHubRefused, GitHubUnreachable


def test_the_files_of_a_folder_are_listed_from_the_top(hub: GitHub, repository: Repository) -> None:
    sha = hub.commit(
        {"a/b/c.json": "{}", "a/b/d/e.json": "[]", "a/x": "x", "a.json": ""}, branch="main"
    )
    found = repository.blobs(sha, "a/b")
    assert {path: repository.blob(blob, limit_bytes=10) for path, blob in found.items()} == {
        "a/b/c.json": b"{}",
        "a/b/d/e.json": b"[]",
    }


@pytest.mark.parametrize("folder", ["none", "a/none", "a/x"])
def test_a_folder_that_is_not_there_has_no_files(
    hub: GitHub, repository: Repository, folder: str
) -> None:
    assert repository.blobs(hub.commit({"a/x": "x"}, branch="main"), folder) == {}


def test_files_that_are_not_all_listed_are_none(hub: GitHub, repository: Repository) -> None:
    sha = hub.commit({"a/x": "x"}, branch="main")
    hub.truncates_trees = True
    with pytest.raises(GitHubUnreachable) as caught:
        repository.blobs(sha, "a")
    assert str(caught.value) == (
        f'the files in "a" of commit {sha[:12]}: GitHub listed only some of them. '
        "Which baselines are there has to be known whole.\nKeep baselines in a folder of their own."
    )


def test_a_file_is_read_up_to_a_limit(hub: GitHub, repository: Repository) -> None:
    blob = repository.blobs(hub.commit({"a/x": "x" * 11}, branch="main"), "a")["a/x"]
    with pytest.raises(GitHubUnreachable) as caught:
        repository.blob(blob, limit_bytes=10)
    assert str(caught.value) == (
        f"file {blob[:12]}: it has 11 bytes. No more than 10 are read.\nLook at what lies on the branch."
    )


def test_a_branch_of_our_own_is_made_anew(hub: GitHub, repository: Repository) -> None:
    base = hub.commit({"a": "1"}, branch="main")
    first = repository.rebuild_branch(
        branch="own", expected_head=None, onto=base, files={"b": b"2"}, message="one"
    )
    assert hub.content("own") == {"a": b"1", "b": b"2"}
    base = hub.commit({"a": "3"}, branch="main")
    second = repository.rebuild_branch(
        branch="own", expected_head=first, onto=base, files={"c": b"4"}, message="two"
    )
    assert hub.content("own") == {"a": b"3", "c": b"4"}
    assert hub.commits[second].parents == (base,)


def test_a_branch_that_is_elsewhere_is_not_made_anew(hub: GitHub, repository: Repository) -> None:
    base = hub.commit({"a": "1"}, branch="main")
    there = hub.commit({"x": "1"}, branch="own")
    for expected, told in (
        (None, "It was not to be there"),
        ("f" * 40, f"It was to be at {'f' * 12}"),
    ):
        with pytest.raises(BranchMoved) as caught:
            repository.rebuild_branch(
                branch="own", expected_head=expected, onto=base, files={"b": b"2"}, message="m"
            )
        assert str(caught.value) == (
            f'branch "own": it is at {there[:12]}. {told}; nothing was committed.\n'
            "Start again, with what the branch is now."
        )
    assert hub.branches["own"] == there


def test_a_commit_of_no_files_or_of_files_elsewhere_is_a_mistake(
    hub: GitHub, repository: Repository
) -> None:
    base = hub.commit({"a": "1"}, branch="main")
    with pytest.raises(ValueError, match="a commit of no files"):
        repository.rebuild_branch(
            branch="own", expected_head=None, onto=base, files={}, message="m"
        )
    with pytest.raises(ValueError, match="no path of a file in a repository"):
        repository.rebuild_branch(
            branch="own", expected_head=None, onto=base, files={"../x": b""}, message="m"
        )
    assert hub.asked == []


def test_self_hosted_runners_are_told_by_name(hub: GitHub, repository: Repository) -> None:
    run = hub.run()
    hub.jobs[run] = [
        {"name": "a", "runner_name": "h200-b", "labels": ["self-hosted"]},
        {"name": "b", "runner_name": "h200-a", "labels": ["gpu", "self-hosted"]},
        {"name": "c", "runner_name": None, "labels": ["self-hosted"]},
        {"name": "d", "runner_name": "GitHub Actions 3", "labels": ["ubuntu-24.04"]},
    ]
    assert repository.runners(run) == ("h200-a", "h200-b")
    assert hub.asked[-1].query["filter"] == "all"


def test_jobs_that_are_not_there_are_refused(hub: GitHub, repository: Repository) -> None:
    hub.fail("/jobs", not_found())
    with pytest.raises(GitHubRefused, match="the jobs of run 1: GitHub answered 404"):
        repository.runners(1)


@pytest.mark.behaviour
def test_nothing_that_is_written_holds_a_secret(hub: GitHub, repository: Repository) -> None:
    token = "ghp_" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3"
    head = hub.commit({"a": "1"}, branch="main")
    files = {"b.json": f'{{"reason": "with {token}"}}'.encode()}
    repository.commit_files(branch="main", expected_head=head, files=files, message=f"with {token}")
    number = hub.pull(branch="faster", sha=head)
    comment = repository.create_comment(number, f"with {token}")
    repository.edit_comment(comment.id, f"still with {token}")
    repository.edit_pull_request(number, title=f"with {token}", body=token)
    assert b"with [hidden" in b"".join(hub.blobs.values())
    assert token.encode() not in b"".join(hub.blobs.values())
    assert token not in repr(hub.asked)
