"""Which files git tracks, and where a project lies among them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.asked import Env, run
from support.refused import refused

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system import git


def test_tracked_files_are_relative_to_the_root_and_exist(root: Path, env: Env) -> None:
    (root / "untracked.py").write_text("")
    (root / "ünï code.py").write_text("")
    run(root, env, "add", "ünï code.py")
    here = (".gitignore", "workloads/mlp.py", "ünï code.py")
    assert set(git.tracked_files(root, env=env)) == {*here, "train.py"}
    assert git.tracked_files(root / "workloads", env=env) == ("mlp.py",)
    (root / "train.py").unlink()
    assert git.tracked_files(root, env=env) == here


@pytest.mark.usefixtures("submodule")
def test_tracked_files_of_submodules_are_among_them(root: Path, env: Env) -> None:
    assert "libs/pkg/core.py" in git.tracked_files(root, env=env)
    assert git.tracked_files(root / "libs", env=env) == ("pkg/core.py",)
    run(root, env, "submodule", "--quiet", "deinit", "--force", "libs/pkg")
    assert "libs/pkg/core.py" not in git.tracked_files(root, env=env)


def test_where_a_project_lies_in_its_repository_is_reported_through_links(
    root: Path, env: Env, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(root / "workloads")
    assert git.prefix(root, env=env) == Path()
    assert git.prefix(root / "workloads", env=env) == Path("workloads")
    assert git.prefix(tmp_path / "link", env=env) == Path("workloads")


def test_a_folder_of_git_itself_is_no_project(root: Path, env: Env) -> None:
    with refused(RepositoryUnreadable, "not-in-checkout"):
        git.prefix(root / ".git", env=env)


def test_what_is_ignored_is_known_of_untracked_files(root: Path, env: Env) -> None:
    (root / ".perfgate").mkdir()
    names = ("run.log", "odd [name].log", ".perfgate/x", "workloads/a.log", "new.py", "odd n.log")
    files = [root / name for name in names]
    for file in files:
        file.touch()
    assert git.ignored(root, files[:5], env=env) == {*files[:4]}
    assert git.ignored(root, (), env={}) == set()
    assert git.ignored(root, (root.parent / "outside.py",), env=env) == set()
