"""Reads the number columns of an export's large tables as arrays; knows no meaning of them.

Of many rows they are taken out of the file's pages where that is possible, else sqlite3 reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfgate.model.arrays import constant, distinct, is_constant
from perfgate.model.timeline import (
    Calls,
    Copies,
    EventRecords,
    Ints,
    Kernels,
    Memsets,
    Spans,
    Waits,
)
from perfgate.profilers.nsys.export.file import Export
from perfgate.profilers.nsys.export.layout import (
    PROCESS_SHIFT,
    THREAD_MASK,
    UNKNOWN_PROCESS,
    ExportTable,
)
from perfgate.profilers.nsys.export.pages import Pages, Unusual

Columns = dict[str, NDArray[Any]]
"""By field, as long as one another."""

UNKNOWN_PID: Final = 0
FARTHEST_NS: Final = 2**61
"""Times are ns since the capture's start or, normalised, since 1970: no further from 0 than 73
years."""
LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "start": (-FARTHEST_NS, FARTHEST_NS),
    "bytes": (0, 2**63 - 1),
    "device": (0, 2**31 - 1),
    "name": (-(2**31), 2**31 - 1),
    "kind": (-(2**7), 2**7 - 1),
    "source": (-(2**7), 2**7 - 1),
    "target": (-(2**7), 2**7 - 1),
    "count": (0, 2**31 - 1),
}
"""The least and the most that a column may hold."""
_DTYPES: Final[Mapping[str, type[np.generic]]] = {
    "process": np.int32,
    "device": np.int32,
    "stream": np.int32,
    "name": np.int32,
    "kind": np.int8,
    "source": np.int8,
    "target": np.int8,
}
"""Of what is no int64. A stream of 2^32 - 1, which is none, becomes NO_STREAM so."""

FEW_ROWS: Final = 500
"""Rows of a table up to which sqlite3 is as fast."""
_READERS: Final = min(8, os.cpu_count() or 1)
_ROWS: Final = 50_000
"""Rows that sqlite3 hands over together."""
_Record = TypeVar("_Record", Spans, Kernels, Copies, Memsets, Waits, EventRecords, Calls)


def record(kind: type[_Record], columns: Columns) -> _Record:
    """A table's columns as a record of arrays."""
    return kind(**{one.name: columns[one.name] for one in fields(kind)})


def read_table(export: Export, table: ExportTable) -> Columns:
    """The rows of a table in the order of their ids; `process` is a `globalPid` still."""
    found: Columns = {}
    if export.has(table.name):
        for one in table.columns:
            if one.default is None:
                export.require(table.name, one.source)
        try:
            found = _from_pages(export, table)
        except Unusual:
            parts = _from_sqlite(export, table)
            found = joined(parts, sum(len(part["process"]) for part in parts))
    nothing = {one.field: np.empty(0, np.int64) for one in table.columns}
    return found or _checked(export, table, nothing)


def joined(parts: Iterable[Columns], most: int) -> Columns:
    """Parts of a table, of so many rows at most, as one; what is the same everywhere takes no room.

    Each part is let go of as soon as it stands in the whole.
    """
    whole: Columns = {}
    filled = 0
    for part in parts:
        if not (size := len(part["process"])):
            continue
        if filled + size > most:
            raise Unusual
        for name, values in part.items():
            so_far = whole.setdefault(name, constant(values[0], most))
            if so_far.strides == (0,) and not (is_constant(values) and values[0] == so_far[0]):
                whole[name] = np.empty(most, values.dtype)
                whole[name][:filled] = so_far[:filled]
            if whole[name].strides != (0,):
                whole[name][filled : filled + size] = values
        filled += size
    return {name: values[:filled] for name, values in whole.items()}


def number_processes(tables: Sequence[Columns]) -> tuple[tuple[int, ...], dict[int, int]]:
    """Number the processes of all tables in the order of their `globalPid`s, in place.

    Returns their pids, and the number of each `globalPid`. Rows without one belong to the only
    process, or to one with pid 0 where there are several or none.
    """
    known = distinct(np.concatenate([distinct(columns["process"]) for columns in tables])).tolist()
    named = [key for key in known if key != UNKNOWN_PROCESS]
    index = {key: number for number, key in enumerate(named)}
    pids = [(key >> PROCESS_SHIFT) & THREAD_MASK for key in named]
    if UNKNOWN_PROCESS in known:
        index[UNKNOWN_PROCESS] = 0 if len(named) == 1 else len(named)
        if len(named) != 1:
            pids.append(UNKNOWN_PID)
    numbers = np.array([index[key] for key in known], np.int32)
    for columns in tables:
        keys = columns["process"]
        one_is_all = len(keys) and keys.strides == (0,)  # which takes no room
        found = numbers[np.searchsorted(known, keys[:1] if one_is_all else keys)]
        columns["process"] = constant(found[0], len(keys)) if one_is_all else found
    return tuple(pids), index


def _from_pages(export: Export, table: ExportTable) -> Columns:
    name = table.name
    ((root,),) = export.connection.execute(
        f"SELECT rootpage FROM sqlite_master WHERE name = '{name}'"
    )
    if [*export.connection.execute(f"SELECT 1 FROM pragma_table_info('{name}') WHERE pk")]:
        raise Unusual  # a column is the row id
    ((last,),) = export.connection.execute(f"SELECT max(rowid) FROM {name}")
    most = int(last or 0)
    if most <= FEW_ROWS:
        raise Unusual
    with export.path.open("rb", 0) as file, ThreadPoolExecutor(_READERS) as readers:
        pages = Pages(file.fileno())
        leaves = pages.leaves(int(root))
        # Each row takes a pointer of two bytes at least.
        if most > sum(map(len, leaves)) * pages.size // 2:
            raise Unusual
        return joined(readers.map(partial(_part, export, table, pages), leaves), most)


def _part(export: Export, table: ExportTable, pages: Pages, leaves: Ints) -> Columns:
    """The rows of some leaves."""
    has = export.tables[table.name]
    places = {one: has.index(one.source) for one in table.columns if one.source in has}
    found = pages.numbers(leaves, list(places.values()))
    size = len(next(iter(found.values()))[0])
    columns: Columns = {}
    for one in table.columns:
        if one not in places:
            columns[one.field] = constant(np.int64(one.default or 0), size)
            continue
        values, is_null = found[places[one]]
        if is_null.any():
            if one.default is None:
                raise Unusual
            values = np.where(is_null, one.default, values)
        columns[one.field] = values
    if table.only:
        rows = np.isin(columns["event"], table.only)
        columns = {name: values[rows] for name, values in columns.items()}
    return _checked(export, table, columns)


def _from_sqlite(export: Export, table: ExportTable) -> list[Columns]:
    chosen = []
    for one in table.columns:
        there = f'"{one.source}"' if export.has(table.name, one.source) else "NULL"
        default = "NULL" if one.default is None else one.default
        chosen.append(f"coalesce({there}, {default})")
    sql = f'SELECT {", ".join(chosen)} FROM "{table.name}"'
    if table.only:
        sql += f" WHERE {chosen[0]} IN ({', '.join(map(str, table.only))})"
    cursor = export.connection.execute(sql)
    parts: list[Columns] = []
    while rows := cursor.fetchmany(_ROWS):
        columns: Columns = {}
        for one, values in zip(table.columns, zip(*rows, strict=True), strict=True):
            if (kinds := set(map(type, values))) != {int}:
                what = "nothing" if kinds <= {int, type(None)} else "what is no whole number"
                raise export.impossible(table.name, one.field, what)
            columns[one.field] = np.array(values, np.int64)
        parts.append(_checked(export, table, columns))
    return parts


def _checked(export: Export, table: ExportTable, columns: Columns) -> Columns:
    """Columns in dtypes that hold what they may hold. Raises for numbers that no nsys writes."""
    for name in columns.keys() & LIMITS.keys():
        least, most = LIMITS[name]
        for found in (int(columns[name].min(initial=most)), int(columns[name].max(initial=least))):
            if not least <= found <= most:
                raise export.impossible(table.name, name, found)
    for one in table.columns:
        if one.field == "end":
            end = columns["end"]
            wrong = (end < columns["start"]) | (end > FARTHEST_NS)
            if one.default is not None:
                wrong &= end != one.default
            if wrong.any():
                raise export.impossible(table.name, "end", int(end[wrong][0]))
    if "thread" in columns:
        columns["process"] = columns["thread"] & ~THREAD_MASK
        columns["thread"] = columns["thread"] & THREAD_MASK
    return {
        name: values
        if name == "process"
        else values.astype(_DTYPES.get(name, np.int64), copy=False)
        for name, values in columns.items()
    }
