"""Gates of this project's own workloads, with nothing changed, one after another, and what came of
each as a table.

    python -m benchmarks.unchanged run RECORD.json --gates 3 --seconds 1900
    python -m benchmarks.unchanged table RECORD.json [RECORD.json ...]

`run` makes whole gates as a user makes them (`pytest --perfgate`), against the committed baselines,
until the record holds so many of this commit on this machine or no further one would end in time;
run the same command again to go on. A gate that is begun is recorded, also if it is killed.
`table` writes RESULTS.md, a part for each record.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Literal

from pydantic import AliasChoices, Field

from perfgate.bless.gates import DOCUMENT_FILE
from perfgate.machine import read_machine
from perfgate.model.document import DocumentWorkload, GateDocument
from perfgate.model.document_text import read_document
from perfgate.model.machine import Machine
from perfgate.model.metric import GATED_TIMES, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.record import Moment, Record
from perfgate.model.verdict import Stage
from perfgate.profilers.nsys.tool import find_nsys
from perfgate.system.files import write_whole
from perfgate.system.git import read_commit

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
DONE, MISSING = 0, 1


class GatedWorkload(Record):
    """What one gate said of one workload."""

    workload: str
    outcome: Outcome
    stage: Stage | None = None
    runs: int = 0
    """Processes, those of a baseline's commit included."""
    reason: str = ""
    """Of what is not PASSED."""
    changes: Mapping[Metric, float] = {}
    """Of the times that are judged, in their basis."""
    information: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("information", "remarks")
    )
    warnings: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("warnings", "caveats")
    )


class UnchangedGate(Record):
    """One gate of all workloads."""

    at: Moment
    machine: Machine
    commit: str | None = None
    """None outside a repository."""
    took_s: float = Field(default=0.0, ge=0)
    exit_status: int | None = None
    """None while it is not at its end."""
    only: tuple[str, ...] = ()
    """Files of the workloads that were gated; all where there are none."""
    workloads: tuple[GatedWorkload, ...] = ()

    @property
    def has_passed(self) -> bool:
        """Whether it ended and every workload of it PASSED."""
        outcomes = {one.outcome for one in self.workloads}
        return self.exit_status == 0 and outcomes == {Outcome.PASSED}


class Recording(Record):
    """The whole file."""

    format: Literal[1] = 1
    """History: 1, the first."""
    gates: tuple[UnchangedGate, ...] = ()


def load(path: Path) -> Recording:
    """Read a record; an empty one where there is no file yet."""
    return Recording.model_validate_json(path.read_bytes()) if path.exists() else Recording()


def save(recording: Recording, path: Path) -> None:
    """Write a record; the file is never seen half written."""
    found = {"format": recording.format, **recording.model_dump(mode="json", exclude_defaults=True)}
    write_whole(path, json.dumps(found, indent=1) + "\n")


def workload_of(one: DocumentWorkload) -> GatedWorkload:
    """What is kept of a workload's verdict."""
    verdict = one.verdict
    rows = (verdict.of(metric) for metric in GATED_TIMES)
    return GatedWorkload(
        workload=verdict.workload,
        outcome=verdict.outcome,
        stage=verdict.stage,
        runs=len(one.runs) + len(one.reference_runs) + len(one.interleaved_runs),
        reason="" if verdict.outcome is Outcome.PASSED else verdict.reason,
        changes={
            row.metric: float(f"{row.change:.4g}")
            for row in rows
            if row is not None and row.change is not None and row.outcome is not None
        },
        information=verdict.information,
        warnings=verdict.warnings,
    )


# Making gates


def gate(root: Path, only: Sequence[str] = ()) -> tuple[int, GateDocument | None]:
    """Make one gate as a user does, which prints as it goes.

    Its exit status, and its document; none of a pytest that wrote none.
    """
    with tempfile.TemporaryDirectory(prefix="perfgate-unchanged-") as folder:
        file = Path(folder) / DOCUMENT_FILE
        command = [sys.executable, "-m", "pytest", "--perfgate", f"--perfgate-json={file}", *only]
        status = subprocess.run(command, cwd=root, check=False).returncode
        return status, read_document(file.read_text("utf-8")) if file.exists() else None


def make(
    path: Path,
    gates: int,
    begun: UnchangedGate,
    gate: Callable[[], tuple[int, GateDocument | None]],
    *,
    seconds: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Make gates until the record holds so many like `begun`, each saved at its begin and its end;
    False where a further one would take longer than is left."""
    ends = clock() + seconds
    this = (begun.machine, begun.commit, begun.only)
    while True:
        former = load(path).gates
        own = [
            one
            for one in former
            if (one.machine, one.commit, one.only) == this and one.exit_status is not None
        ]
        if len(own) >= gates:
            return True
        began = clock()
        if began + max((one.took_s for one in own), default=0.0) > ends:
            return False
        begun = begun.model_copy(update={"at": datetime.now(UTC)})
        save(Recording(gates=(*former, begun)), path)
        status, document = gate()
        done = begun.model_copy(
            update={
                "took_s": round(clock() - began, 1),
                "exit_status": status,
                "workloads": tuple(map(workload_of, document.workloads)) if document else (),
            }
        )
        save(Recording(gates=(*former, done)), path)


# What is shown


def markdown(recordings: Sequence[Recording]) -> str:
    """A part for each record: a line a gate, how many PASSED in a row, and a row for each workload
    in each gate."""
    lines = [
        "# Gates of unchanged code",
        "",
        (
            "Made by `python -m benchmarks.unchanged run` and `table`; do not edit. Each gate is "
            "a `pytest --perfgate` of all default workloads, or of those named, against the "
            "committed baselines, as a user makes it; all that were begun are counted. Changes "
            "are estimates against the baseline, of steps and `kernel_ms` relative, of the "
            "others in percentage points of a step."
        ),
        "",
    ]
    for recording in recordings:
        lines += _part(recording.gates)
    return "\n".join(lines)


def _part(gates: Sequence[UnchangedGate]) -> list[str]:
    """What one record's gates came to."""
    lines = [f"## {', '.join(sorted({one.machine.gpu_name for one in gates}))}", ""]
    lines += [f"- gate {number}: {_described(one)}" for number, one in enumerate(gates, start=1)]
    passed = [one.has_passed for one in gates]
    lines += [
        "",
        f"{sum(passed)} of {len(passed)} PASSED as a whole, {_longest(passed)} of them in a row.",
        "",
    ]
    rows = sorted(
        (
            (workload, number)
            for number, one in enumerate(gates, start=1)
            for workload in one.workloads
        ),
        key=lambda row: (row[0].workload, row[1]),
    )
    metrics = [
        metric for metric in GATED_TIMES if any(metric in workload.changes for workload, _ in rows)
    ]
    lines.append(f"| {' | '.join(['workload', 'gate', 'outcome', 'runs', *metrics])} |")
    lines.append(f"| {' | '.join(['---', '---:', '---', '---:', *['---:'] * len(metrics)])} |")
    for workload, number in rows:
        stage = "" if workload.stage in (None, Stage.SCREEN) else f" ({workload.stage})"
        cells = [_percent(workload.changes.get(metric)) for metric in metrics]
        outcome = f"{workload.outcome}{stage}"
        lines.append(
            f"| "
            f"{' | '.join([workload.workload, str(number), outcome, str(workload.runs), *cells])} |"
        )
    notes = [
        f"- gate {number}, {workload.workload}: {workload.reason}"
        for workload, number in rows
        if workload.reason
    ]
    return [*lines, *(["", *notes] if notes else []), ""]


def _described(one: UnchangedGate) -> str:
    machine = one.machine
    where = (
        f"{machine.gpu_name}, driver {machine.driver}, torch {machine.torch}, nsys {machine.nsys}"
    )
    ended = (
        "not at its end"
        if one.exit_status is None
        else f"exit status {one.exit_status} after {one.took_s:.0f} s"
    )
    of = f" of {', '.join(one.only)}" if one.only else ""
    return f"{one.at:%Y-%m-%d %H:%M}{of}, {ended}; commit {one.commit or 'unknown'}, {where}"


def _longest(passed: Sequence[bool]) -> int:
    longest = length = 0
    for one in passed:
        length = length + 1 if one else 0
        longest = max(longest, length)
    return longest


def _percent(change: float | None) -> str:
    return "-" if change is None else f"{100 * change:+z.2f} %"


# The command


def main(argv: Sequence[str] | None = None) -> int:
    """Do what is asked, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.unchanged",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="{run,table}")
    run = kinds.add_parser(
        "run", help="make gates", description="Make gates. Exits 1 where some are still missing."
    )
    run.add_argument("record", type=Path, metavar="RECORD.json", help="outside the project")
    run.add_argument(
        "--gates", type=int, default=3, metavar="N", help="of this commit on this machine"
    )
    run.add_argument(
        "--seconds", type=float, default=1900, metavar="N", help="begin no gate that ends later"
    )
    run.add_argument("--only", nargs="+", default=(), metavar="FILE", help="these workloads' files")
    table = kinds.add_parser("table", help="write RESULTS.md")
    table.add_argument("records", type=Path, nargs="+", metavar="RECORD.json")
    given = parser.parse_args(argv)
    if given.what == "table":
        text = markdown([load(path) for path in given.records])
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")
        return DONE
    commit = read_commit(ROOT)
    if commit is None or commit.dirty:
        parser.error("the checkout has changes, or is none: a gate would say nothing of a commit")
    begun = UnchangedGate(
        at=datetime.now(UTC),
        machine=read_machine(
            os.environ, nsys=str(find_nsys(None, os.environ).version), nsys_options=()
        ),
        commit=commit.sha[:12],
        only=tuple(given.only),
    )
    is_done = make(
        given.record, given.gates, begun, partial(gate, ROOT, begun.only), seconds=given.seconds
    )
    return DONE if is_done else MISSING


if __name__ == "__main__":
    sys.exit(main())
