"""Loops under a real nsys whose project calls ranges of its own `step`: only perfgate's are
measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.runs import PERFGATE, context_of, function

from perfgate.execute.run import measure_run
from perfgate.model.metric import Metric
from perfgate.profilers.nsys.tool import NsysTool

pytestmark = pytest.mark.nsys

LOOPS = """\
import multiprocessing, threading, time
import nvtx
from perfgate import workload

def marked(times, seconds=0.001):
    for _ in range(times):
        with nvtx.annotate("step"):
            time.sleep(seconds)

@workload(steps=6, warmup=2)
def behind_others(steps):
    marked(9)
    for _ in steps:
        time.sleep(0.02)
    marked(3)

@workload(steps=6, warmup=0)
def along_others(steps):
    marked(9)
    over = threading.Event()
    def work():
        while not over.is_set():
            marked(1)
    thread = threading.Thread(target=work)
    thread.start()
    for _ in steps:
        marked(2, 0.01)
    over.set()
    thread.join()

@workload(steps=6, warmup=2)
def before_a_child(steps):
    for _ in steps:
        time.sleep(0.02)
    child = multiprocessing.get_context("spawn").Process(target=marked, args=(6,))
    child.start()
    child.join()
"""


@pytest.mark.parametrize(
    ("name", "warmup"), [("behind_others", 2), ("along_others", 0), ("before_a_child", 2)]
)
def test_steps_that_the_project_marks_itself_are_not_measured(
    nsys_tool: NsysTool, tmp_path: Path, name: str, warmup: int
) -> None:
    root, folder = tmp_path / "project", tmp_path / "run"
    (root / "workloads").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    (root / "workloads" / "loops.py").write_text(LOOPS, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": f"{root / 'workloads'}:{PERFGATE}"}
    context = context_of(root, env, tool=nsys_tool)
    workload = function(name, steps=6, warmup=warmup)
    run = measure_run(context, workload, folder).run
    (process,) = run.processes
    assert process.steps == 6
    assert process.values[Metric.STEP_MS] >= 20
    assert run.invalid == ()
    assert not any(
        one.code in ("one-thread-measured", "loops-at-once", "steps-ambiguous") for one in run.notes
    )
