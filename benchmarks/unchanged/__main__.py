"""Gates of this project's own workloads, with nothing changed, one after another, and what came of
each as a table.

    python -m benchmarks.unchanged run RECORD.json --gates 3 --seconds 1900
    python -m benchmarks.unchanged table RECORD.json [RECORD.json ...]

`run` makes whole gates as a user makes them (`pytest --perfgate`), against the committed baselines,
until the record holds so many of this commit on this machine or no further one would end in time;
run the same command again to go on. A gate that is begun is recorded, also if it is killed. A
record of some workloads alone is begun with `--only`. Where commands may not last as long as a
gate, start it in the background (`setsid nohup ... &`) and look at the record. It exits 2 before
the first gate where none could show anything: the checkout has changes, or no baseline is of this
GPU.
`table` writes RESULTS.md, a part for each record.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import AliasChoices, Field, ValidationError

from perfgate.bless.gates import DOCUMENT_FILE
from perfgate.machine import read_machine
from perfgate.model.baseline import Commit
from perfgate.model.document import DocumentWorkload, GateDocument
from perfgate.model.document_text import read_document
from perfgate.model.machine import Machine
from perfgate.model.metric import GATED_TIMES, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.pyproject import load_settings
from perfgate.model.record import Moment, Record
from perfgate.model.verdict import Stage
from perfgate.profilers.nsys.tool import find_nsys
from perfgate.store import Store
from perfgate.system.files import write_whole
from perfgate.system.git import changes, ignored, read_commit

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
GUESSED_S: Final = 600.0
"""What a gate of all workloads is taken to last before one was made: on another GPU than the
baselines', where each of seven takes three pairs, of 11 to 17 s a run on an H200."""
DONE, MISSING = 0, 1
_DIGITS: Final = 4
_NAMED: Final = 3
"""Changed files, of however many there are."""


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
    """Read a record; an empty one where there is no file yet.

    Raises:
        SystemExit: it is none.
    """
    try:
        return Recording.model_validate_json(path.read_bytes()) if path.exists() else Recording()
    except ValidationError as invalid:
        raise SystemExit(
            f"{path}: it is no record of gates ({invalid.errors()[0]['msg']})."
        ) from invalid


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
            row.metric: float(f"{row.change:.{_DIGITS}g}")
            for row in rows
            if row is not None and row.change is not None and row.outcome is not None
        },
        information=verdict.information,
        warnings=verdict.warnings,
    )


# Making gates


@dataclass(frozen=True, kw_only=True)
class Ended:
    """One gate at its end, with its document; none of a pytest that wrote none."""

    exit_status: int
    document: GateDocument | None = None


def gate(root: Path, only: Sequence[str] = ()) -> Ended:
    """Make one gate as a user does, which prints as it goes."""
    with tempfile.TemporaryDirectory(prefix="perfgate-unchanged-") as folder:
        document = Path(folder) / DOCUMENT_FILE
        status = subprocess.run(_command(document, only), cwd=root, check=False).returncode
        if not document.exists():
            return Ended(exit_status=status)
        return Ended(exit_status=status, document=read_document(document.read_text("utf-8")))


def _command(document: Path, only: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "--perfgate", f"--perfgate-json={document}", *only]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Gates one after another, each saved as soon as it has ended."""

    path: Path
    machine: Machine
    commit: str | None
    make: Callable[[], Ended]
    only: tuple[str, ...] = ()
    guessed_s: float = GUESSED_S
    say: Callable[[str], None] = print
    clock: Callable[[], float] = time.monotonic

    def own(self) -> list[UnchangedGate]:
        """The recorded gates of this commit, this machine and these workloads that came to their
        end."""
        this = (self.machine, self.commit, self.only)
        return [
            one
            for one in load(self.path).gates
            if (one.machine, one.commit, one.only) == this and one.exit_status is not None
        ]

    def take(self, gates: int, *, seconds: float) -> bool:
        """Make gates until there are so many; False where the time does not do."""
        ends = self.clock() + seconds
        while (made := len(self.own())) < gates:
            expected_s = max((one.took_s for one in self.own()), default=self.guessed_s)
            if expected_s > ends - self.clock():
                self.say(
                    f"{made} of {gates} gates are made; a further one would take {expected_s:.0f} s"
                )
                return False
            self._make_one(made + 1, gates)
        return True

    def _make_one(self, number: int, gates: int) -> None:
        former = load(self.path).gates
        begun = UnchangedGate(
            at=datetime.now(UTC),
            machine=self.machine,
            commit=self.commit,
            only=self.only,
        )
        save(Recording(gates=(*former, begun)), self.path)
        began = self.clock()
        ended = self.make()
        found = () if ended.document is None else tuple(map(workload_of, ended.document.workloads))
        done = begun.model_copy(
            update={
                "took_s": round(self.clock() - began, 1),
                "exit_status": ended.exit_status,
                "workloads": found,
            }
        )
        save(Recording(gates=(*former, done)), self.path)
        outcome = "PASSED" if done.has_passed else f"exit status {ended.exit_status}"
        self.say(
            f"gate {number} of {gates}: {outcome}, {len(found)} workloads, {done.took_s:.0f} s"
        )


def why_none(root: Path, machine: Machine, commit: Commit | None, baselines: str) -> str | None:
    """Say why gates of this project on this machine could show nothing of its commit; None if they
    can."""
    if commit is not None and commit.dirty:
        changed = changes(root, baselines=baselines)
        return (
            f"it has changes that no commit holds ({', '.join(changed[:_NAMED])}); commit "
            f"or ignore them"
        )
    listed = Store(root, baselines).baselines.listed()
    if machine.slug not in {one.slug for one in listed}:
        there = ", ".join(sorted({one.slug for one in listed})) or "none"
        return (
            f"no baseline is of {machine.gpu_name} (there are: {there}); run it where they "
            f"were blessed"
        )
    return None


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
    run.add_argument("record", type=Path, metavar="RECORD.json")
    run.add_argument(
        "--gates",
        type=int,
        default=3,
        metavar="N",
        help="of this commit on this machine (default: 3)",
    )
    run.add_argument(
        "--seconds",
        type=float,
        default=1900,
        metavar="N",
        help="begin no gate that would end later (default: 1900)",
    )
    run.add_argument(
        "--guess",
        type=float,
        default=GUESSED_S,
        metavar="N",
        help="seconds that the first gate is taken to last (default: %(default)g)",
    )
    run.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="FILE",
        help="gate the workloads of these files (default: all)",
    )
    run.add_argument(
        "--project", type=Path, default=ROOT, metavar="DIR", help="(default: this repository)"
    )
    table = kinds.add_parser("table", help="write RESULTS.md")
    table.add_argument("records", type=Path, nargs="+", metavar="RECORD.json")
    table.add_argument("--out", type=Path, default=HERE / "RESULTS.md", metavar="FILE")
    given = parser.parse_args(argv)
    if given.what == "table":
        recordings = {path: load(path) for path in given.records}
        for path, recording in recordings.items():
            if not recording.gates:
                parser.error(f"{path}: there is no gate in it")
        given.out.write_text(markdown(list(recordings.values())), encoding="utf-8")
        return DONE
    project, record = given.project.resolve(), given.record.resolve()
    commit = read_commit(project)
    inside = str(record.relative_to(project)) if record.is_relative_to(project) else None
    if commit is not None and inside is not None and inside not in ignored(project, [inside]):
        parser.error(
            f"{given.record}: a record in the project is a change of it; write it elsewhere"
        )
    machine = read_machine(
        os.environ, nsys=str(find_nsys(None, os.environ).version), nsys_options=()
    )
    baselines = load_settings(project, {}).baselines
    if (reason := why_none(project, machine, commit, baselines)) is not None:
        parser.error(f"{given.project}: {reason}")
    series = Series(
        path=record,
        machine=machine,
        commit=None if commit is None else commit.sha[:12],
        make=lambda: gate(project, given.only),
        only=tuple(given.only),
        guessed_s=given.guess,
    )
    return DONE if series.take(given.gates, seconds=given.seconds) else MISSING


if __name__ == "__main__":
    sys.exit(main())
