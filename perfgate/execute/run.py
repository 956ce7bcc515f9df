"""One run of one workload, phase by phase, each a value that the next one takes; judges nothing.

```
ordered     -> OneRun       its folder and order are there, nothing is started
  .run      -> RunEnd       started, its window taken, ended, exported; refused where that failed
  .measured -> Measured     read; of its captures is kept what may leave the machine
```
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from perfgate.execute.captures import measure_captures
from perfgate.execute.command import start_of
from perfgate.execute.context import RunContext
from perfgate.execute.failures import (
    RunEnd,
    refuse_failed,
    refuse_missing,
    refuse_uncaptured,
    without_steps,
)
from perfgate.execute.folder import (
    IMPORTS,
    LOG,
    WORKER_REPORT,
    ImportLog,
    clear,
    keep_exports,
    keep_log,
    make_folder,
    read_import_logs,
    read_worker_report,
    write_order,
)
from perfgate.execute.provenance import code_of_run
from perfgate.execute.script_hold import FIFOS
from perfgate.execute.side_environment import declared_there, workload_there
from perfgate.execute.standby import Standby
from perfgate.machine import RankWatch, sampled
from perfgate.model.errors import StepsNotFound
from perfgate.model.machine import Conditions, tuning
from perfgate.model.note import Note, Severity, note
from perfgate.model.order import Blocks, Hold, Order, WorkerReport
from perfgate.model.sample import Form, Run
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.output import signal_name
from perfgate.profilers.nsys.profile import profile
from perfgate.profilers.seam import OnTick, ProfileOutcome, ProfileSpec
from perfgate.system.files import underway
from perfgate.system.process import ignore

TRIES: Final = 3
"""How often a run is tried in which nsys itself breaks down, as it does on a busy machine."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run with what is known besides its numbers."""

    run: Run
    worker_report: WorkerReport | None
    """None of a command: a script that perfgate does not touch reports nothing."""
    code: Mapping[str, str]
    """SHA-256 by path of the project's files that the run loaded."""
    withheld: tuple[str, ...] = ()
    """Names of the environment variables that were not passed to the workload."""
    import_logs: tuple[ImportLog, ...] = ()
    """What its processes loaded."""
    environment: Mapping[str, str] | None = None
    """Variables of its processes that may change how fast they are, at their start; None where they
    were not seen."""


def measure_run(
    context: RunContext, workload: Workload, folder: Path, busy: Note | None = None
) -> Measured:
    """Run the workload once under nsys, in `folder`, and measure what it did.

    `busy` is what kept the GPU busy before it.

    Leaves a scrubbed export of each capture and the log in `folder`; nsys's own files only under
    `keep_captures`.

    Raises:
        PerfgateError: as `ordered`, `OneRun.run` and `OneRun.measured` do.
    """
    run_id = uuid4().hex
    with ordered(context, workload, folder, run_id=run_id) as one:
        with sampled(context.machine.gpus, run_id=run_id) as samples:
            end = one.run()
        return one.measured(end, samples.conditions(), busy)


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """One run whose folder and order are there, for nsys or another tool to start."""

    context: RunContext
    workload: Workload
    """As it is run, in a checkout with the words of there."""
    folder: Path
    spec: ProfileSpec
    profiled: Callable[..., ProfileOutcome]
    """Profiles it, as `profile` does; takes `on_tick`."""
    blocks: Blocks | None
    hold: Hold | None
    form: Form
    ranks: RankWatch
    """Of a command: the ranks and tuning of its processes, as far as their environments say."""
    started_at: datetime

    @property
    def worker_report(self) -> WorkerReport | None:
        """What the worker has reported by now."""
        return read_worker_report(self.folder, self.spec.cleaner)

    @cached_property
    def import_logs(self) -> tuple[ImportLog, ...]:
        """What its processes have logged, once they have ended."""
        return read_import_logs(self.folder / IMPORTS)

    def run(self, *, on_tick: OnTick = ignore) -> RunEnd:
        """Profile it, and refuse what did not end well.

        Raises:
            WorkloadFailed: it raised, exited, was killed, skipped itself or took the wrong number
            of steps. WorkloadTimedOut: it did not end in time. CaptureFailed: it ended well, and
            nsys left no capture. NsysCrashed: nsys itself broke down. RevisionMissing: its commit
            did not have the workload yet. OtherSideEnded: that of the A/B run is to blame.
        """

        def tick() -> None:
            if self.workload.form == "command":  # a decorated workload is one process
                self.ranks.look()
            on_tick()

        outcome = self.profiled(on_tick=tick)
        kept = keep_log(outcome.log, self.folder, self.spec.cleaner)
        end = self._end(replace(outcome, log=kept))
        refuse_failed(end)
        refuse_uncaptured(end)
        return end

    def refuse(self, *, exit_status: int | None, timed_out: bool, tail: Sequence[str]) -> None:
        """Refuse a run under another tool than nsys, as `run` and `measured` do.

        `exit_status` is the workload's own, below zero where a signal ended it, and None where it
        is not known.
        """
        was_killed = exit_status is not None and exit_status < 0
        outcome = ProfileOutcome(
            exit_status=exit_status,
            signal=signal_name(-(exit_status or 0)) if was_killed else None,
            timed_out=timed_out,
            tail=tuple(tail),
            log=self.folder / LOG,
        )
        refuse_failed(self._end(outcome))
        self._code()

    def _end(self, outcome: ProfileOutcome) -> RunEnd:
        """How it ended; refuses a workload that its commit does not have."""
        end = RunEnd(
            workload=self.workload,
            outcome=outcome,
            worker_report=self.worker_report,
            withheld=self.spec.withheld,
        )
        if self.context.tree is not None:
            refuse_missing(end, self.context.tree)
        return end

    def _code(self, took_steps: Collection[int] = ()) -> dict[str, str]:
        """Which code it was of; these processes took its steps."""
        return code_of_run(
            self.context,
            self.workload,
            self.import_logs,
            started_at=self.started_at.timestamp(),
            measured=took_steps,
        )

    def measured(
        self,
        end: RunEnd,
        conditions: Conditions,
        busy: Note | None = None,
        *,
        on_tick: OnTick = ignore,
    ) -> Measured:
        """Read its captures, see which code it was of, and keep of them what may leave the machine.

        Raises:
            CaptureUnreadable: nsys left something that is no capture. LayoutUnknown: its reports or
            export are of a form that perfgate does not know. StepsNotFound: no capture of the run
            holds a step. CodeUnproven, CodeStale: as `code_of_run`.
            StoreFailed: the disk did not take it.
        """
        outcome, worker_report = end.outcome, end.worker_report
        workload, ranks = self.workload, self.ranks.ranks
        if workload.steps is None and worker_report is not None:  # so many did it choose
            steps = max(worker_report.turns - workload.warmup, 1)
            workload = workload.model_copy(update={"steps": steps})
        try:
            processes, notes = measure_captures(
                workload, self.context, outcome.captures, ranks, on_tick=on_tick
            )
        except StepsNotFound as missing:
            if workload.form != "command":
                raise
            raise without_steps(missing, end) from missing
        took_steps = [one.pid for one in processes]
        code = self._code(took_steps if worker_report is None else [worker_report.pid])
        keep_exports(outcome.captures, self.folder)
        run = Run(
            started_at=self.started_at,
            wall_s=outcome.wall_s,
            processes=processes,
            conditions=conditions,
            form=self.form,
            needs=None if worker_report is None else worker_report.needs,
            begins=None if self.blocks is None else self.blocks.begins,
            folder=self.folder.name,
            notes=(
                *notes,
                *(() if busy is None else (note("busy-before", Severity.INVALID, why=busy),)),
            ),
        )
        return Measured(
            run=run,
            worker_report=worker_report,
            code=code,
            withheld=self.spec.withheld,
            environment=self._tuning(took_steps),
            import_logs=self.import_logs,
        )

    def _tuning(self, took_steps: Sequence[int]) -> Mapping[str, str] | None:
        """Of a command what the first of the measured processes was started with, which may have
        set it itself."""
        if self.blocks is not None:
            return None  # both sides were given what they share a core with
        places = (str(self.context.root.absolute()), str(self.folder.absolute()))
        if self.workload.form != "command":
            return tuning(self.spec.env, places=places)
        seen = self.ranks.tuning
        return next((tuning(seen[pid], places=places) for pid in took_steps if pid in seen), None)


@contextmanager
def ordered(
    context: RunContext,
    workload: Workload,
    folder: Path,
    *,
    run_id: str,
    form: Form = Form.ALONE,
    blocks: Blocks | None = None,
    standby: Standby | None = None,
) -> Iterator[OneRun]:
    """Make the folder of one run with its order, and leave in it only what is to be kept.

    `form` is what the run is noted as; one that is EARLY or LATE is held, and may be made by a
    worker that is started already.

    Raises:
        StoreFailed: the folder cannot be made.
        RevisionMissing: the commit that it is of did not have the workload yet.
        WorktreeFailed: that commit declares it in a way that cannot be compared.
    """
    tree = context.tree
    if tree is not None:
        workload = workload_there(declared_there(workload, tree, context.settings), tree)
    hold = None
    if form in (Form.EARLY, Form.LATE):
        own, other = (str(folder / name) for name in FIFOS)
        hold = Hold(is_early=form is Form.EARLY, own=own, other=other)
    order = Order(
        workload=workload.id,
        steps=workload.steps,
        warmup=workload.warmup,
        root=str(context.root),
        worker_report=str(folder / WORKER_REPORT),
        blocks=blocks,
        hold=hold,
    )
    ready = None
    if standby is not None and hold is not None and blocks is None:
        ready = standby.take(context, workload, folder)
    if ready is not None:
        spec, profiled = ready.spec, ready.profiled
    else:
        make_folder(folder)
        spec = start_of(
            context,
            workload,
            folder,
            run_id=run_id,
            shares_core=blocks is not None,
            is_held=hold is not None,
        )
        profiled = partial(profile, context.tool, spec)
    write_order(folder, order)
    with underway(folder):
        try:
            yield OneRun(
                context=context,
                workload=workload,
                folder=folder,
                spec=spec,
                profiled=profiled,
                blocks=blocks,
                hold=hold,
                form=form if blocks is None else Form.BLOCK,
                ranks=RankWatch(run_id.rpartition(":")[2]),
                started_at=datetime.now(UTC),
            )
        finally:
            clear(folder, keep_captures=context.keep_captures)
