"""The step as a whole on a real GPU with a real nsys: a lost overlap every third step is a loss
that the mean shows alone, and idle time that faster kernels leave in a loop whose pace the CPU sets
is none.

About two minutes on an H100.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.gpu import bless, gate, needs_a_gate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

LOOP = '''\
"""Two kernels at once while the CPU works for a little longer: 4.5 ms of either in 6 ms."""

import os
import time

import torch

from perfgate import workload

REGRESSION = os.environ.get("REGRESSION", "")
CYCLES = 4_400_000 if REGRESSION == "faster" else 8_800_000


@workload(steps=60, warmup=20)
def side_by_side(steps):
    other = torch.cuda.Stream()
    here = torch.cuda.current_stream()
    for turn, _ in enumerate(steps):
        began = time.perf_counter()
        other.wait_stream(here)
        torch.cuda._sleep(CYCLES)
        with torch.cuda.stream(here if REGRESSION == "serial" and turn % 3 == 0 else other):
            torch.cuda._sleep(CYCLES)
        here.wait_stream(other)
        while time.perf_counter() - began < 0.006:
            pass
        torch.cuda.synchronize()
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a blessed baseline of the loop; what the environment plants would be in both
    sides of an A/B run."""
    needs_a_gate()
    root = tmp_path_factory.mktemp("whole")
    (root / "workloads").mkdir()
    (root / "workloads" / "loops.py").write_text(LOOP)
    (root / "pyproject.toml").write_text('[tool.perfgate]\nab_run = "off"\n')
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    assert gate(root).ended == (1, "NO_BASELINE")
    bless(root, "side_by_side", "--reason", "first baseline")
    return root


def test_an_overlap_that_is_lost_every_third_step_is_a_loss_of_the_mean_alone(
    project: Path,
) -> None:
    serial = gate(project, REGRESSION="serial")
    assert serial.ended == (1, "REGRESSED")
    assert serial.regressed == {"step_mean_ms"}
    assert 0.1 < serial.row("step_mean_ms")["change"] < 0.35
    # A host that others use makes single runs slower by a few percent, and leaves step_ms open.
    assert abs(serial.row("step_ms")["change"]) < 0.05
    assert "what ran side by side may run in turn" in " ".join(serial.output.split())


def test_idle_time_that_faster_kernels_leave_is_no_loss(project: Path) -> None:
    faster = gate(project, REGRESSION="faster")
    assert faster.ended == (0, "IMPROVED")
    row = faster.row("gap_ms")
    assert (row["outcome"], row["change"] > 0.2) == ("PASSED", True)
    assert "steps take no longer for it" in row["reason"]
    assert {"kernel_ms"} <= {
        row["metric"] for row in faster.verdict["metrics"] if row["outcome"] == "IMPROVED"
    }
