"""What nsys is to start for one run, and of which part of the run it takes a capture."""

from __future__ import annotations

import sys
from pathlib import Path

from perfgate.execute.addopts import starting_options_of
from perfgate.model.machine import Machine
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload


def worker_command(
    workload: Workload,
    order: Path,
    *,
    python: str,
    pytest_options: tuple[str, ...],
    is_pinned: bool = False,
) -> tuple[str, ...]:
    """The command line of one run: the script itself, or a pytest that runs the one function.

    `is_pinned` keeps the current folder, which may hold another perfgate, from coming before
    PYTHONPATH.
    """
    if workload.command is not None:
        return workload.command
    options = (*starting_options_of(pytest_options), *pytest_options)
    return (
        python,
        *(("-P",) if is_pinned else ()),
        # As the gate's own interpreter was started; what the environment says of it, the worker
        # inherits.
        *((f"-{'O' * sys.flags.optimize}",) if sys.flags.optimize else ()),
        "-m",
        "pytest",
        f"--perfgate-worker={order}",
        f"{workload.nodeid}",
        *(() if "no:capture" in options else ("--capture=no",)),
        # The worker's side of the plugin prints what a log needs: the workload's own lines, and a
        # traceback.
        "-qq",
        "--no-header",
        "--no-summary",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        # It would keep what a thread raises for a summary, and not show it.
        "-p",
        "no:threadexception",
        # What a mark expects is of the gate's own item. It is an option of a plugin that may be
        # switched off.
        *(() if "no:skipping" in options else ("--runxfail",)),
        *options,
        "--override-ini=addopts=",
    )


def capture_window(workload: Workload, machine: Machine) -> CaptureMode | CaptureWindow:
    """Without a GPU nobody can call the CUDA profiler API: the window is then found by the steps'
    name."""
    if workload.capture is CaptureMode.CUDA_PROFILER_API and not machine.gpus:
        return CaptureMode.ALL
    return workload.capture
