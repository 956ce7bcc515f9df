"""Reads the number columns of an export's large tables, several parts at the same time; knows no meaning of them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

import connectorx
import numpy as np
import pandas as pd

from perfgate.model.errors import CaptureUnreadable
from perfgate.model.spelling import LONGEST_TEXT, inert
from perfgate.model.timeline import Ints
from perfgate.nsys.export.columns import Columns, refuse_impossible, room
from perfgate.nsys.export.layout import THREAD_MASK, ExportColumn, ExportTable
from perfgate.nsys.export.opening import Export, read_only_uri
from perfgate.nsys.export.processes import Processes
from perfgate.nsys.export.refusing import damaged, without_column

_ROWS_AT_ONCE: Final = 1 << 18
"""Rows a thread holds in connectorx's wide form; bounds the memory above the arrays themselves."""
_READERS: Final = min(8, os.cpu_count() or 1)
_LEAST_ROW_BYTES: Final = 4
"""A row of the tables read here takes more in the file. Row ids that promise more rows than fit have holes."""
_PANIC: Final = ("pyo3_runtime", "PanicException")
"""Module and name of what connectorx raises where its Rust gives up. It is no Exception, and no module holds it."""
_FILTERS: Final = Lock()
"""Held while the filters of warnings are changed: two threads that read at once would put back each other's."""


def read_whole(export: Export, tables: Sequence[ExportTable], processes: Processes) -> list[Columns]:
    """The rows of each table that are read of it at all; no columns where there are none."""
    return _read(((table, _parts(export, table)) for table in tables), processes)


def read_matching(export: Export, wanted: Sequence[tuple[ExportTable, str]], processes: Processes) -> list[Columns]:
    """The rows of each table for which the SQL beside it is true; no columns where there are none."""
    return _read(((table, _parts_where(export, table, where)) for table, where in wanted), processes)


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

    def read(self, processes: Processes, into: Columns) -> slice:
        """Fill `into` from `at` on, in its dtypes, and say which of its rows that were."""
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
        refuse_impossible(self.export.path, self.table.name, columns)
        if "thread" in columns:
            columns["process"] = columns["thread"] & ~THREAD_MASK
            columns["thread"] = columns["thread"] & THREAD_MASK
        columns["process"] = processes.numbered(columns["process"])
        for name, values in columns.items():
            into[name][rows] = values
        return rows

    def _unreadable(self, error: BaseException) -> CaptureUnreadable:
        told = inert(str(error), longest=LONGEST_TEXT)
        return damaged(self.export.path, f"{self.table.name} cannot be read: {told}")

    def _integers(self, series: pd.Series[Any]) -> Ints:
        if not pd.api.types.is_integer_dtype(series.dtype):
            raise damaged(self.export.path, f"{self.table.name} has other values than whole numbers as {series.name}")
        if series.hasnans:
            raise damaged(self.export.path, f"{self.table.name} has rows without a {series.name}")
        return series.to_numpy(dtype=np.int64)


def _read(reading: Iterable[tuple[ExportTable, list[_Part]]], processes: Processes) -> list[Columns]:
    """Tables in their order; the parts of one are sought while those of the ones before it are read."""
    begun: list[tuple[Columns, list[Future[slice]]]] = []
    with (
        _FILTERS,
        warnings.catch_warnings(),
        ThreadPoolExecutor(_READERS, thread_name_prefix="perfgate-read") as readers,
    ):
        # connectorx 0.4 builds its frames in a way that pandas 3 warns of; here, since filters are of all threads
        warnings.filterwarnings("ignore", message="make_block is deprecated", category=DeprecationWarning)
        try:
            for table, parts in reading:
                columns = room(table, sum(part.room for part in parts))
                begun.append((columns, [readers.submit(part.read, processes, columns) for part in parts]))
            return [_filled(columns, parts) for columns, parts in begun]
        finally:
            readers.shutdown(cancel_futures=True)


def _filled(columns: Columns, parts: Sequence[Future[slice]]) -> Columns:
    """The rows that were read, without the room that stayed empty; no columns at all where there are none."""
    rows = [part.result() for part in parts]
    count = sum(part.stop - part.start for part in rows)
    if not count:
        return {}
    if count == len(columns["start"]):
        return columns
    return {name: np.concatenate([values[part] for part in rows]) for name, values in columns.items()}


def _parts(export: Export, table: ExportTable) -> list[_Part]:
    """All rows of a table that are read of it, in parts."""
    if not export.has(table.name):
        return []
    selected = _select(export, table)
    # one query each: SQLite finds the first or the last row at once, but both together by reading them all
    ((first,),) = export.query(f'SELECT min(rowid) FROM "{table.name}"')
    ((last,),) = export.query(f'SELECT max(rowid) FROM "{table.name}"')
    if first is None:
        return []
    count = None
    if _has_holes(export, first, last):
        ((count,),) = export.query(f'SELECT count(*) FROM "{table.name}"')
    return _split(export, table, selected, (first, last), where=table.which, count=count)


def _parts_where(export: Export, table: ExportTable, where: str) -> list[_Part]:
    """From the first row wanted to the last: connectorx passes through what it is given up to three times.

    nsys writes rows nearly in order of time, so that a short window is a small part of each table.
    """
    if not export.has(table.name):
        return []
    selected = _select(export, table)
    ((first, last, count),) = export.query(f'SELECT min(rowid), max(rowid), count(*) FROM "{table.name}" WHERE {where}')
    if not count:
        return []
    holes = _has_holes(export, first, last)
    return _split(export, table, selected, (first, last), where=where, count=count if holes else None)


def _split(
    export: Export,
    table: ExportTable,
    selected: tuple[str, tuple[ExportColumn, ...]],
    ids: tuple[int, int],
    *,
    where: str,
    count: int | None,
) -> list[_Part]:
    """The rows between two ids in parts of `_ROWS_AT_ONCE` of them, or in one of `count` rows where ids have holes.

    nsys numbers rows from 1 without holes; others may have cut some.
    """
    (select, lacking), (first, last) = selected, ids
    if count is not None:
        places = [(first, last, count)]
    else:
        begins = range(first, last + 1, _ROWS_AT_ONCE)
        ends = ((begin, min(begin + _ROWS_AT_ONCE - 1, last)) for begin in begins)
        places = [(begin, end, end - begin + 1) for begin, end in ends]
    return [
        _Part(
            export=export,
            table=table,
            select=select,
            lacking=lacking,
            where=f"rowid BETWEEN {begin} AND {end} AND ({where})",
            at=begin - first,
            room=rows,
        )
        for begin, end, rows in places
    ]


def _has_holes(export: Export, first: int, last: int) -> bool:
    """Whether the file has no room for as many rows as there are ids: parts of them could be without number."""
    return last - first > export.path.stat().st_size // _LEAST_ROW_BYTES


def _select(export: Export, table: ExportTable) -> tuple[str, tuple[ExportColumn, ...]]:
    """What to select of a table, and the columns that it lacks and that have a default."""
    has = export.tables[table.name]
    if any(name.lower() == "rowid" for name in has):
        raise damaged(export.path, f"{table.name} has a column called rowid, which no nsys writes")
    select: list[str] = []
    lacking: list[ExportColumn] = []
    for column in table.columns:
        there = [source for source in column.sources if source in has]
        if not there and column.default is None and not column.flag:
            raise without_column(export.path, table.name, " or ".join(column.sources), list(has))
        if not there:
            lacking.append(column)
        elif column.flag:
            select.append(f'"{there[0]}" IS NOT NULL AS "{column.field}"')
        elif has[there[0]] or (len(there) == 1 and column.default is None):
            select.append(f'"{there[0]}" AS "{column.field}"')
        else:
            tried = [f'"{source}"' for source in there] + ([] if column.default is None else [str(column.default)])
            select.append(f'coalesce({", ".join(tried)}) AS "{column.field}"')
    return ", ".join(select), tuple(lacking)
