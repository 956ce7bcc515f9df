"""Why a run came to nothing: codes by how it ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import records
from support.refused import refused
from support.runs import command, ended, worker_report

from perfgate.execute.failures import RunEnd, refuse_failed, refuse_uncaptured, without_steps
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

RAISED = note("raised", what="ValueError: no data")
COMMAND = command("python", "train.py")


def of(
    outcome: ProfileOutcome, said: WorkerReport | None = None, workload: Workload | None = None
) -> RunEnd:
    return RunEnd(
        workload=workload or records.workload(),
        outcome=outcome,
        worker_report=said,
        withheld=("HF_TOKEN", "MY_TOKEN"),
    )


def failure(one: RunEnd) -> PerfgateError:
    with pytest.raises((CaptureFailed, WorkloadFailed, WorkloadTimedOut)) as failed:
        refuse_failed(one)
    return failed.value


def codes(notes: object) -> list[str]:
    assert isinstance(notes, tuple)
    return [one.code for one in notes if isinstance(one, Note)]


WHY = [
    (of(ended(exit_status=1), worker_report(Ending.FAILED, RAISED)), "raised"),
    (of(ended(exit_status=0)), "process-left"),
    (
        of(ended(exit_status=139, signal="SIGSEGV"), worker_report(Ending.FINISHED)),
        "failed-after-loop",
    ),
    (of(ended(exit_status=5), worker_report(Ending.FINISHED)), "failed-after-loop"),
    (of(ended(exit_status=139, signal="SIGSEGV"), workload=COMMAND), "process-killed"),
]


@pytest.mark.parametrize(("one", "why"), WHY, ids=[f"{n} {why}" for n, (_, why) in enumerate(WHY)])
def test_a_workload_that_failed_says_why(one: RunEnd, why: str) -> None:
    error = failure(one)
    assert (type(error), error.code) == (WorkloadFailed, "workload-failed")
    found = error.fields["why"]
    assert isinstance(found, Note)
    assert found.code == why


def test_data_that_end_before_the_steps_do_are_known() -> None:
    stopped = note("raised", what="StopIteration: ")
    error = failure(of(ended(exit_status=1), worker_report(Ending.RAISED, stopped, turns=7)))
    assert error.fields["why"] == note("data-ended", turn=7)
    assert codes(error.fields["see"])[0] == "advice-more-data"


def test_a_failure_shows_the_last_lines_and_what_it_was_not_given() -> None:
    error = failure(of(ended(exit_status=1, tail=("KeyError", "'MY_TOKEN'")), workload=COMMAND))
    see = error.fields["see"]
    assert codes(see) == ["see-log", "variables-withheld", "output-tail"]
    assert isinstance(see, tuple)
    assert see[1].fields["names"] == ("HF_TOKEN", "MY_TOKEN")


@pytest.mark.parametrize(
    ("one", "error", "code"),
    [
        (of(ended(timed_out=True)), WorkloadTimedOut, "workload-timed-out"),
        (of(ended(timed_out=True), workload=COMMAND), WorkloadTimedOut, "workload-timed-out"),
        (
            of(ended(timed_out=True), worker_report(Ending.FINISHED)),
            WorkloadTimedOut,
            "process-outlived-loop",
        ),
        (of(ended(timed_out=True, nsys_hung=True)), WorkloadTimedOut, "nsys-hung"),
    ],
)
def test_a_run_out_of_time_says_whose_fault_it_is(
    one: RunEnd, error: type[PerfgateError], code: str
) -> None:
    failed = failure(one)
    assert (type(failed), failed.code) == (error, code)
    full = failure(replace(one, outcome=replace(one.outcome, problem=note("nsys-disk-full"))))
    assert codes(full.fields["see"])[:2] == ["nsys-disk-full", "see-log"]


@pytest.mark.parametrize(
    "one",
    [
        of(ended(), worker_report(Ending.FINISHED)),
        of(ended(), workload=COMMAND),
        of(ended(exit_status=None, captures=())),
        of(ended(exit_status=None), workload=COMMAND),
    ],
)
def test_a_workload_that_did_well_is_no_failure(one: RunEnd) -> None:
    refuse_failed(one)


def test_a_run_without_a_capture_is_nsys_fault_and_names_the_log_that_it_left(
    tmp_path: Path,
) -> None:
    refuse_uncaptured(of(ended()))
    for crashed, error in ((False, CaptureFailed), (True, NsysCrashed)):
        log = tmp_path / f"{crashed}.log"
        one = of(replace(ended(captures=(), crashed=crashed), log=log))
        with refused(error, "run-not-started"):
            refuse_uncaptured(one)
        log.touch()
        with pytest.raises(error) as failed:
            refuse_uncaptured(one)
        assert failed.value.code == "run-uncaptured"
        assert failed.value.fields["log"] == str(log)


def test_a_command_without_a_step_may_have_ended_before_it_or_its_window_may_have() -> None:
    missing = StepsNotFound("quoted", text="c.sqlite: no range")
    window = COMMAND.model_copy(update={"capture": CaptureWindow(delay=1, duration=2)})
    for workload, status, code in (
        (COMMAND, None, "command-without-steps"),
        (window, 0, "window-without-steps"),
        (window, None, "window-without-steps"),
    ):
        error = without_steps(missing, of(ended(exit_status=status), workload=workload))
        assert error.code == code
    assert (error.fields["from_s"], error.fields["until_s"]) == (1, 3)
