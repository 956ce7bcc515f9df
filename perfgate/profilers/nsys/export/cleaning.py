"""Takes secrets out of the names and texts of an export, before anything is read of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from perfgate.model.secrets import SHORTEST, Cleaner
from perfgate.profilers.nsys.export.cells import decoded
from perfgate.profilers.nsys.export.layout import RANGES, STRINGS
from perfgate.profilers.nsys.export.refusing import damaged, refuse_foreign

_TEXTS: Final = ((STRINGS, "value"), (RANGES.name, "text"))
"""Tables and columns of what the workload calls its kernels and ranges."""
_ROWS: Final = 20_000
"""Rows whose texts are looked at together."""
_BETWEEN: Final = "\x1f"


def clean_export(path: Path, cleaner: Cleaner) -> None:
    """Replace the texts that hold a secret. Raises CaptureUnreadable as `read_timeline` does."""
    refuse_foreign(path)
    try:
        with closing(sqlite3.connect(path)) as export:
            export.text_factory = decoded
            for table, column in _TEXTS:
                if column in {
                    name for _, name, *_ in export.execute(f'PRAGMA table_info("{table}")')
                }:
                    _clean(export, table, column, cleaner)
            export.commit()
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise damaged(path, error) from error
    except UnicodeDecodeError as error:  # of SQLite's own words, which quote the file
        raise damaged(path, decoded(error.object)) from error


def _clean(export: sqlite3.Connection, table: str, column: str, cleaner: Cleaner) -> None:
    text = f'typeof("{column}") = \'text\' AND length("{column}") >= {SHORTEST}'
    rows = f'SELECT rowid AS row, "{column}" AS text FROM "{table}" WHERE rowid > ? AND {text}'
    part = f"{rows} ORDER BY rowid LIMIT {_ROWS}"
    last = -(1 << 63)
    while True:
        joined = f"SELECT group_concat(text, ?), max(row) FROM ({part})"
        texts, until = export.execute(joined, (_BETWEEN, last)).fetchone()
        if until is None:
            return
        if cleaner.clean(texts) != texts:
            for row, name in export.execute(part, (last,)).fetchall():
                if (cleaned := cleaner.clean(name)) != name:
                    export.execute(
                        f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (cleaned, row)
                    )
        last = until
