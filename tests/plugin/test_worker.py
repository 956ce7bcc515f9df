"""The pytest of a worker, without a profiler: what it reports of a workload that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.cases import named
from support.project import Project
from support.runs import context_of

from perfgate.execute import import_log
from perfgate.execute.command import worker_command
from perfgate.execute.worker.needs import CONTEXT_BYTES
from perfgate.model.note import Note, note
from perfgate.model.order import Ending, Order, WorkerReport

HEAD = (
    "import threading\nimport pytest\nfrom perfgate import workload\n\n"
    "@workload(steps=4, warmup=1)\n"
)
TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
SUBTESTS = pytest.mark.skipif(
    not hasattr(pytest, "Subtests"), reason="pytest has subtests from 9.0 on"
)


def run(
    project: Project, text: str, *options: str, **env: str
) -> tuple[WorkerReport, subprocess.CompletedProcess[str]]:
    """Run `loop` of this text as a worker; return what it reports, and how it ended."""
    project.workload(text)
    worker_report = project.root / "worker-report.json"
    order = Order(
        workload="loop", steps=4, warmup=1, root=str(project.root), worker_report=str(worker_report)
    )
    project.write("order.json", order.model_dump_json())
    context = replace(context_of(project.root), pytest_options=options)
    command = worker_command(context, project.declared(), Path("order.json"))
    done = subprocess.run(
        command,
        cwd=project.root,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return WorkerReport.model_validate_json(worker_report.read_text(encoding="utf-8")), done


def ran(project: Project, text: str, *options: str) -> tuple[WorkerReport, str]:
    """Run a `loop` that fails; return what is reported, and the log."""
    said, done = run(project, f"{HEAD}{text}", *options)
    assert done.returncode != 0
    return said, done.stdout + done.stderr


def why(worker_report: WorkerReport) -> Note:
    assert worker_report.why is not None
    return worker_report.why


@pytest.mark.parametrize(
    ("text", "what", "logged"),
    named(
        {
            "no such fixture": (
                (
                    "def loop(steps, modle):\n    list(steps)\n\n"
                    "@pytest.fixture\ndef model():\n    return 1\n"
                ),
                "in a fixture: FixtureLookupError: there is no fixture 'modle'",
                ", model, ",
            ),
            "in a fixture": (
                (
                    "def loop(steps, data):\n    list(steps)\n\n"
                    "@pytest.fixture\ndef data():\n    raise OSError(1)\n"
                ),
                "in a fixture: OSError: 1",
                "E   OSError: 1",
            ),
            "before a teardown that raises too": (
                (
                    "def loop(steps, request):\n    request.addfinalizer(lambda: 1 / 0)\n"
                    "    raise ValueError('no data')\n"
                ),
                "ValueError: no data",
                "E   ValueError: no data",
            ),
        }
    ),
)
def test_what_is_raised_before_the_loop_is_named_by_where_it_is(
    project: Project, text: str, what: str, logged: str
) -> None:
    said, log = ran(project, text)
    assert why(said) == note("raised", what=what)
    assert logged in log


def test_a_fixture_whose_teardown_raises_fails_after_the_loop(project: Project) -> None:
    said, log = ran(
        project,
        "def loop(steps, request):\n    request.addfinalizer(lambda: 1 / 0)\n    list(steps)\n",
    )
    assert said.ending is Ending.FINISHED  # its exit status is not 0
    assert "E   ZeroDivisionError: division by zero" in log


@SUBTESTS
@pytest.mark.parametrize("most", [3, 4])
def test_subtests_that_fail_are_in_the_log(project: Project, most: int) -> None:
    text = (
        "def loop(steps, subtests):\n    for i in steps:\n        with subtests.test(i=i):\n"
        "            assert i < "
    )
    said, log = ran(project, f"{text}{most}\n")
    assert said.ending is Ending.FINISHED  # its exit status is not 0
    assert f"E   assert {most} < {most}" in log
    assert log.lstrip().startswith("workloads/loops.py:9: in loop\n")


THREAD = """\
def loop(steps):
    def go():
        for i in steps:
            if i == 2:
                raise RuntimeError("in the thread")
    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
"""


def test_what_a_thread_that_ends_the_loop_raised_is_in_the_log(project: Project) -> None:
    said, log = ran(project, THREAD)
    assert (why(said).code, why(said).fields["turns"]) == ("steps-left", 3)
    assert log.count("\nRuntimeError: in the thread\n") == 1


LOADER = """\
def loop(steps):
    how = {"batch_size": None, "num_workers": 1, "multiprocessing_context": "START"}
    for _ in data.DataLoader(Numbers(steps), **how):
        pass

from torch.utils import data

class Numbers(data.IterableDataset):
    def __init__(self, steps):
        self.steps = steps

    def __iter__(self):
        return iter(self.steps)
"""


@TORCH
@pytest.mark.parametrize(("start", "code"), [("fork", "steps-none"), ("spawn", "raised")])
def test_steps_that_the_worker_of_a_dataloader_takes_do_not_count(
    project: Project, start: str, code: str
) -> None:
    said, _ = ran(project, LOADER.replace("START", start))
    assert why(said).code == code


@TORCH
def test_what_the_worker_of_a_dataloader_raises_is_reported_as_the_cause(project: Project) -> None:
    text = (
        LOADER.replace("START", "fork")
        .replace("self.steps)", "self.steps[0])")
        .replace("Numbers(steps)", "Numbers(())")
    )
    said, log = ran(project, text)
    assert (
        why(said).fields["what"] == "IndexError: Caught IndexError in DataLoader worker process 0"
    )
    assert "Original Traceback" in log


CLOSING = """
import atexit, sys, types
from pathlib import Path

def said(what):
    with Path("said").open("a") as file:
        file.write(what + "\\n")

torch = types.ModuleType("torch")
runtime = types.SimpleNamespace(
    cudaProfilerStart=lambda: said("start"), cudaProfilerStop=lambda: said("stop")
)
torch.cuda = types.SimpleNamespace(
    is_available=lambda: True,
    is_initialized=lambda: True,
    device_count=lambda: 1,
    synchronize=lambda _device: None,
    max_memory_reserved=lambda _device: 5,
    cudart=lambda: runtime,
    nvtx=types.SimpleNamespace(range_push=lambda _name: None, range_pop=lambda: None),
)
torch._C = types.SimpleNamespace()
sys.modules["torch"] = torch

class Kept:
    def __del__(self):
        said("taken apart")

kept = Kept()
atexit.register(said, "at exit")

@pytest.fixture
def data():
    yield
    threading.Thread(target=lambda: (__import__("time").sleep(0.3), said("thread"))).start()
    said("teardown")
    {fails}

@workload(steps=4, warmup=1)
def loop(steps, data):
    list(steps)
    print("printed last", end="")
"""


@pytest.mark.parametrize(("fails", "status"), [("", 0), ("assert False", 1)])
def test_a_worker_whose_capture_is_closed_ends_without_taking_its_interpreter_apart(
    project: Project, fails: str, status: int
) -> None:
    imports = project.root / "imports"
    imports.mkdir()
    shutil.copyfile(import_log.__file__, imports / "sitecustomize.py")
    text = f"{HEAD.rpartition('@')[0]}{CLOSING.replace('{fails}', fails)}"
    env = {import_log.FOLDER: str(imports), "PYTHONPATH": str(imports)}
    report, done = run(project, text, **env)
    assert done.returncode == status
    said = (project.root / "said").read_text(encoding="utf-8").split("\n")
    assert said == ["start", "stop", "teardown", "thread", "at exit", ""]
    assert "printed last" in done.stdout
    assert report.ending is Ending.FINISHED
    assert report.needs is not None
    assert report.needs.gpu_bytes == CONTEXT_BYTES + 5
    assert list(imports.glob("*.json"))
