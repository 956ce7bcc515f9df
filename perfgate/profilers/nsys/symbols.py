"""The symbols behind the names of kernels in an export: what another tool knows a kernel by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perfgate.profilers.nsys.export.file import open_export
from perfgate.profilers.nsys.export.layout import KERNELS, STRINGS

_NAMES = ("demangledName", "shortName")
"""What the timeline calls a kernel: the first of these that an export has."""
_SYMBOL = "mangledName"


def kernel_symbols(path: Path) -> Mapping[str, str]:
    """The mangled name of each kernel, by the name that the timeline gives it.

    Empty where the export holds none. Of two kernels that read alike (`[lambda(float) (instance
    1)]` of two files), the one that ran longer counts. Raises as `read_timeline` does.
    """
    with open_export(path) as export:
        name = next((one for one in _NAMES if export.has(KERNELS.name, one)), None)
        if name is None or not export.has(KERNELS.name, _SYMBOL):
            return {}
        rows = export.query(
            f"SELECT name.value, symbol.value FROM {KERNELS.name} AS kernel "
            f"JOIN {STRINGS} AS name ON name.id = kernel.{name} "
            f"JOIN {STRINGS} AS symbol ON symbol.id = kernel.{_SYMBOL} "
            "GROUP BY name.value, symbol.value "
            "ORDER BY sum(kernel.end - kernel.start), symbol.value"
        )
    return {name: symbol for name, symbol in rows if name and symbol}
