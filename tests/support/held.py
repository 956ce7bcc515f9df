"""Runs that are alive at once: when each did what, and which processes are left of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import psutil

NOTING = """
import json, os, time
from pathlib import Path

AT = Path(__file__).parent.parent / "times"
AT.mkdir(exist_ok=True)
times = {"imported": time.monotonic()}

def noted(name):
    times[name] = time.monotonic()
    (AT / str(os.getpid())).write_text(json.dumps(times))
"""
"""A workload's way of telling when it did what."""


def times_of(root: Path, name: str = "times") -> list[Mapping[str, float]]:
    """When each run did what, in the order of their windows."""
    found = [json.loads(file.read_text()) for file in (root / name).iterdir()]
    return sorted(found, key=lambda one: one.get("began", 0.0))


def processes_in(folder: Path) -> list[psutil.Process]:
    """Living processes whose command names something in a folder, or that stand in it; not this
    one."""
    return [
        one
        for one in psutil.process_iter(["cmdline", "cwd", "status"])
        if one.pid != os.getpid()
        and one.info["status"] != psutil.STATUS_ZOMBIE
        and any(
            str(folder) in word for word in (*(one.info["cmdline"] or ()), one.info["cwd"] or "")
        )
    ]
