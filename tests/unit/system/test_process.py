"""Real small processes: ending what does not want to end cannot be shown on a mock."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest
from support.processes import is_alive

from perfgate.model.order import RUN_COOKIE
from perfgate.system import process as module
from perfgate.system.process import Finished, processes_of, run_process

ENV = {"PATH": os.environ["PATH"]}


def run(
    code: str, folder: Path, *, timeout_s: float = 20.0, env: dict[str, str] | None = None
) -> tuple[Finished, list[str]]:
    lines: list[str] = []
    finished = run_process(
        [sys.executable, "-u", "-c", code],
        cwd=folder,
        env={**ENV, **(env or {})},
        log=folder / "log",
        timeout_s=timeout_s,
        on_line=lines.append,
    )
    return finished, lines


def pid_in(path: Path) -> int:
    for _ in range(200):
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.02)
    raise AssertionError(f"{path} was never written")


def test_a_program_that_ends_leaves_its_status_its_lines_and_a_log(tmp_path: Path) -> None:
    finished, lines = run(
        "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path
    )
    assert finished.returncode == 3
    assert not finished.timed_out
    assert finished.left == ()
    assert 0 < finished.wall_s < 10
    assert lines == ["out", "err"]
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_a_signal_that_ends_the_program_is_a_negative_status(tmp_path: Path) -> None:
    finished, _ = run("import os; os.kill(os.getpid(), 9)", tmp_path)
    assert finished.returncode == -signal.SIGKILL
    assert not finished.timed_out


def test_carriage_returns_end_lines_and_crlf_is_one_end(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "w = lambda text: sys.stdout.buffer.write(text) and sys.stdout.flush()\n"
        "w(b'[1/2] 5%\\r'); time.sleep(0.3); w(b'[1/2] 10%\\rdos\\r'); time.sleep(0.3); w(b'\\nlast\\r')"
    )
    _, lines = run(code, tmp_path)
    assert lines == ["[1/2] 5%", "[1/2] 10%", "dos", "last"]


def test_a_program_that_hangs_is_ended_after_its_time(tmp_path: Path) -> None:
    started = time.monotonic()
    finished, lines = run(
        "import os, time; open('pid', 'w').write(str(os.getpid())); print('on'); time.sleep(60)",
        tmp_path,
        timeout_s=1.0,
    )
    assert finished.timed_out
    assert finished.returncode is None
    assert 1.0 <= finished.wall_s < 2.0
    assert time.monotonic() - started < 5.0
    assert lines == ["on"]
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_a_program_that_closed_its_output_and_hangs_is_ended_too(tmp_path: Path) -> None:
    finished, _ = run(
        "import os, time; os.close(1); os.close(2); time.sleep(60)", tmp_path, timeout_s=1.0
    )
    assert finished.timed_out


def test_a_program_that_ignores_sigterm_gets_sigkill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.5)
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    )
    finished, _ = run(code, tmp_path, timeout_s=1.0)
    assert finished.timed_out
    assert not is_alive(pid_in(tmp_path / "pid"))


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        {prepare}
        open("daemon", "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
while not (os.path.exists("daemon") and open("daemon").read()):
    time.sleep(0.01)
{then}
"""


def test_a_daemon_that_left_the_session_is_found_by_its_cookie(tmp_path: Path) -> None:
    finished, _ = run(DAEMON.format(prepare="pass", then="sys.exit(0)"), tmp_path)
    assert finished.returncode == 0
    assert not is_alive(pid_in(tmp_path / "daemon"))


def test_a_daemon_of_a_program_that_hangs_is_ended_with_it(tmp_path: Path) -> None:
    finished, _ = run(DAEMON.format(prepare="pass", then="time.sleep(60)"), tmp_path, timeout_s=1.0)
    assert finished.timed_out
    assert not is_alive(pid_in(tmp_path / "daemon"))


def test_a_child_without_the_cookie_is_found_by_its_session(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen(['sleep', '60'], env={'PATH': '/usr/bin:/bin'}, stdout=-3, stderr=-3)\n"
        "open('pid', 'w').write(str(p.pid))"
    )
    finished, _ = run(code, tmp_path)
    assert finished.returncode == 0
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_a_child_that_holds_the_output_open_does_not_hold_up_the_run(tmp_path: Path) -> None:
    finished, lines = run(
        "import subprocess; subprocess.Popen(['sleep', '60']); print('done')", tmp_path
    )
    assert finished.returncode == 0
    assert finished.wall_s < 5
    assert finished.left == ("sleep",)
    assert lines == ["done"]


def test_a_run_inside_a_run_bears_the_cookies_of_both(tmp_path: Path) -> None:
    _, lines = run(
        f"import os; print(os.environ[{RUN_COOKIE!r}])", tmp_path, env={RUN_COOKIE: "outer"}
    )
    outer, inner = lines[0].split(":")
    assert outer == "outer"
    assert inner


def test_ctrl_c_ends_everything_and_goes_on(tmp_path: Path) -> None:
    def interrupt() -> None:
        pid_in(tmp_path / "daemon")
        _thread.interrupt_main()

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        run(DAEMON.format(prepare="pass", then="time.sleep(60)"), tmp_path)
    watcher.join()
    assert not is_alive(pid_in(tmp_path / "daemon"))


def test_a_second_ctrl_c_skips_the_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 60.0)

    def interrupt_twice() -> None:
        pid_in(tmp_path / "daemon")
        _thread.interrupt_main()
        time.sleep(0.7)
        _thread.interrupt_main()

    watcher = threading.Thread(target=interrupt_twice)
    watcher.start()
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(DAEMON.format(prepare=ignore, then=f"{ignore}; time.sleep(60)"), tmp_path)
    watcher.join()
    assert time.monotonic() - started < module.GRACE_S / 2
    assert not is_alive(pid_in(tmp_path / "daemon"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_however_often_a_gate_is_told_to_end_it_clears_up_first(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    argv = [sys.executable, "-c", sleeper]
    mark = uuid.uuid4().hex
    monkeypatch.setattr(module, "GRACE_S", 60.0)
    before = signal.signal(number, signal.default_int_handler)
    with subprocess.Popen(
        argv, env={**ENV, RUN_COOKIE: mark}, start_new_session=True, stdout=subprocess.PIPE
    ) as program:
        try:
            assert program.stdout is not None
            program.stdout.readline()

            def interrupted(mark: str, *, session: int | None = None) -> list[psutil.Process]:
                signal.raise_signal(number)
                found = processes_of(mark, session=session)
                signal.raise_signal(number)
                return found

            monkeypatch.setattr(module, "processes_of", interrupted)
            started = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                module.end_marked(mark)
            assert time.monotonic() - started < module.GRACE_S / 2
            assert program.wait(timeout=10) == -signal.SIGKILL
            assert signal.getsignal(number) is signal.default_int_handler
        finally:
            program.kill()
            signal.signal(number, before)


def test_a_listener_that_fails_ends_the_run_and_is_heard(tmp_path: Path) -> None:
    def fail(line: str) -> None:
        raise BrokenPipeError(f"cannot tell {line}")

    with pytest.raises(BrokenPipeError, match="cannot tell 1"):
        run_process(
            ["sh", "-c", "echo $$ > pid; echo 1; exec sleep 60"],
            cwd=tmp_path,
            env=ENV,
            log=tmp_path / "log",
            timeout_s=20.0,
            on_line=fail,
        )
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_whatever_bears_a_mark_is_ended_and_named(tmp_path: Path) -> None:
    sleeper = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    job = uuid.uuid4().hex
    ours, others = (
        subprocess.Popen(
            [sys.executable, "-c", sleeper], env={**ENV, RUN_COOKIE: cookie}, start_new_session=True
        )
        for cookie in (f"{job}:of-a-run", f"{job}-2")
    )
    with ours, others:
        try:
            while len(processes_of(job)) + len(processes_of(f"{job}-2")) < 2:
                time.sleep(0.01)
            assert len(module.end_marked(job)) == 1
            assert ours.wait(timeout=10) == -signal.SIGTERM
            assert others.poll() is None
            assert module.end_marked(job) == ()
        finally:
            ours.kill()
            others.kill()


def test_what_left_its_session_and_cleared_its_environment_is_adopted_and_ended(
    tmp_path: Path,
) -> None:
    file = tmp_path / "pid"
    hidden = f"env -i /usr/bin/setsid sh -c 'sleep 60 & echo $! > {file}'"
    bystander = subprocess.Popen(["sleep", "61"])
    try:
        with module.adopting() as end_adopted:
            finished, _ = run(
                f"import subprocess; subprocess.run({hidden!r}, shell=True, check=True)", tmp_path
            )
            pid = pid_in(file)
            assert (finished.left, is_alive(pid)) == ((), True)
            assert processes_of("whatever") == []
            assert end_adopted() == ("sleep",)
            assert not is_alive(pid)
            assert end_adopted() == ()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_orphans_are_those_of_init_again_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with module.adopting():
        pass
    subprocess.run(["setsid", "sh", "-c", f"sleep 60 & echo $! > {file}"], check=True)
    orphan = psutil.Process(pid_in(file))
    try:
        assert orphan.ppid() != os.getpid()
    finally:
        orphan.kill()


def test_what_a_killed_process_left_is_known_by_more_than_its_id(tmp_path: Path) -> None:
    marks = {
        "this process": module._owner(os.getpid()),
        "one before it with the same id": module._owner(os.getpid()).replace("-", "-1", 1),
        "one of another namespace": f"{os.getpid()}-1-1-{os.getuid()}",
        "one of another user": module._owner(os.getpid()).rpartition("-")[0]
        + "-1"
        + str(os.getuid()),
    }
    started = {
        whose: subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)"],
            env={**ENV, RUN_COOKIE: f"outer:{'0' * 32}-{owner}"},
        )
        for whose, owner in marks.items()
    }
    try:
        found = {process.pid for process in module.abandoned()}
        assert {whose for whose, one in started.items() if one.pid in found} == {
            "one before it with the same id"
        }
    finally:
        for one in started.values():
            one.kill()
            one.wait()


def test_of_very_much_output_the_log_keeps_both_ends_and_says_how_much_is_between(
    tmp_path: Path,
) -> None:
    program = "import sys\nprint('first')\nfor n in range(200): sys.stdout.write(('x' * 99 + '\\n') * 1000)\nprint('last')"
    finished, lines = run(program, tmp_path)
    assert (finished.returncode, len(lines)) == (0, 200_002)
    (log,) = (path for path in tmp_path.iterdir() if path.stat().st_size)
    assert log.stat().st_size <= module.HEAD_BYTES + 2 * module.TAIL_BYTES + 1000
    kept = log.read_text("utf-8").splitlines()
    (place,) = (
        number for number, line in enumerate(kept) if line.startswith("[perfgate left out ")
    )
    assert (kept[0], kept[-1]) == ("first", "last")
    assert len(kept) - 1 + int(kept[place].split()[3]) == 200_002
    assert min(place, len(kept) - place) * 100 >= 1_900_000


def test_what_is_wrapped_over_lines_is_cleaned_however_late_the_next_line_comes(
    tmp_path: Path,
) -> None:
    program = "import time\nfor part in ('a', 'sec', 'ret', *'bcdefg'):\n print(part, flush=True); time.sleep(0.2)"
    seen: list[str] = []
    run_process(
        (sys.executable, "-c", program),
        cwd=tmp_path,
        env=os.environ,
        log=tmp_path / "log",
        timeout_s=30,
        on_line=seen.append,
        clean=lambda text: text.replace("sec\nret", "hidden"),
    )
    assert seen == ["a", "hidden", *"bcdefg"]
    assert (tmp_path / "log").read_text().split() == seen


def test_the_last_lines_of_what_ran_out_of_time_are_kept_too(tmp_path: Path) -> None:
    program = "import time\nprint('one')\nprint('two', flush=True)\ntime.sleep(60)"
    seen: list[str] = []
    done = run_process(
        (sys.executable, "-c", program),
        cwd=tmp_path,
        env=os.environ,
        log=tmp_path / "log",
        timeout_s=3,
        on_line=seen.append,
        clean=lambda text: text.replace("two", "hidden"),
    )
    assert done.timed_out
    assert seen == ["one", "hidden"]
    assert (tmp_path / "log").read_text().split() == seen
