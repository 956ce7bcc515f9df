"""Gates that end after three runs: the commands that bless names make of them what can be blessed."""

from __future__ import annotations

import hashlib
import shlex

import pytest
from support import records
from support.project import Project

from perfgate.model.metric import Metric

pytestmark = pytest.mark.behaviour


@pytest.mark.parametrize(
    ("moved", "flags"),
    [
        (records.runs(24.1, 24.2, 24.15, 24.12, 24.18), ("--accept-regression",)),
        (records.runs(6.1, 6.2, 6.15, 6.12, 6.18), ()),
        ((records.run({Metric.H2D_COPIES: 9}),), ("--accept-regression",)),
    ],
    ids=["REGRESSED", "IMPROVED", "a count"],
)
def test_what_bless_names_lets_it_be_blessed(here: Project, moved: tuple[object, ...], flags: tuple[str, ...]) -> None:
    file = here.root / "workloads" / "loops.py"
    here.bless(here.baseline("loop"))
    here.measures(*moved, code=[{"workloads/loops.py": hashlib.sha256(file.read_bytes()).hexdigest()}])  # type: ignore[arg-type]
    here.gate("workloads/loops.py")
    refused = here.perfgate("bless", "loop", *flags, "--reason", "it's meant", columns=400)
    assert refused.status == 22
    named = [
        line.partition(": ")[2] for line in refused.err.splitlines() if ": pytest " in line or ": perfgate bl" in line
    ]
    measure, bless = (shlex.split(line) for line in named[-2:])
    here.pytest(*measure[1:])
    seen = here.perfgate(*bless[1:])
    assert seen.status == 0, seen.err
    made = here.store.baselines.load("nvidia-h200", "loop")
    assert made is not None
    assert len(made.runs) >= 5
    assert made.blessing.reason == "it's meant"
