"""Reads a capture's SQLite export into a Timeline; never changes the file, and knows no metric."""

from __future__ import annotations

import os
import re
import sqlite3
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar
from urllib.parse import quote

import connectorx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown
from perfgate.model.timeline import (
    Bytes8,
    Calls,
    CapturedGpu,
    Copies,
    CopyKind,
    Diagnostic,
    Ints,
    Kernels,
    MemoryKind,
    Names,
    Ranges,
    SmallInts,
    Spans,
    Timeline,
)
from perfgate.nsys.files import HEADER_BYTES, declared_size
from perfgate.nsys.layouts import (
    CALLS,
    COPIES,
    CUDA_DEVICES,
    DIAGNOSTICS,
    DOMAIN_EVENT,
    EXPORT_TABLES,
    GPUS,
    GRAPHS,
    KERNELS,
    LOSSES,
    MARK_EVENT,
    MEMSETS,
    METADATA,
    PAGE,
    PROCESS_SHIFT,
    PUSH_POP_EVENTS,
    RANGE_EVENTS,
    RANGES,
    STRINGS,
    THREAD_MASK,
    UNKNOWN_PROCESS,
    ExportColumn,
    ExportTable,
)
from perfgate.nsys.spelling import LONGEST_TEXT, inert

Columns = dict[str, NDArray[Any]]
_Scalar = TypeVar("_Scalar", bound=np.generic)

_ROWS_AT_ONCE = 1 << 18
"""Rows a thread holds in connectorx's wide form; bounds the memory above the arrays themselves."""
_READERS = min(8, os.cpu_count() or 1)
_HEADER = b"SQLite format 3\0"
_LFS = b"version https://git-lfs"
_PACKED: Mapping[bytes, tuple[str, str]] = {
    b"\x1f\x8b": ("gzip", "gunzip --keep"),
    b"\xfd7zXZ\0": ("xz", "unxz --keep"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}
"""First bytes of packed files, and what unpacks them."""
_OTHER_EXPORTS: Mapping[bytes, str] = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"\x89HDF": "HDF5"}
"""First bytes of nsys's other export formats."""
_AGAIN = "Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"
_UNKNOWN_PID = 0
STRAY = 0.01
"""Share of a process's operations up to which what ran on a GPU is no use of it."""
_MANAGED = (CopyKind.UVM_H2D, CopyKind.UVM_D2H, CopyKind.UVM_D2D)
_WARNINGS = (2, 3)
"""Severities of DIAGNOSTIC_EVENT: warning and error."""
_FARTHEST_NS = 2**61
"""Times are ns since the capture's start or, normalised, since 1970: no further from 0 than 73 years."""
_LEAST_ROW_BYTES = 4
"""A row of the tables read here takes more in the file. Row ids that promise more rows than fit have holes."""
_DTYPES: Mapping[str, type[np.generic]] = {
    "process": np.int32,
    "device": np.int32,
    "name": np.int32,
    "kind": np.int8,
    "source": np.int8,
    "target": np.int8,
    "graph_node": np.bool_,
    "closed": np.bool_,
}
_LIMITS: Mapping[str, tuple[int, int]] = {
    "device": (0, 2**31 - 1),
    "name": (-(2**31), 2**31 - 1),
    "kind": (-(2**7), 2**7 - 1),
    "source": (-(2**7), 2**7 - 1),
    "target": (-(2**7), 2**7 - 1),
    "count": (0, 2**31 - 1),
}
"""The least and the most that a column may hold."""
_MIXING: Final = np.int64(-7046029254386353131)
"""2^64 over the golden ratio: products of it are spread over all that 64 bits hold (Knuth, 6.4)."""
_PANIC = ("pyo3_runtime", "PanicException")
"""Module and name of what connectorx raises where its Rust gives up. It is no Exception, and no module holds it."""


def read_timeline(path: Path) -> Timeline:
    """Read everything perfgate measures from the SQLite export at `path`.

    The file is opened read-only and immutable: it is not changed, and no file is created beside it.

    - A table that is absent is an empty one: nsys writes no empty tables. What that means is in `Timeline.missing`.
    - A process is a `globalPid`, so equal pids of two machines stay two. Rows without one (NULL, or exports so old that
      they have no such column) belong to the capture's only process, or to one with pid 0 where it has several or none.
    - A device is a physical GPU. Processes count their own from 0 (CUDA_VISIBLE_DEVICES), so their numbers are
      translated by TARGET_INFO_CUDA_DEVICE (in exports of 2025 and newer); else by TARGET_INFO_GPU's CUDA number; else
      they are taken as they stand. Without that first table equal numbers of several processes are taken for the same
      GPU, and `Timeline.missing` says so under `devices` unless there is but one.
    - A kernel or call whose name is not in StringIds is called `(name 123)`.

    Raises CaptureUnreadable for what is no export, or a damaged one, and for values that no nsys writes (text in a
    number column, an end before its start); LayoutUnknown for an export of nsys whose columns perfgate does not know.
    """
    with open_export(path) as export:
        return _timeline(export)


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """An open export. Names and small tables are read by sqlite3, numbers by connectorx, which opens the file again."""

    path: Path
    connection: sqlite3.Connection
    tables: Mapping[str, Mapping[str, bool]]
    """Table -> its columns -> whether they are declared NOT NULL."""

    def has(self, table: str) -> bool:
        return table in self.tables

    def rows(self, table: str, columns: Sequence[str], *, where: str = "1") -> list[tuple[Any, ...]]:
        """Rows of a small table; a column that it lacks is None in each."""
        if table not in self.tables:
            return []
        chosen = ", ".join(f'"{column}"' if column in self.tables[table] else "NULL" for column in columns)
        return self.query(f'SELECT {chosen} FROM "{table}" WHERE {where}')

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()


def read_only_uri(path: Path) -> str:
    """How SQLite opens a file without writing to it or beside it; for paths with any character."""
    return f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"


def _refuse_foreign(path: Path) -> None:
    """Raise for a file that is no readable SQLite database, by its first bytes."""
    try:
        with path.open("rb") as file:
            head = file.read(HEADER_BYTES)
        size = path.stat().st_size
    except IsADirectoryError:
        raise CaptureUnreadable(
            subject=str(path), fact="this is a folder", expectation="perfgate reads one export", next_step=_AGAIN
        ) from None
    except OSError as error:
        raise CaptureUnreadable(
            subject=str(path), fact=f"it cannot be opened: {error.strerror}", next_step="Check the path and its rights"
        ) from error
    if not head:
        raise CaptureUnreadable(subject=str(path), fact="the file is empty", next_step=_AGAIN)
    if head.startswith(_LFS):
        raise CaptureUnreadable(
            subject=str(path),
            fact="this is a Git LFS pointer, not the capture itself",
            next_step=f"Fetch the capture first: git lfs pull --include {path.name}",
        )
    if not head.startswith(_HEADER):
        if path.suffix in {".nsys-rep", ".qdrep"}:
            raise CaptureUnreadable(
                subject=str(path),
                fact="this is nsys's own format",
                expectation="perfgate reads its SQLite export",
                next_step=f"Export it: nsys export --type sqlite {path.name}",
            )
        for start, (packer, unpack) in _PACKED.items():
            if head.startswith(start):
                raise CaptureUnreadable(
                    subject=str(path), fact=f"it is packed with {packer}", next_step=f"Unpack it: {unpack} {path.name}"
                )
        other = next((name for start, name in _OTHER_EXPORTS.items() if head.startswith(start)), None)
        raise CaptureUnreadable(
            subject=str(path),
            fact=f"this is {f'an export as {other}' if other else 'no SQLite file'}",
            expectation="perfgate reads SQLite exports of nsys",
            next_step=_AGAIN,
        )
    whole = declared_size(head)
    if size < whole:
        raise CaptureUnreadable(
            subject=str(path), fact=f"it is cut off: {size} of {whole} bytes are there", next_step=_AGAIN
        )
    for suffix in ("-wal", "-journal"):
        beside = path.with_name(path.name + suffix)
        if beside.exists() and beside.stat().st_size:
            raise CaptureUnreadable(
                subject=str(path),
                fact=f"{beside.name} lies beside it: something is still writing the export, or died writing it",
                next_step=f"Wait for it, or {_AGAIN[0].lower()}{_AGAIN[1:]}",
            )


@contextmanager
def open_export(path: Path) -> Iterator[Export]:
    """An export of nsys, opened read-only. Raises as `read_timeline` does, for SQLite's errors while it is open too."""
    _refuse_foreign(path)
    try:
        with closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
            connection.text_factory = _decoded
            yield _export(path, connection)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _damaged(path, inert(str(error), longest=LONGEST_TEXT)) from error
    except UnicodeDecodeError as error:  # of SQLite's own words, which quote the file; what is read is `_decoded`
        told = error.object.decode("utf-8", errors="replace")
        raise _damaged(path, inert(told, longest=LONGEST_TEXT)) from error


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def _export(path: Path, connection: sqlite3.Connection) -> Export:
    names = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    tables = {
        name: {
            str(column): bool(not_null)
            for column, not_null in connection.execute('SELECT name, "notnull" FROM pragma_table_info(?)', (name,))
        }
        for name in names
    }
    for (view,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'"):
        if any(view == table.name for table in EXPORT_TABLES):
            raise LayoutUnknown(
                subject=str(path),
                fact=f"{view} is a view",
                expectation="In an export of nsys it is a table",
                next_step=_AGAIN,
            )
    known = {STRINGS, *METADATA, *(table.name for table in EXPORT_TABLES)}
    if known.isdisjoint(names):
        raise CaptureUnreadable(
            subject=str(path),
            fact=f"this is a SQLite file, but no export of nsys: it has {_listed(names)}",
            expectation=f"An export has some of {_listed(sorted(known))}",
            next_step=_AGAIN,
        )
    for table in EXPORT_TABLES:
        others = sorted(name for name in names if name.startswith(f"{table.name}_V"))
        if others:
            # Beside the one that is known as well: what is in which is not.
            beside = "beside" if table.name in tables else "and no"
            raise LayoutUnknown(
                subject=str(path),
                fact=f"it has {_listed(others)} {beside} {table.name}",
                expectation=f"perfgate knows {table.name} only",
                next_step="perfgate must learn this version of nsys: please report it with the version",
            )
    return Export(path=path, connection=connection, tables=tables)


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "no tables"
    return ", ".join(map(inert, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _damaged(path: Path, how: str) -> CaptureUnreadable:
    return CaptureUnreadable(subject=str(path), fact=f"it is damaged: {how}", next_step=_AGAIN)


# --- numbers -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Processes:
    """Numbers the capture's processes as threads come upon them."""

    codes: dict[int, int] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def numbered(self, keys: Ints) -> SmallInts:
        """`globalPid`s -> process numbers, in no particular order yet."""
        if (keys == keys[0]).all():
            with self.lock:
                return np.full(len(keys), self.codes.setdefault(int(keys[0]), len(self.codes)), dtype=np.int32)
        index, uniques = pd.factorize(keys)
        with self.lock:
            codes = [self.codes.setdefault(int(key), len(self.codes)) for key in uniques]
        return np.array(codes, dtype=np.int32)[index]

    def settled(self) -> tuple[tuple[int, ...], dict[int, int]]:
        """Process ids in final order, and the final index of each `globalPid` met."""
        known = sorted(key for key in self.codes if key != UNKNOWN_PROCESS)
        index = {key: number for number, key in enumerate(known)}
        pids = [(key >> PROCESS_SHIFT) & THREAD_MASK for key in known]
        if UNKNOWN_PROCESS in self.codes:
            index[UNKNOWN_PROCESS] = 0 if len(known) == 1 else len(known)
            if len(known) != 1:
                pids.append(_UNKNOWN_PID)
        return tuple(pids), index


def _sql(export: Export, table: ExportTable) -> tuple[list[str], list[ExportColumn]]:
    """What to select of a table, and the columns that it lacks and that have a default."""
    has = export.tables[table.name]
    if any(name.lower() == "rowid" for name in has):
        raise _damaged(export.path, f"{table.name} has a column called rowid, which no nsys writes")
    select: list[str] = []
    lacking: list[ExportColumn] = []
    for column in table.columns:
        there = [source for source in column.sources if source in has]
        if not there and column.default is None and not column.flag:
            raise LayoutUnknown(
                subject=str(export.path),
                fact=f"{table.name} has no column {' or '.join(column.sources)}, it has {_listed(list(has))}",
                expectation="perfgate reads exports of nsys 2022.4 and newer",
                next_step=_AGAIN,
            )
        if not there:
            lacking.append(column)
        elif column.flag:
            select.append(f'"{there[0]}" IS NOT NULL AS "{column.field}"')
        elif has[there[0]] or (len(there) == 1 and column.default is None):
            select.append(f'"{there[0]}" AS "{column.field}"')
        else:
            tried = [f'"{source}"' for source in there] + ([] if column.default is None else [str(column.default)])
            select.append(f'coalesce({", ".join(tried)}) AS "{column.field}"')
    return select, lacking


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """Some rows of a table, to be read by one thread into their place in the whole table's columns."""

    export: Export
    table: ExportTable
    select: str
    lacking: tuple[ExportColumn, ...]
    where: str
    at: int
    room: int
    """How many rows it can have at most."""

    def read(self, processes: _Processes, into: Columns) -> slice:
        """Fill `into` from `at` on, in the dtypes of the Timeline, and say which of its rows that were."""
        sql = f'SELECT {self.select} FROM "{self.table.name}" WHERE {self.where} ORDER BY rowid'
        url = "sqlite://" + quote(read_only_uri(self.export.path), safe="")
        try:
            frame = connectorx.read_sql(url, sql, return_type="pandas")
        except RuntimeError as error:
            raise self._unreadable(error) from error
        except BaseException as error:
            if (type(error).__module__, type(error).__name__) != _PANIC:
                raise
            raise self._unreadable(error) from error
        count = len(frame)
        rows = slice(self.at, self.at + count)
        if not count:
            return rows
        columns: Columns = {name: self._integers(frame[name]) for name in frame.columns}
        columns |= {column.field: np.full(count, column.default or 0, dtype=np.int64) for column in self.lacking}
        self._check(columns)
        if "thread" in columns:
            columns["process"] = columns["thread"] & ~THREAD_MASK
            columns["thread"] = columns["thread"] & THREAD_MASK
        columns["process"] = processes.numbered(columns["process"])
        for name, values in columns.items():
            into[name][rows] = values
        return rows

    def _unreadable(self, error: BaseException) -> CaptureUnreadable:
        told = inert(str(error), longest=LONGEST_TEXT)
        return _damaged(self.export.path, f"{self.table.name} cannot be read: {told}")

    def _integers(self, series: pd.Series[Any]) -> Ints:
        if not pd.api.types.is_integer_dtype(series.dtype):
            raise _damaged(self.export.path, f"{self.table.name} has other values than whole numbers as {series.name}")
        if series.hasnans:
            raise _damaged(self.export.path, f"{self.table.name} has rows without a {series.name}")
        return series.to_numpy(dtype=np.int64)

    def _check(self, columns: Columns) -> None:
        start, end = columns["start"], columns["end"]
        first, last = int(start.min()), int(end.max())
        if first < -_FARTHEST_NS or last > _FARTHEST_NS or int(start.max()) > _FARTHEST_NS:
            beyond = first if first < -_FARTHEST_NS else max(last, int(start.max()))
            raise _damaged(self.export.path, f"{self.table.name} has {beyond} ns as a time, which no nsys writes")
        wrong = end < start
        if "closed" in columns:
            wrong &= columns["closed"] != 0
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise _damaged(
                self.export.path,
                f"{self.table.name} has {int(wrong.sum())} rows that end before they start, "
                f"as from {start[row]} to {end[row]} ns",
            )
        if "bytes" in columns and (columns["bytes"] < 0).any():
            raise _damaged(self.export.path, f"{self.table.name} has a copy of {columns['bytes'].min()} bytes")
        for name in columns.keys() & _LIMITS.keys():
            (lowest, highest), (least, most) = (int(columns[name].min()), int(columns[name].max())), _LIMITS[name]
            if lowest < least or highest > most:
                beyond = highest if highest > most else lowest
                raise _damaged(self.export.path, f"{self.table.name} has {beyond} as a {name}, which no nsys writes")


def _parts(export: Export, table: ExportTable) -> list[_Part]:
    """A table in parts of `_ROWS_AT_ONCE` row ids. nsys numbers rows from 1 without holes; others may have cut some."""
    if not export.has(table.name):
        return []
    select, lacking = _sql(export, table)
    # one query each: SQLite finds the first or the last row at once, but both together by reading them all
    ((first,),) = export.query(f'SELECT min(rowid) FROM "{table.name}"')
    ((last,),) = export.query(f'SELECT max(rowid) FROM "{table.name}"')
    if first is None:
        return []
    which = [f"eventType IN ({', '.join(map(str, RANGE_EVENTS))})"] if table is RANGES else []
    if last - first > export.path.stat().st_size // _LEAST_ROW_BYTES:
        ((count,),) = export.query(f'SELECT count(*) FROM "{table.name}"')
        places: list[tuple[int, int, list[str]]] = [(first, count, ["1"])]
    else:
        places = [
            (begin, min(_ROWS_AT_ONCE, last + 1 - begin), [f"rowid BETWEEN {begin} AND {begin + _ROWS_AT_ONCE - 1}"])
            for begin in range(first, last + 1, _ROWS_AT_ONCE)
        ]
    return [
        _Part(
            export=export,
            table=table,
            select=", ".join(select),
            lacking=tuple(lacking),
            where=" AND ".join(which + where),
            at=begin - first,
            room=room,
        )
        for begin, room, where in places
    ]


_FILTERS = Lock()
"""Held while the filters of warnings are changed: two threads that read at once would put back each other's."""


def _read_tables(export: Export) -> tuple[dict[str, Columns], _Processes]:
    """All tables; several of their parts are read at the same time."""
    processes = _Processes()
    reading: dict[str, tuple[Columns, list[Future[slice]]]] = {}
    with (
        _FILTERS,
        warnings.catch_warnings(),
        ThreadPoolExecutor(_READERS, thread_name_prefix="perfgate-read") as readers,
    ):
        # connectorx 0.4 builds its frames in a way that pandas 3 warns of; here, since filters are of all threads
        warnings.filterwarnings("ignore", message="make_block is deprecated", category=DeprecationWarning)
        try:
            for table in EXPORT_TABLES:
                parts = _parts(export, table)
                columns = _room(table, sum(part.room for part in parts))
                reading[table.name] = columns, [readers.submit(part.read, processes, columns) for part in parts]
            return {name: _filled(columns, parts) for name, (columns, parts) in reading.items()}, processes
        finally:
            readers.shutdown(cancel_futures=True)


def _room(table: ExportTable, rows: int) -> Columns:
    names = [*(column.field for column in table.columns), "process"]
    return {name: np.empty(rows, dtype=_DTYPES.get(name, np.int64)) for name in names}


def _filled(columns: Columns, parts: Sequence[Future[slice]]) -> Columns:
    """The rows that were read, without the room that stayed empty; no columns at all where there are none."""
    rows = [part.result() for part in parts]
    count = sum(part.stop - part.start for part in rows)
    if not count:
        return {}
    if count == len(columns["start"]):
        return columns
    return {name: np.concatenate([values[part] for part in rows]) for name, values in columns.items()}


def _refuse_twins(export: Export, table: ExportTable, columns: Columns) -> None:
    """Refuse a table that holds a row twice, which would count double; rows are compared whole where any look alike.

    What CUPTI could not time has nothing to be told apart by, and counts as no time; nor have moves of managed memory
    where their page is not told.
    """
    timed = columns["end"] > 0 if columns else np.empty(0, np.bool_)
    if timed.any() and table is COPIES and PAGE not in export.tables[table.name]:
        timed &= ~np.isin(columns["kind"], _MANAGED)
    if not timed.any():
        return
    start, end, correlation = (columns[name][timed] for name in ("start", "end", "correlation"))
    # One number for a row, to be sorted once: rows that are alike have the same one, others hardly ever.
    keys = start + _MIXING * (end + _MIXING * correlation)
    ordered = np.sort(keys)
    alike = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(alike):
        return
    starts = start[np.isin(keys, alike)]
    quoted = (name.replace('"', '""') for name in export.tables[table.name])
    every = ", ".join(f'"{name}"' for name in quoted)
    between = f"start BETWEEN {starts.min()} AND {starts.max()}"
    again = f'SELECT count(*) - 1 FROM "{table.name}" WHERE {between} GROUP BY {every} HAVING count(*) > 1'
    number = sum(count for (count,) in export.query(again))
    if number:
        told = "1 row that is" if number == 1 else f"{number} rows that are"
        raise _damaged(export.path, f"{table.name} has {told} in it already, equal in every column")


# --- the timeline ------------------------------------------------------------------------------------------------


def _timeline(export: Export) -> Timeline:
    tables, numbered = _read_tables(export)
    for table in (KERNELS, COPIES, MEMSETS, GRAPHS, CALLS):
        _refuse_twins(export, table, tables[table.name])
    processes, index = numbered.settled()
    order = np.array([index[key] for key in numbered.codes], dtype=np.int32)
    if (order != np.arange(len(order))).any():
        for columns in tables.values():
            if columns:
                columns["process"] = order[columns["process"]]
    operations = [tables[table.name] for table in (KERNELS, COPIES, MEMSETS, GRAPHS)]
    gpus, mixed = _name_devices(export, processes, [columns for columns in operations if columns])

    kernels, calls = _kernels(tables[KERNELS.name]), _calls(tables[CALLS.name])
    of_kernels, of_calls = (set(pd.unique(column).tolist()) for column in (kernels.name, calls.name))
    ids = of_kernels | of_calls
    text_ids = _column(tables[RANGES.name], "text_id", np.int64)
    strings = _strings(export, ids | {int(name) for name in pd.unique(text_ids)})
    domains = _domain_rows(export, index)
    meta = {name: _text(value) for table in METADATA for name, value in export.rows(table, ("name", "value"))}
    timeline = Timeline(
        source=export.path.name,
        nsys_version=meta.get("EXPORT_PRODUCT_VERSION"),
        schema_version=meta.get("EXPORT_SCHEMA_VERSION"),
        processes=processes,
        kernels=kernels,
        copies=_copies(tables[COPIES.name]),
        memsets=_spans(tables[MEMSETS.name]),
        graphs=_spans(tables[GRAPHS.name]),
        calls=calls,
        ranges=_ranges(export, tables[RANGES.name], _domains(export, domains), strings),
        names={name: strings.get(name, f"(name {name})") for name in ids},
        gpus=gpus,
        diagnostics=tuple(
            Diagnostic(severity=_whole(severity) or 0, text=_text(text) or "")
            for severity, text in export.rows(DIAGNOSTICS, ("severity", "text"))
        ),
        ranges_repeated=_repeated(tables[RANGES.name], domains),
    )
    missing = _missing(timeline)
    if mixed:
        missing["devices"] = mixed
    if "ranges" in missing and (marks := len(export.rows(RANGES.name, ("start",), where=f"eventType = {MARK_EVENT}"))):
        missing["ranges"] = f"only NVTX marks were recorded, {marks} of them, and a mark has no length"
    if lacking := of_kernels - strings.keys():
        missing["names of kernels"] = _unnamed(kernels.name, lacking, "kernels")
    if lacking := of_calls - strings.keys():
        missing["names of calls"] = _unnamed(calls.name, lacking, "CUDA calls")
    return replace(timeline, missing=missing)


def _column(columns: Columns, name: str, dtype: type[_Scalar]) -> NDArray[_Scalar]:
    """A column as the Timeline wants it; empty where the table has no rows."""
    if not columns:
        return np.empty(0, dtype=dtype)
    return columns[name].astype(dtype, copy=False)


def _memory_kinds(columns: Columns, name: str) -> Bytes8:
    kinds = _column(columns, name, np.int8)
    known = np.array([kind.value for kind in MemoryKind], dtype=np.int8)
    return np.where(np.isin(kinds, known), kinds, np.int8(MemoryKind.UNKNOWN)).astype(np.int8)


def _kernels(columns: Columns) -> Kernels:
    return Kernels(
        start=_column(columns, "start", np.int64),
        end=_column(columns, "end", np.int64),
        device=_column(columns, "device", np.int32),
        process=_column(columns, "process", np.int32),
        correlation=_column(columns, "correlation", np.int64),
        name=_column(columns, "name", np.int32),
        graph_node=_column(columns, "graph_node", np.bool_),
    )


def _copies(columns: Columns) -> Copies:
    return Copies(
        start=_column(columns, "start", np.int64),
        end=_column(columns, "end", np.int64),
        device=_column(columns, "device", np.int32),
        process=_column(columns, "process", np.int32),
        correlation=_column(columns, "correlation", np.int64),
        bytes=_column(columns, "bytes", np.int64),
        kind=_column(columns, "kind", np.int8),
        source=_memory_kinds(columns, "source"),
        target=_memory_kinds(columns, "target"),
        count=np.maximum(_column(columns, "count", np.int64), 1),  # a row is one at least, whatever is told of it
    )


def _spans(columns: Columns) -> Spans:
    return Spans(
        start=_column(columns, "start", np.int64),
        end=_column(columns, "end", np.int64),
        device=_column(columns, "device", np.int32),
        process=_column(columns, "process", np.int32),
        correlation=_column(columns, "correlation", np.int64),
    )


def _calls(columns: Columns) -> Calls:
    return Calls(
        start=_column(columns, "start", np.int64),
        end=_column(columns, "end", np.int64),
        process=_column(columns, "process", np.int32),
        thread=_column(columns, "thread", np.int64),
        correlation=_column(columns, "correlation", np.int64),
        name=_column(columns, "name", np.int32),
    )


def _strings(export: Export, wanted: set[int]) -> dict[int, str]:
    """The texts of these ids: kernels, calls and registered range names. The rest may be large, and secret."""
    if not export.has(STRINGS):
        return {}
    rows = export.connection.execute(f'SELECT id, value FROM "{STRINGS}"')
    return {number: _text(text) or "" for number, text in rows if number in wanted}


def _ranges(
    export: Export, columns: Columns, domains: Mapping[tuple[int, int], str], strings: Mapping[int, str]
) -> Ranges:
    """The ranges; one that was never closed ends with the last moment at which any range begins or ends."""
    closed = _column(columns, "closed", np.bool_)
    start = _column(columns, "start", np.int64)
    end = _column(columns, "end", np.int64)
    if not closed.all():
        end = np.where(closed, end, end[closed].max(initial=start.max()))
    process = _column(columns, "process", np.int32)
    return Ranges(
        start=start,
        end=end,
        process=process,
        thread=_column(columns, "thread", np.int64),
        name=_range_names(export, columns, process, domains, strings),
        push_pop=np.isin(_column(columns, "event", np.int64), PUSH_POP_EVENTS),
        closed=closed,
    )


def _range_names(
    export: Export,
    columns: Columns,
    process: SmallInts,
    domains: Mapping[tuple[int, int], str],
    strings: Mapping[int, str],
) -> Names:
    """`domain:text`, or `text` in the default domain and in one whose name the capture lacks: as nsys itself does."""
    names = np.empty(len(process), dtype=np.object_)
    if not columns:
        return names
    pool: dict[str, str] = {}
    texts = [pool.setdefault(text, text) for text in _range_texts(export, columns, strings)]
    if domains:
        keys = zip(columns["domain"].tolist(), process.tolist(), strict=True)
        texts = [
            text if domain is None else pool.setdefault(f"{domain}:{text}", f"{domain}:{text}")
            for text, domain in zip(texts, map(domains.get, keys), strict=True)
        ]
    names[:] = texts
    return names


def _range_texts(export: Export, columns: Columns, strings: Mapping[int, str]) -> Iterator[str]:
    """A registered string where there is one, else the range's own text, else nothing; in the order of the rows."""
    ids: list[int] = columns["text_id"].tolist()
    if "text" not in export.tables[RANGES.name]:
        yield from (strings.get(number, "") for number in ids)
        return
    which = f"eventType IN ({', '.join(map(str, RANGE_EVENTS))})"
    rows = export.connection.execute(f'SELECT text FROM "{RANGES.name}" WHERE {which} ORDER BY rowid')
    for number, (text,) in zip(ids, rows, strict=True):
        yield strings[number] if number in strings else _text(text) or ""


def _text(value: object) -> str | None:
    """What a text column holds, whatever was put into it."""
    if value is None:
        return None
    return _decoded(value) if isinstance(value, bytes) else str(value)


def _whole(value: object) -> int | None:
    """What a number column of a small table holds; None for what is no whole number."""
    return value if isinstance(value, int) else None


def _device(value: object) -> int | None:
    """The same, of a column that numbers GPUs."""
    number, (least, most) = _whole(value), _LIMITS["device"]
    return number if number is not None and least <= number <= most else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _DomainRow:
    """The creation of an NVTX domain."""

    number: int
    process: int
    thread: int
    """`globalTid`."""
    text: str | None
    text_id: int | None


def _domain_rows(export: Export, index: Mapping[int, int]) -> list[_DomainRow]:
    """The domains that processes with events created, the first to be created first."""
    columns = ("domainId", "globalTid", "text", "textId")
    found: list[_DomainRow] = []
    for row in export.rows(RANGES.name, columns, where=f"eventType = {DOMAIN_EVENT} ORDER BY start"):
        number, thread = _whole(row[0]), _whole(row[1])
        thread = -1 if thread is None else thread
        process = index.get(thread & ~THREAD_MASK)
        if number is not None and process is not None:
            told = _DomainRow(number=number, process=process, thread=thread, text=_text(row[2]), text_id=_whole(row[3]))
            found.append(told)
    return found


def _domains(export: Export, rows: Sequence[_DomainRow]) -> dict[tuple[int, int], str]:
    """Names of the NVTX domains by (domain id, process); the first row that names one counts."""
    registered = _strings(export, {row.text_id for row in rows if row.text_id is not None})
    named: dict[tuple[int, int], str] = {}
    for row in rows:
        if name := registered.get(-1 if row.text_id is None else row.text_id) or row.text:
            named.setdefault((row.number, row.process), name)
    return named


def _repeated(columns: Columns, rows: Sequence[_DomainRow]) -> int:
    """How many ranges nsys's `nvtx_sum` counts too many.

    Its script keeps a row for each thread that created a domain, and joins them to the ranges by domain and process.
    """
    threads: dict[tuple[int, int], set[int]] = {}
    for row in rows:
        threads.setdefault((row.number, row.process), set()).add(row.thread)
    return sum(
        (len(its) - 1) * int(((columns["domain"] == number) & (columns["process"] == process)).sum())
        for (number, process), its in threads.items()
        if columns and len(its) > 1
    )


# --- devices -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Devices:
    """The capture's physical GPUs, and what each process calls them."""

    gpus: dict[int, CapturedGpu] = field(default_factory=dict)
    by_cuda_number: dict[int, int] = field(default_factory=dict)
    by_process: dict[tuple[int, int], int] = field(default_factory=dict)
    """(pid, the process's own number) -> device."""

    def physical(self, pid: int, own: int) -> int:
        found = self.by_process.get((pid, own))
        return self.by_cuda_number.get(own, own) if found is None else found

    def mixed(self, used: Iterable[tuple[int, int, int]]) -> str:
        """Say that it is not known which operations ran on the same GPU; empty where it is.

        `used`: each process by its index, its pid, and its own number of a GPU on which it ran anything.

        Before 2025 an export has the processes' own numbers and nothing else: CUPTI's contexts have the same ones, and
        of the environment only what nsys itself was started with is told, not what each process set.
        """
        on: dict[int, set[int]] = {}
        untold: set[int] = set()
        for process, pid, own in set(used):
            device = self.physical(pid, own)
            on.setdefault(device, set()).add(process)
            if (pid, own) not in self.by_process:
                untold.add(device)
        sharing = {process for device in untold if len(on[device]) > 1 for process in on[device]}
        if not sharing or len(self.gpus) == 1:
            return ""
        return (
            f"the capture does not say which GPU each of its {len(sharing)} processes used: nsys before 2025 has their "
            "own numbers only, which CUDA_VISIBLE_DEVICES may have changed"
        )


def _devices(export: Export) -> _Devices:
    """GPUs are told apart by nsys's GPU id and, within one, by uuid: MIG instances share the id."""
    devices = _Devices()
    for id_, name, uuid, cuda_id in export.rows(GPUS, ("id", "name", "uuid", "cuDevice")):
        number, cuda = _device(id_), _device(cuda_id)
        if number is not None:
            devices.gpus[number] = CapturedGpu(device=number, name=_text(name), uuid=_text(uuid))
            if cuda is not None:
                devices.by_cuda_number.setdefault(cuda, number)
    of_uuid = {_bare(gpu.uuid): number for number, gpu in devices.gpus.items() if gpu.uuid}
    instances: dict[tuple[int | None, str | None], int] = {}
    rows = export.rows(CUDA_DEVICES, ("pid", "cudaId", "gpuId", "uuid"))
    for row in sorted(rows, key=repr):  # any order, as long as it is the same for equal captures
        pid, own, gpu, text = _whole(row[0]), _device(row[1]), _device(row[2]), _text(row[3])
        if pid is None or own is None or (gpu is None and text is None):
            continue
        key = (of_uuid.get(_bare(text)) if gpu is None else gpu, text)
        if key not in instances:
            instances[key] = _number_of(key, instances, devices)
        devices.by_process[pid, own] = instances[key]
    return devices


def _number_of(
    key: tuple[int | None, str | None], instances: Mapping[tuple[int | None, str | None], int], devices: _Devices
) -> int:
    gpu, uuid = key
    taken = {number for (other, its), number in instances.items() if other == gpu and its and uuid and its != uuid}
    number = max([-1, *devices.gpus]) + 1 if gpu is None or taken else gpu
    host = devices.gpus.get(gpu) if gpu is not None else None
    devices.gpus.setdefault(number, CapturedGpu(device=number, name=host.name if host else None, uuid=uuid))
    return number


def _bare(uuid: str | None) -> str:
    return (uuid or "").removeprefix("GPU-").lower()


def _name_devices(
    export: Export, processes: tuple[int, ...], operations: Sequence[Columns]
) -> tuple[tuple[CapturedGpu, ...], str]:
    """Put physical GPUs for the processes' own device numbers, in place; also what `_Devices.mixed` says of them."""
    devices = _devices(export)
    used: Counter[tuple[int, int, int]] = Counter()
    for columns in operations:
        process, device = columns["process"], columns["device"]
        if (process == process[0]).all() and (device == device[0]).all():
            its, own = int(process[0]), int(device[0])
            used[its, processes[its], own] += len(device)
            physical = devices.physical(processes[its], own)
            if physical != own:
                device.fill(physical)
            continue
        pairs, uniques = pd.factorize((process.astype(np.int64) << 32) | (device.astype(np.int64) & 0xFFFFFFFF))
        distinct = list(zip((uniques >> 32).tolist(), uniques.astype(np.int32).tolist(), strict=True))
        for (its, own), number in zip(distinct, np.bincount(pairs).tolist(), strict=True):
            used[its, processes[its], own] += number
        found = [devices.physical(processes[its], own) for its, own in distinct]
        columns["device"] = np.array(found, dtype=np.int32)[pairs]
    of_process: Counter[int] = Counter()
    for (its, _, _), number in used.items():
        of_process[its] += number
    # A context on another GPU, with an operation or two, is no use of it.
    mixed = devices.mixed(one for one, number in used.items() if number > STRAY * of_process[one[0]])
    return tuple(gpu for _, gpu in sorted(devices.gpus.items())), mixed


# --- what is not there -------------------------------------------------------------------------------------------


def _missing(timeline: Timeline) -> dict[str, str]:
    """What was not recorded at all, and why. A capture with kernels and no memset simply has no memset."""
    missing: dict[str, str] = {}
    calls = len(timeline.calls.start)
    if not timeline.gpu_operations:
        what = f"{calls} CUDA calls were recorded, but no GPU operation" if calls else "no CUDA events were recorded"
        missing = dict.fromkeys(("kernels", "copies", "memsets", "graphs"), what + _told_by_nsys(timeline, "CUDA"))
        if not calls:
            missing["calls"] = missing["kernels"]
    elif not calls:
        missing["calls"] = "GPU operations were recorded, but not the CUDA calls that started them"
    if not len(timeline.ranges.start):
        missing["ranges"] = "no NVTX ranges were recorded" + _told_by_nsys(timeline, "NVTX", but=_NOT_OF_RANGES)
    if lost := [note.text for note in timeline.diagnostics if _LOSS.fullmatch(note.text.strip())]:
        missing["records"] = "nsys lost GPU operations or calls" + _quoted(text.strip().rstrip(".") for text in lost)
    return missing


def _unnamed(keys: SmallInts, lacking: set[int], words: str) -> str:
    count = int(np.isin(keys, list(lacking)).sum())
    return f"the names of {count} of {len(keys)} {words} are not in the capture"


_NOT_OF_RANGES: Final = re.compile(r"NVTX function (?!\w*Range)\w+ was called")
"""The nvtx package destroys its domains at its end in a way that nsys warns of, whatever was recorded."""


_LOSS: Final = re.compile("|".join(".*".join(map(re.escape, text.split("%"))) for text in LOSSES), re.DOTALL)
"""SQL's LIKE, of which `%` is the only sign that is used."""


def _told_by_nsys(timeline: Timeline, about: str, *, but: re.Pattern[str] | None = None) -> str:
    """What nsys warned of that names the trace in question, quoted; the first two."""
    return _quoted(
        diagnostic.text.strip()
        for diagnostic in timeline.diagnostics
        if about in diagnostic.text
        and diagnostic.severity in _WARNINGS
        and (but is None or not but.search(diagnostic.text))
    )


def _quoted(told: Iterable[str]) -> str:
    texts = dict.fromkeys(inert(text, longest=LONGEST_TEXT) for text in told)
    return "".join(f': "{text}"' if place == 0 else f', "{text}"' for place, text in enumerate(list(texts)[:2]))
