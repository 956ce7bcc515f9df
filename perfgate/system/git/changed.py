"""What is not as the commit that is checked out has it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system.git.asking import ask, printable, run

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
    """Return a digest of all that git tracks in the repository, as the files are now; the baselines
    do not count.

    It is the same before and after a commit of the same files.

    Raises:
        RepositoryUnreadable: no git, no repository, git refuses, or a file's content is unknown: of
        a submodule with changes, a link that was replaced.
    """
    where = _where(baselines)
    top = Path(ask(root, env, "rev-parse", "--show-toplevel").removesuffix("\n"))
    staged = ask(root, env, "ls-files", "-s", "-z", "--full-name", *where, settings=_LOOK_YOURSELF)
    entries = (entry.partition("\t") for entry in staged.split("\0") if entry)
    blobs = {name: facts.split(" ")[1] for facts, _, name in entries}
    words = ("diff-files", "-z", "--name-only", _SUBMODULES)
    changed = ask(root, env, *words, *where, settings=_LOOK_YOURSELF).split("\0")
    for name in dict.fromkeys([*filter(None, changed), *_unwatched(root, env, where)]):
        file = top / name
        if not os.path.lexists(file):
            blobs.pop(name, None)
        elif file.is_file() and not file.is_symlink():
            content = file.read_bytes()
            done = run(top, env, "hash-object", "--stdin", f"--path={name}", given=content)
            blobs[name] = os.fsdecode(done.stdout).strip()
        else:
            raise RepositoryUnreadable("content-unknown", root=str(root), file=printable(name))
    return hashlib.sha256(json.dumps(sorted(blobs.items())).encode()).hexdigest()


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
