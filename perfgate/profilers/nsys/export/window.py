"""Reads the GPU operations of a moment of a capture, with their streams, from its SQLite export; knows no step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from perfgate.model.arrays import distinct
from perfgate.model.timeline import (
    MANAGED_COPIES,
    NO_CORRELATION,
    NO_NODE,
    SHARE_AN_ID,
    Flags,
    Ints,
)
from perfgate.model.window import (
    NO_STREAM,
    StreamCopies,
    StreamKernels,
    StreamMemsets,
    StreamSpans,
    WindowOps,
)
from perfgate.profilers.nsys.export.columns import Columns, column, memory_kinds
from perfgate.profilers.nsys.export.devices import settle_devices
from perfgate.profilers.nsys.export.layout import (
    CALLS,
    COPIES,
    GRAPHS,
    KERNELS,
    MEMSETS,
    RANGES,
    ExportColumn,
    ExportTable,
)
from perfgate.profilers.nsys.export.opening import Export, open_export
from perfgate.profilers.nsys.export.processes import Processes
from perfgate.profilers.nsys.export.strings import Strings
from perfgate.profilers.nsys.export.tables import read_tables

_STREAM = ExportColumn(field="stream", sources=("streamId",), default=NO_STREAM)
_OPERATIONS = (
    ExportTable(name=KERNELS.name, columns=(*KERNELS.columns, _STREAM)),
    ExportTable(name=COPIES.name, columns=(*COPIES.columns, _STREAM)),
    ExportTable(
        name=MEMSETS.name,
        columns=(
            *MEMSETS.columns,
            _STREAM,
            ExportColumn(field="bytes", sources=("bytes",), default=0),
        ),
    ),
    ExportTable(name=GRAPHS.name, columns=(*GRAPHS.columns, _STREAM)),
)
_CALLS = ExportTable(
    name=CALLS.name, columns=tuple(column for column in CALLS.columns if column.field != "name")
)


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
    numbered = Processes()
    # A driver call may begin in the window while the runtime call around it began before.
    # Of ranges only the processes are wanted.
    calls, _ = read_tables(
        export,
        (_CALLS, RANGES),
        numbered,
        keep=(
            lambda rows: (rows["start"] < end_ns) & (rows["end"] >= start_ns),
            lambda rows: np.zeros(len(rows["start"]), np.bool_),
        ),
    )
    launched = _Launched.from_calls(calls, start_ns)
    wanted = partial(_wanted, start_ns=start_ns, end_ns=end_ns, launched=launched)
    chosen = read_tables(export, _OPERATIONS, numbered, keep=[wanted] * len(_OPERATIONS))
    processes, _ = numbered.settle(chosen)
    settle_devices(export, processes, [columns for columns in chosen if columns])

    kernels, copies, memsets, graphs = chosen
    names = column(kernels, "name", np.int32)
    ids = distinct(names).astype(np.int64)
    strings = Strings.of(export, ids).named(ids)
    return WindowOps(
        source=export.path.name,
        start_ns=start_ns,
        end_ns=end_ns,
        processes=processes,
        kernels=StreamKernels(
            **_spans(kernels),
            name=names,
            graph_node=column(kernels, "graph_node", np.int64) != NO_NODE,
        ),
        copies=StreamCopies(
            **_spans(copies),
            bytes=column(copies, "bytes", np.int64),
            kind=column(copies, "kind", np.int8),
            source=memory_kinds(copies, "source"),
            target=memory_kinds(copies, "target"),
        ),
        memsets=StreamMemsets(**_spans(memsets), bytes=column(memsets, "bytes", np.int64)),
        graphs=StreamSpans(**_spans(graphs)),
        names={name: strings.get(name, f"(name {name})") for name in ids.tolist()},
    )


def _spans(columns: Columns) -> Columns:
    return {
        "start": column(columns, "start", np.int64),
        "end": column(columns, "end", np.int64),
        "device": column(columns, "device", np.int32),
        "process": column(columns, "process", np.int32),
        "stream": column(columns, "stream", np.int64),
        "correlation": column(columns, "correlation", np.int64),
    }


@dataclass(frozen=True, slots=True)
class _Launched:
    """What was launched in the window: correlation ids in order, by process as `Processes` first numbers it."""

    ids: dict[int, Ints]

    @classmethod
    def from_calls(cls, calls: Columns, start_ns: int) -> _Launched:
        """Of the calls that began before the window's end and had not ended before its start."""
        if not calls:
            return cls({})
        start, process, correlation = calls["start"], calls["process"], calls["correlation"]
        named = correlation != NO_CORRELATION
        if np.count_nonzero(correlation == 0) > SHARE_AN_ID:
            named &= correlation != 0
        before, within = named & (start < start_ns), named & (start >= start_ns)
        found: dict[int, Ints] = {}
        for one in np.flatnonzero(np.bincount(process[within])).tolist():
            own = process == one
            ids = np.sort(correlation[within & own], kind="stable")
            found[one] = ids[~np.isin(ids, correlation[before & own])]
        return cls(found)

    def holds(self, process: Ints, correlation: Ints) -> Flags:
        """Which operations were launched in the window."""
        found = np.zeros(len(correlation), np.bool_)
        for one, ids in self.ids.items():
            here = np.flatnonzero(process == one)
            found[here] = np.isin(correlation[here], ids)
        return found


def _wanted(columns: Columns, *, start_ns: int, end_ns: int, launched: _Launched) -> Flags:
    start, end = columns["start"], columns["end"]
    inside: Flags = (start < end_ns) & ((end > start_ns) | (start >= start_ns))
    by_call = launched.holds(columns["process"], columns["correlation"])
    if "kind" in columns:
        by_call &= ~np.isin(columns["kind"], MANAGED_COPIES)
    return inside | by_call
