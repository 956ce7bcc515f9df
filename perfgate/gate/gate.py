"""One gate of a project, from what is expected to what it comes to: its workloads, runs, and what
is kept."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from typing import Final

from perfgate.execute.folder import STANDBY, end_killed_gates, remove_killed_runs
from perfgate.execute.fresh import FreshLab
from perfgate.execute.lab import Invocation, Listener
from perfgate.execute.laboratory import Laboratory
from perfgate.execute.torch_first import FirstImport
from perfgate.execute.worktree import SHOWN_SHA
from perfgate.gate.check import check
from perfgate.gate.close import close, step_down_times
from perfgate.gate.conclude import noting
from perfgate.gate.expect import (
    Chosen,
    expectation_of,
    lost_with_gpus,
    orphans,
)
from perfgate.gate.plan import forecast, opening
from perfgate.gate.underway import Underway
from perfgate.machine import gpu_lock
from perfgate.model.baseline import FEWEST_RUNS, Baseline, Commit, Result
from perfgate.model.errors import BaselineUnreadable, ConfigInvalid, NotMeasured, PerfgateError
from perfgate.model.machine import Machine, differing
from perfgate.model.metric import Values
from perfgate.model.note import Note, Severity, note, noted
from perfgate.model.outcome import Outcome
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Policy
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.store import Store
from perfgate.system import git
from perfgate.system.process import ignore
from perfgate.words import say

MOST_UNCOMMITTED: Final = 3
"""Paths that are kept of what no commit holds."""


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """One workload whose runs are to be made, or are started already."""

    workload: Workload
    folder: Path
    lab: FreshLab
    underway: Underway
    started_at: datetime


class Gate:
    """The gate of one invocation: expect, check each workload, close."""

    def __init__(
        self,
        of: Invocation,
        listener: Listener,
        *,
        runs_given: bool = False,
        budgets_given: Values | None = None,
    ) -> None:
        self.root, self.settings = of.root, of.settings
        self.store = Store(of.root, of.settings.baselines)
        self.started_at = datetime.now(UTC)
        self.verdicts: dict[str, Verdict] = {}
        self.results: dict[str, Result] = {}
        """What is kept of those that were measured, by workload."""
        self.cleaner = Cleaner({**of.env, **of.worker_env}, of.settings.pass_env)
        """Takes secrets out of all that is kept and reported of this gate."""
        self.workloads: Sequence[Workload] | None = None
        """What is missed where it is missing; None until it is known."""
        self.sharing = 1
        """Among how many workloads the times share the error: all shards are one gate."""
        self._against = of.against
        self._listener = listener
        self._runs_given = runs_given
        self._budgets_given = budgets_given
        self._laboratory = Laboratory(
            of, listener, time_left_s=self._time_left_s, at_end=self._start_next
        )
        self.machine: Machine | None = None
        """The machine, as far as it has been looked at."""
        self._lacking: PerfgateError | None = None
        """Why no workload is measured."""
        self._folders: dict[str, Path] = {}
        self._following: Callable[[], Workload | None] = ignore
        self._next: _Begun | None = None
        """The workload whose runs are started already."""
        self._gpus: ExitStack | None = None
        """Holds the GPUs against other gates, to the end."""

    def tidy(self) -> None:
        """End what is not wanted any more, take away what was checked out next to the project, and
        let the GPUs go."""
        self._end_next()
        self._laboratory.close()
        gpus, self._gpus = self._gpus, None
        if gpus is not None:
            gpus.close()

    # What is expected

    def expect(
        self, workloads: Sequence[Workload], *, elsewhere: frozenset[str] = frozenset()
    ) -> None:
        """Take what is to be measured here, and what other shards of the gate do `elsewhere`."""
        self.workloads = workloads
        self.sharing = max(len(workloads), 1) + len(elsewhere)
        for workload in workloads:
            if workload.env or workload.pass_env:
                self.cleaner = self.cleaner.knowing(workload.env, workload.pass_env)

    @property
    def blessed(self) -> frozenset[str]:
        """The workloads that have a baseline on this machine, as far as that can be read."""
        if self.machine is None:
            return frozenset()
        try:
            listed = self.store.baselines.listed(self.machine.slug)
            return frozenset(one.workload for one in listed)
        except BaselineUnreadable:
            return frozenset()

    # One workload

    def check(
        self, workload: Workload, *, following: Callable[[], Workload | None] = ignore
    ) -> Verdict:
        """Measure and judge one workload, keep the result, and return the verdict.

        While its last runs end, the first of the one `following` it are started. One gate gives
        one verdict: a plugin that runs failed items again gets the first.
        """
        if workload.id not in self.verdicts:
            self._following = following
            try:
                found = self._measured(workload)
            except PerfgateError as refused:
                not_measured, why = Outcome.NOT_MEASURED, noted(refused)
                found = Verdict(workload=workload.id, outcome=not_measured, why=why)
            self.verdicts[workload.id] = self.cleaner.record(found)
        return self.verdicts[workload.id]

    def start_standby(self, torch: FirstImport) -> None:
        """Start workers for the first workload's runs, while pytest itself imports torch: as many
        as a screen takes.

        Not where no baseline's workload had torch, another gate has the GPUs, or runs are made one
        by one. What is wrong here, the first workload comes upon as well: no import fails for it.
        """
        with suppress(PerfgateError, OSError, RuntimeError):
            listed = self.store.baselines.listed(self._look().slug)
            read = [one.found for one in listed if isinstance(one.found, Baseline)]
            if self.settings.ahead != 1 and any(one.machine.torch for one in read):
                self._hold_gpus(f"of {self.root.name}", timeout_s=0)
                self.store.results.hide()
                folder = self.store.results.folder.parent / STANDBY
                self._laboratory.start_standby(folder, FEWEST_RUNS, torch)

    def _look(self) -> Machine:
        """Find nsys and look at the machine, once; without them no workload is measured.

        Raises:
            PerfgateError: one of them cannot be had, or it is not the machine of the settings.
        """
        if self._lacking is not None:
            raise self._lacking
        if self.machine is None:
            _ = self.commit  # while the working tree is as it was checked out
            expected = self.settings.machine
            try:
                _, machine = self._laboratory.looked
                if expected not in (None, machine.slug):
                    here = {"machine": machine.slug, "gpu": machine.gpu_name}
                    raise ConfigInvalid("unexpected-machine", expected=expected, **here)
            except PerfgateError as lacking:
                self._lacking = lacking
                raise
            self.machine = machine
        return self.machine

    def _measured(self, workload: Workload) -> Verdict:
        """The verdict.

        Raises:
            PerfgateError: it did not come to one.
        """
        self._look()
        if self._next is not None and self._next.workload is not workload:
            self._end_next()
        too_late = NotMeasured("too-late", budget_s=self.settings.time_budget_s)
        if self._time_left_s() <= 0:
            raise too_late
        with self._listener.of(workload.id):
            try:
                timeout_s = min(self.settings.lock_timeout_s, self._time_left_s())
                self._hold_gpus(workload.id, timeout_s=timeout_s)
                begun, self._next = self._next or self._begin(workload), None
            except PerfgateError as refused:
                raise (refused if self._time_left_s() > 0 else too_late) from None
            self._folders[workload.id] = begun.folder
            with closing(begun.lab):
                result = self.cleaner.record(self._judged(begun))
            # Kept without runs as well: bless must not take an older result for this one.
            self.results[workload.id] = result
            self.store.results.save(result, begun.folder)
            return result.verdict

    def _begin(self, workload: Workload) -> _Begun:
        machine, started_at = self._look(), datetime.now(UTC)
        expected = expectation_of(self.store, workload, machine)
        folder = self.store.results.new_folder(workload.id, machine.slug, at=started_at)
        lab = FreshLab(self._laboratory, workload, folder, baseline=expected.baseline)
        policy = Policy.of(
            self.settings,
            workload,
            runs_given=self._runs_given,
            budgets_given=self._budgets_given,
            sharing=self.sharing,
        )
        against = self._against is not None
        underway = Underway(expected, lab, policy, against=against, affords=self._affords)
        return _Begun(
            workload=workload, folder=folder, lab=lab, underway=underway, started_at=started_at
        )

    def _start_next(self) -> None:
        """Start the first runs of the next workload, while the last ones of this are read; also a
        second time, where those were ended since this workload needed more runs after all."""
        workload = self._following()
        if workload is None or workload.id in self._folders or self._time_left_s() <= 0:
            return
        with suppress(PerfgateError):  # whoever measures it meets that again, and says so
            self._next = self._next or self._begin(workload)
            self._next.lab.start_first(*opening(self._next.underway))

    def _end_next(self) -> None:
        """End what was started of a workload that does not come next after all."""
        begun, self._next = self._next, None
        if begun is not None:
            begun.lab.close()
            rmtree(begun.folder, ignore_errors=True)
            with suppress(OSError):  # that of its workload, unless it holds older results
                begun.folder.parent.rmdir()

    def _hold_gpus(self, workload: str, *, timeout_s: float) -> None:
        """Hold the GPUs, if this gate does not yet, and end and remove what killed gates have left.

        Raises:
            GpuTaken: another gate has them, or what one left cannot be ended.
        """
        if self._gpus is not None:
            return
        lock = gpu_lock(
            self._look().gpus,
            timeout_s=timeout_s,
            on_wait=self._say,
            workload=workload,
        )
        with ExitStack() as held:
            held.enter_context(lock)
            self._say(end_killed_gates())
            self._say(remove_killed_runs(self.store.results.folder, self.cleaner))
            self._gpus = held.pop_all()

    def _say(self, what: Note | None) -> None:
        if what is not None:
            self._listener.say(say.fact(what))

    def _judged(self, begun: _Begun) -> Result:
        """Measure and judge, with the GPU held, and say before what that takes."""
        underway, lab = begun.underway, begun.lab
        self._listener.plan(forecast(underway))
        verdict = check(underway)
        baseline, notes = underway.expected.baseline, [*lab.notes]
        if lab.last is not None and (names := lab.last.withheld):
            notes.append(note("variables-withheld", names=names))
        if baseline is not None:
            then = sorted(baseline.occasions, key=lambda one: one.measured_at)
            if differs := differing((one.environment for one in then), lab.environment):
                notes.append(differs)
        began, against = self.commit, self._against
        if began and against and not began.dirty and began.sha == against.commit:
            notes.append(
                note(
                    "both-sides-are-one-commit",
                    Severity.WARN,
                    commit=began.sha[:SHOWN_SHA],
                    revision=against.revision,
                )
            )
        shown = (Outcome.NO_BASELINE, Outcome.INCOMPARABLE)
        commit, uncommitted = self._commit_now()
        if verdict.outcome in shown and uncommitted:
            notes.append(note("measured-uncommitted", paths=uncommitted))
        return Result(
            workload=begun.workload,
            machine=lab.machine,
            commit=commit,
            uncommitted=uncommitted,
            measured_at=begun.started_at,
            code={} if lab.last is None else lab.last.code,
            runs=tuple(underway.runs),
            reference_runs=tuple(underway.references),
            interleaved_runs=tuple(underway.blocks),
            environment=lab.environment,
            verdict=noting(verdict, *notes),
        )

    # Which commit is measured

    @cached_property
    def commit(self) -> Commit | None:
        """What is checked out, asked once; to be asked before anything is measured or written."""
        return git.read_commit(self.root, baselines=self.settings.baselines)

    def _commit_now(self) -> tuple[Commit | None, tuple[str, ...]]:
        """The commit that was checked out when the gate began, dirty if that has changed since, and
        a few of the paths that no commit holds."""
        baselines = self.settings.baselines
        commit, now = self.commit, git.read_commit(self.root, baselines=baselines)
        if commit is None or now is None:
            commit = now
        elif (now.sha, now.dirty) != (commit.sha, False):
            commit = commit.model_copy(update={"dirty": True})
        paths: tuple[str, ...] = ()
        if commit is not None and commit.dirty:
            with suppress(PerfgateError):
                paths = git.changes(self.root, baselines=baselines)[:MOST_UNCOMMITTED]
        return commit, paths

    # What it takes

    def _affords(self, runs: int, seconds: float) -> bool:
        """Whether so many runs are within the budget of time, what is still to come included."""
        to_come = max(len(self.workloads or ()) - len(self.verdicts) - 1, 0)
        return (runs + to_come * self.settings.runs) * seconds <= self._time_left_s()

    def _time_left_s(self) -> float:
        budget = self.settings.time_budget_s
        passed = (datetime.now(UTC) - self.started_at).total_seconds()
        return math.inf if budget is None else budget - passed

    # What came of it

    def folder(self, workload: str) -> Path | None:
        """Where the runs of a workload are kept, where there is such a folder."""
        folder = self._folders.get(workload)
        return folder if folder is not None and folder.is_dir() else None

    def baseline_file(self, workload: str) -> Path | None:
        """The file of a workload's baseline on this machine, where there is one."""
        if self.machine is None:
            return None
        file = self.store.baselines.path(self.machine.slug, workload)
        return file if os.path.lexists(file) else None

    # What the whole comes to

    def close(
        self, *, skipped: Collection[str], skipped_files: Mapping[str, str], chosen: Chosen
    ) -> list[Note]:
        """Return what keeps the gate shut; nothing where it is open.

        Expected are the workloads but those which were `skipped` and never had a baseline here: one
        for two GPUs may skip itself on a machine with one. `skipped_files` have why they skipped
        themselves: nobody knows which workloads they hold.
        """
        not_kept = self.step_down()
        expected = known = [workload.id for workload in self.workloads or ()]
        try:
            machine = self._look()
        except PerfgateError:  # as the verdict of each workload says
            return [*close(expected, self.verdicts, self.settings), *not_kept]
        if self.verdicts:
            expected = [
                name
                for name in known
                if name in self.verdicts or name not in skipped or self.baseline_file(name)
            ]
        files = tuple(f"{name} ({why})" for name, why in skipped_files.items())
        try:
            gone = orphans(self.store, machine, known, chosen, skipped=files)
            if self.settings.machine is None:
                gone += lost_with_gpus(self.store, machine, self.verdicts, chosen)
        except BaselineUnreadable as broken:
            gone = [noted(broken, Severity.INVALID)]
        return [*close(expected, self.verdicts, self.settings), *gone, *not_kept]

    def step_down(self) -> list[Note]:
        """Take up the losses that show now that all are judged (Holm), in what is kept too.

        Returns what could not be kept.
        """
        changed = step_down_times(self.verdicts, workloads=self.sharing)
        self.verdicts |= changed
        refused: list[Note] = []
        for name, verdict in changed.items():
            try:
                folder = self._folders[name]
                kept = self.store.results.load(folder).model_copy(update={"verdict": verdict})
                self.store.results.save(kept, folder)
            except PerfgateError as error:
                failure = noted(error)
                refused.append(note("not-kept", Severity.INVALID, workload=name, failure=failure))
        return refused
