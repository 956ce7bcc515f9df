"""`perfgate calibrate`: how much a workload differs from itself goes into its baseline, or a
sentence says why not."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path

import pytest
from support import records
from support.project import LOOP, Project, loops
from syrupy.assertion import SnapshotAssertion

from perfgate.cli import promoting
from perfgate.model.baseline import Baseline, Result, code_digest, code_files
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.system.process import gate_command

STEPS = (12.34, 12.31, 12.36, 12.33, 12.35)
Process = list[Sequence[str]]


@pytest.fixture
def calibrated(here: Project) -> Project:
    """A project with a workload whose baseline, of five runs, noted its code."""
    here.bless(baseline(here))
    return here


@pytest.fixture
def commands(calibrated: Project) -> Process:
    """The commands of gates, each run in this process instead; what it prints is not shown."""
    asked: Process = []

    def run_to_end(command: Sequence[str], *, cwd: Path, **_options: object) -> int:
        assert cwd == calibrated.root
        asked.append(command)
        with redirect_stdout(io.StringIO()):
            return calibrated.pytest(*command[3:]).status

    calibrated.patch.setattr(promoting, "run_to_end", run_to_end)
    return asked


def baseline(project: Project, name: str = "loop") -> Baseline:
    loaded = project.code()
    noted = {"code": code_digest(loaded), "code_files": code_files(loaded)}
    return project.baseline(name).model_copy(update=noted)


def kept(
    project: Project, days: float, *step_ms: float, outcome: Outcome = Outcome.PASSED
) -> Result:
    """Keep a result of unchanged code of so many days later."""
    at = records.NOON + timedelta(days=days)
    made = records.result(
        outcome,
        of=project.declared(),
        on=project.machine,
        at=at,
        measured=records.runs(*step_ms, at=at),
        code=project.code(),
    )
    project.keep(made)
    return made


def measures(project: Project, *outcomes: Run) -> None:
    project.measures(*(outcomes or records.runs()), code=[project.code()])


def stored(project: Project) -> Baseline:
    found = project.store.baselines.load("nvidia-h200", "loop")
    assert found is not None
    return found


def refused(project: Project, *arguments: str) -> tuple[str, int]:
    before = project.store.baselines.listed()
    seen = project.perfgate("calibrate", *arguments)
    assert seen.out == ""
    assert project.store.baselines.listed() == before
    return seen.err, seen.status


def test_kept_results_of_five_occasions_calibrate_a_baseline(
    calibrated: Project, snapshot: SnapshotAssertion
) -> None:
    for day, shift in enumerate((0.06, -0.04, 0.01, 0.03), start=1):
        kept(calibrated, day, *(ms + shift for ms in STEPS))
    before = stored(calibrated)
    seen = calibrated.perfgate("calibrate", "--kept", columns=80)
    assert seen.err == ""
    assert seen.out == snapshot
    assert seen.status == 0
    after = stored(calibrated)
    assert {
        metric: (spread.runs, spread.occasions) for metric, spread in after.calibration.items()
    } == dict.fromkeys((Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS, Metric.H2D_MS), (25, 5))
    assert after.model_copy(update={"calibration": {}}) == before


def test_budgets_that_cannot_be_held_are_reported_with_the_least_that_can(
    calibrated: Project, snapshot: SnapshotAssertion
) -> None:
    calibrated.write(
        "pyproject.toml",
        '[tool.perfgate]\nab_run = "off"\n[tool.perfgate.budgets]\nkernel_ms = 0.003\n',
    )
    kept(calibrated, 1, *(1.03 * ms for ms in STEPS), outcome=Outcome.REGRESSED)
    seen = calibrated.perfgate("calibrate", "loop", "--kept", columns=118)
    assert seen.out == snapshot
    assert seen.status == 0


@pytest.mark.parametrize(("hold", "wide"), [("auto", False), ("60%", True)])
def test_budgets_that_can_be_held_are_written_at_a_persons_word(
    calibrated: Project, hold: str, wide: bool
) -> None:
    calibrated.write("pyproject.toml", '[tool.perfgate]\nab_run = "off"\n')
    kept(calibrated, 1, *(1.03 * ms for ms in STEPS))
    assert calibrated.perfgate("calibrate", "loop", "--kept").status == 0
    assert stored(calibrated).held == {}
    assert calibrated.perfgate("calibrate", "loop", "--kept", "--hold", hold).status == 0
    budget = stored(calibrated).held[Metric.STEP_MS]
    assert budget == pytest.approx(0.6) if wide else 0.02 < budget < 0.6
    assert f"step_ms {100 * budget:.3g} %" in calibrated.perfgate("show", "loop", columns=200).out


# Measuring


def test_it_measures_first_by_the_gates_own_door(calibrated: Project, commands: Process) -> None:
    measures(calibrated, *records.runs(12.33, 12.36, 12.31, 12.38, 12.35))
    seen = calibrated.perfgate("calibrate")
    assert seen.err == ""
    assert commands == [
        gate_command(
            sys.executable,
            "--perfgate-runs=5",
            "--perfgate-max-runs=5",
            "workloads/loops.py::loop",
            root=calibrated.root,
        )
    ]
    assert stored(calibrated).calibration[Metric.STEP_MS].runs == 10


def test_a_gate_that_is_shut_has_measured_repeats_all_the_same(
    calibrated: Project, commands: Process
) -> None:
    measures(calibrated, *records.runs(24.66, 24.72, 24.62, 24.76, 24.7))
    assert calibrated.perfgate("calibrate").status == 0
    assert stored(calibrated).calibration[Metric.STEP_MS].runs == 10


def test_each_workload_is_written_for_itself(
    calibrated: Project, commands: Process, snapshot: SnapshotAssertion
) -> None:
    calibrated.workload(loops("other"), file="others.py")
    calibrated.bless(
        calibrated.baseline("other").model_copy(
            update={
                "code": "0" * 16,
                "digest": calibrated.declared("other", file="workloads/others.py").digest(),
            }
        )
    )
    measures(calibrated)
    seen = calibrated.perfgate("calibrate")
    assert seen.err == snapshot
    assert seen.status == 31
    assert stored(calibrated).calibration
    other = calibrated.store.baselines.load("nvidia-h200", "other")
    assert other is not None
    assert not other.calibration


def test_changed_code_is_refused_before_anything_is_measured(
    calibrated: Project, commands: Process, snapshot: SnapshotAssertion
) -> None:
    kept(calibrated, 1, *STEPS)
    calibrated.workload(LOOP.replace("0.001", "0.002"))
    assert refused(calibrated) == snapshot
    assert commands == []
    assert calibrated.perfgate("calibrate", "--kept").status == 0


def test_a_pytest_that_measures_nothing_is_reported_by_its_exit_status(
    calibrated: Project, snapshot: SnapshotAssertion
) -> None:
    calibrated.patch.setattr(promoting, "run_to_end", lambda *_arguments, **_options: 4)
    assert refused(calibrated) == snapshot


def test_a_gate_that_leaves_no_result_calibrates_nothing(
    calibrated: Project, snapshot: SnapshotAssertion
) -> None:
    kept(calibrated, 1, *STEPS)
    calibrated.patch.setattr(promoting, "run_to_end", lambda *_arguments, **_options: 1)
    assert refused(calibrated) == snapshot


# What there must be


def test_an_unknown_workload_is_named_next_to_those_that_there_are(
    calibrated: Project, snapshot: SnapshotAssertion
) -> None:
    assert refused(calibrated, "loops", "--kept") == snapshot


@pytest.mark.parametrize(("named", "subject"), [((), "baselines"), (("loop",), "loop")])
def test_without_a_baseline_there_is_nothing_to_calibrate(
    here: Project, named: Sequence[str], subject: str, snapshot: SnapshotAssertion
) -> None:
    assert refused(here, *named) == snapshot


def test_a_workload_without_a_baseline_here_is_passed_over_unless_it_is_named(
    calibrated: Project,
) -> None:
    calibrated.workload(loops("other"), file="others.py")
    assert calibrated.perfgate("calibrate", "--kept").status == 0
    assert calibrated.perfgate("calibrate", "--kept", "loop", "other").status == 18


@pytest.mark.parametrize("arguments", [("--kept", "--runs", "3"), ("--runs", "11")])
def test_what_makes_no_sense_is_a_usage_error(
    calibrated: Project, arguments: Sequence[str]
) -> None:
    assert refused(calibrated, *arguments)[1] == 2


# With a real nsys


@pytest.mark.nsys
def test_a_real_workload_is_measured_again_and_calibrated(
    project: Project, real_nsys: Sequence[str]
) -> None:
    strict = '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n'
    project.write("pyproject.toml", f'[project]\nname = "scratch"\nversion = "1"\n{strict}')
    project.workload(LOOP.replace("0.001", "0.005"))
    assert project.run("--perfgate").status == 1
    assert project.perfgate("bless", "--reason", "first", "--hold", "auto").status == 0
    command = [
        sys.executable,
        "-c",
        "from perfgate.cli import main; main()",
        "calibrate",
        "--runs",
        "2",
    ]
    done = subprocess.run(
        command, cwd=project.root, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("  loop run 2 of 2: step_ms ")]
    found = project.store.baselines.load("no-gpu", "loop")
    assert found is not None
    assert set(found.calibration) == {Metric.STEP_MS}
    assert found.calibration[Metric.STEP_MS].occasions == 1
    assert (
        5 <= found.calibration[Metric.STEP_MS].runs <= 7
    )  # on a busy CPU an outlier may be set aside
