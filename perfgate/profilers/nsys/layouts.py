"""What nsys's CSVs look like by version, as data: columns, names and labels.

No code decides here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from perfgate.model.findings import RuleName
from perfgate.model.reports import ReportName


class Kind(Enum):
    """How one CSV field must look. The value is the regular expression."""

    INTEGER = r"-?\d+"
    NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
    SHARE = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|None|"
    """A share of no time is NULL, which nsys prints as nothing, in 2022.4 as None."""
    ID = r"-?\d+|None|"
    WORDS = r'[^,"\n]*'
    NAME = r".*"
    """The last field, which may hold commas and quotes."""
    LINES = r"(?s:.*)"
    """A name that may hold line breaks, too: what people call their ranges."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column: its heading, how it looks, and the field it fills (None: read and left)."""

    heading: str
    kind: Kind
    field: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The columns of one report or rule in one family of nsys versions."""

    versions: str
    columns: tuple[Column, ...]

    @property
    def header(self) -> str:
        """The first line of the file."""
        return ",".join(column.heading for column in self.columns)


def _integer(heading: str, field: str | None) -> Column:
    return Column(heading=heading, kind=Kind.INTEGER, field=field)


def _number(heading: str, field: str) -> Column:
    return Column(heading=heading, kind=Kind.NUMBER, field=field)


def _id(heading: str) -> Column:
    return Column(heading=heading, kind=Kind.ID)


def _words(heading: str, field: str | None) -> Column:
    return Column(heading=heading, kind=Kind.WORDS, field=field)


def _summary(count: str, *more: Column, name: str, field: str, versions: str) -> Layout:
    return Layout(
        versions=versions,
        columns=(
            Column(heading="Time (%)", kind=Kind.SHARE, field="time_percent"),
            _integer("Total Time (ns)", "total_ns"),
            _integer(count, "count"),
            _number("Avg (ns)", "avg_ns"),
            _number("Med (ns)", "med_ns"),
            _integer("Min (ns)", "min_ns"),
            _integer("Max (ns)", "max_ns"),
            _number("StdDev (ns)", "stddev_ns"),
            *more,
            Column(heading=name, kind=Kind.LINES if field == "range" else Kind.NAME, field=field),
        ),
    )


_SINCE = "2022.4 and newer"
_RANGES = _summary(
    "Instances", _words("Style", "style"), name="Range", field="range", versions=_SINCE
)
_MEMORY = _summary("Count", name="Operation", field="operation", versions=_SINCE)
_KERNELS = _summary("Instances", name="Name", field="name", versions="2023.4 and newer")
_KERNELS_BY_SIZE = _summary(
    "Instances",
    _words("GridXYZ", None),
    _words("BlockXYZ", None),
    name="Name",
    field="name",
    versions="2022.4",
)
"""One row per kernel, grid and block size."""

_TIMES = (_integer("Duration (ns)", "duration_ns"), _integer("Start (ns)", "start_ns"))
_GPU = (_integer("PID", "pid"), _integer("Device ID", "device"), _id("Context ID"))
_API = _words("API Name", "api")


def _of_memory(*kinds: Column) -> tuple[Layout, ...]:
    on = (*_TIMES, *kinds, _integer("Bytes (B)", "bytes"), *_GPU)
    newer = (*on, _id("Green Context ID"), _id("Stream ID"), _API)
    return (
        Layout(versions="2023.4 and newer", columns=newer),
        Layout(versions="2022.4", columns=(*on, _id("Stream ID"), _API)),
    )


_COPIES = _of_memory(_words("Src Kind", "source"), _words("Dst Kind", "target"))
_CALLS = (*_TIMES, _integer("PID", "pid"), _integer("TID", "tid"), _API)
_GAPS = (_id("Row#"), *_TIMES, *_GPU)
_UTIL = (_id("Row#"), _number("In-Use (%)", "in_use_percent"), *_TIMES, *_GPU)

LAYOUTS: Final[Mapping[ReportName | RuleName, tuple[Layout, ...]]] = {
    ReportName.NVTX_SUM: (_RANGES,),
    ReportName.CUDA_GPU_MEM_TIME_SUM: (_MEMORY,),
    ReportName.CUDA_GPU_KERN_SUM: (_KERNELS, _KERNELS_BY_SIZE),
    RuleName.CUDA_MEMCPY_ASYNC: _COPIES,
    RuleName.CUDA_MEMCPY_SYNC: _COPIES,
    RuleName.CUDA_MEMSET_SYNC: _of_memory(_words("Memory Kind", "target")),
    RuleName.CUDA_API_SYNC: (Layout(versions=_SINCE, columns=_CALLS),),
    RuleName.GPU_GAPS: (Layout(versions=_SINCE, columns=_GAPS),),
    RuleName.GPU_TIME_UTIL: (Layout(versions=_SINCE, columns=_UTIL),),
}

OLD_NAMES: Final[Mapping[ReportName | RuleName, str]] = {
    ReportName.NVTX_SUM: "nvtxsum",
    ReportName.CUDA_GPU_MEM_TIME_SUM: "gpumemtimesum",
    ReportName.CUDA_GPU_KERN_SUM: "gpukernsum",
    RuleName.CUDA_MEMCPY_ASYNC: "cuda-async-memcpy",
    RuleName.CUDA_MEMCPY_SYNC: "cuda-sync-memcpy",
    RuleName.CUDA_MEMSET_SYNC: "cuda-sync-memset",
    RuleName.CUDA_API_SYNC: "cuda-sync-api",
    RuleName.GPU_GAPS: "gpu-starv",
    RuleName.GPU_TIME_UTIL: "gpu-low-util",
}
"""What they are called in 2022.4. 2023.4 knows both names, 2024.2 only the new ones."""

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

OPERATIONS: Final[Mapping[str, str]] = {
    "[CUDA memset]": "CUDA memset",
    **{
        f"[CUDA {prefix} {direction}]": f"CUDA memcpy {unified}{new}"
        for prefix, unified in (
            ("memcpy", ""),
            ("memcpy Unified", "Unified "),
            ("Unified Memory memcpy", "Unified "),
        )
        for old, new in _DIRECTIONS.items()
        for direction in (old, new)
    },
}
"""What nsys writes for a memory operation (`HtoD` to 2022.4, `Host-to-Device` from 2023) -> newer
words."""
