"""The CSV of `ncu --page raw` as figures: which columns there are, in which units; it must not know
where they lead.

```
"ID","Process ID",...,"Kernel Name",...,"Block Size","Grid Size","Device","CC",...
"","",...,"ns",...                                    the units
"0","3662034",...                                     a row a launch
```
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from typing import Final

from perfgate.model.comparison import LaunchFigures
from perfgate.model.errors import LayoutUnknown

PERCENT: Final = {"%": 1.0}
NUMBER: Final = {"": 1.0, "register/thread": 1.0}
TIMES: Final = {"ns": 1e-3, "nsecond": 1e-3}
"""In us; base units, the long names those of ncu before 2024.2, here and in the next."""
CLOCKS: Final = {"hz": 1e-6, "cycle/second": 1e-6, "cycle/nsecond": 1e3}
"""In MHz."""

QUANTITIES: Final[Mapping[str, tuple[Mapping[str, float], *tuple[str, ...]]]] = {
    "duration_us": (TIMES, "gpu__time_duration.sum"),
    "compute_percent": (PERCENT, "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    "memory_percent": (
        PERCENT,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "dram_percent": (
        PERCENT,
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "occupancy_percent": (PERCENT, "sm__warps_active.avg.pct_of_peak_sustained_active"),
    "occupancy_limit_percent": (PERCENT, "sm__maximum_warps_per_active_cycle_pct"),
    "registers": (NUMBER, "launch__registers_per_thread"),
    "waves": (NUMBER, "launch__waves_per_multiprocessor"),
    "sm_clock_mhz": (
        CLOCKS,
        "gpc__cycles_elapsed.avg.per_second",
        "smsp__cycles_elapsed.avg.per_second",
        "sm__cycles_elapsed.avg.per_second",
    ),
}
"""By the figure: the factors of its units, and the metrics that hold it, of which the first that a
report has counts. The duration is the one that must be there."""
METRIC_NAMES: Final = tuple(name for _, *metrics in QUANTITIES.values() for name in metrics)

KERNEL, DEVICE, GRID, BLOCK = "Kernel Name", "Device", "Grid Size", "Block Size"
COLUMNS: Final = ("ID", KERNEL, DEVICE, GRID, BLOCK)
"""Without these it is no table of ncu's."""

_NUMBER: Final = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
"""ncu groups digits where the locale does."""
_ABSENT: Final = frozenset({"", "n/a", "nan", "inf", "-nan", "-inf"})
_OWN_LINE: Final = re.compile(r"==[A-Z]+== ")


def read_launches(text: str, *, source: str) -> tuple[LaunchFigures, ...]:
    """Read what `read_command` prints, a record a launch; nothing printed is no launch.

    Raises:
        LayoutUnknown: it is no such table, or a column or unit is not known.
    """
    rows = list(
        csv.reader(line for line in text.splitlines() if line.strip() and not _OWN_LINE.match(line))
    )
    if not rows:
        return ()
    header = rows[0]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise LayoutUnknown(
            "ncu-column-missing", path=source, column=missing[0], begins=", ".join(header)
        )
    if len(rows) < 2 or any(len(row) != len(header) for row in rows):
        raise LayoutUnknown("ncu-rows-uneven", path=source)
    units = dict(zip(header, rows[1], strict=True))
    return tuple(_launch(dict(zip(header, row, strict=True)), units, source) for row in rows[2:])


def _launch(row: Mapping[str, str], units: Mapping[str, str], source: str) -> LaunchFigures:
    figures = {field: _figure(field, row, units, source) for field in QUANTITIES}
    if figures["duration_us"] is None:
        metrics = QUANTITIES["duration_us"][1:]
        raise LayoutUnknown("ncu-metric-missing", path=source, metrics=metrics)
    if not row[DEVICE].isdecimal():
        raise LayoutUnknown("ncu-no-number", path=source, column=DEVICE, value=row[DEVICE])
    names = {"kernel": KERNEL, "device": DEVICE, "grid": GRID, "block": BLOCK}
    texts = {field: row[column] for field, column in names.items()}
    return LaunchFigures.model_validate({**texts, **figures})


def _figure(
    field: str, row: Mapping[str, str], units: Mapping[str, str], source: str
) -> float | None:
    factors, *metrics = QUANTITIES[field]
    for metric in metrics:
        value = row.get(metric, "").strip()
        if value.lower() in _ABSENT:
            continue
        found = {"path": source, "column": metric}
        factor = factors.get(units[metric])
        if factor is None:
            known = tuple(factors)
            raise LayoutUnknown("ncu-unit-unknown", **found, value=units[metric], known=known)
        number = float(value.replace(",", "")) if _NUMBER.fullmatch(value) else math.inf
        if not math.isfinite(number):
            raise LayoutUnknown("ncu-no-number", **found, value=value)
        return number * factor
    return None
