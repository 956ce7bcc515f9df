"""Takes secrets out of an export, and copies it without what it says of people and machines.

Only what is listed here is copied.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perfgate.model.errors import StoreFailed
from perfgate.model.secrets import SHORTEST, Cleaner
from perfgate.profilers.nsys.export.file import (
    Export,
    open_export,
    read_only_uri,
    refusing_damage,
    text_of,
)
from perfgate.profilers.nsys.export.layout import (
    CALLS,
    COPIES,
    CUDA_DEVICES,
    DIAGNOSTICS,
    DOMAIN_EVENT,
    EVENT_RECORDS,
    GPUS,
    GRAPHS,
    KERNELS,
    LOSSES,
    MEMSETS,
    METADATA,
    OPERATIONS,
    RANGE_EVENTS,
    RANGES,
    STRINGS,
    WAITS,
)

_TEXTS: Final = ((STRINGS, "value"), (RANGES.name, "text"))
"""Tables and columns of what the workload calls its kernels and ranges."""
_TIMED: Final = tuple(table.name for table in (*OPERATIONS, CALLS, RANGES, WAITS))
"""Tables of what the workload did, each with the time of its start."""
_ROWS: Final = 20_000
"""Rows whose texts are looked at together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptColumns:
    """What leaves with one table: texts, whole numbers, and of which rows."""

    texts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Numbers that are ids of StringIds whose text leaves too."""
    numbers: tuple[str, ...] | None = None
    """None: of every column that is declared to hold them."""
    where: str = "1"


_NAMES = ("demangledName", "shortName", "mangledName")
_RANGE_NUMBERS = (
    "start",
    "end",
    "eventType",
    "rangeId",
    "category",
    "color",
    "globalTid",
    "endGlobalTid",
    "textId",
    "domainId",
)
_HARMLESS_DIAGNOSTICS = (
    "Number of CUDA events collected: %",
    "Number of NVTX events collected: %",
    "No CUDA events collected.%",
    "No NVTX events collected.%",
    "Not all CUDA events might have been collected.%",
    "Not all NVTX events might have been collected.%",
    "CUDA profiling might have not been started correctly.%",
    "Installed CUDA driver version (%) is not supported by this build of Nsight Systems.%",
    "NVTX payload extension is incompatible.%",
    *(f"{text}%" for text in LOSSES),
)

_ALLOWED = {
    "INTEGER": "typeof(\"{name}\") = 'integer'",
    "TEXT": "typeof(\"{name}\") = 'text' AND instr(CAST(\"{name}\" AS BLOB), x'00') = 0",
}
"""SQL: which values of a column leave, by the kind it is declared as."""

KEPT: Mapping[str, KeptColumns] = {
    KERNELS.name: KeptColumns(names=_NAMES),
    **{table.name: KeptColumns() for table in (COPIES, MEMSETS, GRAPHS, WAITS, EVENT_RECORDS)},
    CALLS.name: KeptColumns(names=("nameId",)),
    "PROFILER_OVERHEAD": KeptColumns(names=("nameId",)),
    RANGES.name: KeptColumns(
        texts=("text",),
        names=("textId",),
        numbers=_RANGE_NUMBERS,
        where=f"eventType IN ({', '.join(map(str, (*RANGE_EVENTS, DOMAIN_EVENT)))})",
    ),
    GPUS: KeptColumns(texts=("name", "uuid", "chipName", "busLocation")),
    CUDA_DEVICES: KeptColumns(texts=("uuid",)),
    "ANALYSIS_DETAILS": KeptColumns(),
    DIAGNOSTICS: KeptColumns(
        texts=("text",),
        where=" OR ".join(
            "text LIKE '{}'".format(text.replace("'", "''")) for text in _HARMLESS_DIAGNOSTICS
        ),
    ),
    **{
        name: KeptColumns(
            texts=("name", "value"),
            where="name LIKE 'EXPORT_PRODUCT_%' OR name LIKE 'EXPORT_SCHEMA_VERSION%'",
        )
        for name in METADATA
    },
    "ENUM_CUDA_MEMCPY_OPER": KeptColumns(texts=("name", "label")),
    "ENUM_CUDA_MEM_KIND": KeptColumns(texts=("name", "label")),
}
"""All that leaves. Everything `read_timeline` reads, and what nsys's own reports on kernels,
memory, calls and ranges, `cuda_gpu_trace` and `gpu_gaps` read. Nothing of environment, command
line, host, user, files or process output: and of StringIds, where nsys keeps those too, only the
names that the rows above refer to."""


def clean_export(path: Path, cleaner: Cleaner, *, until: str | None = None) -> None:
    """Replace texts that hold a secret, and leave out what began after the range `until`; in place.

    `path` is an export that has been checked. Raises CaptureUnreadable where SQLite cannot read it.
    """
    with refusing_damage(path), closing(sqlite3.connect(path)) as export:
        export.text_factory = text_of
        for table, column in _TEXTS:
            columns = {row[1] for row in export.execute(f'PRAGMA table_info("{table}")')}
            if column not in columns:
                continue
            found = export.execute(
                f'SELECT rowid, "{column}" FROM "{table}" '
                f'WHERE typeof("{column}") = \'text\' AND length("{column}") >= {SHORTEST}'
            )
            changed: list[tuple[str, int]] = []
            while rows := found.fetchmany(_ROWS):
                together = "\x1f".join(text for _, text in rows)
                if cleaner.clean(together) != together:
                    cleaned = ((cleaner.clean(text), text, row) for row, text in rows)
                    changed += [(clean, row) for clean, text, row in cleaned if clean != text]
            if changed:
                update = f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?'
                export.executemany(update, changed)
        if until is not None:
            _cut(export, until)
        export.commit()


def _cut(export: sqlite3.Connection, until: str) -> None:
    """Delete what began after a range: nsys's own reports then show no more than perfgate does."""
    columns = {
        table: {row[1] for row in export.execute(f'PRAGMA table_info("{table}")')}
        for table in (*_TIMED, STRINGS)
    }
    is_range = f"eventType IN ({', '.join(map(str, RANGE_EVENTS))})"
    texts = ["text"] if "text" in columns[RANGES.name] else []
    if "textId" in columns[RANGES.name] and columns[STRINGS]:
        texts.append(f"(SELECT value FROM {STRINGS} WHERE id = textId)")
    if not texts:
        return
    named = " OR ".join(f"{text} = :until" for text in texts)
    found = f'SELECT min(start) FROM "{RANGES.name}" WHERE {is_range} AND ({named})'
    ((end,),) = export.execute(found, {"until": until})
    if end is None:
        return
    for table in _TIMED:
        if "start" not in columns[table]:
            continue
        only = is_range if table == RANGES.name else "1"
        export.execute(f'DELETE FROM "{table}" WHERE start > ? AND {only}', (end,))
        if not export.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchall():
            export.execute(f'DROP TABLE "{table}"')  # as nsys leaves out what would be empty


def scrub(source: Path, target: Path) -> None:
    """Write a copy of the export at `source` to `target` that may leave this machine.

    The copy is a new database with the columns of `KEPT` only. A number column gives whole numbers
    only, and a text with a NUL in it (as environment blocks have) does not leave at all. What
    remains is what the workload calls its kernels and ranges. `source` is not changed.

    Raises CaptureUnreadable as `read_timeline` does, and StoreFailed when `target` exists or cannot
    be written; then nothing is left of it.
    """
    if target.exists():
        raise StoreFailed("export-not-written", path=str(target), reason="there is a file already")
    unfinished = target.with_name(f"{target.name}.part")
    with open_export(source) as export:
        try:
            unfinished.unlink(missing_ok=True)
            with closing(
                sqlite3.connect(unfinished.resolve().as_uri(), uri=True, isolation_level=None)
            ) as copy:
                _copy(export, copy)
            unfinished.replace(target)
        except (sqlite3.OperationalError, OSError) as error:
            raise StoreFailed("export-not-written", path=str(target), reason=str(error)) from error
        finally:
            unfinished.unlink(missing_ok=True)


def _copy(export: Export, copy: sqlite3.Connection) -> None:
    copy.execute("PRAGMA journal_mode = OFF")
    copy.execute("PRAGMA synchronous = OFF")
    # SQLite leaves what was in its memory before in unused parts of new pages: here, the source's
    copy.execute("PRAGMA secure_delete = ON")
    copy.execute("ATTACH ? AS source", (read_only_uri(export.path),))
    copy.execute("BEGIN")
    for table, kept in KEPT.items():
        if export.has(table):
            _copy_table(export, copy, table, kept)
    if export.has(STRINGS):
        copy.execute(
            f"CREATE TABLE {STRINGS} (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)"
        )
        named = [
            f'SELECT "{name}" FROM main."{table}"'
            for table, kept in KEPT.items()
            for name in kept.names
            if export.has(table, name)
        ]
        if named:
            copy.execute(
                f"INSERT INTO main.{STRINGS} SELECT id, value FROM source.{STRINGS} "
                f"WHERE {_ALLOWED['TEXT'].format(name='value')} "
                f"AND id IN ({' UNION '.join(named)}) ORDER BY id"
            )
    copy.execute("COMMIT")


def _copy_table(export: Export, copy: sqlite3.Connection, table: str, kept: KeptColumns) -> None:
    columns: dict[str, str] = {}
    for _, name, declared, *_ in export.connection.execute(f'PRAGMA table_info("{table}")'):
        if name in kept.texts:
            columns[name] = "TEXT"
        elif declared in ("INTEGER", "") and (kept.numbers is None or name in kept.numbers):
            columns[name] = "INTEGER"
    if not columns:
        return
    select = (
        f'CASE WHEN {_ALLOWED[kind].format(name=name)} THEN "{name}" END'
        for name, kind in columns.items()
    )
    created = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    copy.execute(f'CREATE TABLE main."{table}" ({created})')
    copy.execute(
        f'INSERT INTO main."{table}" SELECT {", ".join(select)} FROM source."{table}" '
        f"WHERE {kept.where}"
    )
