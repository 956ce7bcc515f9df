"""Whether processes that a test has started, or caused to be started, still run."""

from __future__ import annotations

import psutil


def is_alive(pid: int) -> bool:
    """Whether it runs; a zombie does not, whoever has to reap it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
