"""Files of a checkout and of commits: which git tracks or ignores, which have changed, and by which
tree a squash is known again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system.git.asking import Env, ask, objects, printable, refused, run

_SUBMODULES: Final = "--ignore-submodules=none"
"""Whatever .gitmodules or the user's configuration says."""


def tracked_files(root: Path, *patterns: str, env: Env = None) -> tuple[str, ...]:
    """Return the tracked files under `root` that are there, as sorted POSIX paths relative to it.

    Those of submodules, of any depth, are among them. With `patterns` only files that fit one of
    these.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    listed = ask(root, env, "ls-files", "-z", "--cached", "--recurse-submodules", "--", *patterns)
    return tuple(sorted({name for name in listed.split("\0") if name and (root / name).is_file()}))


def prefix(root: Path, *, env: Env = None) -> PurePath:
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


def is_same_repository(one: Path, other: Path, *, env: Env = None) -> bool:
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


def ignored(root: Path, paths: Collection[str], *, env: Env = None) -> set[str]:
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
        raise refused(root, "check-ignore", done)
    return {name for name in os.fsdecode(done.stdout).split("\0") if name}


def changes(root: Path, *, env: Env = None, baselines: str | None = None) -> tuple[str, ...]:
    """Return the paths from the top whose files are not as HEAD has them, or that are neither
    tracked nor ignored.

    Files in the folder `baselines` (relative to `root`) do not count, since blessing writes them
    after the measurement, nor does what Python keeps in a `__pycache__`.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    folder = PurePath(".." if baselines is None else baselines)
    is_inside = not folder.is_absolute() and ".." not in folder.parts
    excluded = [f":(exclude,literal){folder.as_posix()}"] if is_inside else []
    where = ("--", ":(top)", ":(top,exclude,glob)**/__pycache__/**", *excluded)
    words = ("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal")
    # A watcher is a program of the user's, or of whoever had the checkout before: its word is not
    # taken for the files'.
    settings = ("core.fsmonitor=false",)
    entries = ask(root, env, *words, _SUBMODULES, *where, settings=settings).split("\0")
    return tuple(printable(entry[3:]) for entry in entries if entry)


def content_digest(root: Path, *, baselines: str, env: Env = None) -> str:
    """Return a digest of all files that git tracks in the repository, as they are now; the
    baselines do not count.

    Raises:
        RepositoryUnreadable: no git, no repository, git refuses, or a file cannot be read.
    """
    top = Path(ask(root, env, "rev-parse", "--show-toplevel").removesuffix("\n"))
    left_out = (root / baselines).resolve()
    digest = hashlib.sha256()
    for name in tracked_files(top, env=env):
        file = top / name
        if not file.is_relative_to(left_out):
            try:
                content = hashlib.sha256(file.read_bytes()).hexdigest()
            except OSError as error:
                raise RepositoryUnreadable(
                    "content-unknown", root=str(root), file=printable(name)
                ) from error
            digest.update(f"{content} {name}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def without_baselines(
    root: Path, trees: Sequence[str], baselines: str, *, env: Env = None
) -> Mapping[str, str]:
    """Return the SHA of each tree as it would be without that folder, by its own.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    folder = PurePath(os.path.normpath(baselines))
    if folder.is_absolute() or not folder.parts or ".." in folder.parts:
        return {}
    parts = (prefix(root, env=env) / folder).parts
    above = ["/".join(parts[:level]) for level in range(len(parts))]
    found = iter(
        objects(root, env, b"tree", [f"{tree}:{path}" for tree in trees for path in above])
    )
    return {tree: _sha_without([next(found) for _ in above], parts, tree) for tree in trees}


def _sha_without(levels: Sequence[bytes | None], parts: Sequence[str], tree: str) -> str:
    """The SHA of a tree, by the contents of the folders that lead to the one that is left out."""
    if levels[0] is None:
        return tree
    width = len(tree) // 2
    new: bytes | None = None
    for content, part in zip(reversed(levels), reversed(parts), strict=True):
        if content is None:
            continue
        kept = b""
        left = content
        while left:  # entries: mode, name, NUL, SHA
            head, _, rest = left.partition(b"\0")
            is_left_out = head.partition(b" ")[2] == os.fsencode(part)
            now = new if is_left_out else rest[:width]
            if now is not None:
                kept += head + b"\0" + now
            left = rest[width:]
        made = hashlib.new("sha1" if width == 20 else "sha256", usedforsecurity=False)
        made.update(b"tree %d\0" % len(kept) + kept)
        new = made.digest() if kept else None
    return tree if new is None else new.hex()
