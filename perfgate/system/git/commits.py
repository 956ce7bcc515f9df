"""Commits and branches: what is checked out and who is at work, a commit that a record names, what
commits left of files, and other commits checked out into folders of perfgate's own."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import psutil

from perfgate.model.baseline import Commit
from perfgate.model.errors import RepositoryUnreadable, RevisionMissing, WorktreeFailed
from perfgate.system.git.asking import TIME_LIMIT_S, Env, ask, objects, printable
from perfgate.system.git.files import changes, without_baselines


def read_commit(root: Path, *, env: Env = None, baselines: str = "baselines") -> Commit | None:
    """Return the commit checked out at `root`, as `require_commit` does; None where there is none
    to be known."""
    try:
        return require_commit(root, env=env, baselines=baselines)
    except RepositoryUnreadable:
        return None


def require_commit(root: Path, *, env: Env = None, baselines: str = "baselines") -> Commit:
    """Return the commit checked out at `root`; it is dirty if there are any `changes`.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses (another owner's
        repository).
    """
    sha, tree = ask(root, env, "show", "--no-patch", "--format=%H %T").split()
    return Commit(
        sha=sha,
        dirty=bool(changes(root, env=env, baselines=baselines)),
        branch=_branch(root, env),
        tree=without_baselines(root, [tree], baselines, env=env)[tree],
    )


def _branch(root: Path, env: Env) -> str | None:
    """The branch that is checked out; None where HEAD is detached."""
    return ask(root, env, "branch", "--show-current").strip() or None


def author(root: Path, *, env: Env = None) -> str:
    """Say who is at work, as `Name <email>`, as git has it; without that by the login name."""
    with suppress(RepositoryUnreadable):
        known = ask(root, env, "var", "GIT_AUTHOR_IDENT", settings=("user.useConfigOnly=true",))
        return known.rpartition(">")[0] + ">"
    return psutil.Process().username()


def is_shallow(root: Path, *, env: Env = None) -> bool:
    """Whether the clone lacks older commits.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    return ask(root, env, "rev-parse", "--is-shallow-repository").strip() == "true"


SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def resolve(root: Path, revision: str, *, env: Env = None) -> str:
    """Return the full SHA of the commit that a revision names: a SHA, a branch, a tag, `HEAD~3`.

    Raises:
        RevisionMissing: no commit of this clone has that name.
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    given = os.fsencode(f"{revision}^{{commit}}\n")
    asked = ask(root, env, "cat-file", "--batch-check", given=given, limit_s=TIME_LIMIT_S).split()
    if len(asked) == 3 and asked[1] == "commit":  # else "missing"
        return asked[0]
    is_cut = is_shallow(root, env=env)
    code = "revision-not-in-shallow-clone" if is_cut else "revision-not-in-clone"
    raise RevisionMissing(code, revision=revision)


FETCH_LIMIT_S: Final = 60.0
BRANCH_LIMIT_S: Final = 300.0
"""What fetching a branch with its whole history may take."""
MOST_COMMITS: Final = 5000
"""Newest commits that are searched for files of a commit that is gone."""


def obtain(
    root: Path,
    sha: str,
    *,
    tree: str | None = None,
    baselines: str,
    env: Env = None,
) -> str:
    """Return the SHA of a commit of this clone that has the files of a recorded one.

    ```
    the commit itself
    one with the same tree, but for the baselines      a squash or a rebase
    the commit itself, fetched from `origin`           by its SHA; nobody is asked for credentials
    ```

    Args:
        root: the project's root.
        sha: the commit, as a record names it.
        tree: its tree without the baselines, as `Commit.tree`; None where nobody noted that.
        baselines: the folder of the baselines, from the root.
        env: the environment of git.

    Raises:
        RevisionMissing: there is none of them, or the record names no SHA.
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    if SHA.fullmatch(sha) is None:
        raise RevisionMissing("no-sha", sha=sha)
    with suppress(RevisionMissing):
        return resolve(root, sha, env=env)
    if tree is not None and (twin := _with_tree(root, tree, baselines, env)) is not None:
        return twin
    try:
        _fetch(root, env, sha, if_shallow="--depth=1", limit_s=FETCH_LIMIT_S)
    except RepositoryUnreadable as error:
        raise RevisionMissing("revision-not-fetched", revision=sha, why=error.fact) from error
    return resolve(root, sha, env=env)


def _with_tree(root: Path, tree: str, baselines: str, env: Env) -> str | None:
    """The newest commit that has a tree, whole or without the folder of the baselines."""
    listed = ask(root, env, "log", "--all", f"--max-count={MOST_COMMITS}", "--format=%H %T")
    commits = [line.split() for line in listed.splitlines()]
    trees = list(dict.fromkeys(whole for _, whole in commits))
    reduced = without_baselines(root, trees, baselines, env=env)
    return next((sha for sha, whole in commits if tree in (whole, reduced[whole])), None)


def _fetch(root: Path, env: Env, what: str, *, if_shallow: str, limit_s: float) -> None:
    words = ["--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
    if is_shallow(root, env=env):
        words.append(if_shallow)
    ask(root, env, "fetch", *words, "origin", what, limit_s=limit_s)


# Branches


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
    return objects(root, env, "blob", [f"{revision}:{path}"])[0]


def default_branch(root: Path, *, env: Env = None) -> str | None:
    """Return the branch that others branch from: origin's HEAD, else main or master, else the
    current one, if any.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    words = ("for-each-ref", "--format=%(symref:short)", "refs/remotes/origin/HEAD")
    if named := ask(root, env, *words).strip():
        return printable(named.removeprefix("origin/"))
    names = ("main", "master")
    refs = [f"{where}/{name}" for where in ("refs/heads", "refs/remotes/origin") for name in names]
    there = ask(root, env, "for-each-ref", "--format=%(refname:lstrip=-1)", *refs).split()
    current = _branch(root, env)
    return next((name for name in names if name in there), current and printable(current))


def default_branch_without(root: Path, sha: str, *, env: Env = None) -> str | None:
    """Return the default branch where it does not hold a commit, here or at origin; None where it
    does, or is unknown.

    Raises:
        RepositoryUnreadable: no git, no repository, no such commit, or git refuses.
    """
    branch = default_branch(root, env=env)
    if branch is None:
        return None
    refs = (f"refs/heads/{branch}", f"refs/remotes/origin/{branch}")
    return None if ask(root, env, "for-each-ref", "--contains", sha, "--", *refs) else branch


def fetch_branch(root: Path, branch: str, *, env: Env = None) -> None:
    """Fetch a branch of the remote `origin` with its whole history, as
    `refs/remotes/origin/<branch>`.

    All its files come with it: a clone without them (`--filter=blob:none`) would ask the remote
    again whenever a commit is checked out, in a job that has no token any more.

    Raises:
        RepositoryUnreadable: no git, no repository, no such remote or branch, or the remote
        refuses.
    """
    what = f"+refs/heads/{branch}:refs/remotes/origin/{branch}"
    _fetch(root, env, what, if_shallow="--unshallow", limit_s=BRANCH_LIMIT_S)


# Files of other commits


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
    which = (f"--format={_FIELDS}", "--encoding=UTF-8", "--", f":(glob){pattern}")
    log = ask(root, env, "log", *words, *which)
    changed = [
        (header.split("\x01", 3), path)
        for header, _, names in (commit.partition("\n") for commit in log.split("\0")[1:])
        for path in names.splitlines()
        if path
    ]
    names = [f"{fields[0]}:{path}" for fields, path in changed]
    contents = objects(root, env, "blob", names)
    return tuple(
        FileVersion(
            commit=sha,
            at=datetime.fromisoformat(at),
            author=printable(author),
            subject=printable(subject),
            path=path,
            content=content,
        )
        for ((sha, at, author, subject), path), content in zip(changed, contents, strict=True)
    )


def add_worktree(root: Path, folder: Path, commit: str, *, env: Env = None) -> None:
    """Check a commit out into a new folder, without the project's hooks and submodules.

    Raises:
        WorktreeFailed: git could not; what it left behind is `remove_worktree`'s to remove.
    """
    words = ("add", "--quiet", "--detach", "--force", str(folder), commit)
    try:
        ask(root, env, "worktree", *words)
    except RepositoryUnreadable as error:
        raise WorktreeFailed(
            "git-checkout-failed", commit=commit[:12], root=str(root), why=error.fact
        ) from error


def remove_worktree(root: Path, folder: Path, *, env: Env = None) -> None:
    """Remove a worktree and git's entry of it; what fails is left to the next time.

    Raises:
        RepositoryUnreadable: git could not, or takes too long.
    """
    # First, for git's own removal stops at the first file that it cannot delete.
    shutil.rmtree(folder, ignore_errors=True)
    # Twice: one that was interrupted while it was made is still locked.
    ask(root, env, "worktree", "remove", "--force", "--force", str(folder))
