"""Runs without nsys: contexts, commands, and how a profiled workload ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from support.repository import Repository

import perfgate
from perfgate.execute.ahead import Batch, RunFailed, Wanted, in_blocks
from perfgate.execute.context import RunContext
from perfgate.execute.run import Measured
from perfgate.model.errors import NsysCrashed, PerfgateError
from perfgate.model.machine import Machine
from perfgate.model.note import Note
from perfgate.model.order import Ending, WorkerReport
from perfgate.model.sample import Form
from perfgate.model.settings import Settings
from perfgate.model.workload import CaptureMode, Workload
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion
from perfgate.profilers.seam import Captured, ProfileOutcome

PERFGATE = Path(perfgate.__file__).parents[1]
"""Where the package under test lies."""
KEPT = frozenset(
    {
        "capture-0-reports",
        "capture-0.sqlite",
        "order.json",
        "workload.log",
        "worker-report.json",
    }
)
"""What is left of a run's folder."""
LOG = Path(".perfgate/results/mlp/run-1/workload.log")
CAPTURED = (Captured(rep=Path("c.nsys-rep"), sqlite=Path("c.sqlite")),)


NO_TOOL = NsysTool(path=Path("nsys"), version=NsysVersion(2024, 2, 3), env={})
"""An nsys that is not there."""


def context_of(
    root: Path,
    env: Mapping[str, str] = MappingProxyType({}),
    *,
    tool: NsysTool = NO_TOOL,
    python: str = sys.executable,
) -> RunContext:
    """The context of runs in a project on a machine without a GPU, configured by its own file."""
    ini = str(root / "pyproject.toml")
    return RunContext(
        root=root,
        settings=Settings(),
        tool=tool,
        machine=Machine(),
        env=env,
        python=python,
        pytest_options=(f"--rootdir={root}", "--import-mode=importlib", "-c", ini),
    )


def context_in(repository: Repository, tool: NsysTool, *paths: Path, **env: str) -> RunContext:
    """The context as a gate in a repository has it: these paths are searched before perfgate's."""
    own = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(map(str, (*paths, PERFGATE))),
    }
    return context_of(repository.root, {**repository.env, **own, **env}, tool=tool)


def function(
    name: str = "loop", *, file: str = "workloads/loops.py", steps: int | None = 4, warmup: int = 1
) -> Workload:
    """A decorated workload, of which all is captured."""
    return Workload(
        id=name,
        source=file,
        nodeid=f"{file}::{name}",
        steps=steps,
        warmup=warmup,
        capture=CaptureMode.ALL,
        timeout_s=60,
    )


def command(*words: str, cwd: str | None = None, env: Mapping[str, str] | None = None) -> Workload:
    """A workload that is a command, without warm-up."""
    found = Workload(
        id="train",
        source="workloads/train.yaml",
        command=words,
        steps=30,
        warmup=0,
        step="s",
        cwd=cwd,
    )
    return found.model_copy(update={"env": env or {}})


def ended(
    *,
    exit_status: int | None = 0,
    signal: str | None = None,
    timed_out: bool = False,
    nsys_hung: bool = False,
    tail: tuple[str, ...] = (),
    captures: tuple[Captured, ...] = CAPTURED,
    crashed: bool = False,
) -> ProfileOutcome:
    """What came of a run, one that did well by default."""
    return ProfileOutcome(
        nsys_hung=nsys_hung,
        captures=captures,
        exit_status=exit_status,
        signal=signal,
        timed_out=timed_out,
        wall_s=1.0,
        tail=tail,
        log=LOG,
        crashed=crashed,
        problem=None,
    )


def worker_report(ending: Ending, why: Note | None = None, *, turns: int = 0) -> WorkerReport:
    """What a worker reports of its end."""
    return WorkerReport(ending=ending, why=why, turns=turns, pid=7)


class ReferenceFailed(Exception):
    """The reference's side of a pair came to nothing."""

    def __init__(self, error: PerfgateError) -> None:
        self.error = error
        super().__init__(str(error))


def pair_in_blocks(
    sides: tuple[RunContext, RunContext],
    workload: Workload,
    folders: tuple[Path, Path],
    *,
    candidate_begins: bool,
    block_steps: int,
    core: int | None,
) -> tuple[Measured, Measured]:
    """Run a workload on either side, reference and candidate, in blocks of steps.

    Raises:
        ReferenceFailed: that side failed, but for nsys. PerfgateError: the candidate, or nsys.
    """
    there, here = (
        Wanted(context=context, workload=workload, folder=folder)
        for context, folder in zip(sides, folders, strict=True)
    )
    wanted = in_blocks(
        (there, here), candidate_begins=candidate_begins, block_steps=block_steps, core=core
    )
    try:
        reference, candidate = Batch(wanted, Form.EARLY)
    except RunFailed as failed:
        if failed.number == 0 and not isinstance(failed.error, NsysCrashed):
            raise ReferenceFailed(failed.error) from failed
        raise failed.error from failed
    return reference, candidate
