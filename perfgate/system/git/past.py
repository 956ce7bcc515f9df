"""What the files of a folder held, commit by commit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from perfgate.system.git.asking import HISTORY_LIMIT_S, ask, printable, run

_FIELDS: Final = "%x00%H%x01%aI%x01%aN <%aE>%x01%s"
"""Of a commit, on a line before the names of its files: SHA, time, author, subject."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileVersion:
    """What one commit left of one file."""

    commit: str
    at: datetime
    """When its author made it."""
    author: str
    """As `Name <email>`, after the repository's mailmap."""
    subject: str
    path: str
    """From the top of the repository, POSIX."""
    content: bytes | None
    """None where it left no file."""


def file_versions(
    root: Path, pattern: str, *, env: Mapping[str, str] | None = None
) -> tuple[FileVersion, ...]:
    """Return what the commits that led to HEAD left of the files that match, oldest first.

    The pattern is git's, relative to `root`. Of a merge that took one side's file, that side's
    commits are followed; no rename is.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses.
    """
    words = ("--topo-order", "--reverse", "-c", "--name-only", "--no-renames", "--no-color")
    log = ask(
        root,
        env,
        *("log", *words, "--encoding=UTF-8", f"--format={_FIELDS}", "--", f":(glob){pattern}"),
        settings=("log.follow=false", "log.showSignature=false", "core.quotePath=false"),
        limit_s=HISTORY_LIMIT_S,
    )
    changed = [
        (header.split("\x01", 3), path)
        for header, _, names in (commit.partition("\n") for commit in log.split("\0")[1:])
        for path in names.splitlines()
        if path
    ]
    contents = _contents(root, env, [f"{fields[0]}:{path}" for fields, path in changed])
    return tuple(
        FileVersion(
            commit=sha,
            at=datetime.fromisoformat(at),
            author=printable(author),
            subject=printable(subject),
            path=path,
            content=content,
        )
        for ((sha, at, author, subject), path), content in zip(changed, contents, strict=True)
    )


def is_shallow(root: Path, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the clone lacks older commits.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    return ask(root, env, "rev-parse", "--is-shallow-repository").strip() == "true"


def _contents(root: Path, env: Mapping[str, str] | None, names: list[str]) -> list[bytes | None]:
    """What each `commit:path` holds; None where that is no file."""
    asked = "".join(f"{name}\n" for name in names).encode(errors="surrogateescape")
    rest = run(root, env, "cat-file", "--batch", given=asked, limit_s=HISTORY_LIMIT_S).stdout
    found: list[bytes | None] = []
    for _ in names:
        head, _, rest = rest.partition(b"\n")
        kind, _, size = os.fsdecode(head).rpartition(" blob ")
        if not kind or not size.isdecimal():
            found.append(None)
            continue
        found.append(rest[: int(size)])
        rest = rest[int(size) + 1 :]
    return found
