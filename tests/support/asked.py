"""Git, as tests ask it, and what perfgate says where it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.repository import run_git

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system import git

Env = Mapping[str, str]


def run(root: Path, env: Env, *arguments: str) -> str:
    return run_git(root, *arguments, env=env)


def refusal(root: Path, env: Env) -> str:
    assert git.read_commit(root, env=env) is None
    with pytest.raises(RepositoryUnreadable) as caught:
        git.require_commit(root, env=env)
    return caught.value.code
