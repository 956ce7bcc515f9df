"""What is not as a commit has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.asked import Env, run

from perfgate.system import git


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
        ("workloads/__pycache__/mlp.cpython-311.pyc", False),
        ("of another branch/__pycache__/gone.cpython-311.pyc", False),
        ("mlp.pyc", True),
    ],
)
def test_whatever_the_commit_does_not_hold_makes_it_dirty_but_for_baselines(
    root: Path, env: Env, path: str, dirty: bool
) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("changed\n")
    assert git.require_commit(root, env=env).dirty is dirty
    assert bool(git.changes(root, env=env, baselines="baselines")) is dirty


def test_a_file_that_a_sparse_checkout_leaves_out_is_no_change(root: Path, env: Env) -> None:
    run(root, env, "sparse-checkout", "set", "--no-cone", "/workloads/")
    assert not (root / "train.py").exists()
    assert not git.require_commit(root, env=env).dirty


def test_a_project_inside_a_repository_is_dirty_by_any_file_of_the_repository(
    root: Path, env: Env
) -> None:
    (root / "workloads" / "blessed").mkdir()
    (root / "workloads" / "blessed" / "x.json").write_text("{}")
    assert not git.require_commit(root / "workloads", env=env, baselines="blessed").dirty
    assert git.require_commit(root / "workloads", env=env).dirty
    (root / "train.py").write_text("changed\n")
    assert git.require_commit(root / "workloads", env=env, baselines="blessed").dirty


@pytest.mark.parametrize("baselines", ["../elsewhere", "/elsewhere", "[odd]*"])
def test_baselines_elsewhere_do_not_confuse_git(root: Path, env: Env, baselines: str) -> None:
    assert git.require_commit(root, env=env, baselines=baselines).dirty is False


def test_a_submodule_at_another_commit_is_a_change_whatever_gitmodules_says(
    root: Path, env: Env, submodule: Path
) -> None:
    run(root, env, "config", "--file", ".gitmodules", "submodule.libs/pkg.ignore", "all")
    run(root, env, "add", ".gitmodules", "libs/pkg")
    run(root, env, "commit", "--quiet", "-m", "submodule")
    assert not git.require_commit(root, env=env).dirty
    run(submodule, env, "commit", "--quiet", "--allow-empty", "-m", "two")
    assert git.require_commit(root, env=env).dirty
    assert git.changes(root, env=env) == ("libs/pkg",)


def test_what_is_not_as_head_has_it_is_reported_by_path(root: Path, env: Env) -> None:
    assert git.changes(root, env=env) == ()
    (root / "train.py").rename(root / "moved.py")
    (root / "a folder").mkdir()
    (root / "a folder" / "new.py").touch()
    (root / "some.log").touch()
    assert set(git.changes(root / "workloads", env=env)) == {"train.py", "moved.py", "a folder/"}
