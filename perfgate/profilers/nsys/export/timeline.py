"""Reads a capture's SQLite export into a Timeline; knows no metric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from perfgate.model.arrays import constant, distinct
from perfgate.model.timeline import (
    NO_NODE,
    Calls,
    Copies,
    Diagnostic,
    EventRecords,
    Kernels,
    MemoryKind,
    Memsets,
    Spans,
    Timeline,
    Waits,
)
from perfgate.profilers.nsys.export.cells import text_of, whole_of
from perfgate.profilers.nsys.export.columns import Columns, column, record
from perfgate.profilers.nsys.export.devices import settle_devices
from perfgate.profilers.nsys.export.domains import created_domains, domain_names, ranges_repeated
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
    WAITS,
)
from perfgate.profilers.nsys.export.opening import Export, open_export
from perfgate.profilers.nsys.export.processes import Processes
from perfgate.profilers.nsys.export.ranges import ranges_of
from perfgate.profilers.nsys.export.strings import Strings
from perfgate.profilers.nsys.export.tables import read_tables


def read_timeline(path: Path) -> Timeline:
    """Read everything perfgate measures from the SQLite export at `path`.

    The file is opened read-only and immutable: it is not changed, and no file is created beside it.

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
    numbered = Processes()
    columns = read_tables(export, EXPORT_TABLES, numbered)
    tables = {table.name: columns for table, columns in zip(EXPORT_TABLES, columns, strict=True)}
    processes, index = numbered.settle(columns)
    gpus, ordinals, mixed = settle_devices(
        export,
        processes,
        [tables[table.name] for table in OPERATIONS],
        others=[tables[WAITS.name], tables[EVENT_RECORDS.name]],
    )

    kernels, calls = _kernels(tables[KERNELS.name]), record(Calls, tables[CALLS.name])
    ids = distinct(np.concatenate((distinct(kernels.name), distinct(calls.name))).astype(np.int64))
    domains = created_domains(export, index)
    registered = [one.text_id for one in domains if one.text_id is not None]
    text_ids = distinct(column(tables[RANGES.name], "text_id"))
    strings = Strings.of(
        export, distinct(np.concatenate((ids, text_ids, np.array(registered, np.int64))))
    )
    names = strings.named(ids)
    repeated = ranges_repeated(export, domains, index)
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
        ranges=ranges_of(
            export, tables[RANGES.name], strings, domain_names(strings, domains), index
        ),
        names={name: names.get(name, f"(name {name})") for name in ids.tolist()},
        gpus=gpus,
        ordinals=ordinals,
        diagnostics=tuple(
            Diagnostic(severity=whole_of(severity) or 0, text=text_of(text) or "")
            for severity, text in export.rows(DIAGNOSTICS, ("severity", "text"))
        ),
        ranges_repeated=repeated,
    )
    return replace(
        timeline,
        missing=missing_in(export, timeline, unnamed=set(ids.tolist()) - names.keys())
        | ({"devices": mixed} if mixed is not None else {}),
    )


def _kernels(columns: Columns) -> Kernels:
    kernels = record(Kernels, columns)
    if (kernels.graph_node != NO_NODE).any():
        return kernels
    # One number says it of a capture without graphs, which need not take room for each kernel.
    return replace(kernels, graph_node=constant(np.int64(NO_NODE), len(kernels.start)))


def _copies(columns: Columns) -> Copies:
    """Memory kinds that perfgate does not know are UNKNOWN; a row is one copy at least."""
    copies = record(Copies, columns)
    known = [kind.value for kind in MemoryKind]
    source, target = (
        np.where(np.isin(kinds, known), kinds, np.int8(MemoryKind.UNKNOWN))
        for kinds in (copies.source, copies.target)
    )
    return replace(copies, source=source, target=target, count=np.maximum(copies.count, 1))
