"""How a run that came to nothing is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import records
from support.runs import LOG, account, command, ended

from perfgate.execute.failures import of_command_without_steps, refuse_failed, refuse_uncaptured
from perfgate.model.errors import (
    CaptureFailed,
    NsysCrashed,
    PerfgateError,
    StepsNotFound,
    WorkloadFailed,
    WorkloadTimedOut,
)
from perfgate.model.note import note
from perfgate.model.order import Account, Ending
from perfgate.model.workload import CaptureWindow, Workload
from perfgate.profilers.nsys.profile import ProfileOutcome


def failure(
    workload: Workload, outcome: ProfileOutcome, told: Account | None = None
) -> PerfgateError:
    with pytest.raises((CaptureFailed, WorkloadFailed, WorkloadTimedOut)) as failed:
        refuse_failed(workload, outcome, told, LOG)
    return failed.value


def carried(cause: str, *, where: str = "in DataLoader worker process 0") -> str:
    """An exception's message as torch carries it to the process that waits for the data."""
    frames = '  File "torch/utils/data/worker.py", line 6, in fetch\n    data = dataset[6]\n           ~~~~~~~^^^\n'
    named = cause.partition(":")[0].rpartition(".")[2]
    return f"{named}: Caught {named} {where}.\nOriginal Traceback (most recent call last):\n{frames}{cause}\n"


def test_a_failure_names_what_the_workload_did_not_get() -> None:
    names = ("HF_TOKEN", "MY_TOKEN", "TOKEN")
    told = "Not passed to the workload, for their names or values look like secrets: {}. Name those it needs in "
    raised = account(Ending.RAISED, "KeyError: 'MY_TOKEN'")
    with pytest.raises(WorkloadFailed) as failed:
        refuse_failed(records.workload(), ended(exit_status=1), raised, LOG, withheld=names)
    assert f"See {LOG}. {told.format('MY_TOKEN')}" in failed.value.next_step
    silent = account(Ending.RAISED, "ConnectionError: 401")
    with pytest.raises(WorkloadFailed) as failed:
        refuse_failed(records.workload(), ended(exit_status=1), silent, LOG, withheld=names)
    assert told.format("HF_TOKEN, MY_TOKEN, TOKEN") in failed.value.next_step
    missing = StepsNotFound(
        subject="/c.sqlite", fact="no NVTX range", expectation="Perhaps", next_step="Name it."
    )
    asked = of_command_without_steps(missing, ended(tail=("set TOKEN",)), LOG, withheld=names)
    assert told.format("TOKEN") in asked.next_step


FUNCTION = [
    (
        ended(exit_status=1),
        account(Ending.RAISED, "ValueError: no data"),
        "it raised ValueError: no data",
    ),
    (ended(exit_status=1), account(Ending.RAISED, "AssertionError: "), "it raised AssertionError"),
    (
        ended(exit_status=1),
        account(
            Ending.RAISED,
            "AcceleratorError: CUDA error: unknown error\nCompile with TORCH_USE_CUDA_DSA.\n",
        ),
        "it raised AcceleratorError: CUDA error: unknown error",
    ),
    (
        ended(exit_status=1),
        account(Ending.FAILED, "a fixture's teardown raised OSError: gone\nwith a second line"),
        "its loop came to its end, and a fixture's teardown raised OSError: gone",
    ),
    (
        ended(exit_status=1),
        account(Ending.RAISED, carried("ValueError: bad sample 6\nits second line: no")),
        "it raised ValueError: bad sample 6 (in DataLoader worker process 0)",
    ),
    (
        ended(exit_status=1),
        account(Ending.RAISED, f"in a fixture: {carried('data.Torn: shard 3.')}"),
        "it raised in a fixture: data.Torn: shard 3 (in DataLoader worker process 0)",
    ),
    (
        ended(exit_status=1),
        account(
            Ending.RAISED,
            carried(carried("KeyError: 'x'", where="in pin memory thread for device 0")),
        ),
        "it raised KeyError: 'x' (in DataLoader worker process 0)",
    ),
    (
        ended(exit_status=1),
        account(Ending.RAISED, "ValueError: Caught ValueError in it.\nOriginal Traceback was lost"),
        "it raised ValueError: Caught ValueError in it",
    ),
    (
        ended(exit_status=3),
        account(Ending.EXITED, "it called sys.exit(3)", 3),
        "it called sys.exit(3) (exit status 3)",
    ),
    (
        ended(exit_status=1),
        account(Ending.WRONG_STEPS, "the loop took 3 of 4 turns."),
        "the loop took 3 of 4 turns",
    ),
    (ended(exit_status=1), account(Ending.DEAF, "nvtx 0.2.13 is deaf."), "nvtx 0.2.13 is deaf"),
    (
        ended(exit_status=4),
        account(Ending.NOT_PINNED, "it cannot be pinned."),
        "it cannot be pinned",
    ),
    (
        ended(exit_status=1),
        account(Ending.ABANDONED, "the other side ended."),
        "the other side ended",
    ),
    (
        ended(exit_status=137, signal="SIGKILL"),
        None,
        "its process was killed by SIGKILL before the workload came to its end",
    ),
    (
        ended(exit_status=3),
        None,
        "its process was gone with exit status 3 before the workload came to its end",
    ),
]


def test_a_function_that_skips_itself_is_told_how_to_be_skipped() -> None:
    error = failure(records.workload(), ended(), account(Ending.SKIPPED, "needs two GPUs"))
    assert str(error) == (
        "mlp: it skipped itself (needs two GPUs), so nothing was measured.\n"
        "Run it where there is what it needs, or mark it (pytest.mark.skipif), which the gate sees before it runs. "
        f"See {LOG}. It printed nothing."
    )


@pytest.mark.parametrize(("outcome", "told", "fact"), FUNCTION)
def test_a_function_that_fails_is_told_in_one_sentence(
    outcome: ProfileOutcome, told: Account | None, fact: str
) -> None:
    error = failure(records.workload(), outcome, told)
    assert isinstance(error, WorkloadFailed)
    assert str(error) == f"mlp: {fact}.\nSee {LOG}. It printed nothing."


@pytest.mark.parametrize(
    ("outcome", "fact"),
    [
        (ended(exit_status=3), "its command ended with exit status 3"),
        (ended(exit_status=139, signal="SIGSEGV"), "its command was killed by SIGSEGV"),
    ],
)
def test_a_command_that_fails_is_told_in_one_sentence(outcome: ProfileOutcome, fact: str) -> None:
    error = failure(command("python", "train.py"), outcome)
    assert str(error) == f"train: {fact}.\nSee {LOG}. It printed nothing."


def test_a_name_that_only_the_gate_knows_is_told() -> None:
    seen = ended(exit_status=4, tail=("ERROR: not found: /project/workloads/loops.py::mlp[1-2]",))
    error = failure(records.workload(), seen, None)
    assert str(error).startswith(
        "mlp: its process found no workload of this name (what an installed plugin's option "
    )


def test_the_last_lines_are_shown_below() -> None:
    error = failure(command("python"), ended(exit_status=1, tail=("Traceback", "KeyError: 'x'")))
    assert str(error) == (
        "train: its command ended with exit status 1.\n"
        f"See {LOG}.\n"
        "Last lines of its output:\n"
        "  | Traceback\n"
        "  | KeyError: 'x'"
    )


@pytest.mark.parametrize("workload", [records.workload(), command("python")])
def test_a_run_out_of_time_is_told_with_its_limit(workload: Workload) -> None:
    error = failure(
        workload.model_copy(update={"timeout_s": 2.5}), ended(timed_out=True, exit_status=None)
    )
    assert isinstance(error, WorkloadTimedOut)
    assert str(error) == (
        f"{workload.id}: it did not end within 2.5 s and was stopped.\n"
        f"See {LOG}, or raise timeout_s if it needs longer. It printed nothing."
    )


def test_a_process_that_outlives_its_loop_is_not_told_to_take_longer() -> None:
    workload = records.workload().model_copy(update={"timeout_s": 15.0})
    error = failure(
        workload, ended(timed_out=True, exit_status=None), account(Ending.FINISHED, turns=25)
    )
    assert isinstance(error, WorkloadTimedOut)
    assert str(error) == (
        "mlp: its loop came to its end, and its process did not within 15 s, and was stopped.\n"
        "A thread or a child process that it started may still run: make it a daemon, or end it behind the loop. "
        f"See {LOG}. It printed nothing."
    )


def test_a_workload_that_leaves_once_its_loop_is_done_is_told_that_it_was() -> None:
    workload = records.workload()
    turns = workload.warmup + workload.steps
    error = failure(
        workload, ended(), account(Ending.EXITED, "it called sys.exit(0)", 0, turns=turns)
    )
    assert str(error) == (
        "mlp: it called sys.exit(0) in the last turn of its loop or after it (exit status 0).\n"
        f"Leave that call out of the workload, which returns when its loop is done. See {LOG}. It printed nothing."
    )
    error = failure(
        workload, ended(), account(Ending.EXITED, "it called sys.exit(0)", 0, turns=turns - 1)
    )
    assert (
        str(error) == f"mlp: it called sys.exit(0) (exit status 0).\nSee {LOG}. It printed nothing."
    )


def test_data_that_end_before_the_steps_do_are_told_with_the_turn() -> None:
    error = failure(
        records.workload(),
        ended(exit_status=1),
        account(Ending.RAISED, "StopIteration: ", turns=21),
    )
    assert str(error) == (
        "mlp: it raised StopIteration in turn 21 of its loop.\n"
        "If its data ended, begin them anew (itertools.cycle), or lower steps or warmup. "
        f"See {LOG}. It printed nothing."
    )
    before = failure(
        records.workload(), ended(exit_status=1), account(Ending.RAISED, "StopIteration")
    )
    assert str(before) == f"mlp: it raised StopIteration.\nSee {LOG}. It printed nothing."


def test_a_full_disk_is_told_before_the_time_that_it_cost() -> None:
    workload = records.workload()
    error = failure(workload, ended(timed_out=True, disk_was_full=True, exit_status=None))
    assert isinstance(error, CaptureFailed)
    assert error.next_step.startswith("Free some space, and run again.")


def test_an_nsys_that_hangs_is_not_told_as_the_workloads_fault() -> None:
    workload = records.workload()
    error = failure(workload, ended(timed_out=True, nsys_hung=True, exit_status=None))
    assert isinstance(error, WorkloadTimedOut)
    assert str(error).startswith(
        f"{workload.id}: nsys did not end within {workload.timeout_s:g} s, though the workload had ended, "
        "and was stopped.\n"
        "Run it again, for nsys hangs now and then on a busy machine."
    )


@pytest.mark.parametrize(
    ("workload", "outcome", "told"),
    [
        (records.workload(), ended(), account(Ending.FINISHED)),
        (command("python"), ended(), None),
        (command("python"), ended(exit_status=None), None),
        # nsys never started it: that is told as the capture's failure
        (records.workload(), ended(exit_status=None, captures=()), None),
    ],
)
def test_a_workload_that_did_well_is_no_failure(
    workload: Workload, outcome: ProfileOutcome, told: Account | None
) -> None:
    refuse_failed(workload, outcome, told, LOG)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (0, "It ended with exit status 0: if that was before its first step, see"),
        (None, "If it ended before its first step, see"),
    ],
)
def test_a_command_without_a_step_says_how_it_ended_only_where_that_is_known(
    status: int | None, told: str
) -> None:
    missing = StepsNotFound(
        subject="train", fact="no range is there", expectation="One a step", next_step="Draw one."
    )
    error = of_command_without_steps(missing, ended(exit_status=status), LOG)
    assert (
        str(error)
        == f"train: no range is there. One a step.\nDraw one. {told} {LOG}. It printed nothing."
    )


@pytest.mark.parametrize("crashed", [True, False])
def test_a_run_without_a_capture_says_why(*, crashed: bool) -> None:
    why = note("workload-folder-missing", folder="nowhere")
    outcome = replace(ended(), captures=(), problem=why, crashed=crashed)
    with pytest.raises(NsysCrashed if crashed else CaptureFailed) as failed:
        refuse_uncaptured(command(), outcome, LOG)
    assert failed.value.fields["why"] == why


def test_a_window_that_ended_before_the_first_step_is_told_with_its_times() -> None:
    missing = StepsNotFound(
        subject="loop", fact="the capture holds no NVTX range", next_step="Draw them."
    )
    window = CaptureWindow(delay=1, duration=2)
    error = of_command_without_steps(missing, ended(exit_status=None), LOG, window=window)
    assert "1 to 3 s" in error.fact
    left = of_command_without_steps(missing, ended(exit_status=0), LOG, window=window)
    assert left.fact == missing.fact
