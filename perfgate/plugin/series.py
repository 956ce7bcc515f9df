"""The runs of one workload in one gate: the candidate's, and in a duet those of another commit. Judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from perfgate import runner
from perfgate.gate import NOT_MEASURED_BY, Pair
from perfgate.machine import wait_until_idle
from perfgate.model.baseline import code_digest
from perfgate.model.errors import CodeUnproven, WorktreeFailed
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

    def __init__(self, *, bench: runner.Bench, workload: Workload, folder: Path, progress: Progress) -> None:
        self._bench = bench
        self._workload = workload
        self._folder = folder
        self._progress = progress
        self._made = 0
        self.code: Mapping[str, str] = {}
        self._account: Account | None = None
        self._withheld: tuple[str, ...] = ()

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the worker really loaded."""
        account, machine = self._account, self._bench.machine
        if account is None:
            return machine
        return machine.model_copy(
            update={"torch": account.torch, "cuda": account.cuda or machine.cuda, "nvtx": account.nvtx}
        )

    def measure(self, index: int, planned: int) -> Run:
        """Make one run and tell of it."""
        return self.measure_as(f"run {index + 1} of {planned}")

    def measure_as(self, title: str) -> Run:
        """Make the next run under a title of the caller's."""
        self._made += 1
        measured = measure(self._bench, self._workload, self._folder / f"run-{self._made}", self._progress, title)
        run = measured.run
        if self._made > 1 and measured.code != self.code:
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


class WorktreeDuel:
    """Pairs of another commit, checked out beside the project, and the candidate."""

    def __init__(
        self,
        *,
        revision: str,
        commit: str,
        bench: runner.Bench,
        series: Series,
        workload: Workload,
        folder: Path,
        progress: Progress,
        blessed_code: str | None,
    ) -> None:
        self.revision = revision
        self.commit = commit
        self._bench = bench
        self._series = series
        self._workload = workload
        self._folder = folder
        self._progress = progress
        self._blessed_code = blessed_code
        """`code_digest` that the commit must load; None where any will do."""

    def pair(self, index: int, planned: int) -> Pair:
        """Make pair `index` (from 0): the other commit first in every other pair, so that a drift hits both alike.

        Raises:
            CodeUnproven: what ran is not shown to be the commit's, or is not what was blessed.
            RevisionMissing: the commit has no such workload.
            WorktreeFailed: the workload does not run there.
        """
        title = f"pair {index + 1} of {planned}"
        if index % 2:
            candidate = self._series.measure_as(f"{title}, candidate")
            return Pair(reference=self._reference(index, title), candidate=candidate)
        reference = self._reference(index, title)
        return Pair(reference=reference, candidate=self._series.measure_as(f"{title}, candidate"))

    def _reference(self, index: int, title: str) -> Run:
        folder = self._folder / f"reference-{index + 1}"
        try:
            measured = measure(
                self._bench, self._workload, folder, self._progress, f"{title}, {self.commit[:SHOWN_SHA]}"
            )
        except NOT_MEASURED_BY as failed:
            fact, _, more = str(failed).removeprefix(f"{self._workload.id}: ").partition("\n")
            raise WorktreeFailed(
                subject=f"{self._workload.id} at {self.commit[:SHOWN_SHA]}",
                fact=f"it does not run there: {fact.rstrip('.')}",
                next_step=more,
            ) from failed
        found = code_digest(measured.code)
        if self._blessed_code is not None and found != self._blessed_code:
            raise CodeUnproven(
                subject=f"{self._workload.id} at {self.commit[:SHOWN_SHA]}",
                fact="the commit's files are not those that were blessed",
                expectation="They were measured with uncommitted changes, or load others now",
                next_step="Bless from a commit without changes, so that it can be run again.",
            )
        return measured.run


def measure(bench: runner.Bench, workload: Workload, folder: Path, progress: Progress, title: str) -> runner.Measured:
    """Make one run on an idle GPU and tell of it."""
    busy = wait_until_idle(bench.machine.gpus, IDLE_PATIENCE_S)
    with progress.run(title):
        measured = runner.measure_run(bench, workload, folder)
    if busy is not None:
        complaints = (*measured.run.complaints, f"before it started, {busy}")
        measured = replace(measured, run=measured.run.model_copy(update={"complaints": complaints}))
    progress.done(title, measured.run)
    return measured
