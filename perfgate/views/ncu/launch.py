"""Runs a workload under ncu for one launch of a kernel, on either commit; which kernels these are
is no matter of it."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from perfgate.execute.context import RunContext, at_commit
from perfgate.execute.folder import LOG, clean_log
from perfgate.execute.run import OneRun, ordered
from perfgate.explain.names import brief, identity, unnumbered
from perfgate.model.comparison import LaunchFigures, MovedKernel
from perfgate.model.errors import NcuFailed, PerfgateError
from perfgate.model.note import Note, note, noted
from perfgate.model.order import Ending
from perfgate.model.workload import CaptureMode, Workload
from perfgate.profilers.nsys.command import without_profiler
from perfgate.profilers.nsys.tool import Tool
from perfgate.system import git
from perfgate.system.process import Listening, run_process
from perfgate.views.ncu.command import (
    OneLaunch,
    application_status,
    profile_command,
    read_command,
    trouble,
)
from perfgate.views.ncu.reading import read_launches

FEWEST_STEPS: Final = 2
"""Measured steps of a run: loops that take their batches ahead of a step come to a second one."""
TAIL_LINES: Final = 20
READ_TIMEOUT_S: Final = 120.0
NOT_SEEN: Final = note("kernel-not-seen")


@dataclass(frozen=True, kw_only=True)
class Probing:
    """A workload that is run for one kernel after another."""

    tool: Tool
    workload: Workload
    symbols: Mapping[str, str]
    """Mangled names, by what a baseline keeps of a name."""
    folder: Path
    on_run: Callable[[str], None]
    chosen: Sequence[MovedKernel]

    def before(self, context: RunContext, commit: str | Note) -> list[LaunchFigures | Note]:
        """Look at the launches of another commit; what fails there is a reason, not an end."""
        if isinstance(commit, Note):
            return [commit] * len(self.chosen)
        try:
            baselines = context.settings.baselines
            commit = git.obtain(context.root, commit, baselines=baselines, env=context.env)
            with at_commit(
                context, commit, on_line=lambda line: self.on_run(f"ab_setup: {line}")
            ) as there:
                return self.launches(there, side="before")
        except PerfgateError as failed:
            return [noted(failed)] * len(self.chosen)

    def launches(self, context: RunContext, *, side: str) -> list[LaunchFigures | Note]:
        """The figures of one launch of each kernel, or why there are none.

        Raises:
            NcuFailed: ncu has none.
            PerfgateError: the workload does not run.
        """
        found: list[LaunchFigures | Note] = []
        for number, moved in enumerate(self.chosen, start=1):
            per_step = moved.per_step_before if side == "before" else moved.per_step_now
            if per_step <= 0:
                found.append(note("kernel-not-launched"))
            elif (symbol := self.symbols.get(identity(moved.name))) is None:
                found.append(note("kernel-symbol-unknown"))
            else:
                kernel = brief(moved.name)
                self.on_run(f"kernel {number} of {len(self.chosen)}, {side}: {kernel}")
                home = self.folder / f"{number}-{side}"
                found.append(self._launch(context, home, kernel, symbol, per_step))
        return found

    def _launch(
        self, context: RunContext, home: Path, kernel: str, symbol: str, per_step: float
    ) -> LaunchFigures | Note:
        workload = of_few_steps(self.workload, per_step)
        report, log, printed = home / "launch.ncu-rep", home / "ncu.log", home / LOG
        try:
            with ordered(context, workload, home, run_id=uuid4().hex) as run:
                spec, env = run.spec, without_profiler(run.spec.env)
                launch = OneLaunch(
                    kernel=_asked_for(symbol),
                    skip=round(per_step * workload.step_rule["warmup"]),
                    from_start=spec.capture is not CaptureMode.CUDA_PROFILER_API,
                )
                argv = _resolved(spec.argv, env)
                finished = run_process(
                    profile_command(self.tool, launch, argv, report=report, log=log),
                    cwd=spec.cwd,
                    env=env,
                    log=printed,
                    timeout_s=spec.timeout_s,
                    listening=Listening(clean=spec.cleaner.clean),
                )
                for file in (log, printed):
                    with suppress(OSError):
                        clean_log(file, spec.cleaner)
                # What ncu says from within the workload's process goes where that prints.
                said = f"{_text(log)}\n{_text(printed)}"
                failed = trouble(said, subject=kernel, where=str(log))
                if failed is not None and not finished.timed_out:
                    raise failed
                lines = [line for line in _text(printed).splitlines() if line.strip()]
                run.refuse(
                    exit_status=_status(run, finished.returncode, said),
                    timed_out=finished.timed_out,
                    tail=lines[-TAIL_LINES:],
                )
            return self._read(report, kernel) if report.is_file() else NOT_SEEN
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise NcuFailed("ncu-not-run", kernel=kernel, reason=reason) from refused
        finally:
            # It may hold what a capture holds.
            report.unlink(missing_ok=True)

    def _read(self, report: Path, kernel: str) -> LaunchFigures | Note:
        printed = report.with_name("launch.csv")
        finished = run_process(
            read_command(self.tool, report),
            cwd=report.parent,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **self.tool.env, "LC_ALL": "C"},
            log=printed,
            timeout_s=READ_TIMEOUT_S,
        )
        said = _text(printed)
        if (failed := trouble(said, subject=kernel, where=str(printed))) is not None:
            raise failed
        if finished.returncode != 0:
            status = "none" if finished.timed_out else str(finished.returncode)
            raise NcuFailed("ncu-report-unread", kernel=kernel, status=status, log=str(printed))
        launches = read_launches(said, source=str(printed))
        # Of several processes or GPUs that of the first: what is shown is one launch.
        return min(launches, key=lambda launch: launch.device, default=NOT_SEEN)


def _asked_for(symbol: str) -> str:
    """What ncu is given for a kernel's name: one that torch.compile made may have another number on
    the other side."""
    of = unnumbered(symbol)
    return symbol if of == symbol else f"regex:^{re.escape(of)}(_[0-9]+)+$"


def of_few_steps(workload: Workload, per_step: float) -> Workload:
    """The workload with as few measured steps as surely launch a kernel; a command takes what it
    takes.

    The warm-up stays: compiling and autotuning choose the kernels in it.
    """
    if workload.form == "command":
        return workload
    enough = math.ceil(1 / per_step) + 1 if per_step < 1 else FEWEST_STEPS
    steps = max(enough, FEWEST_STEPS)
    declared = steps if workload.steps is None else workload.steps
    return workload.model_copy(update={"steps": min(declared, steps)})


def _status(run: OneRun, returncode: int | None, said: str) -> int | None:
    """The workload's exit status: as it said itself, as ncu says, or else ncu's own."""
    worker_report = run.worker_report
    if worker_report is not None and worker_report.ending is Ending.FINISHED:
        return 0
    status = application_status(said)
    return returncode if status is None else status


def _resolved(argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The command with its program's path, which ncu would look for in other places."""
    program = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=env.get("PATH"))
    return (program or argv[0], *argv[1:])


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
