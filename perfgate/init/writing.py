"""Puts planned files into their places, each whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from perfgate.init.plan import Kind, Planned, State
from perfgate.model.errors import ScaffoldRefused, StoreFailed


def to_write(files: Sequence[Planned], *, force: bool) -> tuple[Planned, ...]:
    """Return the files that are to be written: the missing ones, a lock file that is not current
    and, forced, what is GitHub's and differs."""
    return tuple(
        file
        for file in files
        if file.state is State.MISSING
        or (file.kind is Kind.LOCK and file.state is State.OTHER)
        or (force and file.differs)
    )


def write(files: Sequence[Planned]) -> None:
    """Write files.

    Raises:
        StoreFailed: the disk does not take one; it says which were written before it.
        ScaffoldRefused: one was changed since it was looked at.
    """
    written: list[str] = []
    for file in files:
        try:
            _write(file)
        except OSError as error:
            raise StoreFailed(
                "scaffold-not-written",
                path=str(file.path),
                reason=error.strerror or str(error),
                written=tuple(written) or ("none",),
            ) from error
        written.append(str(file.path))


def _write(file: Planned) -> None:
    place = file.target.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".perfgate-{secrets.token_hex(6)}.tmp")
    try:
        temporary.write_text(file.text, encoding="utf-8", newline="")
        if file.there is not None:
            temporary.chmod(place.stat().st_mode & 0o7777)
        _replace(file, place, temporary)
    finally:
        temporary.unlink(missing_ok=True)


def _replace(file: Planned, place: Path, temporary: Path) -> None:
    """Move a file into its place, if that is still as it was when it was compared."""
    now = place.read_bytes().decode(errors="replace") if os.path.lexists(place) else None
    if now != file.there:
        raise ScaffoldRefused("scaffold-changed-meanwhile", path=str(file.path))
    temporary.replace(place)
