"""Which workloads `perfgate` finds in a project without a gate."""

from __future__ import annotations

import pytest
from support.project import LOOP, Project

from perfgate.plugin.listing import collect


def test_a_project_that_is_gated_as_a_module_of_python_alone_is_listed_too(
    project: Project,
) -> None:
    project.write("only_in_the_root.py", "")
    project.workload(f"import only_in_the_root\n{LOOP}")
    assert [workload.id for workload in collect(project.root).workloads] == ["loop"]


@pytest.mark.behaviour
def test_all_workloads_are_listed_whatever_stands_in_addopts(project: Project) -> None:
    project.workload(LOOP)
    project.write("pytest.ini", "[pytest]\naddopts = -n auto --lf --sw -k other --pdb -x\n")
    assert [workload.id for workload in collect(project.root).workloads] == ["loop"]
    assert not (project.root / ".pytest_cache").exists()
