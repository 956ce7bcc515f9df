"""The whole gate on a real GPU with a real nsys: an unchanged loop passes, and each planted
regression is caught by name.

About five minutes on an H200.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from support.gpu import Gate, bless, gate, needs_a_gate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]  # longer than any command below

LOOPS = Path(__file__).parents[2] / "workloads" / "small_loops.py"
SLEEP_CYCLES = "194000"
"""3 % of a 3.26 ms step at 1980 MHz."""


def gate_mlp(project: Path, regression: str, *options: str) -> Gate:
    """Gate the MLP loop with a regression, or with none."""
    return gate(
        project, "-k", "mlp", *options, SMALL_REGRESSION=regression, SLEEP_CYCLES=SLEEP_CYCLES
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a blessed baseline of the MLP loop."""
    needs_a_gate()
    root = tmp_path_factory.mktemp("project")
    (root / "pyproject.toml").write_text("[tool.perfgate]\n")
    (root / "workloads").mkdir()
    shutil.copy(LOOPS, root / "workloads")
    first = gate_mlp(root, "")
    assert (first.ended, first.verdict["runs"]) == ((1, "NO_BASELINE"), 5)
    bless(root, "--reason", "first baseline")
    return root


def test_the_unchanged_loop_passes(project: Path) -> None:
    assert gate_mlp(project, "").ended == (0, "PASSED")


@pytest.mark.parametrize(
    ("regression", "culprits"),
    [
        ("item", {"syncs", "d2h_copies"}),
        ("pageable", {"pageable_copies"}),
        ("kernel", {"launches"}),
        ("sleep", {"kernel_ms"}),
        ("stall", {"gap_ms", "step_ms"}),
    ],
)
def test_a_planted_regression_is_caught_by_its_metric(
    project: Path, regression: str, culprits: set[str]
) -> None:
    slipped = gate_mlp(project, regression)
    assert slipped.ended == (1, "REGRESSED")
    assert culprits <= slipped.regressed


def test_nothing_kept_holds_the_environment(project: Path) -> None:
    os.environ["PERFGATE_TEST_MARK"] = "a-mark-that-must-not-leave"
    try:
        gate_mlp(project, "", "--perfgate-runs=1", "--perfgate-max-runs=1")
    finally:
        del os.environ["PERFGATE_TEST_MARK"]
    kept = [path for path in (project / ".perfgate").rglob("*") if path.is_file()]
    assert any(path.suffix == ".sqlite" for path in kept)
    holding = [
        path for path in kept if re.search(rb"a-mark-that-must-not-leave", path.read_bytes())
    ]
    assert holding == []
