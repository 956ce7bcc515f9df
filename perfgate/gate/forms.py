"""Which forms of a duet a workload can have, and how each begins: a commit is checked out once for all workloads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import Final

from perfgate.execute import running
from perfgate.gate import Duel, Expectation, Forms
from perfgate.gate.against import SHOWN_SHA, Against, blessed_at
from perfgate.gate.duels import AlternateDuel, InterleavedDuel
from perfgate.gate.listener import Listener
from perfgate.gate.series import Series
from perfgate.model.baseline import Baseline
from perfgate.model.errors import RevisionMissing, WorktreeFailed
from perfgate.model.metric import Metric
from perfgate.model.settings import DuetForm, Settings
from perfgate.system import git

BOUT_STEPS: Final = 10
MOST_BOUTS: Final = 45
BOUTS_S: Final = 4.5
"""Of an interleaved duet: steps of a bout, bouts of a side at most, and seconds that they may take.

On hosts with other work nearly all that pairs differ by is noise of their bouts, of which 15 left 1.3 to 1.9 %; on a
quiet one half of it is, and as much belongs to the two processes (`benchmarks/moods`). A pair takes some 13 s to start
and to end, and 0.1 s a bout.
"""


def steps_in_bouts(step_ms: float | None) -> int:
    """How many steps a side of an interleaved duet takes, in whole bouts and at least three of them."""
    bouts = MOST_BOUTS if not step_ms else int(BOUTS_S * 1000 / step_ms / BOUT_STEPS)
    return BOUT_STEPS * min(max(bouts, 3), MOST_BOUTS)


class Duets:
    """The duets of one gate, with the commits that are checked out for them."""

    def __init__(
        self, against: Against | None, listener: Listener, *, time_left_s: Callable[[], float]
    ) -> None:
        """Take the commit that was asked for; None has each workload compared with its baseline's.

        `time_left_s` tells what is left of the gate's time budget.
        """
        self._against = against
        self._listener = listener
        self._time_left_s = time_left_s
        self._worktrees: dict[str, running.Bench] = {}
        self._failed: dict[str, WorktreeFailed] = {}
        """Commits that could not be made ready: no other workload has to wait for the same."""
        self._commits: dict[str, str | RevisionMissing] = {}
        """What was found of the commits that were asked for."""
        self._held = ExitStack()

    def tidy(self) -> None:
        """Take away what was checked out beside the project."""
        self._worktrees.clear()
        self._held.close()

    def forms(self, expectation: Expectation, series: Series, folder: Path) -> Forms:
        """The forms that a duet of this workload can have; its runs of the other commit are made in `folder`."""
        baseline, bench = expectation.baseline, series.bench
        form = bench.settings.duet
        if self._against is None and (baseline is None or form is DuetForm.OFF):
            return Forms()

        @contextmanager
        def alternate() -> Iterator[Duel]:
            yield self._alternate(expectation, series, folder)

        @contextmanager
        def interleaved() -> Iterator[Duel]:
            yield _interleaved(self._alternate(expectation, series, folder), baseline)

        by_name = form is DuetForm.INTERLEAVE
        can_interleave = expectation.workload.form == "function" and len(bench.machine.gpus) <= 1
        return Forms(
            alternate=None if by_name and can_interleave else alternate,
            interleaved=interleaved
            if can_interleave and form in (DuetForm.AUTO, DuetForm.INTERLEAVE)
            else None,
        )

    def _alternate(self, expectation: Expectation, series: Series, folder: Path) -> AlternateDuel:
        baseline = expectation.baseline
        against, blessed = self._against, None
        if against is None:
            assert baseline is not None  # without one there is no form
            against, blessed = blessed_at(baseline), baseline
        commit = self.found(
            against, root=series.bench.root, settings=series.bench.settings, env=series.bench.env
        )
        same = "" if commit == against.commit else f"{commit[:SHOWN_SHA]}, which has the files of "
        return AlternateDuel(
            revision=f"{same}{against.revision}",
            commit=commit,
            bench=self._beside(series.bench, commit),
            series=series,
            workload=expectation.workload,
            folder=folder,
            listener=self._listener,
            blessed=blessed,
        )

    def found(
        self, against: Against, *, root: Path, settings: Settings, env: Mapping[str, str]
    ) -> str:
        """The commit, or another with the same files; looked for once in a gate, since a remote may take its time.

        Raises:
            RevisionMissing: there is none.
            RepositoryUnreadable: git does not answer.
        """
        sha = against.commit
        if sha not in self._commits:
            try:
                found = git.obtain(
                    root, sha, tree=against.tree, baselines=settings.baselines, env=env
                )
            except RevisionMissing as missing:
                self._commits[sha] = missing
            else:
                self._commits[sha] = found
                if found != sha:
                    self._listener.say(
                        f"  {sha[:SHOWN_SHA]} is gone: {found[:SHOWN_SHA]} has the same files"
                    )
        known = self._commits[sha]
        if isinstance(known, RevisionMissing):
            raise known
        return known

    def _beside(self, bench: running.Bench, commit: str) -> running.Bench:
        """The bench of another commit, which is tried once in a gate."""
        if commit in self._failed:
            raise self._failed[commit]
        if commit not in self._worktrees:
            self._listener.say(f"  checking out {commit[:SHOWN_SHA]} beside the project")
            checkout = running.at_commit(
                bench,
                commit,
                on_line=lambda line: self._listener.say(f"  duet_setup: {line}"),
                time_left_s=self._time_left_s(),
            )
            try:
                self._worktrees[commit] = self._held.enter_context(checkout)
            except WorktreeFailed as failed:
                self._failed[commit] = failed
                raise
        return self._worktrees[commit]


def _interleaved(duel: AlternateDuel, baseline: Baseline | None) -> InterleavedDuel:
    """The same, of both sides at once, and of as many steps as their time allows."""
    series, made = duel.series, () if baseline is None else baseline.values(Metric.STEP_MS)
    step_ms = (
        series.last.value(Metric.STEP_MS)
        if series.last is not None
        else median(made)
        if made
        else None
    )
    return InterleavedDuel(
        **{field.name: getattr(duel, field.name) for field in fields(duel)},
        bout_steps=BOUT_STEPS,
        steps=max(steps_in_bouts(step_ms), duel.workload.steps),
        core=max(os.sched_getaffinity(0)),
    )
