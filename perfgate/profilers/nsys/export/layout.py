"""What perfgate reads of the tables of a SQLite export, as data: names, columns and numbers.

No code decides here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from perfgate.model.timeline import (
    NO_CORRELATION,
    NO_EVENT,
    NO_NODE,
    NO_STREAM,
    MemoryKind,
    WaitKind,
)


class ExportColumn(NamedTuple):
    """One number read from a table of the SQLite export.

    `default` stands for NULL and for a column that is not there; a column without a default must
    have a value in every row.
    """

    field: str
    source: str
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

_START = ExportColumn("start", "start")
_END = ExportColumn("end", "end")
_DEVICE = ExportColumn("device", "deviceId")
_PROCESS = ExportColumn("process", "globalPid", UNKNOWN_PROCESS)
_THREAD = ExportColumn("thread", "globalTid", -1)
_CORRELATION = ExportColumn("correlation", "correlationId", NO_CORRELATION)
_STREAM = ExportColumn("stream", "streamId", NO_STREAM)
_EVENT = ExportColumn("event", "eventId", NO_EVENT)
_RECORD = ExportColumn("record", "eventSyncId", NO_EVENT)
_OPERATION = (_START, _END, _DEVICE, _PROCESS, _STREAM, _CORRELATION)

KERNELS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_KERNEL",
    columns=(
        *_OPERATION,
        ExportColumn("name", "demangledName"),
        ExportColumn("graph_node", "graphNodeId", NO_NODE),
    ),
)
COPIES = ExportTable(
    name="CUPTI_ACTIVITY_KIND_MEMCPY",
    columns=(
        *_OPERATION,
        ExportColumn("bytes", "bytes"),
        ExportColumn("kind", "copyKind"),
        ExportColumn("source", "srcKind", MemoryKind.UNKNOWN),
        ExportColumn("target", "dstKind", MemoryKind.UNKNOWN),
        ExportColumn("count", "copyCount", 1),
    ),
)
MEMSETS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_MEMSET",
    columns=(*_OPERATION, ExportColumn("bytes", "bytes", 0)),
)
GRAPHS = ExportTable(name="CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns=_OPERATION)
CALLS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_RUNTIME",
    columns=(_START, _END, _THREAD, _CORRELATION, ExportColumn("name", "nameId")),
)
WAITS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    columns=(
        *_OPERATION,
        ExportColumn("kind", "syncType", WaitKind.UNKNOWN),
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
RANGE_EVENTS = (*PUSH_POP_EVENTS, *START_END_EVENTS)
"""NVTX_EVENTS.eventType of push/pop and start/end ranges: live ones, and those imported from NVTX
text files."""

NO_END = -(2**63)
"""The end of a range that was never closed."""
RANGES = ExportTable(
    name="NVTX_EVENTS",
    columns=(
        ExportColumn("event", "eventType"),
        _START,
        ExportColumn("end", "end", NO_END),
        _THREAD,
        ExportColumn("domain", "domainId", 0),
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
