"""The table of planted regressions: which gates it takes, how it keeps them, what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.regressions.__main__ import load, main

BEFORE = {
    "ranges": [
        {"name": "log", "count": 1.0, "cpu_ms": 1.0, "values": {"syncs": 0.0, "kernel_ms": 1.0}}
    ]
}
NOW = {
    "ranges": [
        {
            "name": "log",
            "count": 1.0,
            "cpu_ms": 2.0,
            "values": {"syncs": 1.0, "kernel_ms": 1.123456789},
        }
    ]
}
ROWS = [
    {"metric": "kernel_ms", "outcome": "REGRESSED", "baseline": 1.0, "now": 1.123456789},
    {"metric": "syncs", "outcome": "REGRESSED", "baseline": 0.0, "now": 1.0},
]

MACHINE = {
    "gpus": [{"name": "NVIDIA L4", "uuid": "GPU-1"}],
    "driver": "580.1",
    "torch": "2.11.0",
    "nsys": "2025.3.1",
}


def found(regression: str, **changes: object) -> dict[str, Any]:
    return {
        "regression": regression,
        "loop": "eager",
        "before": BEFORE,
        "now": NOW,
        "metrics": ROWS,
        "wall_s": 3.0,
        **changes,
    }


def recorded(folder: Path, *gates: dict[str, Any]) -> Path:
    (folder / "regressions.json").write_text(json.dumps({"machine": MACHINE, "gates": gates}))
    record = folder / "record.json.xz"
    assert main(["record", str(record), str(folder / "regressions.json")]) == 0
    return record


def test_gates_of_regressions_are_kept_and_newer_ones_take_the_place_of_older(
    tmp_path: Path,
) -> None:
    recorded(tmp_path, found("none"), found("item"), found("cpu", now={}), found("print"))
    record = recorded(tmp_path, found("item", loop="mixed"))
    assert [(gate.regression, gate.loop) for gate in load(record)] == [
        ("item", "mixed"),
        ("print", "eager"),
    ]
    assert load(record)[0].metrics[0].now == 1.1234568


def test_the_table_shows_what_regressed_and_what_the_explanation_says_first(tmp_path: Path) -> None:
    record = recorded(tmp_path, found("item"))
    assert main(["table", str(record), "--out", str(tmp_path / "RESULTS.md")]) == 0
    lines = (tmp_path / "RESULTS.md").read_text().splitlines()
    assert "## NVIDIA L4, driver 580.1, torch 2.11.0, nsys 2025.3.1" in lines
    assert (
        lines[-1] == "| eager | item | kernel_ms +12.3%, syncs 0 -> 1 | syncs: +1: +1 under log |"
    )


def test_there_is_no_table_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["table", str(tmp_path / "none.json.xz"), "--out", str(tmp_path / "RESULTS.md")])
    assert "there is no gate in it" in capsys.readouterr().err
    assert not (tmp_path / "RESULTS.md").exists()
