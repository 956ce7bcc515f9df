"""What git refuses is reported with the remedy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.asked import Env, refusal, run

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system import git


def test_a_hook_of_another_repository_does_not_lead_astray(
    root: Path, env: Env, tmp_path: Path
) -> None:
    astray = {
        **env,
        "GIT_DIR": str(tmp_path / "nowhere"),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
    }
    assert git.read_commit(root, env=astray) == git.read_commit(root, env=env)


def test_a_hook_of_a_git_that_takes_paths_literally_does_not_make_all_clean(
    root: Path, env: Env
) -> None:
    (root / "train.py").write_text("changed\n")
    literal = {**env, "GIT_LITERAL_PATHSPECS": "1"}
    assert git.require_commit(root, env=literal).dirty
    assert git.changes(root, env=literal) == ("train.py",)


def test_what_git_cannot_say_has_its_cause(root: Path, tmp_path: Path, env: Env) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    assert refusal(bare, {**env, "GIT_CEILING_DIRECTORIES": str(tmp_path)}) == "no-repository"
    run(bare, env, "init", "--quiet")
    assert refusal(bare, env) == "no-commit-yet"
    assert refusal(root, {**env, "PATH": str(bare)}) == "git-not-started"
    (root / ".git" / "index").write_text("no index")
    assert refusal(root, env) == "git-failed"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_a_repository_of_another_user_names_the_remedy(root: Path, env: Env) -> None:
    for path in (root, root / ".git"):
        os.chown(path, 65534, 65534)
    assert refusal(root, env) == "repository-of-another-user"
    with pytest.raises(RepositoryUnreadable):
        git.tracked_files(root, env=env)
    (root / "svc").mkdir()
    assert refusal(root / "svc", env) == "repository-of-another-user"
    trusting = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": str(root),
    }
    assert git.read_commit(root, env={**env, **trusting}) is not None


def test_a_git_that_hangs_is_given_up(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setattr("perfgate.system.git.asking.TIME_LIMIT_S", 0.2)
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert refusal(root, {"PATH": path}) == "git-timed-out"
