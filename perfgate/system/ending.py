"""Finding processes by what marks them, and ending them with all that they started.

`run_process` puts a mark into the environment of what it starts. It says which process that was,
so that what a killed gate left is found wherever it went.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from perfgate.model.order import RUN_COOKIE
from perfgate.system.signals import holding_signals_back

GRACE_S: Final = 3.0
"""How long a process may take to end after SIGTERM before it gets SIGKILL."""
_SWEEPS: Final = 5
_SET_CHILD_SUBREAPER: Final = 36
"""Of Linux's prctl: a process whose parent ends becomes this one's child, not that of init."""
_GET_CHILD_SUBREAPER: Final = 37
_OWNED: Final = re.compile(r"[0-9a-f]{32}-(?P<owner>(?P<pid>\d+)-\d+-(?P<where>\d+-\d+))")

Find = Callable[[], list[psutil.Process]]


class _Seen(NamedTuple):
    """One living process, looked at once."""

    process: psutil.Process
    marks: frozenset[str]
    session: int


def new_mark() -> str:
    """A mark for what this process starts."""
    return f"{uuid.uuid4().hex}-{_identity(os.getpid())}"


def processes_of(mark: str, *, session: int | None = None) -> list[psutil.Process]:
    """Find the living processes that bear a mark.

    With a session also those that belong to it, and their kin: nsys gives its program a session of
    its own, in which a child may have cleared its environment.
    """
    living = _living(mark if session is None else "")
    found = [one for one in living if mark in one.marks or one.session == session]
    return [one.process for one in found] if session is None else _with_kin(found, living)


def abandoned() -> list[psutil.Process]:
    """Find what killed gates of this user have left running, in whichever project: what was started
    by a `run_process` whose own process is gone, and its kin."""
    inherited = _marks(psutil.Process())
    living = _living()
    found = [one for one in living if any(map(_is_orphaned, one.marks - inherited))]
    return _with_kin(found, living)


def _with_kin(found: Sequence[_Seen], living: Sequence[_Seen]) -> list[psutil.Process]:
    """Processes with what shares a session with them and their descendants, which bear no mark
    where they cleared their environment; nothing that this process descends from."""
    sessions = {one.session for one in found} - {os.getsid(0)}
    kin = {one.process for one in living if one.session in sessions}.union(
        one.process for one in found
    )
    for process in tuple(kin):
        with suppress(psutil.Error):
            kin.update(process.children(recursive=True))
    ours = psutil.Process()
    return [one for one in kin - {ours, *ours.parents()} if _lives(one)]


def end_marked(mark: str) -> tuple[str, ...]:
    """End every living process that bears a mark, and name those that were found."""
    return end_all(lambda: processes_of(mark))


@contextmanager
def adopting() -> Iterator[Callable[[], tuple[str, ...]]]:
    """Keep hold of whatever is started within, also of what leaves its session and environment.

    What loses its parent becomes a child of this process (Linux only). Yields a function that ends
    all descendants that were not there before, and names them.
    """
    ourselves = psutil.Process()
    before = set(ourselves.children(recursive=True))

    def new_ones() -> list[psutil.Process]:
        found = [one for one in ourselves.children(recursive=True) if one not in before]
        for one in found:
            if not _lives(one):
                with suppress(psutil.Error):
                    one.wait(timeout=0)  # or it stays a zombie: nobody else asks for its end
        return [one for one in found if _lives(one)]

    was = _subreaper(on=True)
    try:
        yield lambda: end_all(new_ones)
    finally:
        _subreaper(on=was)


def end_all(find: Find, process: subprocess.Popen[bytes] | None = None) -> tuple[str, ...]:
    """End what is found: SIGTERM, then SIGKILL; a further Ctrl-C skips to SIGKILL. Name it.

    `process` is one of them that is this process's own child.
    """
    names: list[str] = []
    with holding_signals_back() as in_a_hurry:
        # Repeated, because a process may start another between being found and being ended.
        for sweep in range(_SWEEPS):
            strays = find()
            if not strays:
                break
            if sweep == 0:
                names = _signal(strays, signal.SIGTERM)
                strays = _wait(strays, process, timeout_s=GRACE_S, give_up=in_a_hurry)
            _signal(strays, signal.SIGKILL)
            _wait(strays, process, timeout_s=1.0)
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1.0)
    return tuple(names)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> list[str]:
    """Send a signal, and name those that were still there."""
    names: list[str] = []
    for one in processes:
        with suppress(psutil.Error):
            names.append(one.name())
        with suppress(psutil.Error, OSError):
            one.send_signal(number)
    return names


def _wait(
    processes: list[psutil.Process],
    process: subprocess.Popen[bytes] | None,
    *,
    timeout_s: float,
    give_up: Callable[[], bool] = lambda: False,
) -> list[psutil.Process]:
    """Wait for processes, and return those that still live; a zombie does not."""
    deadline = time.monotonic() + timeout_s
    while True:
        if process is not None:
            process.poll()
        processes = [one for one in processes if _lives(one)]
        if not processes or time.monotonic() >= deadline or give_up():
            return processes
        time.sleep(0.01)


def _living(text: str = "") -> list[_Seen]:
    """All living processes but this one, or those with a text in their environment.

    Looked at anew each time: `psutil.process_iter` keeps them by number, and leaves one out for a
    round whose number another process bore before.
    """
    found: list[_Seen] = []
    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):
            if text and text.encode() not in Path(f"/proc/{pid}/environ").read_bytes():
                continue  # known in a fifth of the time that the rest takes
            process = psutil.Process(pid)
            if pid != os.getpid() and _lives(process):
                found.append(_Seen(process, _marks(process), os.getsid(pid)))
    return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _marks(process: psutil.Process) -> frozenset[str]:
    """Its marks; none where its environment may not be seen."""
    try:
        return frozenset(process.environ().get(RUN_COOKIE, "").split(":")) - {""}
    except (psutil.Error, OSError):
        return frozenset()


def _is_orphaned(mark: str) -> bool:
    """Whether the process that made a mark is gone.

    Unknown, so false, of another user's or another process namespace's.
    """
    owned = _OWNED.fullmatch(mark)
    if owned is None or not _identity(os.getpid()).endswith(f"-{owned['where']}"):
        return False
    return _identity(int(owned["pid"])) != owned["owner"]


def _identity(pid: int) -> str:
    """A process as no other was or will be: id, start, process namespace, user.

    Only the id where there is no such process, or it has ended and is still to be reaped.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        if fields[0] in "ZXx":
            return str(pid)
        namespace = Path("/proc/self/ns/pid").stat().st_ino
        return f"{pid}-{fields[19]}-{namespace}-{os.getuid()}"
    except (OSError, IndexError):
        return str(pid)


def _subreaper(*, on: bool) -> bool:
    """Take orphans in, or leave them to init; return what held before."""
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is None:
        return False
    was = ctypes.c_int(0)
    prctl(_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(on), 0, 0, 0)
    return bool(was.value)
