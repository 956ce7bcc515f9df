"""What nsys's CSVs look like by version, as data: columns, names and labels.

No code decides here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from perfgate.model.reports import ReportName, RuleName


class ColumnKind(Enum):
    """How one CSV field must look. The value is the regular expression."""

    INTEGER = r"-?\d+"
    NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
    SHARE = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|None|"
    """A share of no time is NULL, which nsys prints as nothing, in 2022.4 as None."""
    ID = r"-?\d+|None|"
    WORDS = r'[^,"\n]*'
    NAME = r'"[^\n]*"|[^,\n]*'
    """The last field: in quotes where it holds a comma."""
    LINES = r'"(?s:.*?)"|[^,]*?'
    """A name that may hold line breaks, too: what people call their ranges."""


COLUMNS: Final[Mapping[str, tuple[ColumnKind, str | None]]] = {
    "Time (%)": (ColumnKind.SHARE, "time_percent"),
    "Total Time (ns)": (ColumnKind.INTEGER, "total_ns"),
    "Instances": (ColumnKind.INTEGER, "count"),
    "Count": (ColumnKind.INTEGER, "count"),
    "Avg (ns)": (ColumnKind.NUMBER, "avg_ns"),
    "Med (ns)": (ColumnKind.NUMBER, "med_ns"),
    "Min (ns)": (ColumnKind.INTEGER, "min_ns"),
    "Max (ns)": (ColumnKind.INTEGER, "max_ns"),
    "StdDev (ns)": (ColumnKind.NUMBER, "stddev_ns"),
    "Style": (ColumnKind.WORDS, "style"),
    "GridXYZ": (ColumnKind.WORDS, None),
    "BlockXYZ": (ColumnKind.WORDS, None),
    "Range": (ColumnKind.LINES, "range"),
    "Operation": (ColumnKind.NAME, "operation"),
    "Name": (ColumnKind.NAME, "name"),
    "Duration (ns)": (ColumnKind.INTEGER, "duration_ns"),
    "Start (ns)": (ColumnKind.INTEGER, "start_ns"),
    "Src Kind": (ColumnKind.WORDS, None),
    "Dst Kind": (ColumnKind.WORDS, None),
    "Memory Kind": (ColumnKind.WORDS, None),
    "Bytes (B)": (ColumnKind.INTEGER, None),
    "PID": (ColumnKind.INTEGER, "pid"),
    "TID": (ColumnKind.INTEGER, None),
    "Device ID": (ColumnKind.INTEGER, None),
    "Context ID": (ColumnKind.ID, None),
    "Green Context ID": (ColumnKind.ID, None),
    "Stream ID": (ColumnKind.ID, None),
    "API Name": (ColumnKind.WORDS, None),
}
"""By heading: how the column looks, and the field it fills (None: read and left)."""

_TIMES = "Total Time (ns),{},Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
_SUMMARY = f"Time (%),{_TIMES}".format("Instances")
_MEMORY = "Bytes (B),PID,Device ID,Context ID"
_OF_COPIES = f"Duration (ns),Start (ns),Src Kind,Dst Kind,{_MEMORY}"
_OF_MEMSETS = f"Duration (ns),Start (ns),Memory Kind,{_MEMORY}"
_BEFORE_2023_4 = "Stream ID,API Name"
_SINCE_2023_4 = "Green Context ID,Stream ID,API Name"
_COPIES = (f"{_OF_COPIES},{_SINCE_2023_4}", f"{_OF_COPIES},{_BEFORE_2023_4}")

HEADERS: Final[Mapping[ReportName | RuleName, tuple[str, ...]]] = {
    ReportName.NVTX_SUM: (f"{_SUMMARY},Style,Range",),
    ReportName.CUDA_GPU_MEM_TIME_SUM: (f"Time (%),{_TIMES},Operation".format("Count"),),
    # 2022.4 has one row per kernel, grid and block size.
    ReportName.CUDA_GPU_KERN_SUM: (f"{_SUMMARY},Name", f"{_SUMMARY},GridXYZ,BlockXYZ,Name"),
    RuleName.CUDA_MEMCPY_ASYNC: _COPIES,
    RuleName.CUDA_MEMCPY_SYNC: _COPIES,
    RuleName.CUDA_MEMSET_SYNC: (
        f"{_OF_MEMSETS},{_SINCE_2023_4}",
        f"{_OF_MEMSETS},{_BEFORE_2023_4}",
    ),
    RuleName.CUDA_API_SYNC: ("Duration (ns),Start (ns),PID,TID,API Name",),
}
"""The first lines of their files: that of nsys 2023.4 and newer, then that of 2022.4."""

OLD_NAMES: Final[Mapping[ReportName | RuleName, str]] = {
    ReportName.NVTX_SUM: "nvtxsum",
    ReportName.CUDA_GPU_MEM_TIME_SUM: "gpumemtimesum",
    ReportName.CUDA_GPU_KERN_SUM: "gpukernsum",
    RuleName.CUDA_MEMCPY_ASYNC: "cuda-async-memcpy",
    RuleName.CUDA_MEMCPY_SYNC: "cuda-sync-memcpy",
    RuleName.CUDA_MEMSET_SYNC: "cuda-sync-memset",
    RuleName.CUDA_API_SYNC: "cuda-sync-api",
}
"""What they are called in 2022.4. 2023.4 knows both names, 2024.2 only the new ones; when between
they came is not known."""

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
