"""A series of two variants, without a GPU, from the command line to its verdict."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from benchmarks.series import __main__ as command
from benchmarks.series.judging import Finding, judge_loop
from benchmarks.series.measuring import Nsys
from benchmarks.series.recording import load
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.profilers.nsys.tool import NsysTool

pytestmark = pytest.mark.nsys

LAB = """\
import os
import time

import nvtx
import pytest
from perfgate import workload

ASKED = os.environ.get("VARIANTS", "workers").split(",")
SHOWN = ("cpu", "workers") if "all" in ASKED else ASKED
CHOSEN = [variant for variant in ("cpu", "gpu", "workers") if variant in SHOWN]


@workload(steps=8, warmup=1)
@pytest.mark.parametrize("variant", CHOSEN)
def data_load_lab(steps, variant):
    if variant == "gpu":
        raise RuntimeError("CUDA out of memory")
    for _ in steps:
        with nvtx.annotate("data_load"):
            time.sleep(0.012 if variant == "cpu" else 0.002)
        with nvtx.annotate("forward"):
            time.sleep(0.002)
"""
"""Three variants, of which `all` shows two: the third fails."""
STRICT = """\
[tool.perfgate]
[tool.pytest.ini_options]
filterwarnings = ["error"]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nsys_tool: NsysTool) -> Path:
    """A project with a series, whose runs wait for no gate elsewhere on this machine."""
    (tmp_path / "pyproject.toml").write_text(STRICT, encoding="utf-8")
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "data_load_lab.py").write_text(LAB, encoding="utf-8")
    monkeypatch.setenv("PERFGATE_NSYS", str(nsys_tool.path))
    monkeypatch.setattr(command, "Nsys", partial(Nsys, locks=tmp_path / "locks"))
    return tmp_path


def run(project: Path, *options: str) -> int:
    return command.main(
        [
            "run",
            str(project / "out.json"),
            "--project",
            str(project),
            "--workload",
            "data_load_lab",
            *options,
        ]
    )


def test_a_series_is_climbed_in_two_goes_and_judged(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(project, "--runs", "1") == 0
    assert run(project, "--runs", "3", "--seconds", "120") == 0
    said = [
        line.partition(",")[0] for line in capsys.readouterr().out.splitlines() if ": run " in line
    ]
    assert said == [
        *("data_load_lab[cpu]: run 1 of 1", "data_load_lab[workers]: run 1 of 1"),
        *("data_load_lab[workers]: run 2 of 3", "data_load_lab[cpu]: run 2 of 3"),
        *("data_load_lab[cpu]: run 3 of 3", "data_load_lab[workers]: run 3 of 3"),
    ]
    recording = load(project / "out.json")
    (machine,) = recording.machines
    assert machine.nvtx is not None
    for variant in recording.variants:
        processes = [process for one in variant.sound for process in one.run.processes]
        assert [process.steps for process in processes] == [8, 8, 8]
        assert [len(process.periods_ms) for process in processes] == [
            6,
            6,
            6,
        ]  # between completions, but for the first
        assert len({one.code for one in variant.sound}) == 1
    ranges = [one.longest_ranges for one in recording.variants[0].sound]
    assert ranges == [["data_load", "forward"]] * 3
    (step,) = judge_loop(recording, "data_load_lab")
    assert (step.variant, step.before) == ("workers", "cpu")
    assert step.up is not None
    assert step.down is not None
    # Three runs of which one is extreme fail nothing.
    assert step.up.outcome in (Outcome.IMPROVED, Outcome.INCONCLUSIVE)
    assert step.down.outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
    if step.down.outcome is Outcome.REGRESSED:
        assert {row.metric for row in step.down.metrics if row.outcome is Outcome.REGRESSED} == {
            Metric.STEP_MS
        }
        assert (step.finding, step.why) == (Finding.AS_TAUGHT, ())


def test_a_variant_that_fails_is_reported_and_kept_apart(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(project, "--runs", "1", "--variant", "gpu") == 1
    assert (
        "data_load_lab[gpu]: failed, it raised RuntimeError: CUDA out of memory"
        in capsys.readouterr().out
    )
    (gpu,) = load(project / "out.json").variants
    assert [failure.reason for failure in gpu.failures] == [
        "it raised RuntimeError: CUDA out of memory"
    ]


def test_a_file_that_cannot_be_collected_is_reported_in_a_sentence(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "workloads" / "data_load_lab.py").write_text(
        "raise ValueError('no such variant')\n", encoding="utf-8"
    )
    assert run(project) == 2
    said = capsys.readouterr().err
    assert said.startswith("data_load_lab.py: the workloads cannot be collected (")
    assert said.endswith("ValueError: no such variant).\n")
