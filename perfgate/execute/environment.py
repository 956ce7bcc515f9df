"""The environment variables of a run's processes, in the project or in a checkout."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from perfgate.execute.context import RunContext
from perfgate.execute.import_log import FOLDER, ON_SIGTERM
from perfgate.execute.side_environment import environment_there
from perfgate.execute.worktree import Worktree
from perfgate.model.order import RUN_COOKIE
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.environment import withhold_secrets

UNWANTED_IN_WORKERS = (
    *("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"),
    *("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"),
)
"""Variables of the pytest around a gate that would change the pytest inside a worker, or have
coverage slow it down."""

ONE_THREAD: Final[Mapping[str, str]] = {"OMP_NUM_THREADS": "1"}
"""For the sides of a pair that share a core, where the user has set nothing: they go there when all
is loaded, and what counts its threads at its start (torch, MKL and OpenBLAS, by this variable) must
not count the cores of before."""


def as_activated(context: RunContext, workload: Workload) -> Mapping[str, str]:
    """The bench's and the workload's variables; a command finds what the gate's environment holds,
    also `python`.

    So does one that was started as `.venv/bin/pytest`, without the environment being activated. A
    PATH of the workload's own is left as it is.
    """
    given = {**context.env, **workload.env}
    if workload.form == "command" and "PATH" not in workload.env:
        given["PATH"] = os.pathsep.join(
            (str(Path(context.python).parent), given.get("PATH", os.defpath))
        )
    return given


def in_project(workload: Workload, given: Mapping[str, str], imports: Path) -> dict[str, str]:
    """The environment of a run in the project, in which its Python processes log at their end what
    they loaded.

    A command may be several processes, and a launcher may end them by a signal: each is to log it.
    """
    inherited = [given["PYTHONPATH"]] if given.get("PYTHONPATH") else []
    return {
        **given,
        "PYTHONPATH": os.pathsep.join((str(imports), *inherited)),
        FOLDER: str(imports),
        **({ON_SIGTERM: "1"} if workload.form == "command" else {}),
    }


def in_checkout(
    context: RunContext, tree: Worktree, workload: Workload, given: Mapping[str, str], imports: Path
) -> dict[str, str]:
    """The environment of a run in a checkout: as its commit's own, or with the packages of today."""
    own = context.settings.ab_python is not None
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return environment_there(
        given,
        tree,
        workload=workload,
        imports=imports,
        python=Path(context.python) if own else None,
        site_packages=() if own else tuple(map(Path, sorted(here))),
    )


def passed_on(
    workload: Workload, given: Mapping[str, str], pass_env: Sequence[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Split an environment into what a workload may see and the names withheld from it.

    What its own file sets is no secret, and is meant for it.
    """
    return withhold_secrets(given, (*pass_env, *workload.pass_env, *workload.env))


def of_processes(
    env: Mapping[str, str], *, cwd: Path, run_id: str, shares_core: bool
) -> dict[str, str]:
    """The variables that the processes of one run really get, of those that may be passed to them."""
    return {
        **(ONE_THREAD if shares_core else {}),
        **{name: value for name, value in env.items() if name not in UNWANTED_IN_WORKERS},
        # Behind what this gate itself was marked with: whoever started it can end all of it.
        RUN_COOKIE: f"{env[RUN_COOKIE]}:{run_id}" if env.get(RUN_COOKIE) else run_id,
        # As a shell would have it: this gate's own is another folder, in an A/B run the project's.
        "PWD": str(cwd.absolute()),
    }
