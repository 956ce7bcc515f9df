"""Stand-ins that note their calls, two sides of an A/B run in one process, and an order for a
project.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.sides import ABRun

from perfgate.execute.worker import capturing
from perfgate.model.order import Order


@pytest.fixture
def calls() -> list[str]:
    """What the stand-ins were called for, in order."""
    return []


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without libcuda."""
    monkeypatch.setattr(capturing, "_driver_library", lambda: None)


@pytest.fixture
def ab_run(tmp_path: Path) -> Iterator[ABRun]:
    for name in "ab":
        os.mkfifo(tmp_path / name)
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield ABRun(tmp_path, pool)


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """An order for a project in a folder of its own."""
    root = tmp_path / "project"
    root.mkdir()
    return Order(
        workload="mlp",
        steps=3,
        warmup=2,
        root=str(root),
        worker_report=str(tmp_path / "worker-report.json"),
    )
