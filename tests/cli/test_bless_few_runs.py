"""A gate that a count ended after two runs: the commands that bless names make of it what can be
blessed."""

from __future__ import annotations

import hashlib
import shlex

import pytest
from support import records
from support.project import Project

from perfgate.model.metric import Metric

pytestmark = pytest.mark.behaviour


def test_what_bless_names_lets_it_be_blessed(here: Project) -> None:
    flags = ("--accept-regression",)
    file = here.root / "workloads" / "loops.py"
    here.bless(here.baseline("loop"))
    loaded = {"workloads/loops.py": hashlib.sha256(file.read_bytes()).hexdigest()}
    here.measures(records.run({Metric.H2D_COPIES: 9}), code=[loaded])
    here.gate("workloads/loops.py")
    refused = here.perfgate("bless", "loop", *flags, "--reason", "it's meant", columns=400)
    assert refused.status == 22
    named = [
        line.partition(": ")[2]
        for line in refused.err.splitlines()
        if ": pytest " in line or ": perfgate bl" in line
    ]
    measure, bless = (shlex.split(line) for line in named[-2:])
    here.pytest(*measure[1:])
    seen = here.perfgate(*bless[1:])
    assert seen.status == 0, seen.err
    made = here.store.baselines.load("nvidia-h200", "loop")
    assert made is not None
    assert len(made.runs) >= 5
    assert made.blessing.reason == "it's meant"
