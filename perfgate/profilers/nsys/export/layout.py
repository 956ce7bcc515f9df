"""What perfgate reads of the tables of a SQLite export, as data: names, columns and numbers.

No code decides here.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.model.timeline import (
    NO_CORRELATION,
    NO_EVENT,
    NO_NODE,
    NO_STREAM,
    MemoryKind,
    WaitKind,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportColumn:
    """One number read from a table of the SQLite export.

    The first of `sources` that exists and is not NULL, else `default`; a column without a default
    must have a value in every row.
    """

    field: str
    sources: tuple[str, ...]
    default: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportTable:
    """One table of the SQLite export and what perfgate reads of it.

    nsys leaves out a table that would be empty.
    """

    name: str
    columns: tuple[ExportColumn, ...]
    only: tuple[int, ...] = ()
    """Of the rows those that are read, by the values of their first column; all where it is
    empty."""


THREAD_MASK = 0xFFFFFF
PROCESS_SHIFT = 24
UNKNOWN_PROCESS = ~THREAD_MASK
"""Stands for a NULL `globalPid`, and is what masking off the thread leaves of -1, a NULL
`globalTid`."""

_START = ExportColumn(field="start", sources=("start",))
_END = ExportColumn(field="end", sources=("end",))
_DEVICE = ExportColumn(field="device", sources=("deviceId",))
_PROCESS = ExportColumn(field="process", sources=("globalPid",), default=UNKNOWN_PROCESS)
_THREAD = ExportColumn(field="thread", sources=("globalTid",), default=-1)
_CORRELATION = ExportColumn(field="correlation", sources=("correlationId",), default=NO_CORRELATION)
_STREAM = ExportColumn(field="stream", sources=("streamId",), default=NO_STREAM)
_EVENT = ExportColumn(field="event", sources=("eventId",), default=NO_EVENT)
_RECORD = ExportColumn(field="record", sources=("eventSyncId",), default=NO_EVENT)
_OPERATION = (_START, _END, _DEVICE, _PROCESS, _STREAM, _CORRELATION)

KERNELS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_KERNEL",
    columns=(
        *_OPERATION,
        ExportColumn(field="name", sources=("demangledName", "shortName")),
        ExportColumn(field="graph_node", sources=("graphNodeId",), default=NO_NODE),
    ),
)
COPIES = ExportTable(
    name="CUPTI_ACTIVITY_KIND_MEMCPY",
    columns=(
        *_OPERATION,
        ExportColumn(field="bytes", sources=("bytes",)),
        ExportColumn(field="kind", sources=("copyKind",)),
        ExportColumn(field="source", sources=("srcKind",), default=MemoryKind.UNKNOWN),
        ExportColumn(field="target", sources=("dstKind",), default=MemoryKind.UNKNOWN),
        ExportColumn(field="count", sources=("copyCount",), default=1),
    ),
)
MEMSETS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_MEMSET",
    columns=(*_OPERATION, ExportColumn(field="bytes", sources=("bytes",), default=0)),
)
GRAPHS = ExportTable(name="CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns=_OPERATION)
CALLS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_RUNTIME",
    columns=(_START, _END, _THREAD, _CORRELATION, ExportColumn(field="name", sources=("nameId",))),
)
WAITS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    columns=(
        *_OPERATION,
        ExportColumn(field="kind", sources=("syncType",), default=WaitKind.UNKNOWN),
        _EVENT,
        _RECORD,
    ),
)
EVENT_RECORDS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    columns=(_DEVICE, _PROCESS, _STREAM, _CORRELATION, _EVENT, _RECORD),
)
PUSH_POP_EVENTS = (59, 70)
START_END_EVENTS = (60, 71)
DOMAIN_EVENT = 75
MARK_EVENT = 34
RANGE_EVENTS = (*PUSH_POP_EVENTS, *START_END_EVENTS)
"""NVTX_EVENTS.eventType of push/pop and start/end ranges: live ones, and those imported from NVTX
text files."""

NO_END = -(2**63)
"""The end of a range that was never closed."""
RANGES = ExportTable(
    name="NVTX_EVENTS",
    columns=(
        ExportColumn(field="event", sources=("eventType",)),
        _START,
        ExportColumn(field="end", sources=("end",), default=NO_END),
        _THREAD,
        ExportColumn(field="domain", sources=("domainId",), default=0),
    ),
    only=RANGE_EVENTS,
)
OPERATIONS = (KERNELS, COPIES, MEMSETS, GRAPHS)
EXPORT_TABLES = (*OPERATIONS, CALLS, RANGES, WAITS, EVENT_RECORDS)

STRINGS = "StringIds"
METADATA = ("META_DATA_EXPORT", "EXPORT_META_DATA")
"""Where an export says its version: the newer name, and the one of 2022.4."""
DIAGNOSTICS = "DIAGNOSTIC_EVENT"
LOSSES = (
    "CUPTI dropped % records. Some CUPTI events might be missing.",
    "Couldn't allocate CUPTI buffers % times.%Some CUPTI events might be missing.",
    (
        "Could not parse % CUPTI activity records. "
        "Please try updating the CUDA driver or use more recent profiler version."
    ),
)
"""What nsys says of GPU work or calls that it lost, as SQL's LIKE has it (read in nsys 2024.2).

Not among them: what it says of good captures too (`Not all CUDA events might have been
collected.`), and of work that still ran when the profiler stopped (`Number of incomplete CUPTI
events dropped: ...`), which the last step lacks then.
"""
GPUS = "TARGET_INFO_GPU"
CUDA_DEVICES = "TARGET_INFO_CUDA_DEVICE"
