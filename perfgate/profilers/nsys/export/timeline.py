"""Reads a capture's SQLite export into a Timeline; knows no metric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from perfgate.model.arrays import distinct
from perfgate.model.timeline import NO_NODE, Calls, Copies, Diagnostic, Kernels, Spans, Timeline
from perfgate.profilers.nsys.export.cells import text_of, whole_of
from perfgate.profilers.nsys.export.columns import Columns, column, memory_kinds
from perfgate.profilers.nsys.export.devices import settle_devices
from perfgate.profilers.nsys.export.domains import created_domains, domain_names, ranges_repeated
from perfgate.profilers.nsys.export.lacking import missing_in
from perfgate.profilers.nsys.export.layout import (
    CALLS,
    COPIES,
    DIAGNOSTICS,
    EXPORT_TABLES,
    GRAPHS,
    KERNELS,
    MEMSETS,
    METADATA,
    RANGES,
)
from perfgate.profilers.nsys.export.opening import Export, open_export
from perfgate.profilers.nsys.export.processes import Processes
from perfgate.profilers.nsys.export.ranges import ranges_of
from perfgate.profilers.nsys.export.strings import Strings
from perfgate.profilers.nsys.export.tables import read_tables
from perfgate.profilers.nsys.export.twins import refuse_twins


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


def _timeline(export: Export) -> Timeline:
    numbered = Processes()
    columns = read_tables(export, EXPORT_TABLES, numbered)
    tables = {table.name: columns for table, columns in zip(EXPORT_TABLES, columns, strict=True)}
    for table in (KERNELS, COPIES, MEMSETS, GRAPHS, CALLS):
        refuse_twins(export, table, tables[table.name])
    processes, index = numbered.settle(columns)
    operations = [tables[table.name] for table in (KERNELS, COPIES, MEMSETS, GRAPHS)]
    gpus, ordinals, mixed = settle_devices(
        export, processes, [columns for columns in operations if columns]
    )

    kernels, calls = _kernels(tables[KERNELS.name]), _calls(tables[CALLS.name])
    ids = distinct(np.concatenate((distinct(kernels.name), distinct(calls.name))).astype(np.int64))
    domains = created_domains(export, index)
    registered = [one.text_id for one in domains if one.text_id is not None]
    text_ids = distinct(column(tables[RANGES.name], "text_id", np.int64))
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
        memsets=_spans(tables[MEMSETS.name]),
        graphs=_spans(tables[GRAPHS.name]),
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
        missing=missing_in(export, timeline, mixed=mixed, unnamed=set(ids.tolist()) - names.keys()),
    )


def _kernels(columns: Columns) -> Kernels:
    node = column(columns, "graph_node", np.int64)
    return Kernels(
        start=column(columns, "start", np.int64),
        end=column(columns, "end", np.int64),
        device=column(columns, "device", np.int32),
        process=column(columns, "process", np.int32),
        correlation=column(columns, "correlation", np.int64),
        name=column(columns, "name", np.int32),
        # One number says it of a capture without graphs, which need not take room for each kernel.
        graph_node=node
        if (node != NO_NODE).any()
        else np.broadcast_to(np.int64(NO_NODE), node.shape),
    )


def _copies(columns: Columns) -> Copies:
    return Copies(
        start=column(columns, "start", np.int64),
        end=column(columns, "end", np.int64),
        device=column(columns, "device", np.int32),
        process=column(columns, "process", np.int32),
        correlation=column(columns, "correlation", np.int64),
        bytes=column(columns, "bytes", np.int64),
        kind=column(columns, "kind", np.int8),
        source=memory_kinds(columns, "source"),
        target=memory_kinds(columns, "target"),
        count=np.maximum(
            column(columns, "count", np.int64), 1
        ),  # a row is one at least, whatever is told of it
    )


def _spans(columns: Columns) -> Spans:
    return Spans(
        start=column(columns, "start", np.int64),
        end=column(columns, "end", np.int64),
        device=column(columns, "device", np.int32),
        process=column(columns, "process", np.int32),
        correlation=column(columns, "correlation", np.int64),
    )


def _calls(columns: Columns) -> Calls:
    return Calls(
        start=column(columns, "start", np.int64),
        end=column(columns, "end", np.int64),
        process=column(columns, "process", np.int32),
        thread=column(columns, "thread", np.int64),
        correlation=column(columns, "correlation", np.int64),
        name=column(columns, "name", np.int32),
    )
