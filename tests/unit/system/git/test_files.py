"""Which files git tracks, and where a project lies among them."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest
from support.asked import Env, run

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system import git


def test_tracked_files_are_relative_to_the_root_and_exist(root: Path, env: Env) -> None:
    (root / "untracked.py").write_text("")
    (root / "ünï code.py").write_text("")
    run(root, env, "add", "ünï code.py")
    assert git.tracked_files(root, "*.py", env=env) == (
        "train.py",
        "workloads/mlp.py",
        "ünï code.py",
    )
    assert git.tracked_files(root / "workloads", env=env) == ("mlp.py",)
    (root / "train.py").unlink()
    assert git.tracked_files(root, "*.py", env=env) == ("workloads/mlp.py", "ünï code.py")


def test_tracked_files_of_submodules_are_among_them(root: Path, env: Env, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    run(inner, env, "init", "--quiet")
    (inner / "core.py").write_text("")
    run(inner, env, "add", "core.py")
    run(inner, env, "commit", "--quiet", "-m", "one")
    run(
        root,
        env,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(inner),
        "libs/pkg",
    )
    assert git.tracked_files(root, "*.py", env=env) == (
        "libs/pkg/core.py",
        "train.py",
        "workloads/mlp.py",
    )
    assert git.tracked_files(root / "libs", env=env) == ("pkg/core.py",)
    run(root, env, "submodule", "--quiet", "deinit", "--force", "libs/pkg")
    assert git.tracked_files(root, "*.py", env=env) == ("train.py", "workloads/mlp.py")


def test_a_folder_is_a_projects_where_git_tracks_what_says_so(root: Path, env: Env) -> None:
    for name in (
        "pyproject.toml",
        "a/setup.py",
        "a/b/setup.cfg",
        "a/b/setup.py",
        "c/my-pyproject.toml",
        "d/setup.py",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    run(root, env, "add", "pyproject.toml", "a", "c")
    assert git.project_folders(root, env=env) == (root, root / "a", root / "a/b")
    assert git.project_folders(root / "a", env=env) == (root / "a", root / "a/b")


def test_where_a_project_lies_in_its_repository_is_told_through_links(
    root: Path, env: Env, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(root / "workloads")
    assert git.prefix(root, env=env) == Path()
    assert git.prefix(root / "workloads", env=env) == Path("workloads")
    assert git.prefix(tmp_path / "link", env=env) == Path("workloads")


def test_a_folder_of_git_itself_is_no_project(root: Path, env: Env) -> None:
    with pytest.raises(RepositoryUnreadable) as caught:
        git.prefix(root / ".git", env=env)
    assert str(caught.value) == (
        f"{root / '.git'}: it is in no checkout of its repository. perfgate asks git which code it measures.\n"
        "Run perfgate in a checkout of the project."
    )


def test_what_is_tracked_is_told_of_files_and_folders(root: Path, env: Env) -> None:
    (root / "run.log").write_text("")
    (root / "[odd]*.py").write_text("")
    asked = ("train.py", "workloads", "run.log", "none", "[odd]*.py")
    assert [git.is_tracked(root, root / name, env=env) for name in asked] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_what_is_ignored_is_told_of_what_is_there_and_what_is_not(root: Path, env: Env) -> None:
    run(root, env, "add", "--force", "--intent-to-add", "--", "train.py")
    asked = ("run.log", "odd [name].log", "train.py", "new.py", ".perfgate/x")
    assert git.ignored(root, asked, env=env) == {"run.log", "odd [name].log", ".perfgate/x"}
    assert git.ignored(root, ("train.py",), env=env) == set()
    assert git.ignored(root, (), env={}) == set()
    with pytest.raises(RepositoryUnreadable):
        git.ignored(root, ("../outside.py",), env=env)


def test_vendored_folders_are_tracked_ones_of_that_name(root: Path, env: Env) -> None:
    assert git.vendored(root, env=env) == frozenset()
    for name in (
        "site-packages/a.py",
        "v/dist-packages/b/site-packages/c.py",
        "v/dist-packages/d",
        "x/my-site-packages/e",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    run(root, env, "add", ".")
    (root / "other" / "site-packages").mkdir(parents=True)
    (root / "other" / "site-packages" / "f.py").write_text("")
    assert git.vendored(root, env=env) == {PurePath("site-packages"), PurePath("v/dist-packages")}


def test_files_of_git_lfs_are_those_with_its_filter(root: Path, env: Env) -> None:
    assert git.lfs_files(root, env=env) == ()
    (root / ".gitattributes").write_text("*.bin filter=lfs\n")
    (root / "a.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    run(root, env, "add", ".")
    assert git.lfs_files(root, env=env) == ("a.bin",)
