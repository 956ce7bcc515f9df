"""The command line of a run, and of which part of it a capture is taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import records
from support.runs import context_of

from perfgate.execute.command import start_of, worker_command
from perfgate.execute.worktree import Worktree
from perfgate.model.machine import Machine
from perfgate.model.workload import CaptureMode, CaptureWindow


def test_a_function_is_run_by_a_pytest_of_its_own_which_shares_what_matters() -> None:
    context = context_of(Path("/project"), python="/venv/bin/python")
    options = ("--rootdir=/project", "-c", "/project/pytest.ini")
    built = worker_command(
        replace(context, pytest_options=options),
        records.workload(nodeid="workloads/mlp.py::mlp[a b]"),
        Path("/tmp/run 1/order.json"),
    )
    assert built[:5] == (
        "/venv/bin/python",
        "-m",
        "pytest",
        "--perfgate-worker=/tmp/run 1/order.json",
        "workloads/mlp.py::mlp[a b]",
    )
    assert built[-4:] == (
        "--rootdir=/project",
        "-c",
        "/project/pytest.ini",
        "--override-ini=addopts=",
    )
    assert {"--capture=no", "--override-ini=addopts=", "no:cacheprovider", "--runxfail"} <= {*built}


def test_what_addopts_says_of_how_pytest_begins_comes_before_what_was_given(tmp_path: Path) -> None:
    ini = tmp_path / "pytest.ini"
    ini.write_text(
        "[pytest]\naddopts = -ra -p mine --import-mode=append -o a=b --confcutdir=.. --ff\n"
    )
    options = ("-c", str(ini), "--import-mode=importlib")
    context = replace(context_of(tmp_path), pytest_options=options)
    built = worker_command(context, records.workload(), Path("order.json"))
    own = (
        *("-p", "mine", "--import-mode=append", "--override-ini=a=b"),
        f"--confcutdir={tmp_path.parent}",
    )
    assert built[-len(own) - 4 : -4] == own
    assert built[-4:] == (*options, "--override-ini=addopts=")


def test_in_a_checkout_the_current_folder_does_not_come_before_the_pin(tmp_path: Path) -> None:
    tree = Worktree(
        top=tmp_path, root=tmp_path, commit="1" * 40, origin=tmp_path, origin_top=tmp_path
    )
    context = replace(context_of(tmp_path, python="/py"), tree=tree)
    built = worker_command(context, records.workload(), Path("order.json"))
    assert built[:4] == ("/py", "-P", "-m", "pytest")


@pytest.mark.parametrize(
    ("capture", "machine", "window"),
    [
        (CaptureMode.CUDA_PROFILER_API, records.machine(), CaptureMode.CUDA_PROFILER_API),
        (CaptureMode.CUDA_PROFILER_API, Machine(), CaptureMode.ALL),
        (CaptureMode.ALL, records.machine(), CaptureMode.ALL),
        (CaptureWindow(delay=1, duration=2), Machine(), CaptureWindow(delay=1, duration=2)),
    ],
)
def test_without_a_gpu_nobody_can_open_the_capture(
    tmp_path: Path,
    capture: CaptureMode | CaptureWindow,
    machine: Machine,
    window: CaptureMode | CaptureWindow,
) -> None:
    workload = records.workload().model_copy(update={"capture": capture})
    context = replace(context_of(tmp_path), machine=machine)
    assert start_of(context, workload, tmp_path / "run", run_id="r").capture == window
