"""A workload file in which aliases stand for more than anybody reads is refused at once: none is
read."""

from __future__ import annotations

import time

import pytest
from support.project import Project

pytestmark = pytest.mark.behaviour

HEAD = "command: [python, train.py]\nstep: step\nwarmup: 1\nsteps: 3\n"
BOMB = "x0: &x0 {delay: lol}\n" + "".join(
    f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 10)
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"{BOMB}{HEAD}{key}: *x9\n"
            for key in ("capture", "budgets", "env", "pass_env", "cwd", "nobody_knows_it")
        ),
        f"{BOMB}{HEAD.replace('[python, train.py]', '*x9')}",
        f"{HEAD}capture: &a [*a, *a]\n",
        f"{HEAD}capture: &a {{delay: *a}}\n",
    ],
)
def test_it_is_refused_at_once(project: Project, text: str) -> None:
    project.nsys("sys.exit(1)")
    project.write("workloads/loop.yaml", text)
    began = time.process_time()
    seen = project.gate("--perfgate-json=g.json")
    assert seen.status != 0
    assert "workloads/loop.yaml" in seen.out + seen.err
    assert time.process_time() - began < 10
