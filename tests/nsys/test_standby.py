"""Workers that import torch while pytest collects, under a real nsys: which runs they make, and
what becomes of them where none wants them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.held import NOTING, processes_in, times_of
from support.processes import until
from support.repository import run_git
from support.runs import PERFGATE, context_of, function

from perfgate.execute.ahead import Wanted, start_together
from perfgate.execute.standby import Standby
from perfgate.execute.torch_first import FirstImport
from perfgate.model.sample import Form
from perfgate.profilers.nsys.tool import VARIABLE, NsysTool

pytestmark = [pytest.mark.nsys, pytest.mark.behaviour]

LOOP = (
    """
import sys
had_torch = any(type(finder).__name__ == "Early" for finder in sys.meta_path)
assert "torch" not in sys.modules
"""
    + NOTING
    + """
import torch
from perfgate import workload

times["had_torch"] = had_torch

@workload(steps=6, warmup=2)
def loop(steps):
    for number in steps:
        if number == 2:
            noted("began")
        time.sleep(0.02)
"""
)


def wanted(tool: NsysTool, root: Path, *, runs: int = 2) -> list[Wanted]:
    """Runs of a loop that imports torch, in a project of its own."""
    (root / "workloads").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    (root / "workloads" / "loops.py").write_text(LOOP, encoding="utf-8")
    given = {**os.environ, "PYTHONPATH": str(PERFGATE)}
    context = context_of(root, given, tool=tool)
    workload = function(steps=6, warmup=2)
    return [
        Wanted(
            context=context, workload=workload, folder=root / f"run-{number}", imports_torch=True
        )
        for number in range(runs)
    ]


class Torch(FirstImport):
    """Torch was imported by each file, but for some."""

    def __init__(self, *others: str) -> None:
        self._others = others

    def serves(self, file: str) -> bool:
        return not file.endswith(self._others)


def made_by(runs: list[Wanted], standby: Standby) -> list[bool]:
    """Whether torch was there before each run's workload was, by the runs as they were made."""
    root = runs[0].context.root
    made = list(start_together(runs, Form.LATE, standby=standby))
    assert [process.steps for one in made for process in one.run.processes] == [6] * len(runs)
    assert all("workloads/loops.py" in one.code for one in made)
    assert not processes_in(root)
    assert list((root / "standby").iterdir()) == []
    assert not any(one.folder.is_symlink() for one in runs)
    assert all((one.folder / "workload.log").is_file() for one in runs)
    assert not [*root.glob("run-*/words"), *root.glob("run-*/imports"), *root.glob("run-*/nsys")]
    return [bool(one["had_torch"]) for one in times_of(root)]


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for two of them, wherever this runs, and a project's environment as pytest found it:
    each test sets a variable of its own."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1, 2})
    monkeypatch.setenv("PYTHONPATH", str(PERFGATE))


def test_workers_on_standby_make_the_first_runs_and_what_is_left_of_them_is_the_runs(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    runs = wanted(nsys_tool, tmp_path / "project", runs=3)
    standby = Standby(runs[0].context, runs[0].context.root / "standby", 5, Torch())
    assert made_by(runs, standby) == [True, True, False]


def test_none_makes_a_run_that_is_started_in_another_way(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    runs = wanted(nsys_tool, tmp_path / "env", runs=2)
    runs[0] = replace(
        runs[0], workload=runs[0].workload.model_copy(update={"env": {"ANOTHER": "1"}})
    )
    standby = Standby(runs[0].context, runs[0].context.root / "standby", 1, Torch())
    assert made_by(runs, standby) == [False, True]

    runs = wanted(nsys_tool, tmp_path / "without-torch", runs=1)
    standby = Standby(runs[0].context, runs[0].context.root / "standby", 1, Torch())
    assert made_by([replace(runs[0], imports_torch=False)], standby) == [False]

    runs = wanted(nsys_tool, tmp_path / "another-file", runs=1)
    torch = Torch(runs[0].workload.source)
    standby = Standby(runs[0].context, runs[0].context.root / "standby", 1, torch)
    assert made_by(runs, standby) == [False]


def test_nothing_is_left_of_those_that_nobody_wants(nsys_tool: NsysTool, tmp_path: Path) -> None:
    context = wanted(nsys_tool, tmp_path, runs=1)[0].context
    standby = Standby(context, tmp_path / "standby", 2, Torch())
    until(lambda: len(processes_in(tmp_path)) >= 2)
    standby.close()
    assert not processes_in(tmp_path)
    assert list((tmp_path / "standby").iterdir()) == []


def test_one_that_is_taken_and_then_not_wanted_ends(nsys_tool: NsysTool, tmp_path: Path) -> None:
    """As where a signal comes between the two, or a folder of another run cannot be made."""
    (run,) = wanted(nsys_tool, tmp_path, runs=1)
    standby = Standby(run.context, tmp_path / "standby", 1, Torch())
    assert standby.take(run.context, run.workload, run.folder) is not None
    standby.close()
    assert not processes_in(tmp_path)
    assert list((tmp_path / "standby").iterdir()) == []


def gate_environment(tool: NsysTool) -> dict[str, str]:
    return {**os.environ, VARIABLE: str(tool.path)}


def ran(project: Path, tool: NsysTool, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=project,
        env=gate_environment(tool),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_a_gate_has_them_where_baselines_say_so_and_ends_what_a_killed_one_left(
    nsys_tool: NsysTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lock of its own: there are none while a gate of another test has the machine.
    monkeypatch.setenv("PERFGATE_LOCKS", str(tmp_path))
    root = tmp_path / "project"
    (root / "workloads").mkdir(parents=True)
    (root / "workloads" / "loops.py").write_text(LOOP, encoding="utf-8")
    (root / "pyproject.toml").write_text('[tool.perfgate]\nab_run = "off"\n', encoding="utf-8")
    (root / ".gitignore").write_text("times\n__pycache__\n", encoding="utf-8")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "one")):
        run_git(root, *words)
    assert ran(root, nsys_tool, "pytest", "--perfgate").returncode == 1
    reason = ("--reason", "first", "--hold", "auto")
    assert ran(root, nsys_tool, "perfgate", "bless", *reason).returncode == 0
    assert not any(one["had_torch"] for one in times_of(root))  # nobody knew yet

    slow, standby = root / "workloads" / "slow.py", root / ".perfgate" / "standby"
    slow.write_text("import time\ntime.sleep(60)\n@workload\n", encoding="utf-8")
    command, env = [sys.executable, "-m", "pytest", "--perfgate"], gate_environment(nsys_tool)
    with subprocess.Popen(command, cwd=root, env=env, stdout=subprocess.DEVNULL) as killed:
        until(lambda: bool(list(standby.glob("*/nsys"))))
        killed.send_signal(signal.SIGKILL)
    until(lambda: not processes_in(root), timeout_s=20)  # by themselves
    slow.unlink()

    seen = ran(root, nsys_tool, "pytest", "--perfgate", "--perfgate-budget=step_ms=0.9")
    assert seen.returncode == 0, seen.stdout
    assert any(one["had_torch"] for one in times_of(root))
    assert list(standby.iterdir()) == []
    assert not processes_in(root)
