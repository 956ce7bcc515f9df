"""A run that prints without end fills neither the disk nor the pipe that it prints to."""

from __future__ import annotations

import re

import pytest
from support.project import Project

pytestmark = pytest.mark.behaviour

FLOOD = """\
print("the first line")
for _ in range(200):
    sys.stdout.write(("a line as any other, " * 5 + "\\n") * 1000)
print("the last line", flush=True)
sys.exit(3)
"""


def test_a_log_keeps_its_beginning_and_end_and_says_how_much_is_left_out(project: Project) -> None:
    project.nsys(FLOOD)
    project.workload()
    assert project.run("--perfgate", "--perfgate-runs=1").status == 1
    (log,) = (project.root / ".perfgate" / "results").rglob("workload.log")
    assert log.stat().st_size < 20_000_000
    lines = log.read_text("utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("the first line", "the last line")
    (left_out,) = [
        found for line in lines if (found := re.search(r"left out (\d+) lines here", line))
    ]
    assert (
        int(left_out[1]) + sum(line.startswith("a line as any other") for line in lines) == 200_000
    )
