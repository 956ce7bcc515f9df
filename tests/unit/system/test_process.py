"""Real small processes: ending what does not want to end cannot be shown on a mock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support.cases import named
from support.processes import is_alive

from perfgate.model.order import RUN_COOKIE
from perfgate.model.secrets import Cleaner
from perfgate.system import ending, process
from perfgate.system.ending import abandoned, end_all, end_marked, new_mark
from perfgate.system.process import Finished, Listening, run_process, run_to_end
from perfgate.system.signals import ending_as_on_ctrl_c

ENV = {"PATH": os.environ["PATH"]}
STUBBORN = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
SAY_PID = "import os, time; open('pid', 'w').write(str(os.getpid()))\n"
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        open("pid", "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
while not (os.path.exists("pid") and open("pid").read()):
    time.sleep(0.01)
"""

HIDDEN = """
import os, subprocess, time
if os.fork() == 0:
    os.setsid()
    one = subprocess.Popen(["/bin/sleep", "60"], env={})
    open("pid", "w").write(str(one.pid))
    time.sleep(60)
"""
"""As under nsys, which gives its program a session of its own."""


def run(
    code: str,
    folder: Path,
    *,
    timeout_s: float = 20.0,
    on_line: Callable[[str], None] | None = None,
    mark: str = "",
    clean: Callable[[str], str] = lambda text: text.replace("secret", "hidden"),
) -> tuple[Finished, list[str]]:
    lines: list[str] = []
    finished = run_process(
        [sys.executable, "-u", "-c", code],
        cwd=folder,
        env={**ENV, RUN_COOKIE: mark},
        log=folder / "log",
        timeout_s=timeout_s,
        listening=Listening(on_line=on_line or lines.append, clean=clean),
    )
    return finished, lines


def pid_in(folder: Path) -> int:
    for _ in range(500):
        if (folder / "pid").exists() and (text := (folder / "pid").read_text()):
            return int(text)
        time.sleep(0.02)
    raise AssertionError("no process began")


def interrupting(folder: Path, *numbers: signal.Signals) -> threading.Thread:
    """Send this process signals as soon as the program in `folder` has begun."""

    def interrupt() -> None:
        pid_in(folder)
        for number in numbers:
            os.kill(os.getpid(), number)
            time.sleep(0.5)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def test_a_program_that_ends_leaves_its_status_its_lines_and_a_log(tmp_path: Path) -> None:
    finished, lines = run(
        "import sys; print('out secret'); print('err', file=sys.stderr); sys.exit(3)", tmp_path
    )
    assert (finished.returncode, finished.timed_out, finished.left) == (3, False, ())
    assert lines == ["out hidden", "err"]
    assert (tmp_path / "log").read_text() == "out hidden\nerr\n"
    assert run("import os; os.kill(os.getpid(), 9)", tmp_path)[0].returncode == -signal.SIGKILL


def test_carriage_returns_end_lines_and_crlf_is_one_end(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "w = lambda text: sys.stdout.buffer.write(text) and sys.stdout.flush()\n"
        "w(b'[1/2] 5%\\r'); time.sleep(0.3); w(b'[1/2] 10%\\rdos\\r'); "
        "time.sleep(0.3); w(b'\\nlast\\r')"
    )
    assert run(code, tmp_path)[1] == ["[1/2] 5%", "[1/2] 10%", "dos", "last"]


def test_of_very_much_output_the_log_keeps_both_ends_and_says_how_much_is_between(
    tmp_path: Path,
) -> None:
    program = (
        "import sys\nprint('first')\n"
        "for n in range(200): sys.stdout.write(('x' * 99 + '\\n') * 1000)\nprint('last')"
    )
    finished, lines = run(program, tmp_path)
    assert (finished.returncode, len(lines)) == (0, 200_002)
    kept = (tmp_path / "log").read_text("utf-8").splitlines()
    (place,) = (at for at, line in enumerate(kept) if line.startswith("[perfgate left out "))
    assert (kept[0], kept[-1]) == ("first", "last")
    assert len(kept) - 1 + int(kept[place].split()[3]) == 200_002
    assert place * 100 == pytest.approx(2_000_000, rel=0.05)
    assert len(kept) - 1 - place == 5_000


@pytest.mark.parametrize(
    "program",
    named(
        {
            "silent": (SAY_PID + "time.sleep(60)",),
            "closed its output": (SAY_PID + "os.close(1); os.close(2); time.sleep(60)",),
            "ignores SIGTERM": (STUBBORN + SAY_PID + "time.sleep(60)",),
            "daemon of another session": (DAEMON + "time.sleep(60)",),
            "no mark, in another session": (HIDDEN + "time.sleep(60)",),
        }
    ),
)
def test_a_program_that_hangs_is_ended_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(ending, "GRACE_S", 0.5)
    finished, lines = run(f"print('on')\n{program}", tmp_path, timeout_s=3.0)
    assert (finished.timed_out, finished.returncode, lines) == (True, None, ["on"])
    assert not is_alive(pid_in(tmp_path))


@pytest.mark.parametrize(
    "program",
    named(
        {
            "daemon that left the session": (DAEMON,),
            "child without the mark that holds the output open": (
                (
                    "import subprocess\n"
                    "one = subprocess.Popen(['sleep', '60'], env={'PATH': '/usr/bin:/bin'})\n"
                    "open('pid', 'w').write(str(one.pid))"
                ),
            ),
        }
    ),
)
def test_what_a_program_leaves_running_is_ended(tmp_path: Path, program: str) -> None:
    finished, _ = run(program, tmp_path)
    assert (finished.returncode, len(finished.left)) == (0, 1)
    assert finished.wall_s < 10
    assert not is_alive(pid_in(tmp_path))


def test_a_run_inside_a_run_bears_the_marks_of_both(tmp_path: Path) -> None:
    _, lines = run(f"import os; print(os.environ[{RUN_COOKIE!r}])", tmp_path, mark="outer")
    outer, inner = lines[0].split(":")
    assert outer == "outer"
    assert inner


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    thread = interrupting(tmp_path, number)
    with pytest.raises(KeyboardInterrupt), ending_as_on_ctrl_c():
        run(DAEMON + "time.sleep(60)", tmp_path)
    thread.join()
    assert not is_alive(pid_in(tmp_path))


def test_a_second_signal_skips_the_grace_and_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "GRACE_S", 60.0)
    thread = interrupting(tmp_path, signal.SIGTERM, signal.SIGTERM)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), ending_as_on_ctrl_c():
        run(STUBBORN + SAY_PID + "time.sleep(60)", tmp_path)
    assert time.monotonic() - started < 30
    assert not is_alive(pid_in(tmp_path))
    thread.join()


def test_a_listener_that_fails_ends_the_run_and_is_heard(tmp_path: Path) -> None:
    def fail(line: str) -> None:
        raise BrokenPipeError(line)

    with pytest.raises(BrokenPipeError, match="1"):
        run(SAY_PID + "print(1); time.sleep(60)", tmp_path, on_line=fail)
    assert not is_alive(pid_in(tmp_path))


# What is found


def sleeper(mark: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    return subprocess.Popen(argv, env={**ENV, RUN_COOKIE: mark}, start_new_session=True)


def test_whatever_bears_a_mark_is_ended_and_nothing_else() -> None:
    job = uuid.uuid4().hex
    with sleeper(f"{job}:of-a-run") as ours, sleeper(f"{job}-2") as others:
        try:
            assert len(end_marked(job)) == 1
            assert ours.wait(timeout=10) == -signal.SIGTERM
            assert others.poll() is None
            assert end_marked(job) == ()
        finally:
            ours.kill()
            others.kill()


def test_what_one_takes_along_as_it_ends_is_named_too() -> None:
    with sleeper("leader") as leader, sleeper("follower") as follower:

        class Leader(psutil.Process):
            """As nsys, which ends its program at once on a signal."""

            def send_signal(self, sig: int) -> None:
                follower.kill()
                follower.wait()
                super().send_signal(sig)

        every = [Leader(leader.pid), psutil.Process(follower.pid)]
        try:
            names = end_all(lambda: [one for one in every if one.is_running()])
            assert len(names) == 2
        finally:
            leader.kill()
            follower.kill()


def test_what_a_killed_process_left_is_known_by_more_than_its_id() -> None:
    mine = new_mark()
    marks = {
        "this process": mine,
        "one before it with the same id": mine.replace(f"-{os.getpid()}-", f"-{os.getpid()}-1"),
        "one of another namespace": f"{'0' * 32}-{os.getpid()}-1-1-{os.getuid()}",
        "one of another user": f"{mine.rpartition('-')[0]}-1{os.getuid()}",
    }
    started = {whose: sleeper(f"outer:{mark}") for whose, mark in marks.items()}
    try:
        found = {one.pid for one in abandoned()}
        assert {whose for whose, one in started.items() if one.pid in found} == {
            "one before it with the same id"
        }
    finally:
        for one in started.values():
            one.kill()
            one.wait()


# A gate as a command


def gate(program: str, folder: Path, *, log: Path | None = None) -> int:
    env = dict(os.environ, WORD="word")
    return run_to_end((sys.executable, "-c", program), cwd=folder, env=env, log=log)


def test_the_output_of_a_command_goes_to_its_log_or_where_ours_goes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = (
        "import os, sys; print(os.environ['WORD'], len(sys.stdin.read()), flush=True)\n"
        "print('err', file=sys.stderr); sys.exit(3)"
    )
    assert gate(program, tmp_path, log=tmp_path / "log") == 3
    assert (tmp_path / "log").read_text() == "word 0\nerr\n"
    assert gate("print('seen')", tmp_path) == 0
    assert capfd.readouterr().out == "seen\n"
    assert gate("import os; os.kill(os.getpid(), 9)", tmp_path) == -9


def test_interrupted_we_wait_until_a_command_has_cleared_up(tmp_path: Path) -> None:
    clears_up = "(time.sleep(0.2), open('cleared', 'w').close(), os._exit(1))"
    program = f"import os, signal, time; signal.signal(15, lambda *_: {clears_up})\n{SAY_PID}"
    thread = interrupting(tmp_path, signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ending_as_on_ctrl_c():
        gate(program + "time.sleep(60)", tmp_path)
    thread.join()
    assert (tmp_path / "cleared").exists()


def test_a_command_that_does_not_end_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PATIENCE_S", 0.3)
    program = (
        "import subprocess; one = subprocess.Popen(['sleep', '60'])\n"
        "open('pid', 'w').write(str(one.pid)); time.sleep(60)"
    )
    thread = interrupting(tmp_path, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        gate(STUBBORN + program, tmp_path)
    thread.join()
    deadline = time.monotonic() + 10
    while is_alive(pid_in(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_signals_are_put_back_and_left_alone_in_other_threads() -> None:
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with ending_as_on_ctrl_c():
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    assert [signal.getsignal(number) for number in numbers] == before
    seen: list[object] = []

    def ask() -> None:
        with ending_as_on_ctrl_c():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


def test_what_is_wrapped_over_lines_is_cleaned_however_late_the_next_line_comes(
    tmp_path: Path,
) -> None:
    program = (
        "import time\nfor part in ('a', 'sec', 'ret', *'bcdefg'):\n"
        " print(part, flush=True); time.sleep(0.2)"
    )
    _, seen = run(program, tmp_path, clean=lambda text: text.replace("sec\nret", "hidden"))
    assert seen == ["a", "hidden", *"bcdefg"]
    assert (tmp_path / "log").read_text().split() == seen


def test_what_goes_over_many_lines_is_cleaned_where_they_come_one_by_one(tmp_path: Path) -> None:
    program = """
import time
print("-----BEGIN RSA PRIVATE KEY-----")
for line in range(30):
    print(f"{line:02d}MIIEpAIBAAKCAQEA", flush=True)
    time.sleep(0.01)
print("-----END RSA PRIVATE KEY-----", *range(30), sep="\\n")
"""
    _, seen = run(program, tmp_path, clean=Cleaner().clean)
    assert seen == ["[hidden: secret]", *map(str, range(30))]
    assert (tmp_path / "log").read_text().splitlines() == seen


def test_a_key_without_an_end_hides_what_may_be_of_it_and_is_not_cleaned_with_each_line(
    tmp_path: Path,
) -> None:
    cleaned = 0

    def clean(text: str) -> str:
        nonlocal cleaned
        cleaned += len(text)
        return Cleaner().clean(text)

    program = """
import time
print("-----BEGIN PRIVATE KEY-----", flush=True)
for line in range(400):
    print(f"{line:03d}MIIEpAIBAAKCAQEA", flush=True)
    time.sleep(0.001)
"""
    _, seen = run(program, tmp_path, clean=clean)
    assert seen == ["[hidden: secret]"]
    assert (tmp_path / "log").read_text().splitlines() == seen
    assert cleaned < 200 * 400 * 20
