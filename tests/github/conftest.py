"""What the tests of the action and the workflows share: a repository that was gated and blessed
once, to copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from support import replayed
from support.actions import Machine
from support.jobs import Job
from support.promotion import Scene
from support.repository import Repository
from support.rest import GitHub

from perfgate.github import api

TESTS = Path(__file__).parents[1]
PYPROJECT = '[project]\nname = "engine"\nversion = "1"\n\n[tool.perfgate]\nab_run = "off"\n'
WORKLOAD = """\
from perfgate import workload


@workload(steps=30, warmup=50)
def mlp(steps):
    raise AssertionError("its runs are replayed")
"""
TWIN = WORKLOAD.replace("mlp", "twin")

VENV = """\
#!{python}
import pathlib, sys
assert sys.argv[1:3] == ["-m", "venv"], sys.argv
programs = pathlib.Path(sys.argv[-1]) / "bin"
programs.mkdir(parents=True, exist_ok=True)
ran = pathlib.Path({ran!r})
for name in ("python", "perfgate", "pip", "pytest", "ruff", "mypy"):
    real = {{"python": "", "perfgate": "-P -m perfgate"}}.get(name)
    noted = f"echo {{name}} \\"$@\\" >>'{{ran}}'"
    does = noted if real is None else f"exec {python} {{real}} \\"$@\\""
    (programs / name).write_text(f"#!/bin/sh\\n{{does}}\\n")
    (programs / name).chmod(0o755)
"""
"""A `python3` that makes environments with this one's perfgate in them; what else is run there is
noted, in a file."""


def replaying(what: str, folder: Path) -> dict[str, str]:
    """The environment in which a gate replays a recording."""
    return {
        "PYTEST_ADDOPTS": "-p support.replayed",
        "PYTHONPATH": str(TESTS),
        replayed.WHAT: what,
        "PERFGATE_LOCKS": str(folder),
    }


def blessed(repository: Repository, folder: Path) -> None:
    """Gate and bless what the repository has, and commit it."""
    env = {**repository.env, **replaying("baseline", folder)}
    for status, command in (
        (1, ("pytest", "-q", "--perfgate")),
        (0, ("perfgate", "bless", "--reason", "first H200 baseline")),
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=repository.top,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
    shutil.rmtree(repository.top / ".perfgate")
    repository.commit()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose workload was measured on an H200 and blessed.

    The branch `unblessed` is the commit before that, and `two` has a second workload, blessed as
    well.
    """
    folder = tmp_path_factory.mktemp("template")
    repository = Repository(folder / "engine")
    ignored = "__pycache__/\n.pytest_cache/\n.perfgate/\n"
    repository.commit(
        {"pyproject.toml": PYPROJECT, "workloads/small_loops.py": WORKLOAD, ".gitignore": ignored}
    )
    repository.git("branch", "unblessed")
    blessed(repository, folder)
    repository.git("checkout", "--quiet", "-b", "two")
    repository.write({"workloads/twin.py": TWIN})
    repository.commit()
    (repository.top / "baselines" / "nvidia-h200" / "mlp.json").unlink()
    blessed(repository, folder)
    repository.git("checkout", "--quiet", "main")
    return repository.top


def _runner_in(
    template: Path, folder: Path, what: str, *, branch: str = "main", **env: str
) -> Machine:
    """Make a runner whose workspace is a clone of the template, with its history."""
    workspace = folder / "workspace"
    subprocess.run(
        ["git", "clone", "--quiet", f"--branch={branch}", str(template), str(workspace)],
        check=True,
        capture_output=True,
        env={**os.environ, "GIT_CONFIG_NOSYSTEM": "1"},
    )
    machine = Machine(folder / "runner", workspace, **(replaying(what, folder) | env))
    stand_in = machine.temp / "bin" / "python3"
    stand_in.parent.mkdir()
    stand_in.write_text(VENV.format(python=sys.executable, ran=str(machine.ran)), encoding="utf-8")
    stand_in.chmod(0o755)
    machine.env["PATH"] = f"{stand_in.parent}:{machine.env['PATH']}"
    return machine


@pytest.fixture(scope="session")
def runner_in(template: Path) -> Callable[..., Machine]:
    """Makes runners, each in a folder."""
    return partial(_runner_in, template)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """A GitHub with one repository, octo/loops, that is asked without the pauses that it wants."""
    monkeypatch.setattr(api, "RETRY", api.RETRY.new(backoff_factor=0, max_rate_limit_wait=2))
    monkeypatch.setattr(api, "BETWEEN_WRITES_S", 0)
    with GitHub() as hub:
        yield hub


@pytest.fixture
def job_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Scene], Job]:
    """Makes a job with a scene's branch checked out."""
    return lambda scene: Job(scene, tmp_path, monkeypatch, capsys)


@pytest.fixture
def job(hub: GitHub, tmp_path: Path, job_of: Callable[[Scene], Job]) -> Job:
    """A job on the branch `faster`."""
    return job_of(Scene(tmp_path / "project", hub))


@pytest.fixture
def runner(runner_in: Callable[..., Machine], tmp_path: Path) -> Callable[..., Machine]:
    """Makes this test's own runner."""
    return partial(runner_in, tmp_path)
