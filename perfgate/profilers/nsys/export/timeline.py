"""Reads a capture's SQLite export into a Timeline; knows no metric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from perfgate.model.arrays import distinct
from perfgate.model.timeline import (
    Calls,
    Copies,
    Diagnostic,
    EventRecords,
    Ints,
    Kernels,
    MemoryKind,
    Memsets,
    Spans,
    Timeline,
    Waits,
)
from perfgate.profilers.nsys.export.devices import DeviceTable
from perfgate.profilers.nsys.export.file import Export, open_export, text_of, whole_of
from perfgate.profilers.nsys.export.lacking import missing_in
from perfgate.profilers.nsys.export.layout import (
    CALLS,
    COPIES,
    DIAGNOSTICS,
    EVENT_RECORDS,
    EXPORT_TABLES,
    GRAPHS,
    KERNELS,
    MEMSETS,
    METADATA,
    OPERATIONS,
    RANGES,
    STRINGS,
    WAITS,
)
from perfgate.profilers.nsys.export.ranges import marks, read_ranges
from perfgate.profilers.nsys.export.tables import Columns, number_processes, read_table, record


def read_timeline(path: Path) -> Timeline:
    """Read everything perfgate measures from the SQLite export at `path`.

    The file is opened read-only and immutable: it is not changed, and none is made next to it.

    - A table that is absent is an empty one: nsys writes no empty tables. What that means is in
      `Timeline.missing`.
    - A process is a `globalPid`, so equal pids of two machines stay two. Rows without one (NULL, or
      exports so old that they have no such column) belong to the capture's only process, or to one
      with pid 0 where it has several or none.
    - A device is a physical GPU. Processes count their own from 0 (CUDA_VISIBLE_DEVICES), so their
      numbers are translated by TARGET_INFO_CUDA_DEVICE (in exports of 2025 and newer); else by
      TARGET_INFO_GPU's CUDA number; else they are taken as they stand. Without that first table
      equal numbers of several processes are taken for the same GPU, and `Timeline.missing` says so
      under `devices` unless there is but one.
    - A kernel or call whose name is not in StringIds is called `(name 123)`.

    Raises CaptureUnreadable for what is no export, or a damaged one, and for values that no nsys
    writes (text in a number column, an end before its start); LayoutUnknown for an export of nsys
    whose columns perfgate does not know.
    """
    with open_export(path) as export:
        return _timeline(export)


def _timeline(export: Export) -> Timeline:
    tables = {table.name: read_table(export, table) for table in EXPORT_TABLES}
    processes, index = number_processes(list(tables.values()))
    devices = DeviceTable(export, processes)
    for table in (*OPERATIONS, WAITS, EVENT_RECORDS):
        devices.translate(tables[table.name], is_use=table in OPERATIONS)
    kernels, calls = record(Kernels, tables[KERNELS.name]), record(Calls, tables[CALLS.name])
    ids = distinct(np.concatenate((distinct(kernels.name), distinct(calls.name))).astype(np.int64))
    names = _strings(export, ids)
    ranges, repeated = read_ranges(export, tables[RANGES.name], index)
    meta = {
        name: text_of(value)
        for table in METADATA
        for name, value in export.rows(table, ("name", "value"))
    }
    timeline = Timeline(
        source=export.path.name,
        nsys_version=meta.get("EXPORT_PRODUCT_VERSION"),
        schema_version=meta.get("EXPORT_SCHEMA_VERSION"),
        processes=processes,
        kernels=kernels,
        copies=_copies(tables[COPIES.name]),
        memsets=record(Memsets, tables[MEMSETS.name]),
        graphs=record(Spans, tables[GRAPHS.name]),
        waits=record(Waits, tables[WAITS.name]),
        event_records=record(EventRecords, tables[EVENT_RECORDS.name]),
        calls=calls,
        ranges=ranges,
        names={name: names.get(name, f"(name {name})") for name in ids.tolist()},
        gpus=devices.gpus,
        ordinals=devices.ordinals(),
        diagnostics=tuple(
            Diagnostic(severity=whole_of(severity) or 0, text=text_of(text) or "")
            for severity, text in export.rows(DIAGNOSTICS, ("severity", "text"))
        ),
        ranges_repeated=repeated,
    )
    missing = missing_in(timeline, marks=marks(export), unnamed=set(ids.tolist()) - names.keys())
    if (mixed := devices.mixed()) is not None:
        missing["devices"] = mixed
    return replace(timeline, missing=missing)


def _strings(export: Export, ids: Ints) -> dict[int, str]:
    """Some strings of an export. The rest may be large, and secret."""
    if not export.has(STRINGS):
        return {}
    for name in ("id", "value"):
        export.require(STRINGS, name)
    wanted = ", ".join(map(str, ids.tolist()))
    found = export.query(f"SELECT id, value FROM {STRINGS} WHERE id IN ({wanted})")
    return {number: text_of(text) or "" for number, text in found}


def _copies(columns: Columns) -> Copies:
    """Memory kinds that perfgate does not know are UNKNOWN; a row is one copy at least."""
    copies = record(Copies, columns)
    known = [kind.value for kind in MemoryKind]
    source, target = (
        np.where(np.isin(kinds, known), kinds, np.int8(MemoryKind.UNKNOWN))
        for kinds in (copies.source, copies.target)
    )
    return replace(copies, source=source, target=target, count=np.maximum(copies.count, 1))
