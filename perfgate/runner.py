"""One run of one workload, from the command to its sample: profile, read, measure, scrub. Judges nothing."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import sysconfig
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar, assert_never
from uuid import uuid4

from perfgate import git
from perfgate.duet.copies import executed_code, hold_to_project, project_code
from perfgate.duet.environment import (
    PACKAGE,
    check_there,
    declared_there,
    environment_there,
    interpreter,
    missing_there,
    options_there,
    pin,
    workload_there,
)
from perfgate.duet.proof import Witness, prove_command, prove_measured, prove_worker, read_witnesses
from perfgate.duet.witness import EXECUTED, FOLDER
from perfgate.duet.worktree import Worktree, worktree
from perfgate.machine import RankWatch, Sampler
from perfgate.metrics.measure import measure
from perfgate.metrics.reconcile import contradictions
from perfgate.model.errors import (
    CaptureFailed,
    ConfigInvalid,
    NsysCrashed,
    PerfgateError,
    RepositoryUnreadable,
    StepsNotFound,
    StoreFailed,
    WorkloadFailed,
    WorkloadTimedOut,
)
from perfgate.model.machine import Conditions, Machine
from perfgate.model.metric import Metric
from perfgate.model.order import RUN_COOKIE, Account, Bouts, Ending, Order
from perfgate.model.reports import Reports
from perfgate.model.sample import ProcessSample, Run
from perfgate.model.settings import Settings
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload
from perfgate.nsys.environment import withhold_secrets, without_profiler
from perfgate.nsys.export.scrub import scrub
from perfgate.nsys.export.timeline import read_timeline
from perfgate.nsys.output import signal_name
from perfgate.nsys.profile import Captured, ProfileOutcome, ProfileSpec, profile, run_reports
from perfgate.nsys.tool import NsysTool
from perfgate.process import run_process

ACCOUNT, FIFO, WITNESSES = "account.json", "turn", "witnesses"
"""In the folder of a run, besides what the workload and nsys write: what its processes tell, and in a pair its turn."""

UNWANTED_IN_WORKERS = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "COVERAGE_PROCESS_START")
"""Variables of the pytest around a gate that would change the pytest inside a worker."""

ONE_THREAD: Final[Mapping[str, str]] = {"OMP_NUM_THREADS": "1"}
"""For the sides of a pair that share a core, where the user has set nothing: they go there when all is loaded, and what
counts its threads at its start (torch, MKL and OpenBLAS, by this variable) must not count the cores of before."""

TRIES: Final = 3
"""How often a run is tried in which nsys itself breaks down.

On a busy machine it does so now and then, in one way or another.
"""

NOT_THERE = re.compile(r"^ERROR: (?:not found|file or directory not found): ", re.MULTILINE)
"""What pytest prints where a file that it could import holds no such function or parameters."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What stays the same over all runs of a gate."""

    root: Path
    settings: Settings
    tool: NsysTool
    machine: Machine
    env: Mapping[str, str]
    python: str
    """The interpreter of the workers."""
    pytest_options: tuple[str, ...] = ()
    """What the pytest inside a worker must share with the one around the gate: configuration file, plugins."""
    keep_captures: bool = False
    tree: Worktree | None = None
    """The checkout of another commit that the runs are of; `root` lies in it then."""
    began_at: float = field(default_factory=time.time)
    """What is younger was written by the runs, or beside them."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run with what is known beside its numbers."""

    run: Run
    account: Account | None
    """None of a command: a script that perfgate does not touch tells nothing."""
    code: Mapping[str, str]
    """SHA-256 by path of the project's files that the run loaded."""
    withheld: tuple[str, ...] = ()
    """Names of the environment variables that were not passed to the workload."""
    reports: tuple[Reports, ...] = field(default=())


@contextmanager
def at_commit(bench: Bench, revision: str, *, on_line: Callable[[str], None] | None = None) -> Iterator[Bench]:
    """Lend a bench whose runs are of another commit, checked out below `.perfgate` for as long as the block lasts.

    `on_line` gets what `duet_setup` prints.

    Raises:
        RevisionMissing: the clone does not have the commit.
        RepositoryUnreadable: git does not answer.
        WorktreeFailed: it cannot be checked out or made ready to run.
    """
    with worktree(
        bench.root,
        revision,
        folder=bench.root / ".perfgate" / "worktrees",
        env=bench.env,
        run=run_process,
        setup=bench.settings.duet_setup,
        on_line=on_line,
    ) as tree:
        yield in_worktree(bench, tree)


def in_worktree(bench: Bench, tree: Worktree) -> Bench:
    """Return the bench whose runs are of a checkout's commit.

    Raises:
        WorktreeFailed: the checkout lacks the interpreter that `duet_python` names, or the disk is full.
    """
    pin(tree)
    python = bench.settings.duet_python
    return replace(
        bench,
        root=tree.root,
        python=bench.python if python is None else str(interpreter(tree, python)),
        pytest_options=options_there(bench.pytest_options, tree),
        tree=tree,
    )


def worker_command(
    workload: Workload, order: Path, *, python: str, pytest_options: tuple[str, ...], is_pinned: bool = False
) -> tuple[str, ...]:
    """The command line of one run: the script itself, or a pytest that runs the one function.

    `is_pinned` keeps the current folder, which may hold another perfgate, from coming before PYTHONPATH.
    """
    if workload.command is not None:
        return workload.command
    return (
        python,
        *(("-P",) if is_pinned else ()),
        "-m",
        "pytest",
        f"--perfgate-worker={order}",
        f"{workload.nodeid}",
        "--capture=no",
        # The worker's side of the plugin prints what a log needs: the workload's own lines, and a traceback.
        "-qq",
        "--no-header",
        "--no-summary",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        *pytest_options,
        "--override-ini=addopts=",
    )


def measure_run(
    bench: Bench,
    workload: Workload,
    folder: Path,
) -> Measured:
    """Run the workload once under nsys, in `folder`, and measure what it did.

    Leaves a scrubbed export of each capture and the log in `folder`; nsys's own files only under `keep_captures`.

    Raises:
        WorkloadFailed: it raised, exited, was killed, skipped itself or took the wrong number of steps.
        WorkloadTimedOut: it did not end in time.
        CaptureFailed: it ended well, and nsys left no capture.
        NsysCrashed: nsys itself broke down.
        CaptureUnreadable: nsys left something that is no capture.
        LayoutUnknown: nsys's reports or export are of a form that perfgate does not know.
        StepsNotFound: no capture of the run holds a step.
        StoreFailed: the disk did not take the run.
        RevisionMissing: the commit that the bench is of did not have the workload yet.
        WorktreeFailed: that commit declares it in a way that cannot be compared.
        CodeUnproven: it is not shown that the run was of that commit's code.
        CodeStale: it is of no commit, and loaded a copy of the project's code that is not what is in the project.
    """
    run_id = uuid4().hex
    with _ordered(bench, workload, folder, run_id=run_id) as one:
        with Sampler(bench.machine.gpus, run_id=run_id) as sampler:
            ran = one.run()
        return one.measured(ran, _conditions(bench, sampler))


Side = Literal["reference", "candidate"]
"""One of the two that a duet compares: another commit, and what is in the project now."""


class ReferenceFailed(Exception):
    """The reference's side of a pair came to nothing, by an `error` that `measure_run` would have raised for it."""

    def __init__(self, error: PerfgateError) -> None:
        self.error = error
        super().__init__(str(error))


def measure_pair(
    reference: Bench,
    candidate: Bench,
    workload: Workload,
    folders: tuple[Path, Path],
    *,
    begins: Side,
    bout_steps: int,
    steps: int,
    core: int | None,
) -> tuple[Measured, Measured]:
    """Run a decorated workload once on either bench, both at the same time and step by step in turns.

    Either process waits while the other takes its next `bout_steps` steps, so that what slows the machine slows both.

    Args:
        reference: the bench of another commit.
        candidate: that of the project.
        workload: what to run. Either side may take twice its time limit, for it waits for the other.
        folders: of the reference's run, and of the candidate's.
        begins: which side takes the first turn.
        bout_steps: measured steps of one turn, at least 2.
        steps: measured steps of each side, in place of the workload's own number.
        core: the one core that both take their steps on; None leaves them where they may run.

    Raises:
        ConfigInvalid: the workload is a command, which nobody can stop between its steps.
        NsysCrashed: nsys itself broke down, on either side.
        ReferenceFailed: the reference came to nothing in another way.
        PerfgateError: the candidate did, by what `measure_run` raises. Whichever side fails first ends the other.
    """
    if workload.form == "command":
        raise ConfigInvalid(
            subject=workload.id,
            fact="it is a command, so it cannot take turns with another commit step by step",
            expectation="Only in the loop of a decorated workload can perfgate wait between steps",
            next_step="Run the two one after the other, or write the loop as a function under @workload.",
        )
    run_id = uuid4().hex
    stretched = workload.model_copy(update={"steps": steps, "timeout_s": 2 * workload.timeout_s})

    def ordered(bench: Bench, own: Path, other: Path, *, side: Side) -> _Ordered:
        bouts = Bouts(
            steps=bout_steps,
            begins=begins == side,
            own=str(own / FIFO),
            other=str(other / FIFO),
            core=core,
            patience_s=workload.timeout_s,
        )
        return held.enter_context(_ordered(bench, stretched, own, run_id=run_id, bouts=bouts))

    with ExitStack() as held:
        try:
            of_reference = ordered(reference, *folders, side="reference")
        except PerfgateError as failed:
            raise ReferenceFailed(failed) from failed
        of_candidate = ordered(candidate, *reversed(folders), side="candidate")
        with Sampler(candidate.machine.gpus, run_id=run_id) as sampler:
            try:
                ran = _both(of_reference.run, of_candidate.run)
            except ReferenceFailed as failed:
                if isinstance(failed.error, NsysCrashed):
                    raise failed.error from failed
                raise
        conditions = _conditions(candidate, sampler)
        return _both(
            partial(of_reference.measured, ran[0], conditions), partial(of_candidate.measured, ran[1], conditions)
        )


Made = TypeVar("Made")


def outlasting_crashes(
    make: Callable[[Callable[[Path], Path]], Made], *, on_crash: Callable[[NsysCrashed], None] | None = None
) -> Made:
    """Make a run or a pair, and if nsys itself breaks down, make it again, `TRIES` times in all.

    Args:
        make: makes it, in the folder that its argument returns for the intended one: itself, then fresh ones beside.
        on_crash: told of each crash after which it is made again.

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


def _conditions(bench: Bench, sampler: Sampler) -> Conditions:
    return sampler.conditions() if bench.machine.gpus else Conditions()


@dataclass(frozen=True, kw_only=True)
class _Ran:
    """A run that has come to its end, and is still to be read."""

    started_at: datetime
    outcome: ProfileOutcome
    account: Account | None
    code: Mapping[str, str]
    """SHA-256 by path of the project's files that it loaded, or equal copies of."""
    ranks: Mapping[int, int]
    """Ranks by process id, as far as the processes' environments told them."""


@dataclass(frozen=True, kw_only=True)
class _Ordered:
    """One run whose folder and order are there."""

    bench: Bench
    workload: Workload
    """As it is run, in a checkout with the words of there."""
    folder: Path
    spec: ProfileSpec
    withheld: tuple[str, ...]
    bouts: Bouts | None

    def run(self, *, on_tick: Callable[[], None] | None = None) -> _Ran:
        """Profile it, and refuse what did not end well, or is not of its commit or of what is in the project.

        Raises:
            _Abandoned: the other side of the duet is to blame.
        """
        started_at, bench, workload = datetime.now(UTC), self.bench, self.workload
        watch = RankWatch(self.spec.env[RUN_COOKIE].rpartition(":")[2])

        def tick() -> None:
            if workload.form == "command":  # a decorated workload is one process
                watch.look()
            if on_tick is not None:
                on_tick()

        outcome = profile(bench.tool, self.spec, on_tick=tick)
        log = _keep_log(outcome.log, self.folder)
        account = self.account
        try:
            self.refuse_failed(outcome, log)
        except WorkloadFailed as failed:
            if account is not None and account.ending is Ending.ABANDONED:
                raise _Abandoned(failed) from failed
            raise
        if not outcome.captures:
            raise (CaptureFailed if outcome.crash is None else NsysCrashed)(
                subject=workload.id,
                fact=_problem(outcome, log),
                next_step=f"See {log}, and run: perfgate doctor" if log.is_file() else "Run: perfgate doctor",
            )
        code = self.proven_code()
        return _Ran(started_at=started_at, outcome=outcome, account=account, code=code, ranks=watch.ranks)

    @property
    def account(self) -> Account | None:
        """What the worker has told of itself by now."""
        return _read_account(self.folder / ACCOUNT)

    def refuse_failed(self, outcome: ProfileOutcome, log: Path) -> None:
        """Refuse a workload that did not end well, or that its commit does not have."""
        account = self.account
        if self.bench.tree is not None:
            _check_existed(self.workload, self.bench.tree, outcome, account, log)
        _check_workload(self.workload, outcome, account, log)

    def proven_code(self) -> dict[str, str]:
        """SHA-256 by path of the files that it loaded; refuses a run that was not of the code it was to be of.

        Raises:
            CodeUnproven: it was to be of a commit, which is not shown.
            CodeStale: it was to be of what is in the project, and loaded a copy that is another.
        """
        bench, workload, account = self.bench, self.workload, self.account
        witnesses = read_witnesses(self.folder / WITNESSES)
        copied: Mapping[str, str] = {}
        loaded: Collection[Path] = ()
        if bench.tree is not None:
            _prove(workload, bench.tree, witnesses, account)
        else:
            copied = hold_to_project(workload, bench.root, witnesses, env=bench.env)
            loaded = project_code(bench.root, witnesses, env=bench.env) if account is None else ()
        if account is None:
            return dict(sorted({**copied, **command_code(workload, bench.root, loaded, bench.began_at)}.items()))
        own = [witness for witness in witnesses if witness.pid == account.pid]
        executed = {file for witness in own for file in executed_code(bench.root, witness, env=bench.env)}
        return dict(sorted({**copied, **_digests(executed, bench.root), **account.code}.items()))

    def measured(self, ran: _Ran, conditions: Conditions, *, on_tick: Callable[[], None] | None = None) -> Measured:
        """Read its captures, and keep of them what may leave the machine.

        Raises:
            CodeUnproven: it was to be of a commit, which is not shown of the process that took its steps.
        """
        bench, workload, raw = self.bench, self.workload, self.spec.folder
        captures, account = ran.outcome.captures, ran.account
        of_captures = [_measure_capture(workload, bench.tool, captured, raw, on_tick) for captured in captures]
        processes = with_ranks([process for one in of_captures for process in one.processes], ran.ranks)
        if not processes:
            missing = next(one.missing for one in of_captures if one.missing is not None)
            raise StepsNotFound(
                subject=workload.id,
                fact=missing.fact,
                expectation=missing.expectation,
                next_step=missing.next_step,
            )
        if bench.tree is not None and workload.form == "command":
            witnesses = read_witnesses(self.folder / WITNESSES)
            prove_measured(workload, bench.tree, witnesses, measured=[process.pid for process in processes])
        _keep_exports(captures, raw, self.folder)
        run = Run(
            started_at=ran.started_at,
            wall_s=ran.outcome.wall_s,
            processes=processes,
            conditions=conditions,
            begins=None if self.bouts is None else self.bouts.begins,
            folder=self.folder.name,
            remarks=(
                *dict.fromkeys(remark for process in processes for remark in process.remarks),
                *_off_its_core(self.bouts, account),
            ),
            complaints=(
                *_steps_lost(workload, processes),
                *_gpu_unseen(bench.machine, processes),
                *dict.fromkeys(complaint for process in processes for complaint in process.complaints),
                *(complaint for one in of_captures for complaint in one.complaints),
            ),
        )
        return Measured(
            run=run,
            account=account,
            code=ran.code,
            withheld=self.withheld,
            reports=tuple(one.reports for one in of_captures),
        )


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One run for another tool than nsys to start: the same command, environment and folder as a measured one's."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    timeout_s: float
    capture: CaptureMode | CaptureWindow
    log: Path
    """Where what the workload prints is to go."""
    _one: _Ordered

    @property
    def account(self) -> Account | None:
        """What the worker has told of itself; None of a command, and of one that was killed."""
        return self._one.account

    def refuse(self, *, exit_status: int | None, timed_out: bool, wall_s: float, tail: Sequence[str]) -> None:
        """Refuse a run that did not end well, or is not of its commit or of what is in the project.

        `exit_status` is the workload's own, below zero where a signal ended it, and None where it is not known.

        Raises:
            WorkloadFailed: it raised, exited, was killed, skipped itself or took the wrong number of steps.
            WorkloadTimedOut: it did not end in time.
            RevisionMissing: the commit that the bench is of did not have the workload yet.
            CodeUnproven: it is not shown that the run was of that commit's code.
            CodeStale: it loaded a copy of the project's code that is not what is in the project.
        """
        killed = exit_status is not None and exit_status < 0
        outcome = ProfileOutcome(
            captures=(),
            exit_status=exit_status,
            signal=signal_name(-exit_status) if exit_status is not None and killed else None,
            timed_out=timed_out,
            wall_s=wall_s,
            tail=tuple(tail),
            log=self.log,
            problem=None,
        )
        self._one.refuse_failed(outcome, self.log)
        self._one.proven_code()


@contextmanager
def prepared(bench: Bench, workload: Workload, folder: Path) -> Iterator[Prepared]:
    """Make the folder of a run that another tool than nsys is to start; nothing of it can be judged or blessed.

    Raises:
        RevisionMissing: the commit that the bench is of does not have the workload.
        StoreFailed: the folder cannot be made.
    """
    with _ordered(bench, workload, folder, run_id=uuid4().hex) as one:
        yield Prepared(
            argv=one.spec.argv,
            cwd=one.spec.cwd,
            env=without_profiler(one.spec.env),
            timeout_s=one.spec.timeout_s,
            capture=one.spec.capture,
            log=folder / "workload.log",
            _one=one,
        )


def with_ranks(processes: Sequence[ProcessSample], ranks: Mapping[int, int]) -> tuple[ProcessSample, ...]:
    """The processes with their ranks, in that order; as they are where not each of several has one of its own."""
    known = {ranks[process.pid] for process in processes if process.pid in ranks}
    if len(processes) < 2 or len(known) < len(processes):
        return tuple(processes)
    ranked = [process.model_copy(update={"rank": ranks[process.pid]}) for process in processes]
    return tuple(sorted(ranked, key=lambda process: ranks[process.pid]))


@contextmanager
def _ordered(
    bench: Bench, workload: Workload, folder: Path, *, run_id: str, bouts: Bouts | None = None
) -> Iterator[_Ordered]:
    """Make the folder of one run with its order, and leave in it only what is to be kept."""
    raw, witnesses, order_file = folder / "nsys", folder / WITNESSES, folder / "order.json"
    if bench.tree is not None:
        workload = declared_there(workload, bench.tree, bench.settings)
    given = _as_activated(bench, workload)
    if bench.tree is not None:
        check_there(workload, bench.tree, bench.env)
        given = _environment_there(bench, bench.tree, workload, given, witnesses)
        workload = workload_there(workload, bench.tree)
    else:
        given = _watched(workload, given, witnesses.absolute())
    order = _order(workload, bench.root, folder / ACCOUNT, bouts).model_copy(
        update={
            "vendored": _vendored(workload, bench),
            "witnesses": None if bench.tree is not None else str(witnesses),
        }
    )
    _prepare(folder, order_file, order)
    env, withheld = withhold_secrets(given, (*bench.settings.pass_env, *workload.pass_env))
    cwd = bench.root / (workload.cwd or ".")
    spec = ProfileSpec(
        argv=worker_command(
            workload,
            order_file,
            python=bench.python,
            pytest_options=bench.pytest_options,
            is_pinned=bench.tree is not None,
        ),
        folder=raw,
        cwd=cwd,
        env={
            **(ONE_THREAD if bouts is not None and bouts.core is not None else {}),
            **{name: value for name, value in env.items() if name not in UNWANTED_IN_WORKERS},
            # Behind what this gate itself was marked with: whoever started it can end all of it.
            RUN_COOKIE: f"{env[RUN_COOKIE]}:{run_id}" if env.get(RUN_COOKIE) else run_id,
            # As a shell would have it: this gate's own is another folder, in a duet the project's.
            "PWD": str(cwd.absolute()),
        },
        timeout_s=workload.timeout_s,
        capture=_window(workload, bench.machine),
        trace_osrt=bench.settings.trace_osrt,
        graph_trace=bench.settings.cuda_graph_trace,
    )
    try:
        yield _Ordered(bench=bench, workload=workload, folder=folder, spec=spec, withheld=withheld, bouts=bouts)
    finally:
        (folder / FIFO).unlink(missing_ok=True)
        # What nsys wrote holds every variable of the workload's environment.
        if not bench.keep_captures:
            shutil.rmtree(raw, ignore_errors=True)
            shutil.rmtree(witnesses, ignore_errors=True)


def _as_activated(bench: Bench, workload: Workload) -> Mapping[str, str]:
    """The environment of a run; a command finds what the environment of the gate's interpreter holds, also `python`.

    So does one that was started as `.venv/bin/pytest`, without the environment being activated. A PATH of the
    workload's own is left as it is.
    """
    given = {**bench.env, **workload.env}
    if workload.form == "command" and "PATH" not in workload.env:
        given["PATH"] = os.pathsep.join((str(Path(bench.python).parent), given.get("PATH", os.defpath)))
    return given


T = TypeVar("T")
Ticking = Callable[..., T]
"""Does one side's part of a pair, and calls its keyword argument `on_tick` at least every 0.1 s meanwhile."""


class _CalledOff(Exception):
    """The other side of the pair has failed, so this one is of no use."""


class _Abandoned(Exception):
    """The other side ended first: it has not failed yet, as far as is known here, but will."""

    def __init__(self, error: WorkloadFailed) -> None:
        self.error = error
        super().__init__(str(error))


def _both(reference: Ticking[T], candidate: Ticking[T]) -> tuple[T, T]:
    """Do both at once, and as soon as one fails, or Ctrl-C comes, call the other off.

    The candidate's part is done in this thread, where a KeyboardInterrupt arrives if it is the main one.

    Raises:
        ReferenceFailed: by the first failure, if that was the reference's.
    """
    is_over = threading.Event()

    def tick() -> None:
        if is_over.is_set():
            raise _CalledOff

    def attempt(part: Ticking[T]) -> T | PerfgateError | _Abandoned | _CalledOff:
        try:
            return part(on_tick=tick)
        except (_Abandoned, _CalledOff) as blameless:
            return blameless
        except BaseException as failed:
            is_over.set()
            if isinstance(failed, PerfgateError):
                return failed
            raise

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="perfgate-reference") as pool:
        try:
            beside = pool.submit(attempt, reference)
            ours = attempt(candidate)
            theirs = beside.result()
        except BaseException:
            is_over.set()
            raise
    if isinstance(ours, PerfgateError):
        raise ours
    if isinstance(theirs, PerfgateError):
        raise ReferenceFailed(theirs) from theirs
    # Each says of the other that it ended first, or no other failed: there is no more to be known.
    if isinstance(ours, _Abandoned):
        raise ours.error
    if isinstance(theirs, _Abandoned):
        raise ReferenceFailed(theirs.error) from theirs.error
    assert not isinstance(ours, _CalledOff)
    assert not isinstance(theirs, _CalledOff)
    return theirs, ours


@dataclass(frozen=True, kw_only=True)
class _OfCapture:
    processes: tuple[ProcessSample, ...]
    missing: StepsNotFound | None
    complaints: tuple[str, ...]
    reports: Reports


def _measure_capture(
    workload: Workload, tool: NsysTool, captured: Captured, raw: Path, on_tick: Callable[[], None] | None
) -> _OfCapture:
    timeline = read_timeline(captured.sqlite)
    reports = run_reports(tool, captured.sqlite, _reports_folder(raw, captured), on_tick=on_tick)
    missing: StepsNotFound | None = None
    processes: tuple[ProcessSample, ...] = ()
    try:
        processes = measure(
            timeline,
            step=workload.step,
            is_pattern=workload.form == "command",
            warmup=workload.warmup if workload.skips_warmup else 0,
            steps=workload.steps,
        )
    except StepsNotFound as absent:
        missing = absent
    share = _share_of_h2d(reports)
    return _OfCapture(
        processes=tuple(process.model_copy(update={"memory_share_h2d": share}) for process in processes),
        missing=missing,
        complaints=contradictions(timeline, reports),
        reports=reports,
    )


def _share_of_h2d(reports: Reports) -> float | None:
    """Host-to-device's share of all memory operations' time, from nsys's own column and row."""
    rows = reports.cuda_gpu_mem_time_sum
    if not rows:
        return None
    return sum(row.time_percent for row in rows if row.operation == "CUDA memcpy Host-to-Device") / 100


def command_code(
    workload: Workload, root: Path, loaded: Collection[Path] = (), began_at: float = math.inf
) -> dict[str, str]:
    """SHA-256 by path of a command's code: files among its words, and the Python files that the repository tracks.

    Others that it `loaded` may be generated, and differ from run to run. Outside a repository nobody says which files
    are the project's, and only those among the words are told, and what was loaded and is older than the runs.
    """
    base = root / (workload.cwd or ".")
    named = [base / word for word in workload.command or ()]
    files = {path.resolve() for path in named if _is_file(path)}
    try:
        files |= {(root / path).resolve() for path in git.tracked_python_files(root)}
    except RepositoryUnreadable:
        files |= {path for path in loaded if path.is_file() and path.stat().st_mtime <= began_at}
    return _digests(files, root)


def _digests(files: Collection[Path], root: Path) -> dict[str, str]:
    """SHA-256 by path of those of some files that lie below the root."""
    return {
        path.relative_to(root.resolve()).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(files)
        if path.is_relative_to(root.resolve()) and path.is_file()
    }


def _is_file(path: Path) -> bool:
    """Whether there is such a file; words of a command may be too long to be a file's name."""
    try:
        return path.is_file()
    except OSError:
        return False


def code_now(paths: Mapping[str, str], root: Path) -> dict[str, str]:
    """SHA-256 by path of the same files as they are now; a file that is gone is left out."""
    return {path: hashlib.sha256((root / path).read_bytes()).hexdigest() for path in paths if (root / path).is_file()}


def _environment_there(
    bench: Bench, tree: Worktree, workload: Workload, env: Mapping[str, str], witnesses: Path
) -> dict[str, str]:
    own = bench.settings.duet_python is not None
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return environment_there(
        env,
        tree,
        workload=workload,
        witnesses=witnesses,
        python=Path(bench.python) if own else None,
        site_packages=() if own else tuple(map(Path, sorted(here))),
    )


def _check_existed(
    workload: Workload, tree: Worktree, outcome: ProfileOutcome, account: Account | None, log: Path
) -> None:
    """Tell a function or parameters that are younger than the commit from a workload that fails there."""
    if workload.form == "command" or account is not None or not outcome.exit_status:
        return
    with suppress(OSError):
        if NOT_THERE.search(log.read_text(encoding="utf-8", errors="replace")):
            raise missing_there(workload, tree, f"{workload.source} holds no {workload.id}")


def _watched(workload: Workload, env: Mapping[str, str], witnesses: Path) -> dict[str, str]:
    """The environment of a run in the project, in which its Python processes say at their end what they loaded.

    Of a command all that git tracks is its code; of a decorated workload, what it loads and executes.
    """
    inherited = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
    told = {**env, "PYTHONPATH": os.pathsep.join((str(witnesses), *inherited)), FOLDER: str(witnesses)}
    return told if workload.form == "command" else {**told, EXECUTED: "1"}


def _prove(workload: Workload, tree: Worktree, witnesses: tuple[Witness, ...], account: Account | None) -> None:
    if workload.form == "command":
        prove_command(workload, tree, witnesses)
    elif account is not None:
        prove_worker(workload, tree, witnesses, pid=account.pid, code=account.code)


def _vendored(workload: Workload, bench: Bench) -> tuple[str, ...]:
    """What a worker cannot know of a project's files, for it does not ask git."""
    if workload.form != "command":
        with suppress(RepositoryUnreadable):
            return tuple(sorted(folder.as_posix() for folder in git.vendored(bench.root, env=bench.env)))
    return ()


def _order(workload: Workload, root: Path, account: Path, bouts: Bouts | None = None) -> Order:
    return Order(
        workload=workload.id,
        steps=workload.steps,
        warmup=workload.warmup,
        root=str(root),
        account=str(account),
        bouts=bouts,
    )


def _prepare(folder: Path, order_file: Path, order: Order) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=False)
        order_file.write_text(order.model_dump_json(indent=2), encoding="utf-8")
        if order.witnesses is not None:
            Path(order.witnesses).mkdir()
            shutil.copyfile(PACKAGE / "duet" / "witness.py", Path(order.witnesses) / "sitecustomize.py")
        if order.bouts is not None:
            os.mkfifo(order.bouts.own)
    except OSError as refused:
        raise StoreFailed(
            subject=str(folder),
            fact=f"the run's folder cannot be written ({refused.strerror or refused})",
            next_step="Make room or correct the permissions, and run again.",
        ) from refused


def _window(workload: Workload, machine: Machine) -> CaptureMode | CaptureWindow:
    """Without a GPU nobody can call the CUDA profiler API: the window is then found by the steps' name."""
    if workload.capture is CaptureMode.CUDA_PROFILER_API and not machine.gpus:
        return CaptureMode.ALL
    return workload.capture


def _read_account(file: Path) -> Account | None:
    try:
        return Account.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        # A worker that was killed leaves none, or half of one: both say the same.
        return None


def _check_workload(workload: Workload, outcome: ProfileOutcome, account: Account | None, log: Path) -> None:
    shown = _tail(outcome)
    if outcome.disk_was_full and outcome.timed_out:
        # Its time was up because of that: raising the limit is no advice.
        raise CaptureFailed(
            subject=workload.id,
            fact=_problem(outcome, log),
            next_step=f"Free some space, and run again. See {log}.{shown}",
        )
    if outcome.nsys_hung:
        raise WorkloadTimedOut(
            subject=workload.id,
            fact=f"nsys did not end within {workload.timeout_s:g} s, though the workload had ended, and was stopped",
            next_step="Run it again, for nsys hangs now and then on a busy machine. For a capture that takes it so "
            f"long, measure fewer steps or raise timeout_s. See {log}.{shown}",
        )
    if outcome.timed_out:
        raise WorkloadTimedOut(
            subject=workload.id,
            fact=f"it did not end within {workload.timeout_s:g} s and was stopped",
            next_step=f"See {log}, or raise timeout_s if it needs longer.{shown}",
        )
    failure = _command_failure(outcome) if workload.form == "command" else _worker_failure(outcome, account)
    if failure is not None:
        raise WorkloadFailed(subject=workload.id, fact=failure, next_step=f"See {log}.{shown}")


def _command_failure(outcome: ProfileOutcome) -> str | None:
    if outcome.signal is not None:
        return f"its command was killed by {outcome.signal}"
    if outcome.exit_status:
        return f"its command ended with exit status {outcome.exit_status}"
    return None


def _worker_failure(outcome: ProfileOutcome, account: Account | None) -> str | None:
    if account is None and outcome.exit_status is None and not outcome.captures:
        return None  # nsys never started it, or died: that is the capture's failure, and has its own words
    if account is None:
        how = f"killed by {outcome.signal}" if outcome.signal else f"gone with exit status {outcome.exit_status}"
        return f"its process was {how} before the workload came to its end"
    match account.ending:
        case Ending.FINISHED if outcome.signal is not None:
            return f"its loop came to its end, and then its process was killed by {outcome.signal}"
        case Ending.FINISHED if outcome.exit_status:
            return f"its loop came to its end, and then its process failed with exit status {outcome.exit_status}"
        case Ending.FINISHED:
            return None
        case Ending.RAISED:
            return f"it raised {_first_line(account.message)}"
        case Ending.EXITED:
            return f"{account.message} (exit status {account.exit_status})"
        case Ending.SKIPPED:
            return f"it skipped itself ({_first_line(account.message)}), so nothing was measured"
        case Ending.WRONG_STEPS | Ending.DEAF | Ending.NOT_PINNED | Ending.ABANDONED:
            return account.message.removesuffix(".")
        case _:
            assert_never(account.ending)


def _first_line(message: str) -> str:
    """What fits into a sentence of an exception's message; its traceback, in the tail, has the rest."""
    first = next((line for line in message.splitlines() if line.strip()), "")
    return first.strip().rstrip(".: ")


def _tail(outcome: ProfileOutcome) -> str:
    if not outcome.tail:
        return " It printed nothing."
    return "\nLast lines of its output:\n" + "\n".join(f"  | {line}" for line in outcome.tail)


def _steps_lost(workload: Workload, processes: tuple[ProcessSample, ...]) -> tuple[str, ...]:
    return tuple(
        f"steps were lost: process {process.pid} shows {process.steps} of {workload.steps} measured steps"
        for process in processes
        if process.steps != workload.steps
    )


def _off_its_core(bouts: Bouts | None, account: Account | None) -> tuple[str, ...]:
    """Whether the workload went away from its core: its times are as good as any, only less steady."""
    if bouts is None or bouts.core is None or account is None or account.core == bouts.core:
        return ()
    return (f"its process left core {bouts.core}, where the duet had put it",)


def _gpu_unseen(machine: Machine, processes: tuple[ProcessSample, ...]) -> tuple[str, ...]:
    """On a machine with a GPU, a capture without GPU operations shows nothing about it."""
    if not machine.gpus or any(Metric.GAP_MS in process.values for process in processes):
        return ()
    why = next((process.absent.get(Metric.KERNEL_MS) for process in processes), None)
    return (f"no GPU operation was recorded in any step ({why or 'the workload launched none'})",)


def _problem(outcome: ProfileOutcome, log: Path) -> str:
    """Why there is no capture, with the log where it now is."""
    told = (outcome.problem or "nsys left no capture").replace(str(outcome.log), str(log))
    return told.rstrip(".")


def _keep_log(log: Path, folder: Path) -> Path:
    kept = folder / "workload.log"
    with suppress(OSError):
        return Path(shutil.move(log, kept))
    return log


def _keep_exports(captures: tuple[Captured, ...], raw: Path, folder: Path) -> None:
    """Keep what may leave the machine: exports without environment blocks, and nsys's summaries."""
    for index, captured in enumerate(captures):
        try:
            scrub(captured.sqlite, folder / f"capture-{index}.sqlite")
            shutil.copytree(_reports_folder(raw, captured), folder / f"capture-{index}-reports")
        except OSError as refused:
            raise StoreFailed(
                subject=str(folder),
                fact=f"the scrubbed export cannot be written ({refused.strerror or refused})",
                next_step="Make room, and run again.",
            ) from refused


def _reports_folder(raw: Path, captured: Captured) -> Path:
    return raw / f"{captured.sqlite.stem}-reports"
