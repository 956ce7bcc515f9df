"""What was found, as one record on disk (JSON) and as flat rows (CSV); knows not how it was found."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Final, Literal

from pydantic import Field
from scipy.stats import binomtest

from benchmarks.decision.measured import Found, Told
from benchmarks.decision.simulate import Cell
from perfgate.model.record import Record

COVERAGE: Final = 0.95
_COLUMNS: Final = (
    *("source", "workloads", "clocks_or_kind", "slowdown", "rule"),
    *("gates", "regressed", "share", "low", "high", "inconclusive", "mean_runs", "most_runs"),
)


class Simulated(Record):
    """The simulation's cells, and with what they were made."""

    versions: Mapping[str, str]
    seed: int
    gates: int = Field(ge=1)
    """A cell; twice as many where nothing got slower."""
    cells: tuple[Cell, ...]


class Measured(Record):
    """What was found in real gates."""

    versions: Mapping[str, str]
    machine: Mapping[str, str]
    remarks: tuple[str, ...] = ()
    found: tuple[Found, ...]
    told: tuple[Told, ...] = ()


class Results(Record):
    """The whole of results.json."""

    format: Literal[1] = 1
    """History: 1, the first."""
    simulated: Simulated | None = None
    measured: Measured | None = None


def load(path: Path) -> Results:
    """Read what was found before; nothing where there is no file."""
    return Results.model_validate_json(path.read_text(encoding="utf-8")) if path.exists() else Results()


def as_json(results: Results) -> str:
    """Write one cell a line, so that a change of numbers is a readable change."""
    text = results.model_dump_json()
    for start in ('{"clocks"', '{"loop"', '"simulated":', '"measured":'):
        text = text.replace(start, f"\n{start}")
    return text + "\n"


def as_csv(results: Results) -> str:
    """Write every share with its interval, simulated and measured: a row for each rule in each place."""
    out = StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(_COLUMNS)
    for cell in results.simulated.cells if results.simulated is not None else ():
        where = ("simulated", cell.population, cell.clocks, cell.slowdown, cell.rule)
        table.writerow((*where, *_counted(cell), cell.most_runs))
    for found in results.measured.found if results.measured is not None else ():
        table.writerow(("measured", found.loop, found.kind, found.slowdown, found.rule, *_counted(found), ""))
    return out.getvalue()


def _counted(cell: Cell | Found) -> tuple[str | int, ...]:
    low, high = interval(cell.regressed, cell.gates)
    shares = (f"{share:.5f}" for share in (cell.regressed / cell.gates, low, high))
    return cell.gates, cell.regressed, *shares, cell.inconclusive, f"{cell.runs / cell.gates:.3f}"


def interval(times: int, of: int) -> tuple[float, float]:
    """Return the interval of a share that covers it at least `COVERAGE` of the time (Clopper and Pearson)."""
    found = binomtest(times, of).proportion_ci(COVERAGE, method="exact")
    return float(found.low), float(found.high)
