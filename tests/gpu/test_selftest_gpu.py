"""`perfgate selftest` and `perfgate calibrate` on a real GPU with a real nsys. About five minutes
on an H200."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.gpu import PERFGATE, needs_a_gate, run

from perfgate.machine import read_machine
from perfgate.model.metric import Metric
from perfgate.store import Store

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]  # longer than any command below


@pytest.fixture(scope="module", autouse=True)
def slug() -> str:
    """The machine's folder of baselines; skips where no gate can run."""
    needs_a_gate()
    return read_machine(os.environ, nsys=None, nsys_options=()).slug


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The selftest, and the folder that it kept."""
    folder = tmp_path_factory.mktemp("elsewhere")
    return run(folder, *PERFGATE, "selftest", "--keep", str(folder / "kept"), timeout_s=900), folder


def test_the_gate_works_on_this_runner(
    played: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, folder = played
    assert done.returncode == 0
    rows = [
        line.split()[0] for line in done.stdout.splitlines() if re.match(r"  (ok|FAIL|-) ", line)
    ]
    assert rows == ["ok"] * 6
    assert [path.name for path in folder.iterdir()] == ["kept"]


def test_the_loop_of_the_selftest_is_calibrated(
    played: tuple[subprocess.CompletedProcess[str], Path], slug: str
) -> None:
    _, folder = played
    project = folder / "kept" / "project"
    # Regressions were planted by the environment, which neither the code nor the parameters show.
    shutil.rmtree(project / ".perfgate")
    done = run(project, *PERFGATE, "calibrate", "--runs", "3", timeout_s=300)
    assert done.returncode == 0
    baseline = Store(project, "baselines").baselines.load(slug, "loop")
    assert baseline is not None
    assert 6 <= baseline.calibration[Metric.STEP_MS].runs <= 8
    assert Metric.KERNEL_MS in baseline.calibration
