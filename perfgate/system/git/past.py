"""What commits did to files, and what these held."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from perfgate.model.errors import RepositoryUnreadable
from perfgate.system.git.asking import HISTORY_LIMIT_S, ask, printable, run

LARGEST_BLOB: Final = 4 << 20
"""Bytes of a file's version that is still read; a baseline is a few KB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """What one commit did to one file. Blobs are object ids, None where there was no file."""

    commit: str
    parents: tuple[str, ...]
    at: datetime | None
    """When its author made it; None where the commit holds no date that there is."""
    author: str
    """As `Name <email>`, after the repository's mailmap."""
    subject: str
    path: str
    """From the top of the repository, POSIX."""
    before: tuple[str | None, ...]
    """What each parent had there; of a commit without parents one None."""
    blob: str | None
    is_file: bool
    """Whether what it left is a file, not a link or a submodule."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """What a file held in some commit, or why that cannot be told."""

    content: bytes | None
    fault: str = ""


def cuts(root: Path, *, env: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return the commits beyond which a shallow clone has no history; empty of a whole clone.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    file = root / ask(root, env, "rev-parse", "--git-path", "shallow").removesuffix("\n")
    try:
        return frozenset(file.read_text(encoding="ascii").split())
    except FileNotFoundError:
        return frozenset()
    except (OSError, UnicodeDecodeError) as error:
        raise RepositoryUnreadable("git-file-unreadable", root=str(root), file=str(file)) from error


def file_changes(
    root: Path,
    path: str,
    *,
    revision: str = "HEAD",
    dropped: bool = False,
    env: Mapping[str, str] | None = None,
) -> tuple[FileChange, ...]:
    """Return the commits that led to what `revision` has at a path from the repository's top,
    newest first.

    Of a merge that took one side's file, that side. A merge that made a file of its own is one of
    the commits, and both sides are. With `dropped`, both sides of every merge: also what a merge
    dropped. No rename is followed.

    Raises:
        RepositoryUnreadable: no git, no repository, no such revision, or git refuses.
    """
    told = _history(
        root,
        env,
        *(("--full-history",) if dropped else ()),
        revision,
        "--",
        f":(top,literal){path}",
    )
    return tuple(_changes(told))


def files_ever(root: Path, folder: str, *, env: Mapping[str, str] | None = None) -> set[str]:
    """Return every path, from the repository's top, that was ever in a folder, in the history of
    HEAD.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses.
    """
    told = _history(root, env, "--full-history", "HEAD", "--", f":(top,literal){folder}")
    return {change.path for change in _changes(told)}


def read_blobs(
    root: Path,
    blobs: Collection[str],
    *,
    env: Mapping[str, str] | None = None,
    largest: int = LARGEST_BLOB,
) -> Mapping[str, Blob]:
    """Return what blobs hold, each of them with its content or why it cannot be read: too large, or
    not there.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    sizes: dict[str, int] = {}
    found: dict[str, Blob] = {}
    asked = _batch(root, env, "--batch-check", blobs)
    for line in os.fsdecode(asked.stdout).splitlines():
        blob, kind, *size = line.split()
        if kind == "missing":
            found[blob] = Blob(content=None, fault="it is not in this clone")
        elif int(size[0]) > largest:
            found[blob] = Blob(content=None, fault=f"it has {int(size[0]):,} bytes")
        else:
            sizes[blob] = int(size[0])
    read = _batch(root, env, "--batch", sizes)
    rest = read.stdout
    for blob, size_bytes in sizes.items():
        head, newline, rest = rest.partition(b"\n")
        if not newline or not head.startswith(blob.encode()) or len(rest) < size_bytes:
            break
        found[blob] = Blob(content=rest[:size_bytes])
        rest = rest[size_bytes + 1 :]
    lines = os.fsdecode(asked.stderr + read.stderr).strip().splitlines()
    unread = Blob(
        content=None,
        fault=f"git cannot read it: {lines[0].rstrip('.')}" if lines else "git cannot read it",
    )
    return {blob: found.get(blob, unread) for blob in blobs}


def _history(root: Path, env: Mapping[str, str] | None, *words: str) -> str:
    """Ask for the raw changes of commits, newest first, whatever the user's configuration of `git
    log` is."""
    settings = ("log.follow=false", "log.showRoot=true", "log.showSignature=false")
    fields = f"{_COMMIT}%x00%H%x00%P%x00%aI%x00%aN <%aE>%x00%s"
    form = (
        "-c",
        "--raw",
        "-z",
        "--no-abbrev",
        "--no-renames",
        "--no-color",
        "--encoding=UTF-8",
        f"--format={fields}",
    )
    return ask(
        root, env, "log", "--topo-order", *form, *words, settings=settings, limit_s=HISTORY_LIMIT_S
    )


_COMMIT: Final = "commit"
_FIELDS: Final = 5
"""Of a commit, behind the word `commit`: SHA, parents, time, author, subject."""


def _changes(told: str) -> Iterator[FileChange]:
    """Read what `_history` asked for: of each commit its fields, then of each file `:modes blobs
    status` and path.

    A merge has one colon, mode and blob for each parent.
    """
    tokens = iter(told.split("\0"))
    commit: list[str] = []
    for token in tokens:
        word = token.strip("\n")
        if word == _COMMIT:
            commit = [next(tokens) for _ in range(_FIELDS)]
        elif word.startswith(":"):
            sides = len(word) - len(word.lstrip(":"))
            parts = word.lstrip(":").split(" ")
            modes, blobs = parts[: sides + 1], parts[sides + 1 : 2 * sides + 2]
            sha, parents, at, author, subject = commit
            yield FileChange(
                commit=sha,
                parents=tuple(parents.split()),
                at=_moment(at),
                author=printable(author),
                subject=printable(subject),
                path=next(tokens),
                before=tuple(None if set(blob) == {"0"} else blob for blob in blobs[:-1]),
                blob=None if set(blobs[-1]) == {"0"} else blobs[-1],
                is_file=modes[-1].startswith("100"),
            )


def _moment(told: str) -> datetime | None:
    try:
        return datetime.fromisoformat(told).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _batch(
    root: Path, env: Mapping[str, str] | None, form: str, blobs: Collection[str]
) -> subprocess.CompletedProcess[bytes]:
    given = "".join(f"{blob}\n" for blob in blobs).encode()
    return run(root, env, "cat-file", form, given=given, limit_s=HISTORY_LIMIT_S)
