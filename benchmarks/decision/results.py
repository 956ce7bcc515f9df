"""What was found, as one record on disk; knows not how it was found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field
from scipy.stats import binomtest

from benchmarks.decision.measured import Found, Summary
from benchmarks.decision.simulate import Cell, PeerCell
from perfgate.model.record import Record

COVERAGE = 0.95


class Simulated(Record):
    """The simulation's cells, and with what they were made."""

    versions: Mapping[str, str]
    seed: int
    cells: tuple[Cell, ...]
    peers: tuple[PeerCell, ...]


class Measured(Record):
    """What was found in real gates."""

    versions: Mapping[str, str]
    machine: Mapping[str, str]
    notes: tuple[str, ...] = ()
    found: tuple[Found, ...]
    summaries: tuple[Summary, ...] = ()


class Results(Record):
    """The whole of results.json."""

    format: Literal[2] = Field(default=2)
    """History: 1, the first rule; 2, the second, with steps that are the sum of their parts."""
    simulated: Simulated | None = None
    measured: Measured | None = None


def load(path: Path) -> Results:
    """Read what was found before; nothing where there is no file."""
    return (
        Results.model_validate_json(path.read_text(encoding="utf-8"))
        if path.exists()
        else Results()
    )


def as_json(results: Results) -> str:
    """Write one cell a line, so that a change of numbers is a readable change."""
    text = results.model_dump_json()
    for start in ('{"gate"', '{"peer"', '{"loop"', '"simulated":', '"measured":'):
        text = text.replace(start, f"\n{start}")
    return text + "\n"


def interval(times: int, of: int) -> tuple[float, float]:
    """Return the interval of a share that covers it at least `COVERAGE` of the time (Clopper and
    Pearson)."""
    found = binomtest(times, of).proportion_ci(COVERAGE, method="exact")
    return float(found.low), float(found.high)
