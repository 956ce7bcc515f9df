"""A newcomer's whole way: init, a first gate, bless, a second gate, on a real nsys and without a
GPU."""

from __future__ import annotations

import importlib.util
import json

import pytest
from support.project import Project

pytestmark = pytest.mark.nsys


@pytest.mark.usefixtures("real_nsys")
@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="no torch here: it is in the extra torch"
)
def test_the_example_goes_from_no_baseline_to_an_open_gate(project: Project) -> None:
    (project.root / "workloads").rmdir()
    project.patch.setenv(
        "OMP_NUM_THREADS", "1"
    )  # two threads on two busy cores: 0.4 ms a step, or 24
    project.patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    project.git("init", "--quiet", "--initial-branch=main")
    assert project.perfgate("init").status == 0
    project.commit()

    first = project.run("--perfgate", "--perfgate-json=first.json", timeout_s=240)
    assert first.status == 1, first.out
    found = json.loads((project.root / "first.json").read_text(encoding="utf-8"))
    (one,) = found["workloads"]
    assert (one["verdict"]["workload"], one["verdict"]["outcome"]) == ("example", "NO_BASELINE")
    for run in one["runs"]:
        assert run["invalid"] == []
        assert 0.05 < run["values"]["step_ms"] < 1000
    reports = list((project.root / ".perfgate" / "results").rglob("nvtx_sum.csv"))
    assert len(reports) == 5
    for report in reports:
        text = report.read_text(encoding="utf-8")
        assert [name for name in ("copy", "forward", "backward") if f",{name}\n" not in text] == []
    (project.root / "first.json").unlink()

    assert project.perfgate("bless", "--reason", "first baseline", "--hold", "auto").status == 0
    project.commit()

    second = project.run(
        "--perfgate", "--perfgate-budget=step_ms=0.9", "--perfgate-json=second.json", timeout_s=240
    )
    found = json.loads((project.root / "second.json").read_text(encoding="utf-8"))
    (one,) = found["workloads"]
    assert one["verdict"]["outcome"] in {"PASSED", "IMPROVED"}, second.out
    assert second.status == 0, second.out
