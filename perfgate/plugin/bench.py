"""What a gate under pytest is made of: settings, store, machine and nsys, and the verdicts so far."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from perfgate import __version__, gate, git, running
from perfgate.judge.family import still_sharing
from perfgate.machine import gpu_lock, read_machine
from perfgate.model.baseline import Baseline, Commit, Result
from perfgate.model.errors import BaselineUnreadable, PerfgateError, RevisionMissing
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.settings import DuetForm, Settings
from perfgate.model.shard import Shard
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.nsys.command import trace_options
from perfgate.nsys.tool import find_nsys
from perfgate.pages import Shelf
from perfgate.plugin.progress import Progress
from perfgate.plugin.series import SHOWN_SHA, InterleavedDuel, Series, WorktreeDuel
from perfgate.render.document import DocumentRun, DocumentWorkload, GateDocument, declared_at
from perfgate.render.junit import properties
from perfgate.render.page import Page
from perfgate.render.text import summary, verdict_table, why_shut
from perfgate.store import Store

BOUT_STEPS: Final = 10
MOST_BOUTS: Final = 45
BOUTS_S: Final = 4.5
"""Of an interleaved duet: steps of a bout, bouts of a side at most, and seconds that they may take.

On hosts with other work nearly all that pairs differ by is noise of their bouts, of which 15 left 1.3 to 1.9 %; on a
quiet one half of it is, and as much belongs to the two processes (`benchmarks/moods`). A pair takes some 13 s to start
and to end, and 0.1 s a bout.
"""

MOST_UNCOMMITTED: Final = 3
"""Paths that are kept of what no commit holds."""


def steps_in_bouts(step_ms: float | None) -> int:
    """How many steps a side of an interleaved duet takes, in whole bouts and at least three of them."""
    bouts = MOST_BOUTS if not step_ms else int(BOUTS_S * 1000 / step_ms / BOUT_STEPS)
    return BOUT_STEPS * min(max(bouts, 3), MOST_BOUTS)


class PytestGate:
    """One invocation of `pytest --perfgate`."""

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
        label: str = "",
        shard: Shard | None = None,
        keep_captures: bool,
        progress: Progress,
        width: int,
        colour: bool,
    ) -> None:
        self.root = root
        self.settings = settings
        self.store = Store(root, settings.baselines)
        self.verdicts: dict[str, Verdict] = {}
        self._env, self._worker_env = env, worker_env
        self._nsys = nsys
        self._pytest_options = pytest_options
        self._runs_given = runs_given
        self._budgets_given = frozenset(budgets_given)
        self._against = against
        self._label = label
        self._shard = shard
        self._expected = 1
        self._elsewhere: frozenset[str] = frozenset()
        self._worktrees: dict[str, running.Bench] = {}
        self._held = ExitStack()
        self._keep_captures = keep_captures
        self._progress = progress
        self._width = width
        self._colour = colour
        self._started_at = datetime.now(UTC)
        self._bench: running.Bench | PerfgateError | None = None
        self._checked: dict[str, gate.Checked] = {}
        self._folders: dict[str, Path] = {}
        self._workloads: dict[str, Workload] = {}

    def expect(self, workloads: Sequence[Workload], *, elsewhere: frozenset[str] = frozenset()) -> None:
        """Take what is to be measured here, and what other shards of the same gate measure `elsewhere`."""
        self._expected = max(len(workloads), 1)
        self._elsewhere = elsewhere

    @property
    def _sharing(self) -> int:
        """Among how many workloads the clocks share the error: all shards are one gate."""
        return self._expected + len(self._elsewhere)

    def tidy(self) -> None:
        """Take away what was checked out beside the project."""
        self._worktrees.clear()
        self._held.close()

    # The path of one workload

    def check(self, workload: Workload) -> Verdict:
        """Measure and judge one workload, keep the result, and return the verdict.

        One gate gives one verdict: a plugin that runs failed items again gets the first, not another chance.
        """
        if workload.id in self.verdicts:
            return self.verdicts[workload.id]
        self._workloads[workload.id] = workload
        bench = self._ready()
        if isinstance(bench, PerfgateError):
            verdict = gate.as_not_measured(workload.id, bench)
        else:
            verdict = self._measured(bench, workload)
        self.verdicts[workload.id] = verdict
        return verdict

    def opens(self, verdict: Verdict) -> bool:
        """Whether a verdict lets the build pass under the settings."""
        return self._policy(self._workloads[verdict.workload]).opens(verdict.outcome)

    def _policy(self, workload: Workload | None) -> gate.Policy:
        """The policy for one workload; for all together without one."""
        lost = sum(_lost_by_clocks(verdict) for verdict in self.verdicts.values())
        return gate.Policy.from_settings(
            self.settings,
            workload,
            runs_given=self._runs_given,
            budgets_given=self._budgets_given,
            workloads=still_sharing(lost, workloads=self._sharing),
        )

    def _ready(self) -> running.Bench | PerfgateError:
        """Find nsys and look at the machine, once; what cannot be found leaves every workload unmeasured."""
        if self._bench is None:
            _ = self._commit  # while the working tree is as it was checked out
            try:
                tool = find_nsys(self._nsys, self._env, setting=self.settings.nsys)
                options = trace_options(trace_osrt=self.settings.trace_osrt, graph_trace=self.settings.cuda_graph_trace)
                self._bench = running.Bench(
                    root=self.root,
                    settings=self.settings,
                    tool=tool,
                    machine=read_machine(self._env, nsys=str(tool.version), nsys_options=options),
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
        budget = self.settings.time_budget_s
        if budget is not None and self._passed_s() >= budget:
            return Verdict(
                workload=workload.id,
                outcome=Outcome.NOT_MEASURED,
                reason=f"the time budget of {budget:g} s was spent before it came to it.",
                next_step="Allow more time (--perfgate-time-budget), or gate fewer workloads at once.",
            )
        expectation = self._expect(workload, bench.machine)
        try:
            folder = self.store.new_folder(workload.id, bench.machine.slug, at=started_at)
        except PerfgateError as refused:
            return gate.as_not_measured(workload.id, refused)
        self._folders[workload.id] = folder
        series = Series(bench=bench, workload=workload, folder=folder, progress=self._progress)
        alternate, interleaved = self._duets_of(expectation, bench, series, folder)
        policy = self._policy(workload)
        with self._progress.of(workload.id), ExitStack() as held:
            try:
                held.enter_context(
                    gpu_lock(
                        bench.machine.gpus,
                        timeout_s=self.settings.lock_timeout_s,
                        on_wait=self._progress.say,
                        workload=workload.id,
                    )
                )
            except PerfgateError as taken:
                _remove_if_empty(folder)
                return gate.as_not_measured(workload.id, taken)
            self._say_what_it_takes(
                expectation, policy, alternate=alternate is not None, interleaved=interleaved is not None
            )
            checked = gate.check(
                expectation,
                policy,
                series,
                alternate,
                interleaved=interleaved,
                against=self._against is not None,
                own_environment=bool(self.settings.duet_setup) or self.settings.duet_python is not None,
                affords=self._affords,
            )
        checked = checked.model_copy(update={"verdict": self._with_caveat(series.annotated(checked.verdict))})
        self._checked[workload.id] = checked
        try:
            self._keep(workload, folder, series, checked, started_at)
        except PerfgateError as refused:
            return gate.as_not_measured(workload.id, refused)
        return checked.verdict

    def _duets_of(
        self, expectation: gate.Expectation, bench: running.Bench, series: Series, folder: Path
    ) -> tuple[gate.OpenDuel | None, gate.OpenDuel | None]:
        """What makes the other commit ready to be run beside the candidate: alternately, and interleaved.

        None of what is not wanted, or not possible.
        """
        baseline, workload, form = expectation.baseline, expectation.workload, self.settings.duet
        if self._against is None and (baseline is None or form is DuetForm.OFF):
            return None, None

        def of_commit() -> WorktreeDuel:
            against = self._against or _blessed_at(baseline)
            return WorktreeDuel(
                revision=against.revision,
                commit=against.commit,
                bench=self._beside(bench, against.commit),
                series=series,
                workload=workload,
                folder=folder,
                progress=self._progress,
                blessed_code=baseline.code if self._against is None and baseline is not None else None,
            )

        @contextmanager
        def alternate() -> Iterator[gate.Duel]:
            yield of_commit()

        @contextmanager
        def interleaved() -> Iterator[gate.Duel]:
            duel = of_commit()
            made = () if baseline is None else baseline.values(Metric.STEP_MS)
            step_ms = series.last.value(Metric.STEP_MS) if series.last is not None else median(made) if made else None
            yield InterleavedDuel(
                **{field.name: getattr(duel, field.name) for field in fields(duel)},
                bout_steps=BOUT_STEPS,
                steps=max(steps_in_bouts(step_ms), workload.steps),
                core=max(os.sched_getaffinity(0)),
            )

        by_name = form is DuetForm.INTERLEAVE
        can_interleave = workload.form == "function" and len(bench.machine.gpus) <= 1
        return (
            None if by_name and can_interleave else alternate,
            interleaved if can_interleave and form in (DuetForm.AUTO, DuetForm.INTERLEAVE) else None,
        )

    def _beside(self, bench: running.Bench, commit: str) -> running.Bench:
        """The bench of another commit, checked out once for all workloads of this gate."""
        if commit not in self._worktrees:
            git.resolve(self.root, commit, env=bench.env)
            self._progress.say(f"  checking out {commit[:SHOWN_SHA]} beside the project")
            self._worktrees[commit] = self._held.enter_context(
                running.at_commit(bench, commit, on_line=lambda line: self._progress.say(f"  duet_setup: {line}"))
            )
        return self._worktrees[commit]

    def _affords(self, runs: int, seconds: float) -> bool:
        """Whether so many runs are within the budget of time, and first looks at what is still to be measured."""
        if self.settings.time_budget_s is None:
            return True
        to_come = max(self._expected - len(self.verdicts) - 1, 0) * self.settings.runs
        return self._passed_s() + (runs + to_come) * seconds <= self.settings.time_budget_s

    def _passed_s(self) -> float:
        return (datetime.now(UTC) - self._started_at).total_seconds()

    def _say_what_it_takes(
        self, expectation: gate.Expectation, policy: gate.Policy, *, alternate: bool, interleaved: bool
    ) -> None:
        """Say before it is spent what is to be spent, and what that can show."""
        last = self._last_run_s(expectation)
        none = commit = ""
        if self._against is None and expectation.baseline is not None and (alternate or interleaved):
            try:
                commit = _blessed_at(expectation.baseline).commit
                git.resolve(self.root, commit, env=self._worker_env)
            except PerfgateError as missing:
                none = f"commit {commit[:SHOWN_SHA]}: {missing.fact}" if commit else missing.fact
        lines = gate.forecast(
            expectation,
            policy,
            run_s=last,
            duet=alternate and not none,
            interleaved=interleaved and not none,
            against=None if self._against is None else self._against.revision,
        )
        same = self._same_commit
        self._progress.plan((*lines, *([f"no duet: {none}"] if none else []), *([same] if same else [])))

    @property
    def _same_commit(self) -> str:
        """Say that both sides of what was asked for are one commit; empty where they are not, or git does not say."""
        against, here = self._against, self._commit
        if against is None or here is None or here.dirty or here.sha != against.commit:
            return ""
        return (
            f"both sides are commit {here.sha[:SHOWN_SHA]}: {against.revision} is what is checked out, without "
            "changes, so no change of the code can be found"
        )

    def _with_caveat(self, verdict: Verdict) -> Verdict:
        """The verdict with what this gate cannot find, where that is anything."""
        same = self._same_commit
        return verdict.model_copy(update={"caveats": (*verdict.caveats, same)}) if same else verdict

    def _last_run_s(self, expectation: gate.Expectation) -> float | None:
        """What a run took when this workload was last measured here, s."""
        try:
            latest = self.store.latest_result(expectation.workload.id, expectation.machine.slug)
        except PerfgateError:
            return None
        return median(run.wall_s for run in latest.result.runs) if latest is not None and latest.result.runs else None

    def _expect(self, workload: Workload, machine: Machine) -> gate.Expectation:
        baseline: Baseline | None = None
        trouble: str | None = None
        elsewhere: tuple[str, ...] = ()
        misplaced: tuple[str, ...] = ()
        try:
            baseline = self.store.load_baseline(machine.slug, workload.id)
            if baseline is None:
                elsewhere = self._gpus_blessed_for(workload.id)
                misplaced = self._misplaced(workload.id, machine)
        except BaselineUnreadable as broken:
            trouble = str(broken)
        return gate.Expectation(
            workload=workload,
            machine=machine,
            baseline=baseline,
            trouble=trouble,
            elsewhere=elsewhere,
            misplaced=misplaced,
        )

    def _misplaced(self, workload: str, machine: Machine) -> tuple[str, ...]:
        """Files of baselines for this machine in folders of other names: renamed, or in letters of another case."""
        slugs = self.store.other_machines(workload)
        listed = [one for slug in slugs for one in self.store.baselines(slug) if one.workload == workload]
        return tuple(
            os.path.relpath(one.path, self.root)
            for one in listed
            if isinstance(one.found, Baseline) and one.found.machine.slug == machine.slug
        )

    def _gpus_blessed_for(self, workload: str) -> tuple[str, ...]:
        """GPUs by name; by folder where the baseline in it is broken, which is another machine's trouble."""
        slugs = self.store.other_machines(workload)
        listed = [one for slug in slugs for one in self.store.baselines(slug) if one.workload == workload]
        return tuple(one.found.machine.gpu_name if isinstance(one.found, Baseline) else one.slug for one in listed)

    def _keep(
        self,
        workload: Workload,
        folder: Path,
        series: Series,
        checked: gate.Checked,
        started_at: datetime,
    ) -> None:
        # Kept without runs as well: bless must not take an older result for this one.
        commit = self._commit_measured()
        result = Result(
            workload=workload,
            machine=series.machine,
            commit=commit,
            uncommitted=self._uncommitted() if commit is not None and commit.dirty else (),
            measured_at=started_at,
            code=series.code,
            runs=checked.runs,
            reference_runs=checked.reference_runs,
            interleaved_runs=checked.interleaved_runs,
            verdict=checked.verdict,
        )
        self.store.save_result(result, folder)

    # What is told

    def table(self, verdict: Verdict) -> str:
        """One workload's verdict as a table."""
        return verdict_table(verdict, width=self._width, colour=self._colour, files=self._files(verdict.workload))

    def properties(self, verdict: Verdict) -> list[tuple[str, object]]:
        """One workload's verdict as JUnit properties."""
        return [(name, value) for name, value in properties(verdict)]

    def orphans(self, collected: Sequence[Workload]) -> tuple[str, ...]:
        """Baselines of this machine that belong to none of the collected workloads, by workload id."""
        bench = self._ready()
        if isinstance(bench, PerfgateError):
            return ()
        known = {workload.id for workload in collected} | self._elsewhere
        return tuple(
            listed.workload for listed in self.store.baselines(bench.machine.slug) if listed.workload not in known
        )

    def gone(self, collected: Sequence[Workload], named: Sequence[Path]) -> dict[str, str]:
        """Baselines of this machine whose file was named, and does not declare their workload: the file, by workload.

        Not of baselines that do not know their file: those of one that was is not told from others.
        """
        bench = self._ready()
        if not named or isinstance(bench, PerfgateError):
            return {}
        known = {workload.id for workload in collected} | self._elsewhere
        found: dict[str, str] = {}
        for listed in self.store.baselines(bench.machine.slug):
            source = listed.found.source if isinstance(listed.found, Baseline) else None
            if listed.workload in known or source is None:
                continue
            file = (self.root / source).resolve()
            if any(file.is_relative_to(path) for path in named):
                found[listed.workload] = source
        return found

    def missed(self, collected: Sequence[Workload], *, skipped: Collection[str] = ()) -> tuple[str, ...]:
        """The collected workloads that a measurement is expected of.

        That is all of them but those which were `skipped` and never had a baseline here: a workload for two GPUs may
        skip itself on a machine with one.
        """
        bench = self._ready()
        if isinstance(bench, PerfgateError) or not self.verdicts:
            return tuple(workload.id for workload in collected)
        slug = bench.machine.slug
        return tuple(
            workload.id
            for workload in collected
            if workload.id not in skipped
            or workload.id in self.verdicts
            or os.path.lexists(self.store.baseline_path(slug, workload.id))
        )

    def close(
        self,
        collected: Sequence[Workload],
        *,
        skipped: Collection[str] = (),
        skipped_files: Mapping[str, str] | None = None,
        whole: bool,
        named: Sequence[Path] = (),
    ) -> gate.Closing:
        """What the whole invocation amounts to; `whole` tells that every workload of the project was asked for.

        `named` are files and folders of which every workload was; `skipped_files` have why they skipped themselves:
        nobody knows which workloads they hold.
        """
        not_kept = self.step_down()
        missed, policy = self.missed(collected, skipped=skipped), self._policy(None)
        try:
            orphans = self.orphans(collected) if whole else ()
            gone = {} if whole else self.gone(collected, named)
        except BaselineUnreadable as broken:
            closing = gate.close(missed, self.verdicts, policy)
            return gate.Closing(opens=False, shut_by=(*closing.shut_by, *not_kept, str(broken).replace("\n", " ")))
        closing = gate.close(missed, self.verdicts, policy, orphans=orphans, gone=gone, skipped_files=skipped_files)
        return gate.Closing(opens=False, shut_by=(*closing.shut_by, *not_kept)) if not_kept else closing

    def step_down(self) -> tuple[str, ...]:
        """Take up the losses that show now that all workloads are judged (Holm), in what is kept too.

        Returns what could not be kept, a line each.
        """
        changed = gate.step_down_clocks(self.verdicts, workloads=self._sharing)
        self.verdicts |= changed
        refused: list[str] = []
        for name, verdict in changed.items():
            try:
                self.store.save_verdict(verdict, self._folders[name])
            except PerfgateError as error:
                refused.append(f"{name}: {error}".replace("\n", " "))
        return tuple(refused)

    def told(self, closing: gate.Closing, *, hidden: Sequence[str] = (), why: str = "") -> str:
        """The terminal summary: tables that nothing above has shown, a line a workload, and what else shuts the gate.

        `hidden` are workloads whose failure pytest does not show; `why` comes before all other reasons.
        """
        tables = [
            self.table(verdict)
            for name, verdict in self.verdicts.items()
            if name in hidden or (verdict.outcome is not Outcome.PASSED and self.opens(verdict))
        ]
        judged = {f"{name}: {verdict.outcome}" for name, verdict in self.verdicts.items()}
        missing = [] if why else [line for line in closing.shut_by if line not in judged]
        shutting = Counter(verdict.outcome for verdict in self.verdicts.values() if not self.opens(verdict))
        alone = len(missing) == 1 and not shutting
        why = why or why_shut(shutting, missing, place="above")
        closed = summary(
            list(self.verdicts.values()),
            opens=closing.opens,
            width=self._width,
            colour=self._colour,
            on_inconclusive=self.settings.inconclusive,
            on_new=self.settings.new,
            why="" if closing.opens else why,
        ).splitlines()
        page = Page(width=self._width, colour=self._colour)
        if self._sharing > 1 and any(verdict.stage is not None for verdict in self.verdicts.values()):
            shared = (
                f"Among {self._sharing} workloads, clocks share the 1 % of false alarms that a gate may give (Holm)."
            )
            page.prose(shared, indent=0)
        for line in () if alone else missing:
            page.prose(line, indent=0)
        return "\n".join([*tables, *closed[:-1], *page.text.splitlines(), closed[-1]])

    def document(self, closing: gate.Closing, *, exit_status: int) -> GateDocument:
        """Everything found."""
        workloads = tuple(self._documented(name, verdict) for name, verdict in self.verdicts.items())
        return GateDocument(
            perfgate=__version__,
            started_at=self._started_at,
            ended_at=datetime.now(UTC),
            opens_gate=closing.opens,
            exit_status=exit_status,
            shut_by=closing.shut_by,
            machine=self._bench.machine if isinstance(self._bench, running.Bench) else None,
            commit=self._commit,
            label=self._label,
            shard=self._shard,
            settings=self.settings,
            workloads=workloads,
        )

    def _documented(self, name: str, verdict: Verdict) -> DocumentWorkload:
        checked = self._of(name)
        source, line = declared_at(self._workloads[name])
        return DocumentWorkload(
            verdict=verdict,
            opens_gate=self._policy(None).opens(verdict.outcome),
            runs=tuple(map(DocumentRun.of, checked.runs)),
            reference_runs=tuple(map(DocumentRun.of, checked.reference_runs)),
            interleaved_runs=tuple(map(DocumentRun.of, checked.interleaved_runs)),
            baseline=self._baseline_file(name),
            files=self._files(name),
            source=source,
            line=line,
        )

    @cached_property
    def _commit(self) -> Commit | None:
        """What is checked out, asked once and before anything is measured or written."""
        return git.read_commit(self.root, baselines=self.settings.baselines)

    def _commit_measured(self) -> Commit | None:
        """The commit that was checked out when the gate began; dirty if the checkout has changed since."""
        began, now = self._commit, git.read_commit(self.root, baselines=self.settings.baselines)
        if began is None or now is None:
            return now
        return began if (now.sha, now.dirty) == (began.sha, False) else began.model_copy(update={"dirty": True})

    def _uncommitted(self) -> tuple[str, ...]:
        try:
            return git.changes(self.root, baselines=self.settings.baselines)[:MOST_UNCOMMITTED]
        except PerfgateError:
            return ()

    @property
    def shelf(self) -> Shelf:
        """Where results and baselines are kept."""
        return Shelf(root=self.root, store=self.store, baselines=self.settings.baselines)

    def _of(self, workload: str) -> gate.Checked:
        return self._checked.get(workload) or gate.Checked(verdict=self.verdicts[workload])

    def _baseline_file(self, workload: str) -> str | None:
        if not isinstance(self._bench, running.Bench):
            return None
        file = self.store.baseline_path(self._bench.machine.slug, workload)
        return os.path.relpath(file, self.root) if os.path.lexists(file) else None

    def _files(self, workload: str) -> str | None:
        folder = self._folders.get(workload)
        if folder is None or not folder.is_dir():
            return None
        return os.path.relpath(folder, self.root)


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """Another commit to compare with."""

    revision: str
    """As it was asked for."""
    commit: str
    """SHA."""


def _blessed_at(baseline: Baseline | None) -> Against:
    """The commit that a baseline was measured at.

    Raises:
        RevisionMissing: nobody noted it.
    """
    commits = () if baseline is None else tuple(occasion.commit for occasion in baseline.occasions)
    known = [commit for commit in commits if commit is not None]
    if baseline is None or not known:
        raise RevisionMissing(
            subject="the baseline's commit",
            fact="the baseline does not say at which commit it was measured",
            next_step="Measure in a git repository and bless anew, so that it can be run again.",
        )
    found = next((commit for commit in reversed(known) if not commit.dirty), known[-1])
    if found.dirty:
        raise RevisionMissing(
            subject=f"the baseline's commit {found.sha[:SHOWN_SHA]}",
            fact="the baseline was measured with uncommitted changes, which no commit holds",
            next_step="Bless from a commit without changes, so that it can be run again.",
        )
    return Against(revision=f"the baseline's commit {found.sha[:SHOWN_SHA]}", commit=found.sha)


def _lost_by_clocks(verdict: Verdict) -> bool:
    """Whether a clock's loss was shown at the level that the workload had to share with the others."""
    return verdict.loss_level is not None and verdict.loss_level * verdict.workloads <= 1


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


GATE = pytest.StashKey[PytestGate]()
"""The gate of this invocation, in `config.stash`."""
