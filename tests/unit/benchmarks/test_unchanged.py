"""Gates of unchanged code in a row: how many are made, what is kept of each, what is shown; none is
made here."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support import records

from benchmarks.unchanged import __main__ as command
from benchmarks.unchanged.__main__ import UnchangedGate, load, make, markdown
from perfgate.model.document import DocumentRun, DocumentWorkload, GateDocument
from perfgate.model.metric import Metric
from perfgate.model.note import quoted
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict, Stage, Verdict

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
H200 = records.machine()


def document(outcome: Outcome = Outcome.PASSED) -> GateDocument:
    rows = (
        MetricVerdict(
            metric=Metric.STEP_MS,
            outcome=Outcome.PASSED,
            baseline=3.0,
            now=3.003,
            change=0.00123456,
        ),
        MetricVerdict(metric=Metric.GAP_MS, outcome=None, now=0.1),
        MetricVerdict(
            metric=Metric.SYNCS, outcome=Outcome.PASSED, baseline=1.0, now=1.0, change=0.0
        ),
    )
    verdict = Verdict(
        workload="mlp",
        outcome=outcome,
        why=quoted("why."),
        metrics=rows,
        runs=3,
        stage=Stage.SCREEN,
    )
    run = DocumentRun(started_at=NOW, wall_s=9.0, values={Metric.STEP_MS: 3.0})
    workload = DocumentWorkload(verdict=verdict, opens_gate=True, runs=(run,) * 3)
    return records.document(workload, opens=outcome is Outcome.PASSED)


class Maker:
    """Makes gates of nothing, each of 500 s on a clock of its own."""

    def __init__(self, path: Path) -> None:
        self.now = 0.0
        self.ends: list[tuple[int, GateDocument | None]] = []
        self.path = path

    def __call__(self) -> tuple[int, GateDocument | None]:
        self.now += 500.0
        return self.ends.pop(0) if self.ends else (0, document())

    def take(self, gates: int, *, seconds: float = math.inf) -> bool:
        begun = UnchangedGate(at=NOW, machine=H200, commit="c0ffee")
        return make(self.path, gates, begun, self, seconds=seconds, clock=lambda: self.now)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "record.json")


def test_gates_are_made_until_there_are_so_many_and_a_second_call_goes_on(maker: Maker) -> None:
    assert not maker.take(3, seconds=1010)
    assert len(load(maker.path).gates) == 2
    assert maker.take(3)
    assert maker.take(3)
    made = load(maker.path).gates
    assert [one.has_passed for one in made] == [True] * 3
    assert [one.took_s for one in made] == [500.0] * 3
    assert made[0].workloads[0].changes == {Metric.STEP_MS: 0.001235}
    assert made[0].workloads[0].runs == 3


def test_what_did_not_pass_is_reported_with_its_reason(maker: Maker) -> None:
    maker.ends = [(0, document(Outcome.INCONCLUSIVE)), (4, None)]
    maker.take(3)
    lines = markdown([load(maker.path)]).splitlines()
    assert "1 of 3 PASSED as a whole, 1 of them in a row." in lines
    assert lines[-6:] == [
        "| workload | gate | outcome | runs | step_ms |",
        "| --- | ---: | --- | ---: | ---: |",
        "| mlp | 1 | INCONCLUSIVE | 3 | +0.12 % |",
        "| mlp | 3 | PASSED | 3 | +0.12 % |",
        "",
        "- gate 1, mlp: why.",
    ]


def test_a_gate_without_workloads_has_not_passed() -> None:
    assert not UnchangedGate(at=NOW, machine=H200, exit_status=0).has_passed


def test_the_committed_table_is_what_the_record_says() -> None:
    folder = Path(command.__file__).parent
    found = (folder / "RESULTS.md").read_text(encoding="utf-8")
    assert found == markdown([load(folder / "h200.json"), load(folder / "h100.json")]), (
        "table h200.json h100.json"
    )
    assert "-0.00 %" not in found
