"""Commits: what is checked out and who is at work; one that a record names, in this clone by its
SHA or by its files, or fetched from a remote."""

from __future__ import annotations

import getpass
import os
import re
from pathlib import Path
from typing import Final

from perfgate.model.baseline import Commit
from perfgate.model.errors import RepositoryUnreadable, RevisionMissing
from perfgate.system.git.asking import Env, ask, printable, run
from perfgate.system.git.files import changes, code_tree, without_baselines


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
    sha, branch = checked_out(root, env=env)
    if sha is None:
        raise RepositoryUnreadable("no-commit-yet", root=str(root))
    return Commit(
        sha=sha,
        dirty=bool(changes(root, env=env, baselines=baselines)),
        branch=branch,
        tree=code_tree(root, sha, baselines=baselines, env=env),
    )


def checked_out(root: Path, *, env: Env = None) -> tuple[str | None, str | None]:
    """Return the SHA that HEAD names, None before the first commit, and the branch, None where HEAD
    is detached.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    ask(root, env, "rev-parse", "--git-dir")  # an empty repository is no trouble, and none is
    sha = run(root, env, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = run(root, env, "symbolic-ref", "--quiet", "--short", "HEAD")
    return os.fsdecode(sha.stdout).strip() or None, os.fsdecode(branch.stdout).strip() or None


def author(root: Path, *, env: Env = None) -> str:
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
    if revision and not revision.startswith("-") and "\0" not in revision:
        done = run(root, env, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if done.returncode == 0:
            return os.fsdecode(done.stdout).strip()
    is_cut = is_shallow(root, env=env)
    code = "revision-not-in-shallow-clone" if is_cut else "revision-not-in-clone"
    raise RevisionMissing(code, revision=revision)


def _configured(root: Path, env: Env, key: str) -> str:
    try:
        return ask(root, env, "config", "--get", key).strip()
    except RepositoryUnreadable:
        return ""


FETCH_LIMIT_S: Final = 60.0
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
    the commit itself, fetched from a remote           by its SHA; nobody is asked for credentials
    ```

    Args:
        root: the project's root.
        sha: the commit, as a record names it.
        tree: what `git.code_tree` said of it; None where nobody noted that.
        baselines: the folder of the baselines, from the root.
        env: the environment of git.

    Raises:
        RevisionMissing: there is none of them, or the record names no SHA.
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    if SHA.fullmatch(sha) is None:
        raise RevisionMissing("no-sha", sha=sha)
    try:
        return resolve(root, sha, env=env)
    except RevisionMissing as missing:
        twin = None if tree is None else _with_tree(root, tree, baselines, env)
        if twin is not None:
            return twin
        failed = [
            why
            for remote in _remotes(root, env)
            if (why := _fetched(root, remote, sha, env)) is not None
        ]
        try:
            return resolve(root, sha, env=env)
        except RevisionMissing:
            pass
        if not failed:
            raise
        raise RevisionMissing("revision-not-fetched", revision=sha, why=failed[0]) from missing


def _with_tree(root: Path, tree: str, baselines: str, env: Env) -> str | None:
    """The newest commit that has a tree, whole or without the folder of the baselines."""
    words = ("log", "--all", f"--max-count={MOST_COMMITS}", "--no-show-signature", "--format=%H %T")
    commits = [line.split() for line in ask(root, env, *words).splitlines()]
    trees = list(dict.fromkeys(whole for _, whole in commits))
    reduced = without_baselines(root, trees, baselines, env=env)
    return next((sha for sha, whole in commits if tree in (whole, reduced.get(whole))), None)


def _remotes(root: Path, env: Env) -> list[str]:
    return sorted(
        ask(root, env, "remote").split("\n")[:-1], key=lambda name: (name != "origin", name)
    )[:2]


def _fetched(root: Path, remote: str, sha: str, env: Env) -> str | None:
    """Fetch a commit, and return what git said where that failed."""
    words = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
    try:
        done = run(
            root,
            env,
            *(*words, *(("--depth=1",) if is_shallow(root, env=env) else ()), "--", remote, sha),
            settings=(
                "core.hooksPath=/dev/null",
                "credential.interactive=false",
                "gc.auto=0",
                "maintenance.auto=false",
            ),
            limit_s=FETCH_LIMIT_S,
        )
    except RepositoryUnreadable as error:
        return error.fact
    if done.returncode == 0:
        return None
    first = os.fsdecode(done.stderr).strip().partition("\n")[0]
    return printable(first) or f"exit status {done.returncode}"
