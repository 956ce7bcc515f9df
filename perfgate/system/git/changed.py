"""What is not as a commit has it, in the checkout or on a branch."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system.git.asking import ask, printable, run

SUBMODULES: Final = "--ignore-submodules=none"
"""Whatever .gitmodules or the user's configuration says."""
LOOK_YOURSELF: Final = ("core.fsmonitor=false",)
"""A watcher is a program of the user's, or of whoever had the checkout before: its word is not
taken for the files'."""


def changes(
    root: Path, *, env: Mapping[str, str] | None = None, baselines: str | None = None
) -> tuple[str, ...]:
    """Return the paths from the top whose files are not as HEAD has them, or that are neither
    tracked nor ignored.

    Also of files that git was told not to look at; but for what `require_commit` passes over.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    where = where_it_counts(baselines)
    words = (
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        SUBMODULES,
        *where,
    )
    told = [
        entry[3:] for entry in ask(root, env, *words, settings=LOOK_YOURSELF).split("\0") if entry
    ]
    told += [name for name in unwatched(root, env, *where) if name not in told]
    return tuple(map(printable, told))


def content_digest(root: Path, *, baselines: str, env: Mapping[str, str] | None = None) -> str:
    """Return a digest of all that git tracks in the repository, as the files are now; the baselines
    do not count.

    It is the same before and after a commit of the same files.

    Raises:
        RepositoryUnreadable: no git, no repository, git refuses, or a file's content cannot be
        told: of a submodule
            with changes, a link that was replaced.
    """
    where = where_it_counts(baselines)
    told = ask(root, env, "ls-files", "-s", "-z", "--full-name", *where, settings=LOOK_YOURSELF)
    entries = (entry.partition("\t") for entry in told.split("\0") if entry)
    blobs = {name: facts.split(" ")[1] for facts, _, name in entries}
    told = ask(
        root, env, "diff-files", "-z", "--name-only", SUBMODULES, *where, settings=LOOK_YOURSELF
    )
    top = Path(ask(root, env, "rev-parse", "--show-toplevel").removesuffix("\n"))
    for name in dict.fromkeys([*filter(None, told.split("\0")), *unwatched(root, env, *where)]):
        file = top / name
        if not os.path.lexists(file):
            blobs.pop(name, None)
        elif file.is_file() and not file.is_symlink():
            done = run(
                top, env, "hash-object", "--stdin", f"--path={name}", given=file.read_bytes()
            )
            blobs[name] = os.fsdecode(done.stdout).strip()
        else:
            raise RepositoryUnreadable("content-unknown", root=str(root), file=printable(name))
    return hashlib.sha256(json.dumps(sorted(blobs.items())).encode()).hexdigest()


def changed_since(
    root: Path, revision: str, path: str, *, env: Mapping[str, str] | None = None
) -> Mapping[str, bool]:
    """Return the files at or below a path from the top that HEAD has changed since it left a
    revision's history.

    By their path from the top, whether HEAD has a file there.

    Raises:
        RepositoryUnreadable: no git, no repository, no such revision, no common commit, or git
        refuses.
    """
    words = (
        "diff",
        "--name-status",
        "-z",
        "--no-renames",
        "--no-ext-diff",
        "--end-of-options",
        f"{revision}...HEAD",
    )
    tokens = ask(root, env, *words, "--", f":(top,literal){path}").split("\0")
    return {name: status != "D" for status, name in zip(tokens[::2], tokens[1::2], strict=False)}


def where_it_counts(baselines: str | None) -> tuple[str, ...]:
    """Where a change counts: in the whole repository, but not in the folder of the baselines and in
    Python's own."""
    folder = PurePath(".." if baselines is None else baselines)
    inside = (
        not folder.is_absolute() and ".." not in folder.parts
    )  # git refuses to exclude what lies elsewhere
    excluded = [f":(exclude,literal){folder.as_posix()}"] if inside else []
    return ("--", ":(top)", ":(top,exclude,glob)**/__pycache__/**", *excluded)


def unwatched(root: Path, env: Mapping[str, str] | None, *where: str) -> tuple[str, ...]:
    """Return the changed files, from the top, that `git status` passes over: assume-unchanged or
    skip-worktree is set.

    One that is not there is a change only of the former: the latter is how a sparse checkout leaves
    files out.
    """
    told = ask(
        root, env, "ls-files", "-v", "-s", "-z", "--full-name", *where, settings=LOOK_YOURSELF
    )
    top: Path | None = None
    files: dict[str, str] = {}
    changed: list[str] = []
    for entry in told.split("\0"):
        facts, _, name = entry.partition("\t")
        if not name or not (facts[0].islower() or facts[0] == "S"):
            continue
        if top is None:
            top = Path(ask(root, env, "rev-parse", "--show-toplevel").removesuffix("\n"))
        _, mode, blob, _ = facts.split(" ")
        if not os.path.lexists(top / name):
            changed += [] if facts[0] in "Ss" else [name]
        elif mode.startswith("100") and not (top / name).is_symlink() and "\n" not in name:
            files[name] = blob
        else:
            changed.append(name)  # a link or a submodule, which no one hash tells of
    if top is not None and files:
        given = "".join(f"{name}\n" for name in files).encode(errors="surrogateescape")
        done = run(top, env, "hash-object", "--stdin-paths", given=given, settings=LOOK_YOURSELF)
        found = os.fsdecode(done.stdout).split()
        changed += [
            name
            for name, now in zip(files, [*found, *[""] * len(files)], strict=False)
            if now != files[name]
        ]
    return tuple(changed)
