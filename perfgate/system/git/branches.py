"""Branches, what the files of a folder held commit by commit, and other commits checked out into
folders of perfgate's own."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from perfgate.model.errors import RepositoryUnreadable, WorktreeFailed
from perfgate.system.git.asking import HISTORY_LIMIT_S, Env, ask, objects, printable, run
from perfgate.system.git.commits import checked_out, is_shallow

_FIELDS: Final = "%x00%H%x01%aI%x01%aN <%aE>%x01%s"
"""Of a commit, on a line before the names of its files: SHA, time, author, subject."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileVersion:
    """What one commit left of one file."""

    commit: str
    at: datetime
    """When its author made it."""
    author: str
    """As `Name <email>`, after the repository's mailmap."""
    subject: str
    path: str
    """From the top of the repository, POSIX."""
    content: bytes | None
    """None where it left no file."""


def file_versions(root: Path, pattern: str, *, env: Env = None) -> tuple[FileVersion, ...]:
    """Return what the commits that led to HEAD left of the files that match, oldest first.

    The pattern is git's, relative to `root`. Of a merge that took one side's file, that side's
    commits are followed; no rename is.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses.
    """
    words = ("--topo-order", "--reverse", "-c", "--name-only", "--no-renames", "--no-color")
    log = ask(
        root,
        env,
        *("log", *words, "--encoding=UTF-8", f"--format={_FIELDS}", "--", f":(glob){pattern}"),
        settings=("log.follow=false", "log.showSignature=false", "core.quotePath=false"),
        limit_s=HISTORY_LIMIT_S,
    )
    changed = [
        (header.split("\x01", 3), path)
        for header, _, names in (commit.partition("\n") for commit in log.split("\0")[1:])
        for path in names.splitlines()
        if path
    ]
    names = [f"{fields[0]}:{path}" for fields, path in changed]
    contents = objects(root, env, names, limit_s=HISTORY_LIMIT_S)
    return tuple(
        FileVersion(
            commit=sha,
            at=datetime.fromisoformat(at),
            author=printable(author),
            subject=printable(subject),
            path=path,
            content=found[1] if found is not None and found[0] == b"blob" else None,
        )
        for ((sha, at, author, subject), path), found in zip(changed, contents, strict=True)
    )


CHECKOUT_LIMIT_S: Final = 600.0
"""What a checkout may take: large repositories, files that a filter has to fetch."""


def add_worktree(root: Path, folder: Path, commit: str, *, env: Env = None) -> None:
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


def remove_worktree(root: Path, folder: Path, *, env: Env = None) -> None:
    """Remove a worktree and git's entry of it; what fails is left to the next time.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    # First, for git's own removal stops at the first file that it cannot delete.
    shutil.rmtree(folder, ignore_errors=True)
    # Twice: one that was interrupted while it was made is still locked.
    words = ("worktree", "remove", "--force", "--force", str(folder))
    run(root, env, *words, limit_s=CHECKOUT_LIMIT_S)


def merge_base(root: Path, one: str, other: str, *, env: Env = None) -> str:
    """Return the SHA of the commit from which two revisions went apart.

    Raises:
        RepositoryUnreadable: no git, no repository, no such revision, no common commit, or git
        refuses.
    """
    return ask(root, env, "merge-base", "--end-of-options", one, other).strip()


def read_at(root: Path, revision: str, path: str, *, env: Env = None) -> bytes | None:
    """Return what a revision has in the file at a path from the repository's top; None where it has
    no such file.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    done = run(root, env, "cat-file", "blob", "--end-of-options", f"{revision}:{path}")
    return done.stdout if done.returncode == 0 else None


def default_branch(root: Path, *, env: Env = None) -> str | None:
    """Return the branch that others branch from: origin's HEAD, else main or master, else the
    current one, if any.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    origins = "refs/remotes/origin/"
    named = run(root, env, "symbolic-ref", "--quiet", f"{origins}HEAD")
    if named.returncode == 0:
        return printable(os.fsdecode(named.stdout).strip().removeprefix(origins))
    refs = set(
        ask(root, env, "for-each-ref", "--format=%(refname)", "refs/heads", origins).split("\n")
    )
    for name in ("main", "master"):
        if refs & {f"refs/heads/{name}", f"{origins}{name}"}:
            return name
    _, current = checked_out(root, env=env)
    return None if current is None else printable(current)


def default_branch_without(root: Path, sha: str, *, env: Env = None) -> str | None:
    """Return the default branch where it does not hold a commit, here or at origin; None where it
    does, or is unknown.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    branch = default_branch(root, env=env)
    if branch is None:
        return None
    found = [
        run(root, env, "merge-base", "--is-ancestor", sha, ref).returncode
        for ref in (f"refs/heads/{branch}", f"refs/remotes/origin/{branch}")
        if run(root, env, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").returncode == 0
    ]
    return branch if found and all(status == 1 for status in found) else None


def fetch_branch(root: Path, branch: str, *, env: Env = None) -> None:
    """Fetch a branch of the remote `origin` with its whole history, as
    `refs/remotes/origin/<branch>`.

    All its files come with it: a clone without them (`--filter=blob:none`) would ask the remote
    again whenever a commit is checked out, in a job that has no token any more.

    Raises:
        RepositoryUnreadable: no git, no repository, no such remote or branch, or the remote
        refuses.
    """
    words = (
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-recurse-submodules",
        *(("--unshallow",) if is_shallow(root, env=env) else ()),
    )
    ask(
        root,
        env,
        *(*words, "origin", f"+refs/heads/{branch}:refs/remotes/origin/{branch}"),
        settings=("core.hooksPath=/dev/null", "credential.interactive=false"),
        limit_s=HISTORY_LIMIT_S,
    )
