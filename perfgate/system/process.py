"""Running one program to its end, with everything that it starts; knows nothing of what the program
is."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import selectors
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import psutil

from perfgate.model.order import RUN_COOKIE

GRACE_S: Final = 3.0
"""How long a process may take to end after SIGTERM before it gets SIGKILL."""

WRAPPED_LINES: Final = 4
"""Over so many lines a text is cleaned as one, however it comes."""
LONGEST_LINE: Final = 1 << 16
"""Bytes after which a line without an end is cut, so that no output can fill the memory."""

HEAD_BYTES: Final = 2_000_000
TAIL_BYTES: Final = 2_000_000
"""Of what a program prints, how much of its beginning is kept in its log, and at least how much of
its end."""

_SET_CHILD_SUBREAPER: Final = 36
"""Of Linux's prctl: a process whose parent ends becomes this one's child, not that of init."""
_GET_CHILD_SUBREAPER: Final = 37
_POLL_S: Final = 0.1
_SWEEPS: Final = 5
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A carriage return at the end of what has been read may be half of a line end; it waits for the
next byte."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """How a program ended."""

    returncode: int | None
    """Exit status; minus the signal's number where a signal ended it; None where it was ended for
    its time limit."""
    timed_out: bool
    wall_s: float
    left: tuple[str, ...]
    """Names of the processes that still ran when the program had ended or its time was up, and were
    ended."""


def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    timeout_s: float,
    on_line: Callable[[str], None] | None = None,
    on_tick: Callable[[], None] | None = None,
    clean: Callable[[str], str] = str,
) -> Finished:
    """Run a program in a session of its own until it ends or its time is up; afterwards nothing of
    it runs.

    But for what has left its session and cleared its environment, by which its processes are known.
    The mark there says which process started them, so that what it leaves behind when it is killed
    is found by `end_abandoned`.

    Its stdout and stderr become one stream of lines, ended by newline or carriage return (progress
    bars), undecodable bytes replaced; `clean` gets those that come together, and what it leaves
    goes to `on_line` and, but for the middle of very much, to `log`. Its stdin is empty. `on_tick`
    is called at least every 0.1 s while it runs.

    Raises:
        OSError: the program cannot be started, or the log cannot be written.
        KeyboardInterrupt: and whatever `on_line` raises, after everything that was started has been
        ended.
    """
    mark = f"{uuid.uuid4().hex}-{_owner(os.getpid())}"
    inherited = env.get(RUN_COOKIE)
    marked = {**env, RUN_COOKIE: f"{inherited}:{mark}" if inherited else mark}
    started = time.monotonic()
    process: subprocess.Popen[bytes] | None = None
    left: tuple[str, ...] = ()
    with log.open("w+b") as file:
        record, cleaning = _Log(file), _Cleaning(clean)
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=marked,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            returncode = None
            with contextlib.suppress(_OutOfTime):
                for lines in _lines(process, deadline=started + timeout_s, on_tick=on_tick):
                    _pass_on(cleaning.ready(lines), record, on_line)
                returncode = process.poll()
            wall_s = time.monotonic() - started
            _pass_on(cleaning.rest(), record, on_line)
        finally:
            # Ctrl-C may fall between the start of the program and its being known here: the cookie
            # finds it anyway.
            try:
                left = _end(process, mark)
            finally:
                _pass_on(cleaning.rest(), record, None)
    return Finished(returncode=returncode, timed_out=returncode is None, wall_s=wall_s, left=left)


def _pass_on(lines: Sequence[str], record: _Log, on_line: Callable[[str], None] | None) -> None:
    for line in lines:
        record.write(line)
        if on_line is not None:
            on_line(line)


class _Cleaning:
    """Cleans lines however they come: what is wrapped over the last few may go on in those to come."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._held: list[str] = []

    def ready(self, lines: Sequence[str]) -> list[str]:
        """Take further lines, and return those, cleaned, that no later one can change."""
        self._held += lines
        cut = len(self._held) if self._clean is str else self._cut()
        done, self._held = self._held[:cut], self._held[cut:]
        return self._cleaned(done)

    def rest(self) -> list[str]:
        """Return the last lines, cleaned."""
        done, self._held = self._held, []
        return self._cleaned(done)

    def _cut(self) -> int:
        """Where the lines can be parted so that cleaning each part by itself is cleaning the whole;
        0 if nowhere."""
        held = self._held
        for cut in range(len(held) - WRAPPED_LINES, max(0, len(held) - 4 * WRAPPED_LINES), -1):
            before, after = held[max(0, cut - WRAPPED_LINES) : cut], held[cut:]
            if self._cleaned(before) + self._cleaned(after) == self._cleaned(before + after):
                return cut
        return 0

    def _cleaned(self, lines: Sequence[str]) -> list[str]:
        return self._clean("\n".join(lines)).split("\n") if lines else []


class _Log:
    """Lines in a file of at most some 6 MB: the first and the last ones, and between them how much
    was left out."""

    def __init__(self, file: BinaryIO) -> None:
        """Take an empty file that is open for reading too."""
        self._file = file
        self._size = 0
        self._head: int | None = None
        """Where the first lines end, once there are enough of them."""
        self._note = b""
        self._dropped = (0, 0)
        """Lines and bytes."""

    def write(self, line: str) -> None:
        """Add a line; it is in the file on return."""
        told = (line + "\n").encode(errors="replace")
        self._file.write(told)
        self._file.flush()
        self._size += len(told)
        if self._head is None and self._size >= HEAD_BYTES:
            self._head = self._size
        if self._head is not None and self._size - self._head > 2 * TAIL_BYTES:
            self._leave_out(self._head)

    def _leave_out(self, head: int) -> None:
        self._file.seek(head + len(self._note))
        since = self._file.read()
        end = since.rindex(b"\n", 0, len(since) - TAIL_BYTES) + 1
        lines, size = self._dropped
        self._dropped = (lines + since.count(b"\n", 0, end), size + end)
        lines, size = self._dropped
        self._note = f"[perfgate left out {lines} lines here, {size / 1e6:.1f} MB]\n".encode()
        self._file.seek(head)
        self._file.write(self._note + since[end:])
        self._file.truncate()
        self._file.flush()
        self._size = self._file.tell()


class _OutOfTime(Exception):
    """The program still ran at its deadline."""


def processes_of(mark: str, *, session: int | None = None) -> list[psutil.Process]:
    """Find the living processes that bear a cookie or belong to a session; those of other users are
    not ours."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            ours = session is not None and os.getsid(process.pid) == session
            ours = ours or mark in process.environ().get(RUN_COOKIE, "").split(":")
        except (psutil.Error, OSError):
            continue
        if ours:
            found.append(process)
    return found


def end_marked(mark: str) -> tuple[str, ...]:
    """End every living process that bears a cookie, and name those that were found."""
    return _sweep(None, lambda: processes_of(mark))


def end_abandoned() -> tuple[str, ...]:
    """End what `run_process` has left running, in whichever project, where its own process was
    killed; name it."""
    return _sweep(None, abandoned)


def abandoned() -> list[psutil.Process]:
    """Find this user's living processes that were started by a `run_process` whose own process is
    gone.

    With their descendants and what shares a session with them: those bear no mark where they
    cleared their environment. What bears the mark of a living process is its own affair, and what
    is of another process namespace cannot be known.
    """
    inherited = os.environ.get(RUN_COOKIE, "").split(":")
    found: dict[int, psutil.Process] = {}
    for pid in _pids_of_this_user():
        with contextlib.suppress(psutil.Error, OSError):
            if RUN_COOKIE.encode() not in Path(f"/proc/{pid}/environ").read_bytes():
                continue  # what nearly all are, and psutil takes its time for each
            process = psutil.Process(pid)
            marks = process.environ().get(RUN_COOKIE, "").split(":")
            if _lives(process) and any(
                _is_orphaned(mark) for mark in marks if mark not in inherited
            ):
                found[pid] = process
    if found:
        sessions = set(map(_session, found)) - {None, os.getsid(0)}
        beside = [
            pid for pid in _pids_of_this_user() if pid not in found and _session(pid) in sessions
        ]
        for more in (
            *map(_process, beside),
            *(below for one in tuple(found.values()) for below in _below(one)),
        ):
            if more is not None and _lives(more):
                found.setdefault(more.pid, more)
        for pid in (os.getpid(), *(parent.pid for parent in psutil.Process().parents())):
            found.pop(pid, None)
    return list(found.values())


def _pids_of_this_user() -> list[int]:
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}").stat().st_uid == os.geteuid():
                found.append(pid)
    return found


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


_OWNED: Final = re.compile(r"[0-9a-f]{32}-(?P<owner>(?P<pid>\d+)-\d+-\d+-\d+)")


def _is_orphaned(mark: str) -> bool:
    """Whether the process that a mark is of is gone; not known of another user's or another process
    namespace's."""
    told = _OWNED.fullmatch(mark)
    if told is None or told["owner"].split("-")[2:] != _owner(os.getpid()).split("-")[2:]:
        return False
    return _owner(int(told["pid"])) != told["owner"]


def _owner(pid: int) -> str:
    """A process as no other was or will be until the machine starts anew: id, start, process
    namespace, user.

    Only the id where there is no such process, or it has ended and is still to be reaped.
    """
    try:
        _, _, fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
        )
        state, started = fields.split()[0], fields.split()[19]
        if state in "ZXx":
            return str(pid)
        return f"{pid}-{started}-{Path('/proc/self/ns/pid').stat().st_ino}-{os.getuid()}"
    except (OSError, IndexError):
        return str(pid)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


@contextlib.contextmanager
def adopting() -> Iterator[Callable[[], tuple[str, ...]]]:
    """Keep hold of whatever is started within, also of what leaves its session and clears its
    environment.

    What loses its parent becomes a child of this process (Linux only). Yields what ends all
    descendants that were not there before and names them. A process of another user cannot be
    ended, and one that ended this process was free.
    """
    ourselves = psutil.Process()
    before = set(ourselves.children(recursive=True))

    def strays() -> list[psutil.Process]:
        found = [one for one in ourselves.children(recursive=True) if one not in before]
        for one in found:
            if not _lives(one):
                with contextlib.suppress(psutil.Error):
                    one.wait(
                        timeout=0
                    )  # nobody else takes note of its end; of a grandchild it does nothing
        return [one for one in found if _lives(one)]

    was = _subreaper(on=True)
    try:
        yield lambda: _sweep(None, strays)
    finally:
        _subreaper(on=was)


def _subreaper(*, on: bool) -> bool:
    """Take orphans in, or leave them to init; return what held before. Nothing happens where there
    is no prctl."""
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is None:
        return False
    was = ctypes.c_int(0)
    prctl(_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(on), 0, 0, 0)
    return bool(was.value)


def _lines(
    process: subprocess.Popen[bytes],
    *,
    deadline: float,
    on_tick: Callable[[], None] | None,
) -> Iterator[list[str]]:
    """Yield the output, the lines that come together at a time, until the program has ended.

    Raises:
        _OutOfTime: the deadline came first. The pipe is closed then, at which the program may end
        by itself; that is
            no end in time.
    """
    stream = process.stdout
    assert stream is not None
    descriptor = stream.fileno()
    os.set_blocking(descriptor, False)
    pending = b""
    with stream, selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if on_tick is not None:
                on_tick()
            ended = process.poll() is not None
            remaining = deadline - time.monotonic()
            if remaining <= 0 and not ended:
                raise _OutOfTime
            if not selector.select(timeout=_POLL_S if ended else min(_POLL_S, remaining)):
                if ended:
                    break  # a child that outlives the program holds the pipe open; what it may say is not awaited
                continue
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                # All ends of the pipe are closed; the program itself may run on without a word.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=max(0.0, deadline - time.monotonic()))
                break
            if ended and remaining <= 0:
                break  # a child that outlives the program floods the pipe
            *whole, pending = _LINE_END.split(pending + chunk)
            while len(pending) > LONGEST_LINE:
                whole.append(pending[:LONGEST_LINE])
                pending = pending[LONGEST_LINE:]
            if whole:
                yield [line.decode(errors="replace") for line in whole]
    if pending:
        yield [pending.rstrip(b"\r").decode(errors="replace")]


def _end(process: subprocess.Popen[bytes] | None, mark: str) -> tuple[str, ...]:
    """End the program and all that it started, and name it."""
    return _sweep(
        process, lambda: processes_of(mark, session=None if process is None else process.pid)
    )


def _sweep(
    process: subprocess.Popen[bytes] | None, find: Callable[[], list[psutil.Process]]
) -> tuple[str, ...]:
    """End what is found: SIGTERM, then SIGKILL; another Ctrl-C skips to SIGKILL, and is raised when
    all has ended."""
    left: list[str] = []
    with _holding_signals_back() as in_a_hurry:
        # Repeated, because a process may start another between being found and being ended.
        for attempt in range(_SWEEPS):
            strays = find()
            if not strays:
                break
            if attempt == 0:
                left += [name for stray in strays if (name := _name(stray)) is not None]
                strays = _signal_all(
                    process, strays, signal.SIGTERM, timeout_s=GRACE_S, give_up=in_a_hurry
                )
            _signal_all(process, strays, signal.SIGKILL, timeout_s=1.0)
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1.0)
    return tuple(left)


@contextlib.contextmanager
def _holding_signals_back() -> Iterator[Callable[[], bool]]:
    """Let no signal that ends a gate cut its clearing up short; the first that came is raised
    afterwards.

    Yields what tells whether one came. In other threads than the main one no signal arrives anyway.
    """
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ours = numbers if threading.current_thread() is threading.main_thread() else ()
    before = {number: handler for number in ours if callable(handler := signal.getsignal(number))}
    try:
        for number in before:
            signal.signal(number, lambda number, _: came.append(number))
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for first in came[:1]:
            signal.raise_signal(first)


def _name(process: psutil.Process) -> str | None:
    try:
        return process.name()
    except psutil.Error:
        return None


def _signal_all(
    process: subprocess.Popen[bytes] | None,
    strays: list[psutil.Process],
    number: signal.Signals,
    *,
    timeout_s: float,
    give_up: Callable[[], bool] = lambda: False,
) -> list[psutil.Process]:
    """Signal processes, wait for them, and return those that still live; a zombie does not, whoever
    has to reap it."""
    for stray in strays:
        with contextlib.suppress(psutil.Error, OSError):
            stray.send_signal(number)
    deadline = time.monotonic() + timeout_s
    while True:
        if process is not None:
            process.poll()
        strays = [stray for stray in strays if _lives(stray)]
        if not strays or time.monotonic() >= deadline or give_up():
            return strays
        time.sleep(0.01)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
