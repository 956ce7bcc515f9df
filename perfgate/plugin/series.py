"""The runs of one workload in one gate: the candidate's, and in a duet those of another commit. Judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from perfgate import running
from perfgate.duet.environment import declared_there
from perfgate.gate import NOT_MEASURED_BY, Pair
from perfgate.machine import wait_until_idle
from perfgate.model.baseline import code_digest
from perfgate.model.errors import CodeUnproven, PerfgateError, WorktreeFailed
from perfgate.model.machine import Machine
from perfgate.model.order import Account
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.plugin.progress import Progress

IDLE_PATIENCE_S: Final = 10.0
"""How long a GPU may take to become idle before a run: the driver's load figures fade within a second."""
SHOWN_SHA: Final = 12
"""Digits of a commit that are shown."""


class Series:
    """The runs of one workload in one gate, and what they say beside their numbers."""

    def __init__(self, *, bench: running.Bench, workload: Workload, folder: Path, progress: Progress) -> None:
        self.bench = bench
        self._workload = workload
        self._folder = folder
        self._progress = progress
        self._made = self._taken = 0
        self.last: Run | None = None
        """The candidate's run that was made last, alone."""
        self.code: Mapping[str, str] = {}
        self._account: Account | None = None
        self._withheld: tuple[str, ...] = ()

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the worker really loaded."""
        account, machine = self._account, self.bench.machine
        if account is None:
            return machine
        return machine.model_copy(
            update={"torch": account.torch, "cuda": account.cuda or machine.cuda, "nvtx": account.nvtx}
        )

    @property
    def cores(self) -> float | None:
        """CPU cores that the run made last kept busy, as its worker tells."""
        return None if self._account is None else self._account.cores

    def measure(self, index: int, planned: int) -> Run:
        """Make one run and tell of it."""
        return self.measure_as(f"run {index + 1} of {planned}")

    def measure_as(self, title: str) -> Run:
        """Make the next run under a title of the caller's."""
        self.last = self.take(measure(self.bench, self._workload, self.next_folder(), self._progress, title))
        return self.last

    def next_folder(self) -> Path:
        """Where the next run is to be made."""
        self._made += 1
        return self._folder / f"run-{self._made}"

    def take(self, measured: running.Measured) -> Run:
        """Take a run of the candidate's in, which may have been made beside another commit's."""
        run = measured.run
        self._taken += 1
        if self._taken > 1 and measured.code != self.code:
            run = run.model_copy(update={"complaints": (*run.complaints, "the workload's code changed meanwhile")})
        self.code, self._account, self._withheld = measured.code, measured.account, measured.withheld
        return run

    def annotated(self, verdict: Verdict) -> Verdict:
        """The verdict with what only the runs' circumstances tell."""
        if not self._withheld:
            return verdict
        told = (
            f"Not passed to the workload, for their names or values look like secrets: {', '.join(self._withheld)}. "
            "Name those it needs in pass_env."
        )
        return verdict.model_copy(update={"remarks": (*verdict.remarks, told)})


@dataclass(frozen=True, kw_only=True)
class WorktreeDuel:
    """Pairs of another commit, checked out beside the project, and the candidate: one run after the other."""

    revision: str
    commit: str
    bench: running.Bench
    """Of that commit; the candidate's is its series' own."""
    series: Series
    workload: Workload
    folder: Path
    progress: Progress
    blessed_code: str | None
    """`code_digest` that the commit must load; None where any will do."""
    _prefix: ClassVar[str] = "reference"

    def pair(self, index: int, planned: int) -> Pair:
        """Make pair `index` (from 0): the other commit first in every other pair, so that a drift hits both alike.

        Raises:
            CodeUnproven: what ran is not shown to be the commit's, or is not what was blessed.
            RevisionMissing: the commit has no such workload.
            WorktreeFailed: the workload does not run there.
        """
        title = f"pair {index + 1} of {planned}"
        if index % 2:
            candidate = self.series.measure_as(f"{title}, candidate")
            return Pair(reference=self._reference(self._reference_folder(index), title), candidate=candidate)
        reference = self._reference(self._reference_folder(index), title)
        return Pair(reference=reference, candidate=self.series.measure_as(f"{title}, candidate"))

    def alone(self) -> Pair:
        """Make one run of either side, one after the other; raises what `pair` does."""
        there = self._measured_there(self.folder / "reference-alone", "alone")
        reference = self._as_blessed(there)
        candidate = self.series.measure_as("alone, candidate")
        account = there.account
        return Pair(
            reference=reference,
            candidate=candidate,
            cores=(None if account is None else account.cores, self.series.cores),
        )

    def _reference(self, folder: Path, title: str) -> Run:
        return self._as_blessed(self._measured_there(folder, title))

    def _measured_there(self, folder: Path, title: str) -> running.Measured:
        self._refuse_other_words()
        try:
            return measure(self.bench, self.workload, folder, self.progress, f"{title}, {self._shown}")
        except NOT_MEASURED_BY as failed:
            raise self._failed_there(failed) from failed

    @property
    def _shown(self) -> str:
        return self.commit[:SHOWN_SHA]

    def _reference_folder(self, index: int) -> Path:
        """A fresh one, also where one form of the duet is tried after the other."""
        return self.folder / f"{self._prefix}-{index + 1}"

    def _failed_there(self, failed: PerfgateError) -> PerfgateError:
        """What it means for a duet that a run of the other commit came to nothing."""
        if not isinstance(failed, NOT_MEASURED_BY):
            return failed
        fact, _, more = str(failed).removeprefix(f"{self.workload.id}: ").partition("\n")
        tree = None if self.bench.settings.duet_setup else self.bench.tree  # what a setup checks out is there
        submodules = "" if tree is None else tree.submodule_advice.strip()
        return WorktreeFailed(
            subject=f"{self.workload.id} at {self._shown}",
            fact=f"it does not run there: {fact.rstrip('.')}",
            next_step="\n".join(told for told in (submodules, more) if told),
        )

    def _refuse_other_words(self) -> None:
        """Hold a command as the commit declares it to the one that was blessed: its code may be the same.

        Raises:
            CodeUnproven: its file there was blessed with uncommitted changes.
        """
        tree = self.bench.tree
        if self.blessed_code is None or tree is None:
            return
        if declared_there(self.workload, tree, self.bench.settings).digest() != self.workload.digest():
            raise CodeUnproven(
                subject=f"{self.workload.id} at {self._shown}",
                fact=f"its command or variables there ({self.workload.source}) are not those that were blessed",
                expectation="They were measured with uncommitted changes",
                next_step="Bless from a commit without changes, so that it can be run again.",
            )

    def _as_blessed(self, measured: running.Measured) -> Run:
        """A run of the other commit, held to what was blessed."""
        if self.blessed_code is not None and code_digest(measured.code) != self.blessed_code:
            raise CodeUnproven(
                subject=f"{self.workload.id} at {self._shown}",
                fact="the commit's files are not those that were blessed",
                expectation="They load others now, or git writes them here with other bytes (line ends, filters)",
                next_step="Bless from a fresh checkout, so that the commit can be run again.",
            )
        return measured.run


@dataclass(frozen=True, kw_only=True)
class InterleavedDuel(WorktreeDuel):
    """Pairs of both at once, which work in turns: for decorated workloads only."""

    bout_steps: int
    """Steps of one turn."""
    steps: int
    """Steps of either side, in place of the workload's own number."""
    core: int | None
    """The one core for both."""
    _prefix: ClassVar[str] = "interleaved-reference"

    def pair(self, index: int, planned: int) -> Pair:
        """Make pair `index` (from 0): the other commit begins in every other pair.

        Raises:
            CodeUnproven: what ran is not shown to be the commit's, or is not what was blessed.
            RevisionMissing: the commit has no such workload.
            WorktreeFailed: the workload does not run there.
            ConfigInvalid: the workload is a command.
        """
        title = f"pair {index + 1} of {planned}, interleaved"
        busy = wait_until_idle(self.bench.machine.gpus, IDLE_PATIENCE_S)
        folders = self._reference_folder(index), self.series.next_folder()

        def both(fresh: Callable[[Path], Path]) -> tuple[running.Measured, running.Measured]:
            return running.measure_pair(
                self.bench,
                self.series.bench,
                self.workload,
                (fresh(folders[0]), fresh(folders[1])),
                begins="candidate" if index % 2 else "reference",
                bout_steps=self.bout_steps,
                steps=self.steps,
                core=self.core,
            )

        try:
            with self.progress.run(title):
                reference, candidate = running.outlasting_crashes(both, on_crash=self.progress.crashed)
        except running.ReferenceFailed as failed:
            raise self._failed_there(failed.error) from failed.error
        pair = Pair(
            reference=self._as_blessed(_complaining(reference, busy)),
            candidate=self.series.take(_complaining(candidate, busy)),
        )
        self.progress.done(f"{title}, {self._shown}", pair.reference)
        self.progress.done(f"{title}, candidate", pair.candidate)
        return pair


def measure(bench: running.Bench, workload: Workload, folder: Path, progress: Progress, title: str) -> running.Measured:
    """Make one run on an idle GPU and tell of it."""
    busy = wait_until_idle(bench.machine.gpus, IDLE_PATIENCE_S)
    with progress.run(title):
        measured = running.outlasting_crashes(
            lambda fresh: running.measure_run(bench, workload, fresh(folder)), on_crash=progress.crashed
        )
    measured = _complaining(measured, busy)
    progress.done(title, measured.run)
    return measured


def _complaining(measured: running.Measured, busy: str | None) -> running.Measured:
    """The run with a complaint of what kept the GPU busy before it, if anything did."""
    if busy is None:
        return measured
    complaints = (*measured.run.complaints, f"before it started, {busy}")
    return replace(measured, run=measured.run.model_copy(update={"complaints": complaints}))
