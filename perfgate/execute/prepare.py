"""A run that another tool than nsys starts: of the same command, environment and folder as a
measured one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from perfgate.execute.context import RunContext
from perfgate.execute.kept import LOG
from perfgate.execute.run import Ordered, ordered
from perfgate.model.order import WorkerReport
from perfgate.model.secrets import Cleaner
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload
from perfgate.profilers.nsys.environment import without_profiler
from perfgate.profilers.nsys.output import signal_name
from perfgate.profilers.seam import ProfileOutcome


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One run for another tool than nsys to start: the same command, environment and folder as a
    measured one's."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    timeout_s: float
    capture: CaptureMode | CaptureWindow
    log: Path
    """Where what the workload prints is to go."""
    began_at: float
    """POSIX time."""
    _one: Ordered

    @property
    def cleaner(self) -> Cleaner:
        """Takes secrets out of what it prints."""
        return self._one.cleaner

    @property
    def worker_report(self) -> WorkerReport | None:
        """What the worker has reported; None of a command, and of one that was killed."""
        return self._one.worker_report

    def refuse(
        self, *, exit_status: int | None, timed_out: bool, wall_s: float, tail: Sequence[str]
    ) -> None:
        """Refuse a run that did not end well, or is not of its commit or of what is in the project.

        `exit_status` is the workload's own, below zero where a signal ended it, and None where it
        is not known.

        Raises:
            WorkloadFailed: it raised, exited, was killed, skipped itself or took the wrong number
            of steps. WorkloadTimedOut: it did not end in time. RevisionMissing: the commit that the
            bench is of did not have the workload yet. CodeUnproven: it is not shown that the run
            was of that commit's code. CodeStale: it loaded a copy of the project's code that is not
            what is in the project.
        """
        killed = exit_status is not None and exit_status < 0
        outcome = ProfileOutcome(
            captures=(),
            exit_status=exit_status,
            signal=signal_name(-exit_status) if exit_status is not None and killed else None,
            timed_out=timed_out,
            wall_s=wall_s,
            tail=tuple(tail),
            log=self.log,
            problem=None,
        )
        self._one.refuse_failed(outcome, self.log)
        self._one.code(self.began_at)


@contextmanager
def prepared(context: RunContext, workload: Workload, folder: Path) -> Iterator[Prepared]:
    """Make the folder of a run that another tool than nsys is to start; nothing of it can be judged
    or blessed.

    Raises:
        RevisionMissing: the commit that the bench is of does not have the workload.
        StoreFailed: the folder cannot be made.
    """
    with ordered(context, workload, folder, run_id=uuid4().hex) as one:
        yield Prepared(
            argv=one.spec.argv,
            cwd=one.spec.cwd,
            env=without_profiler(one.spec.env),
            timeout_s=one.spec.timeout_s,
            capture=one.spec.capture,
            log=folder / LOG,
            began_at=time.time(),
            _one=one,
        )
