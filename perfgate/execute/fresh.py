"""Fresh runs of this machine: of a candidate alone, and in pairs with another commit.

```
Laboratory      of one gate: the machine, nsys, commits that are checked out
  lab(...)      of one workload: its runs, one after the other, each on an idle GPU
```
Recorded and prepared runs come from a `Laboratory` that overrides `look`, `busy`, `make` and
`make_pair`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

from perfgate.execute.context import RunContext, at_commit
from perfgate.execute.lab import (
    NOT_MEASURED_BY,
    SHOWN_SHA,
    Against,
    Invocation,
    Listener,
    Pair,
    blessed_at,
)
from perfgate.execute.pair import ReferenceFailed, Side, measure_pair
from perfgate.execute.provenance import is_as_blessed, prove_apart
from perfgate.execute.run import Measured, measure_run, outlasting_crashes
from perfgate.execute.side_environment import declared_there
from perfgate.machine import read_machine, wait_until_idle
from perfgate.model.baseline import Baseline, code_digest
from perfgate.model.errors import CodeUnproven, PerfgateError, WorkloadFailed, WorktreeFailed
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.sample import Form, Run
from perfgate.model.settings import ABForm
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.tool import NsysTool, find_nsys
from perfgate.system import git

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


T = TypeVar("T")


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
        # By commit. What failed once is not tried again for the next workload.
        self._checkouts: dict[str, RunContext | PerfgateError] = {}
        self._commits: dict[str, str | PerfgateError] = {}
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
        return _remembered(self._commits, against.commit, lambda: self._find(against))

    def checkout(self, commit: str) -> RunContext:
        """What runs of another commit share, which is checked out once in a gate.

        Raises:
            PerfgateError: as `at_commit` does.
        """
        return _remembered(self._checkouts, commit, lambda: self._check_out(commit))

    def close(self) -> None:
        """Take away what was checked out."""
        self._checkouts.clear()
        self._held.close()

    def _find(self, against: Against) -> str:
        sha = against.commit
        found = git.obtain(
            self.asked.root,
            sha,
            tree=against.tree,
            baselines=self.asked.settings.baselines,
            env=self.asked.worker_env,
        )
        if found != sha:
            shown = found[:SHOWN_SHA]
            self.listener.say(f"  {sha[:SHOWN_SHA]} is gone: {shown} has the same files")
        return found

    def _check_out(self, commit: str) -> RunContext:
        self.listener.say(f"  checking out {commit[:SHOWN_SHA]} next to the project")
        made = at_commit(
            self.context,
            commit,
            on_line=lambda line: self.listener.say(f"  ab_setup: {line}"),
            time_left_s=self._time_left_s(),
        )
        return self._held.enter_context(made)


def _remembered(known: dict[str, T | PerfgateError], key: str, make: Callable[[], T]) -> T:
    """What was made under a key, or the error that making it has raised."""
    if key not in known:
        try:
            known[key] = make()
        except PerfgateError as failed:
            known[key] = failed
    found = known[key]
    if isinstance(found, PerfgateError):
        raise found
    return found


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
        self, of: Laboratory, workload: Workload, folder: Path, *, baseline: Baseline | None
    ) -> None:
        self._of = of
        self._workload = workload
        self._folder = folder
        self._baseline = baseline
        self._against = of.asked.against
        self._folders = self._taken = 0
        self._pairs = dict.fromkeys(Form, 0)
        self._step_ms: float | None = None
        self._last: Measured | None = None
        """The candidate's last run."""
        self.environment: Mapping[str, str] | None = None
        """Variables that may change how fast the candidate is, of the first run that showed them.
        """

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the worker really loaded."""
        machine = self._of.context.machine
        report = None if self._last is None else self._last.worker_report
        if report is None:
            return machine
        loaded = {"torch": report.torch, "cuda": report.cuda or machine.cuda, "nvtx": report.nvtx}
        return machine.model_copy(update=loaded)

    @property
    def code(self) -> Mapping[str, str]:
        """SHA-256 by path of the files that the candidate's last run was of."""
        return {} if self._last is None else self._last.code

    @property
    def withheld(self) -> tuple[str, ...]:
        """Names of the variables that it did not get."""
        return () if self._last is None else self._last.withheld

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
                there, run = self._in_blocks(index, f"{title}, in blocks")
            else:
                there, run = self._in_turn(index, title, form)
            self._hold_apart(there)
            yield Pair(
                reference=there.run, candidate=run, cores=(_cores(there), _cores(self._last))
            )

    # Runs of either side

    def _candidate(self, title: str, form: Form) -> Run:
        self._folders += 1
        made = self._make(self._of.context, f"run-{self._folders}", title, form)
        run = self._take(made)
        self._step_ms = run.value(Metric.STEP_MS)
        return run

    def _take(self, made: Measured) -> Run:
        """Take in a run of the candidate."""
        run, before = made.run, self._last
        if before is not None and made.code != before.code:
            changed = note("code-changed", Severity.INVALID)
            run = run.model_copy(update={"notes": (*run.notes, changed)})
        self._taken += 1
        self._last = made
        if self.environment is None:
            self.environment = made.environment
        return run

    def _reference(self, folder: str, title: str, form: Form) -> Measured:
        self._refuse_other_command()
        try:
            made = self._make(self._other.context, folder, f"{title}, {self._other.shown}", form)
        except NOT_MEASURED_BY as failed:
            raise self._failed_there(failed) from failed
        return self._as_blessed(made)

    def _make(self, context: RunContext, folder: str, title: str, form: Form) -> Measured:
        """Make one run on an idle GPU and report it."""
        busy, listener = self._of.busy(), self._of.listener
        with listener.run(title):
            made = outlasting_crashes(
                lambda fresh: self._of.make(context, self._workload, fresh(self._folder / folder)),
                on_crash=listener.crashed,
            )
        made = _noting(made, busy, form)
        listener.done(title, made.run)
        return made

    # Both sides

    def _in_turn(self, index: int, title: str, form: Form) -> tuple[Measured, Run]:
        """One run after the other: the candidate first in every second pair, so that drift hits
        both."""
        folder = "reference-alone" if form is Form.ALONE else f"reference-{index + 1}"
        if index % 2:
            candidate = self._candidate(f"{title}, candidate", form)
            return self._reference(folder, title, form), candidate
        reference = self._reference(folder, title, form)
        return reference, self._candidate(f"{title}, candidate", form)

    def _in_blocks(self, index: int, title: str) -> tuple[Measured, Run]:
        """Both at once, a few steps of each in turn."""
        other, listener = self._other, self._of.listener
        self._folders += 1
        names = (f"interleaved-reference-{index + 1}", f"run-{self._folders}")
        busy = self._of.busy()
        steps = max(steps_in_blocks(self._known_step_ms), self._workload.steps)

        def both(fresh: Callable[[Path], Path]) -> tuple[Measured, Measured]:
            there, here = (fresh(self._folder / name) for name in names)
            return self._of.make_pair(
                (other.context, self._of.context),
                self._workload,
                (there, here),
                begins="candidate" if index % 2 else "reference",
                steps=steps,
            )

        try:
            with listener.run(title):
                made = outlasting_crashes(both, on_crash=listener.crashed)
        except ReferenceFailed as failed:
            why = self._failed_in_blocks(failed.error, steps)
            raise self._failed_there(why) from failed.error
        except WorkloadFailed as failed:
            raise self._failed_in_blocks(failed, steps) from failed
        there, here = (_noting(one, busy, Form.BLOCK) for one in made)
        reference, run = self._as_blessed(there), self._take(here)
        listener.done(f"{title}, {other.shown}", reference.run)
        listener.done(f"{title}, candidate", run)
        return reference, run

    @property
    def _known_step_ms(self) -> float | None:
        blessed = () if self._baseline is None else self._baseline.values(Metric.STEP_MS)
        return self._step_ms or (median(blessed) if blessed else None)

    def _failed_in_blocks(self, failed: PerfgateError, steps: int) -> PerfgateError:
        """A workload's failure in blocks, with what may be behind it: data for as many turns as are
        declared."""
        if not isinstance(failed, WorkloadFailed) or steps <= self._workload.steps:
            return failed
        return WorkloadFailed(
            "failed-in-blocks",
            workload=self._workload.id,
            failure=failed,
            turns=self._workload.warmup + steps,
            turns_alone=self._workload.warmup + self._workload.steps,
        )

    # Whether the other side is what it is taken for

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

    @property
    def _blessed(self) -> Baseline | None:
        """Whose code the other commit must load; None where any will do."""
        blessed = self._baseline if self._against is None else None
        return None if blessed is None or blessed.code is None else blessed

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
        if self._blessed is None or tree is None:
            return
        there = declared_there(self._workload, tree, self._of.asked.settings)
        if there.digest() != self._workload.digest():
            raise CodeUnproven(
                "command-not-as-blessed",
                workload=self._workload.id,
                commit=self._other.shown,
                file=self._workload.source,
            )

    def _as_blessed(self, made: Measured) -> Measured:
        """A run of the other commit, held to the files that were blessed."""
        blessed = self._blessed
        if blessed is None or code_digest(made.code) == blessed.code:
            return made
        # Older baselines of a command noted another set of files; that its commit was clean is
        # known.
        is_same = self._workload.form == "command"
        if blessed.code_files:
            is_same = is_as_blessed(self._other.context, made.code, blessed.code_files)
        if not is_same:
            raise CodeUnproven(
                "files-not-as-blessed", workload=self._workload.id, commit=self._other.shown
            )
        return made

    def _hold_apart(self, there: Measured) -> None:
        """Hold what the other commit's run loaded to what the candidate's did."""
        context = self._other.context
        if context.tree is not None and self._last is not None:
            prove_apart(
                self._workload,
                context.tree,
                reference=there.import_logs,
                candidate=self._last.import_logs,
                env=context.env,
            )


def steps_in_blocks(step_ms: float | None) -> int:
    """How many steps a side takes, in whole blocks and at least three of them."""
    blocks = MOST_BLOCKS if not step_ms else int(BLOCKS_S * 1000 / step_ms / BLOCK_STEPS)
    return BLOCK_STEPS * min(max(blocks, 3), MOST_BLOCKS)


def _cores(made: Measured | None) -> float | None:
    """CPU cores that a run's steps kept busy."""
    return None if made is None or made.worker_report is None else made.worker_report.cores


def _noting(made: Measured, busy: Note | None, form: Form) -> Measured:
    """The run with its form, and with what kept the GPU busy before it."""
    notes = made.run.notes
    if busy is not None:
        notes = (*notes, note("busy-before", Severity.INVALID, why=busy))
    run = made.run.model_copy(update={"notes": notes, "form": form})
    return replace(made, run=run)
