"""Puts planned files into their places: all are on the disk before the first of them is in place."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from perfgate.init.plan import Kind, Planned, State
from perfgate.model.errors import ScaffoldRefused, StoreFailed


def to_write(files: Sequence[Planned], *, force: bool) -> tuple[Planned, ...]:
    """Return the files that are to be written: the missing ones, a lock file that is not current and,
    forced, what is GitHub's and differs."""
    return tuple(
        file
        for file in files
        if file.state is State.MISSING
        or (file.kind is Kind.LOCK and file.state is State.OTHER)
        or (
            force
            and file.kind is Kind.GITHUB
            and file.state in {State.OLDER, State.NEWER, State.OTHER, State.EDITED}
        )
    )


def write(files: Sequence[Planned]) -> None:
    """Write files, each whole or not at all.

    Raises:
        StoreFailed: the disk does not take one.
        ScaffoldRefused: one was changed since it was looked at.
    """
    made: list[Path] = []
    staged: list[tuple[Planned, Path, Path]] = []
    written: list[Planned] = []
    at = files[0] if files else None
    try:
        for file in files:
            at = file
            place = file.target.resolve()
            _make_folders(place.parent, made)
            staged.append((file, place, place.with_name(f".perfgate-{secrets.token_hex(6)}.tmp")))
            _stage(file, place, staged[-1][2])
        for file, place, temporary in staged:
            at = file
            _put(file, place, temporary)
            written.append(file)
    except OSError as error:
        told = ", ".join(str(file.path) for file in written)
        raise StoreFailed(
            subject=str(at.path if at is not None else "."),
            fact=f"it could not be written ({error.strerror})",
            expectation=f"Written before it: {told}" if written else "Nothing was written",
            next_step="See to it that this user may write there and the disk has room, then run again.",
        ) from error
    finally:
        for _, _, temporary in staged:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):  # one with a file in it stays
                folder.rmdir()


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it; the new ones are added to `made`, the outermost first."""
    for one in (*reversed(folder.parents), folder):
        if not one.is_dir():
            one.mkdir()
            made.append(one)


def _stage(file: Planned, place: Path, temporary: Path) -> None:
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(handle, "wb") as opened:
        if file.there is not None:
            os.fchmod(handle, place.stat().st_mode & 0o7777)
        opened.write(file.text.encode())
        opened.flush()
        os.fsync(handle)


def _put(file: Planned, place: Path, temporary: Path) -> None:
    """Move a staged file into its place, if that is still as it was when it was compared."""
    now = place.read_bytes().decode(errors="replace") if os.path.lexists(place) else None
    if now != file.there:
        raise ScaffoldRefused(
            subject=str(file.path),
            fact="it was changed while perfgate init ran",
            expectation="What was compared is what is replaced",
            next_step="Run again.",
        )
    temporary.replace(place)
