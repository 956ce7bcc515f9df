"""What processes of a mark use of the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from uuid import uuid4

from perfgate.machine.processes import cpu_s_of
from perfgate.model.order import RUN_COOKIE

PATIENCE_S = 60.0


def spinning(mark: str) -> subprocess.Popen[bytes]:
    """A process that computes for ever."""
    env = {**os.environ, RUN_COOKIE: mark}
    return subprocess.Popen([sys.executable, "-c", "while True: pass"], env=env)


def used_by(mark: str, process: subprocess.Popen[bytes]) -> dict[int, float]:
    """What they have used once this one has computed for a while."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := cpu_s_of(mark)).get(process.pid, 0.0) < 0.2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_a_process_that_ends_is_left_out_and_one_that_begins_counts() -> None:
    mark = uuid4().hex
    early = spinning(mark)
    assert set(used_by(mark, early)) == {early.pid}
    late = spinning(mark)
    early.kill()
    early.wait()
    try:
        assert early.pid not in cpu_s_of(mark)
        assert set(used_by(mark, late)) == {late.pid}
    finally:
        late.kill()
        late.wait()
