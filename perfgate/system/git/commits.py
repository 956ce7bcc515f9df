"""Commits and branches by name: what is checked out, who is at work, what others branch from."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from perfgate.model.baseline import Commit
from perfgate.model.errors import RepositoryUnreadable, RevisionMissing
from perfgate.system.git.asking import HISTORY_LIMIT_S, ask, printable, run
from perfgate.system.git.files import changes, code_tree


def read_commit(
    root: Path, *, env: Mapping[str, str] | None = None, baselines: str = "baselines"
) -> Commit | None:
    """Return the commit checked out at `root`, as `require_commit` does; None where there is none
    to be known."""
    try:
        return require_commit(root, env=env, baselines=baselines)
    except RepositoryUnreadable:
        return None


def require_commit(
    root: Path, *, env: Mapping[str, str] | None = None, baselines: str = "baselines"
) -> Commit:
    """Return the commit checked out at `root`; it is dirty if there are any `changes`.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses (another owner's
        repository).
    """
    sha, branch = checked_out(root, env=env)
    if sha is None:
        raise RepositoryUnreadable("no-commit-yet", root=str(root))
    return Commit(
        sha=sha,
        dirty=bool(changes(root, env=env, baselines=baselines)),
        branch=branch,
        tree=code_tree(root, sha, baselines=baselines, env=env),
    )


def checked_out(
    root: Path, *, env: Mapping[str, str] | None = None
) -> tuple[str | None, str | None]:
    """Return the SHA that HEAD names, None before the first commit, and the branch, None where HEAD
    is detached.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    ask(root, env, "rev-parse", "--git-dir")  # an empty repository is no trouble, and none is
    sha = run(root, env, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = run(root, env, "symbolic-ref", "--quiet", "--short", "HEAD")
    return os.fsdecode(sha.stdout).strip() or None, os.fsdecode(branch.stdout).strip() or None


def author(root: Path, *, env: Mapping[str, str] | None = None) -> str:
    """Say who is at work, as `Name <email>`: git's environment, git's configuration, or the login
    name."""
    environment = os.environ if env is None else env
    name = environment.get("GIT_AUTHOR_NAME") or _configured(root, env, "user.name")
    email = environment.get("GIT_AUTHOR_EMAIL") or _configured(root, env, "user.email")
    if name and email:
        return f"{name} <{email}>"
    if name or email:
        return name or email
    try:
        return getpass.getuser()
    except (
        OSError,
        KeyError,
        ImportError,
    ):  # a container's numeric user without a name; Python < 3.13 says KeyError
        return f"user {os.getuid()}"


_NO_BRANCH: Final = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|^[/.-]|[/.]\Z|\.lock(?:/|\Z)"
)
"""What git accepts in no name of a branch (git-check-ref-format)."""


def is_branch(name: str) -> bool:
    """Whether a branch may have a name."""
    return 0 < len(name) <= 255 and name != "@" and _NO_BRANCH.search(name) is None


def is_shallow(root: Path, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the clone lacks older commits.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    return ask(root, env, "rev-parse", "--is-shallow-repository").strip() == "true"


SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def resolve(root: Path, revision: str, *, env: Mapping[str, str] | None = None) -> str:
    """Return the full SHA of the commit that a revision names: a SHA, a branch, a tag, `HEAD~3`.

    Raises:
        RevisionMissing: no commit of this clone has that name.
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    if revision and not revision.startswith("-") and "\0" not in revision:
        done = run(root, env, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if done.returncode == 0:
            return os.fsdecode(done.stdout).strip()
    is_cut = is_shallow(root, env=env)
    code = "revision-not-in-shallow-clone" if is_cut else "revision-not-in-clone"
    raise RevisionMissing(code, revision=revision)


def merge_base(root: Path, one: str, other: str, *, env: Mapping[str, str] | None = None) -> str:
    """Return the SHA of the commit from which two revisions went apart.

    Raises:
        RepositoryUnreadable: no git, no repository, no such revision, no common commit, or git
        refuses.
    """
    return ask(root, env, "merge-base", "--end-of-options", one, other).strip()


def read_at(
    root: Path, revision: str, path: str, *, env: Mapping[str, str] | None = None
) -> bytes | None:
    """Return what a revision has in the file at a path from the repository's top; None where it has
    no such file.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    done = run(root, env, "cat-file", "blob", "--end-of-options", f"{revision}:{path}")
    return done.stdout if done.returncode == 0 else None


def default_branch(root: Path, *, env: Mapping[str, str] | None = None) -> str | None:
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


def default_branch_without(
    root: Path, sha: str, *, env: Mapping[str, str] | None = None
) -> str | None:
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


def fetch_branch(root: Path, branch: str, *, env: Mapping[str, str] | None = None) -> None:
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


def _configured(root: Path, env: Mapping[str, str] | None, key: str) -> str:
    try:
        return ask(root, env, "config", "--get", key).strip()
    except RepositoryUnreadable:
        return ""
