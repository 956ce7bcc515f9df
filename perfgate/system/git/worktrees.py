"""Other commits checked out into folders of perfgate's own, and removed again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from perfgate.model.errors import RepositoryUnreadable, WorktreeFailed
from perfgate.system.git.asking import run

CHECKOUT_LIMIT_S: Final = 600.0
"""What a checkout may take: large repositories, files that a filter has to fetch."""


def add_worktree(
    root: Path, folder: Path, commit: str, *, env: Mapping[str, str] | None = None
) -> None:
    """Check a commit out into a new folder, without the project's hooks and submodules.

    Raises:
        WorktreeFailed: git could not; what it left behind is `remove_worktree`'s to remove.
    """
    try:
        done = run(
            root,
            env,
            *("worktree", "add", "--detach", "--force", str(folder), commit),
            settings=(
                "core.hooksPath=/dev/null",
                "core.fsmonitor=false",
                "submodule.recurse=false",
            ),
            limit_s=CHECKOUT_LIMIT_S,
        )
    except RepositoryUnreadable as error:
        raise WorktreeFailed(error.code, **error.fields) from error
    if done.returncode != 0:
        lines = [line.strip() for line in os.fsdecode(done.stderr).splitlines() if line.strip()]
        last = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
        raise WorktreeFailed(
            "git-checkout-failed",
            commit=commit[:12],
            root=str(root),
            why=last[0].rstrip(".") if last else f"exit status {done.returncode}",
        )


def remove_worktree(root: Path, folder: Path, *, env: Mapping[str, str] | None = None) -> None:
    """Remove a worktree and git's entry of it; what fails is left to the next time.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    # First, for git's own removal stops at the first file that it cannot delete.
    shutil.rmtree(folder, ignore_errors=True)
    # Twice: one that was interrupted while it was made is still locked.
    words = ("worktree", "remove", "--force", "--force", str(folder))
    run(root, env, *words, limit_s=CHECKOUT_LIMIT_S)
