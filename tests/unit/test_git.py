"""What git is asked, of real repositories."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from perfgate import git
from perfgate.model.baseline import Commit
from perfgate.model.errors import RepositoryUnreadable

Env = Mapping[str, str]


@pytest.fixture
def env(tmp_path: Path) -> Env:
    """An environment without the configuration of this machine."""
    home = tmp_path / "home"
    home.mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LOGNAME": "ada"}


def run(root: Path, env: Env, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    command = ("git", *identity, *arguments)
    return subprocess.run(command, cwd=root, env=env, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path: Path, env: Env) -> Path:
    """A repository of one commit on branch main."""
    root = tmp_path / "project"
    (root / "workloads").mkdir(parents=True)
    (root / "workloads" / "mlp.py").write_text("steps = 1\n")
    (root / "train.py").write_text("pass\n")
    (root / ".gitignore").write_text(".perfgate/\n*.log\n")
    run(root, env, "init", "--quiet", "--initial-branch=main")
    run(root, env, "add", ".")
    run(root, env, "commit", "--quiet", "-m", "first")
    return root


def test_a_clean_checkout_is_its_commit_and_branch(root: Path, env: Env) -> None:
    sha = run(root, env, "rev-parse", "HEAD")
    assert git.read_commit(root, env=env) == Commit(sha=sha, dirty=False, branch="main")


def test_a_detached_head_has_no_branch(root: Path, env: Env) -> None:
    run(root, env, "checkout", "--quiet", "--detach")
    assert git.require_commit(root, env=env).branch is None


@pytest.mark.parametrize(
    ("path", "dirty"),
    [
        ("train.py", True),
        ("new_module.py", True),
        ("new folder/ü.txt", True),
        ("run.log", False),
        (".perfgate/result.json", False),
        ("baselines/nvidia-h200/mlp.json", False),
        ("workloads/baselines.py", True),
    ],
)
def test_whatever_the_commit_does_not_hold_makes_it_dirty_but_for_baselines(
    root: Path, env: Env, path: str, dirty: bool
) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("changed\n")
    assert git.require_commit(root, env=env).dirty is dirty


def test_a_staged_deletion_is_dirty(root: Path, env: Env) -> None:
    run(root, env, "rm", "--quiet", "train.py")
    assert git.require_commit(root, env=env).dirty


def test_a_project_inside_a_repository_is_dirty_by_any_file_of_the_repository(root: Path, env: Env) -> None:
    (root / "workloads" / "blessed").mkdir()
    (root / "workloads" / "blessed" / "x.json").write_text("{}")
    assert not git.require_commit(root / "workloads", env=env, baselines="blessed").dirty
    assert git.require_commit(root / "workloads", env=env).dirty
    (root / "train.py").write_text("changed\n")
    assert git.require_commit(root / "workloads", env=env, baselines="blessed").dirty


@pytest.mark.parametrize("baselines", ["../elsewhere", "/elsewhere", "[odd]*"])
def test_baselines_elsewhere_do_not_confuse_git(root: Path, env: Env, baselines: str) -> None:
    assert git.require_commit(root, env=env, baselines=baselines).dirty is False


def test_a_hook_of_another_repository_does_not_lead_astray(root: Path, env: Env, tmp_path: Path) -> None:
    astray = {**env, "GIT_DIR": str(tmp_path / "nowhere"), "GIT_INDEX_FILE": str(tmp_path / "index")}
    assert git.read_commit(root, env=astray) == git.read_commit(root, env=env)


def refusal(root: Path, env: Env) -> str:
    assert git.read_commit(root, env=env) is None
    with pytest.raises(RepositoryUnreadable) as caught:
        git.require_commit(root, env=env)
    return str(caught.value)


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
        git.tracked_python_files(root, env=env)
    trusting = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": str(root)}
    assert git.read_commit(root, env={**env, **trusting}) is not None


def test_a_broken_repository_is_told_in_gits_words(root: Path, env: Env) -> None:
    (root / ".git" / "index").write_text("no index")
    assert refusal(root, env).startswith(f"{root}: git status failed: ")


def test_a_git_that_hangs_is_given_up(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setattr(git, "TIME_LIMIT_S", 0.2)
    assert refusal(root, {"PATH": f"{tmp_path}:{os.environ['PATH']}"}).startswith(
        f"{root}: git status took longer than 0.2 s."
    )


def test_who_blesses_is_named_by_environment_configuration_or_login(root: Path, env: Env) -> None:
    assert git.author(root, env={**env, "PATH": "/nowhere"}) != ""
    run(root, env, "config", "user.name", "Ada Lovelace")
    assert git.author(root, env=env) == "Ada Lovelace"
    run(root, env, "config", "user.email", "ada@example.org")
    assert git.author(root, env=env) == "Ada Lovelace <ada@example.org>"
    assert git.author(root, env={**env, "GIT_AUTHOR_NAME": "bot"}) == "bot <ada@example.org>"


def test_who_blesses_without_any_configuration_is_the_login(
    tmp_path: Path, env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert git.author(tmp_path, env=env) == "ada"


def test_tracked_python_files_are_relative_to_the_root_and_exist(root: Path, env: Env) -> None:
    (root / "untracked.py").write_text("")
    (root / "ünï code.py").write_text("")
    run(root, env, "add", "ünï code.py")
    assert git.tracked_python_files(root, env=env) == ("train.py", "workloads/mlp.py", "ünï code.py")
    assert git.tracked_python_files(root / "workloads", env=env) == ("mlp.py",)
    (root / "train.py").unlink()
    assert git.tracked_python_files(root, env=env) == ("workloads/mlp.py", "ünï code.py")
