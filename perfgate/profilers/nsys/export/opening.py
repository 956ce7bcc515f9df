"""Opens an export read-only, and reads its small tables; must not know what becomes of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from perfgate.profilers.nsys.export.cells import decoded
from perfgate.profilers.nsys.export.pages import Malformed, Pages
from perfgate.profilers.nsys.export.refusing import damaged, refuse_foreign, refuse_unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """An open export. Small tables are read by sqlite3, large ones out of the file's pages."""

    path: Path
    connection: sqlite3.Connection
    pages: Pages
    tables: Mapping[str, Sequence[str]]
    """The columns of each table, in order."""

    def has(self, table: str) -> bool:
        return table in self.tables

    def rows(
        self, table: str, columns: Sequence[str], *, where: str = "1"
    ) -> list[tuple[Any, ...]]:
        """Rows of a small table; a column that it lacks is None in each."""
        if table not in self.tables:
            return []
        chosen = ", ".join(
            f'"{column}"' if column in self.tables[table] else "NULL" for column in columns
        )
        return self.query(f'SELECT {chosen} FROM "{table}" WHERE {where}')

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()


def read_only_uri(path: Path) -> str:
    """How SQLite opens a file without writing to it or beside it; for paths with any character."""
    return f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"


@contextmanager
def open_export(path: Path) -> Iterator[Export]:
    """An export of nsys, opened read-only.

    Raises as `read_timeline` does, for SQLite's errors while it is open too.
    """
    refuse_foreign(path)
    try:
        with (
            closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection,
            path.open("rb", 0) as file,
        ):
            connection.text_factory = decoded
            tables = _tables(connection)
            refuse_unknown(path, tables, _named(connection, "view"))
            yield Export(
                path=path, connection=connection, pages=Pages(file.fileno()), tables=tables
            )
    except (sqlite3.Error, sqlite3.Warning, Malformed) as error:
        raise damaged(path, error) from error
    except (
        UnicodeDecodeError
    ) as error:  # of SQLite's own words, which quote the file; what is read is `decoded`
        raise damaged(path, decoded(error.object)) from error


def tables_of(path: Path) -> frozenset[str]:
    """The names of an export's tables."""
    with closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
        return frozenset(_named(connection, "table"))


def _tables(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(
            str(column)
            for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
        )
        for name in _named(connection, "table")
    }


def _named(connection: sqlite3.Connection, kind: str) -> list[str]:
    """Names of the tables, or of the views, of a database."""
    return [
        str(name)
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = ?", (kind,))
    ]
