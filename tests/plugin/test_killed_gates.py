"""A gate whose pytest is killed clears nothing up: the next one does, and spares what a living one
has running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support import records
from support.processes import is_alive, until
from support.project import LOOP, Project

pytestmark = [pytest.mark.behaviour, pytest.mark.nsys]

BUSY = """\
import json, os, subprocess, sys, time
from pathlib import Path
from perfgate import workload

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
DAEMON = "import os, sys, time\\nif os.fork(): sys.exit()\\nos.setsid()\\n" \\
    "if os.fork(): sys.exit()\\n" \\
    "open('daemon.pid', 'w').write(str(os.getpid()))\\ntime.sleep(600)"

DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"

@workload(steps=4, warmup=1, timeout_s=600)
def busy(steps):
    for _ in steps:
        started = [
            subprocess.Popen(SLEEP),
            subprocess.Popen(SLEEP, start_new_session=True),
            subprocess.Popen(SLEEP, process_group=0),
            subprocess.Popen(SLEEP, env={}),
            subprocess.Popen([*SLEEP[:2], DEAF]),
        ]
        subprocess.run([sys.executable, "-c", DAEMON], check=True)
        while not Path("daemon.pid").exists():
            time.sleep(0.01)
        pids = [os.getpid(), int(Path("daemon.pid").read_text()), *(one.pid for one in started)]
        Path("pids.tmp").write_text(json.dumps(pids))
        Path("pids.tmp").rename("pids")
        time.sleep(600)
"""


ONE_RUN = ("--perfgate", "--perfgate-new=allow", "--perfgate-runs=1")


@pytest.fixture
def killed(project: Project, real_nsys: Sequence[str]) -> Iterator[list[int]]:
    """A gate that was killed while its workload ran; the processes that are left, nsys's own among
    them."""
    project.workload(BUSY)
    with project.start("--perfgate", stdout=subprocess.DEVNULL) as gate:
        until((project.root / "pids").exists)
        below = [one.pid for one in psutil.Process(gate.pid).children(recursive=True)]
        gate.send_signal(signal.SIGKILL)
    left = sorted({*json.loads((project.root / "pids").read_text()), *below})
    assert all(map(is_alive, left))
    project.workload(LOOP)
    yield left
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_the_next_gate_ends_what_a_killed_gate_left_and_says_so(
    project: Project, killed: list[int]
) -> None:
    results = project.root / ".perfgate" / "results"
    assert list(results.rglob("*.qdstrm")) or list(results.rglob("nsys/tmp/*"))
    seen = project.run(*ONE_RUN)
    assert seen.status == 0
    assert [pid for pid in killed if is_alive(pid)] == []
    assert "killed gate" in seen.out
    assert [str(path) for path in results.rglob("*") if path.name in ("nsys", "imports")] == []
    assert list(results.glob("*/busy/*/run-1/workload.log"))
    assert "killed gate" not in project.run(*ONE_RUN).out


def test_a_gate_spares_what_a_living_gate_of_this_user_has_running(
    project: Project, real_nsys: Sequence[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "workloads").mkdir()
    (other / "pyproject.toml").write_text("")
    (other / "workloads" / "loops.py").write_text(BUSY)
    env = {**os.environ, "PERFGATE_LOCKS": str(other)}
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "--perfgate"],
        cwd=other,
        env=env,
        stdout=subprocess.DEVNULL,
    ) as gate:
        try:
            until((other / "pids").exists)
            running = [*json.loads((other / "pids").read_text())]
            project.workload()
            seen = project.run(*ONE_RUN)
            assert seen.status == 0
            assert "killed gate" not in seen.out
            assert [pid for pid in running if not is_alive(pid)] == []
            assert list((other / ".perfgate").rglob("run-1/nsys"))
        finally:
            gate.terminate()
    until(lambda: not any(map(is_alive, running)), timeout_s=10)


def test_what_only_looks_like_a_killed_gates_is_spared(
    project: Project, real_nsys: Sequence[str], tmp_path: Path
) -> None:
    """Marks of processes that never were, of another machine, or of this very test's own
    surroundings."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    marks = ["some-job-1", "0" * 32, f"{'0' * 32}-4194304-1-1-{os.getuid()}", ""]
    started = [subprocess.Popen(sleep, env={**os.environ, "PERFGATE_RUN": mark}) for mark in marks]
    try:
        project.workload()
        assert project.run(*ONE_RUN).status == 0
        assert [one.poll() for one in started] == [None] * len(marks)
    finally:
        for one in started:
            one.kill()
            one.wait()


def test_what_a_killed_look_with_nsight_compute_left_is_removed(project: Project) -> None:
    left = project.root / ".perfgate" / "ncu" / "1-now"
    (left / "nsys").mkdir(parents=True)
    for name in (".underway", "launch.ncu-rep", "nsys/capture.nsys-rep", "nsys/workload.log"):
        (left / name).write_text("held the environment")
    project.gpus()
    project.workload(LOOP)
    project.measures(records.run)
    assert "killed gate" in project.gate("--perfgate-new=allow").out
    assert [path.name for path in left.rglob("*") if path.suffix in (".ncu-rep", ".nsys-rep")] == []
