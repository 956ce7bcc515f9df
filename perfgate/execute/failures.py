"""Why a run came to nothing: one table from how it ended to what is raised. Words are made
elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from perfgate.execute.side_environment import missing_there
from perfgate.execute.worktree import Worktree
from perfgate.model.errors import (
    CaptureFailed,
    NsysCrashed,
    PerfgateError,
    StepsNotFound,
    WorkloadFailed,
    WorkloadTimedOut,
)
from perfgate.model.note import Note, note
from perfgate.model.order import Ending, WorkerReport
from perfgate.model.workload import CaptureWindow, Workload
from perfgate.profilers.seam import ProfileOutcome

NOT_THERE: Final = re.compile(r"^ERROR: (?:not found|file or directory not found): ", re.MULTILINE)
"""What pytest prints where a file that it could import holds no such function or parameters."""


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """How one run ended, with what is shown of it where that was not well."""

    workload: Workload
    outcome: ProfileOutcome
    """With the log where it is kept."""
    worker_report: WorkerReport | None
    withheld: Sequence[str] = ()
    """Names of the variables that it did not get, and may have needed."""

    @property
    def see(self) -> tuple[Note, ...]:
        """Where to look: its log, what it was not given, the last lines of its output."""
        tail = "\n".join(self.outcome.tail)
        names = tuple(self.withheld)
        return (
            note("see-log", log=str(self.outcome.log)),
            *((note("variables-withheld", names=names),) if names else ()),
            note("output-tail", lines=tail) if tail else note("output-none"),
        )


class OtherSideEnded(WorkloadFailed):
    """The other side of the pair ended first: it has not failed yet, as far as is known here, but
    will."""


def refuse_missing(end: RunEnd, tree: Worktree) -> None:
    """Refuse a function or parameters that are younger than the commit; another workload may fail
    there.

    Raises:
        RevisionMissing: the commit does not have the workload.
    """
    workload = end.workload
    if workload.form == "command" or end.worker_report is not None or not end.outcome.exit_status:
        return
    with suppress(OSError):
        if NOT_THERE.search(end.outcome.log.read_text(encoding="utf-8", errors="replace")):
            raise missing_there(workload, tree, workload.nodeid or workload.id)


def refuse_failed(end: RunEnd) -> None:
    """Refuse a workload that did not end well.

    Raises:
        WorkloadFailed: it raised, exited, was killed, skipped itself or took the wrong number of
        steps. OtherSideEnded: that of the A/B run is to blame. WorkloadTimedOut: it did not end in
        time.
    """
    if end.outcome.timed_out:
        raise _out_of_time(end)
    why, report = _why(end), end.worker_report
    if why is not None:
        advice = (note(_ADVICE[why.code]),) if why.code in _ADVICE else ()
        is_abandoned = report is not None and report.ending is Ending.ABANDONED
        error = OtherSideEnded if is_abandoned else WorkloadFailed
        raise error("workload-failed", workload=end.workload.id, why=why, see=(*advice, *end.see))


def _out_of_time(end: RunEnd) -> PerfgateError:
    if end.outcome.nsys_hung:
        code = "nsys-hung"
    elif end.worker_report is not None and end.worker_report.ending is Ending.FINISHED:
        code = "process-outlived-loop"  # a longer limit would only cost more
    else:
        code = "workload-timed-out"
    problem = end.outcome.problem
    full = () if problem is None or problem.code != "nsys-disk-full" else (problem,)
    return WorkloadTimedOut(
        code,
        limit_s=end.workload.timeout_s,
        workload=end.workload.id,
        see=(*full, *end.see),
    )


def refuse_uncaptured(end: RunEnd) -> None:
    """Refuse a run that ended well, and left no capture.

    Raises:
        CaptureFailed: nsys says why, or nothing.
        NsysCrashed: nsys itself broke down.
    """
    if end.outcome.captures:
        return
    error = NsysCrashed if end.outcome.crashed else CaptureFailed
    workload, why = end.workload.id, end.outcome.problem or note("nsys-wrote-nothing", status=0)
    if not end.outcome.log.is_file():  # nothing was started
        raise error("run-not-started", workload=workload, why=why)
    raise error("run-uncaptured", workload=workload, why=why, log=str(end.outcome.log))


def without_steps(missing: StepsNotFound, end: RunEnd) -> StepsNotFound:
    """The same refusal of a command with what it said: it may have left before its first step, or
    its window may lie before or behind them."""
    window = end.workload.capture
    fields: dict[str, object] = {
        "workload": end.workload.id,
        "missing": missing,
        "see": end.see,
    }
    if isinstance(window, CaptureWindow):
        until_s = window.delay + window.duration
        return StepsNotFound("window-without-steps", from_s=window.delay, until_s=until_s, **fields)
    return StepsNotFound("command-without-steps", **fields)


def _why(end: RunEnd) -> Note | None:
    """What went wrong with the workload; None where nothing did, or nsys is to blame."""
    outcome, report = end.outcome, end.worker_report
    ended = _why_ended(outcome)
    if end.workload.form == "command":
        return ended
    if report is None:
        if outcome.exit_status is None and not outcome.captures:
            return None  # nsys never started it, or died: that is the capture's failure
        return ended or note("process-left")
    if report.ending is Ending.FINISHED:
        return None if ended is None else note("failed-after-loop", what=ended)
    what = "" if report.why is None else str(report.why.fields.get("what", ""))
    # What `next` raises where there is no more, within the loop.
    if report.ending is Ending.RAISED and report.turns and what.startswith("StopIteration"):
        return note("data-ended", turn=report.turns)
    return report.why or ended or note("process-exited", status=0)


def _why_ended(outcome: ProfileOutcome) -> Note | None:
    if outcome.signal is not None:
        return note("process-killed", signal=outcome.signal)
    return note("process-exited", status=outcome.exit_status) if outcome.exit_status else None


_ADVICE: Final = {
    "data-ended": "advice-more-data",
    "called-exit": "advice-return",
    "process-left": "advice-return",
    "skipped": "advice-skip-by-mark",
}
"""What to do first, by why a workload failed, where that is known."""
