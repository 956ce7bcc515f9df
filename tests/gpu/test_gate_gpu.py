"""The whole gate on a real GPU with a real nsys: an unchanged loop passes, and each planted slip is caught by name.

About five minutes on an H200.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.gpu import needs_a_gate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]  # longer than any command below

LOOPS = Path(__file__).parents[2] / "workloads" / "small_loops.py"
Verdict = dict[str, object]


def gate(project: Path, slip: str = "", *options: str) -> tuple[int, Verdict]:
    """Run one gate on the MLP loop; its exit status and verdict."""
    document = project / "out.json"
    command = [sys.executable, "-m", "pytest", "--perfgate", "-k", "mlp", f"--perfgate-json={document}", *options]
    done = subprocess.run(
        command,
        cwd=project,
        # 3 % of a 3.26 ms step at 1980 MHz.
        env={**os.environ, "SMALL_SLIP": slip, "SLEEP_CYCLES": "194000"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    print(done.stdout)  # noqa: T201  (what the user sees is worth reading in the log)
    verdict: Verdict = json.loads(document.read_text())["workloads"][0]["verdict"]
    return done.returncode, verdict


def regressed(verdict: Verdict) -> set[str]:
    rows = verdict["metrics"]
    assert isinstance(rows, list)
    return {row["metric"] for row in rows if row["outcome"] == "REGRESSED"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a blessed baseline of the MLP loop."""
    needs_a_gate()
    root = tmp_path_factory.mktemp("project")
    (root / "pyproject.toml").write_text("[tool.perfgate]\n")
    (root / "workloads").mkdir()
    shutil.copy(LOOPS, root / "workloads")
    status, verdict = gate(root)
    assert (status, verdict["outcome"], verdict["runs"]) == (1, "NO_BASELINE", 5)
    bless = [sys.executable, "-c", "from perfgate.cli import main; main()", "bless", "--reason", "first baseline"]
    subprocess.run(bless, cwd=root, check=True, timeout=60)
    return root


def test_the_unchanged_loop_passes(project: Path) -> None:
    status, verdict = gate(project)
    assert (status, verdict["outcome"]) == (0, "PASSED")


@pytest.mark.parametrize(
    ("slip", "culprits"),
    [
        ("item", {"syncs", "d2h_copies"}),
        ("pageable", {"pageable_copies"}),
        ("kernel", {"launches"}),
        ("sleep", {"kernel_ms"}),
        ("stall", {"gap_ms", "step_ms"}),
    ],
)
def test_a_planted_slip_is_caught_by_its_metric(project: Path, slip: str, culprits: set[str]) -> None:
    status, verdict = gate(project, slip)
    assert (status, verdict["outcome"]) == (1, "REGRESSED")
    assert culprits <= regressed(verdict)


def test_nothing_kept_holds_the_environment(project: Path) -> None:
    os.environ["PERFGATE_TEST_MARK"] = "a-mark-that-must-not-leave"
    try:
        gate(project, "", "--perfgate-runs=1", "--perfgate-max-runs=1")
    finally:
        del os.environ["PERFGATE_TEST_MARK"]
    kept = [path for path in (project / ".perfgate").rglob("*") if path.is_file()]
    assert any(path.suffix == ".sqlite" for path in kept)
    holding = [path for path in kept if re.search(rb"a-mark-that-must-not-leave", path.read_bytes())]
    assert holding == []
