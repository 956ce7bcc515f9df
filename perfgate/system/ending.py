"""Finding processes by what marks them, and ending them with all that they started.

`run_process` puts a mark into the environment of what it starts. It says which process that was,
so that what a killed gate left is found wherever it went.
"""

from __future__ import annotations

import os
import re
import signal
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from perfgate.model.order import RUN_COOKIE
from perfgate.system.signals import holding_signals_back

GRACE_S: Final = 3.0
"""How long a process may take to end after SIGTERM before it gets SIGKILL."""
_SWEEPS: Final = 5
_OWNED: Final = re.compile(r"[0-9a-f]{32}-(?P<owner>(?P<pid>\d+)-\d+-(?P<where>\d+-\d+))")


def new_mark() -> str:
    """A mark for what this process starts."""
    return f"{uuid.uuid4().hex}-{_identity(os.getpid())}"


def processes_of(mark: str, *, session: int | None = None) -> list[psutil.Process]:
    """Find the living processes that bear a mark.

    With a session also those that belong to it, and to the sessions of those that are found: nsys
    gives its program a session of its own, in which a child may have cleared its environment.
    """
    marked = {pid for pid in psutil.pids() if mark in marks_of(pid)} - {os.getpid()}
    return _living(marked) if session is None else _in_sessions(marked, {session})


def abandoned() -> list[psutil.Process]:
    """Find what killed gates of this user have left running, in whichever project: what was started
    by a `run_process` whose own process is gone, and all of its sessions."""
    inherited = marks_of(os.getpid())
    return _in_sessions(
        {pid for pid in psutil.pids() if any(map(_is_orphaned, marks_of(pid) - inherited))}
    )


def _in_sessions(found: Collection[int], more: Iterable[int] = ()) -> list[psutil.Process]:
    """Processes with all that is of their sessions, or of some more, and may have cleared its
    environment; nothing that this process descends from."""
    sessions = {*map(_session, found), *more} - {_session(os.getpid()), None}
    kin = {*found, *(pid for pid in psutil.pids() if _session(pid) in sessions)}
    ours = psutil.Process()
    return _living(kin - {ours.pid, *(parent.pid for parent in ours.parents())})


def end_marked(mark: str) -> tuple[str, ...]:
    """End every living process that bears a mark, and name those that were found."""
    return end_all(lambda: processes_of(mark))


def end_all(find: Callable[[], Collection[psutil.Process]]) -> tuple[str, ...]:
    """End what is found: SIGTERM, then SIGKILL; a further Ctrl-C skips to SIGKILL. Name it."""
    names: list[str] = []
    with holding_signals_back() as in_a_hurry:
        # Repeated, because a process may start another between being found and being ended.
        for number in (signal.SIGTERM, *(signal.SIGKILL for _ in range(_SWEEPS))):
            strays = find()
            if not strays:
                break
            is_asked = number is signal.SIGTERM
            # All are named before one is asked: nsys, ended first, takes its program along.
            names = names or _names(strays)
            _signal(strays, number)
            deadline = time.monotonic() + (GRACE_S if is_asked else 1.0)
            while any(map(_lives, strays)) and time.monotonic() < deadline:
                if is_asked and in_a_hurry():
                    break
                time.sleep(0.01)
    return tuple(names)


def _names(processes: Iterable[psutil.Process]) -> list[str]:
    """The names of those that are still there."""
    names: list[str] = []
    for one in processes:
        with suppress(psutil.Error):
            names.append(one.name())
    return names


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for one in processes:
        with suppress(psutil.Error, OSError):
            one.send_signal(number)


def _living(pids: Iterable[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for pid in pids:
        with suppress(psutil.Error):
            found.append(psutil.Process(pid))
    return list(filter(_lives, found))


def _lives(process: psutil.Process) -> bool:
    """Whether a process lives; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _session(pid: int) -> int | None:
    with suppress(OSError):
        return os.getsid(pid)
    return None


def marks_of(pid: int) -> frozenset[str]:
    """The marks of a process; none where its environment may not be seen."""
    environment = b""
    with suppress(OSError):
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    _, _, behind = (b"\0" + environment).partition(f"\0{RUN_COOKIE}=".encode())
    return frozenset(os.fsdecode(behind.partition(b"\0")[0]).split(":")) - {""}


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
