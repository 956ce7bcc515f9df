"""One gate of a project, from what is expected to what it comes to: its workloads, runs, and what
is kept."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from statistics import median

from perfgate.execute.folder import end_killed_gates, remove_killed_runs
from perfgate.execute.fresh import FreshLab
from perfgate.execute.lab import Invocation, Listener, blessed_at
from perfgate.execute.laboratory import Laboratory
from perfgate.gate.check import check, opening
from perfgate.gate.checkout import WorkingTree
from perfgate.gate.close import Closing, close, missing, sharing_after, step_down_times
from perfgate.gate.expect import (
    Expectation,
    expectation_of,
    lost_with_gpus,
    orphans,
    refuse_other_machine,
)
from perfgate.gate.forecast import forecast
from perfgate.gate.notes import not_measured, noting
from perfgate.gate.underway import Checked
from perfgate.machine import gpu_lock
from perfgate.model.baseline import Baseline, Result
from perfgate.model.errors import BaselineUnreadable, GpuTaken, PerfgateError
from perfgate.model.machine import Machine, differing
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note, noted
from perfgate.model.outcome import Outcome
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Policy
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.store import Store
from perfgate.words import say


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """One workload whose runs are to be made, or are started already."""

    workload: Workload
    expected: Expectation
    folder: Path
    lab: FreshLab
    started_at: datetime


class Gate:
    """The gate of one invocation: expect, check each workload, close."""

    def __init__(
        self,
        of: Invocation,
        listener: Listener,
        *,
        runs_given: bool = False,
        budgets_given: Collection[Metric] = (),
    ) -> None:
        self.root, self.settings = of.root, of.settings
        self.store = Store(of.root, of.settings.baselines)
        self.checkout = WorkingTree(root=of.root, baselines=of.settings.baselines)
        self.started_at = datetime.now(UTC)
        self.verdicts: dict[str, Verdict] = {}
        self.workloads: dict[str, Workload] = {}
        """Those that came to be checked, by id."""
        self.cleaner = Cleaner({**of.env, **of.worker_env}, of.settings.pass_env)
        """Takes secrets out of all that is kept and reported of this gate."""
        self._against = of.against
        self._listener = listener
        self._runs_given = runs_given
        self._budgets_given = frozenset(budgets_given)
        self._laboratory = Laboratory(
            of, listener, time_left_s=self._time_left_s, at_end=self._start_next
        )
        self._ready: Machine | PerfgateError | None = None
        self._expected = 1
        self._elsewhere: frozenset[str] = frozenset()
        self._checked: dict[str, Checked] = {}
        self._folders: dict[str, Path] = {}
        self._is_clear = False
        self._following: Callable[[], Workload | None] = lambda: None
        self._next: _Begun | None = None
        """The workload whose runs are started already, for which the GPU is kept."""
        self._gpus_held: ExitStack | None = None

    def tidy(self) -> None:
        """End what is not wanted any more, and take away what was checked out next to the
        project."""
        self._end_next()
        self._laboratory.close()

    # What is expected

    def expect(
        self, workloads: Sequence[Workload], *, elsewhere: frozenset[str] = frozenset()
    ) -> None:
        """Take what is to be measured here, and what other shards of the gate do `elsewhere`."""
        self._expected = max(len(workloads), 1)
        for workload in workloads:
            self.know(workload)
        self._elsewhere = elsewhere

    def know(self, workload: Workload) -> None:
        """Know the secrets that a workload is given."""
        if workload.env or workload.pass_env:
            self.cleaner = self.cleaner.knowing(workload.env, workload.pass_env)

    @property
    def sharing(self) -> int:
        """Among how many workloads the times share the error: all shards are one gate."""
        return self._expected + len(self._elsewhere)

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

    @property
    def machine(self) -> Machine | None:
        """The machine, as far as it has been looked at."""
        return self._ready if isinstance(self._ready, Machine) else None

    def policy(self, workload: Workload | None) -> Policy:
        """The policy for one workload; for all together without one."""
        return Policy.from_settings(
            self.settings,
            workload,
            runs_given=self._runs_given,
            budgets_given=self._budgets_given,
            workloads=sharing_after(self.verdicts, workloads=self.sharing),
        )

    def opens(self, verdict: Verdict) -> bool:
        """Whether a verdict lets the build pass under the settings."""
        return self.policy(self.workloads[verdict.workload]).opens(verdict)

    # One workload

    def check(
        self, workload: Workload, *, following: Callable[[], Workload | None] = lambda: None
    ) -> Verdict:
        """Measure and judge one workload, keep the result, and return the verdict.

        While its last runs end, the first of the one `following` it are started. One gate gives
        one verdict: a plugin that runs failed items again gets the first.
        """
        if workload.id not in self.verdicts:
            self.workloads[workload.id], self._following = workload, following
            machine = self._look()
            verdict = (
                not_measured(workload.id, noted(machine))
                if isinstance(machine, PerfgateError)
                else self._measured(machine, workload)
            )
            self.verdicts[workload.id] = self.cleaner.record(verdict)
        return self.verdicts[workload.id]

    def _look(self) -> Machine | PerfgateError:
        """Find nsys and look at the machine, once; without them no workload is measured."""
        if self._ready is None:
            _ = self.checkout.commit  # while the working tree is as it was checked out
            try:
                machine = self._laboratory.context.machine
                refuse_other_machine(machine, self.settings.machine)
                self._ready = machine
            except PerfgateError as lacking:
                self._ready = lacking
        return self._ready

    def _measured(self, machine: Machine, workload: Workload) -> Verdict:
        too_late = note("too-late", budget_s=self.settings.time_budget_s)
        if self._next is not None and self._next.workload is not workload:
            self._end_next()
        if self._time_left_s() <= 0:
            return not_measured(workload.id, too_late)
        try:
            begun = self._next or self._begin(machine, workload)
        except PerfgateError as refused:
            return not_measured(workload.id, noted(refused))
        self._next = None
        self._folders[workload.id] = begun.folder
        try:
            with self._listener.of(workload.id), closing(begun.lab):
                left_s = round(self._time_left_s(), 1)
                try:
                    self._hold_gpus(machine, workload, within_s=left_s)
                    self._clear_up()
                except PerfgateError as taken:
                    with suppress(OSError):
                        begun.folder.rmdir()
                    is_late = isinstance(taken, GpuTaken) and left_s < self.settings.lock_timeout_s
                    return not_measured(workload.id, too_late if is_late else noted(taken))
                checked = self._judged(begun.expected, begun.lab)
        finally:
            if self._next is None:
                self._let_gpus_go()
        self._checked[workload.id] = checked
        try:
            self._keep(checked, begun)
        except PerfgateError as refused:
            return not_measured(workload.id, noted(refused))
        return checked.verdict

    def _begin(self, machine: Machine, workload: Workload) -> _Begun:
        started_at = datetime.now(UTC)
        expected = expectation_of(self.store, workload, machine, root=self.root)
        folder = self.store.results.new_folder(workload.id, machine.slug, at=started_at)
        lab = FreshLab(self._laboratory, workload, folder, baseline=expected.baseline)
        return _Begun(
            workload=workload, expected=expected, folder=folder, lab=lab, started_at=started_at
        )

    def _start_next(self) -> None:
        """Start the first runs of the next workload, while the last ones of this are read; also a
        second time, where those were ended since this workload needed more runs after all."""
        workload, begun = self._following(), self._next
        if workload is None or self.machine is None or workload.id in self._folders:
            return
        if self._time_left_s() <= 0:
            return
        with suppress(PerfgateError):  # whoever measures it meets that again, and says so
            if begun is None:
                self._next = begun = self._begin(self.machine, workload)
            asked = opening(
                begun.expected,
                begun.lab,
                self.policy(begun.workload),
                against=self._against is not None,
                affords=self._affords,
            )
            begun.lab.start_first(*asked)

    def _end_next(self) -> None:
        """End what was started of a workload that does not come next after all."""
        begun, self._next = self._next, None
        if begun is not None:
            begun.lab.close()
            rmtree(begun.folder, ignore_errors=True)
            with suppress(OSError):  # that of its workload, unless it holds older results
                begun.folder.parent.rmdir()
        self._let_gpus_go()

    def _hold_gpus(self, machine: Machine, workload: Workload, *, within_s: float) -> None:
        """Hold the GPUs against other gates, if this one does not yet.

        Raises:
            GpuTaken: another gate has them.
        """
        if self._gpus_held is not None:
            return
        lock = gpu_lock(
            machine.gpus,
            timeout_s=min(self.settings.lock_timeout_s, within_s),
            on_wait=self._say,
            workload=workload.id,
        )
        with ExitStack() as held:
            held.enter_context(lock)
            self._gpus_held = held.pop_all()

    def _let_gpus_go(self) -> None:
        if self._gpus_held is not None:
            self._gpus_held.close()
            self._gpus_held = None

    def _clear_up(self) -> None:
        """End what killed gates have left running, and remove what they have left half done.

        Raises:
            GpuTaken: it cannot be ended.
        """
        self._say(end_killed_gates())
        if not self._is_clear:
            self._is_clear = True
            self._say(remove_killed_runs(self.store.results.folder, self.cleaner))

    def _say(self, what: Note | None) -> None:
        if what is not None:
            self._listener.say(say.fact(what))

    def _judged(self, expected: Expectation, lab: FreshLab) -> Checked:
        """Measure and judge, with the GPU held, and say before what that takes."""
        policy = self.policy(expected.workload)
        self._announce(expected, policy, lab)
        checked = check(
            expected,
            lab,
            policy,
            against=self._against is not None,
            affords=self._affords,
        )
        notes: list[Note] = [*lab.notes]
        if lab.taken.last is not None and (names := lab.taken.last.withheld):
            notes.append(note("variables-withheld", names=names))
        if expected.baseline is not None:
            then = sorted(expected.baseline.occasions, key=lambda one: one.measured_at)
            if differs := differing((one.environment for one in then), lab.taken.environment):
                notes.append(differs)
        if (same := self.checkout.same_as(self._against)) is not None:
            notes.append(same)
        if checked.verdict.outcome in (Outcome.NO_BASELINE, Outcome.INCOMPARABLE):
            notes += self._uncommitted()
        verdict = noting(checked.verdict, *notes)
        return checked.model_copy(update={"verdict": verdict, "environment": lab.taken.environment})

    def _uncommitted(self) -> list[Note]:
        """What a baseline of these runs would lack, where no commit holds what was measured."""
        commit = self.checkout.measured()
        if commit is None or not commit.dirty:
            return []
        return [note("measured-uncommitted", paths=self.checkout.uncommitted() or ("its code",))]

    def _keep(self, checked: Checked, begun: _Begun) -> None:
        # Kept without runs as well: bless must not take an older result for this one.
        commit, last = self.checkout.measured(), begun.lab.taken.last
        result = Result(
            workload=begun.workload,
            machine=begun.lab.machine,
            commit=commit,
            uncommitted=self.checkout.uncommitted() if commit is not None and commit.dirty else (),
            measured_at=begun.started_at,
            code={} if last is None else last.code,
            runs=checked.runs,
            reference_runs=checked.reference_runs,
            interleaved_runs=checked.interleaved_runs,
            environment=checked.environment,
            verdict=checked.verdict,
        )
        self.store.results.save(self.cleaner.record(result), begun.folder)

    # What it takes

    def _affords(self, runs: int, seconds: float) -> bool:
        """Whether so many runs are within the budget of time, what is still to come included."""
        to_come = max(self._expected - len(self.verdicts) - 1, 0) * self.settings.runs
        return (runs + to_come) * seconds <= self._time_left_s()

    def _time_left_s(self) -> float:
        budget = self.settings.time_budget_s
        passed = (datetime.now(UTC) - self.started_at).total_seconds()
        return math.inf if budget is None else budget - passed

    def _announce(self, expected: Expectation, policy: Policy, lab: FreshLab) -> None:
        """Say before it is spent what is to be spent, and what that can show."""
        none = self._why_no_pairs(expected.baseline, lab)
        lines = forecast(
            expected,
            policy,
            frozenset() if none is not None else lab.forms,
            run_s=self._last_run_s(expected),
            against=self._against is not None,
        )
        why = () if none is None else (note("no-ab-run", why=none),)
        same = self.checkout.same_as(self._against)
        self._listener.plan((*lines, *why, *(() if same is None else (same,))))

    def _why_no_pairs(self, baseline: Baseline | None, lab: FreshLab) -> Note | None:
        """Why the baseline's commit cannot be run again, as far as that is known before."""
        if self._against is not None or baseline is None or not lab.forms:
            return None
        try:
            self._laboratory.found(blessed_at(baseline))
        except PerfgateError as lacking:
            return noted(lacking)
        return None

    def _last_run_s(self, expected: Expectation) -> float | None:
        """What a run took when this workload was last measured here, or else blessed, s."""
        latest = None
        with suppress(PerfgateError):
            latest = self.store.results.latest(expected.workload.id, expected.machine.slug)
        took = [] if latest is None else [run.wall_s for run in latest.result.runs]
        if not took and expected.baseline is not None:
            took = [run.wall_s for run in expected.baseline.runs if run.wall_s is not None]
        return median(took) if took else None

    # What came of it

    def checked(self, workload: str) -> Checked:
        """One workload's verdict with the runs it rests on."""
        return self._checked.get(workload) or Checked(verdict=self.verdicts[workload])

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
        self,
        collected: Sequence[Workload],
        *,
        skipped: Collection[str] = (),
        skipped_files: Mapping[str, str] | None = None,
        chosen: Callable[[str, str | None], bool],
        paths: Sequence[Path] = (),
    ) -> Closing:
        """What the whole invocation comes to.

        `chosen` says whether a workload with a baseline is to be measured here, by its id and its
        file as far as that is known; `paths` are files and folders that were named for that;
        `skipped_files` have why they skipped themselves: nobody knows which workloads they hold.
        """
        not_kept = self.step_down()
        closing = close(self._missed(collected, skipped), self.verdicts, self.policy(None))
        machine = self._look()
        if isinstance(machine, PerfgateError):
            return closing.but(*not_kept)
        known = {workload.id for workload in collected}
        try:
            gone = orphans(self.store, machine, known, chosen)
            lost = (
                lost_with_gpus(self.store, machine, self.verdicts, chosen)
                if self.settings.machine is None
                else None
            )
        except BaselineUnreadable as broken:
            return closing.but(*not_kept, noted(broken, Severity.INVALID))
        orphaned = missing(gone, skipped_files, files_named=bool(paths))
        return closing.but(*orphaned, *(() if lost is None else (lost,)), *not_kept)

    def _missed(self, collected: Sequence[Workload], skipped: Collection[str]) -> tuple[str, ...]:
        """The collected workloads that a measurement is expected of.

        All but those which were `skipped` and never had a baseline here: a workload for two GPUs
        may skip itself on a machine with one.
        """
        names = tuple(workload.id for workload in collected)
        if isinstance(self._look(), PerfgateError) or not self.verdicts:
            return names
        return tuple(
            name
            for name in names
            if name not in skipped or name in self.verdicts or self.baseline_file(name) is not None
        )

    def step_down(self) -> tuple[Note, ...]:
        """Take up the losses that show now that all are judged (Holm), in what is kept too.

        Returns what could not be kept.
        """
        changed = step_down_times(self.verdicts, workloads=self.sharing)
        self.verdicts |= changed
        refused: list[Note] = []
        for name, verdict in changed.items():
            try:
                self.store.results.save_verdict(verdict, self._folders[name])
            except PerfgateError as error:
                refused.append(
                    note("not-kept", Severity.INVALID, workload=name, failure=noted(error))
                )
        return tuple(refused)
