"""Which files git tracks, ignores or keeps elsewhere, and where a project lies among them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path, PurePath

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system.git.asking import ask, refused, run


def tracked_files(
    root: Path, *patterns: str, env: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the tracked files under `root` that are there, as sorted POSIX paths relative to it.

    Those of submodules, of any depth, are among them. With `patterns` only files that fit one of
    these.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    listed = ask(root, env, "ls-files", "-z", "--cached", "--recurse-submodules", "--", *patterns)
    return tuple(sorted({name for name in listed.split("\0") if name and (root / name).is_file()}))


def prefix(root: Path, *, env: Mapping[str, str] | None = None) -> PurePath:
    """Return where `root` lies in its repository: `.` at the top, `services/train` in a monorepo.

    Raises:
        RepositoryUnreadable: no git, no repository, no checkout of one (a bare repository), or git
        refuses.
    """
    inside, _, where = ask(
        root, env, "rev-parse", "--is-inside-work-tree", "--show-prefix"
    ).partition("\n")
    if inside != "true":
        raise RepositoryUnreadable("not-in-checkout", root=str(root))
    return PurePath(where.removesuffix("\n"))


def is_same_repository(one: Path, other: Path, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether two folders lie in working trees or clones of one repository: of clones, by their
    first commits.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses.
    """
    shared = (
        Path(ask(folder, env, "rev-parse", "--git-common-dir").removesuffix("\n"))
        for folder in (one, other)
    )
    of_one, of_other = (
        os.path.realpath(folder / path) for folder, path in zip((one, other), shared, strict=True)
    )
    if of_one == of_other:
        return True
    # By first parents: a library that was merged with its history has brought its own first commit.
    first = (
        ask(folder, env, "rev-list", "--max-parents=0", "--first-parent", "HEAD")
        for folder in (one, other)
    )
    return len(set(first)) == 1


def is_tracked(root: Path, path: Path, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the repository around `root` tracks a file, or anything in a folder.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses; a path outside the repository.
    """
    return bool(ask(root, env, "ls-files", "-z", "--cached", "--", f":(literal){path}"))


def ignored(
    root: Path, paths: Collection[str], *, env: Mapping[str, str] | None = None
) -> set[str]:
    """Return those of some paths, relative to `root` or absolute, that git ignores; what it tracks
    is none of them.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    if not paths:
        return set()
    given = b"".join(os.fsencode(path) + b"\0" for path in sorted(paths))
    done = run(root, env, "check-ignore", "-z", "--stdin", given=given)
    if done.returncode not in (0, 1):  # 1: none of them
        raise refused(root, "check-ignore", os.fsdecode(done.stderr), done.returncode)
    return {name for name in os.fsdecode(done.stdout).split("\0") if name}
