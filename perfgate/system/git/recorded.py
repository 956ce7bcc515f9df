"""A commit that a record names: in this clone by its SHA or by its files, or fetched from a
remote.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from perfgate.model.errors import RepositoryUnreadable, RevisionMissing
from perfgate.system.git.asking import ask, printable, run
from perfgate.system.git.commits import SHA, is_shallow, resolve
from perfgate.system.git.files import without_baselines

FETCH_LIMIT_S: Final = 60.0
MOST_COMMITS: Final = 5000
"""Newest commits that are searched for files of a commit that is gone."""


def obtain(
    root: Path,
    sha: str,
    *,
    tree: str | None = None,
    baselines: str,
    env: Mapping[str, str] | None = None,
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


def _with_tree(root: Path, tree: str, baselines: str, env: Mapping[str, str] | None) -> str | None:
    """The newest commit that has a tree, whole or without the folder of the baselines."""
    words = ("log", "--all", f"--max-count={MOST_COMMITS}", "--no-show-signature", "--format=%H %T")
    commits = [line.split() for line in ask(root, env, *words).splitlines()]
    trees = list(dict.fromkeys(whole for _, whole in commits))
    reduced = without_baselines(root, trees, baselines, env=env)
    return next((sha for sha, whole in commits if tree in (whole, reduced.get(whole))), None)


def _remotes(root: Path, env: Mapping[str, str] | None) -> list[str]:
    return sorted(
        ask(root, env, "remote").split("\n")[:-1], key=lambda name: (name != "origin", name)
    )[:2]


def _fetched(root: Path, remote: str, sha: str, env: Mapping[str, str] | None) -> str | None:
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
