"""What tests wait for, and whether processes that they have started, or caused to be started, still
run."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def until(holds: Callable[[], bool], *, timeout_s: float = 200) -> None:
    """Wait, longer than gates of other tests may hold the turn, or fail."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether it runs; a zombie does not, whoever has to reap it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
