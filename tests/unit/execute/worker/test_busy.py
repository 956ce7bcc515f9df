"""How many cores are kept busy, by this process and by its children, those that have ended too."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack

from perfgate.execute.worker.busy import Busy


def test_cores_kept_busy_are_those_of_all_threads_and_children() -> None:
    """Two children that compute, next to this process, which waits."""
    alone = Busy()
    time.sleep(0.1)
    assert alone.cores() < 0.5
    spin = "print(flush=True)\nwhile True: pass"
    with ExitStack() as held:
        children = [
            held.enter_context(subprocess.Popen([sys.executable, "-c", spin], stdout=-1))
            for _ in range(2)
        ]
        for child in children:
            held.callback(child.kill)
            assert child.stdout is not None
            child.stdout.readline()
        busy, began = Busy(), time.monotonic()
        # However little a busy machine lets them have, it is more than this process takes.
        while (cores := busy.cores()) < 0.1 or time.monotonic() < began + 0.2:
            assert time.monotonic() < began + 60
            time.sleep(0.05)
    assert 0.1 <= cores < 2.5


def test_what_a_child_that_has_ended_took_counts_as_well() -> None:
    busy, began = Busy(), time.perf_counter()
    burn = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert busy.cores() * (time.perf_counter() - began) > 0.3
