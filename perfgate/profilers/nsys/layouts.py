"""What varies between nsys's reports by version, as data: columns and operation labels. No code decides here."""

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
            replace(column, kind=Kind.NOTHING) if column.field == "time_percent" else column
            for column in self.leading
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
    **{
        f"[CUDA Unified Memory memcpy {old}]": f"CUDA memcpy Unified {new}"
        for old, new in _UNIFIED.items()
    },
    **{
        f"[CUDA memcpy Unified {old}]": f"CUDA memcpy Unified {new}"
        for old, new in _UNIFIED.items()
    },
    **{f"[CUDA memcpy Unified {new}]": f"CUDA memcpy Unified {new}" for new in _UNIFIED.values()},
}
"""What nsys writes for a memory operation (`HtoD` up to 2022.4, `Host-to-Device` from 2023) -> the newer words."""
