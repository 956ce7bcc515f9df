"""What `perfgate explain --ncu` does: looks at one launch of each kernel that moved, now and
before, with ncu.

```
now      project, as it is            one run a kernel, under ncu in place of nsys
before   the compared commit          the same, in a checkout next to the project, if there is one
```
A run is of the same command and environment as a measured one, but of fewer steps. Nothing of it is
judged, kept or blessed.
"""

from __future__ import annotations

import math
import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from perfgate.bless.repeats import clean_commits
from perfgate.execute.context import RunContext, at_commit
from perfgate.execute.folder import LOG, clean_log
from perfgate.execute.provenance import code_now
from perfgate.execute.run import OneRun, ordered
from perfgate.explain.names import brief, identity, unnumbered
from perfgate.explain.nvidia import moved_kernels
from perfgate.model.baseline import Baseline, Result, changed_code
from perfgate.model.comparison import KernelProbe, KernelProbes, LaunchFigures, MovedKernel
from perfgate.model.errors import CaptureUnreadable, NcuFailed, PerfgateError, StoreFailed
from perfgate.model.note import Note, note, noted
from perfgate.model.order import Ending
from perfgate.model.workload import CaptureMode, Workload
from perfgate.profilers.nsys.command import without_profiler
from perfgate.profilers.nsys.export.ranges import kernel_symbols
from perfgate.system import git
from perfgate.system.process import Listening, run_process
from perfgate.views.explain import Subject
from perfgate.views.ncu.command import OneLaunch, profile_command, read_command
from perfgate.views.ncu.log import application_status, trouble
from perfgate.views.ncu.reading import read_launches
from perfgate.views.ncu.tool import NcuTool

MOST_KERNELS: Final = 3
"""How many are looked at unless somebody asks for more: each is a run of its own on either side."""
FEWEST_STEPS: Final = 2
"""Measured steps of a run: loops that take their batches ahead of a step come to a second one."""
SHOWN_SHA: Final = 12
TAIL_LINES: Final = 20
READ_TIMEOUT_S: Final = 120.0
NOT_SEEN: Final = note("kernel-not-seen")
NO_SYMBOL: Final = note("kernel-symbol-unknown")


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What there is to look at, and to compare it with."""

    a: Subject
    b: Subject
    result: Result
    """That b is of."""
    baseline: Baseline | None
    """That of the workload on the result's machine."""


def probe(
    context: RunContext,
    tool: NcuTool,
    workload: Workload,
    of: Candidates,
    *,
    most: int,
    on_run: Callable[[str], None],
) -> KernelProbes:
    """Look at the kernels that moved most; the caller holds the GPU.

    Args:
        context: of the project.
        tool: ncu.
        workload: as the project declares it now.
        of: what moved.
        most: how many kernels are looked at.
        on_run: gets a line of each run before it is made.

    Raises:
        NcuFailed: ncu has no figures of a launch in the project.
        PerfgateError: the workload does not run there.
    """
    chosen = moved_kernels(of.a.side, of.b.side, most=most)
    symbols = _symbols(of)
    folder = _emptied(context.root / ".perfgate" / "ncu")
    commit, no_before = commit_before(of)
    made = _Probing(
        tool=tool,
        workload=workload,
        symbols=symbols,
        folder=folder,
        on_run=on_run,
        planned=len(chosen),
    )
    now = [made.launch(context, number, moved, side="now") for number, moved in enumerate(chosen)]
    before: Sequence[LaunchFigures | Note] = [no_before or NOT_SEEN] * len(chosen)
    if commit is not None and chosen:
        before = made.before(context, commit, chosen)
    probes = tuple(
        KernelProbe(
            moved=moved,
            before=was if isinstance(was, LaunchFigures) else None,
            now=found if isinstance(found, LaunchFigures) else None,
            no_before=was if isinstance(was, Note) else None,
            no_now=found if isinstance(found, Note) else None,
        )
        for moved, was, found in zip(chosen, before, now, strict=True)
    )
    return KernelProbes(
        tool=f"ncu {tool.version}",
        before=commit[:SHOWN_SHA] if commit is not None else "nothing",
        now="the project as it is",
        probes=probes,
        notes=tuple(_notes(context, workload, of, probes)),
    )


@dataclass(frozen=True, kw_only=True)
class _Probing:
    tool: NcuTool
    workload: Workload
    symbols: Mapping[str, str]
    """Mangled names, by what a baseline keeps of a name."""
    folder: Path
    on_run: Callable[[str], None]
    planned: int

    def before(
        self, context: RunContext, commit: str, chosen: Sequence[MovedKernel]
    ) -> list[LaunchFigures | Note]:
        """Look at the launches of another commit; what fails there is a reason, not an end."""
        whys = [self._why_not(moved, moved.per_step_before) for moved in chosen]
        known: list[LaunchFigures | Note] = [why for why in whys if why is not None]
        if len(known) == len(whys):
            return known
        try:
            baselines = context.settings.baselines
            commit = git.obtain(context.root, commit, baselines=baselines, env=context.env)
            with at_commit(
                context, commit, on_line=lambda line: self.on_run(f"ab_setup: {line}")
            ) as there:
                return [
                    self._launch_there(there, number, moved) for number, moved in enumerate(chosen)
                ]
        except PerfgateError as failed:
            return [noted(failed)] * len(chosen)

    def _launch_there(
        self, there: RunContext, number: int, moved: MovedKernel
    ) -> LaunchFigures | Note:
        try:
            return self.launch(there, number, moved, side="before")
        except PerfgateError as failed:
            return noted(failed)

    def launch(
        self, context: RunContext, number: int, moved: MovedKernel, *, side: str
    ) -> LaunchFigures | Note:
        """One launch's figures, or why there are none, in a phrase.

        Raises:
            NcuFailed: ncu has none.
            PerfgateError: the workload does not run.
        """
        per_step = moved.per_step_before if side == "before" else moved.per_step_now
        if (why_not := self._why_not(moved, per_step)) is not None:
            return why_not
        self.on_run(f"kernel {number + 1} of {self.planned}, {side}: {brief(moved.name)}")
        symbol = self.symbols[identity(moved.name)]
        workload = of_few_steps(self.workload, per_step)
        home = self.folder / f"{number + 1}-{side}"
        report, log = home / "launch.ncu-rep", home / "ncu.log"
        tail: deque[str] = deque(maxlen=TAIL_LINES)
        try:
            with ordered(context, workload, home, run_id=uuid4().hex) as run:
                began_at, spec, printed_to = time.time(), run.spec, home / LOG
                env = without_profiler(spec.env)
                launch = OneLaunch(
                    kernel=_asked_for(symbol),
                    skip=round(per_step * workload.warmup) if workload.skips_warmup else 0,
                    from_start=spec.capture is not CaptureMode.CUDA_PROFILER_API,
                )
                argv = _resolved(spec.argv, env)
                finished = run_process(
                    profile_command(self.tool, launch, argv, report=report, log=log),
                    cwd=spec.cwd,
                    env=env,
                    log=printed_to,
                    timeout_s=spec.timeout_s,
                    listening=Listening(
                        on_line=lambda line: tail.append(line) if line.strip() else None,
                        clean=spec.cleaner.clean,
                    ),
                )
                for printed in (log, printed_to):
                    with suppress(OSError):
                        clean_log(printed, spec.cleaner)
                # What ncu says from within the workload's process goes where that prints.
                said = f"{_text(log)}\n{_text(printed_to)}"
                if not finished.timed_out and (
                    failed := trouble(said, subject=brief(moved.name), where=str(log))
                ):
                    raise failed
                run.refuse(
                    exit_status=_status(run, finished.returncode, said),
                    timed_out=finished.timed_out,
                    began_at=began_at,
                    tail=spec.cleaner.lines(tail),
                )
            return self._read(report, moved, symbol) if report.is_file() else NOT_SEEN
        except OSError as refused:
            raise NcuFailed(
                "ncu-not-run", kernel=brief(moved.name), reason=refused.strerror or str(refused)
            ) from refused
        finally:
            # It may hold what a capture holds.
            report.unlink(missing_ok=True)

    def _why_not(self, moved: MovedKernel, per_step: float) -> Note | None:
        if per_step <= 0:
            return note("kernel-not-launched")
        return None if identity(moved.name) in self.symbols else NO_SYMBOL

    def _read(self, report: Path, moved: MovedKernel, symbol: str) -> LaunchFigures | Note:
        printed = report.with_name("launch.csv")
        finished = run_process(
            read_command(self.tool, report),
            cwd=report.parent,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **self.tool.env, "LC_ALL": "C"},
            log=printed,
            timeout_s=READ_TIMEOUT_S,
        )
        said = _text(printed)
        if (failed := trouble(said, subject=brief(moved.name), where=str(printed))) is not None:
            raise failed
        if finished.returncode != 0:
            raise NcuFailed(
                "ncu-report-unread",
                kernel=brief(moved.name),
                status="none" if finished.timed_out else str(finished.returncode),
                log=str(printed),
            )
        launches = read_launches(said, source=str(printed))
        if not launches:
            return NOT_SEEN
        # Of several processes or GPUs that of the first: what is shown is one launch.
        first = min(launches, key=lambda launch: launch.device)
        if identity(first.kernel) != identity(symbol):
            raise NcuFailed(
                "ncu-another-kernel",
                kernel=brief(moved.name),
                found=first.kernel,
                asked=symbol,
                log=str(printed),
            )
        return first


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


def _symbols(of: Candidates) -> dict[str, str]:
    """Mangled names by key, from the captures of both sides."""
    found: dict[str, str] = {}
    for subject in (of.a, of.b):
        if subject.capture is not None:
            with suppress(CaptureUnreadable):
                symbols = kernel_symbols(subject.capture.export)
                found |= {identity(name): symbol for name, symbol in symbols.items()}
    return found


def commit_before(of: Candidates) -> tuple[str | None, Note | None]:
    """The commit that b was compared with, or why there is none to run."""
    result = of.result
    if result.reference_runs:
        ab_run = result.verdict.ab_run
        return (None, note("commit-unsaid")) if ab_run is None else (ab_run.commit, None)
    if of.baseline is None:
        return None, note("commit-no-baseline")
    clean = clean_commits(of.baseline)
    commits = [one.commit.sha for one in of.baseline.occasions if one.commit is not None]
    if known := [sha for sha in commits if sha in clean]:
        return known[-1], None
    return None, note("commit-dirty" if commits else "commit-unknown")


def _notes(
    context: RunContext, workload: Workload, of: Candidates, probes: Sequence[KernelProbe]
) -> list[Note]:
    code = code_now(of.result.code, context.root, baselines=context.settings.baselines)
    here, there = context.machine.slug, of.result.machine.slug
    found = [
        (note("probed-other-code"), bool(changed_code(of.result.code, code))),
        (note("probed-other-parameters"), workload.digest() != of.result.workload.digest()),
        (note("probed-elsewhere", there=there, here=here), here != there),
    ]
    shapes = [
        note("probed-other-shape", kernel=brief(one.moved.name))
        for one in probes
        if one.before
        and one.now
        and (one.before.grid, one.before.block) != (one.now.grid, one.now.block)
    ]
    return [*(one for one, holds in found if holds), *shapes]


def _resolved(argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The command with its program's path, which ncu would look for in other places."""
    program = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=env.get("PATH"))
    return (program or argv[0], *argv[1:])


def _emptied(folder: Path) -> Path:
    """The folder of the runs, without what the last ones left there."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    except OSError as refused:
        raise StoreFailed(
            "folder-not-emptied", folder=str(folder), reason=refused.strerror or str(refused)
        ) from refused
    return folder


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
