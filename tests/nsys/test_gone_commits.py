"""A baseline whose commit a squash merge has taken away still has its pairs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest
from support.project import LOOP, Project

pytestmark = [pytest.mark.nsys, pytest.mark.behaviour]


def test_after_a_squash_merge_a_gate_makes_its_pairs(
    project: Project, real_nsys: Sequence[str]
) -> None:
    assert real_nsys
    project.patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    project.write(".gitignore", "__pycache__/\n.perfgate/\n")
    project.write(
        "pyproject.toml",
        '[project]\nname = "scratch"\nversion = "1"\n[tool.perfgate]\nab_run = "alternate"\n',
    )
    project.workload(LOOP)
    project.commit()
    project.git("checkout", "--quiet", "-b", "topic")
    project.workload(LOOP.replace("0.001", "0.002"))
    project.git("commit", "--quiet", "-am", "code")
    measured = project.git("rev-parse", "HEAD")
    assert project.run("--perfgate", "--perfgate-runs=1").status == 1
    project.repeat()
    seen = project.perfgate("bless", "loop", "--reason", "first", "--hold", "auto", columns=400)
    assert seen.status == 0, seen.err
    assert "main" in seen.out
    made = project.store.baselines.load("no-gpu", "loop")
    assert made is not None
    # Of another driver: stored times do not count, and what is judged is pairs alone.
    machine = made.machine.model_copy(update={"driver": "1.0"})
    project.store.baselines.save(made.model_copy(update={"machine": machine}), replacing=made)
    project.commit()
    project.git("checkout", "--quiet", "main")
    project.git("merge", "--quiet", "--squash", "topic")
    project.git("commit", "--quiet", "-m", "squashed")
    squashed = project.git("rev-parse", "HEAD")
    project.git("branch", "--quiet", "-D", "topic")
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "--quiet", "--prune=now")
    with pytest.raises(subprocess.CalledProcessError):
        project.git("cat-file", "-e", measured)
    project.run("--perfgate", "--perfgate-max-runs=8")
    result = project.store.results.kept("loop", "no-gpu")[0][0].result
    assert result.verdict.ab_run is not None
    assert (result.verdict.ab_run.commit, bool(result.reference_runs)) == (squashed, True)
