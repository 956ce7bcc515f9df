"""A duet on a real GPU with a real nsys: 1 % more GPU time is shown, and unchanged code passes against its commit.

About four minutes on an H200.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfgate.machine import read_machine
from perfgate.model.errors import PerfgateError
from perfgate.nsys.tool import find_nsys

pytestmark = pytest.mark.gpu

LOOPS = Path(__file__).parents[2] / "workloads" / "small_loops.py"
SLEEP = '_sleep(SLEEP_CYCLES if "sleep" in SLIPS else 100)'
ONE_PERCENT = "_sleep(64000)"
"""Of a 3.26 ms step at 1980 MHz: 0.032 ms, 1.2 % of its kernel time."""


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def gate(project: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run one gate on the MLP loop; its exit status and verdict."""
    document = project / ".perfgate" / "out.json"
    command = [sys.executable, "-m", "pytest", "--perfgate", "-k", "mlp", f"--perfgate-json={document}", *options]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=600, check=False)
    print(done.stdout)  # noqa: T201  (what the user sees is worth reading in the log)
    return done.returncode, json.loads(document.read_text())["workloads"][0]["verdict"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a blessed baseline of the MLP loop."""
    try:
        if not read_machine(os.environ, nsys=None, nsys_options=()).gpus:
            pytest.skip("no NVIDIA GPU on this machine")
        find_nsys(None, os.environ)
    except PerfgateError as missing:
        pytest.skip(f"no gate can run here: {missing.fact}")
    root = tmp_path_factory.mktemp("project")
    (root / "pyproject.toml").write_text("[tool.perfgate]\n")
    (root / ".gitignore").write_text(".perfgate/\n__pycache__/\n")
    (root / "workloads").mkdir()
    shutil.copy(LOOPS, root / "workloads")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "loops")
    status, verdict = gate(root, "--perfgate-runs=6")
    assert (status, verdict["outcome"]) == (1, "NO_BASELINE")
    bless = [sys.executable, "-c", "from perfgate.cli import main; main()", "bless", "--reason", "first baseline"]
    subprocess.run(bless, cwd=root, check=True, timeout=60)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "bless")
    return root


def test_one_percent_more_gpu_time_is_shown_by_a_duet(project: Path) -> None:
    loops = project / "workloads" / "small_loops.py"
    text = loops.read_text()
    assert SLEEP in text
    try:
        loops.write_text(text.replace(SLEEP, ONE_PERCENT))
        status, verdict = gate(project)
    finally:
        loops.write_text(text)
    assert (status, verdict["outcome"], verdict["stage"]) == (1, "REGRESSED", "duet")
    assert [row["metric"] for row in verdict["metrics"] if row["outcome"] == "REGRESSED"] == ["kernel_ms"]
    assert git(project, "worktree", "list").count("\n") == 0


def test_unchanged_code_passes_against_its_own_commit(project: Path) -> None:
    status, verdict = gate(project, "--perfgate-against=HEAD")
    assert (status, verdict["outcome"], verdict["stage"]) == (0, "PASSED", "duet")
    assert verdict["duet"]["commit"] == git(project, "rev-parse", "HEAD")
