"""Two loops that work in turns: who works when, what is marked, and who is not waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.sides import (
    CLOSING,
    GONE,
    OPENING,
    SOON_S,
    STEP,
    WAIT,
    WARM,
    ABRun,
    made,
    worker_report_of,
)

from perfgate.execute.script_hold import DONE, READY, TURN
from perfgate.execute.worker import StepsMisused, report
from perfgate.execute.worker.endings import Abandoned
from perfgate.execute.worker.handover import Handover
from perfgate.model.note import note
from perfgate.model.order import Ending, Hold, Order


def test_waits_are_synchronised_marked_and_outside_steps_and_capture(ab_run: ABRun) -> None:
    a, b = (ab_run.steps(name) for name in "ab")
    ab_run.run_both(a, b)
    for name in "ab":
        assert ab_run.of(name) == [
            *(WARM, "work 0", "pop"),
            *OPENING,
            *(STEP, "work 1", "pop", STEP, "work 2", "pop"),
            *("sync 0", WAIT, "pop"),
            *(STEP, "work 3", "pop", STEP, "work 4", "pop"),
            *CLOSING,
        ]
    # Neither opens its capture, nor closes it, while the other works.
    assert ab_run.done.index("b pop") < ab_run.done.index("a start") < ab_run.done.index("b start")
    assert ab_run.done.index("b work 4") < ab_run.done.index("a stop")


def test_one_that_is_held_does_not_wait_for_a_gate_that_was_gone_before(tmp_path: Path) -> None:
    own, other = tmp_path / "go", tmp_path / "gate"
    os.mkfifo(own)
    os.mkfifo(other)
    held = Handover(Hold(is_early=True, own=str(own), other=str(other)))
    with ThreadPoolExecutor(max_workers=1) as pool:
        begun = pool.submit(held.begin)
        try:
            assert isinstance(begun.exception(timeout=SOON_S), Abandoned)
        finally:  # a gate that comes and goes
            os.close(os.open(own, os.O_RDWR))


@pytest.mark.parametrize("is_early", [True, False])
def test_one_that_is_held_late_starts_the_profiler_before_it_waits(
    tmp_path: Path, *, is_early: bool
) -> None:
    own, other = tmp_path / "go", tmp_path / "gate"
    os.mkfifo(own)
    os.mkfifo(other)
    calls: list[str] = []
    hears, says = (os.open(file, os.O_RDWR) for file in (other, own))
    with ThreadPoolExecutor(max_workers=1) as pool:
        steps = made(calls, hold=Hold(is_early=is_early, own=str(own), other=str(other)))
        ran = pool.submit(list, steps)
        assert os.read(hears, 1) == READY
        assert calls == [WARM, "pop"] * 2 + ["sync 0"] + ["start"] * (not is_early)
        os.write(says, TURN)
        assert os.read(hears, 1) == DONE
        assert calls[-1] == "pop"
        assert "stop" not in calls
        os.write(says, DONE)
        assert len(ran.result(SOON_S)) == 5
    assert calls[-1] == "stop"
    assert (calls.count("start"), calls.count("stop")) == (1, 1)
    os.close(hears)
    os.close(says)


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        ((2, 6), ["a 1", "b 1", "a 2", "b 6"]),
        ((6, 2), ["a 1", "b 1", "a 2", "b 2", "a 4"]),
        ((3, 4), ["a 1", "b 1", "a 2", "b 2", "a 1", "b 2"]),
    ],
)
def test_a_side_that_is_done_leaves_the_rest_to_the_other(
    ab_run: ABRun, steps: tuple[int, int], rows: list[str]
) -> None:
    a, b = (ab_run.steps(name, steps=count) for name, count in zip("ab", steps, strict=True))
    ab_run.run_both(a, b)
    assert ab_run.rows() == rows
    longer = "b" if steps[1] > steps[0] else "a"
    waits = ab_run.of(longer).count(WAIT)
    assert waits == (steps == (3, 4)) + (steps == (6, 2))


@pytest.mark.parametrize(("leaving", "leave_at"), [("a", 0), ("b", 2), ("a", 4)])
def test_a_side_that_leaves_early_is_not_waited_for(
    ab_run: ABRun, leaving: str, leave_at: int
) -> None:
    staying = "b" if leaving == "a" else "a"
    goes, stays = ab_run.steps(leaving), ab_run.steps(staying)
    other = ab_run.pool.submit(ab_run.loop, leaving, goes, leave_at=leave_at)
    assert ab_run.abandoned(staying, stays) == GONE
    other.result(SOON_S)
    with pytest.raises(StepsMisused, match="the loop"):
        goes.check()
    # What was open is closed: no capture is left to run, and no range.
    shown = ab_run.of(staying)
    assert shown.count("start") == shown.count("stop")
    assert sum(what.startswith("push") for what in shown) == shown.count("pop")


def test_whatever_a_workload_makes_of_being_abandoned_it_was_that(
    ab_run: ABRun, order: Order
) -> None:
    goes, stays = ab_run.steps("a"), ab_run.steps("b")
    goes.close()

    def work() -> None:
        try:
            ab_run.loop("b", stays)
        except Abandoned as left:
            raise RuntimeError("data are gone") from left

    with pytest.raises(RuntimeError, match="data are gone"):
        work()
    report(order, stays, Ending.RAISED, why=note("raised", what="RuntimeError: data are gone"))
    found = worker_report_of(order)
    assert (found.ending, found.why, found.turns) == (Ending.ABANDONED, note(GONE), 0)


KILLED = """\
import os, signal, sys, time
from perfgate.model.order import Blocks
from perfgate.execute.worker.handover import Handover
turns = Handover(Blocks(steps=2, begins=True, own=sys.argv[1], other=sys.argv[2], patience_s=60))
if not os.fork():
    print("child", flush=True)
    time.sleep(60)
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_is_missed_though_its_child_lives_on(ab_run: ABRun) -> None:
    stays = Handover(ab_run.blocks("b", patience_s=30))
    paths = (str(ab_run.folder / "a"), str(ab_run.folder / "b"))
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, *paths], stdout=subprocess.PIPE, start_new_session=True
    ) as killed:
        try:
            with pytest.raises(Abandoned) as left:
                stays.begin()
        finally:
            os.killpg(killed.pid, 9)
    assert left.value.why.code == GONE
    assert time.monotonic() - began < 20
