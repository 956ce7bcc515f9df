"""What the files of a folder held, commit by commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from perfgate.system.git.asking import HISTORY_LIMIT_S, ask, objects, printable

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
    names = [f"{fields[0]}:{path}" for fields, path in changed]
    contents = objects(root, env, names, limit_s=HISTORY_LIMIT_S)
    return tuple(
        FileVersion(
            commit=sha,
            at=datetime.fromisoformat(at),
            author=printable(author),
            subject=printable(subject),
            path=path,
            content=found[1] if found is not None and found[0] == b"blob" else None,
        )
        for ((sha, at, author, subject), path), found in zip(changed, contents, strict=True)
    )
