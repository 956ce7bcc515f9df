"""Gates on one GPU take turns: a file lock a GPU, shared by all users of the machine; it knows no
NVML."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

from perfgate.model.errors import GpuTaken, StoreFailed
from perfgate.model.machine import Gpu
from perfgate.model.note import Note, note
from perfgate.system.files import lock, refused_as

VARIABLE: Final = "PERFGATE_LOCKS"
"""Environment variable that names another folder than /tmp, for gates that share a GPU and no /tmp:
containers."""
FOLDER: Final = "perfgate-locks"
POLL_S: Final = 0.2
NO_GPU: Final = "no-gpu"
SHARED_FOLDER: Final = 0o1777
SHARED_FILE: Final = 0o666


def machine_folder() -> Path:
    """Return where this machine's locks lie: in the folder that `PERFGATE_LOCKS` names, or in /tmp.

    Not in TMPDIR: batch systems give every job one of its own, and two gates that look into
    different folders do not take turns.

    Raises:
        StoreFailed: `PERFGATE_LOCKS` is no absolute path, and would be another folder for each.
    """
    named = os.environ.get(VARIABLE) or "/tmp"
    if not Path(named).is_absolute():
        raise StoreFailed("locks-not-absolute", variable=VARIABLE, folder=named)
    return Path(named) / FOLDER


@contextmanager
def gpu_lock(
    gpus: Sequence[Gpu],
    *,
    timeout_s: float,
    on_wait: Callable[[Note], None],
    workload: str,
    folder: Path | None = None,
) -> Iterator[None]:
    """Hold the GPUs for the `with` block; gates without a GPU take turns on one lock of their own.

    Locks are taken in the order of UUIDs, so that two gates cannot wait for each other, and fall
    with the process that holds them, however it ends. One process cannot take a lock twice.

    Args:
        gpus: the GPUs or MIG slices to hold.
        timeout_s: how long to wait, in seconds, for all of them together.
        on_wait: called once, when another gate holds one of them.
        workload: what is measured, for those who wait.
        folder: where the locks lie; by default `machine_folder()`.

    Raises:
        GpuTaken: `timeout_s` is over.
        StoreFailed: the folder or a file in it cannot be used.
    """
    where = prepare_folder(folder)
    ours = {"pid": os.getpid(), "workload": workload, "user": psutil.Process().username()}
    deadline = time.monotonic() + timeout_s
    is_waiting = False
    with ExitStack() as held:
        for name in sorted({gpu.uuid for gpu in gpus}) or [NO_GPU]:
            path = where / f"{re.sub(r'[^A-Za-z0-9-]', '_', name)}.lock"
            what = note("machine-without-gpu") if name == NO_GPU else note("gpu-itself", gpu=name)
            with _usable(path):
                descriptor = _open(path)
                held.callback(os.close, descriptor)
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError("it is no plain file")
                while not lock(descriptor):
                    holder, left_s = _read_holder(descriptor), deadline - time.monotonic()
                    if left_s <= 0:
                        raise GpuTaken("gpu-taken", what=what, holder=holder, limit_s=timeout_s)
                    if not is_waiting:
                        is_waiting = True
                        on_wait(note("gpu-waited-for", what=what, holder=holder, limit_s=timeout_s))
                    time.sleep(min(POLL_S, left_s))
            held.callback(_write, descriptor, "")  # runs before the close that lets go
            since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            _write(descriptor, json.dumps({**ours, "since": since}))
        yield


def prepare_folder(folder: Path | None = None) -> Path:
    """Make the lock folder, by default `machine_folder()`, writable for every user as /tmp is, and
    return it. Raises StoreFailed.
    """
    folder = machine_folder() if folder is None else folder
    with _usable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(f"{folder} is a link")
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != SHARED_FOLDER:
            folder.chmod(SHARED_FOLDER)  # mkdir's mode is cut by the umask
    return folder


def _usable(path: Path) -> AbstractContextManager[None]:
    return refused_as(StoreFailed, "lock-unusable", path=str(path), variable=VARIABLE)


def _open(path: Path) -> int:
    """Open a lock file, another user's too.

    First without O_CREAT: in a sticky folder, Linux refuses O_CREAT on another user's file even if
    it is there (fs.protected_regular). A file that may only be read can still be locked.
    """
    # A pipe whose other end nobody has open would be waited for.
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, SHARED_FILE)
        os.fchmod(descriptor, SHARED_FILE)  # the umask cut it
        return descriptor


def _write(descriptor: int, text: str) -> None:
    # Only a courtesy to those who wait: a file of another user, or a full disk, must not cost the
    # turn.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)


def _read_holder(descriptor: int) -> Note:
    """Who holds a lock, as they wrote it into the lock file."""
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
        who = {name: str(found[name]) for name in ("pid", "user", "workload", "since")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return note("other-gate")  # just taken and not yet written, or written by hand
    return Note(code="other-gate-of", fields=who)
