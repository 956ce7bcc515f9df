"""Opens an export of nsys read-only, and refuses what is none or of an unknown version."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown
from perfgate.profilers.nsys.export.layout import EXPORT_TABLES, METADATA, STRINGS

REPORTS: Final = (".nsys-rep", ".qdrep")
"""How nsys's own files end: since 2021.4, and before."""
MOST_NAMES: Final = 12
"""Names of tables or columns that a message lists."""

_SQLITE: Final = b"SQLite format 3\0"
_LFS_POINTER: Final = b"version https://git-lfs"
"""The first bytes of what Git leaves in place of a large file that was not fetched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """An open export."""

    path: Path
    connection: sqlite3.Connection
    tables: Mapping[str, Sequence[str]]
    """The columns of each table, in order."""

    def has(self, table: str, column: str | None = None) -> bool:
        return table in self.tables and (column is None or column in self.tables[table])

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows of a small table; a column that it lacks is None in each."""
        if not self.has(table):
            return []
        chosen = (f'"{name}"' if self.has(table, name) else "NULL" for name in columns)
        return list(self.connection.execute(f'SELECT {", ".join(chosen)} FROM "{table}"'))

    def require(self, table: str, column: str) -> None:
        """Raise LayoutUnknown where a table lacks a column."""
        if not self.has(table, column):
            raise LayoutUnknown(
                "export-column-missing",
                path=str(self.path),
                table=table,
                column=column,
                columns=tuple(self.tables.get(table, ())[:MOST_NAMES]),
            )

    def impossible(self, table: str, column: str, value: object) -> CaptureUnreadable:
        """The error for a value that no nsys writes."""
        return CaptureUnreadable(
            "export-impossible", path=str(self.path), table=table, column=column, value=value
        )


def text_of(value: object) -> str | None:
    """What a text column holds, with bytes that are no UTF-8 replaced; None for NULL. SQLite lets
    any column have any value."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return None if value is None else str(value)


def read_only_uri(path: Path) -> str:
    """How SQLite opens a file without writing to it or next to it, whatever its path."""
    return f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"


@contextmanager
def open_export(path: Path) -> Iterator[Export]:
    """An export of nsys, opened read-only.

    Raises as `read_timeline` does, for SQLite's errors while it is open too.
    """
    if not check_capture(path).startswith(_SQLITE):
        raise CaptureUnreadable("export-foreign", path=str(path))
    # SQLite names them after the file itself, not after a link to it.
    real = path.resolve()
    for log in (real.with_name(f"{real.name}-wal"), real.with_name(f"{real.name}-journal")):
        if log.exists() and log.stat().st_size:
            raise CaptureUnreadable("export-unfinished", path=str(path), name=log.name)
    with (
        refusing_damage(path),
        closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection,
    ):
        connection.text_factory = text_of
        ((page_bytes,),) = connection.execute("PRAGMA page_size")
        if path.stat().st_size % page_bytes:  # SQLite reads what a last page lacks as zeros
            raise sqlite3.DatabaseError("its last page is cut short")
        names = connection.execute("SELECT name, type FROM sqlite_master").fetchall()
        tables = {
            name: tuple(row[1] for row in connection.execute(f'PRAGMA table_info("{name}")'))
            for name, kind in names
            if kind == "table"
        }
        _refuse_unknown(path, tables, [name for name, kind in names if kind == "view"])
        yield Export(path=path, connection=connection, tables=tables)


@contextmanager
def refusing_damage(path: Path) -> Iterator[None]:
    """Raise CaptureUnreadable for what SQLite cannot read.

    Its own words quote the file, so they may be no UTF-8.
    """
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError) as error:
        raise CaptureUnreadable("export-damaged", path=str(path), detail=str(error)) from error


def check_capture(path: Path) -> bytes:
    """The first bytes of a capture. Raises CaptureUnreadable for what is certainly none."""
    try:
        if path.is_fifo():  # of which opening may wait for ever, and nothing can be read twice
            raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE))
        with path.open("rb") as file:
            head = file.read(len(_LFS_POINTER))
    except OSError as error:
        reason = error.strerror or str(error)
        raise CaptureUnreadable("capture-unopened", path=str(path), reason=reason) from error
    if not head:
        raise CaptureUnreadable("capture-empty", path=str(path))
    if head == _LFS_POINTER:
        raise CaptureUnreadable("capture-is-pointer", path=str(path), name=path.name)
    return head


def _refuse_unknown(path: Path, tables: Mapping[str, object], views: Sequence[str]) -> None:
    """Raise for tables of no export, or of a version that perfgate does not know."""
    known = {STRINGS, *METADATA, *(table.name for table in EXPORT_TABLES)}
    if known.isdisjoint(tables):
        raise CaptureUnreadable(
            "export-not-of-nsys", path=str(path), tables=tuple(sorted(tables)[:MOST_NAMES])
        )
    for table in EXPORT_TABLES:
        others = [name for name in tables if name.startswith(f"{table.name}_V")]
        others += [view for view in views if view == table.name]
        if others:
            raise LayoutUnknown(
                "export-table-unknown",
                path=str(path),
                tables=tuple(sorted(others)[:MOST_NAMES]),
                known=table.name,
            )
