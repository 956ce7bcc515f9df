"""The parts of a run that need no nsys: the command line, the code that was run, and how failures are told."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from support import records

from perfgate import runner
from perfgate.model.errors import PerfgateError, WorkloadFailed, WorkloadTimedOut
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.order import Account, Ending, Order
from perfgate.model.reports import MemTimeRow, Reports
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload
from perfgate.nsys.profile import Captured, ProfileOutcome
from perfgate.runner import UNWANTED_IN_WORKERS, code_now, command_code, worker_command

LOG = Path(".perfgate/results/mlp/run-1/workload.log")


def command(*words: str, cwd: str | None = None) -> Workload:
    return Workload(id="train", source="workloads/train.yaml", command=words, steps=30, warmup=0, step="s", cwd=cwd)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# The command line


def test_a_script_is_run_as_it_is_written() -> None:
    words = ("torchrun", "--nproc-per-node=2", "train.py", "4 64")
    assert worker_command(command(*words), Path("order.json"), python="/py", pytest_options=("-c", "x")) == words


def test_a_function_is_run_by_a_pytest_of_its_own_which_shares_what_matters() -> None:
    built = worker_command(
        records.workload(nodeid="workloads/mlp.py::mlp[a b]"),
        Path("/tmp/run 1/order.json"),
        python="/venv/bin/python",
        pytest_options=("--rootdir=/project", "-c", "/project/pytest.ini"),
    )
    assert built[:5] == (
        "/venv/bin/python",
        "-m",
        "pytest",
        "workloads/mlp.py::mlp[a b]",
        "--perfgate-worker=/tmp/run 1/order.json",
    )
    assert built[-3:] == ("--rootdir=/project", "-c", "/project/pytest.ini")
    assert {"--capture=no", "--override-ini=addopts=", "no:cacheprovider"} <= {*built}


def test_in_a_checkout_the_current_folder_does_not_come_before_the_pin() -> None:
    built = worker_command(records.workload(), Path("order.json"), python="/py", pytest_options=(), is_pinned=True)
    assert built[:4] == ("/py", "-P", "-m", "pytest")


def test_what_the_pytest_around_a_gate_was_told_does_not_reach_its_workers() -> None:
    assert "PYTEST_ADDOPTS" in UNWANTED_IN_WORKERS
    assert "PYTEST_XDIST_WORKER" in UNWANTED_IN_WORKERS


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
    capture: CaptureMode | CaptureWindow, machine: Machine, window: CaptureMode | CaptureWindow
) -> None:
    workload = records.workload().model_copy(update={"capture": capture})
    assert runner._window(workload, machine) == window


# The code


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a few files, in no repository."""
    root = tmp_path / "project"
    for name in ("train.py", "model.py", "config.toml", "examples/data.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    return root


def tracked(root: Path, *names: str) -> None:
    for words in (("init", "-q"), ("add", *names)):
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


def test_the_code_of_a_command_is_what_it_names_and_what_the_repository_tracks(project: Path) -> None:
    tracked(project, "train.py", "examples/data.py")
    assert command_code(command("python", "train.py", "config.toml", "--fast"), project) == {
        "config.toml": sha("config.toml"),
        "examples/data.py": sha("examples/data.py"),
        "train.py": sha("train.py"),
    }


def test_outside_a_repository_the_code_is_what_the_command_names(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    assert command_code(command("python", "train.py"), project) == {"train.py": sha("train.py")}


def test_without_git_the_code_is_what_the_command_names(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    assert command_code(command("python", "train.py"), project) == {"train.py": sha("train.py")}


def test_words_are_looked_up_where_the_command_runs(project: Path) -> None:
    tracked(project)
    assert command_code(command("python", "data.py", cwd="examples"), project) == {
        "examples/data.py": sha("examples/data.py")
    }


def test_files_outside_the_root_are_no_code_of_the_project(project: Path) -> None:
    tracked(project)
    outside = project.parent / "outside.py"
    outside.write_text("x")
    (project / "link.py").symlink_to(outside)
    assert command_code(command("python", str(outside), "../outside.py", "link.py"), project) == {}


def test_words_that_cannot_be_files_are_passed_over(project: Path) -> None:
    tracked(project)
    assert command_code(command("bash", "-c", "python train.py; " * 1000, "", "/", "."), project) == {}


def test_a_tracked_file_that_was_deleted_is_passed_over(project: Path) -> None:
    tracked(project, "train.py", "model.py")
    (project / "model.py").unlink()
    assert command_code(command("python"), project) == {"train.py": sha("train.py")}


def test_the_code_of_now_is_of_the_same_files(project: Path) -> None:
    then = {"train.py": sha("before"), "gone.py": sha("gone"), "model.py": sha("model.py")}
    assert code_now(then, project) == {"train.py": sha("train.py"), "model.py": sha("model.py")}


# What the worker tells


def test_the_order_names_what_the_worker_needs(tmp_path: Path) -> None:
    assert runner._order(records.workload(), tmp_path, tmp_path / "account.json") == Order(
        workload="mlp", steps=30, warmup=10, root=str(tmp_path), account=str(tmp_path / "account.json")
    )


@pytest.mark.parametrize("text", [None, "", '{"ending": "finis', '{"ending": "finished"}', "[]", "\udcff"])
def test_an_account_that_is_none_or_half_is_none(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "account.json"
    if text is not None:
        file.write_bytes(text.encode(errors="surrogateescape"))
    assert runner._read_account(file) is None


def test_a_whole_account_is_read(tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    file.write_text(json.dumps({"ending": "wrong steps", "message": "ü", "pid": 3}), encoding="utf-8")
    assert runner._read_account(file) == Account(ending=Ending.WRONG_STEPS, message="ü", pid=3)


# How failures are told

CAPTURED = (Captured(rep=Path("c.nsys-rep"), sqlite=Path("c.sqlite")),)


def ended(
    *,
    exit_status: int | None = 0,
    signal: str | None = None,
    timed_out: bool = False,
    tail: tuple[str, ...] = (),
    captures: tuple[Captured, ...] = CAPTURED,
) -> ProfileOutcome:
    return ProfileOutcome(
        captures=captures,
        exit_status=exit_status,
        signal=signal,
        timed_out=timed_out,
        wall_s=1.0,
        tail=tail,
        log=LOG,
        problem=None,
    )


def account(ending: Ending, message: str = "", exit_status: int | None = None) -> Account:
    return Account(ending=ending, message=message, exit_status=exit_status, pid=7)


def failure(workload: Workload, outcome: ProfileOutcome, told: Account | None = None) -> PerfgateError:
    with pytest.raises((WorkloadFailed, WorkloadTimedOut)) as failed:
        runner._check_workload(workload, outcome, told, LOG)
    return failed.value


FUNCTION = [
    (ended(exit_status=1), account(Ending.RAISED, "ValueError: no data"), "it raised ValueError: no data"),
    (ended(exit_status=1), account(Ending.RAISED, "AssertionError: "), "it raised AssertionError"),
    (
        ended(exit_status=1),
        account(Ending.RAISED, "AcceleratorError: CUDA error: unknown error\nCompile with TORCH_USE_CUDA_DSA.\n"),
        "it raised AcceleratorError: CUDA error: unknown error",
    ),
    (ended(exit_status=3), account(Ending.EXITED, "it called sys.exit(3)", 3), "it called sys.exit(3) (exit status 3)"),
    (
        ended(),
        account(Ending.SKIPPED, "needs two GPUs"),
        "it skipped itself (needs two GPUs), so nothing was measured",
    ),
    (ended(exit_status=1), account(Ending.WRONG_STEPS, "the loop took 3 of 4 turns."), "the loop took 3 of 4 turns"),
    (ended(exit_status=1), account(Ending.DEAF, "nvtx 0.2.13 is deaf."), "nvtx 0.2.13 is deaf"),
    (
        ended(exit_status=137, signal="SIGKILL"),
        None,
        "its process was killed by SIGKILL before the workload came to its end",
    ),
    (ended(exit_status=3), None, "its process was gone with exit status 3 before the workload came to its end"),
]


@pytest.mark.parametrize(("outcome", "told", "fact"), FUNCTION)
def test_a_function_that_fails_is_told_in_one_sentence(
    outcome: ProfileOutcome, told: Account | None, fact: str
) -> None:
    error = failure(records.workload(), outcome, told)
    assert isinstance(error, WorkloadFailed)
    assert str(error) == f"mlp: {fact}.\nSee {LOG}. It printed nothing."


@pytest.mark.parametrize(
    ("outcome", "fact"),
    [
        (ended(exit_status=3), "its command ended with exit status 3"),
        (ended(exit_status=139, signal="SIGSEGV"), "its command was killed by SIGSEGV"),
    ],
)
def test_a_command_that_fails_is_told_in_one_sentence(outcome: ProfileOutcome, fact: str) -> None:
    error = failure(command("python", "train.py"), outcome)
    assert str(error) == f"train: {fact}.\nSee {LOG}. It printed nothing."


def test_the_last_lines_are_shown_below() -> None:
    error = failure(command("python"), ended(exit_status=1, tail=("Traceback", "KeyError: 'x'")))
    assert str(error) == (
        "train: its command ended with exit status 1.\n"
        f"See {LOG}.\n"
        "Last lines of its output:\n"
        "  | Traceback\n"
        "  | KeyError: 'x'"
    )


@pytest.mark.parametrize("workload", [records.workload(), command("python")])
def test_a_run_out_of_time_is_told_with_its_limit(workload: Workload) -> None:
    error = failure(workload.model_copy(update={"timeout_s": 2.5}), ended(timed_out=True, exit_status=None))
    assert isinstance(error, WorkloadTimedOut)
    assert str(error) == (
        f"{workload.id}: it did not end within 2.5 s and was stopped.\n"
        f"See {LOG}, or raise timeout_s if it needs longer. It printed nothing."
    )


@pytest.mark.parametrize(
    ("workload", "outcome", "told"),
    [
        (records.workload(), ended(), account(Ending.FINISHED)),
        (command("python"), ended(), None),
        (command("python"), ended(exit_status=None), None),
        # nsys never started it: that is told as the capture's failure
        (records.workload(), ended(exit_status=None, captures=()), None),
    ],
)
def test_a_workload_that_did_well_is_no_failure(
    workload: Workload, outcome: ProfileOutcome, told: Account | None
) -> None:
    runner._check_workload(workload, outcome, told, LOG)


# What makes a run INVALID


def test_lost_steps_are_told_process_by_process() -> None:
    whole, half = records.process(pid=1, steps=30), records.process(pid=2, steps=28)
    assert runner._steps_lost(records.workload(), (whole,)) == ()
    assert runner._steps_lost(records.workload(), (whole, half)) == (
        "steps were lost: process 2 shows 28 of 30 measured steps",
    )


def test_a_gpu_that_did_nothing_is_told_with_the_reason_of_the_capture() -> None:
    seen = records.process()
    unseen = records.process(
        {Metric.STEP_MS: 1.0}, absent={Metric.KERNEL_MS: "the capture has no table of kernels"}, ranges=()
    )
    plain = records.process({Metric.STEP_MS: 1.0}, ranges=())
    gpu = records.machine()
    assert runner._gpu_unseen(gpu, (seen, unseen)) == ()
    assert runner._gpu_unseen(Machine(), (unseen,)) == ()
    assert runner._gpu_unseen(gpu, (unseen,)) == (
        "no GPU operation was recorded in any step (the capture has no table of kernels)",
    )
    assert runner._gpu_unseen(gpu, (plain,)) == (
        "no GPU operation was recorded in any step (the workload launched none)",
    )


def mem_row(operation: str, percent: float) -> MemTimeRow:
    return MemTimeRow(
        time_percent=percent,
        total_ns=10,
        count=1,
        avg_ns=10,
        med_ns=10,
        min_ns=10,
        max_ns=10,
        stddev_ns=0,
        operation=operation,
    )


def test_the_share_of_host_to_device_is_nsys_own_column() -> None:
    rows = (mem_row("CUDA memcpy Host-to-Device", 62.5), mem_row("CUDA memcpy Device-to-Host", 37.5))
    assert runner._share_of_h2d(Reports(cuda_gpu_mem_time_sum=rows)) == 0.625
    assert runner._share_of_h2d(Reports(cuda_gpu_mem_time_sum=rows[1:])) == 0
    assert runner._share_of_h2d(Reports()) is None
