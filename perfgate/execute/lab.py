"""Where runs come from: fresh ones of this machine here, recorded or prepared ones by the same
protocol.

```
Laboratory      of one gate: the machine, nsys, commits that are checked out
  lab(...)      of one workload: runs of the candidate, pairs of another commit and the candidate
```
Recorded and prepared runs come from a `Laboratory` that overrides `look`, `busy`, `make` and
`make_pair`, or from a `Lab` of their own.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Final, Protocol

from perfgate.execute.context import RunContext, at_commit
from perfgate.execute.pair import ReferenceFailed, Side, measure_pair
from perfgate.execute.provenance import ImportLog, is_as_blessed, prove_apart
from perfgate.execute.run import Measured, measure_run, outlasting_crashes
from perfgate.execute.side_environment import declared_there
from perfgate.machine import read_machine, wait_until_idle
from perfgate.model.baseline import Baseline, code_digest
from perfgate.model.errors import (
    CaptureFailed,
    CaptureUnreadable,
    CodeStale,
    CodeUnproven,
    GpuTaken,
    LayoutUnknown,
    MachineUnreadable,
    NsysCrashed,
    NsysNotFound,
    NsysUnsupported,
    PerfgateError,
    RepositoryUnreadable,
    RevisionMissing,
    StepsNotFound,
    StoreFailed,
    WorkloadFailed,
    WorkloadTimedOut,
    WorktreeFailed,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.order import WorkerReport
from perfgate.model.sample import Form, Run
from perfgate.model.settings import ABForm, Settings
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.tool import NsysTool, find_nsys
from perfgate.system import git

NOT_MEASURED_BY: Final = (
    CaptureFailed,
    CaptureUnreadable,
    CodeStale,
    GpuTaken,
    LayoutUnknown,
    MachineUnreadable,
    NsysCrashed,
    NsysNotFound,
    NsysUnsupported,
    StepsNotFound,
    StoreFailed,
    WorkloadFailed,
    WorkloadTimedOut,
)
"""Errors that leave a workload without a measurement; any other error is a bug and stays one."""
SIDE_MISSING_BY: Final = (CodeUnproven, RepositoryUnreadable, RevisionMissing, WorktreeFailed)
"""Errors that leave a gate without the other side of an A/B run."""

SHOWN_SHA: Final = 12
"""Digits of a commit that are shown."""
IDLE_PATIENCE_S: Final = 10.0
"""How long a GPU may take to become idle before a run: the driver's load figures fade within a
second."""
BLOCK_STEPS: Final = 10
MOST_BLOCKS: Final = 45
BLOCKS_S: Final = 4.5
"""Of a pair in blocks: steps of a block, blocks of a side at most, and seconds that they may take.

On hosts with other work nearly all that pairs differ by is noise of their blocks, of which 15 left
1.3 to 1.9 %; on a quiet one half of it is, and as much belongs to the two processes
(`benchmarks/host-noise`). A pair takes some 13 s to start and to end, and 0.1 s a block.
"""


# What a gate sees


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One run of each side of an A/B run, made one right after the other or both at once."""

    reference: Run
    candidate: Run
    cores: tuple[float | None, float | None] = (None, None)
    """CPU cores that either side's steps kept busy, where each ran alone and that is known."""


class Lab(Protocol):
    """Makes the runs of one workload in one gate; numbers of runs and pairs are of further ones."""

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the runs so far have really loaded."""

    @property
    def forms(self) -> frozenset[Form]:
        """Forms of an A/B run that may be had: pairs, blocks, or none."""

    @property
    def revision(self) -> str:
        """The other commit as it was asked for; known once a pair was made."""

    @property
    def commit(self) -> str:
        """Its SHA; likewise."""

    def runs(self, number: int) -> Iterator[Run]:
        """Make runs of the candidate; raises any of `NOT_MEASURED_BY`."""

    def pairs(self, form: Form, number: int) -> Iterator[Pair]:
        """Make pairs; raises `NOT_MEASURED_BY` for the candidate, `SIDE_MISSING_BY` for the other.

        Form.ALONE: a run of either side as it is without an A/B run, for blocks to be held against.
        """


class Listener(Protocol):
    """Hears of the runs of one workload after another, and shows them in its own way."""

    def of(self, workload: str) -> AbstractContextManager[None]:
        """Hear of one workload's runs inside the block."""

    def plan(self, stages: Sequence[Note]) -> None:
        """Hear what is to be spent on it."""

    def run(self, title: str) -> AbstractContextManager[None]:
        """Hear that a run goes on, for as long as the block lasts."""

    def crashed(self, crash: NsysCrashed) -> None:
        """Hear that nsys broke down in a run, which is made again."""

    def done(self, title: str, run: Run) -> None:
        """Hear what a run measured."""

    def say(self, line: str) -> None:
        """Hear anything else, in a line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """Another commit to compare with."""

    revision: str
    """As it was asked for."""
    commit: str
    """SHA."""
    tree: str | None = None
    """That of its files without the baselines, where it was noted."""


def blessed_at(baseline: Baseline) -> Against:
    """The commit that a baseline was measured at, the last that holds all of its code.

    Raises:
        RevisionMissing: nobody noted it, or it had uncommitted changes.
    """
    known = [occasion.commit for occasion in baseline.occasions if occasion.commit is not None]
    if not known:
        raise RevisionMissing("baseline-without-commit")
    found = next((commit for commit in reversed(known) if not commit.dirty), known[-1])
    sha = found.sha[:SHOWN_SHA]
    if found.dirty:
        raise RevisionMissing("baseline-of-uncommitted-changes", commit=sha)
    return Against(revision=f"the baseline's commit {sha}", commit=found.sha, tree=found.tree)


# Of a whole gate


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """What somebody started a gate with."""

    root: Path
    settings: Settings
    env: Mapping[str, str]
    worker_env: Mapping[str, str]
    """What the workloads' processes get, but for secrets."""
    nsys: str | None = None
    pytest_options: tuple[str, ...] = ()
    """What the pytest inside a worker must share with the one around the gate."""
    against: Against | None = None
    """The commit to compare with, in place of each baseline's."""
    keep_captures: bool = False


class Laboratory:
    """What makes the runs of one gate."""

    def __init__(
        self,
        of: Invocation,
        listener: Listener,
        *,
        time_left_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.asked = of
        self.listener = listener
        self._time_left_s = time_left_s
        self._checkouts: dict[str, RunContext | WorktreeFailed] = {}
        """By commit; no other workload has to wait for what could not be made ready."""
        self._commits: dict[str, str | RevisionMissing] = {}
        self._held = ExitStack()

    # What recorded and prepared runs override

    def look(self) -> tuple[NsysTool, Machine]:
        """Find nsys and look at the machine.

        Raises:
            PerfgateError: one of them cannot be had.
        """
        env, settings = self.asked.env, self.asked.settings
        tool = find_nsys(self.asked.nsys, env, setting=settings.nsys)
        options = trace_options(graph_trace=settings.cuda_graph_trace)
        return tool, read_machine(env, nsys=str(tool.version), nsys_options=options)

    def busy(self) -> Note | None:
        """Wait for an idle GPU, and note what keeps it busy if it does not become so."""
        return wait_until_idle(self.context.machine.gpus, IDLE_PATIENCE_S)

    def make(self, context: RunContext, workload: Workload, folder: Path) -> Measured:
        """Make one run."""
        return measure_run(context, workload, folder)

    def make_pair(
        self,
        sides: tuple[RunContext, RunContext],
        workload: Workload,
        folders: tuple[Path, Path],
        *,
        begins: Side,
        steps: int,
    ) -> tuple[Measured, Measured]:
        """Make a run of the reference and one of the candidate at once, in blocks."""
        return measure_pair(
            *sides,
            workload,
            folders,
            begins=begins,
            block_steps=BLOCK_STEPS,
            steps=steps,
            core=max(os.sched_getaffinity(0)),
        )

    # The same for all

    @cached_property
    def context(self) -> RunContext:
        """What all runs of the candidates share.

        Raises:
            PerfgateError: as `look` does.
        """
        tool, machine = self.look()
        return RunContext(
            root=self.asked.root,
            settings=self.asked.settings,
            tool=tool,
            machine=machine,
            env=self.asked.worker_env,
            python=sys.executable,
            pytest_options=self.asked.pytest_options,
            keep_captures=self.asked.keep_captures,
        )

    def lab(
        self, workload: Workload, folder: Path, *, baseline: Baseline | None = None
    ) -> FreshLab:
        """What makes the runs of one workload, and of the other commit."""
        return FreshLab(self, workload, folder, baseline=baseline)

    def found(self, against: Against) -> str:
        """The commit, or another with the same files; looked for once: a remote may take its time.

        Raises:
            RevisionMissing: there is none.
            RepositoryUnreadable: git does not answer.
        """
        sha = against.commit
        if sha not in self._commits:
            try:
                found = git.obtain(
                    self.asked.root,
                    sha,
                    tree=against.tree,
                    baselines=self.asked.settings.baselines,
                    env=self.asked.worker_env,
                )
            except RevisionMissing as missing:
                self._commits[sha] = missing
            else:
                self._commits[sha] = found
                if found != sha:
                    self.listener.say(
                        f"  {sha[:SHOWN_SHA]} is gone: {found[:SHOWN_SHA]} has the same files"
                    )
        known = self._commits[sha]
        if isinstance(known, RevisionMissing):
            raise known
        return known

    def checkout(self, commit: str) -> RunContext:
        """What runs of another commit share, which is checked out once in a gate.

        Raises:
            WorktreeFailed: it cannot be made ready.
        """
        if commit not in self._checkouts:
            self.listener.say(f"  checking out {commit[:SHOWN_SHA]} next to the project")
            made = at_commit(
                self.context,
                commit,
                on_line=lambda line: self.listener.say(f"  ab_setup: {line}"),
                time_left_s=self._time_left_s(),
            )
            try:
                self._checkouts[commit] = self._held.enter_context(made)
            except WorktreeFailed as failed:
                self._checkouts[commit] = failed
        known = self._checkouts[commit]
        if isinstance(known, WorktreeFailed):
            raise known
        return known

    def close(self) -> None:
        """Take away what was checked out."""
        self._checkouts.clear()
        self._held.close()


# Of one workload


@dataclass(frozen=True, kw_only=True)
class _Other:
    """The other commit, ready to run."""

    revision: str
    commit: str
    context: RunContext

    @property
    def shown(self) -> str:
        return self.commit[:SHOWN_SHA]


class FreshLab:
    """Makes the runs of one workload, each on an idle GPU; whoever judges reads what it returns."""

    def __init__(
        self,
        of: Laboratory,
        workload: Workload,
        folder: Path,
        *,
        baseline: Baseline | None,
    ) -> None:
        self._of = of
        self._workload = workload
        self._folder = folder
        self._baseline = baseline
        self._against = of.asked.against
        self._made = self._taken = 0
        self._pairs = dict.fromkeys(Form, 0)
        self._step_ms: float | None = None
        self._worker_report: WorkerReport | None = None
        self._import_logs: tuple[ImportLog, ...] = ()
        self.code: Mapping[str, str] = {}
        self.withheld: tuple[str, ...] = ()
        self.environment: Mapping[str, str] | None = None
        """Variables that may change how fast the candidate is, of the first run that showed them.
        """

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the worker really loaded."""
        worker_report, machine = self._worker_report, self._of.context.machine
        if worker_report is None:
            return machine
        return machine.model_copy(
            update={
                "torch": worker_report.torch,
                "cuda": worker_report.cuda or machine.cuda,
                "nvtx": worker_report.nvtx,
            }
        )

    @property
    def forms(self) -> frozenset[Form]:
        """Blocks are for the loops of decorated workloads on one GPU."""
        asked = self._of.asked.settings.ab_run
        if self._against is None and (self._baseline is None or asked is ABForm.OFF):
            return frozenset()
        in_blocks = self._workload.form == "function" and len(self._of.context.machine.gpus) <= 1
        match asked:
            case ABForm.INTERLEAVE if in_blocks:
                return frozenset({Form.BLOCK})
            case ABForm.AUTO if in_blocks:
                return frozenset({Form.PAIR, Form.BLOCK})
            case _:
                return frozenset({Form.PAIR})

    @property
    def revision(self) -> str:
        """The other commit as it was asked for."""
        return self._other.revision if self._against is None else self._against.revision

    @property
    def commit(self) -> str:
        """Its SHA."""
        return self._other.commit

    def runs(self, number: int) -> Iterator[Run]:
        """Make runs of the candidate alone, one after the other."""
        planned = self._taken + number
        for _ in range(number):
            yield self._candidate(f"run {self._taken + 1} of {planned}", Form.ALONE)

    def pairs(self, form: Form, number: int) -> Iterator[Pair]:
        """Make pairs in one form; every other one begins with the other side (ABBA)."""
        planned = self._pairs[form] + number
        for _ in range(number):
            index = self._pairs[form]
            self._pairs[form] += 1
            title = "alone" if form is Form.ALONE else f"pair {index + 1} of {planned}"
            if form is Form.BLOCK:
                pair, there = self._in_blocks(index, f"{title}, in blocks")
            else:
                pair, there = self._in_turn(index, title, form)
            self._hold_apart(there)
            yield pair

    # One side

    @cached_property
    def _other(self) -> _Other:
        against = self._against
        if against is None:
            assert self._baseline is not None  # without one there is no form
            against = blessed_at(self._baseline)
        commit = self._of.found(against)
        same = "" if commit == against.commit else f"{commit[:SHOWN_SHA]}, which has the files of "
        return _Other(
            revision=f"{same}{against.revision}", commit=commit, context=self._of.checkout(commit)
        )

    def _candidate(self, title: str, form: Form) -> Run:
        self._made += 1
        made = self._make(self._of.context, self._folder / f"run-{self._made}", title, form)
        run = self._take(made)
        self._step_ms = run.value(Metric.STEP_MS)
        return run

    def _take(self, made: Measured) -> Run:
        """Take in a run of the candidate."""
        run = made.run
        self._taken += 1
        if self._taken > 1 and made.code != self.code:
            changed = note("code-changed", Severity.INVALID)
            run = run.model_copy(update={"notes": (*run.notes, changed)})
        self.code, self._worker_report, self.withheld = made.code, made.worker_report, made.withheld
        self._import_logs = made.import_logs
        if self.environment is None:
            self.environment = made.environment
        return run

    def _reference(self, folder: str, title: str, form: Form) -> Measured:
        self._refuse_other_command()
        other = self._other
        try:
            made = self._make(other.context, self._folder / folder, f"{title}, {other.shown}", form)
        except NOT_MEASURED_BY as failed:
            raise self._failed_there(failed) from failed
        return self._as_blessed(made)

    def _make(self, context: RunContext, folder: Path, title: str, form: Form) -> Measured:
        """Make one run on an idle GPU and report it."""
        busy, listener = self._of.busy(), self._of.listener
        with listener.run(title):
            made = outlasting_crashes(
                lambda fresh: self._of.make(context, self._workload, fresh(folder)),
                on_crash=listener.crashed,
            )
        made = _with_busy(replace(made, run=made.run.model_copy(update={"form": form})), busy)
        listener.done(title, made.run)
        return made

    # Both sides

    def _in_turn(self, index: int, title: str, form: Form) -> tuple[Pair, Measured]:
        """One run after the other: the candidate first in every second pair, so that drift hits
        both."""
        folder = "reference-alone" if form is Form.ALONE else f"reference-{index + 1}"
        if index % 2:
            candidate = self._candidate(f"{title}, candidate", form)
            there = self._reference(folder, title, form)
        else:
            there = self._reference(folder, title, form)
            candidate = self._candidate(f"{title}, candidate", form)
        cores = [
            None if one is None else one.cores for one in (there.worker_report, self._worker_report)
        ]
        return Pair(reference=there.run, candidate=candidate, cores=(cores[0], cores[1])), there

    def _in_blocks(self, index: int, title: str) -> tuple[Pair, Measured]:
        """Both at once, a few steps of each in turn."""
        other, listener = self._other, self._of.listener
        self._made += 1
        folders = [f"interleaved-reference-{index + 1}", f"run-{self._made}"]
        busy, steps = (
            self._of.busy(),
            max(steps_in_blocks(self._known_step_ms), self._workload.steps),
        )

        def both(fresh: Callable[[Path], Path]) -> tuple[Measured, Measured]:
            there, here = (fresh(self._folder / name) for name in folders)
            return self._of.make_pair(
                (other.context, self._of.context),
                self._workload,
                (there, here),
                begins="candidate" if index % 2 else "reference",
                steps=steps,
            )

        try:
            with listener.run(title):
                reference, candidate = outlasting_crashes(both, on_crash=listener.crashed)
        except ReferenceFailed as failed:
            raise self._failed_there(self._in_more_turns(failed.error, steps)) from failed.error
        except WorkloadFailed as failed:
            raise self._in_more_turns(failed, steps) from failed
        there = self._as_blessed(_with_busy(reference, busy))
        pair = Pair(reference=there.run, candidate=self._take(_with_busy(candidate, busy)))
        listener.done(f"{title}, {other.shown}", pair.reference)
        listener.done(f"{title}, candidate", pair.candidate)
        return pair, there

    @property
    def _known_step_ms(self) -> float | None:
        blessed = () if self._baseline is None else self._baseline.values(Metric.STEP_MS)
        return self._step_ms or (median(blessed) if blessed else None)

    def _in_more_turns(self, failed: PerfgateError, steps: int) -> PerfgateError:
        """A workload's failure in blocks, with what may be behind it: data for as many turns as are
        declared."""
        if not isinstance(failed, WorkloadFailed) or steps <= self._workload.steps:
            return failed
        turns, alone = (self._workload.warmup + number for number in (steps, self._workload.steps))
        return WorkloadFailed(
            "failed-in-blocks",
            workload=self._workload.id,
            failure=failed,
            turns=turns,
            turns_alone=alone,
        )

    # Whether the other side is what it is taken for

    def _failed_there(self, failed: PerfgateError) -> PerfgateError:
        """What it means for an A/B run that a run of the other commit came to nothing."""
        if not isinstance(failed, NOT_MEASURED_BY):
            return failed
        return WorktreeFailed(
            "side-does-not-run",
            workload=self._workload.id,
            commit=self._other.shown,
            failure=failed,
        )

    def _refuse_other_command(self) -> None:
        """Hold a command as the commit declares it to the one that was blessed: its code may be the
        same.

        Raises:
            CodeUnproven: its file there was blessed with uncommitted changes.
        """
        tree = self._other.context.tree
        if self._blessed is None or self._blessed.code is None or tree is None:
            return
        there = declared_there(self._workload, tree, self._of.asked.settings)
        if there.digest() != self._workload.digest():
            raise CodeUnproven(
                "command-not-as-blessed",
                workload=self._workload.id,
                commit=self._other.shown,
                file=self._workload.source,
            )

    @property
    def _blessed(self) -> Baseline | None:
        """Whose code the other commit must load; None where any will do."""
        return self._baseline if self._against is None else None

    def _as_blessed(self, made: Measured) -> Measured:
        """A run of the other commit, held to what was blessed."""
        if not self._is_as_blessed(made.code):
            raise CodeUnproven(
                "files-not-as-blessed",
                workload=self._workload.id,
                commit=self._other.shown,
            )
        return made

    def _is_as_blessed(self, code: Mapping[str, str]) -> bool:
        blessed = self._blessed
        if blessed is None or blessed.code is None or code_digest(code) == blessed.code:
            return True
        if blessed.code_files:
            return is_as_blessed(self._other.context, code, blessed.code_files)
        # Older baselines of a command noted another set of files; that its commit was clean is
        # known.
        return self._workload.form == "command"

    def _hold_apart(self, there: Measured) -> None:
        """Hold what the other commit's run loaded to what the candidate's did."""
        context = self._other.context
        if context.tree is not None:
            prove_apart(
                self._workload,
                context.tree,
                reference=there.import_logs,
                candidate=self._import_logs,
                env=context.env,
            )


def steps_in_blocks(step_ms: float | None) -> int:
    """How many steps a side takes, in whole blocks and at least three of them."""
    blocks = MOST_BLOCKS if not step_ms else int(BLOCKS_S * 1000 / step_ms / BLOCK_STEPS)
    return BLOCK_STEPS * min(max(blocks, 3), MOST_BLOCKS)


def _with_busy(made: Measured, busy: Note | None) -> Measured:
    """The run with a complaint of what kept the GPU busy before it, if anything did."""
    if busy is None:
        return made
    notes = (*made.run.notes, note("busy-before", Severity.INVALID, why=busy))
    return replace(made, run=made.run.model_copy(update={"notes": notes}))
