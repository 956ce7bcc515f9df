"""`os._exit(0)` in the process of a gate: no success before its verdict, and afterwards what the
gate has come to."""

from __future__ import annotations

import pytest
from support.cases import named
from support.project import LOOP, Project

BROKEN_NSYS = 'print("nsys: out of luck", file=sys.stderr)\nsys.exit(1)'
LEAVES = """\
import atexit, os, sys

IN_GATE = not any(word.startswith("--perfgate-worker") for word in sys.argv)
"""


@pytest.mark.parametrize(
    ("file", "text", "line"),
    named(
        {
            "a conftest": ("conftest.py", "import os\n\nos._exit(0)\n", 3),
            "a workload's file": ("workloads/loops.py", f"{LOOP}\nimport os\n\nos._exit(0)\n", 11),
            "a hook": (
                "conftest.py",
                "import os\n\ndef pytest_sessionfinish():\n    os._exit(0)\n",
                4,
            ),
        }
    ),
)
def test_a_gate_that_it_ends_before_the_verdict_is_shut_and_says_where(
    project: Project, file: str, text: str, line: int
) -> None:
    project.nsys(BROKEN_NSYS)
    project.workload()
    project.write(file, text)
    seen = project.run("--perfgate", columns=300)
    assert seen.status == 1, seen.out
    assert f"GATE SHUT: os._exit(0) at /project/{file}:{line} " in seen.err


def test_what_the_terminal_cannot_show_is_escaped_and_no_line_end_with_it(project: Project) -> None:
    (project.root / "Pr\u00f4jekt" / "workloads").mkdir(parents=True)
    project.root = project.root / "Pr\u00f4jekt"
    project.nsys(BROKEN_NSYS)
    project.workload()
    project.write("pyproject.toml", '[project]\nname = "scratch"\nversion = "1"\n')
    project.patch.setenv("PYTHONIOENCODING", "ascii")
    seen = project.run("--perfgate")
    assert seen.status == 1
    _, _, failure = seen.out.partition("= FAILURES =")
    table, _, _ = failure.partition("= perfgate =")
    assert "Pr\\xf4jekt" in table
    assert "\\n" not in table
    assert "\nloop: NOT_MEASURED\n" in table


@pytest.mark.parametrize(
    "leaves",
    named(
        {
            "where pytest is cleared away": (
                f"{LEAVES}def pytest_unconfigure():\n    if IN_GATE:\n        os._exit(0)\n",
            ),
            "when all is done": (f"{LEAVES}if IN_GATE:\n    atexit.register(os._exit, 0)\n",),
        }
    ),
)
class TestAfterTheVerdict:
    """What the gate has come to is what pytest ends with."""

    def test_a_shut_gate_stays_shut(self, project: Project, leaves: str) -> None:
        project.nsys(BROKEN_NSYS)
        project.workload()
        project.write("conftest.py", leaves)
        seen = project.run("--perfgate")
        assert (seen.status, seen.err) == (1, "")
        assert "NOT_MEASURED  loop" in seen.out

    @pytest.mark.nsys
    @pytest.mark.usefixtures("real_nsys")
    def test_an_open_one_stays_open(self, project: Project, leaves: str) -> None:
        project.workload()
        project.write("conftest.py", leaves)
        seen = project.run("--perfgate", "--perfgate-new=allow", "--perfgate-runs=1")
        assert (seen.status, seen.err) == (0, ""), seen.out
