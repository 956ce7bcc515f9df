"""What a run that came to nothing is told as: the workload's failure, the time's, the commit's or the capture's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import assert_never

from perfgate.execute.environment import told_withheld
from perfgate.execute.side_environment import missing_there
from perfgate.execute.worktree import Worktree
from perfgate.model.errors import (
    CaptureFailed,
    NsysCrashed,
    StepsNotFound,
    WorkloadFailed,
    WorkloadTimedOut,
)
from perfgate.model.note import note
from perfgate.model.order import Account, Ending
from perfgate.model.workload import CaptureWindow, Workload
from perfgate.profilers.nsys.profile import ProfileOutcome
from perfgate.words import say

NOT_THERE = re.compile(r"^ERROR: (?:not found|file or directory not found): ", re.MULTILINE)
"""What pytest prints where a file that it could import holds no such function or parameters."""
CARRIED = re.compile(
    r"(?P<before>(?:[^\n]*? )??)[\w.]+: Caught [\w.]+ (?P<where>[^\n]+?)\.?\nOriginal (?P<traceback>Traceback .*)",
    re.DOTALL,
)
"""The message of an exception that torch carries from a worker of a DataLoader, or a thread of its own, as text."""
FRAME = '  File "'
"""How a line of a traceback begins that names a place."""


def refuse_missing(
    workload: Workload, tree: Worktree, outcome: ProfileOutcome, account: Account | None, log: Path
) -> None:
    """Tell a function or parameters that are younger than the commit from a workload that fails there.

    Raises:
        RevisionMissing: the commit does not have the workload.
    """
    if workload.form == "command" or account is not None or not outcome.exit_status:
        return
    with suppress(OSError):
        if NOT_THERE.search(log.read_text(encoding="utf-8", errors="replace")):
            raise missing_there(workload, tree, f"{workload.source} holds no {workload.id}")


def refuse_failed(
    workload: Workload,
    outcome: ProfileOutcome,
    account: Account | None,
    log: Path,
    *,
    withheld: Sequence[str] = (),
) -> None:
    """Refuse a workload that did not end well; `withheld` are variables that it did not get, and may have needed.

    Raises:
        WorkloadFailed: it raised, exited, was killed, skipped itself or took the wrong number of steps.
        WorkloadTimedOut: it did not end in time.
        CaptureFailed: it did not, as the disk was full.
    """
    shown = _tail(outcome)
    if outcome.disk_was_full and outcome.timed_out:
        # Its time was up because of that: raising the limit is no advice.
        raise CaptureFailed(
            subject=workload.id,
            fact=_problem(outcome),
            next_step=f"Free some space, and run again. See {log}.{shown}",
        )
    if outcome.nsys_hung:
        raise WorkloadTimedOut(
            subject=workload.id,
            fact=f"nsys did not end within {workload.timeout_s:g} s, though the workload had ended, and was stopped",
            next_step="Run it again, for nsys hangs now and then on a busy machine. For a capture that takes it so "
            f"long, measure fewer steps or raise timeout_s. See {log}.{shown}",
        )
    if outcome.timed_out and account is not None and account.ending is Ending.FINISHED:
        # A longer limit would only cost more.
        raise WorkloadTimedOut(
            subject=workload.id,
            fact=f"its loop came to its end, and its process did not within {workload.timeout_s:g} s, and was stopped",
            next_step="A thread or a child process that it started may still run: make it a daemon, or end it behind "
            f"the loop. See {log}.{shown}",
        )
    if outcome.timed_out:
        raise WorkloadTimedOut(
            subject=workload.id,
            fact=f"it did not end within {workload.timeout_s:g} s and was stopped",
            next_step=f"See {log}, or raise timeout_s if it needs longer.{shown}",
        )
    is_command = workload.form == "command"
    failure = (
        _command_failure(outcome) if is_command else _worker_failure(outcome, account, workload)
    )
    if failure is not None:
        raise WorkloadFailed(
            subject=workload.id,
            fact=failure,
            next_step=f"{_advice(account, workload)}See {log}.{_missed(withheld, outcome, account)}{shown}",
        )


def refuse_uncaptured(workload: Workload, outcome: ProfileOutcome, log: Path) -> None:
    """Refuse a run that ended well, and left no capture.

    Raises:
        CaptureFailed: nsys says why, or nothing.
        NsysCrashed: nsys itself broke down.
    """
    if outcome.captures:
        return
    raise (NsysCrashed if outcome.crashed else CaptureFailed)(
        "run-uncaptured",
        workload=workload.id,
        why=outcome.problem or note("nsys-wrote-nothing", status=0),
        log=str(log),
    )


def of_command_without_steps(
    missing: StepsNotFound,
    outcome: ProfileOutcome,
    log: Path,
    *,
    withheld: Sequence[str] = (),
    window: CaptureWindow | None = None,
) -> StepsNotFound:
    """The same refusal with what the command said, which may have left before its first step.

    Its exit status is 0 by then, or unknown: one that still ran when its window had been captured was ended. Then the
    `window` is likely why; what else lies in it, and may be the steps by another name, is said as well.
    """
    status = outcome.exit_status
    if window is not None and status is None:
        until = window.delay + window.duration
        return StepsNotFound(
            subject=missing.subject,
            fact=f"its capture window, {window.delay:g} to {until:g} s after its start, holds no step, and the command "
            "still ran: it may have ended before the first step began",
            expectation="The window must hold the warm-up and all measured steps",
            next_step=f"Set a longer delay or duration; when steps come, {log} may say. In the window, {missing.fact}. "
            f"{missing.expectation}.{_missed(withheld, outcome)}{_tail(outcome)}",
        )
    ended = "If it ended" if status is None else f"It ended with exit status {status}: if that was"
    return StepsNotFound(
        subject=missing.subject,
        fact=missing.fact,
        expectation=missing.expectation,
        next_step=f"{missing.next_step} {ended} before its first step, see {log}."
        f"{_missed(withheld, outcome)}{_tail(outcome)}",
    )


def _command_failure(outcome: ProfileOutcome) -> str | None:
    if outcome.signal is not None:
        return f"its command was killed by {outcome.signal}"
    if outcome.exit_status:
        return f"its command ended with exit status {outcome.exit_status}"
    return None


def _worker_failure(
    outcome: ProfileOutcome, account: Account | None, workload: Workload
) -> str | None:
    if account is None and outcome.exit_status is None and not outcome.captures:
        return None  # nsys never started it, or died: that is the capture's failure, and has its own words
    if account is None and any(NOT_THERE.search(line) for line in outcome.tail):
        return (
            "its process found no workload of this name (what an installed plugin's option adds to names, as "
            "pytest-repeat's --count does, stays with the gate)"
        )
    if account is None:
        how = (
            f"killed by {outcome.signal}"
            if outcome.signal
            else f"gone with exit status {outcome.exit_status}"
        )
        return f"its process was {how} before the workload came to its end"
    match account.ending:
        case Ending.FINISHED if outcome.signal is not None:
            return f"its loop came to its end, and then its process was killed by {outcome.signal}"
        case Ending.FINISHED if outcome.exit_status:
            return f"its loop came to its end, and then its process failed with exit status {outcome.exit_status}"
        case Ending.FINISHED:
            return None
        case Ending.RAISED:
            where = f" in turn {account.turns} of its loop" if _data_ended(account) else ""
            return f"it raised {_first_line(_cause(account.message))}{where}"
        case Ending.FAILED:
            return f"its loop came to its end, and {_first_line(_cause(account.message))}"
        case Ending.EXITED:
            last = (
                " in the last turn of its loop or after it" if _began_all(account, workload) else ""
            )
            return f"{account.message}{last} (exit status {account.exit_status})"
        case Ending.SKIPPED:
            return f"it skipped itself ({_first_line(account.message)}), so nothing was measured"
        case Ending.WRONG_STEPS | Ending.DEAF | Ending.NOT_PINNED | Ending.ABANDONED:
            return account.message.removesuffix(".")
        case _:
            assert_never(account.ending)


def _advice(account: Account | None, workload: Workload) -> str:
    """What to do first, where that is known."""
    if account is None:
        return ""
    if account.ending is Ending.EXITED and _began_all(account, workload):
        return "Leave that call out of the workload, which returns when its loop is done. "
    if _data_ended(account):
        return "If its data ended, begin them anew (itertools.cycle), or lower steps or warmup. "
    if account.ending is not Ending.SKIPPED:
        return ""
    return "Run it where there is what it needs, or mark it (pytest.mark.skipif), which the gate sees before it runs. "


def _began_all(account: Account, workload: Workload) -> bool:
    """Whether its loop began every turn."""
    return account.turns >= workload.warmup + workload.steps


def _data_ended(account: Account) -> bool:
    """Whether it raised, within its loop, what `next` does where there is no more."""
    return (
        account.ending is Ending.RAISED
        and account.turns > 0
        and _first_line(account.message) == "StopIteration"
    )


def _cause(message: str) -> str:
    """The exception in an exception's message, with where it was raised, if that only carries it."""
    carried = CARRIED.match(message)
    if carried is None:
        return message
    lines = carried["traceback"].splitlines()
    last = max(
        (number for number, line in enumerate(lines) if line.startswith(FRAME)), default=len(lines)
    )
    cause = next((line for line in lines[last:] if line.strip() and not line.startswith(" ")), None)
    return (
        message
        if cause is None
        else f"{carried['before']}{cause.rstrip('.: ')} ({carried['where']})"
    )


def _first_line(message: str) -> str:
    """What fits into a sentence of an exception's message; its traceback, in the tail, has the rest."""
    first = next((line for line in message.splitlines() if line.strip()), "")
    return first.strip().rstrip(".: ")


def _missed(
    withheld: Sequence[str], outcome: ProfileOutcome, account: Account | None = None
) -> str:
    """Of what a workload did not get, what its output names; all where it names none of it."""
    said = "\n".join([*outcome.tail, *([account.message] if account is not None else [])])
    named = [name for name in withheld if re.search(rf"\b{re.escape(name)}\b", said)]
    return f" {told_withheld(named or withheld)}" if withheld else ""


def _tail(outcome: ProfileOutcome) -> str:
    if not outcome.tail:
        return " It printed nothing."
    return "\nLast lines of its output:\n" + "\n".join(f"  | {line}" for line in outcome.tail)


def _problem(outcome: ProfileOutcome) -> str:
    """Why there is no capture."""
    return say.fact(outcome.problem or note("nsys-wrote-nothing", status=0))
