"""A setting that has no effect any more is accepted, and a gate says so."""

from __future__ import annotations

import pytest
from support.project import Project

pytestmark = pytest.mark.behaviour


def test_trace_osrt_is_accepted_and_said_to_have_no_effect(project: Project) -> None:
    project.write("pyproject.toml", "[tool.perfgate]\ntrace_osrt = true\n")
    project.workload("from perfgate import workload\n@workload(steps=3)\ndef mlp(steps): ...\n")
    seen = project.run("--perfgate", "--collect-only")
    assert seen.status == 0
    assert "trace_osrt" in seen.out
