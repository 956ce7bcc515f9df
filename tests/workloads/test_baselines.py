"""The committed baselines are of the workloads of now: else a gate on their GPU would be
INCOMPARABLE, unseen here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfgate.model.workload import Workload
from perfgate.store import Store

pytest.importorskip("torch", reason="no torch here: it is in the extra torch")

ROOT = Path(__file__).parents[2]
LIST = """
import json
from pathlib import Path
from perfgate.plugin.listing import collect

found = collect(Path.cwd()).workloads
print(json.dumps([workload.model_dump(mode="json") for workload in found]))
"""


@pytest.fixture(scope="module")
def workloads() -> dict[str, Workload]:
    """What a plain gate of this repository collects, by id."""
    env = {
        name: value for name, value in os.environ.items() if name not in ("VARIANTS", "REGRESSION")
    }
    done = subprocess.run(
        [sys.executable, "-c", LIST],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = map(Workload.model_validate, json.loads(done.stdout))
    return {workload.id: workload for workload in found}


@pytest.mark.parametrize(
    "slug", sorted(folder.name for folder in (ROOT / "baselines").iterdir() if folder.is_dir())
)
def test_each_default_workload_has_a_baseline_of_its_parameters_and_no_other_is_left(
    workloads: dict[str, Workload], slug: str
) -> None:
    store = Store(ROOT, "baselines")
    found = {name: store.baselines.load(slug, name) for name in workloads}
    assert {name: baseline is not None and baseline.digest for name, baseline in found.items()} == {
        name: baseline is not None and baseline.as_noted(workloads[name]).digest()
        for name, baseline in found.items()
    }
    assert all(found.values())
    assert len(list((ROOT / "baselines" / slug).glob("*.json"))) == len(workloads)
