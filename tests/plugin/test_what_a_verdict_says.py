"""What a verdict says: what the step takes now, what the user loses, the interval that decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from support import records
from support.project import LOOP, Project

from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import Metric
from perfgate.model.sample import Run

pytestmark = pytest.mark.behaviour

VALUES: Mapping[Metric, float] = {
    Metric.STEP_MS: 10.0,
    Metric.KERNEL_MS: 6.0,
    Metric.GAP_MS: 2.0,
    Metric.D2H_COPIES: 0,
}
WOBBLE = (0.001, -0.001, 0.0005, -0.0005, 0.0)
NOISE = (0.06, -0.05, 0.04, -0.06, 0.05, -0.04, 0.06, -0.05, 0.04, -0.06)


def measured(by: float, **more: float) -> Run:
    """A run whose times are all so much larger."""
    values = {metric: value * (1 + by) for metric, value in VALUES.items()}
    values |= {Metric(name): value for name, value in more.items()}
    return records.run().model_copy(update={"processes": (records.process(values),)})


@pytest.fixture
def blessed(project: Project) -> Project:
    """A project on an H200 with one quiet workload and its baseline."""
    project.gpus()
    project.workload(LOOP)
    runs = tuple(BlessedRun(values=measured(by).measured()) for by in WOBBLE)
    project.bless(records.in_one_occasion(project.baseline(), runs=runs))
    return project


def verdict_of(project: Project, *arguments: str, width: int = 100) -> tuple[dict[str, Any], str]:
    """The verdict of a gate, and what the terminal says."""
    seen = project.gate(
        "--perfgate-json=gate.json", "--perfgate-markdown=gate.md", *arguments, columns=width
    )
    (one,) = json.loads((project.root / "gate.json").read_text("utf-8"))["workloads"]
    return one["verdict"], seen.out


def row(verdict: dict[str, Any], metric: str = "step_ms") -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in verdict["metrics"] if row["metric"] == metric)
    return found


@pytest.mark.parametrize("width", [80, 200])
def test_a_drift_of_one_percent_is_seen_where_it_passed(blessed: Project, width: int) -> None:
    blessed.measures(*(measured(0.01 + by) for by in WOBBLE))
    verdict, out = verdict_of(
        blessed, "--perfgate-budget=step_ms=0.03", "--perfgate-budget=kernel_ms=0.03", width=width
    )
    assert verdict["outcome"] == "PASSED"
    line = next(line for line in out.splitlines() if line.startswith("PASSED"))
    markdown = (blessed.root / "gate.md").read_text("utf-8").replace("\\", "")
    for said in (line, next(line for line in markdown.splitlines() if "PASSED" in line)):
        assert all(part in said for part in ("loop", "10.10", "+1.0 %", "3 %", "5 runs")), said
    assert "kernel_ms  " not in out
    assert "kernel_ms  " in verdict_of(blessed, "-v")[1]


def test_of_a_gate_that_a_count_ended_the_step_is_an_estimate(blessed: Project) -> None:
    blessed.measures(*(measured(0.05 + by, d2h_copies=1) for by in WOBBLE))
    verdict, out = verdict_of(blessed)
    assert (verdict["outcome"], verdict["runs"], row(verdict)["outcome"]) == ("REGRESSED", 2, None)
    assert verdict["reason"].startswith("+5.0 % step_ms")
    assert "estimate" in verdict["reason"]
    assert "d2h_copies 0 to 1" in verdict["reason"]
    (line,) = (line for line in out.splitlines() if line.startswith("  step_ms "))
    assert line.split()[-1] != "shown"
    assert "estimate" in line


@pytest.mark.parametrize("slower", [-0.1, 0.0, 0.011, 0.03, 0.168])
@pytest.mark.parametrize("noise", [0.0, 0.3, 2.0])
def test_the_interval_that_is_shown_decides(blessed: Project, slower: float, noise: float) -> None:
    blessed.measures(*(measured(slower + noise * by) for by in NOISE))
    verdict, out = verdict_of(blessed, width=200)
    judged = [
        row for row in verdict["metrics"] if row["low"] is not None and row["outcome"] is not None
    ]
    assert judged
    for one in judged:
        within, lost = one["high"] < one["budget"], one["low"] > 0
        expected = {"PASSED", "IMPROVED"} if within else {"REGRESSED"} if lost else {"INCONCLUSIVE"}
        assert one["outcome"] in expected, one
    if verdict["outcome"] != "PASSED":
        assert out.count("97.5 %") >= 1


def test_explain_shows_the_change_that_the_gate_judged(blessed: Project) -> None:
    # Of which the medians say +3 %, and the means, which were compared, less.
    blessed.measures(
        *(measured(by) for by in (0.03, 0.0, 0.03, 0.0, 0.03, 0.0, 0.03, 0.0, 0.03, 0.03))
    )
    verdict, _ = verdict_of(blessed)
    change = f"{100 * row(verdict)['change']:+.1f} %"
    out = blessed.perfgate("explain", "loop").out
    line = next(line for line in out.splitlines() if line.strip().startswith("step_ms "))
    assert change in line
