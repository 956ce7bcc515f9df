"""Options that a project's conftest declares reach the worker, in whatever way they are given;
pytest's own do not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import records
from support.project import Project

from perfgate.execute.addopts import addopts_in_force
from perfgate.execute.context import RunContext
from perfgate.execute.run import Measured
from perfgate.model.metric import Metric
from perfgate.model.sample import Run
from perfgate.model.workload import Workload

CONFTEST = """\
import pytest

def pytest_addoption(parser):
    parser.addoption("--ms", type=float, default=1.0)
    parser.addoption("--twice", action="store_true")
    parser.addini("pause", "ms", default="0")

@pytest.fixture
def ms(pytestconfig):
    asked = pytestconfig.getoption("--ms") * (2 if pytestconfig.getoption("--twice") else 1)
    return asked + float(pytestconfig.getini("pause"))
"""
LOOP = """\
import time
from perfgate import workload

@workload(steps=4, warmup=1)
def loop(steps, ms):
    print(f"{ms} ms a step")
    for _ in steps:
        time.sleep(ms / 1000)
"""


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_options_of_a_conftest_are_the_workloads(project: Project) -> None:
    project.write("conftest.py", CONFTEST)
    project.workload(LOOP)
    assert project.run("--perfgate", "--perfgate-runs=1", "--ms=6").status == 1
    assert "6.0 ms a step" in log_of(project)
    assert project.kept().runs[0].measured()[Metric.STEP_MS] >= 6


UNPROFILED = "command = words[words.index(sys.executable) :]\nos.execv(command[0], command)"
"""Of an nsys of our own: it only runs the workload, whose options its log shows."""


def log_of(project: Project) -> str:
    (log,) = (project.root / ".perfgate").rglob("workload.log")
    return log.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "addopts", "ms"),
    [
        (("--ms", "6", "workloads/loops.py", "-x", "--twice"), "", 12),
        (("workloads/loops.py",), "--ms=7 -v", 7),
        (("-o", "pause=8", "--durations", "3"), "", 9),
        (("--ms", "-3", "-o", "pause=8"), "", 5),
        (("--ms=4",), "--twice --ms 7 workloads", 8),
        (("-o", "addopts=--ms=5"), "--twice --ms=7", 5),
        (("-o", "addopts="), "--twice", 1),
    ],
    ids=[
        "two words",
        "addopts",
        "ini value",
        "negative number",
        "both",
        "other addopts",
        "no addopts",
    ],
)
def test_they_may_be_given_in_any_way(
    project: Project, given: tuple[str, ...], addopts: str, ms: int
) -> None:
    project.nsys(UNPROFILED)
    project.write("conftest.py", CONFTEST)
    project.workload(LOOP)
    project.write("pytest.ini", f"[pytest]\naddopts = {addopts}\n")
    assert project.gate("--perfgate-runs=1", *given).status == 1
    assert f"{ms:.1f} ms a step" in log_of(project)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\naddopts =\n    --maxfail\n    6\n"),
        ("tox.ini", "[pytest]\naddopts = --maxfail 6\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = --maxfail 6\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = ["--maxfail", "6"]\n'),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '--maxfail \"6\"'\n"),
        *(
            [
                ("pyproject.toml", '[tool.pytest]\naddopts = ["--maxfail", "6"]\n'),
                ("pytest.toml", '[pytest]\naddopts = ["--maxfail", "6"]'),
            ]
            if pytest.version_tuple >= (9,)
            else []
        ),
    ],
)
def test_addopts_is_read_wherever_pytest_reads_it(
    pytester: pytest.Pytester, name: str, text: str
) -> None:
    file = pytester.path / name
    file.write_text(text, encoding="utf-8")
    config = pytester.parseconfig("-c", str(file), "--override-ini=addopts=")
    assert config.inipath == file
    assert addopts_in_force((), config.inipath) == ["--maxfail", "6"]
    assert pytester.parseconfig("-c", str(file)).getini("addopts") == ["--maxfail", "6"]


@pytest.fixture
def measured(project: Project) -> Project:
    project.gpus()
    project.measures(records.run())
    project.write("conftest.py", CONFTEST)
    project.workload(LOOP)
    return project


def test_another_value_than_the_blessed_one_is_another_workload(measured: Project) -> None:
    of = measured.declared().model_copy(update={"options": {"--ms": "8.0"}})
    measured.bless(
        records.baseline(of=of, on=measured.machine).model_copy(update={"has_options": True})
    )
    assert "PASSED  loop" in measured.gate("--ms=8").out
    for given, now in (("--ms=4", "4.0"), ("-q", "gone")):
        seen = measured.gate(given)
        assert f"option --ms was 8.0 and is {now}" in seen.out
        assert (seen.status, "INCOMPARABLE  loop" in seen.out) == (1, True)


def test_a_baseline_that_has_none_noted_is_compared_as_before(measured: Project) -> None:
    measured.bless(measured.baseline())
    assert "PASSED  loop" in measured.gate("--ms=8").out


def test_what_is_noted_of_them_holds_no_secret_and_no_place_of_this_machine(
    measured: Project,
) -> None:
    more = "".join(
        f'    parser.addoption("--{name}")\n' for name in ("token", "data", "in-addopts")
    )
    measured.write("conftest.py", CONFTEST.replace("    parser.addini", f"{more}    parser.addini"))
    measured.write("pytest.ini", "[pytest]\naddopts = --in-addopts=3\n")
    measured.gate("--token", "hunter2", "--data=/scratch", "--twice", "--durations=3")
    assert measured.kept().workload.options == {
        "--in-addopts": "3",
        "--token": "sha256:f52fbd32b2b3",
        "--twice": "True",
    }


def test_so_are_those_of_a_plugin_of_the_project(project: Project) -> None:
    options, fixture = CONFTEST.split("@pytest.fixture")
    project.nsys(UNPROFILED)
    project.write("conftest.py", f"import pytest\n\n@pytest.fixture{fixture}")
    project.write("own_options.py", options)
    project.workload(LOOP)
    project.write("pytest.ini", "[pytest]\npythonpath = .\naddopts = -p own_options --ms 6\n")
    project.patch.setenv("PYTHONPATH", str(project.root))
    project.patch.syspath_prepend(project.root)
    seen = project.run("--perfgate", "--perfgate-runs=1")
    assert seen.status == 1, seen.out
    assert "6.0 ms a step" in log_of(project)


def test_what_a_conftest_sets_is_not_handed_on_for_another_commit_has_its_own(
    project: Project,
) -> None:
    project.gpus()
    project.measures(records.run())
    project.workload()
    project.write(
        "conftest.py", "import os\n\nos.environ['OF_CONFTEST'] = os.environ['OF_SHELL'] = 'late'\n"
    )
    project.patch.setenv("OF_SHELL", "early")
    project.patch.setenv("GIT_INDEX_FILE", str(project.root / "index.lock"))
    made, handed = project.lab.making, dict[str, str]()

    def noting(context: RunContext, workload: Workload, folder: Path) -> Measured:
        handed.update(context.env)
        return made(context, workload, folder)

    project.makes(noting)
    try:
        project.gate()
    finally:
        os.environ.pop("OF_CONFTEST", None)
    assert handed["OF_SHELL"] == "early"
    assert "OF_CONFTEST" not in handed
    # Of a hook that the gate was started from: a workload that asks git asks about its own commit.
    assert "GIT_INDEX_FILE" not in handed


def test_what_loading_a_workload_does_to_the_cores_is_undone_for_the_runs_of_another_commit(
    project: Project,
) -> None:
    project.gpus()
    cores = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    def noting() -> Run:
        seen.append(os.sched_getaffinity(0))
        return records.run()

    project.measures(noting)
    theirs = "import os\nos.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\n"
    project.workload(theirs + LOOP)
    project.write("conftest.py", CONFTEST)
    try:
        project.gate("--perfgate-runs=1")
    finally:
        os.sched_setaffinity(0, cores)
    assert seen == [cores]
