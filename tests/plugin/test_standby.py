"""When workers are started while pytest collects."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from support import records
from support.project import LOOP, Project

from perfgate.execute.context import RunContext
from perfgate.execute.run import Measured
from perfgate.machine import gpu_lock
from perfgate.model.machine import Machine
from perfgate.model.workload import Workload

pytestmark = pytest.mark.behaviour

IMPORT = "__import__('importlib.util').util.find_spec('torch')"
"""Asks for torch as an import does."""
IMPORTS_TORCH = f"{IMPORT}\n"


def blessed(project: Project, *, torch: str | None = "2.11.0") -> Machine:
    """A project with a baseline, whose workload had this torch loaded, and runs like it."""
    machine = project.gpus()
    project.patch.delitem(sys.modules, "torch", raising=False)
    project.workload(IMPORTS_TORCH + LOOP)
    baseline = project.baseline()
    of = baseline.machine.model_copy(update={"torch": torch})
    project.bless(baseline.model_copy(update={"machine": of}))
    project.measures(records.run())
    return machine


def test_they_are_as_many_as_a_pass_takes_where_a_baseline_says_that_torch_is_imported(
    project: Project,
) -> None:
    blessed(project)
    project.gate()
    assert project.lab.standby == [5]


def test_without_such_a_baseline_there_are_none(project: Project) -> None:
    blessed(project, torch=None)
    project.gate()
    assert project.lab.standby == []


def test_where_no_file_imports_torch_there_are_none(project: Project) -> None:
    blessed(project)
    project.workload(LOOP)
    project.gate()
    assert project.lab.standby == []


def test_runs_that_are_made_one_by_one_need_none(project: Project) -> None:
    blessed(project)
    project.write("pyproject.toml", "[tool.perfgate]\nahead = 1\n")
    project.gate()
    assert project.lab.standby == []


def test_what_goes_wrong_as_they_start_is_no_failure_of_the_import(project: Project) -> None:
    blessed(project)

    def full(*_of: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    project.patch.setattr(project.lab, "start_standby", full)
    assert project.gate().status == 0


def test_a_conftest_may_put_the_import_hooks_back(project: Project) -> None:
    blessed(project)
    project.write(
        "conftest.py",
        "import sys\nhooks = list(sys.meta_path)\n"
        "def pytest_collection_finish():\n    sys.meta_path[:] = hooks\n",
    )
    assert project.gate().status == 0


def test_what_imports_torch_later_starts_none(project: Project) -> None:
    blessed(project)
    project.workload(LOOP)
    project.write("conftest.py", f"def pytest_runtest_setup():\n    {IMPORT}\n")
    assert project.gate().status == 0
    assert project.lab.standby == []


def test_what_only_shows_workloads_starts_none(project: Project) -> None:
    blessed(project)
    assert project.pytest("--perfgate", "--collect-only").status == 0
    assert project.lab.standby == []


def test_there_are_none_next_to_another_gate(project: Project) -> None:
    machine = blessed(project)
    project.write("pyproject.toml", "[tool.perfgate]\nlock_timeout_s = 0.5\n")
    with gpu_lock(machine.gpus, timeout_s=1, on_wait=print, workload="resnet18"):
        assert project.pytest("--perfgate").status == 1
    assert project.lab.standby == []


def test_what_a_project_writes_while_it_is_collected_is_none_of_a_runs_work(
    project: Project,
) -> None:
    """A gate's runs begin behind that, though workers start before it."""
    blessed(project)
    project.workload(IMPORTS_TORCH + "open('generated.py', 'w').close()\n" + LOOP)
    began, made = list[float](), project.lab.making

    def making(context: RunContext, workload: Workload, folder: Path) -> Measured:
        began.append(context.began_at)
        return made(context, workload, folder)

    project.makes(making)
    project.gate()
    assert min(began) >= (project.root / "generated.py").stat().st_mtime
