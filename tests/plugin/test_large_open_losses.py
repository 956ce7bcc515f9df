"""A loss that is not shown, and may be large, keeps the gate shut: whatever `inconclusive` says,
and whoever asks."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from support import records
from support.project import LOOP, Project

from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.sample import Run

pytestmark = pytest.mark.behaviour

VALUES: Mapping[Metric, float] = {
    Metric.STEP_MS: 10.0,
    Metric.STEP_MEAN_MS: 10.0,
    Metric.KERNEL_MS: 6.0,
    Metric.GAP_MS: 2.0,
    Metric.H2D_MS: 2.0,
    Metric.H2D_EXPOSED_MS: 1.0,
    Metric.MEM_EXPOSED_MS: 1.0,
    Metric.NCCL_EXPOSED_MS: 1.0,
    Metric.LAUNCHES: 46,
}
WOBBLE = (1.2, -1.1, 0.9, -1.3, 1.0, -0.8, 0.9, -0.9, 1.2, -1.1)
"""Around 0.01, in SDs, so that neither a loss nor its absence is shown."""
TIMES = tuple(metric for metric in VALUES if METRICS[metric].time is not None)


def measured(metric: Metric, change: float, spread: float, run: int) -> Run:
    """A run with one metric changed by so much, in the mean of ten, in its basis."""
    time = METRICS[metric].time
    assert time is not None
    whole = VALUES[metric] if time.basis is Basis.LOG else VALUES[Metric.STEP_MS]
    moved = whole * (change + spread * WOBBLE[run % len(WOBBLE)])
    values = {**VALUES, metric: VALUES[metric] + moved}
    return records.run().model_copy(update={"processes": (records.process(values),)})


def bless(
    project: Project, metric: Metric, *, spread: float, clock_mhz: float | None = None
) -> None:
    """A blessed loop on an H200 of which this metric varies from run to run."""
    project.gpus()
    project.workload(LOOP)
    runs = tuple(
        BlessedRun(values=measured(metric, 0.0, spread, number).measured(), sm_clock_mhz=clock_mhz)
        for number in range(5)
    )
    project.bless(records.in_one_occasion(project.baseline(), runs=runs))


def budget(metric: Metric) -> float:
    time = METRICS[metric].time
    assert time is not None
    return time.budget


def outcome(project: Project) -> tuple[str, bool, int]:
    document = project.written("gate.json")
    (one,) = document.workloads
    return one.verdict.outcome, one.opens_gate, document.exit_status


@pytest.mark.parametrize("metric", TIMES)
@pytest.mark.parametrize(("budgets", "status"), [(1.6, 0), (2.8, 1)])
def test_an_estimate_of_two_budgets_keeps_the_gate_shut(
    project: Project, metric: Metric, budgets: float, status: int
) -> None:
    spread = 3 * budget(metric)
    bless(project, metric, spread=spread)
    project.measures(
        *(measured(metric, budgets * budget(metric), spread, run) for run in range(10))
    )
    seen = project.gate("--perfgate-inconclusive=warn", "--perfgate-json=gate.json")
    assert (*outcome(project), seen.status) == ("INCONCLUSIVE", status == 0, status, status)


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("slower", [0.03, 4.95])
def test_fewer_runs_than_a_verdict_needs_keep_it_shut(
    project: Project, runs: int, slower: float
) -> None:
    bless(project, Metric.STEP_MS, spread=0.002)
    project.measures(measured(Metric.STEP_MS, slower, 0.0, 0))
    seen = project.gate(
        f"--perfgate-runs={runs}",
        f"--perfgate-max-runs={runs}",
        "--perfgate-inconclusive=warn",
        "--perfgate-json=gate.json",
    )
    assert (*outcome(project), seen.status) == ("INCONCLUSIVE", False, 1, 1)


def test_so_do_they_where_the_time_is_spent(project: Project) -> None:
    bless(project, Metric.STEP_MS, spread=0.002)
    project.measures(measured(Metric.STEP_MS, 0.03, 0.0, 0).model_copy(update={"wall_s": 60.0}))
    project.write("pyproject.toml", "[tool.perfgate]\nruns = 1\ntime_budget_s = 70\n")
    seen = project.gate("--perfgate-json=gate.json")
    assert (*outcome(project), seen.status) == ("INCONCLUSIVE", False, 1, 1)


def test_what_a_higher_clock_may_hide_counts_as_lost(project: Project) -> None:
    bless(project, Metric.STEP_MS, spread=0.0, clock_mhz=1800.0)
    project.measures(measured(Metric.STEP_MS, 0.0, 0.0, 0))  # at 1980 MHz
    seen = project.gate("--perfgate-json=gate.json")
    assert (*outcome(project), seen.status) == ("INCONCLUSIVE", False, 1, 1)


@pytest.mark.parametrize("forge", [False, True])
def test_merging_does_not_open_it_either(project: Project, forge: bool) -> None:
    spread = 0.06
    bless(project, Metric.STEP_MS, spread=spread)
    project.measures(*(measured(Metric.STEP_MS, 0.05, spread, run) for run in range(10)))
    assert project.gate("--perfgate-json=gate.json").status == 1
    document = json.loads((project.root / "gate.json").read_text("utf-8"))
    if forge:
        document |= {"opens_gate": True, "exit_status": 0, "shut_by": []}
        document["workloads"][0]["opens_gate"] = True
    folder = project.root / "gates" / "one"
    folder.mkdir(parents=True)
    (folder / "perfgate.json").write_text(json.dumps(document), "utf-8")
    assert project.perfgate("merge", "gates", "--json=all.json").status == 1
    merged = project.written("all.json")
    assert (merged.opens_gate, merged.workloads[0].opens_gate) == (False, False)
