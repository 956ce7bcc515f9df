"""Real repositories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.asked import Env, run


@pytest.fixture
def env(tmp_path: Path) -> Env:
    """An environment without the configuration of this machine."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LOGNAME": "ada",
    }


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


@pytest.fixture
def clone(root: Path, env: Env, tmp_path: Path) -> Path:
    """A clone of branch main alone, on a branch of its own, while main and another branch go on."""
    clone = tmp_path / "clone"
    run(
        tmp_path, env, "clone", "--quiet", "--single-branch", "--branch=main", str(root), str(clone)
    )
    run(clone, env, "checkout", "--quiet", "-b", "faster")
    run(root, env, "checkout", "--quiet", "-b", "release/1.0")
    (root / "released.py").write_text("pass\n")
    run(root, env, "add", "--all")
    run(root, env, "commit", "--quiet", "--message=released")
    return clone


@pytest.fixture
def submodule(root: Path, env: Env, tmp_path: Path) -> Path:
    """A submodule with one file, `core.py`, that is added to the repository, and not committed."""
    inner = tmp_path / "inner"
    inner.mkdir()
    run(inner, env, "init", "--quiet")
    (inner / "core.py").write_text("")
    run(inner, env, "add", "core.py")
    run(inner, env, "commit", "--quiet", "-m", "one")
    allowed = ("-c", "protocol.file.allow=always")
    run(root, env, *allowed, "submodule", "--quiet", "add", str(inner), "libs/pkg")
    return root / "libs" / "pkg"
