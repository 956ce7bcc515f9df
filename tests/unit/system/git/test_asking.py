"""What git refuses is told with the remedy."""

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


def test_outside_a_repository_there_is_no_commit(tmp_path: Path, env: Env) -> None:
    assert refusal(tmp_path, {**env, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}) == (
        f"{tmp_path}: it is not in a git repository. perfgate asks git which code it measures.\n"
        "Run perfgate in a checkout of the project."
    )


def test_before_the_first_commit_there_is_none(tmp_path: Path, env: Env) -> None:
    run(tmp_path, env, "init", "--quiet")
    assert refusal(tmp_path, env) == (
        f"{tmp_path}: the repository has no commit yet. A measurement names the commit that it measured.\n"
        "Commit the code, then run again."
    )


def test_without_git_there_is_no_commit(root: Path, env: Env, tmp_path: Path) -> None:
    assert refusal(root, {**env, "PATH": str(tmp_path)}) == (
        f"{root}: there is no git on the PATH. perfgate asks git which code it measures.\nInstall git."
    )


def test_a_folder_that_is_gone_is_told_from_a_missing_git(tmp_path: Path, env: Env) -> None:
    assert refusal(tmp_path / "gone", env) == (
        f"{tmp_path / 'gone'}: there is no such folder. perfgate asks git which code it measures.\n"
        "Run perfgate inside the project."
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_a_repository_of_another_user_names_the_remedy(root: Path, env: Env) -> None:
    for path in (root, root / ".git"):
        os.chown(path, 65534, 65534)
    assert refusal(root, env) == (
        f"{root}: git refuses it, since it belongs to another user. perfgate asks git which code it measures.\n"
        f"If you trust it: git config --global --add safe.directory {root}"
    )
    with pytest.raises(RepositoryUnreadable):
        git.tracked_files(root, env=env)
    (root / "svc").mkdir()
    assert refusal(root / "svc", env).endswith(f"safe.directory {root}")
    trusting = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": str(root),
    }
    assert git.read_commit(root, env={**env, **trusting}) is not None


def test_a_broken_repository_is_told_in_gits_words(root: Path, env: Env) -> None:
    (root / ".git" / "index").write_text("no index")
    assert refusal(root, env).startswith(f"{root}: git status failed: ")


def test_a_git_that_hangs_is_given_up(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setattr("perfgate.system.git.asking.TIME_LIMIT_S", 0.2)
    assert refusal(root, {"PATH": f"{tmp_path}:{os.environ['PATH']}"}).startswith(
        f"{root}: git status took longer than 0.2 s."
    )
