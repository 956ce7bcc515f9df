"""One gate of a project, from what is expected to what it amounts to: its workloads, their runs, what is kept."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from perfgate import gate
from perfgate.execute import running
from perfgate.gate import Checked, Closing, Expectation, Forms, Policy, as_not_measured, expecting
from perfgate.gate.against import SHOWN_SHA, Against, blessed_at
from perfgate.gate.checkout import Checkout
from perfgate.gate.forms import Duets
from perfgate.gate.listener import Listener
from perfgate.gate.series import Series
from perfgate.judge.family import still_sharing
from perfgate.machine import gpu_lock, read_machine
from perfgate.model.baseline import Baseline, Result
from perfgate.model.errors import BaselineUnreadable, GpuTaken, PerfgateError
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.model.tuning import differing
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.tool import find_nsys
from perfgate.store import Store


class Gate:
    """The gate of one invocation: expect, check each workload, close."""

    def __init__(
        self,
        *,
        root: Path,
        settings: Settings,
        env: Mapping[str, str],
        worker_env: Mapping[str, str],
        nsys: str | None,
        pytest_options: tuple[str, ...],
        runs_given: bool,
        budgets_given: Collection[Metric] = (),
        against: Against | None = None,
        keep_captures: bool,
        listener: Listener,
    ) -> None:
        self.root = root
        self.settings = settings
        self.store = Store(root, settings.baselines)
        self.checkout = Checkout(root, baselines=settings.baselines)
        self.started_at = datetime.now(UTC)
        self.verdicts: dict[str, Verdict] = {}
        self.workloads: dict[str, Workload] = {}
        """Those that came to be checked, by id."""
        self._env, self._worker_env = env, worker_env
        self.cleaner = Cleaner({**env, **worker_env}, settings.pass_env)
        """Takes secrets out of all that is kept and told of this gate."""
        self._nsys = nsys
        self._pytest_options = pytest_options
        self._runs_given = runs_given
        self._budgets_given = frozenset(budgets_given)
        self._against = against
        self._keep_captures = keep_captures
        self._listener = listener
        self._duets = Duets(against, listener, time_left_s=self._time_left_s)
        self._expected = 1
        self._elsewhere: frozenset[str] = frozenset()
        self._bench: running.Bench | PerfgateError | None = None
        self._checked: dict[str, Checked] = {}
        self._folders: dict[str, Path] = {}
        self._is_clear = False

    def tidy(self) -> None:
        """Take away what was checked out beside the project."""
        self._duets.tidy()

    # What is expected

    def expect(
        self, workloads: Sequence[Workload], *, elsewhere: frozenset[str] = frozenset()
    ) -> None:
        """Take what is to be measured here, and what other shards of the same gate measure `elsewhere`."""
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
        """Among how many workloads the clocks share the error: all shards are one gate."""
        return self._expected + len(self._elsewhere)

    @property
    def blessed(self) -> frozenset[str]:
        """The workloads that have a baseline on this machine, as far as that can be read."""
        try:
            slug = None if self.machine is None else self.machine.slug
            return (
                frozenset(one.workload for one in self.store.baselines.listed(slug))
                if slug
                else frozenset()
            )
        except BaselineUnreadable:
            return frozenset()

    @property
    def machine(self) -> Machine | None:
        """The machine, as far as it has been looked at."""
        return self._bench.machine if isinstance(self._bench, running.Bench) else None

    def policy(self, workload: Workload | None) -> Policy:
        """The policy for one workload; for all together without one."""
        lost = sum(_lost_by_clocks(verdict) for verdict in self.verdicts.values())
        return Policy.from_settings(
            self.settings,
            workload,
            runs_given=self._runs_given,
            budgets_given=self._budgets_given,
            workloads=still_sharing(lost, workloads=self.sharing),
        )

    def opens(self, verdict: Verdict) -> bool:
        """Whether a verdict lets the build pass under the settings."""
        return self.policy(self.workloads[verdict.workload]).opens(verdict)

    # The path of one workload

    def check(self, workload: Workload) -> Verdict:
        """Measure and judge one workload, keep the result, and return the verdict.

        One gate gives one verdict: a plugin that runs failed items again gets the first, not another chance.
        """
        if workload.id in self.verdicts:
            return self.verdicts[workload.id]
        self.workloads[workload.id] = workload
        bench = self._ready()
        if isinstance(bench, PerfgateError):
            verdict = as_not_measured(workload.id, bench)
        else:
            verdict = self._measured(bench, workload)
        verdict = self.cleaner.record(verdict)
        self.verdicts[workload.id] = verdict
        return verdict

    def _ready(self) -> running.Bench | PerfgateError:
        """Find nsys and look at the machine, once; what cannot be found leaves every workload unmeasured."""
        if self._bench is None:
            _ = self.checkout.commit  # while the working tree is as it was checked out
            try:
                tool = find_nsys(self._nsys, self._env, setting=self.settings.nsys)
                options = trace_options(graph_trace=self.settings.cuda_graph_trace)
                machine = read_machine(self._env, nsys=str(tool.version), nsys_options=options)
                expecting.refuse_other_machine(machine, self.settings.machine)
                self._bench = running.Bench(
                    root=self.root,
                    settings=self.settings,
                    tool=tool,
                    machine=machine,
                    env=self._worker_env,
                    python=sys.executable,
                    pytest_options=self._pytest_options,
                    keep_captures=self._keep_captures,
                )
            except PerfgateError as missing:
                self._bench = missing
        return self._bench

    def _measured(self, bench: running.Bench, workload: Workload) -> Verdict:
        started_at = datetime.now(UTC)
        if self._time_left_s() <= 0:
            return self._too_late(workload)
        expectation = expecting.expectation_of(self.store, workload, bench.machine, root=self.root)
        try:
            folder = self.store.results.new_folder(workload.id, bench.machine.slug, at=started_at)
        except PerfgateError as refused:
            return as_not_measured(workload.id, refused)
        self._folders[workload.id] = folder
        series = Series(bench=bench, workload=workload, folder=folder, listener=self._listener)
        with self._listener.of(workload.id), ExitStack() as held:
            left_s = round(self._time_left_s(), 1)
            try:
                held.enter_context(
                    gpu_lock(
                        bench.machine.gpus,
                        timeout_s=min(self.settings.lock_timeout_s, left_s),
                        on_wait=self._listener.say,
                        workload=workload.id,
                    )
                )
                self._clear_up()
            except PerfgateError as taken:
                _remove_if_empty(folder)
                is_late = isinstance(taken, GpuTaken) and left_s < self.settings.lock_timeout_s
                return self._too_late(workload) if is_late else as_not_measured(workload.id, taken)
            checked = self._judged(expectation, series, folder)
        self._checked[workload.id] = checked
        try:
            self._keep(checked, series, folder, started_at)
        except PerfgateError as refused:
            return as_not_measured(workload.id, refused)
        return checked.verdict

    def _clear_up(self) -> None:
        """End what killed gates have left running, and remove what they have left half done.

        Raises:
            GpuTaken: it cannot be ended.
        """
        running.end_killed_gates(self._listener.say)
        if not self._is_clear:
            self._is_clear = True
            running.remove_killed_runs(self.store.results.folder, self._listener.say, self.cleaner)
            self.store.baselines.remove_torn()

    def _too_late(self, workload: Workload) -> Verdict:
        return Verdict(
            workload=workload.id,
            outcome=Outcome.NOT_MEASURED,
            why=quoted(
                f"the time budget of {self.settings.time_budget_s:g} s was spent before it came to it."
            ),
            next=quoted(
                "Allow more time (--perfgate-time-budget), or gate fewer workloads at once."
            ),
        )

    def _judged(self, expectation: Expectation, series: Series, folder: Path) -> Checked:
        """Measure and judge, with the GPU held, and say before what that takes."""
        policy, forms = (
            self.policy(expectation.workload),
            self._duets.forms(expectation, series, folder),
        )
        self._say_what_it_takes(expectation, policy, forms)
        checked = gate.check(
            expectation,
            policy,
            series,
            forms.alternate,
            interleaved=forms.interleaved,
            against=self._against is not None,
            own_environment=bool(self.settings.duet_setup) or self.settings.duet_python is not None,
            affords=self._affords,
        )
        verdict, same = series.annotated(checked.verdict), self.checkout.same_as(self._against)
        baseline = expectation.baseline
        if baseline is not None:
            then = sorted(baseline.occasions, key=lambda one: one.measured_at)
            told = differing((one.environment for one in then), series.environment)
            verdict = _warned(verdict, told)
        if same:  # what this gate cannot find
            verdict = _warned(verdict, same)
        if verdict.outcome in (Outcome.NO_BASELINE, Outcome.INCOMPARABLE) and (
            told := self._uncommitted()
        ):
            verdict = verdict.model_copy(update={"notes": (*verdict.notes, quoted(told))})
        return checked.model_copy(update={"verdict": verdict, "environment": series.environment})

    def _uncommitted(self) -> str:
        """What a baseline of these runs would lack; empty where a commit holds what was measured, or there is none."""
        commit = self.checkout.measured()
        if commit is None or not commit.dirty:
            return ""
        named = f" ({listed})" if (listed := ", ".join(self.checkout.uncommitted())) else ""
        return (
            f"Measured with uncommitted changes{named}: a baseline of these runs would have no duet. Commit or ignore "
            "them, and gate again, before it is blessed"
        )

    def _keep(self, checked: Checked, series: Series, folder: Path, started_at: datetime) -> None:
        # Kept without runs as well: bless must not take an older result for this one.
        commit = self.checkout.measured()
        result = Result(
            workload=self.workloads[checked.verdict.workload],
            machine=series.machine,
            commit=commit,
            uncommitted=self.checkout.uncommitted() if commit is not None and commit.dirty else (),
            measured_at=started_at,
            code=series.code,
            runs=checked.runs,
            reference_runs=checked.reference_runs,
            interleaved_runs=checked.interleaved_runs,
            environment=checked.environment,
            verdict=checked.verdict,
        )
        self.store.results.save(self.cleaner.record(result), folder)

    # What it takes

    def _affords(self, runs: int, seconds: float) -> bool:
        """Whether so many runs are within the budget of time, and first looks at what is still to be measured."""
        to_come = max(self._expected - len(self.verdicts) - 1, 0) * self.settings.runs
        return (runs + to_come) * seconds <= self._time_left_s()

    def _time_left_s(self) -> float:
        budget = self.settings.time_budget_s
        return math.inf if budget is None else budget - self._passed_s()

    def _passed_s(self) -> float:
        return (datetime.now(UTC) - self.started_at).total_seconds()

    def _say_what_it_takes(self, expectation: Expectation, policy: Policy, forms: Forms) -> None:
        """Say before it is spent what is to be spent, and what that can show."""
        none = self._why_no_duet(expectation.baseline, forms)
        lines = gate.forecast(
            expectation,
            policy,
            run_s=self._last_run_s(expectation),
            duet=forms.alternate is not None and not none,
            interleaved=forms.interleaved is not None and not none,
            against=None if self._against is None else self._against.revision,
        )
        same = self.checkout.same_as(self._against)
        self._listener.plan(
            (*lines, *([f"no duet: {none}"] if none else []), *([same] if same else []))
        )

    def _why_no_duet(self, baseline: Baseline | None, forms: Forms) -> str:
        """Why the baseline's commit cannot be run again, which is known before; empty where it may."""
        if self._against is not None or baseline is None or forms == Forms():
            return ""
        commit = ""
        try:
            blessed = blessed_at(baseline)
            commit = blessed.commit
            self._duets.found(blessed, root=self.root, settings=self.settings, env=self._worker_env)
        except PerfgateError as missing:
            why = f"commit {commit[:SHOWN_SHA]}: {missing.fact}" if commit else missing.fact
            return f"{why}. {missing.next_step}" if missing.next_step else why
        return ""

    def _last_run_s(self, expectation: Expectation) -> float | None:
        """What a run took when this workload was last measured here, s."""
        try:
            latest = self.store.results.latest(expectation.workload.id, expectation.machine.slug)
        except PerfgateError:
            return None
        return (
            median(run.wall_s for run in latest.result.runs)
            if latest is not None and latest.result.runs
            else None
        )

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

    # What the whole amounts to

    def close(
        self,
        collected: Sequence[Workload],
        *,
        skipped: Collection[str] = (),
        skipped_files: Mapping[str, str] | None = None,
        chosen: Callable[[str, str | None], bool],
        paths: Sequence[Path] = (),
    ) -> Closing:
        """What the whole invocation amounts to.

        `chosen` says whether a workload with a baseline is to be measured here, by its id and its file as far as that
        is known; `paths` are files and folders that were named for that; `skipped_files` have why they skipped
        themselves: nobody knows which workloads they hold.
        """
        not_kept = self.step_down()
        missed, policy = self._missed(collected, skipped=skipped), self.policy(None)
        bench, known = self._ready(), {workload.id for workload in collected}
        orphans: dict[str, str | None] = {}
        lost = ""
        try:
            if isinstance(bench, running.Bench):
                orphans = expecting.orphans(self.store, bench.machine, known, chosen)
            if isinstance(bench, running.Bench) and self.settings.machine is None:
                lost = expecting.lost_with_gpus(self.store, bench.machine, self.verdicts, chosen)
        except BaselineUnreadable as broken:
            closing = gate.close(missed, self.verdicts, policy)
            return Closing(
                opens=False, shut_by=(*closing.shut_by, *not_kept, str(broken).replace("\n", " "))
            )
        moved = {name: file for name, file in orphans.items() if file is not None and paths}
        closing = gate.close(
            missed,
            self.verdicts,
            policy,
            orphans=[name for name in orphans if name not in moved],
            gone=moved,
            skipped_files=skipped_files,
        )
        further = (*filter(None, (lost,)), *not_kept)
        return Closing(opens=False, shut_by=(*closing.shut_by, *further)) if further else closing

    def _missed(
        self, collected: Sequence[Workload], *, skipped: Collection[str]
    ) -> tuple[str, ...]:
        """The collected workloads that a measurement is expected of.

        That is all of them but those which were `skipped` and never had a baseline here: a workload for two GPUs may
        skip itself on a machine with one.
        """
        bench = self._ready()
        if isinstance(bench, PerfgateError) or not self.verdicts:
            return tuple(workload.id for workload in collected)
        return tuple(
            workload.id
            for workload in collected
            if workload.id not in skipped
            or workload.id in self.verdicts
            or self.baseline_file(workload.id) is not None
        )

    def step_down(self) -> tuple[str, ...]:
        """Take up the losses that show now that all workloads are judged (Holm), in what is kept too.

        Returns what could not be kept, a line each.
        """
        changed = gate.step_down_clocks(self.verdicts, workloads=self.sharing)
        self.verdicts |= changed
        refused: list[str] = []
        for name, verdict in changed.items():
            try:
                self.store.results.save_verdict(verdict, self._folders[name])
            except PerfgateError as error:
                refused.append(f"{name}: {error}".replace("\n", " "))
        return tuple(refused)


def _lost_by_clocks(verdict: Verdict) -> bool:
    """Whether a clock's loss was shown at the level that the workload had to share with the others."""
    return verdict.loss_level is not None and verdict.loss_level * verdict.workloads <= 1


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _warned(verdict: Verdict, warning: str | None) -> Verdict:
    notes = (quoted(warning, Severity.WARN),) if warning else ()
    return verdict.model_copy(update={"notes": (*verdict.notes, *notes)})
