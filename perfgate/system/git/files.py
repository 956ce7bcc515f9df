"""Files of a checkout and of commits: which git tracks or ignores, which have changed, and by which
tree a squash is known again."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system.git.asking import Env, ask, objects, printable


def top(root: Path, *, env: Env = None) -> Path:
    """Return the top of the checkout around `root`, without links.

    Raises:
        RepositoryUnreadable: no git, no repository, no checkout of one (a bare repository), or git
        refuses.
    """
    return Path(ask(root, env, "rev-parse", "--show-toplevel").removesuffix("\n"))


def prefix(root: Path, *, env: Env = None) -> PurePath:
    """Return where `root` lies in its repository: `.` at the top, `services/train` in a monorepo.

    Raises:
        RepositoryUnreadable: as `top` does.
    """
    return root.resolve().relative_to(top(root, env=env))


def tracked_files(root: Path, *, env: Env = None) -> tuple[str, ...]:
    """Return the tracked files under `root` that are there, as sorted POSIX paths relative to it.

    Those of submodules, of any depth, are among them.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    listed = ask(root, env, "ls-files", "-z", "--cached", "--recurse-submodules")
    return tuple(sorted({name for name in listed.split("\0") if name and (root / name).is_file()}))


def ignored(root: Path, files: Collection[Path], *, env: Env = None) -> set[Path]:
    """Return those of some untracked files below `root` that git ignores; none where it does not
    say."""
    words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--")
    with suppress(RepositoryUnreadable):
        listed = ask(root, env, *words, *(f":(literal){file}" for file in files)) if files else ""
        return {root / name for name in listed.split("\0") if name}
    return set()


def is_same_repository(one: Path, other: Path, *, env: Env = None) -> bool:
    """Whether two folders lie in working trees or clones of one repository: of clones, by their
    first commits; False where git does not say."""
    folders, common = (one, other), ("rev-parse", "--git-common-dir")
    # By first parents: a library that was merged with its history has brought its own first commit.
    oldest = ("rev-list", "--max-parents=0", "--first-parent", "HEAD")
    with suppress(RepositoryUnreadable):
        shared = {(folder / ask(folder, env, *common).rstrip("\n")).resolve() for folder in folders}
        return len(shared) == 1 or len({ask(folder, env, *oldest) for folder in folders}) == 1
    return False


def changes(root: Path, *, env: Env = None, baselines: str | None = None) -> tuple[str, ...]:
    """Return the paths from the top whose files are not as HEAD has them, or that are neither
    tracked nor ignored.

    Files in the folder `baselines` (relative to `root`) do not count, since blessing writes them
    after the measurement, nor does what Python keeps in a `__pycache__`.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    inside = None if baselines is None else _inside(baselines)
    excluded = () if inside is None else (f":(exclude,literal){inside.as_posix()}",)
    where = ("--", ":(top)", ":(top,exclude,glob)**/__pycache__/**", *excluded)
    # Of submodules all, whatever .gitmodules or the user's configuration says.
    words = ("-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=none")
    entries = ask(root, env, "status", "--porcelain=v1", *words, *where).split("\0")
    return tuple(printable(entry[3:]) for entry in entries if entry)


def _inside(folder: str) -> PurePath | None:
    """A folder relative to the root; None of one that lies elsewhere, or is the root."""
    found = PurePath(os.path.normpath(folder))
    return None if found.is_absolute() or not found.parts or ".." in found.parts else found


def without_baselines(
    root: Path, trees: Sequence[str], baselines: str, *, env: Env = None
) -> Mapping[str, str]:
    """Return the SHA of each tree as it would be without that folder, by its own.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    inside = _inside(baselines)
    if inside is None:
        return {tree: tree for tree in trees}
    parts = (prefix(root, env=env) / inside).parts
    above = ["/".join(parts[:level]) for level in range(len(parts))]
    names = [f"{tree}:{path}" for tree in trees for path in above]
    found = iter(objects(root, env, "tree", names))
    return {tree: _sha_without([next(found) for _ in above], parts, tree) for tree in trees}


def _sha_without(levels: Sequence[bytes | None], parts: Sequence[str], tree: str) -> str:
    """The SHA of a tree, by the contents of the folders that lead to the one that is left out."""
    new, width = b"", len(tree) // 2
    for content, part in zip(reversed(levels), reversed(parts), strict=True):
        if content is None:
            continue
        entries = re.findall(rb"(\d+ ([^\0]+)\0)(.{%d})" % width, content, re.DOTALL)
        kept = b""
        for head, name, sha in entries:
            now = new if name == os.fsencode(part) else sha
            kept += head + now if now else b""
        made = hashlib.new("sha1" if width == 20 else "sha256", usedforsecurity=False)
        made.update(b"tree %d\0" % len(kept) + kept)
        new = made.digest() if kept else b""
    return new.hex() or tree
