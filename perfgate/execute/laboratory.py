"""What makes the runs of one gate: the machine, nsys, commits that are checked out.

Recorded and prepared runs come from one that overrides `look`, `busy`, `start_standby` and `make`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from perfgate.execute.ahead import Wanted, start_together
from perfgate.execute.context import RunContext, at_commit
from perfgate.execute.lab import Against, Invocation, Listener
from perfgate.execute.run import Measured, measure_run
from perfgate.execute.standby import Standby
from perfgate.execute.torch_first import FirstImport
from perfgate.execute.worktree import SHOWN_SHA
from perfgate.machine import read_machine, wait_until_idle
from perfgate.model.errors import PerfgateError
from perfgate.model.machine import Machine
from perfgate.model.note import Note
from perfgate.model.sample import Form
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.tool import NsysTool, find_nsys
from perfgate.system import git
from perfgate.system.process import ignore

IDLE_PATIENCE_S: Final = 10.0
"""How long a GPU may take to become idle before a run: the driver's load figures fade within a
second."""


@dataclass(frozen=True, kw_only=True)
class OtherSide:
    """Another commit, ready to run."""

    commit: Against
    context: RunContext

    @property
    def shown(self) -> str:
        """Its SHA, as messages name it."""
        return self.commit.commit[:SHOWN_SHA]


class Laboratory:
    """What makes the runs of one gate."""

    def __init__(
        self,
        of: Invocation,
        listener: Listener,
        *,
        time_left_s: Callable[[], float] = lambda: math.inf,
        at_end: Callable[[], None] = ignore,
    ) -> None:
        self.asked = of
        self.listener = listener
        self.at_end = at_end
        """Called while the last runs that a workload has asked for end and are read."""
        self._time_left_s = time_left_s
        self.end_standing: Callable[[], None] | None = None
        """Ends the first runs of a workload that are started, and not asked for yet."""
        self._standby: Standby | None = None
        """Workers that are started before it is known which workload they run."""
        self._others: dict[str, OtherSide | PerfgateError] = {}
        """By the commit that was asked for."""
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

    def busy(self, run_id: str = "") -> Note | None:
        """Wait for a GPU that only a run's own processes are on, and note what keeps it busy if it
        does not become so."""
        return wait_until_idle(self.context.machine.gpus, IDLE_PATIENCE_S, run_id=run_id)

    def make(
        self, wanted: Sequence[Wanted], form: Form, then: Callable[[], None] = ignore
    ) -> Generator[Measured]:
        """One run, which is made when it is asked for, or some, which are started at once."""
        standby, self._standby = self._standby, None
        if form is not Form.ALONE:
            return start_together(wanted, form, busy=self.busy, then=then, standby=standby)
        if standby is not None:
            standby.close()
        return (measure_run(one.context, one.workload, one.folder, self.busy()) for one in wanted)

    # The same for all

    @cached_property
    def looked(self) -> tuple[NsysTool, Machine]:
        """What `look` found, once."""
        return self.look()

    @cached_property
    def context(self) -> RunContext:
        """What all runs of the candidates share, from the first one on.

        Raises:
            PerfgateError: as `look` does.
        """
        return self._context()

    def _context(self) -> RunContext:
        tool, machine = self.looked
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

    def other(self, against: Against) -> OtherSide:
        """Another commit, checked out once in a gate. What failed once is not tried again for the
        next workload: a remote or `ab_setup` may take its time.

        Raises:
            RevisionMissing: there is no such commit, and none with the same files.
            RepositoryUnreadable: git does not answer.
            PerfgateError: as `at_commit` does.
        """
        if against.commit not in self._others:
            try:
                self._others[against.commit] = self._check_out(against)
            except PerfgateError as failed:
                self._others[against.commit] = failed
        found = self._others[against.commit]
        if isinstance(found, PerfgateError):
            raise found
        return found

    def start_standby(self, folder: Path, workers: int, torch: FirstImport) -> None:
        """Start workers for the first runs, each in a folder of its own below `folder`.

        Raises:
            StoreFailed: a folder cannot be made.
        """
        self._standby = Standby(self._context(), folder, workers, torch)

    def close(self) -> None:
        """End workers that nobody has wanted, and take away what was checked out."""
        if self._standby is not None:
            self._standby.close()
            self._standby = None
        self._others.clear()
        self._held.close()

    def _check_out(self, against: Against) -> OtherSide:
        say, asked, sha = self.listener.say, self.asked, against.commit
        found = git.obtain(
            asked.root,
            sha,
            tree=against.tree,
            baselines=asked.settings.baselines,
            env=asked.worker_env,
        )
        shown, revision = found[:SHOWN_SHA], against.revision
        if found != sha:
            say(f"  {sha[:SHOWN_SHA]} is gone: {shown} has the same files")
            revision = f"{shown}, which has the files of {revision}"
        say(f"  checking out {shown} next to the project")
        there = at_commit(
            self.context,
            found,
            on_line=lambda line: say(f"  ab_setup: {line}"),
            time_left_s=self._time_left_s(),
        )
        return OtherSide(
            commit=Against(revision=revision, commit=found),
            context=self._held.enter_context(there),
        )
