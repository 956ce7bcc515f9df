"""The workloads that perfgate ships, at CPU sizes, through the whole gate under a real nsys."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from support.project import Project

pytestmark = pytest.mark.nsys

TRIES = 3
"""On a CPU that other tests keep busy, the first steps may take longer by chance; then a run does
not count."""
WORKLOADS = Path(__file__).parents[2] / "workloads"


@pytest.mark.usefixtures("real_nsys")
@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="no torch here: it is in the extra torch"
)
def test_the_small_loops_are_measured_by_their_steps_without_a_gpu(project: Project) -> None:
    shutil.copy(WORKLOADS / "small_loops.py", project.root / "workloads")
    for _ in range(TRIES):
        seen = project.run(
            "--perfgate",
            "workloads/small_loops.py",
            "--perfgate-runs=1",
            "--perfgate-json=out.json",
        )
        assert seen.status == 1
        found = json.loads((project.root / "out.json").read_text())
        if not any("raise warmup" in one["verdict"]["reason"] for one in found["workloads"]):
            break
    assert [one["verdict"]["workload"] for one in found["workloads"]] == ["mlp", "transformer"]
    outcomes = [(one["verdict"]["outcome"], one["verdict"]["reason"]) for one in found["workloads"]]
    assert {outcome for outcome, _ in outcomes} == {"NO_BASELINE"}, outcomes
    for one in found["workloads"]:
        (run,) = one["runs"]
        assert run["invalid"] == []
        if not found["machine"]["gpus"]:
            assert list(run["values"]) == ["step_ms", "step_mean_ms"]
        assert 0 < run["values"]["step_ms"] < 1000
