"""The gate as a process: its command, its output, its exit status, and its end with ours."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from support.processes import is_alive

from perfgate.system import gate_process
from perfgate.system.gate_process import ending_as_on_ctrl_c, gate_command, run_to_end

HANGS = """\
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: {on_end})
Path("began").write_text("")
time.sleep(60)
"""


def test_the_command_is_a_pytest_of_the_same_python() -> None:
    command = gate_command(
        "/venv/bin/python", "--perfgate-runs=3", "workloads/a.py::mlp[4]", root=Path("/project")
    )
    assert command == (
        "/venv/bin/python",
        "-m",
        "pytest",
        "-p",
        "perfgate",
        "--perfgate",
        "--rootdir=/project",
        "--perfgate-runs=3",
        "workloads/a.py::mlp[4]",
    )


def python(program: str, folder: Path, **more: Path) -> int:
    return run_to_end(
        (sys.executable, "-c", program), cwd=folder, env=dict(os.environ, WORD="word"), **more
    )


def test_both_streams_of_a_command_go_to_its_log_in_order(tmp_path: Path) -> None:
    program = "import os, sys; print(os.environ['WORD'], flush=True); print('err', file=sys.stderr); sys.exit(3)"
    assert python(program, tmp_path, log=tmp_path / "log") == 3
    assert (tmp_path / "log").read_text() == "word\nerr\n"


def test_without_a_log_its_output_is_ours(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert python("print('seen')", tmp_path) == 0
    assert capfd.readouterr().out == "seen\n"


def test_a_command_reads_nothing_of_ours(tmp_path: Path) -> None:
    assert python("import sys; sys.exit(len(sys.stdin.read()))", tmp_path) == 0


def test_a_command_that_was_killed_is_told_by_its_signal(tmp_path: Path) -> None:
    assert python("import os; os.kill(os.getpid(), 9)", tmp_path) == -9


def interrupted_once_begun(
    folder: Path, number: signal.Signals = signal.SIGINT
) -> threading.Thread:
    """Interrupt this process as soon as the program in `folder` has begun."""

    def interrupt() -> None:
        deadline = time.monotonic() + 30
        while not (folder / "began").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_we_wait_until_it_has_cleared_up(
    tmp_path: Path, number: signal.Signals
) -> None:
    program = HANGS.format(on_end="(time.sleep(0.2), Path('cleared').write_text(''), sys.exit(1))")
    thread = interrupted_once_begun(tmp_path, number)
    with pytest.raises(KeyboardInterrupt), ending_as_on_ctrl_c():
        python(program, tmp_path)
    thread.join()
    assert (tmp_path / "cleared").exists()


def test_one_that_does_not_end_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_process, "PATIENCE_S", 0.3)
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid))\n"
    )
    thread = interrupted_once_begun(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        python(program + HANGS.format(on_end="None"), tmp_path)
    thread.join()
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 10
    while is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_signals_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with ending_as_on_ctrl_c():
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


def test_beside_the_main_thread_signals_are_left_alone() -> None:
    seen: list[object] = []

    def ask() -> None:
        with ending_as_on_ctrl_c():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
