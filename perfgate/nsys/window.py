"""Reads the GPU operations of a moment of a capture, with their streams, from its SQLite export; knows no step."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from perfgate.model.timeline import CopyKind, Flags, Ints
from perfgate.model.window import NO_STREAM, StreamCopies, StreamKernels, StreamMemsets, StreamSpans, WindowOps
from perfgate.nsys.layouts import (
    CALLS,
    COPIES,
    EXPORT_TABLES,
    GRAPHS,
    KERNELS,
    MEMSETS,
    NO_CORRELATION,
    RANGE_EVENTS,
    RANGES,
    THREAD_MASK,
    UNKNOWN_PROCESS,
    ExportColumn,
    ExportTable,
)
from perfgate.nsys.sqlite import (
    _FILTERS,
    _LEAST_ROW_BYTES,
    _READERS,
    _ROWS_AT_ONCE,
    Columns,
    Export,
    _column,
    _damaged,
    _filled,
    _memory_kinds,
    _name_devices,
    _Part,
    _Processes,
    _room,
    _sql,
    _strings,
    open_export,
)

_STREAM = ExportColumn(field="stream", sources=("streamId",), default=NO_STREAM)
_OPERATIONS = (
    ExportTable(name=KERNELS.name, columns=(*KERNELS.columns, _STREAM)),
    ExportTable(name=COPIES.name, columns=(*COPIES.columns, _STREAM)),
    ExportTable(
        name=MEMSETS.name,
        columns=(*MEMSETS.columns, _STREAM, ExportColumn(field="bytes", sources=("bytes",), default=0)),
    ),
    ExportTable(name=GRAPHS.name, columns=(*GRAPHS.columns, _STREAM)),
)
_CALLS = ExportTable(name=CALLS.name, columns=tuple(column for column in CALLS.columns if column.field != "name"))
_SHARE_AN_ID = 2
"""Calls that may have one id: a runtime call and the driver call in it. If more have 0, it stands for none."""
_MOVED_ALONE = (CopyKind.UVM_H2D, CopyKind.UVM_D2H, CopyKind.UVM_D2D)
"""Managed memory moves by page fault: no call launches it, whatever its correlation says."""


def read_window(path: Path, start_ns: int, end_ns: int) -> WindowOps:
    """Read the operations that ran in [start_ns, end_ns) or were launched in it, of every process, with their streams.

    ```
    window             [----------------------)
    call       ^a ^b      ^c  ^d           ^e
    operation  |a| |--b--|  |c|  |----d-------|  |--e--|        all but a
    ```
    An operation without length runs where it starts, and a window without length is that moment. Of several calls with
    one correlation id (a runtime call and the driver call in it) the first launched it. Each table is passed through
    once, and the columns that tell processes once more, so that processes and devices are numbered as `read_timeline`
    numbers them.

    The file is opened read-only and immutable. Raises as `read_timeline` does, for the rows in the window; ValueError
    for a window that ends before it starts.
    """
    if end_ns < start_ns:
        raise ValueError(f"the window ends at {end_ns} ns, before it starts at {start_ns} ns")
    with open_export(path) as export:
        return _window(export, start_ns, end_ns)


def _window(export: Export, start_ns: int, end_ns: int) -> WindowOps:
    numbered = _Processes()
    # A driver call may begin in the window while the runtime call around it began before.
    (calls,) = _read(export, [(_CALLS, f'"start" < {end_ns} AND "end" >= {start_ns}')], numbered)
    launched = _Launched.from_calls(calls, start_ns)
    found = _read(
        export, [(table, _where(export, table, start_ns, end_ns, launched)) for table in _OPERATIONS], numbered
    )
    chosen = [_chosen(columns, start_ns, end_ns, launched) for columns in found]
    for key in _global_pids(export):
        numbered.codes.setdefault(key, len(numbered.codes))
    processes, index = numbered.settled()
    order = np.array([index[key] for key in numbered.codes], dtype=np.int32)
    for columns in chosen:
        if columns:
            columns["process"] = order[columns["process"]]
    _name_devices(export, processes, [columns for columns in chosen if columns])

    kernels, copies, memsets, graphs = chosen
    names = _column(kernels, "name", np.int32)
    ids = set(pd.unique(names).tolist())
    strings = _strings(export, ids) if ids else {}
    return WindowOps(
        source=export.path.name,
        start_ns=start_ns,
        end_ns=end_ns,
        processes=processes,
        kernels=StreamKernels(**_spans(kernels), name=names, graph_node=_column(kernels, "graph_node", np.bool_)),
        copies=StreamCopies(
            **_spans(copies),
            bytes=_column(copies, "bytes", np.int64),
            kind=_column(copies, "kind", np.int8),
            source=_memory_kinds(copies, "source"),
            target=_memory_kinds(copies, "target"),
        ),
        memsets=StreamMemsets(**_spans(memsets), bytes=_column(memsets, "bytes", np.int64)),
        graphs=StreamSpans(**_spans(graphs)),
        names={name: strings.get(name, f"(name {name})") for name in ids},
    )


def _spans(columns: Columns) -> Columns:
    return {
        "start": _column(columns, "start", np.int64),
        "end": _column(columns, "end", np.int64),
        "device": _column(columns, "device", np.int32),
        "process": _column(columns, "process", np.int32),
        "stream": _column(columns, "stream", np.int64),
        "correlation": _column(columns, "correlation", np.int64),
    }


def _read(export: Export, wanted: Sequence[tuple[ExportTable, str]], processes: _Processes) -> list[Columns]:
    """The rows of each table for which its SQL is true; no columns where there are none."""
    with (
        _FILTERS,
        warnings.catch_warnings(),
        ThreadPoolExecutor(_READERS, thread_name_prefix="perfgate-read") as readers,
    ):
        warnings.filterwarnings("ignore", message="make_block is deprecated", category=DeprecationWarning)
        try:
            reading = []
            for table, where in wanted:
                parts = _parts_of(export, table, where)
                columns = _room(table, sum(part.room for part in parts))
                reading.append((columns, [readers.submit(part.read, processes, columns) for part in parts]))
            return [_filled(columns, parts) for columns, parts in reading]
        finally:
            readers.shutdown(cancel_futures=True)


def _parts_of(export: Export, table: ExportTable, where: str) -> list[_Part]:
    """From the first row wanted to the last: connectorx passes through what it is given up to three times.

    nsys writes rows nearly in order of time, so that a short window is a small part of each table.
    """
    if not export.has(table.name):
        return []
    select, lacking = _sql(export, table)
    ((first, last, count),) = export.query(f'SELECT min(rowid), max(rowid), count(*) FROM "{table.name}" WHERE {where}')
    if not count:
        return []
    places = [(begin, min(_ROWS_AT_ONCE, last + 1 - begin)) for begin in range(first, last + 1, _ROWS_AT_ONCE)]
    if last - first > export.path.stat().st_size // _LEAST_ROW_BYTES:
        places = [(first, count)]
    return [
        _Part(
            export=export,
            table=table,
            select=", ".join(select),
            lacking=tuple(lacking),
            where=f"rowid BETWEEN {begin} AND {last if len(places) == 1 else begin + room - 1} AND ({where})",
            at=begin - first,
            room=room,
        )
        for begin, room in places
    ]


@dataclass(frozen=True, slots=True)
class _Launched:
    """What was launched in the window: correlation ids in order, by process as `_Processes` first numbers it."""

    ids: dict[int, Ints]

    @classmethod
    def from_calls(cls, calls: Columns, start_ns: int) -> _Launched:
        """Of the calls that began before the window's end and had not ended before its start."""
        if not calls:
            return cls({})
        start, process, correlation = calls["start"], calls["process"], calls["correlation"]
        named = correlation != NO_CORRELATION
        if np.count_nonzero(correlation == 0) > _SHARE_AN_ID:
            named &= correlation != 0
        before, within = named & (start < start_ns), named & (start >= start_ns)
        found: dict[int, Ints] = {}
        for one in np.flatnonzero(np.bincount(process[within])).tolist():
            own = process == one
            ids = np.sort(correlation[within & own], kind="stable")
            found[one] = ids[~np.isin(ids, correlation[before & own])]
        return cls(found)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest id; None where nothing was launched."""
        some = [ids for ids in self.ids.values() if len(ids)]
        return (min(int(ids[0]) for ids in some), max(int(ids[-1]) for ids in some)) if some else None

    def holds(self, process: Ints, correlation: Ints) -> Flags:
        """Which operations were launched in the window."""
        found = np.zeros(len(correlation), np.bool_)
        for one, ids in self.ids.items():
            here = np.flatnonzero(process == one)
            found[here] = np.isin(correlation[here], ids)
        return found


def _where(export: Export, table: ExportTable, start_ns: int, end_ns: int, launched: _Launched) -> str:
    """SQL for what may be in the window: all that runs in it, and ids between the first and last launched in it."""
    runs = f'("start" < {end_ns} AND ("end" > {start_ns} OR "start" >= {start_ns}))'
    bounds = launched.bounds
    if bounds is None or "correlationId" not in export.tables.get(table.name, {}):
        return runs
    return f'{runs} OR "correlationId" BETWEEN {bounds[0]} AND {bounds[1]}'


def _chosen(columns: Columns, start_ns: int, end_ns: int, launched: _Launched) -> Columns:
    if not columns:
        return columns
    start, end = columns["start"], columns["end"]
    inside = (start < end_ns) & ((end > start_ns) | (start >= start_ns))
    by_call = launched.holds(columns["process"], columns["correlation"])
    if "kind" in columns:
        by_call &= ~np.isin(columns["kind"], _MOVED_ALONE)
    inside |= by_call
    if inside.all():
        return columns
    return {name: values[inside] for name, values in columns.items()} if inside.any() else {}


def _global_pids(export: Export) -> set[int]:
    """Every process of the capture, as `read_timeline` meets them."""
    found: set[int] = set()
    for table in EXPORT_TABLES:
        if not export.has(table.name):
            continue
        column = "globalTid" if any(column.field == "thread" for column in table.columns) else "globalPid"
        where = f"eventType IN ({', '.join(map(str, RANGE_EVENTS))})" if table is RANGES else "1"
        told = f'"{column}"' if column in export.tables[table.name] else "NULL"
        for (value,) in export.query(f'SELECT DISTINCT {told} FROM "{table.name}" WHERE {where}'):
            if value is not None and not isinstance(value, int):
                raise _damaged(export.path, f"{table.name} has other values than whole numbers as {column}")
            known = UNKNOWN_PROCESS if value is None else value
            found.add(known & ~THREAD_MASK if column == "globalTid" else known)
    return found
