"""A gate as a process of its own: its command, run to its end, and ended with this process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final

PATIENCE_S: Final = 30.0
"""How long a gate that is asked to end may take to end nsys and the workload."""


def gate_command(python: str, *options: str, root: Path) -> tuple[str, ...]:
    """Return the command of a gate on the project at `root`; `options` are pytest's, workloads
    among them.

    It names the plugin, which `addopts` or the environment may have switched off.
    """
    return (python, "-m", "pytest", "-p", "perfgate", "--perfgate", f"--rootdir={root}", *options)


def run_to_end(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path | None = None
) -> int:
    """Run a command and return its exit status, below zero where a signal ended it.

    Its output goes to `log`, or where ours goes. It gets a process group of its own, so that Ctrl-C
    reaches it once, from here: two in a row would interrupt its clearing up.

    Raises:
        OSError: the command cannot be started, or the log cannot be written.
        KeyboardInterrupt: after the command has ended.
    """
    with ExitStack() as held:
        output: IO[bytes] | None = None if log is None else held.enter_context(log.open("wb"))
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            process_group=0,
        )
        try:
            return process.wait()
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a gate: it takes SIGTERM for Ctrl-C and clears up, but for one that hangs, or a user who
    will not wait."""
    try:
        process.terminate()
        process.wait(timeout=PATIENCE_S)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
