"""Columns of an export's tables as arrays: their dtypes, and what their numbers may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfgate.model.timeline import Calls, Copies, EventRecords, Kernels, Memsets, Spans, Waits
from perfgate.profilers.nsys.export.refusing import impossible

Columns = dict[str, NDArray[Any]]
"""By field, as long as one another. Of a table without rows there is none."""

FARTHEST_NS: Final = 2**61
"""Times are ns since the capture's start or, normalised, since 1970: no further from 0 than 73
years."""
LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "start": (-FARTHEST_NS, FARTHEST_NS),
    "end": (-FARTHEST_NS, FARTHEST_NS),
    "bytes": (0, 2**63 - 1),
    "device": (0, 2**31 - 1),
    "name": (-(2**31), 2**31 - 1),
    "kind": (-(2**7), 2**7 - 1),
    "source": (-(2**7), 2**7 - 1),
    "target": (-(2**7), 2**7 - 1),
    "count": (0, 2**31 - 1),
}
"""The least and the most that a column may hold."""

_DTYPES: Final[Mapping[str, type[np.generic]]] = {
    "process": np.int32,
    "device": np.int32,
    "stream": np.int32,
    "name": np.int32,
    "kind": np.int8,
    "source": np.int8,
    "target": np.int8,
    "closed": np.bool_,
}
"""Of what is no int64. A stream of 2^32 - 1, which is none, becomes NO_STREAM so."""
_Record = TypeVar("_Record", Spans, Kernels, Copies, Memsets, Waits, EventRecords, Calls)


def narrow(columns: Columns) -> Columns:
    """Columns in dtypes that hold what they may hold."""
    return {
        name: values.astype(_DTYPES.get(name, np.int64), copy=False)
        for name, values in columns.items()
    }


def column(columns: Columns, name: str) -> NDArray[Any]:
    """A column; empty where the table has no rows."""
    return columns[name] if columns else np.empty(0, _DTYPES.get(name, np.int64))


def record(kind: type[_Record], columns: Columns) -> _Record:
    """A table's columns as a record of arrays."""
    return kind(**{one.name: column(columns, one.name) for one in fields(kind)})


def refuse_impossible(path: Path, table: str, columns: Columns) -> None:
    """Raise for numbers that no nsys writes, before they are fitted into smaller dtypes."""
    for name in columns.keys() & LIMITS.keys():
        least, most = LIMITS[name]
        for found in (int(columns[name].min()), int(columns[name].max())):
            if not least <= found <= most:
                raise impossible(path, table, name, found)
    if "end" not in columns:
        return
    before_start = columns["end"] < columns["start"]
    if "closed" in columns:
        before_start &= columns["closed"] != 0
    if before_start.any():
        raise impossible(path, table, "end", int(columns["end"][before_start][0]))
