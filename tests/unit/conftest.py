"""Unit tests start no process: but for the few files whose subject is one, asking for one is an
error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).parent

MAY_START_PROCESSES = {
    "execute/test_import_log.py": "runs interpreters that log what they load",
    "execute/test_provenance.py": "asks git what is tracked and what ignored",
    "execute/test_worktree.py": "checks commits out with git",
    "execute/test_side_environment.py": "checks commits out with git",
    "machine/test_identity.py": "imports in a fresh interpreter",
    "machine/test_lock.py": "the lock is between processes",
    "system/git/test_asking.py": "asks git",
    "system/git/test_changed.py": "asks git",
    "system/git/test_commits.py": "asks git",
    "system/git/test_files.py": "asks git",
    "system/git/test_recorded.py": "asks git, also of remotes that hang",
    "machine/test_neighbours.py": "neighbours are processes",
    "machine/test_ranks.py": "ranks are known by the environments of processes",
    "views/ncu/test_tool.py": "asks a stand-in for ncu its version",
    "profilers/nsys/test_answers.py": "runs a stand-in for nsys",
    "profilers/nsys/test_profile.py": "runs a stand-in for nsys",
    "profilers/nsys/test_tool.py": "asks a stand-in for nsys its version",
    "test_doctor.py": "compiles and runs a trial workload",
    "views/test_pages.py": "asks git for the history of baselines",
    "views/test_history.py": "asks git",
    "test_layers.py": "imports in a fresh interpreter",
    "system/test_process.py": "starts and ends processes",
    "system/test_usage.py": "processes that compute, end and begin",
    "system/test_files.py": "locks and marks of other processes",
    "store/test_baselines.py": "writers in other processes",
    "store/test_disk.py": "a writer in another process, of small files",
    "execute/test_script_hold.py": "holds a real interpreter",
    "execute/worker/test_needs.py": "children that compute",
    "execute/worker/test_pinning.py": "children and their children are pinned",
    "execute/worker/test_handover.py": "a side of an A/B run is killed, and leaves a child behind",
}
"""Files by their path in this folder, each with the reason."""


@pytest.fixture(autouse=True)
def _starts_no_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.relative_to(HERE).as_posix() in MAY_START_PROCESSES:
        return

    def refuse(*arguments: object, **_options: object) -> NoReturn:
        raise AssertionError(f"a unit test started a process: {arguments}")

    def refuse_popen(_popen: object, *arguments: object, **_options: object) -> NoReturn:
        refuse(*arguments)

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse_popen)
    for starter in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"):
        monkeypatch.setattr(os, starter, refuse)
