"""Pairs of another commit, checked out beside the project, and the candidate: alternately, or both at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from perfgate.execute import running
from perfgate.execute.side_environment import declared_there
from perfgate.execute.sides import prove_apart
from perfgate.gate import NOT_MEASURED_BY, Pair
from perfgate.gate.against import SHOWN_SHA
from perfgate.gate.listener import Listener
from perfgate.gate.series import Series, complaining, kept_busy, measure
from perfgate.model.baseline import Baseline, code_digest
from perfgate.model.errors import CodeUnproven, PerfgateError, WorkloadFailed, WorktreeFailed
from perfgate.model.sample import Form
from perfgate.model.workload import Workload

LACKS_FILE: Final = re.compile(r"FileNotFoundError|No such file or directory")
_NO_SUCH_FILE: Final = (
    "A checkout has no files that git ignores; duet_setup can make them there, or link them."
)
DATA_ENDED: Final = re.compile(r"StopIteration|IndexError|the loop (?:took|began) ")
"""How a loop fails whose data suffice for fewer turns than it is to take."""


@dataclass(frozen=True, kw_only=True)
class AlternateDuel:
    """Pairs of another commit, checked out beside the project, and the candidate: one run after the other."""

    revision: str
    commit: str
    bench: running.Bench
    """Of that commit; the candidate's is its series' own."""
    series: Series
    workload: Workload
    folder: Path
    listener: Listener
    blessed: Baseline | None
    """Whose code the commit must load; None where any will do."""
    _prefix: ClassVar[str] = "reference"

    def pair(self, index: int, planned: int) -> Pair:
        """Make pair `index` (from 0): the other commit first in every other pair, so that a drift hits both alike.

        Raises:
            CodeUnproven: what ran is not shown to be the commit's, is not what was blessed, or is of both sides.
            RevisionMissing: the commit has no such workload.
            WorktreeFailed: the workload does not run there.
        """
        title = f"pair {index + 1} of {planned}"
        if index % 2:
            candidate = self.series.measure_as(f"{title}, candidate", Form.PAIR)
            there = self._reference(self._reference_folder(index), title, Form.PAIR)
        else:
            there = self._reference(self._reference_folder(index), title, Form.PAIR)
            candidate = self.series.measure_as(f"{title}, candidate", Form.PAIR)
        self._hold_apart(there)
        return Pair(reference=there.run, candidate=candidate)

    def alone(self) -> Pair:
        """Make one run of either side, one after the other; raises what `pair` does."""
        there = self._reference(self.folder / "reference-alone", "alone", Form.ALONE)
        candidate = self.series.measure_as("alone, candidate")
        self._hold_apart(there)
        account = there.account
        return Pair(
            reference=there.run,
            candidate=candidate,
            cores=(None if account is None else account.cores, self.series.cores),
        )

    def _reference(self, folder: Path, title: str, form: Form) -> running.Measured:
        return self._as_blessed(self._measured_there(folder, title, form))

    def _hold_apart(self, there: running.Measured) -> None:
        """Hold what the other commit's run loaded to what the candidate's, which was taken last, did."""
        if self.bench.tree is not None:
            prove_apart(
                self.workload,
                self.bench.tree,
                reference=there.witnesses,
                candidate=self.series.witnesses,
                env=self.bench.env,
                began_at=self.bench.began_at,
            )

    def _measured_there(self, folder: Path, title: str, form: Form) -> running.Measured:
        self._refuse_other_words()
        try:
            return measure(
                self.bench, self.workload, folder, self.listener, f"{title}, {self._shown}", form
            )
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
        advice = [self._submodule_advice.strip(), _NO_SUCH_FILE if LACKS_FILE.search(fact) else ""]
        return WorktreeFailed(
            subject=f"{self.workload.id} at {self._shown}",
            fact=f"it does not run there: {fact.rstrip('.')}",
            next_step="\n".join(told for told in (*advice, more) if told),
        )

    @property
    def _submodule_advice(self) -> str:
        tree = (
            None if self.bench.settings.duet_setup else self.bench.tree
        )  # what a setup checks out is there
        return "" if tree is None else tree.submodule_advice

    def _refuse_other_words(self) -> None:
        """Hold a command as the commit declares it to the one that was blessed: its code may be the same.

        Raises:
            CodeUnproven: its file there was blessed with uncommitted changes.
        """
        tree = self.bench.tree
        if self.blessed is None or self.blessed.code is None or tree is None:
            return
        if (
            declared_there(self.workload, tree, self.bench.settings).digest()
            != self.workload.digest()
        ):
            raise CodeUnproven(
                subject=f"{self.workload.id} at {self._shown}",
                fact=f"its command or variables there ({self.workload.source}) are not those that were blessed",
                expectation="They were measured with uncommitted changes",
                next_step="Bless from a commit without changes, so that it can be run again.",
            )

    def _as_blessed(self, measured: running.Measured) -> running.Measured:
        """A run of the other commit, held to what was blessed."""
        if not self._is_as_blessed(measured.code):
            raise CodeUnproven(
                subject=f"{self.workload.id} at {self._shown}",
                fact="the commit's files are not those that were blessed",
                expectation="They load others now, or git writes them here with other bytes (line ends, filters)",
                next_step="Bless from a fresh checkout, so that the commit can be run again."
                + self._submodule_advice,
            )
        return measured

    def _is_as_blessed(self, code: Mapping[str, str]) -> bool:
        if (
            self.blessed is None
            or self.blessed.code is None
            or code_digest(code) == self.blessed.code
        ):
            return True
        if self.blessed.code_files:
            return running.is_as_blessed(self.bench, code, self.blessed.code_files)
        # Of a command older baselines have noted another set of files; that its commit was clean is known.
        return self.workload.form == "command"


@dataclass(frozen=True, kw_only=True)
class InterleavedDuel(AlternateDuel):
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
            CodeUnproven: what ran is not shown to be the commit's, is not what was blessed, or is of both sides.
            RevisionMissing: the commit has no such workload.
            WorktreeFailed: the workload does not run there.
            ConfigInvalid: the workload is a command.
        """
        title = f"pair {index + 1} of {planned}, interleaved"
        busy = kept_busy(self.bench)
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
            with self.listener.run(title):
                reference, candidate = running.outlasting_crashes(
                    both, on_crash=self.listener.crashed
                )
        except running.ReferenceFailed as failed:
            raise self._failed_there(self._over_more_turns(failed.error)) from failed.error
        except WorkloadFailed as failed:
            told = self._over_more_turns(failed)
            if told is failed:
                raise
            raise told from failed
        there = self._as_blessed(complaining(reference, busy))
        pair = Pair(reference=there.run, candidate=self.series.take(complaining(candidate, busy)))
        self._hold_apart(there)
        self.listener.done(f"{title}, {self._shown}", pair.reference)
        self.listener.done(f"{title}, candidate", pair.candidate)
        return pair

    def _over_more_turns(self, failed: PerfgateError) -> PerfgateError:
        """A workload's failure, with what may be behind it: data that suffice for as many turns as are declared."""
        is_short = isinstance(failed, WorkloadFailed) and DATA_ENDED.search(failed.fact) is not None
        if not is_short or self.steps <= self.workload.steps:
            return failed
        here, alone = (self.workload.warmup + steps for steps in (self.steps, self.workload.steps))
        return WorkloadFailed(
            subject=failed.subject,
            fact=failed.fact,
            expectation=". ".join(
                told
                for told in (
                    failed.expectation,
                    f"In an interleaved duet it takes {here} turns, not {alone}",
                )
                if told
            ),
            next_step='Let data that end before that begin again, or set duet = "alternate" in [tool.perfgate].\n'
            + failed.next_step,
        )
