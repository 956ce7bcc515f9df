"""Git, as tests ask it, and what perfgate says where it refuses."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system import git

Env = Mapping[str, str]


def run(root: Path, env: Env, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    command = ("git", *identity, *arguments)
    return subprocess.run(
        command, cwd=root, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


def refusal(root: Path, env: Env) -> str:
    assert git.read_commit(root, env=env) is None
    with pytest.raises(RepositoryUnreadable) as caught:
        git.require_commit(root, env=env)
    return caught.value.code
