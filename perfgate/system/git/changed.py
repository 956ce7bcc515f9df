"""What is not as the commit that is checked out has it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system.git.asking import ask, printable
from perfgate.system.git.files import tracked_files

_SUBMODULES: Final = "--ignore-submodules=none"
"""Whatever .gitmodules or the user's configuration says."""
_LOOK_YOURSELF: Final = ("core.fsmonitor=false",)
"""A watcher is a program of the user's, or of whoever had the checkout before: its word is not
taken for the files'."""


def changes(
    root: Path, *, env: Mapping[str, str] | None = None, baselines: str | None = None
) -> tuple[str, ...]:
    """Return the paths from the top whose files are not as HEAD has them, or that are neither
    tracked nor ignored.

    Files in the folder `baselines` (relative to `root`) do not count, since blessing writes them
    after the measurement, nor does what Python keeps in a `__pycache__`.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    where = _where(baselines)
    words = ("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal")
    entries = ask(root, env, *words, _SUBMODULES, *where, settings=_LOOK_YOURSELF).split("\0")
    found = [entry[3:] for entry in entries if entry]
    found += [name for name in _unwatched(root, env, where) if name not in found]
    return tuple(map(printable, found))


def content_digest(root: Path, *, baselines: str, env: Mapping[str, str] | None = None) -> str:
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


def _where(baselines: str | None) -> tuple[str, ...]:
    """Where a change counts, as git is to be asked."""
    folder = PurePath(".." if baselines is None else baselines)
    is_inside = not folder.is_absolute() and ".." not in folder.parts
    excluded = [f":(exclude,literal){folder.as_posix()}"] if is_inside else []
    return ("--", ":(top)", ":(top,exclude,glob)**/__pycache__/**", *excluded)


def _unwatched(root: Path, env: Mapping[str, str] | None, where: tuple[str, ...]) -> list[str]:
    """Files, from the top, that git was told not to look at, and that count as changed.

    One of skip-worktree only where it is there: a sparse checkout leaves files out by that.
    """
    listed = ask(root, env, "ls-files", "-v", "-z", "--full-name", *where, settings=_LOOK_YOURSELF)
    flagged = [
        entry for entry in listed.split("\0") if entry and (entry[0].islower() or entry[0] == "S")
    ]
    if not flagged:
        return []
    top = Path(ask(root, env, "rev-parse", "--show-toplevel").removesuffix("\n"))
    return [
        entry[2:] for entry in flagged if entry[0] not in "Ss" or os.path.lexists(top / entry[2:])
    ]
