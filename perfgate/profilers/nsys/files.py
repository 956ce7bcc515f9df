"""Captures and exports as files: whether they are what they should be, and folders that nsys takes as they are."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable, StoreFailed
from perfgate.profilers.nsys.command import NOT_LITERAL

REPORTS: Final = (".nsys-rep", ".qdrep")
"""How nsys's own files end: since 2021.4, and before."""
HEADER_BYTES: Final = 100
"""Of a SQLite file."""
SQLITE_MAGIC: Final = b"SQLite format 3\0"
"""The first bytes of one."""
LFS_POINTER: Final = b"version https://git-lfs"
"""The first bytes of what Git leaves in place of a large file that was not fetched."""


def fault_of_rep(rep: Path) -> CaptureUnreadable | None:
    try:
        with rep.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        return CaptureUnreadable(
            subject=str(rep),
            fact=f"cannot be read: {error.strerror}",
            next_step="Check the path and its permissions.",
        )
    if start.startswith(LFS_POINTER):
        return CaptureUnreadable(
            subject=str(rep),
            fact="is a Git LFS pointer, not the capture itself",
            next_step=f"Fetch it: git lfs pull --include={rep.name}",
        )
    if not start:
        return CaptureUnreadable(subject=str(rep), fact="is empty", next_step="Capture it again.")
    return None


def fault_of_sqlite(path: Path) -> str | None:
    """Say what keeps a file from being a complete SQLite file with tables, as the end of a sentence about it."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if size == 0:
        return "is empty"
    if header.startswith(LFS_POINTER):
        return "is a Git LFS pointer, not the export itself"
    if not header.startswith(SQLITE_MAGIC) or len(header) < HEADER_BYTES:
        return "is no SQLite file"
    if size < declared_size(header):
        return "is cut short"
    try:
        tables = tables_of(path)
    except sqlite3.Error as error:
        return f"is a damaged SQLite file ({error})"
    return None if tables else "is a SQLite file without tables"


def declared_size(head: bytes) -> int:
    """Bytes that a SQLite header promises (SQLite's file format, 1.3); 0 where it does not say."""
    if len(head) < HEADER_BYTES:
        return HEADER_BYTES
    if head[24:28] != head[92:96]:  # written by a version that did not keep the page count
        return 0
    page = int.from_bytes(head[16:18], "big")
    return int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)


def tables_of(path: Path) -> frozenset[str]:
    with contextlib.closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    ) as database:
        return frozenset(
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        )


@contextlib.contextmanager
def workshop(folder: Path) -> Iterator[Path]:
    """Give a fresh folder inside `folder` and remove it: on the same disk, so that a result moves out in one step."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="nsys-", dir=folder))
    except OSError as error:
        raise StoreFailed(
            subject=str(folder),
            fact=f"cannot be written: {error.strerror}",
            next_step="Make it writable, or free some space.",
        ) from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def literal(folder: Path) -> Iterator[Path]:
    """Give another path to a folder, through a link, where its own holds characters that nsys does not take as such."""
    folder = folder.absolute()
    if not set(str(folder)) & NOT_LITERAL:
        yield folder
        return
    parent = tempfile.gettempdir()
    parent = "/tmp" if set(parent) & NOT_LITERAL else parent
    with tempfile.TemporaryDirectory(prefix="perfgate-", dir=parent) as link:
        plain = Path(link) / "run"
        plain.symlink_to(folder, target_is_directory=True)
        yield plain
