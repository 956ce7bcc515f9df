"""Commits that records name: after squash merges, in shallow clones, from remotes that give them,
fail or hang."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.refused import refused
from support.repository import Repository

from perfgate.model.errors import RevisionMissing
from perfgate.system import git
from perfgate.system.git import commits, files

pytestmark = pytest.mark.behaviour

OPEN = ("uploadpack.allowReachableSHA1InWant", "true")


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    """A repository with a main branch, and a branch whose second commit blesses its first."""
    made = Repository(tmp_path / "origin")
    made.commit({"train.py": "1", "baselines/h200/mlp.json": "old"})
    made.git("checkout", "--quiet", "-b", "topic")
    return made


def code_tree(repository: Repository, revision: str = "HEAD", baselines: str = "baselines") -> str:
    tree = repository.git("rev-parse", f"{revision}^{{tree}}")
    found = files.without_baselines(repository.root, [tree], baselines, env=repository.env)
    return found.get(tree, tree)


def measured_and_squashed(repository: Repository) -> tuple[str, str]:
    """Commit code, then its baseline, and merge both as one commit; return the measured commit and
    that one."""
    measured = repository.commit({"train.py": "2"})
    repository.commit({"baselines/h200/mlp.json": "new"})
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--squash", "topic")
    return measured, repository.commit()


def clone(repository: Repository, *words: str) -> Repository:
    made = Repository.__new__(Repository)
    made.top = made.root = repository.top.parent / "clone"
    made.env = repository.env
    repository.git(
        "clone",
        "--quiet",
        *words,
        f"file://{repository.top}",
        str(made.top),
        cwd=repository.top.parent,
    )
    return made


def obtained(repository: Repository, sha: str, tree: str | None = None) -> str:
    return git.obtain(repository.root, sha, tree=tree, baselines="baselines", env=repository.env)


def test_a_commit_that_is_there_is_itself(origin: Repository) -> None:
    sha = origin.commit()
    assert obtained(origin, sha) == sha == obtained(origin, sha, "0" * 40)


@pytest.mark.parametrize("words", [(), ("--depth=1",)], ids=["whole", "shallow"])
def test_after_a_squash_the_commit_with_the_same_files_is_taken(
    origin: Repository, words: tuple[str, ...]
) -> None:
    measured, squashed = measured_and_squashed(origin)
    tree = code_tree(origin, measured)
    here = clone(origin, "--single-branch", "--branch=main", *words)
    here.git("remote", "remove", "origin")
    assert obtained(here, measured, tree) == squashed
    with pytest.raises(RevisionMissing):
        obtained(here, measured)
    with pytest.raises(RevisionMissing):
        obtained(here, measured, "0" * 40)


@pytest.mark.parametrize("baselines", ["baselines", "perf/gpu", "./perf/gpu/"])
def test_the_tree_without_baselines_is_gits_own(tmp_path: Path, baselines: str) -> None:
    bare = Repository(tmp_path / "mono", within="apps/train")
    bare.commit({"train.py": "1", "perf/notes": "", "../other/x": ""})
    plain = bare.git("rev-parse", "HEAD^{tree}")
    assert code_tree(bare, baselines=baselines) == plain
    bare.commit({f"{baselines}/h200/mlp.json": "new"})
    assert code_tree(bare, baselines=baselines) == plain != bare.git("rev-parse", "HEAD^{tree}")
    bare.commit({"train.py": "2"})
    assert code_tree(bare, baselines=baselines) != plain


def test_what_lies_elsewhere_leaves_the_tree_whole(origin: Repository) -> None:
    for baselines in ("..", "/elsewhere", "../baselines", "."):
        assert code_tree(origin, baselines=baselines) == origin.git("rev-parse", "HEAD^{tree}")


@pytest.mark.parametrize("words", [(), ("--depth=1",)], ids=["whole", "shallow"])
def test_a_commit_that_the_remote_still_gives_is_fetched(
    origin: Repository, words: tuple[str, ...]
) -> None:
    measured, _ = measured_and_squashed(origin)
    origin.git("update-ref", "refs/pull/1/head", measured)
    origin.git("branch", "--quiet", "-D", "topic")
    origin.git("config", *OPEN)
    here = clone(origin, *words)
    refs = here.git("for-each-ref")
    assert obtained(here, measured) == measured
    assert here.git("show", f"{measured}:train.py") == "2"
    assert here.git("for-each-ref") == refs
    assert not (here.top / ".git" / "FETCH_HEAD").exists()
    assert (here.git("rev-parse", "--is-shallow-repository") == "true") == bool(words)


def test_a_remote_that_does_not_give_it_leaves_it_missing(origin: Repository) -> None:
    measured, _ = measured_and_squashed(origin)
    here = clone(origin, "--single-branch", "--branch=main")
    origin.git("branch", "--quiet", "-D", "topic")
    origin.git("reflog", "expire", "--expire=now", "--all")
    origin.git("gc", "--quiet", "--prune=now")
    with refused(RevisionMissing, "revision-not-fetched"):
        obtained(here, measured)


HANGS: Mapping[str, str] = {
    "hangs": "sleep 600",
    "asks": "read -r answer < /dev/tty",
    "fails": "exit 255",
}


@pytest.mark.parametrize("how", HANGS)
def test_a_remote_that_hangs_or_asks_is_waited_for_no_longer_than_its_limit(
    origin: Repository, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\n{HANGS[how]}\n")
    ssh.chmod(0o755)
    here = clone(origin)
    here.git("remote", "set-url", "origin", "ssh://nobody@nowhere.invalid/x.git")
    here.env = {**here.env, "GIT_SSH_COMMAND": str(ssh), "GIT_SSH_VARIANT": "simple"}
    monkeypatch.setattr(commits, "FETCH_LIMIT_S", 2.0)
    began = time.monotonic()
    with pytest.raises(RevisionMissing):
        obtained(here, "a" * 40)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "sha",
    ["HEAD", "main", "--upload-pack=x", "-x", "a" * 39, "A" * 40, "HEAD~1", "", f"{'a' * 40}\n"],
)
def test_what_is_no_sha_reaches_no_git(
    origin: Repository, sha: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "resolve", pytest.fail)
    with pytest.raises(RevisionMissing):
        obtained(origin, sha)


def test_a_branch_says_that_the_default_one_does_not_hold_its_commit(origin: Repository) -> None:
    on_topic, base = origin.commit({"train.py": "2"}), origin.git("rev-parse", "main")

    def found(where: Repository, sha: str) -> str | None:
        return git.default_branch_without(where.root, sha, env=where.env)

    assert (found(origin, on_topic), found(origin, base)) == ("main", None)
    origin.git("checkout", "--quiet", "main")
    here = clone(origin, "--branch=topic")
    assert (found(here, on_topic), found(here, base)) == ("main", None)
    origin.git("merge", "--quiet", "topic")
    assert found(origin, on_topic) is None
