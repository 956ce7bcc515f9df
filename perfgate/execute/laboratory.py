"""What makes the runs of one gate: the machine, nsys, commits that are checked out.

Recorded and prepared runs come from one that overrides `look`, `busy` and `make`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Final, TypeVar

from perfgate.execute.ahead import Batch, Wanted
from perfgate.execute.context import RunContext, at_commit
from perfgate.execute.lab import SHOWN_SHA, Against, Invocation, Listener
from perfgate.execute.run import Measured, measure_run
from perfgate.machine import read_machine, wait_until_idle
from perfgate.model.errors import PerfgateError
from perfgate.model.machine import Machine
from perfgate.model.note import Note
from perfgate.model.sample import Form
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.tool import NsysTool, find_nsys
from perfgate.system import git

IDLE_PATIENCE_S: Final = 10.0
"""How long a GPU may take to become idle before a run: the driver's load figures fade within a
second."""

T = TypeVar("T")


class Laboratory:
    """What makes the runs of one gate."""

    def __init__(
        self,
        of: Invocation,
        listener: Listener,
        *,
        time_left_s: Callable[[], float] = lambda: math.inf,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.asked = of
        self.listener = listener
        self.at_end = at_end
        """Called while the last runs that a workload has asked for end and are read."""
        self._time_left_s = time_left_s
        self.end_standing: Callable[[], None] | None = None
        """Ends the first runs of a workload that are started, and not asked for yet."""
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

    def busy(self, run_id: str = "") -> Note | None:
        """Wait for a GPU that only a run's own processes are on, and note what keeps it busy if it
        does not become so."""
        return wait_until_idle(self.context.machine.gpus, IDLE_PATIENCE_S, run_id=run_id)

    def make(
        self, wanted: Sequence[Wanted], form: Form, then: Callable[[], None] = lambda: None
    ) -> Generator[Measured] | Batch:
        """One run, which is made when it is asked for, or some, which are started at once."""
        if form is Form.ALONE:
            return self._alone(*wanted)
        return Batch(wanted, form, busy=self.busy, then=then)

    def _alone(self, one: Wanted) -> Generator[Measured]:
        busy = self.busy()
        yield measure_run(one.context, one.workload, one.folder, busy)

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
