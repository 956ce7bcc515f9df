"""What varies between nsys versions, as data: report columns, operation labels, export tables. No code decides here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from perfgate.model.reports import ReportName


class Kind(Enum):
    """How one CSV field must look. The value is the regular expression."""

    NOTHING = r"(?:None)?"
    """How nsys prints a NULL: as nothing, in 2022.4 as None."""

    INTEGER = r"-?\d+"
    NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
    WORD = r"\w+"
    SIZES = r" *\d+ +\d+ +\d+"
    """Three padded numbers of a grid or block."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One leading column of a report: its heading, and the record field it fills (None: read and left)."""

    heading: str
    field: str | None
    kind: Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportLayout:
    """The columns of one report in one family of nsys versions. The last one is the name, which may hold commas."""

    versions: str
    leading: tuple[Column, ...]
    name_heading: str
    name_field: str
    spans_lines: bool = False
    """Whether a name may hold line breaks: what people call their ranges may, what nsys names cannot."""
    per_launch_size: bool = False
    """Whether a name has one row per grid and block size."""

    @property
    def without_shares(self) -> tuple[Column, ...]:
        """The leading columns where all rows together took no time: nsys divides by it, and a share of it is NULL."""
        return tuple(
            replace(column, kind=Kind.NOTHING) if column.field == "time_percent" else column for column in self.leading
        )

    @property
    def header(self) -> str:
        """The first line of the file."""
        return ",".join([*(column.heading for column in self.leading), self.name_heading])


def _times(count: str) -> tuple[Column, ...]:
    return (
        Column(heading="Time (%)", field="time_percent", kind=Kind.NUMBER),
        Column(heading="Total Time (ns)", field="total_ns", kind=Kind.INTEGER),
        Column(heading=count, field="count", kind=Kind.INTEGER),
        Column(heading="Avg (ns)", field="avg_ns", kind=Kind.NUMBER),
        Column(heading="Med (ns)", field="med_ns", kind=Kind.NUMBER),
        Column(heading="Min (ns)", field="min_ns", kind=Kind.INTEGER),
        Column(heading="Max (ns)", field="max_ns", kind=Kind.INTEGER),
        Column(heading="StdDev (ns)", field="stddev_ns", kind=Kind.NUMBER),
    )


_SIZES = (
    Column(heading="Total (B)", field="total_bytes", kind=Kind.INTEGER),
    Column(heading="Count", field="count", kind=Kind.INTEGER),
    Column(heading="Avg (B)", field="avg_bytes", kind=Kind.NUMBER),
    Column(heading="Med (B)", field="med_bytes", kind=Kind.NUMBER),
    Column(heading="Min (B)", field="min_bytes", kind=Kind.INTEGER),
    Column(heading="Max (B)", field="max_bytes", kind=Kind.INTEGER),
    Column(heading="StdDev (B)", field="stddev_bytes", kind=Kind.NUMBER),
)

REPORT_LAYOUTS: Mapping[ReportName, tuple[ReportLayout, ...]] = {
    ReportName.NVTX_SUM: (
        ReportLayout(
            versions="2022.4 and newer",
            leading=(*_times("Instances"), Column(heading="Style", field="style", kind=Kind.WORD)),
            name_heading="Range",
            name_field="range",
            spans_lines=True,
        ),
    ),
    ReportName.CUDA_GPU_MEM_TIME_SUM: (
        ReportLayout(
            versions="2022.4 and newer",
            leading=_times("Count"),
            name_heading="Operation",
            name_field="operation",
        ),
    ),
    ReportName.CUDA_GPU_MEM_SIZE_SUM: (
        ReportLayout(
            versions="2022.4 and newer",
            leading=_SIZES,
            name_heading="Operation",
            name_field="operation",
        ),
    ),
    ReportName.CUDA_GPU_KERN_SUM: (
        ReportLayout(
            versions="2023.4 and newer",
            leading=_times("Instances"),
            name_heading="Name",
            name_field="name",
        ),
        ReportLayout(
            versions="2022.4",
            leading=(
                *_times("Instances"),
                Column(heading="GridXYZ", field=None, kind=Kind.SIZES),
                Column(heading="BlockXYZ", field=None, kind=Kind.SIZES),
            ),
            name_heading="Name",
            name_field="name",
            per_launch_size=True,
        ),
    ),
    ReportName.CUDA_API_SUM: (
        ReportLayout(
            versions="2022.4 and newer",
            leading=_times("Num Calls"),
            name_heading="Name",
            name_field="name",
        ),
    ),
}

RETIRED_HEADERS: Mapping[str, str] = {
    "Time(%),Total Time (ns),Instances,Average (ns),Minimum (ns),Maximum (ns),StdDev (ns),Style,Range": "2021.3",
    "Time(%),Total Time (ns),Count,Average (ns),Minimum (ns),Maximum (ns),StdDev (ns),Operation": "2021.3",
    "Total (MB),Count,Average (MB),Minimum (MB),Maximum (MB),StdDev (MB),Operation": "2021.3",
    "Time(%),Total Time (ns),Instances,Average (ns),Minimum (ns),Maximum (ns),StdDev (ns),Name": "2021.3",
    "Time(%),Total Time (ns),Num Calls,Average (ns),Minimum (ns),Maximum (ns),StdDev (ns),Name": "2021.3",
    "Time(%),Total Time (ns),Operations,Average,Minimum,Maximum,Operation": "2020.4",
    "Total,Operations,Average,Minimum,Maximum,Operation": "2020.4",
    "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name": "2020.4",
    "Time(%),Total Time (ns),Num Calls,Average,Minimum,Maximum,Name": "2020.4",
    "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Range": "2020.4",
}
"""Headers of versions too old for perfgate: no medians, and sizes without a unit or in MB only."""

_DIRECTIONS = {
    "Unknown": "Unknown",
    "HtoD": "Host-to-Device",
    "DtoH": "Device-to-Host",
    "HtoA": "Host-to-Array",
    "AtoH": "Array-to-Host",
    "AtoA": "Array-to-Array",
    "AtoD": "Array-to-Device",
    "DtoA": "Device-to-Array",
    "DtoD": "Device-to-Device",
    "HtoH": "Host-to-Host",
    "PtoP": "Peer-to-Peer",
}
_UNIFIED = {old: _DIRECTIONS[old] for old in ("HtoD", "DtoH", "DtoD")}

OPERATIONS: Mapping[str, str] = {
    "[CUDA memset]": "CUDA memset",
    **{f"[CUDA memcpy {old}]": f"CUDA memcpy {new}" for old, new in _DIRECTIONS.items()},
    **{f"[CUDA memcpy {new}]": f"CUDA memcpy {new}" for new in _DIRECTIONS.values()},
    **{f"[CUDA Unified Memory memcpy {old}]": f"CUDA memcpy Unified {new}" for old, new in _UNIFIED.items()},
    **{f"[CUDA memcpy Unified {old}]": f"CUDA memcpy Unified {new}" for old, new in _UNIFIED.items()},
    **{f"[CUDA memcpy Unified {new}]": f"CUDA memcpy Unified {new}" for new in _UNIFIED.values()},
}
"""What nsys writes for a memory operation (`HtoD` up to 2022.4, `Host-to-Device` from 2023) -> the newer words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportColumn:
    """One number read from a table of the SQLite export.

    The first of `sources` that exists and is not NULL, else `default`; a column without a default must have a value
    in every row. `flag` asks only whether there is one.
    """

    field: str
    sources: tuple[str, ...]
    default: int | None = None
    flag: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportTable:
    """One table of the SQLite export and what perfgate reads of it. nsys leaves out a table that would be empty."""

    name: str
    columns: tuple[ExportColumn, ...]


NO_CORRELATION = -1
THREAD_MASK = 0xFFFFFF
PROCESS_SHIFT = 24
UNKNOWN_PROCESS = ~THREAD_MASK
"""Stands for a NULL `globalPid`, and is what masking off the thread leaves of -1, a NULL `globalTid`."""

_START = ExportColumn(field="start", sources=("start",))
_END = ExportColumn(field="end", sources=("end",))
_DEVICE = ExportColumn(field="device", sources=("deviceId",))
_PROCESS = ExportColumn(field="process", sources=("globalPid",), default=UNKNOWN_PROCESS)
_THREAD = ExportColumn(field="thread", sources=("globalTid",), default=-1)
_CORRELATION = ExportColumn(field="correlation", sources=("correlationId",), default=NO_CORRELATION)
_OPERATION = (_START, _END, _DEVICE, _PROCESS, _CORRELATION)

KERNELS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_KERNEL",
    columns=(
        *_OPERATION,
        ExportColumn(field="name", sources=("demangledName", "shortName")),
        ExportColumn(field="graph_node", sources=("graphNodeId",), flag=True),
    ),
)
COPIES = ExportTable(
    name="CUPTI_ACTIVITY_KIND_MEMCPY",
    columns=(
        *_OPERATION,
        ExportColumn(field="bytes", sources=("bytes",)),
        ExportColumn(field="kind", sources=("copyKind",)),
        ExportColumn(field="source", sources=("srcKind",), default=-1),
        ExportColumn(field="target", sources=("dstKind",), default=-1),
        ExportColumn(field="count", sources=("copyCount",), default=1),
    ),
)
MEMSETS = ExportTable(name="CUPTI_ACTIVITY_KIND_MEMSET", columns=_OPERATION)
GRAPHS = ExportTable(name="CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns=_OPERATION)
CALLS = ExportTable(
    name="CUPTI_ACTIVITY_KIND_RUNTIME",
    columns=(_START, _END, _THREAD, _CORRELATION, ExportColumn(field="name", sources=("nameId",))),
)
RANGES = ExportTable(
    name="NVTX_EVENTS",
    columns=(
        _START,
        ExportColumn(field="closed", sources=("end",), flag=True),
        ExportColumn(field="end", sources=("end",), default=0),
        ExportColumn(field="event", sources=("eventType",)),
        _THREAD,
        ExportColumn(field="text_id", sources=("textId",), default=-1),
        ExportColumn(field="domain", sources=("domainId",), default=0),
    ),
)
EXPORT_TABLES = (KERNELS, COPIES, MEMSETS, GRAPHS, CALLS, RANGES)

PUSH_POP_EVENTS = (59, 70)
START_END_EVENTS = (60, 71)
DOMAIN_EVENT = 75
MARK_EVENT = 34
RANGE_EVENTS = (*PUSH_POP_EVENTS, *START_END_EVENTS)
"""NVTX_EVENTS.eventType of push/pop and start/end ranges: live ones, and those imported from NVTX text files."""

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
"""What nsys says of GPU work or calls that it lost, as SQL's LIKE has it: read in nsys 2024.2's libToolsInjection64.so.

Not among them: what it says of good captures too (`Not all CUDA events might have been collected.`), and of work that
still ran when the profiler stopped (`Number of incomplete CUPTI events dropped: ...`), which the last step lacks then.
"""
GPUS = "TARGET_INFO_GPU"
CUDA_DEVICES = "TARGET_INFO_CUDA_DEVICE"
PAGE = "virtualAddress"
"""Column of COPIES with the page that managed memory moved: all that tells apart two moves of the same moment."""
