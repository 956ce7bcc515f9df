"""The parts of a run that need no nsys: the command line, the code that was run, and how failures are told."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import pytest
from support import records
from support.timelines import Op, Range, build

from perfgate import runner
from perfgate.metrics.measure import measure
from perfgate.model.errors import (
    CaptureFailed,
    CaptureUnreadable,
    ConfigInvalid,
    NsysCrashed,
    PerfgateError,
    StoreFailed,
    WorkloadFailed,
    WorkloadTimedOut,
)
from perfgate.model.machine import Conditions, Machine
from perfgate.model.metric import Metric
from perfgate.model.order import RUN_COOKIE, Account, Bouts, Ending, Order
from perfgate.model.reports import MemTimeRow, Reports
from perfgate.model.settings import Settings
from perfgate.model.timeline import CopyKind
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload
from perfgate.nsys.profile import Captured, ProfileOutcome, ProfileSpec
from perfgate.nsys.tool import NsysTool, NsysVersion
from perfgate.runner import (
    UNWANTED_IN_WORKERS,
    Bench,
    Measured,
    ReferenceFailed,
    Side,
    code_now,
    command_code,
    measure_pair,
    worker_command,
)

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
        "--perfgate-worker=/tmp/run 1/order.json",
        "workloads/mlp.py::mlp[a b]",
    )
    assert built[-4:] == ("--rootdir=/project", "-c", "/project/pytest.ini", "--override-ini=addopts=")
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


def test_outside_a_repository_what_was_loaded_is_code_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    told = command_code(command("python", "train.py"), project, {project / "model.py"})
    assert told == {"model.py": sha("model.py"), "train.py": sha("train.py")}


def test_outside_a_repository_what_the_runs_have_written_is_no_code(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    generated = project / "cache" / "ab" / "cdef.py"
    generated.parent.mkdir(parents=True)
    generated.write_text("")
    os.utime(generated, (1001, 1001))
    os.utime(project / "model.py", (999, 999))
    loaded = {project / "model.py", generated, project / "gone.py"}
    assert command_code(command("python"), project, loaded, 1000) == {"model.py": sha("model.py")}


def test_in_a_repository_what_was_loaded_and_is_not_tracked_is_no_code(project: Path) -> None:
    """It may be generated: another file in each run."""
    tracked(project, "train.py")
    loaded = {project / "train.py", project / "model.py", project / "examples" / "data.py"}
    assert command_code(command("python"), project, loaded) == {"train.py": sha("train.py")}
    told = command_code(command("python", "model.py"), project, loaded)
    assert told == {"model.py": sha("model.py"), "train.py": sha("train.py")}


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


# What a run is given


@pytest.mark.parametrize(
    ("workload", "path"),
    [
        (command("python", "train.py"), "/venv/bin:/usr/bin"),
        (command("python", "train.py").model_copy(update={"env": {"PATH": "/mine"}}), "/mine"),
        (records.workload(), "/usr/bin"),
    ],
    ids=["command", "command with a PATH of its own", "function"],
)
def test_a_command_finds_the_programs_of_the_gates_environment(tmp_path: Path, workload: Workload, path: str) -> None:
    tool = NsysTool(path=Path("nsys"), version=NsysVersion(2024, 2, 3), env={})
    bench = Bench(
        root=tmp_path,
        settings=Settings(),
        tool=tool,
        machine=Machine(),
        env={"PATH": "/usr/bin"},
        python="/venv/bin/python",
    )
    with runner._ordered(bench, workload, tmp_path / "run", run_id="r") as ordered:
        assert ordered.spec.env["PATH"] == path


@pytest.mark.parametrize("folder", [None, "examples"])
def test_pwd_is_the_folder_that_it_runs_in(tmp_path: Path, folder: str | None) -> None:
    """In a duet the caller's would be the project instead of the checkout, and both sides read one file."""
    tool = NsysTool(path=Path("nsys"), version=NsysVersion(2024, 2, 3), env={})
    env = {"PATH": "/usr/bin", "PWD": "/elsewhere"}
    bench = Bench(root=tmp_path, settings=Settings(), tool=tool, machine=Machine(), env=env, python="/bin/python")
    with runner._ordered(bench, command("python", cwd=folder), tmp_path / "run", run_id="r") as ordered:
        assert ordered.spec.env["PWD"] == str(ordered.spec.cwd) == str(tmp_path / (folder or ""))


@pytest.mark.parametrize("given", [None, "", "/lib"])
@pytest.mark.parametrize("workload", [command("python"), records.workload()], ids=["command", "function"])
def test_what_runs_in_the_project_says_what_it_loads(tmp_path: Path, workload: Workload, given: str | None) -> None:
    tool = NsysTool(path=Path("nsys"), version=NsysVersion(2024, 2, 3), env={})
    env = {"PATH": "/usr/bin"} | ({} if given is None else {"PYTHONPATH": given})
    bench = Bench(root=tmp_path, settings=Settings(), tool=tool, machine=Machine(), env=env, python="/bin/python")
    witnesses = tmp_path / "run" / "witnesses"
    with runner._ordered(bench, workload, tmp_path / "run", run_id="r") as ordered:
        assert ordered.spec.env["PYTHONPATH"] == f"{witnesses}:/lib" if given else str(witnesses)
        assert ordered.spec.env["PERFGATE_WITNESS"] == str(witnesses)
        assert "PERFGATE_WITNESS_WHOLE" not in ordered.spec.env
        assert ("PERFGATE_WITNESS_EXECUTED" in ordered.spec.env) == (workload.form != "command")
        assert (witnesses / "sitecustomize.py").is_file()
    assert not witnesses.exists()


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
    nsys_hung: bool = False,
    disk_was_full: bool = False,
    tail: tuple[str, ...] = (),
    captures: tuple[Captured, ...] = CAPTURED,
) -> ProfileOutcome:
    return ProfileOutcome(
        nsys_hung=nsys_hung,
        disk_was_full=disk_was_full,
        captures=captures,
        exit_status=exit_status,
        signal=signal,
        timed_out=timed_out,
        wall_s=1.0,
        tail=tail,
        log=LOG,
        problem="The disk ran full." if disk_was_full else None,
    )


def account(ending: Ending, message: str = "", exit_status: int | None = None) -> Account:
    return Account(ending=ending, message=message, exit_status=exit_status, pid=7)


def failure(workload: Workload, outcome: ProfileOutcome, told: Account | None = None) -> PerfgateError:
    with pytest.raises((CaptureFailed, WorkloadFailed, WorkloadTimedOut)) as failed:
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
    (ended(exit_status=4), account(Ending.NOT_PINNED, "it cannot be pinned."), "it cannot be pinned"),
    (ended(exit_status=1), account(Ending.ABANDONED, "the other side ended."), "the other side ended"),
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


def test_a_full_disk_is_told_before_the_time_that_it_cost() -> None:
    workload = records.workload()
    error = failure(workload, ended(timed_out=True, disk_was_full=True, exit_status=None))
    assert isinstance(error, CaptureFailed)
    assert str(error).startswith(f"{workload.id}: The disk ran full.\nFree some space, and run again.")


def test_an_nsys_that_hangs_is_not_told_as_the_workloads_fault() -> None:
    workload = records.workload()
    error = failure(workload, ended(timed_out=True, nsys_hung=True, exit_status=None))
    assert isinstance(error, WorkloadTimedOut)
    assert str(error).startswith(
        f"{workload.id}: nsys did not end within {workload.timeout_s:g} s, though the workload had ended, "
        "and was stopped.\n"
        "Run it again, for nsys hangs now and then on a busy machine."
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


def test_the_share_of_host_to_device_is_the_same_of_the_report_and_of_the_capture() -> None:
    copies = [Op(start=0, end=200, correlation=1), Op(start=200, end=300, correlation=2, kind=CopyKind.UVM_H2D)]
    (sample,) = measure(build(copies=copies, ranges=[Range(start=0, end=400)]), step="step")
    rows = (mem_row("CUDA memcpy Host-to-Device", 66.7), mem_row("CUDA memcpy Unified Host-to-Device", 33.3))
    assert runner._share_of_h2d(Reports(cuda_gpu_mem_time_sum=rows)) == sample.memory_share_h2d == 0.667


# Two runs at once

SOON_S = 10.0
Tick = Callable[[], None]


def finished(**more: object) -> Account:
    return Account.model_validate({"ending": Ending.FINISHED, "pid": 7, "code": {"model.py": "a" * 64}, **more})


@dataclass
class Stand:
    """Two benches, and in place of nsys what the runs of either side are to do."""

    folder: Path
    acts: dict[str, Callable[[Tick], Account | None]]
    """By side: what its run does, which may raise, and tells of itself."""
    specs: dict[str, ProfileSpec] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    called_off: list[str] = field(default_factory=list)
    ran_in: dict[str, str] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    """By side: the steps in its capture."""
    crashing: tuple[Side, ...] = ()
    """The sides whose nsys breaks down."""

    def profile(
        self,
        _tool: NsysTool,
        spec: ProfileSpec,
        *,
        on_tick: Tick | None = None,
    ) -> ProfileOutcome:
        """Stand in for nsys."""
        side = spec.folder.parent.name
        assert on_tick is not None
        self.specs[side] = spec
        self.ran_in[side] = threading.current_thread().name
        self.orders[side] = Order.model_validate_json((spec.folder.parent / "order.json").read_text())
        for fifo in self.fifos(side):
            assert stat.S_ISFIFO(fifo.stat().st_mode)
        if side in self.crashing:
            return replace(ended(exit_status=None, captures=()), crash="Connection to Agent lost")
        try:
            told = self.acts[side](on_tick)
        except BaseException as failed:
            if type(failed).__name__ == "_CalledOff":
                self.called_off.append(side)
            raise
        if told is not None:
            (spec.folder.parent / "account.json").write_text(told.model_dump_json())
        status = 0 if told is not None and told.ending is Ending.FINISHED else 1
        return ended(exit_status=status, captures=(Captured(rep=spec.folder / "c.nsys-rep", sqlite=spec.folder),))

    def fifos(self, side: str) -> tuple[Path, ...]:
        """The two of a side's order."""
        bouts = self.orders[side].bouts
        assert bouts is not None
        return Path(bouts.own), Path(bouts.other)

    def bench(self, **env: str) -> Bench:
        """A bench without GPU."""
        tool = NsysTool(path=Path("nsys"), version=NsysVersion(2024, 2, 3), env={})
        return Bench(
            root=self.folder, settings=Settings(), tool=tool, machine=Machine(), env=env, python="/venv/bin/python"
        )

    def pair(
        self,
        workload: Workload | None = None,
        *,
        begins: Side = "reference",
    ) -> tuple[Measured, Measured]:
        """Run the pair."""
        return measure_pair(
            self.bench(WHO="reference"),
            self.bench(WHO="candidate"),
            workload or records.workload(),
            (self.folder / "reference", self.folder / "candidate"),
            begins=begins,
            bout_steps=5,
            steps=20,
            core=3,
        )


def ends_well(_tick: Tick) -> Account:
    return finished(core=3)


def raises(_tick: Tick) -> Account:
    return account(Ending.RAISED, "ValueError: no data")


def is_abandoned(_tick: Tick) -> Account:
    return account(Ending.ABANDONED, "the other side of the duet ended before its last step.")


def goes_on(tick: Tick) -> NoReturn:
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        time.sleep(0.01)
        tick()
    raise AssertionError("it was not called off")


def after(seconds: float, then: Callable[[Tick], Account]) -> Callable[[Tick], Account]:
    def act(tick: Tick) -> Account:
        time.sleep(seconds)
        return then(tick)

    return act


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    made = Stand(tmp_path, {"reference": ends_well, "candidate": ends_well})

    def measured(_workload: object, _tool: object, _captured: object, raw: Path, tick: Tick) -> runner._OfCapture:
        tick()
        process = records.process(steps=made.steps.get(raw.parent.name, 20))
        return runner._OfCapture(processes=(process,), missing=None, complaints=(), reports=Reports())

    monkeypatch.setattr(runner, "profile", made.profile)
    monkeypatch.setattr(runner, "_measure_capture", measured)
    monkeypatch.setattr(runner, "_keep_exports", lambda *_: None)
    return made


def test_each_side_of_a_pair_is_ordered_to_wait_for_the_other(stand: Stand) -> None:
    stand.pair()
    reference, candidate = (str(stand.folder / side / "turn") for side in ("reference", "candidate"))
    common = {"steps": 5, "core": 3, "patience_s": 600.0}
    assert stand.orders["reference"].bouts == Bouts(begins=True, own=reference, other=candidate, **common)
    assert stand.orders["candidate"].bouts == Bouts(begins=False, own=candidate, other=reference, **common)


def test_the_side_that_begins_is_the_one_that_was_named(stand: Stand) -> None:
    stand.pair(begins="candidate")
    begins = {side: order.bouts is not None and order.bouts.begins for side, order in stand.orders.items()}
    assert begins == {"reference": False, "candidate": True}


def test_a_pair_takes_the_steps_it_is_told_and_twice_the_time(stand: Stand) -> None:
    stand.steps = {"candidate": 19}
    reference, candidate = stand.pair(records.workload(steps=4).model_copy(update={"timeout_s": 50.0}))
    assert [(order.steps, order.warmup) for order in stand.orders.values()] == [(20, 10)] * 2
    assert {spec.timeout_s for spec in stand.specs.values()} == {100.0}
    assert {order.bouts.patience_s for order in stand.orders.values() if order.bouts is not None} == {50.0}
    assert reference.run.complaints == ()
    assert candidate.run.complaints == ("steps were lost: process 4242 shows 19 of 20 measured steps",)


def test_the_sides_of_a_pair_are_no_neighbours_to_each_other(stand: Stand) -> None:
    stand.pair()
    ids = [spec.env[RUN_COOKIE] for spec in stand.specs.values()]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert {side: spec.env["WHO"] for side, spec in stand.specs.items()} == {
        "reference": "reference",
        "candidate": "candidate",
    }


def test_a_run_bears_the_mark_of_its_gate_as_well(stand: Stand) -> None:
    bench = stand.bench(**{RUN_COOKIE: "of-a-job"})
    with runner.prepared(bench, records.workload(), stand.folder / "run") as one:
        mark, run_id = one.env[RUN_COOKIE].split(":")
    assert mark == "of-a-job"
    assert len(run_id) == 32


def test_a_pair_is_measured_each_in_its_own_folder_and_leaves_no_fifo(stand: Stand) -> None:
    reference, candidate = stand.pair()
    assert (reference.run.folder, candidate.run.folder) == ("reference", "candidate")
    assert reference.account == candidate.account == finished(core=3)
    assert candidate.run.conditions == Conditions()
    for side in ("reference", "candidate"):
        assert sorted(path.name for path in (stand.folder / side).iterdir()) == ["account.json", "order.json"]


@pytest.mark.parametrize(
    ("core", "remarks"), [(3, ()), (None, ("its process left core 3, where the duet had put it",))]
)
def test_a_process_that_left_its_core_is_remarked_upon(
    stand: Stand, core: int | None, remarks: tuple[str, ...]
) -> None:
    stand.acts["candidate"] = lambda _: finished(core=core)
    reference, candidate = stand.pair()
    assert (reference.run.remarks, candidate.run.remarks) == ((), remarks)


def test_a_command_cannot_take_turns(stand: Stand) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        stand.pair(command("python", "train.py"))
    assert str(refused.value) == (
        "train: it is a command, so it cannot take turns with another commit step by step. Only in the loop of a "
        "decorated workload can perfgate wait between steps.\n"
        "Run the two one after the other, or write the loop as a function under @workload."
    )
    assert list(stand.folder.iterdir()) == []


def failed_by(stand: Stand) -> PerfgateError | ReferenceFailed:
    began = time.monotonic()
    with pytest.raises((PerfgateError, ReferenceFailed)) as caught:
        stand.pair()
    assert time.monotonic() - began < SOON_S / 2
    assert not list(stand.folder.rglob("turn"))
    assert isinstance(caught.value, PerfgateError | ReferenceFailed)
    return caught.value


def test_a_candidate_that_fails_calls_the_reference_off(stand: Stand) -> None:
    stand.acts = {"reference": goes_on, "candidate": raises}
    error = failed_by(stand)
    assert isinstance(error, WorkloadFailed)
    assert str(error).startswith("mlp: it raised ValueError: no data.\n")
    assert stand.called_off == ["reference"]


def test_a_reference_that_fails_calls_the_candidate_off_and_is_told_from_it(stand: Stand) -> None:
    stand.acts = {"reference": raises, "candidate": goes_on}
    error = failed_by(stand)
    assert isinstance(error, ReferenceFailed)
    assert isinstance(error.error, WorkloadFailed)
    assert error.__cause__ is error.error
    assert str(error) == str(error.error)
    assert str(error).startswith("mlp: it raised ValueError: no data.\n")
    assert stand.called_off == ["candidate"]


def test_a_side_that_was_left_alone_waits_for_the_reason(stand: Stand) -> None:
    stand.acts = {"reference": after(0.3, raises), "candidate": is_abandoned}
    assert str(failed_by(stand)).startswith("mlp: it raised ValueError: no data.\n")
    for path in ("reference", "candidate"):
        (stand.folder / path).rename(stand.folder / f"{path}-before")
    stand.acts = {"reference": is_abandoned, "candidate": after(0.3, raises)}
    assert isinstance(failed_by(stand), WorkloadFailed)
    assert stand.called_off == []


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_side_whose_nsys_breaks_down_is_not_blamed_for_it(stand: Stand, side: Side) -> None:
    stand.acts = {"reference": goes_on, "candidate": goes_on}
    stand.crashing = (side,)
    assert isinstance(failed_by(stand), NsysCrashed)
    assert stand.called_off == ["candidate" if side == "reference" else "reference"]


@pytest.mark.parametrize(("reference", "blamed"), [(is_abandoned, WorkloadFailed), (ends_well, WorkloadFailed)])
def test_a_candidate_that_was_left_alone_without_a_reason_says_so(
    stand: Stand, reference: Callable[[Tick], Account], blamed: type
) -> None:
    stand.acts = {"reference": reference, "candidate": is_abandoned}
    error = failed_by(stand)
    assert isinstance(error, blamed)
    assert str(error).startswith("mlp: the other side of the duet ended before its last step.\n")


def test_a_reference_that_was_left_alone_without_a_reason_says_so(stand: Stand) -> None:
    stand.acts = {"reference": is_abandoned, "candidate": ends_well}
    error = failed_by(stand)
    assert isinstance(error, ReferenceFailed)
    assert str(error).startswith("mlp: the other side of the duet ended before its last step.\n")


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_capture_that_cannot_be_read_is_told_by_its_side(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, side: Side
) -> None:
    read = runner._measure_capture

    def measured(workload: object, tool: object, captured: object, raw: Path, tick: Tick) -> object:
        if raw.parent.name == side:
            raise CaptureUnreadable(subject="c.sqlite", fact="is empty", next_step="Capture it again.")
        return read(workload, tool, captured, raw, tick)  # type: ignore[arg-type]  # the stand-in takes any

    monkeypatch.setattr(runner, "_measure_capture", measured)
    error = failed_by(stand)
    assert isinstance(error, ReferenceFailed if side == "reference" else CaptureUnreadable)
    assert str(error) == "c.sqlite: is empty.\nCapture it again."


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_folder_that_cannot_be_made_is_told_by_its_side(stand: Stand, side: Side) -> None:
    (stand.folder / side).mkdir()
    error = failed_by(stand)
    assert isinstance(error, ReferenceFailed if side == "reference" else StoreFailed)
    assert "the run's folder cannot be written (File exists)" in str(error)
    assert stand.specs == {}


class Bug(Exception):
    """No failure that perfgate knows."""


def is_a_bug(_tick: Tick) -> NoReturn:
    raise Bug


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_bug_stays_one_and_ends_the_other_side(stand: Stand, side: Side) -> None:
    stand.acts = {"reference": goes_on, "candidate": goes_on, side: is_a_bug}
    with pytest.raises(Bug):
        stand.pair()
    assert len(stand.called_off) == 1
    assert side not in stand.called_off


def ctrl_c() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def test_ctrl_c_on_the_candidate_calls_the_reference_off(stand: Stand) -> None:
    def interrupted(tick: Tick) -> NoReturn:
        ctrl_c()
        goes_on(tick)

    stand.acts = {"reference": goes_on, "candidate": interrupted}
    with pytest.raises(KeyboardInterrupt):
        stand.pair()
    assert stand.called_off == ["reference"]
    assert stand.ran_in["candidate"] == threading.main_thread().name
    assert stand.ran_in["reference"].startswith("perfgate-reference")
    assert not list(stand.folder.rglob("turn"))


def test_ctrl_c_while_only_the_reference_still_runs_calls_it_off(stand: Stand) -> None:
    def interrupts(tick: Tick) -> NoReturn:
        account = stand.folder / "candidate" / "account.json"
        while not account.exists() or not account.read_text().endswith("}"):
            time.sleep(0.01)
        time.sleep(0.2)  # the candidate's thread has ended then, but for what a stand-in does
        ctrl_c()
        goes_on(tick)

    stand.acts["reference"] = interrupts
    with pytest.raises(KeyboardInterrupt):
        stand.pair()
    assert stand.called_off == ["reference"]


def test_processes_are_in_the_order_of_their_ranks() -> None:
    made = [records.process(pid=pid) for pid in (7, 8, 9)]
    ranked = runner.with_ranks(made, {7: 2, 8: 0, 9: 1, 10: 1})
    assert [(process.pid, process.rank) for process in ranked] == [(8, 0), (9, 1), (7, 2)]


@pytest.mark.parametrize("ranks", [{}, {7: 0}, {7: 0, 8: 0}, {9: 0, 10: 1}])
def test_ranks_that_do_not_tell_the_processes_apart_are_left_out(ranks: Mapping[int, int]) -> None:
    made = (records.process(pid=7), records.process(pid=8))
    assert runner.with_ranks(made, ranks) == made


def test_one_process_has_no_rank() -> None:
    made = (records.process(pid=7),)
    assert runner.with_ranks(made, {7: 0}) == made
