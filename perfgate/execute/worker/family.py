"""Which processes a worker has started: found by who is whose parent, and known at that moment only."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def family() -> set[int]:
    """This process and all that it has started, as far as /proc tells."""
    members, found = {os.getpid()}, 0
    parents = _parents()
    while len(members) > found:
        found = len(members)
        members |= {child for child, parent in parents.items() if parent in members}
    return members


def _parents() -> dict[int, int]:
    """The parent of each process on this machine."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        # The name, in brackets, may hold anything; after it come the state and the parent.
        with contextlib.suppress(OSError, IndexError):
            if folder.name.isdecimal():
                stat = (folder / "stat").read_text(errors="replace")
                parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    return parents
