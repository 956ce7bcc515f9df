"""What git says of the measured code and its history, and other commits checked out.

It changes nothing of the user's: what it writes is worktrees of perfgate's own, which it also
removes, commits of baselines that the remote still has, without a name, and in CI the remote's
branch that baselines are compared with.
"""

from __future__ import annotations

from perfgate.system.git.asking import ask, without_repository
from perfgate.system.git.commits import (
    FileVersion,
    add_worktree,
    author,
    default_branch,
    default_branch_without,
    fetch_branch,
    file_versions,
    is_shallow,
    merge_base,
    obtain,
    read_at,
    read_commit,
    remove_worktree,
    require_commit,
    resolve,
)
from perfgate.system.git.files import (
    changes,
    ignored,
    is_same_repository,
    prefix,
    top,
    tracked_files,
)

__all__ = [
    "FileVersion",
    "add_worktree",
    "ask",
    "author",
    "changes",
    "default_branch",
    "default_branch_without",
    "fetch_branch",
    "file_versions",
    "ignored",
    "is_same_repository",
    "is_shallow",
    "merge_base",
    "obtain",
    "prefix",
    "read_at",
    "read_commit",
    "remove_worktree",
    "require_commit",
    "resolve",
    "top",
    "tracked_files",
    "without_repository",
]
