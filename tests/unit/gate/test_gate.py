"""What is kept of a verdict that others change."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from support import records

from perfgate.gate.gate import Gate
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings
from perfgate.plugin.progress import Progress


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A gate of two workloads: "a" has lost, and "b" may have, which shows only where "a" has."""
    made = Gate(
        root=tmp_path,
        settings=Settings(),
        env={},
        worker_env={},
        nsys=None,
        pytest_options=(),
        runs_given=False,
        keep_captures=False,
        listener=Progress(StringIO(), live=False, width=80),
    )
    workloads = [records.workload(name=name) for name in ("a", "b")]
    made.expect(workloads)
    row = records.clock(
        Metric.STEP_MS, Outcome.INCONCLUSIVE, was=10, now=10.4, change=0.04, around=0.01
    )
    outcomes = {"a": (Outcome.REGRESSED, 0.001), "b": (Outcome.INCONCLUSIVE, 0.8)}
    for workload in workloads:
        outcome, level = outcomes[workload.id]
        verdict = records.verdict(outcome, name=workload.id, metrics=[row])
        verdict = verdict.model_copy(update={"loss_level": level, "loss_by": Metric.STEP_MS})
        result = records.result(of=workload, judged=verdict)
        folder = made.store.results.new_folder(
            workload.id, result.machine.slug, at=result.measured_at
        )
        made.store.results.save(result, folder)
        made.verdicts[workload.id] = verdict
        made._folders[workload.id] = folder
    return made


def test_a_loss_that_shows_at_the_end_is_kept_as_one(gate: Gate) -> None:
    assert gate.step_down() == ()
    kept = gate.store.results.latest("b")
    assert kept is not None
    assert kept.result.verdict == gate.verdicts["b"]
    assert kept.result.verdict.outcome is Outcome.REGRESSED


def test_what_cannot_be_kept_of_it_is_told(gate: Gate) -> None:
    kept = gate.store.results.latest("b")
    assert kept is not None
    (kept.folder / "result.json").unlink()
    (told,) = gate.step_down()
    assert gate.verdicts["b"].outcome is Outcome.REGRESSED
    assert told.startswith("b: ")
    assert "there is no such file" in told
