"""Commits and branches by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.asked import Env, run

from perfgate.model.baseline import Commit
from perfgate.model.errors import RepositoryUnreadable, RevisionMissing
from perfgate.system import git


def test_a_clean_checkout_is_its_commit_and_branch(root: Path, env: Env) -> None:
    sha = run(root, env, "rev-parse", "HEAD")
    tree = run(root, env, "rev-parse", "HEAD^{tree}")
    assert git.read_commit(root, env=env) == Commit(sha=sha, dirty=False, branch="main", tree=tree)


def test_who_blesses_is_named_by_environment_configuration_or_login(root: Path, env: Env) -> None:
    assert git.author(root, env={**env, "PATH": "/nowhere"}) != ""
    run(root, env, "config", "user.name", "Ada Lovelace")
    run(root, env, "config", "user.email", "ada@example.org")
    assert git.author(root, env=env) == "Ada Lovelace <ada@example.org>"
    assert git.author(root, env={**env, "GIT_AUTHOR_NAME": "bot"}) == "bot <ada@example.org>"


def missing(root: Path, env: Env, revision: str) -> str:
    with pytest.raises(RevisionMissing) as caught:
        git.resolve(root, revision, env=env)
    return caught.value.code


def test_a_revision_is_whatever_names_a_commit(root: Path, env: Env) -> None:
    sha = run(root, env, "rev-parse", "HEAD")
    run(root, env, "tag", "-a", "v1", "-m", "annotated")
    run(root, env, "commit", "--quiet", "--allow-empty", "-m", "second")
    names = (sha, sha[:12], "HEAD~1", "v1", "main^")
    assert {git.resolve(root / "workloads", name, env=env) for name in names} == {sha}


@pytest.mark.parametrize("revision", ["nonsense", "0" * 40, "--all", "", "a\0b", "HEAD^{tree}"])
def test_a_revision_that_names_no_commit_is_missing(root: Path, env: Env, revision: str) -> None:
    assert missing(root, env, revision) == "revision-not-in-clone"


def test_a_revision_that_a_shallow_clone_lacks_is_reported_with_the_remedy(
    root: Path, env: Env, tmp_path: Path
) -> None:
    sha = run(root, env, "rev-parse", "HEAD")
    run(root, env, "commit", "--quiet", "--allow-empty", "-m", "second")
    run(root, env, "clone", "--quiet", "--depth=1", root.as_uri(), str(tmp_path / "shallow"))
    assert missing(tmp_path / "shallow", env, sha) == "revision-not-in-shallow-clone"
    run(tmp_path / "shallow", env, "fetch", "--quiet", "--unshallow")
    assert git.resolve(tmp_path / "shallow", sha, env=env) == sha


def test_a_revision_outside_a_repository_is_the_repositorys_trouble(
    tmp_path: Path, env: Env
) -> None:
    with pytest.raises(RepositoryUnreadable, match="it is not in a git repository"):
        git.resolve(tmp_path, "HEAD", env={**env, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})


def test_the_default_branch_is_the_one_that_origin_names(
    root: Path, env: Env, tmp_path: Path
) -> None:
    run(root, env, "branch", "--move", "trunk/2")
    clone = tmp_path / "clone"
    run(tmp_path, env, "clone", "--quiet", str(root), str(clone))
    run(clone, env, "checkout", "--quiet", "-b", "main")
    assert git.default_branch(clone, env=env) == "trunk/2"


@pytest.mark.parametrize("name", ["main", "master"])
def test_without_an_origin_the_default_branch_is_main_or_master(
    root: Path, env: Env, name: str
) -> None:
    run(root, env, "branch", "--move", name)
    run(root, env, "checkout", "--quiet", "-b", "feature/main")
    assert git.default_branch(root, env=env) == name


def test_else_the_default_branch_is_the_current_one(root: Path, env: Env) -> None:
    run(root, env, "branch", "--move", "größe")
    assert git.default_branch(root, env=env) == "größe"
    run(root, env, "checkout", "--quiet", "--detach")
    assert git.default_branch(root, env=env) is None


def test_a_branch_of_the_remote_is_fetched_and_nothing_else_is_changed(
    root: Path, clone: Path, env: Env
) -> None:
    before = git.require_commit(clone, env=env)
    git.fetch_branch(clone, "release/1.0", env=env)
    assert git.resolve(clone, "refs/remotes/origin/release/1.0", env=env) == run(
        root, env, "rev-parse", "HEAD"
    )
    assert git.require_commit(clone, env=env) == before
    assert (
        run(clone, env, "config", "--get-all", "remote.origin.fetch")
        == "+refs/heads/main:refs/remotes/origin/main"
    )


def test_a_shallow_clone_gets_its_history_with_the_branch(
    root: Path, env: Env, tmp_path: Path
) -> None:
    for number in range(3):
        run(root, env, "commit", "--quiet", "--allow-empty", f"--message={number}")
    run(tmp_path, env, "clone", "--quiet", "--depth=1", f"file://{root}", "shallow")
    shallow = tmp_path / "shallow"
    assert git.is_shallow(shallow, env=env)
    git.fetch_branch(shallow, "main", env=env)
    assert not git.is_shallow(shallow, env=env)
    assert git.resolve(shallow, "HEAD~3", env=env)


def test_a_branch_that_is_not_there_cannot_be_fetched(clone: Path, env: Env) -> None:
    with pytest.raises(RepositoryUnreadable) as refused:
        git.fetch_branch(clone, "gone", env=env)
    assert (refused.value.code, refused.value.fields["verb"]) == ("git-failed", "fetch")
