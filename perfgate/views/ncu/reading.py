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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from perfgate.model.comparison import LaunchFigures
from perfgate.model.errors import LayoutUnknown

PERCENT: Final = {"%": 1.0}
NUMBER: Final = {"": 1.0}
TIMES: Final = {"ns": 1e-3, "nsecond": 1e-3}
"""In us; base units, the long names those of ncu before 2024.2, here and in the next."""
CLOCKS: Final = {"hz": 1e-6, "cycle/second": 1e-6, "cycle/nsecond": 1e3}
"""In MHz."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """One figure, and the metrics that hold it: the first one that a report has."""

    field: str
    metrics: tuple[str, ...]
    units: Mapping[str, float]
    """Factors by unit."""
    is_required: bool = False


QUANTITIES: Final[Sequence[Quantity]] = (
    Quantity(
        field="duration_us", metrics=("gpu__time_duration.sum",), units=TIMES, is_required=True
    ),
    Quantity(
        field="compute_percent",
        metrics=("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
        units=PERCENT,
    ),
    Quantity(
        field="memory_percent",
        metrics=("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",),
        units=PERCENT,
    ),
    Quantity(
        field="dram_percent",
        metrics=(
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        units=PERCENT,
    ),
    Quantity(
        field="occupancy_percent",
        metrics=("sm__warps_active.avg.pct_of_peak_sustained_active",),
        units=PERCENT,
    ),
    Quantity(
        field="occupancy_limit_percent",
        metrics=("sm__maximum_warps_per_active_cycle_pct",),
        units=PERCENT,
    ),
    Quantity(
        field="registers",
        metrics=("launch__registers_per_thread",),
        units={"register/thread": 1.0, **NUMBER},
    ),
    Quantity(field="waves", metrics=("launch__waves_per_multiprocessor",), units=NUMBER),
    Quantity(
        field="sm_clock_mhz",
        metrics=(
            "gpc__cycles_elapsed.avg.per_second",
            "smsp__cycles_elapsed.avg.per_second",
            "sm__cycles_elapsed.avg.per_second",
        ),
        units=CLOCKS,
    ),
)
METRIC_NAMES: Final = tuple(name for quantity in QUANTITIES for name in quantity.metrics)

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
    figures: dict[str, float | None] = {}
    for quantity in QUANTITIES:
        figures[quantity.field] = found = _figure(quantity, row, units, source)
        if quantity.is_required and found is None:
            raise LayoutUnknown("ncu-metric-missing", path=source, metrics=quantity.metrics)
    if not row[DEVICE].isdecimal():
        raise LayoutUnknown("ncu-no-number", path=source, column=DEVICE, value=row[DEVICE])
    return LaunchFigures.model_validate(
        {
            "kernel": row[KERNEL],
            "device": int(row[DEVICE]),
            "grid": row[GRID],
            "block": row[BLOCK],
            **figures,
        }
    )


def _figure(
    quantity: Quantity, row: Mapping[str, str], units: Mapping[str, str], source: str
) -> float | None:
    for metric in quantity.metrics:
        value = row.get(metric, "").strip()
        if value.lower() in _ABSENT:
            continue
        factor = quantity.units.get(units[metric])
        if factor is None:
            raise LayoutUnknown(
                "ncu-unit-unknown",
                path=source,
                column=metric,
                value=units[metric],
                known=tuple(quantity.units),
            )
        if not _NUMBER.fullmatch(value) or not math.isfinite(
            number := float(value.replace(",", ""))
        ):
            raise LayoutUnknown("ncu-no-number", path=source, column=metric, value=value)
        return number * factor
    return None
