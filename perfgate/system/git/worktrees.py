"""Other commits checked out into folders of perfgate's own, and removed again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
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
    subject = f"commit {commit[:12]}"
    expectation = "It is checked out to be run beside the project"
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
        raise WorktreeFailed(
            subject=subject, fact=error.fact, expectation=expectation, next_step=error.next_step
        ) from error
    if done.returncode != 0:
        fact, next_step = _why_no_checkout(root, os.fsdecode(done.stderr), done.returncode)
        raise WorktreeFailed(
            subject=subject, fact=fact, expectation=expectation, next_step=next_step
        )


def remove_worktree(root: Path, folder: Path, *, env: Mapping[str, str] | None = None) -> None:
    """Make git forget a worktree, and remove what is left of its folder; what fails is left to the next time.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    # Twice: one that was interrupted while it was made is still locked.
    done = run(
        root, env, "worktree", "remove", "--force", "--force", str(folder), limit_s=CHECKOUT_LIMIT_S
    )
    if done.returncode != 0:
        _forget(root, folder, env)


def _forget(root: Path, folder: Path, env: Mapping[str, str] | None) -> None:
    """Remove what git has noted of one worktree; `git worktree prune` would forget those on unplugged disks as well."""
    told = run(root, env, "rev-parse", "--git-common-dir")
    if told.returncode != 0:
        return
    noted = root / os.fsdecode(told.stdout).removesuffix("\n") / "worktrees"
    for entry in noted.glob("*/gitdir"):
        with suppress(OSError):
            leads_to = entry.parent / entry.read_text(
                encoding="utf-8", errors="surrogateescape"
            ).removesuffix("\n")
            if os.path.realpath(leads_to) == os.path.realpath(folder / ".git"):
                shutil.rmtree(entry.parent, ignore_errors=True)


def _why_no_checkout(root: Path, complaint: str, status: int) -> tuple[str, str]:
    """The cause and the next step, the surest sign first; git's last words where no sign is known."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    for sign, fact, next_step in _CHECKOUT_CAUSES:
        if any(sign in line for line in lines):
            return fact, next_step
    told = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    fact = (
        f"git worktree failed: {told[0].rstrip('.')}"
        if told
        else f"git worktree exited with {status}"
    )
    return fact, f"See what git says: git -C {root} worktree add --detach FOLDER COMMIT"


_CHECKOUT_CAUSES: Final = (
    ("No space left on device", "the disk is full", "Free some space, then run again."),
    ("Disk quota exceeded", "the disk quota is used up", "Free some space, then run again."),
    (
        "Read-only file system",
        "the file system is read-only",
        "Run where the repository can be written to.",
    ),
    (
        "Permission denied",
        "this user may not write there or to .git",
        "Make both writable for this user.",
    ),
    (
        "git-lfs: not found",
        "its files need Git LFS, which is not installed",
        "Install git-lfs, or fetch them before.",
    ),
    (
        "smudge filter lfs failed",
        "Git LFS could not fetch its files",
        "Fetch them before (git lfs fetch origin COMMIT), or set GIT_LFS_SKIP_SMUDGE=1 and pull them in duet_setup.",
    ),
    (
        "promisor remote",
        "this clone is partial, and the files of that commit could not be fetched",
        "Clone without --filter, or let git reach its remote.",
    ),
)
"""What git prints, by sign: the fact and the next step."""
