"""A window by the clock that ends before a script comes to its first step is reported as that."""

from __future__ import annotations

import re

import pytest
from support.project import Project

from perfgate.model.outcome import Outcome

pytestmark = [pytest.mark.behaviour, pytest.mark.usefixtures("real_nsys")]

LATE = (
    "import time, nvtx\ntime.sleep(20)\nfor _ in range(9):\n"
    "    with nvtx.annotate('step'): time.sleep(0.01)\n"
)


OTHERS_FIRST = LATE.replace(
    "time.sleep(20)",
    """
for name in ('load', 'build') * 200:
    with nvtx.annotate(name): time.sleep(0.05)""",
)


@pytest.mark.parametrize("script", [LATE, OTHERS_FIRST], ids=["silent", "another range before"])
def test_the_times_of_the_window_are_said(project: Project, script: str) -> None:
    project.write("late.py", script)
    project.write(
        "workloads/late.yaml",
        "command: [python, late.py]\nstep: step\nwarmup: 1\nsteps: 3\n"
        "capture: {delay: 0.5, duration: 1.5}\n",
    )
    seen = project.run("--perfgate", "--perfgate-json=g.json")
    assert seen.status == 1
    (one,) = project.written("g.json").workloads
    assert one.verdict.outcome is Outcome.NOT_MEASURED
    assert "0.5 s to 2 s" in one.verdict.reason
    assert "no NVTX range" not in one.verdict.reason
    meant = re.search(r"Perhaps you meant .*\bload\b", one.verdict.next_step)
    assert (meant is not None) == (script is OTHERS_FIRST)
