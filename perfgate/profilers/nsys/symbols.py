"""The symbols behind the names of kernels in an export: what another tool knows a kernel by."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from perfgate.profilers.nsys.export.refusing import damaged

_TABLE: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_NAMES: Final = ("demangledName", "shortName")
"""What the timeline calls a kernel: the first of these that an export has."""
_SYMBOL: Final = "mangledName"


def kernel_symbols(export: Path) -> Mapping[str, str]:
    """The mangled name of each kernel, by the name that the timeline gives it.

    Empty where the export holds none.

    Of two kernels that read alike (`[lambda(float) (instance 1)]` of two files), the one that ran
    longer counts.

    Raises:
        CaptureUnreadable: it is no export.
    """
    try:
        with closing(
            sqlite3.connect(f"{export.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({_TABLE})")}
            name = next((column for column in _NAMES if column in columns), None)
            if name is None or _SYMBOL not in columns:
                return {}
            rows = connection.execute(
                f"SELECT name.value, symbol.value FROM {_TABLE} AS kernel "
                f"JOIN StringIds AS name ON name.id = kernel.{name} "
                f"JOIN StringIds AS symbol ON symbol.id = kernel.{_SYMBOL} "
                "GROUP BY name.value, symbol.value "
                "ORDER BY sum(kernel.end - kernel.start), symbol.value"
            )
            return {name: symbol for name, symbol in rows if name and symbol}
    except sqlite3.Error as broken:
        raise damaged(export, broken) from broken
