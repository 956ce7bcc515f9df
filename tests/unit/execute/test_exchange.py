"""What is ordered of a worker, and what it reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import records
from support.runs import bench_of

from perfgate.execute.exchange import order_of, read_worker_report
from perfgate.model.order import Ending, Order, WorkerReport
from perfgate.model.secrets import Cleaner


def test_the_order_names_what_the_worker_needs(tmp_path: Path) -> None:
    assert order_of(bench_of(tmp_path), records.workload(), tmp_path, blocks=None) == Order(
        workload="mlp",
        steps=30,
        warmup=10,
        root=str(tmp_path),
        worker_report=str(tmp_path / "worker-report.json"),
    )


@pytest.mark.parametrize(
    "text", [None, "", '{"ending": "finis', '{"ending": "finished"}', "[]", "\udcff"]
)
def test_an_account_that_is_none_or_half_is_none(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "worker-report.json"
    if text is not None:
        file.write_bytes(text.encode(errors="surrogateescape"))
    assert read_worker_report(file, Cleaner()) is None


def test_a_whole_account_is_read(tmp_path: Path) -> None:
    file = tmp_path / "worker-report.json"
    file.write_text(json.dumps({"ending": "wrong steps", "pid": 3}), encoding="utf-8")
    assert read_worker_report(file, Cleaner()) == WorkerReport(ending=Ending.WRONG_STEPS, pid=3)
