"""One run of one workload, from the command to its sample: order, profile, read, measure, scrub.
Judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from perfgate.execute.captures import (
    OfCapture,
    measure_capture,
    notes_of,
    processes_of,
)
from perfgate.execute.command import capture_window, worker_command
from perfgate.execute.context import RunContext
from perfgate.execute.environment import (
    as_activated,
    in_checkout,
    in_project,
    of_processes,
    passed_on,
)
from perfgate.execute.exchange import (
    FIFO,
    IMPORTS,
    ORDER,
    WORKER_REPORT,
    make_folder,
    order_of,
    read_worker_report,
)
from perfgate.execute.failures import (
    Ended,
    refuse_failed,
    refuse_missing,
    refuse_uncaptured,
    without_steps,
)
from perfgate.execute.kept import keep_exports, keep_log
from perfgate.execute.leftovers import RAW, clear
from perfgate.execute.provenance import (
    ImportLog,
    code_of_run,
    code_unlogged,
    read_import_logs,
)
from perfgate.execute.side_environment import check_there, declared_there, workload_there
from perfgate.machine import RankWatch, Sampler
from perfgate.model.errors import NsysCrashed, StepsNotFound, WorkloadFailed
from perfgate.model.machine import Conditions
from perfgate.model.note import Note, Severity, note
from perfgate.model.order import RUN_COOKIE, Blocks, Ending, WorkerReport
from perfgate.model.reports import Reports
from perfgate.model.sample import Form, ProcessSample, Run
from perfgate.model.secrets import Cleaner
from perfgate.model.tuning import tuning
from perfgate.model.workload import CaptureWindow, Workload
from perfgate.profilers.nsys.profile import profile
from perfgate.profilers.seam import ProfileOutcome, ProfileSpec
from perfgate.system.temporary import underway

TRIES: Final = 3
"""How often a run is tried in which nsys itself breaks down.

On a busy machine it does so now and then, in one way or another.
"""

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run with what is known beside its numbers."""

    run: Run
    worker_report: WorkerReport | None
    """None of a command: a script that perfgate does not touch reports nothing."""
    code: Mapping[str, str]
    """SHA-256 by path of the project's files that the run loaded."""
    withheld: tuple[str, ...] = ()
    """Names of the environment variables that were not passed to the workload."""
    reports: tuple[Reports, ...] = field(default=())
    import_logs: tuple[ImportLog, ...] = ()
    """What its processes loaded."""
    environment: Mapping[str, str] | None = None
    """Variables of its processes that may change how fast they are, at their start; None where they
    were not seen."""


def measure_run(
    context: RunContext,
    workload: Workload,
    folder: Path,
) -> Measured:
    """Run the workload once under nsys, in `folder`, and measure what it did.

    Leaves a scrubbed export of each capture and the log in `folder`; nsys's own files only under
    `keep_captures`.

    Raises:
        WorkloadFailed: it raised, exited, was killed, skipped itself or took the wrong number of
        steps. WorkloadTimedOut: it did not end in time. CaptureFailed: it ended well, and nsys left
        no capture. NsysCrashed: nsys itself broke down. CaptureUnreadable: nsys left something that
        is no capture. LayoutUnknown: nsys's reports or export are of a form that perfgate does not
        know. StepsNotFound: no capture of the run holds a step. StoreFailed: the disk did not take
        the run. RevisionMissing: the commit that the bench is of did not have the workload yet.
        WorktreeFailed: that commit declares it in a way that cannot be compared. CodeUnproven: it
        is not shown that the run was of that commit's code. CodeStale: it is of no commit, and
        loaded a copy of the project's code that is not what is in the project.
    """
    run_id = uuid4().hex
    with ordered(context, workload, folder, run_id=run_id) as one:
        with Sampler(context.machine.gpus, run_id=run_id) as sampler:
            ran = one.run()
        return one.measured(ran, conditions_of(context, sampler))


def conditions_of(context: RunContext, sampler: Sampler) -> Conditions:
    """What the machine went through while it was sampled; of one without a GPU there is nothing to
    say."""
    return sampler.conditions() if context.machine.gpus else Conditions()


class Abandoned(Exception):
    """The other side of the pair ended first: it has not failed yet, as far as is known here, but
    will."""

    def __init__(self, error: WorkloadFailed) -> None:
        self.error = error
        super().__init__(str(error))


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run that has come to its end, and is still to be read."""

    started_at: datetime
    ended: Ended
    code: Mapping[str, str]
    """SHA-256 by path of the project's files that it loaded, or equal copies of."""
    ranks: Mapping[int, int]
    """Ranks by process id, as far as the processes' environments say."""
    tuning: Mapping[int, Mapping[str, str]]
    """What of their environments may change how fast they are, by process id; of a decorated
    workload none."""


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """One run whose folder and order are there."""

    context: RunContext
    workload: Workload
    """As it is run, in a checkout with the words of there."""
    folder: Path
    spec: ProfileSpec
    withheld: tuple[str, ...]
    blocks: Blocks | None

    @property
    def cleaner(self) -> Cleaner:
        """Takes secrets out of what it prints and writes."""
        return self.spec.cleaner

    @property
    def worker_report(self) -> WorkerReport | None:
        """What the worker has reported by now."""
        return read_worker_report(self.folder / WORKER_REPORT, self.cleaner)

    @property
    def import_logs(self) -> tuple[ImportLog, ...]:
        """What its processes have logged by now."""
        return read_import_logs(self.folder / IMPORTS)

    def run(self, *, on_tick: Callable[[], None] | None = None) -> Ran:
        """Profile it, and refuse what did not end well, or is not of its commit or of what is in
        the project.

        Raises:
            Abandoned: the other side of the A/B run is to blame.
        """
        started_at, workload = datetime.now(UTC), self.workload
        watch = RankWatch(self.spec.env[RUN_COOKIE].rpartition(":")[2])

        def tick() -> None:
            if workload.form == "command":  # a decorated workload is one process
                watch.look()
            if on_tick is not None:
                on_tick()

        outcome = profile(self.context.tool, self.spec, on_tick=tick)
        log = keep_log(outcome.log, self.folder, self.cleaner)
        try:
            ended = self.refuse_failed(outcome, log)
        except WorkloadFailed as failed:
            worker_report = self.worker_report
            if worker_report is not None and worker_report.ending is Ending.ABANDONED:
                raise Abandoned(failed) from failed
            raise
        refuse_uncaptured(ended)
        return Ran(
            started_at=started_at,
            ended=ended,
            code=self.code(started_at.timestamp()),
            ranks=watch.ranks,
            tuning=watch.tuning,
        )

    def refuse_failed(self, outcome: ProfileOutcome, log: Path) -> Ended:
        """Refuse a workload that did not end well, or that its commit does not have."""
        ended = Ended(
            workload=self.workload,
            outcome=outcome,
            worker_report=self.worker_report,
            log=log,
            withheld=self.withheld,
        )
        if self.context.tree is not None:
            refuse_missing(ended, self.context.tree)
        refuse_failed(ended)
        return ended

    def code(self, started_at: float) -> dict[str, str]:
        """SHA-256 by path of the files that it loaded; raises what `provenance.code_of_run` does."""
        return code_of_run(self.context, self.workload, self.import_logs, started_at=started_at)

    def measured(
        self, ran: Ran, conditions: Conditions, *, on_tick: Callable[[], None] | None = None
    ) -> Measured:
        """Read its captures, and keep of them what may leave the machine.

        Raises:
            CodeUnproven: it was to be of a commit, which is not shown of the process that took its
            steps.
        """
        context, workload, raw = self.context, self.workload, self.spec.folder
        outcome, worker_report = ran.ended.outcome, ran.ended.worker_report
        captures = [
            measure_capture(workload, context.tool, one, raw, on_tick) for one in outcome.captures
        ]
        try:
            processes = processes_of(workload, captures, ran.ranks)
        except StepsNotFound as missing:
            if workload.form != "command":
                raise
            window = workload.capture if isinstance(workload.capture, CaptureWindow) else None
            raise without_steps(missing, ran.ended, window) from missing
        measured = [process.pid for process in processes]
        took_steps = measured if worker_report is None else [worker_report.pid]
        logs = self.import_logs
        unlogged = code_unlogged(context, workload, logs, measured=took_steps)
        keep_exports(outcome.captures, raw, self.folder)
        run = Run(
            started_at=ran.started_at,
            wall_s=outcome.wall_s,
            processes=processes,
            conditions=conditions,
            form=Form.ALONE if self.blocks is None else Form.BLOCK,
            begins=None if self.blocks is None else self.blocks.begins,
            folder=self.folder.name,
            notes=self._notes(processes, captures, worker_report),
        )
        return Measured(
            run=run,
            worker_report=worker_report,
            code={**ran.code, **unlogged},
            withheld=self.withheld,
            environment=self._environment(ran, measured),
            reports=tuple(one.reports for one in captures),
            import_logs=logs,
        )

    def _environment(self, ran: Ran, measured: Sequence[int]) -> Mapping[str, str] | None:
        """Of a command what the first of the measured processes was started with, which may have
        set it itself."""
        if self.blocks is not None and self.blocks.core is not None:
            return None  # both sides were given what they share a core with
        places = (str(self.context.root.absolute()), str(self.folder.absolute()))
        if self.workload.form != "command":
            return tuning(self.spec.env, places=places)
        return next(
            (tuning(ran.tuning[pid], places=places) for pid in measured if pid in ran.tuning), None
        )

    def _notes(
        self,
        processes: tuple[ProcessSample, ...],
        captures: list[OfCapture],
        worker_report: WorkerReport | None,
    ) -> tuple[Note, ...]:
        """All that is known beside the numbers, each once, what makes the run INVALID first."""
        found = (
            *notes_of(self.workload, self.context.machine, processes),
            *(one for capture in captures for one in capture.complaints),
            *(one for process in processes for one in process.notes),
            *_off_its_core(self.blocks, worker_report),
        )
        once = [one for place, one in enumerate(found) if one not in found[:place]]
        return tuple(sorted(once, key=lambda one: one.severity is not Severity.INVALID))


def _off_its_core(blocks: Blocks | None, worker_report: WorkerReport | None) -> Iterator[Note]:
    """Whether the workload went away from its core: its times are as good as any, only less steady."""
    core = None if blocks is None else blocks.core
    if core is not None and worker_report is not None and worker_report.core != core:
        yield note("core-left", Severity.WARN, core=core)


@contextmanager
def ordered(
    context: RunContext,
    workload: Workload,
    folder: Path,
    *,
    run_id: str,
    blocks: Blocks | None = None,
) -> Iterator[Ordered]:
    """Make the folder of one run with its order, and leave in it only what is to be kept.

    Raises:
        StoreFailed: the folder cannot be made.
        RevisionMissing: the commit that the bench is of did not have the workload yet.
        WorktreeFailed: that commit declares it in a way that cannot be compared.
    """
    raw, imports = folder / RAW, folder / IMPORTS
    if context.tree is not None:
        workload = declared_there(workload, context.tree, context.settings)
    given = as_activated(context, workload)
    if context.tree is not None:
        check_there(workload, context.tree, context.env)
        given = in_checkout(context, context.tree, workload, given, imports.absolute())
        workload = workload_there(workload, context.tree)
    else:
        given = in_project(workload, given, imports.absolute())
    make_folder(folder, order_of(context, workload, folder, blocks=blocks))
    env, withheld = passed_on(workload, given, context.settings.pass_env)
    cwd = context.root / (workload.cwd or ".")
    spec = ProfileSpec(
        argv=worker_command(
            workload,
            folder / ORDER,
            python=context.python,
            pytest_options=context.pytest_options,
            is_pinned=context.tree is not None,
        ),
        folder=raw,
        cwd=cwd,
        env=of_processes(
            env, cwd=cwd, run_id=run_id, shares_core=blocks is not None and blocks.core is not None
        ),
        timeout_s=workload.timeout_s,
        capture=capture_window(workload, context.machine),
        graph_trace=context.settings.cuda_graph_trace,
        cleaner=context.cleaner.knowing(given, (*workload.pass_env,)),
    )
    with underway(folder):
        try:
            yield Ordered(
                context=context,
                workload=workload,
                folder=folder,
                spec=spec,
                withheld=withheld,
                blocks=blocks,
            )
        finally:
            if context.keep_captures:
                (folder / FIFO).unlink(missing_ok=True)
            else:
                clear(folder)


def outlasting_crashes(
    make: Callable[[Callable[[Path], Path]], Made],
    *,
    on_crash: Callable[[NsysCrashed], None] | None = None,
) -> Made:
    """Make a run or a pair, and if nsys itself breaks down, make it again, `TRIES` times in all.

    Args:
        make: makes it, in the folder that its argument returns for the intended one: itself, then
            fresh ones beside.
        on_crash: hears of each crash after which it is made again.

    Raises:
        NsysCrashed: of the last try.
    """
    for number in range(1, TRIES):
        try:
            return make(partial(_folder_of_try, number))
        except NsysCrashed as crashed:
            if on_crash is not None:
                on_crash(crashed)
    return make(partial(_folder_of_try, TRIES))


def _folder_of_try(number: int, folder: Path) -> Path:
    return folder if number == 1 else folder.with_name(f"{folder.name}-try-{number}")
