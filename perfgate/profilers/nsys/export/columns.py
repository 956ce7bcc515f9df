"""Columns of an export's tables as arrays: their dtypes, and what their numbers may be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfgate.model.timeline import Bytes8, MemoryKind
from perfgate.model.words import plural
from perfgate.profilers.nsys.export.refusing import damaged

Columns = dict[str, NDArray[Any]]
"""By field, as long as one another. Of a table without rows there is none."""

FARTHEST_NS: Final = 2**61
"""Times are ns since the capture's start or, normalised, since 1970: no further from 0 than 73 years."""
LIMITS: Final[Mapping[str, tuple[int, int]]] = {
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
    "name": np.int32,
    "kind": np.int8,
    "source": np.int8,
    "target": np.int8,
    "closed": np.bool_,
}
_Scalar = TypeVar("_Scalar", bound=np.generic)


def narrow(columns: Columns) -> Columns:
    """Columns in dtypes that hold what they may hold."""
    return {
        name: values.astype(_DTYPES.get(name, np.int64), copy=False)
        for name, values in columns.items()
    }


def column(columns: Columns, name: str, dtype: type[_Scalar]) -> NDArray[_Scalar]:
    """A column as records want it; empty where the table has no rows."""
    if not columns:
        return np.empty(0, dtype=dtype)
    return columns[name].astype(dtype, copy=False)


def memory_kinds(columns: Columns, name: str) -> Bytes8:
    """A column of `MemoryKind`s; one that perfgate does not know is UNKNOWN."""
    kinds = column(columns, name, np.int8)
    known = np.array([kind.value for kind in MemoryKind], dtype=np.int8)
    return np.where(np.isin(kinds, known), kinds, np.int8(MemoryKind.UNKNOWN)).astype(np.int8)


def refuse_impossible(path: Path, table: str, columns: Columns) -> None:
    """Raise for numbers that no nsys writes, before they are fitted into smaller dtypes."""
    start, end = columns["start"], columns["end"]
    first, last = int(start.min()), int(end.max())
    if first < -FARTHEST_NS or last > FARTHEST_NS or int(start.max()) > FARTHEST_NS:
        beyond = first if first < -FARTHEST_NS else max(last, int(start.max()))
        raise damaged(path, f"{table} has {beyond} ns as a time, which no nsys writes")
    wrong = end < start
    if "closed" in columns:
        wrong &= columns["closed"] != 0
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        rows = plural(
            int(wrong.sum()), "row that ends before it starts", "rows that end before they start"
        )
        raise damaged(path, f"{table} has {rows}, as from {start[row]} to {end[row]} ns")
    if "bytes" in columns and (columns["bytes"] < 0).any():
        raise damaged(path, f"{table} has a copy of {columns['bytes'].min()} bytes")
    for name in columns.keys() & LIMITS.keys():
        (lowest, highest), (least, most) = (
            (int(columns[name].min()), int(columns[name].max())),
            LIMITS[name],
        )
        if lowest < least or highest > most:
            beyond = highest if highest > most else lowest
            raise damaged(path, f"{table} has {beyond} as a {name}, which no nsys writes")
