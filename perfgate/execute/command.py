"""What one run's process is started with: its command line, its variables, and of which part of it
nsys takes a capture."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from perfgate.execute.addopts import starting_options_of
from perfgate.execute.context import RunContext
from perfgate.execute.folder import IMPORTS, ORDER, RAW
from perfgate.execute.import_log import FOLDER, HOLD, ON_SIGTERM
from perfgate.execute.side_environment import environment_there
from perfgate.model.order import RUN_COOKIE
from perfgate.model.workload import END_RANGE, CaptureMode, Workload
from perfgate.profilers.nsys.command import withhold_secrets
from perfgate.profilers.seam import ProfileSpec

UNWANTED_IN_WORKERS: Final = (
    *("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"),
    *("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"),
    HOLD,
)
"""Variables of the pytest around a gate that would change the pytest inside a worker, or have
coverage slow it down; and that of a held run around it."""

ONE_THREAD: Final[Mapping[str, str]] = {"OMP_NUM_THREADS": "1"}
"""For the sides of a pair that share a core, where the user has set nothing: they go there when all
is loaded, and what counts its threads at its start (torch, MKL and OpenBLAS, by this variable) must
not count the cores of before."""


def start_of(
    context: RunContext,
    workload: Workload,
    folder: Path,
    *,
    run_id: str,
    shares_core: bool = False,
    is_held: bool = False,
) -> ProfileSpec:
    """What a run in a folder is started with.

    What the workload's own file sets is no secret, and is meant for it.
    """
    given = given_environment(context, workload, (folder / IMPORTS).absolute())
    passed = (*context.settings.pass_env, *workload.pass_env, *workload.env)
    env, withheld = withhold_secrets(given, passed)
    cwd, cookie = context.root / (workload.cwd or "."), env.get(RUN_COOKIE)
    env = {
        **(ONE_THREAD if shares_core else {}),
        **{name: value for name, value in env.items() if name not in UNWANTED_IN_WORKERS},
        # Behind what this gate itself was marked with: whoever started it can end all of it.
        RUN_COOKIE: f"{cookie}:{run_id}" if cookie else run_id,
        # As a shell would have it: this gate's own is another folder, in an A/B run the project's.
        "PWD": str(cwd.absolute()),
    }
    if is_held and workload.form == "command":
        env[HOLD] = str(folder.absolute())
    capture = workload.capture
    if capture is CaptureMode.CUDA_PROFILER_API and not context.machine.gpus:
        capture = CaptureMode.ALL  # nobody can call it: the steps' name says what is measured
    return ProfileSpec(
        argv=worker_command(context, workload, folder / ORDER),
        folder=folder / RAW,
        cwd=cwd,
        env=env,
        withheld=withheld,
        # What counts of one that is held is what it works for; whoever holds it looks after that.
        timeout_s=math.inf if is_held else workload.timeout_s,
        capture=capture,
        graph_trace=context.settings.cuda_graph_trace,
        until=None if workload.form == "command" else END_RANGE,
        cleaner=context.cleaner.knowing(given, (*workload.pass_env,)),
    )


def worker_command(context: RunContext, workload: Workload, order: Path) -> tuple[str, ...]:
    """The command line of one run: the script itself, or a pytest that runs the one function."""
    if workload.command is not None:
        return workload.command
    return (
        context.python,
        # A checkout, the current folder, may hold another perfgate: PYTHONPATH is to come first.
        *(() if context.tree is None else ("-P",)),
        "-m",
        "pytest",
        f"--perfgate-worker={order}",
        f"{workload.nodeid}",
        "--capture=no",
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
        "--runxfail",  # what a mark expects is of the gate's own item
        *starting_options_of(context.pytest_options),
        *context.pytest_options,
        "--override-ini=addopts=",
    )


def given_environment(context: RunContext, workload: Workload, imports: Path) -> dict[str, str]:
    """The variables of a run, secrets among them; its Python processes log to `imports`.

    A command finds what the gate's environment holds, also `python`, and also where pytest was
    started without that being activated. A PATH of the workload's own is left as it is.
    """
    given = {**context.env, **workload.env}
    is_command, tree = workload.form == "command", context.tree
    has_own = tree is not None and context.settings.ab_python is not None
    if tree is not None:
        given = environment_there(given, tree, workload, has_own_python=has_own)
    paths = (str(imports), given.get("PYTHONPATH", ""))
    given["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    if has_own or (is_command and "PATH" not in workload.env):
        programs = str(Path(context.python).parent)
        given["PATH"] = os.pathsep.join((programs, given.get("PATH", os.defpath)))
    if is_command:
        given[ON_SIGTERM] = "1"  # a launcher may end its processes by a signal
    return {**given, FOLDER: str(imports)}
