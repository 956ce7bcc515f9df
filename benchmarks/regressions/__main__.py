"""What the gate made of the planted regressions of workloads/regressions.py, and what its
explanations say first, as a table.

    # on a GPU, with nsys:
    REGRESSIONS_TABLE=regressions.json python -m pytest tests/gpu/test_regressions_gpu.py
    python -m benchmarks.regressions record RECORD.json.xz regressions.json ...
    python -m benchmarks.regressions table RECORD.json.xz ...

`record` puts the gates of regressions into a record, in place of older ones of the same regression:
the verdict's rows, and what both sides are made of as a baseline keeps it. `table` explains them as
perfgate does now, and writes RESULTS.md, a part for each record.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from perfgate.explain.attribution import attributions, where
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record
from perfgate.model.sample import Breakdown
from perfgate.model.verdict import MetricVerdict
from perfgate.words import say

HERE: Final = Path(__file__).resolve().parent
DIGITS: Final = 8
LONGEST: Final = 320
"""Characters of a first line that the table shows."""
CLEAN: Final = "none"


class Gate(Record):
    """One gate of a loop with a regression planted."""

    regression: str
    loop: str
    machine: str = "an unknown machine"
    """GPU, driver, torch and nsys."""
    before: Breakdown
    now: Breakdown
    metrics: tuple[MetricVerdict, ...]

    @property
    def first_line(self) -> str:
        """What its explanation says first, with the metric."""
        written = where(attributions(self.before, self.now, self.metrics))
        return next((f"{metric}: {say.fact(one)}" for metric, one in written.items()), "")


GATES: Final = TypeAdapter(tuple[Gate, ...])


def load(path: Path) -> tuple[Gate, ...]:
    """Read a record; none where there is no file yet."""
    return GATES.validate_json(lzma.decompress(path.read_bytes())) if path.exists() else ()


def save(gates: Sequence[Gate], path: Path) -> None:
    """Write a record, small."""
    written = _rounded([gate.model_dump(mode="json", exclude_defaults=True) for gate in gates])
    text = json.dumps(written, separators=(",", ":"))
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def taken(table: Mapping[str, Any]) -> list[Gate]:
    """The gates of regressions among those in a file of REGRESSIONS_TABLE; clean loops
    are none.
    """
    machine = (
        {}
        if table["machine"] is None
        else {"machine": _machine(Machine.model_validate(table["machine"]))}
    )
    fields = set(Gate.model_fields) - {"machine"}
    return [
        Gate.model_validate({**{name: gate[name] for name in fields}, **machine})
        for gate in table["gates"]
        if gate["regression"] != CLEAN and gate["before"] and gate["now"]
    ]


def _machine(of: Machine) -> str:
    return f"{of.gpu_name}, driver {of.driver}, torch {of.torch}, nsys {of.nsys}"


def markdown(records: Mapping[Path, Sequence[Gate]]) -> str:
    """The tables, of the gates in each record."""
    command = " ".join(["python -m benchmarks.regressions table", *map(str, records)])
    rows = [
        "# What the gate made of planted regressions",
        "",
        (
            f"Made by `{command}`; do not edit. Each regression of `workloads/regressions.py` "
            "was planted and gated, 3 runs against 6 blessed ones. Changes are as the gate "
            "reckons them: `step_ms`, `kernel_ms` and large counts relative, other clocks in "
            "percentage points of a step. What REGRESSED is as it was judged when it was recorded. "
            "The first line of the explanation is as perfgate explains the record now; long ones "
            "are cut off."
        ),
    ]
    for gates in records.values():
        rows += [
            "",
            f"## {'; '.join(sorted({gate.machine for gate in gates}))}",
            "",
            "| loop | regression | REGRESSED | the explanation begins |",
            "| --- | --- | --- | --- |",
            *map(_row, gates),
        ]
    return "\n".join([*rows, ""])


def _row(gate: Gate) -> str:
    lost = (row for row in gate.metrics if row.outcome is Outcome.REGRESSED)
    step_ms = next((row.baseline for row in gate.metrics if row.metric is Metric.STEP_MS), None)
    sizes = ", ".join(f"{row.metric} {_moved(row, step_ms)}" for row in lost)
    first = gate.first_line
    shown = first if len(first) <= LONGEST else f"{first[: LONGEST - 3]}..."
    return f"| {gate.loop} | {gate.regression} | {sizes} | {shown.replace('|', '&#124;')} |"


def _moved(row: MetricVerdict, step_ms: float | None) -> str:
    before, now = row.baseline or 0.0, row.now or 0.0
    if METRICS[row.metric].basis is Basis.STEP and step_ms:
        return f"{100 * (now - before) / step_ms:+.1f} pp"
    return f"{now / before - 1:+.1%}" if before else f"0 -> {now:g}"


def _rounded(written: object) -> object:
    match written:
        case float():
            return float(f"{written:.{DIGITS}g}")
        case dict():
            return {name: _rounded(value) for name, value in written.items()}
        case list():
            return [_rounded(value) for value in written]
        case _:
            return written


def main(argv: Sequence[str] | None = None) -> int:
    """Do what is asked, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.regressions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="{record,table}")
    record = kinds.add_parser("record", help="put gates into a record")
    record.add_argument("record", type=Path, metavar="RECORD.json.xz")
    record.add_argument(
        "tables",
        type=Path,
        nargs="+",
        metavar="regressions.json",
        help="what REGRESSIONS_TABLE named",
    )
    table = kinds.add_parser("table", help="write RESULTS.md")
    table.add_argument("records", type=Path, nargs="+", metavar="RECORD.json.xz")
    table.add_argument("--out", type=Path, default=HERE / "RESULTS.md", metavar="FILE")
    given = parser.parse_args(argv)
    if given.what == "record":
        gates = {gate.regression: gate for gate in load(given.record)}
        for path in given.tables:
            gates |= {
                gate.regression: gate
                for gate in taken(json.loads(path.read_text(encoding="utf-8")))
            }
        save(list(gates.values()), given.record)
        return 0
    records = {path: load(path) for path in given.records}
    for path, found in records.items():
        if not found:
            parser.error(f"{path}: there is no gate in it")
    given.out.write_text(markdown(records), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
