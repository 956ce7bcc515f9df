"""The steps of a worker against a stand-in for torch and nvtx that notes every call, and the account of its end."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import pytest

from perfgate import worker
from perfgate.duet.proof import read_witnesses
from perfgate.model.order import Account, Bouts, Ending, Order
from perfgate.worker import (
    SETTLING_TURNS,
    Abandoned,
    Busy,
    Deaf,
    MeasuredSteps,
    NotPinned,
    PackageMarker,
    Pinned,
    StepsMisused,
    TorchMarker,
    Turns,
    choose_capture,
    choose_marker,
    loaded_code,
    package_version,
    profiled,
    stay_near,
    tell,
)
from perfgate.workload import Steps

WARM = "push perfgate warm-up"
STEP = "push step"
START = "push perfgate start"
OPENING = ["sync 0", "start", START, "pop"]
CLOSING = ["sync 0", "stop"]


class FakeTorch(ModuleType):
    """A CUDA build of torch, as far as a worker uses it."""

    def __init__(self, calls: list[str], *, available: bool = True, contexts: tuple[bool, ...] = (True,)) -> None:
        super().__init__("torch")
        self.__version__ = "2.6.0+cu124"
        self.version = SimpleNamespace(cuda="12.4")
        self._C = SimpleNamespace(_cuda_hasPrimaryContext=lambda device: contexts[device])
        runtime = SimpleNamespace(
            cudaProfilerStart=lambda: calls.append("start"), cudaProfilerStop=lambda: calls.append("stop")
        )
        self.cuda = SimpleNamespace(
            is_available=lambda: available,
            device_count=lambda: len(contexts),
            synchronize=lambda device: calls.append(f"sync {device}"),
            cudart=lambda: runtime,
            nvtx=SimpleNamespace(
                range_push=lambda message: calls.append(f"push {message}"), range_pop=lambda: calls.append("pop")
            ),
        )


class FakeNvtx(ModuleType):
    """The nvtx package; deaf as from 0.2.12 on under an nsys up to 2024.2."""

    def __init__(self, calls: list[str], *, deaf: bool = False) -> None:
        super().__init__("nvtx")
        domain = type("DummyDomain" if deaf else "Domain", (), {})
        self.get_domain = lambda _name: domain()
        self.push_range = lambda message: calls.append(f"push {message}")
        self.pop_range = lambda: calls.append("pop")


def made(
    calls: list[str],
    *,
    steps: int = 3,
    warmup: int = 2,
    torch: ModuleType | None = None,
    nvtx: ModuleType | None = None,
) -> MeasuredSteps:
    """Steps on a GPU, unless told otherwise."""
    found = FakeTorch(calls) if torch is None and nvtx is None else torch
    return MeasuredSteps(steps=steps, warmup=warmup, profiled=True, find_torch=lambda: found, find_nvtx=lambda: nvtx)


@pytest.fixture
def calls() -> list[str]:
    """What the stand-ins were called for, in order."""
    return []


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without libcuda."""
    monkeypatch.setattr(worker, "_driver_library", lambda: None)


# The loop


def test_the_window_is_synchronised_before_and_after_and_never_inside(calls: list[str]) -> None:
    steps = made(calls)
    for turn in steps:
        calls += [f"work {turn}"]
    assert calls == [
        *(WARM, "work 0", "pop"),
        *(WARM, "work 1", "pop"),
        *OPENING,
        *(STEP, "work 2", "pop"),
        *(STEP, "work 3", "pop"),
        *(STEP, "work 4", "pop"),
        *CLOSING,
    ]
    steps.check()
    assert (steps.turns, steps.finished, steps.marked_by, steps.captured_by) == (5, True, "torch.cuda.nvtx", "torch")


def test_no_warm_up_starts_with_the_capture(calls: list[str]) -> None:
    steps = made(calls, steps=3, warmup=0)
    assert list(steps) == [0, 1, 2]
    assert calls == [*OPENING, *[STEP, "pop"] * 3, *CLOSING]


def test_turns_count_from_zero_with_the_warm_up_first(calls: list[str]) -> None:
    steps = made(calls)
    assert len(steps) == 5
    assert list(steps) == [0, 1, 2, 3, 4]
    assert isinstance(steps, Steps)


def test_nothing_happens_before_the_first_turn(calls: list[str]) -> None:
    steps = made(calls)
    iter(steps)
    assert calls == []
    assert (steps.turns, steps.marked_by, steps.captured_by) == (0, None, None)


def test_only_devices_with_a_context_are_synchronised(calls: list[str]) -> None:
    list(made(calls, steps=3, warmup=0, torch=FakeTorch(calls, contexts=(False, True, False, True))))
    assert [call for call in calls if call.startswith("sync")] == ["sync 1", "sync 3"] * 2


def test_a_torch_that_cannot_tell_contexts_synchronises_every_device(calls: list[str]) -> None:
    torch = FakeTorch(calls, contexts=(False, False))
    torch._C = SimpleNamespace()
    list(made(calls, steps=3, warmup=0, torch=torch))
    assert [call for call in calls if call.startswith("sync")] == ["sync 0", "sync 1"] * 2


def test_torch_that_the_loop_itself_imports_opens_the_capture(calls: list[str]) -> None:
    found: list[ModuleType] = []
    nvtx = FakeNvtx(calls)
    steps = MeasuredSteps(
        steps=3, warmup=1, profiled=True, find_torch=lambda: found[0] if found else None, find_nvtx=lambda: nvtx
    )
    for _ in steps:
        found[:] = [FakeTorch(calls)]
    assert calls == [WARM, "pop", *OPENING, *[STEP, "pop"] * 3, *CLOSING]
    assert (steps.marked_by, steps.captured_by) == ("nvtx", "torch")


@pytest.mark.usefixtures("no_driver")
def test_without_a_gpu_the_steps_are_marked_and_nothing_else_is_done(calls: list[str]) -> None:
    steps = made(calls, torch=FakeTorch(calls, available=False), nvtx=FakeNvtx(calls))
    list(steps)
    assert calls == [*[WARM, "pop"] * 2, START, "pop", *[STEP, "pop"] * 3]
    assert (steps.marked_by, steps.captured_by) == ("nvtx", None)


# Loops that are left


def left_by_break(steps: MeasuredSteps, last: int) -> None:
    for turn in steps:
        if turn == last:
            break


def left_by_return(steps: MeasuredSteps, last: int) -> int | None:
    for turn in steps:
        if turn == last:
            return turn
    return None


def left_by_data_after_steps(steps: MeasuredSteps, last: int) -> None:
    for _ in zip(steps, range(last), strict=False):
        pass


def left_by_data_before_steps(steps: MeasuredSteps, last: int) -> None:
    for _ in zip(range(last + 1), steps, strict=False):
        pass


def left_by_one_next_a_turn(steps: MeasuredSteps, last: int) -> None:
    turns = iter(steps)
    for _ in range(last + 1):
        next(turns)


def left_by_islice(steps: MeasuredSteps, last: int) -> None:
    for _ in itertools.islice(steps, last + 1):
        pass


LEAVING = [
    left_by_break,
    left_by_return,
    left_by_data_after_steps,
    left_by_data_before_steps,
    left_by_one_next_a_turn,
    left_by_islice,
]


@pytest.mark.parametrize("leave", LEAVING)
def test_a_loop_that_is_left_has_closed_its_range_and_the_capture_already(
    calls: list[str], leave: Callable[[MeasuredSteps, int], object]
) -> None:
    steps = made(calls)
    leave(steps, 3)
    assert calls == [*[WARM, "pop"] * 2, *OPENING, *[STEP, "pop"] * 2, "stop"]
    with pytest.raises(StepsMisused) as misused:
        steps.check()
    assert str(misused.value) == (
        "the loop took 4 of 5 turns (2 warm-up, 3 measured). "
        "It must go on until the steps are used up: look for a break, a return, or data that ends first."
    )


@pytest.mark.parametrize("leave", LEAVING)
def test_a_loop_that_does_not_come_back_from_the_last_turn_is_told_how(
    calls: list[str], leave: Callable[[MeasuredSteps, int], object]
) -> None:
    steps = made(calls)
    leave(steps, 4)
    assert calls == [*[WARM, "pop"] * 2, *OPENING, *[STEP, "pop"] * 3, "stop"]
    with pytest.raises(StepsMisused) as misused:
        steps.check()
    assert str(misused.value) == (
        "the loop began all 5 turns (2 warm-up, 3 measured), and did not come back for the end of the last one. "
        "Put the steps first, with data for every turn, zip(steps, data), "
        "or call next() once more than there are turns."
    )


def test_steps_first_with_data_for_every_turn_is_right(calls: list[str]) -> None:
    steps = made(calls)
    for _ in zip(steps, range(5), strict=False):
        pass
    steps.check()
    assert calls[-2:] == CLOSING


def test_one_next_more_than_there_are_turns_is_right(calls: list[str]) -> None:
    steps = made(calls)
    turns = iter(steps)
    for _ in range(5):
        next(turns)
    assert next(turns, None) is None
    steps.check()


def test_strict_zip_with_as_much_data_is_right(calls: list[str]) -> None:
    steps = made(calls)
    for _ in zip(range(5), steps, strict=True):
        pass
    steps.check()


def test_a_loop_left_in_the_warm_up_never_opens_the_capture(calls: list[str]) -> None:
    steps = made(calls)
    left_by_break(steps, 0)
    assert calls == [WARM, "pop"]
    with pytest.raises(StepsMisused, match=r"^the loop took 1 of 5 turns"):
        steps.check()


def test_a_loop_that_never_started_is_misused(calls: list[str]) -> None:
    with pytest.raises(StepsMisused, match=r"^the loop took 0 of 5 turns"):
        made(calls).check()


def test_an_exception_in_the_loop_closes_range_and_capture_and_is_the_one_raised(calls: list[str]) -> None:
    steps = made(calls)

    def work() -> None:
        for turn in steps:
            if turn == 3:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        work()
    assert calls == [*[WARM, "pop"] * 2, *OPENING, *[STEP, "pop"] * 2, "stop"]


def test_an_iterator_that_something_still_holds_is_closed_by_hand(calls: list[str]) -> None:
    steps = made(calls)
    held = iter(steps)
    for _ in range(3):
        next(held)
    assert calls[-1] == STEP
    steps.close()
    assert calls == [*[WARM, "pop"] * 2, *OPENING, STEP, "pop", "stop"]
    steps.close()
    assert calls[-1] == "stop"
    assert list(held) == []


def test_closing_steps_that_ended_or_never_began_does_nothing(calls: list[str]) -> None:
    steps = made(calls)
    steps.close()
    assert calls == []
    list(steps)
    del calls[:]
    steps.close()
    assert calls == []
    assert steps.finished


def test_a_second_loop_is_an_error_and_leaves_the_first_alone(calls: list[str]) -> None:
    steps = made(calls)
    list(steps)
    del calls[:]
    with pytest.raises(StepsMisused) as misused:
        list(steps)
    assert str(misused.value) == (
        "the steps were iterated a second time, after 5 of 5 turns. "
        "Iterate over them once, and do one step of work a turn."
    )
    assert calls == []


def test_a_loop_within_the_loop_is_an_error(calls: list[str]) -> None:
    steps = made(calls)

    def work() -> None:
        for _ in steps:
            for _ in steps:
                pass

    with pytest.raises(StepsMisused, match=r"^the steps were iterated a second time, after 1 of 5 turns\."):
        work()
    assert calls == [WARM, "pop"]


# In turns with another process

WAIT = "push perfgate wait"
SOON_S = 5.0
"""Within which everything here happens that does not wait for nothing."""


@dataclass
class Duet:
    """Two sides of a duet in two threads of this process, which note into one list what they do."""

    folder: Path
    done: list[str] = field(default_factory=list)

    def bouts(self, name: str, *, steps: int = 2, begins: str = "a", patience_s: float = SOON_S) -> Bouts:
        """The order of side `a` or `b`."""
        return Bouts(
            steps=steps,
            begins=name == begins,
            own=str(self.folder / name),
            other=str(self.folder / ("b" if name == "a" else "a")),
            patience_s=patience_s,
        )

    def steps(self, name: str, *, steps: int = 4, warmup: int = 1, bouts: Bouts | None = None) -> MeasuredSteps:
        """The steps of a side, on a GPU."""
        side = _Side(name, self.done)
        torch = FakeTorch(side)
        return MeasuredSteps(
            steps=steps,
            warmup=warmup,
            profiled=True,
            bouts=bouts or self.bouts(name),
            find_torch=lambda: torch,
            find_nvtx=lambda: None,
        )

    def of(self, name: str) -> list[str]:
        """What one side did, in order."""
        return [what.removeprefix(f"{name} ") for what in self.done if what.startswith(f"{name} ")]

    def rows(self) -> list[str]:
        """Who worked when, as `a 2` for two turns of the loop in a row."""
        worked = [what[0] for what in self.done if what[2:].startswith("work")]
        return [f"{name} {len(list(row))}" for name, row in itertools.groupby(worked)]


class _Side(list[str]):
    """Notes calls with the name of the side."""

    def __init__(self, name: str, done: list[str]) -> None:
        self._name = name
        self._done = done

    def append(self, what: str) -> None:
        self._done.append(f"{self._name} {what}")


@pytest.fixture
def duet(tmp_path: Path) -> Duet:
    for name in "ab":
        os.mkfifo(tmp_path / name)
    return Duet(tmp_path)


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool


def loop(duet: Duet, name: str, steps: MeasuredSteps, *, leave_at: int | None = None) -> None:
    for turn in steps:
        duet.done.append(f"{name} work {turn}")
        time.sleep(0.002)
        assert duet.done[-1] == f"{name} work {turn}", "the other side did something meanwhile"
        if turn == leave_at:
            return


def run_both(duet: Duet, beside: ThreadPoolExecutor, a: MeasuredSteps, b: MeasuredSteps) -> None:
    other = beside.submit(loop, duet, "b", b)
    loop(duet, "a", a)
    other.result(SOON_S)
    a.check()
    b.check()


def test_the_sides_warm_up_and_work_in_turns(duet: Duet, beside: ThreadPoolExecutor) -> None:
    run_both(duet, beside, duet.steps("a", steps=5, warmup=3), duet.steps("b", steps=5, warmup=3))
    assert duet.rows() == ["a 3", "b 3", "a 2", "b 2", "a 2", "b 2", "a 1", "b 1"]


def test_the_side_that_begins_is_the_one_it_was_ordered_to(duet: Duet, beside: ThreadPoolExecutor) -> None:
    a, b = (duet.steps(name, bouts=duet.bouts(name, begins="b")) for name in "ab")
    run_both(duet, beside, a, b)
    assert duet.rows() == ["b 1", "a 1", "b 2", "a 2", "b 2", "a 2"]


def test_without_warm_up_the_first_bouts_come_at_once(duet: Duet, beside: ThreadPoolExecutor) -> None:
    a, b = (duet.steps(name, warmup=0) for name in "ab")
    run_both(duet, beside, a, b)
    assert duet.rows() == ["a 2", "b 2", "a 2", "b 2"]
    assert duet.done[0] == "a sync 0"


def test_waits_are_synchronised_marked_and_outside_steps_and_capture(duet: Duet, beside: ThreadPoolExecutor) -> None:
    a, b = (duet.steps(name) for name in "ab")
    run_both(duet, beside, a, b)
    for name in "ab":
        assert duet.of(name) == [
            *(WARM, "work 0", "pop"),
            *OPENING,
            *(STEP, "work 1", "pop", STEP, "work 2", "pop"),
            *("sync 0", WAIT, "pop"),
            *(STEP, "work 3", "pop", STEP, "work 4", "pop"),
            *CLOSING,
        ]
    # Neither opens its capture, nor closes it, while the other works.
    assert duet.done.index("b pop") < duet.done.index("a start") < duet.done.index("b start")
    assert duet.done.index("b work 4") < duet.done.index("a stop")


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        ((2, 6), ["a 1", "b 1", "a 2", "b 6"]),
        ((6, 2), ["a 1", "b 1", "a 2", "b 2", "a 4"]),
        ((3, 4), ["a 1", "b 1", "a 2", "b 2", "a 1", "b 2"]),
    ],
)
def test_a_side_that_is_done_leaves_the_rest_to_the_other(
    duet: Duet, beside: ThreadPoolExecutor, steps: tuple[int, int], rows: list[str]
) -> None:
    a, b = (duet.steps(name, steps=count) for name, count in zip("ab", steps, strict=True))
    run_both(duet, beside, a, b)
    assert duet.rows() == rows
    longer = "b" if steps[1] > steps[0] else "a"
    waits = duet.of(longer).count(WAIT)
    assert waits == (steps == (3, 4)) + (steps == (6, 2))


def test_a_bout_longer_than_the_loop_is_the_whole_loop(duet: Duet, beside: ThreadPoolExecutor) -> None:
    a, b = (duet.steps(name, bouts=duet.bouts(name, steps=100)) for name in "ab")
    run_both(duet, beside, a, b)
    assert duet.rows() == ["a 1", "b 1", "a 4", "b 4"]


def abandoned(duet: Duet, name: str, steps: MeasuredSteps) -> str:
    with pytest.raises(Abandoned) as left:
        loop(duet, name, steps)
    with pytest.raises(Abandoned) as again:
        steps.check()
    assert str(left.value) == str(again.value) == steps.abandoned
    return str(left.value)


GONE = "the other side of the duet ended before its last step."


@pytest.mark.parametrize(("leaving", "leave_at"), [*itertools.product("ab", range(3)), ("a", 3), ("a", 4)])
def test_a_side_that_leaves_early_is_not_waited_for(
    duet: Duet, beside: ThreadPoolExecutor, leaving: str, leave_at: int
) -> None:
    staying = "b" if leaving == "a" else "a"
    goes, stays = duet.steps(leaving), duet.steps(staying)
    other = beside.submit(loop, duet, leaving, goes, leave_at=leave_at)
    assert abandoned(duet, staying, stays) == GONE
    other.result(SOON_S)
    with pytest.raises(StepsMisused, match=r"^the loop "):
        goes.check()
    # What was open is closed: no capture is left to run, and no range.
    told = duet.of(staying)
    assert told.count("start") == told.count("stop")
    assert sum(what.startswith("push") for what in told) == told.count("pop")


def test_an_exception_hands_over_as_well(duet: Duet, beside: ThreadPoolExecutor) -> None:
    goes, stays = duet.steps("a"), duet.steps("b")

    def work() -> None:
        for turn in goes:
            if turn == 2:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")

    other = beside.submit(work)
    assert abandoned(duet, "b", stays) == GONE
    with pytest.raises(RuntimeError, match="illegal memory access"):
        other.result(SOON_S)


def test_a_side_that_cannot_mark_its_steps_is_not_waited_for(duet: Duet, beside: ThreadPoolExecutor) -> None:
    goes = MeasuredSteps(
        steps=4,
        warmup=1,
        profiled=False,
        bouts=duet.bouts("a"),
        find_torch=lambda: None,
        find_nvtx=lambda: None,
    )
    stays = duet.steps("b")
    other = beside.submit(loop, duet, "a", goes)
    assert abandoned(duet, "b", stays) == GONE
    with pytest.raises(Deaf):
        other.result(SOON_S)


def test_a_side_that_tells_of_its_end_before_its_loop_is_not_waited_for(
    duet: Duet, beside: ThreadPoolExecutor, order: Order
) -> None:
    goes, stays = duet.steps("a"), duet.steps("b")
    other = beside.submit(abandoned, duet, "b", stays)
    tell(order, goes, Ending.RAISED, message="ValueError: no data")
    assert other.result(SOON_S) == GONE
    assert account_of(order).ending is Ending.RAISED


def test_whatever_a_workload_makes_of_being_abandoned_it_was_that(duet: Duet, order: Order) -> None:
    goes, stays = duet.steps("a"), duet.steps("b")
    goes.close()

    def work() -> None:
        try:
            loop(duet, "b", stays)
        except Abandoned as left:
            raise RuntimeError("data are gone") from left

    with pytest.raises(RuntimeError, match="data are gone"):
        work()
    tell(order, stays, Ending.RAISED, message="RuntimeError: data are gone")
    told = account_of(order)
    assert (told.ending, told.message, told.turns) == (Ending.ABANDONED, GONE, 0)


def test_a_side_that_keeps_the_turn_is_not_waited_for_for_ever(duet: Duet) -> None:
    duet.steps("a")
    stays = duet.steps("b", bouts=duet.bouts("b", patience_s=0.2))
    began = time.monotonic()
    told = abandoned(duet, "b", stays)
    assert told == "the other side of the duet did not hand over within 0.2 s."
    assert 0.2 <= time.monotonic() - began < SOON_S


def test_patience_may_be_longer_than_poll_can_count(duet: Duet, beside: ThreadPoolExecutor) -> None:
    a, b = (duet.steps(name, bouts=duet.bouts(name, patience_s=1e9)) for name in "ab")
    run_both(duet, beside, a, b)


def test_a_side_that_is_done_ends_well_whatever_becomes_of_the_other(duet: Duet, beside: ThreadPoolExecutor) -> None:
    done, goes = duet.steps("a", steps=2), duet.steps("b", steps=6)
    other = beside.submit(loop, duet, "b", goes, leave_at=4)
    loop(duet, "a", done)
    done.check()
    other.result(SOON_S)


def test_waiting_takes_no_time_of_the_processor(duet: Duet, beside: ThreadPoolExecutor) -> None:
    goes, stays = duet.steps("a"), duet.steps("b")

    def wait() -> float:
        began = time.thread_time()
        with pytest.raises(Abandoned):
            next(iter(stays))
        return time.thread_time() - began

    other: Future[float] = beside.submit(wait)
    time.sleep(0.3)
    goes.close()
    assert other.result(SOON_S) < 0.15


def test_closing_twice_or_after_the_end_says_nothing_more(duet: Duet, beside: ThreadPoolExecutor) -> None:
    a, b = (duet.steps(name) for name in "ab")
    run_both(duet, beside, a, b)
    for steps in (a, b, a):
        steps.close()
    assert (a.abandoned, b.abandoned) == (None, None)


KILLED = """\
import os, signal, sys, time
from perfgate.model.order import Bouts
from perfgate.worker import Turns
turns = Turns(Bouts(steps=2, begins=True, own=sys.argv[1], other=sys.argv[2], patience_s=60))
if not os.fork():
    print("child", flush=True)
    time.sleep(60)
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_is_missed_though_its_child_lives_on(duet: Duet) -> None:
    stays = Turns(duet.bouts("b", patience_s=30))
    paths = (str(duet.folder / "a"), str(duet.folder / "b"))
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, *paths], stdout=subprocess.PIPE, start_new_session=True
    ) as killed:
        try:
            with pytest.raises(Abandoned) as left:
                stays.begin()
        finally:
            os.killpg(killed.pid, 9)
    assert str(left.value) == GONE
    assert time.monotonic() - began < 20


def test_opening_waits_for_nobody_and_what_is_said_before_is_kept(duet: Duet, beside: ThreadPoolExecutor) -> None:
    first = Turns(duet.bouts("a"))
    said = beside.submit(first.hand_over)
    time.sleep(0.05)
    second = Turns(duet.bouts("b"))
    second.begin()
    second.leave()
    with pytest.raises(Abandoned, match=GONE):
        said.result(SOON_S)


# On one core


@pytest.fixture
def affinity() -> Iterator[set[int]]:
    """Where this process may run, which holds again afterwards for all of its threads."""
    cores = os.sched_getaffinity(0)
    try:
        yield cores
    finally:
        for thread in Path("/proc/self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread.name), cores)


def on_core(duet: Duet, name: str, core: int | None) -> Bouts:
    return duet.bouts(name).model_copy(update={"core": core})


def test_a_pinned_process_has_one_core_and_torch_as_many_threads(
    monkeypatch: pytest.MonkeyPatch, affinity: set[int]
) -> None:
    threads: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=threads.append))
    pinned = Pinned(max(affinity))
    assert os.sched_getaffinity(0) == {max(affinity)}
    assert threads == [1]
    assert pinned.let_go()
    assert os.sched_getaffinity(0) == affinity


def test_torch_that_is_not_there_yet_is_not_imported(monkeypatch: pytest.MonkeyPatch, affinity: set[int]) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    Pinned(min(affinity))
    assert "torch" not in sys.modules


def test_threads_that_were_there_are_pinned_and_let_go_and_new_ones_inherit(affinity: set[int]) -> None:
    core = {min(affinity)}
    with ThreadPoolExecutor(max_workers=1) as old, ThreadPoolExecutor(max_workers=1) as new:
        assert old.submit(os.sched_getaffinity, 0).result() == affinity
        pinned = Pinned(*core)
        assert old.submit(os.sched_getaffinity, 0).result() == core
        assert new.submit(os.sched_getaffinity, 0).result() == core
        pinned.let_go()
        assert [pool.submit(os.sched_getaffinity, 0).result() for pool in (old, new)] == [affinity, affinity]


CHILD = """\
import subprocess, sys
own = [sys.executable, "-c", "input()"]
with subprocess.Popen(own, stdin=subprocess.PIPE) as grandchild:
    print(grandchild.pid, flush=True)
    input()
"""


def test_children_and_their_children_are_pinned_and_let_go(affinity: set[int]) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        family = [child.pid, int(child.stdout.readline())]
        pinned = Pinned(max(affinity))
        assert [os.sched_getaffinity(pid) for pid in family] == [{max(affinity)}] * 2
        pinned.let_go()
        assert [os.sched_getaffinity(pid) for pid in family] == [affinity] * 2
        child.communicate("\n")


def test_a_thread_that_ends_meanwhile_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    where = {0: {1, 2}, 11: {1, 2}, 12: {1, 2}}

    def affinity_of(thread: int) -> set[int]:
        if thread == 10:
            raise ProcessLookupError
        return where[thread]

    def move(thread: int, cores: set[int]) -> None:
        if thread == 11:
            raise ProcessLookupError
        where[thread] = cores

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(worker, "_threads", lambda: [10, 11, 12])
    monkeypatch.setattr(os, "sched_getaffinity", affinity_of)
    monkeypatch.setattr(os, "sched_setaffinity", move)
    Pinned(2)
    assert where == {0: {2}, 11: {1, 2}, 12: {2}}


def test_a_thread_that_is_started_meanwhile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    where = {0: {1, 2}, 10: {1, 2}}
    looks: list[int] = []

    def threads() -> list[int]:
        looks.append(len(where))
        found = [thread for thread in where if thread]
        if len(looks) == 1:
            where[11] = {1, 2}  # by 10, which is not there yet
        return found

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(worker, "_threads", threads)
    monkeypatch.setattr(os, "sched_getaffinity", where.__getitem__)
    monkeypatch.setattr(os, "sched_setaffinity", where.__setitem__)
    Pinned(2)
    assert where == {0: {2}, 10: {2}, 11: {2}}
    assert len(looks) == 3


def test_who_has_left_the_core_is_not_sent_back(affinity: set[int]) -> None:
    if len(affinity) == 1:
        pytest.skip("this process may run on one core only")
    pinned = Pinned(max(affinity))
    os.sched_setaffinity(0, {min(affinity)})
    assert not pinned.let_go()
    assert os.sched_getaffinity(0) == {min(affinity)}


def test_a_core_that_is_not_there_is_told() -> None:
    with pytest.raises(NotPinned) as refused:
        Pinned(1023)
    assert str(refused.value) == "its process cannot be kept on core 1023 (Invalid argument)."
    assert refused.value.ending is Ending.NOT_PINNED


def test_a_platform_that_cannot_pin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    with pytest.raises(NotPinned) as refused:
        Pinned(0)
    assert str(refused.value) == "its process cannot be kept on core 0 (not on this platform)."


class NotedPin:
    """A stand-in for `Pinned` that notes what is asked of it, and finds or misses its thread on the core at the end."""

    def __init__(self, done: list[str], core: int, *, stays: bool = True) -> None:
        self.core = core
        self._done = done
        self._stays = stays
        done.append(f"a pinned to {core}")

    def let_go(self) -> bool:
        self._done.append("a let go")
        return self._stays


@pytest.mark.parametrize(("warmup", "free"), [(0, 0), (3, 0), (SETTLING_TURNS, 0), (SETTLING_TURNS + 2, 2)])
def test_only_the_last_turns_of_the_warm_up_and_the_steps_are_taken_on_the_core(
    duet: Duet, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, warmup: int, free: int
) -> None:
    monkeypatch.setattr(worker, "Pinned", partial(NotedPin, duet.done))
    a = duet.steps("a", steps=2, warmup=warmup, bouts=on_core(duet, "a", 3))
    run_both(duet, beside, a, duet.steps("b", steps=2, warmup=warmup))
    told = [what for what in duet.of("a") if what.startswith(("work", "pinned", "let go", "start", "stop"))]
    work = [f"work {turn}" for turn in range(warmup + 2)]
    assert told == [*work[:free], "pinned to 3", *work[free:warmup], "start", *work[warmup:], "let go", "stop"]
    # Not before the other side has taken its last step as well.
    assert duet.done.index(f"b work {warmup + 1}") < duet.done.index("a let go")
    assert a.kept_core == 3


def test_without_a_core_nothing_is_pinned(duet: Duet, beside: ThreadPoolExecutor, affinity: set[int]) -> None:
    a, b = duet.steps("a"), duet.steps("b")
    run_both(duet, beside, a, b)
    assert os.sched_getaffinity(0) == affinity
    assert a.kept_core is None


def test_a_core_that_is_not_there_ends_the_loop_and_frees_the_other_side(
    duet: Duet, beside: ThreadPoolExecutor
) -> None:
    goes, stays = duet.steps("a", bouts=on_core(duet, "a", 1023)), duet.steps("b")
    other = beside.submit(abandoned, duet, "b", stays)
    with pytest.raises(NotPinned):
        loop(duet, "a", goes)
    assert other.result(SOON_S) == GONE
    assert (goes.turns, goes.kept_core) == (0, None)


@pytest.mark.parametrize("stays", [True, False])
def test_the_account_tells_the_core_that_was_kept(
    duet: Duet, beside: ThreadPoolExecutor, order: Order, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    monkeypatch.setattr(worker, "Pinned", partial(NotedPin, duet.done, stays=stays))
    bouts = on_core(duet, "a", 3)
    a = duet.steps("a", bouts=bouts)
    run_both(duet, beside, a, duet.steps("b"))
    tell(order.model_copy(update={"bouts": bouts}), a, Ending.FINISHED)
    assert account_of(order).core == (3 if stays else None)


def test_the_account_of_a_run_alone_tells_no_core(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    tell(order, made(calls), Ending.FINISHED)
    assert account_of(order).core is None


@pytest.mark.parametrize(
    ("here", "core", "near"),
    [
        ({0, 1, 4, 5}, 5, {4, 5}),
        ({0, 1, 4, 5}, 1, {0, 1}),
        ({4, 5}, 5, None),
        ({0, 1}, 5, None),
        ({0, 1, 4, 5}, 7, {4, 5}),
        ({0, 1, 4, 5}, 1023, None),
    ],
)
def test_a_process_stays_near_the_memory_of_its_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: set[int], core: int, near: set[int] | None
) -> None:
    for number, cpus in enumerate(("0-2,3", "4-7", "")):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(f"{cpus}\n")
    asked: list[tuple[int, set[int]]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: here)
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cores: asked.append((thread, cores)))
    stay_near(core, nodes=tmp_path)
    assert asked == ([] if near is None else [(0, near)])


def test_where_nothing_is_known_of_memory_a_process_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *told: asked.append(told))
    stay_near(0, nodes=tmp_path / "none")
    (tmp_path / "node0").mkdir()
    (tmp_path / "node0" / "cpulist").write_text("all of them\n")
    stay_near(0, nodes=tmp_path)
    monkeypatch.delattr(os, "sched_getaffinity")
    stay_near(0, nodes=tmp_path)
    assert asked == []


# What marks and captures


def test_a_deaf_nvtx_package_is_told_before_the_first_turn(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "package_version", {"nvtx": "0.2.13"}.get)
    steps = made(calls, nvtx=FakeNvtx(calls, deaf=True))
    with pytest.raises(Deaf) as deaf:
        list(steps)
    assert str(deaf.value) == (
        "nvtx 0.2.13 does not speak to this nsys: its ranges are silently dropped. "
        'Install an older one (pip install "nvtx<0.2.12") or a newer nsys (2024.6 or later).'
    )
    assert (calls, steps.turns) == ([], 0)


def test_a_deaf_nvtx_package_does_not_matter_where_torch_marks(calls: list[str]) -> None:
    marker = choose_marker(torch=FakeTorch(calls), nvtx=FakeNvtx(calls, deaf=True), profiled=True)
    assert isinstance(marker, TorchMarker)


def test_a_deaf_nvtx_package_does_not_matter_outside_nsys(calls: list[str]) -> None:
    marker = choose_marker(torch=None, nvtx=FakeNvtx(calls, deaf=True), profiled=False)
    assert isinstance(marker, PackageMarker)


@pytest.mark.parametrize("torch", [None, FakeTorch([], available=False)])
def test_nothing_to_mark_with_is_an_error(torch: ModuleType | None) -> None:
    with pytest.raises(Deaf) as deaf:
        choose_marker(torch=torch, nvtx=None, profiled=False)
    assert str(deaf.value) == (
        "neither a CUDA build of torch nor the nvtx package can be imported, so no step can be marked."
    )


def test_the_driver_library_opens_the_capture_where_torch_does_not(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = SimpleNamespace(
        cuCtxSynchronize=lambda: calls.append("sync"),
        cuProfilerStart=lambda: calls.append("start"),
        cuProfilerStop=lambda: calls.append("stop"),
    )
    monkeypatch.setattr(worker, "_driver_library", lambda: driver)
    steps = made(calls, warmup=0, nvtx=FakeNvtx(calls))
    list(steps)
    assert calls == ["sync", "start", START, "pop", *[STEP, "pop"] * 3, "sync", "stop"]
    assert steps.captured_by == "libcuda"


class FakeDriver:
    """libcuda, which says `status` to cuInit."""

    def __init__(self, status: int) -> None:
        self._status = status

    def cuInit(self, flags: int) -> int:  # noqa: N802 - the library's
        """Answer as prepared."""
        assert flags == 0
        return self._status


@pytest.mark.parametrize(("status", "usable"), [(0, True), (100, False)])
def test_a_driver_library_without_a_device_is_as_good_as_none(
    monkeypatch: pytest.MonkeyPatch, status: int, usable: bool
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: {"libcuda.so.1": FakeDriver(status)}[name])
    assert (worker._driver_library() is not None) is usable


@pytest.mark.usefixtures("no_driver")
def test_no_driver_library_means_no_capture_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = choose_capture(torch=None)
    capture.synchronise()
    assert (capture.name, capture.start(), capture.stop()) == (None, None, None)


def test_a_missing_driver_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> NoReturn:
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert worker._driver_library() is None


@pytest.mark.usefixtures("no_driver")
def test_by_default_torch_is_taken_only_if_it_is_there_already(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "nvtx", FakeNvtx(calls))
    steps = MeasuredSteps(steps=3, warmup=0, profiled=True)
    list(steps)
    assert "torch" not in sys.modules
    assert (steps.marked_by, steps.captured_by) == ("nvtx", None)


def test_by_default_a_missing_nvtx_package_is_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(Deaf, match="neither a CUDA build of torch nor the nvtx package"):
        list(MeasuredSteps(steps=3, warmup=0, profiled=False))


@pytest.mark.parametrize(
    ("environment", "around"),
    [
        ({}, False),
        ({"PATH": "/bin"}, False),
        ({"NSYS_PROFILING_SESSION_ID": "1"}, True),
        ({"NVTX_INJECTION64_PATH": "/opt/libToolsInjection64.so"}, True),
    ],
)
def test_nsys_is_known_by_what_it_sets(environment: dict[str, str], around: bool) -> None:
    assert profiled(environment) is around


# The account


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """An order for a project in a folder of its own."""
    root = tmp_path / "project"
    root.mkdir()
    return Order(workload="mlp", steps=3, warmup=2, root=str(root), account=str(tmp_path / "account.json"))


def account_of(order: Order) -> Account:
    return Account.model_validate_json(Path(order.account).read_text(encoding="utf-8"))


def test_the_account_tells_how_it_ended_and_with_what(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(calls))
    monkeypatch.setattr(worker, "package_version", {"nvtx": "0.2.11"}.get)
    monkeypatch.setattr(os, "getpid", lambda: 77)
    steps = made(calls)
    list(steps)
    tell(order, steps, Ending.FINISHED)
    account = account_of(order)
    assert account.cores is not None
    assert account.model_copy(update={"cores": None}) == Account(
        ending=Ending.FINISHED,
        turns=5,
        pid=77,
        torch="2.6.0+cu124",
        cuda="12.4",
        nvtx="0.2.11",
        marked_by="torch.cuda.nvtx",
        captured_by="torch",
    )


def test_it_says_which_files_its_modules_came_from_where_that_is_asked(
    order: Order, calls: list[str], tmp_path: Path, load: Callable[[str, object], None]
) -> None:
    file = tmp_path / "site-packages" / "proj.py"
    load("proj", str(file))
    tell(order, made(calls), Ending.FINISHED)
    assert not (tmp_path / "witnesses").exists()
    tell(order.model_copy(update={"witnesses": str(tmp_path / "witnesses")}), made(calls), Ending.FINISHED)
    (told,) = read_witnesses(tmp_path / "witnesses")
    assert told.pid == os.getpid()
    assert {sys.prefix, sys.base_prefix} <= set(told.prefixes)
    assert told.modules["proj"] == str(file)
    assert all(Path(path).is_absolute() for path in told.modules.values())
    tell(order.model_copy(update={"witnesses": "/dev/null/x"}), made(calls), Ending.FINISHED)


def test_a_file_that_was_edited_since_it_was_loaded_is_like_no_other_runs(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "loaded_code", lambda *_: {"a.py": "new", "b.py": "same", "late.py": "late"})
    tell(order, made(calls), Ending.FINISHED, before={"a.py": "old", "b.py": "same", "gone.py": "x"})
    code = account_of(order).code
    assert list(code) == ["a.py", "b.py", "late.py"]
    assert (code["b.py"], code["late.py"]) == ("same", "late")
    assert code["a.py"] not in ("old", "new")


def test_a_message_that_is_no_text_is_spelled_out(order: Order, calls: list[str]) -> None:
    tell(order, made(calls), Ending.RAISED, message="ValueError: bad \udcff name")
    assert account_of(order).message == r"ValueError: bad \udcff name"


def test_a_loop_that_a_thread_is_in_still_gets_its_account(order: Order, calls: list[str]) -> None:
    steps = made(calls)

    class Busy:
        def close(self) -> None:
            raise ValueError("generator already executing")

    loop = Busy()
    steps._running = lambda: loop  # type: ignore[assignment, return-value]
    tell(order, steps, Ending.WRONG_STEPS, message="the loop took 0 of 5 turns")
    assert account_of(order).ending is Ending.WRONG_STEPS


def test_the_account_without_torch_says_so(order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    tell(order, made(calls), Ending.EXITED, message="it called sys.exit(3)", exit_status=3)
    account = account_of(order)
    assert (account.torch, account.cuda, account.turns, account.marked_by) == (None, None, 0, None)
    assert (account.ending, account.message, account.exit_status) == (Ending.EXITED, "it called sys.exit(3)", 3)


def test_the_account_of_a_cpu_build_of_torch_has_no_cuda(
    order: Order, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = FakeTorch(calls, available=False)
    torch.version = SimpleNamespace(cuda=None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    tell(order, made(calls), Ending.RAISED, message="ValueError: ü")
    account = account_of(order)
    assert (account.torch, account.cuda, account.message) == ("2.6.0+cu124", None, "ValueError: ü")


def test_telling_closes_what_the_loop_left_open(order: Order, calls: list[str]) -> None:
    steps = made(calls)
    held = iter(steps)
    next(held)
    tell(order, steps, Ending.RAISED, message="KeyError: 1")
    assert calls == [WARM, "pop"]
    assert account_of(order).turns == 1


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, object], None]:
    """Puts a module with this `__file__` among the loaded ones."""

    def put(name: str, file: object) -> None:
        module = ModuleType(name)
        module.__dict__["__file__"] = file
        monkeypatch.setitem(sys.modules, name, module)

    return put


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


Load = Callable[[str, object], None]


def test_cores_kept_busy_are_those_of_all_threads_and_children() -> None:
    """Two children that compute, beside this process, which waits."""
    alone = Busy()
    time.sleep(0.1)
    assert alone.cores() < 0.5
    spin = "print(flush=True)\nwhile True: pass"
    with ExitStack() as held:
        children = [held.enter_context(subprocess.Popen([sys.executable, "-c", spin], stdout=-1)) for _ in range(2)]
        for child in children:
            held.callback(child.kill)
            assert child.stdout is not None
            child.stdout.readline()
        busy, began = Busy(), time.monotonic()
        # However little a busy machine lets them have, it is more than this process takes.
        while (cores := busy.cores()) < 0.2 or time.monotonic() < began + 0.2:
            assert time.monotonic() < began + 60
            time.sleep(0.05)
    assert 0.2 <= cores < 2.5


def test_what_a_child_that_has_ended_took_counts_as_well() -> None:
    busy, began = Busy(), time.perf_counter()
    burn = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert busy.cores() * (time.perf_counter() - began) > 0.3


def test_loaded_code_is_the_projects_files_among_the_modules(tmp_path: Path, load: Load) -> None:
    for name in ("model.py", "workloads/mlp.py", "unloaded.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    load("a_model", str(tmp_path / "model.py"))
    load("a_workload", str(tmp_path / "workloads" / "mlp.py"))
    load("elsewhere", str(tmp_path.parent / "other.py"))
    assert loaded_code(tmp_path) == {"model.py": sha("model.py"), "workloads/mlp.py": sha("workloads/mlp.py")}
    assert list(loaded_code(tmp_path)) == ["model.py", "workloads/mlp.py"]


def test_what_perfgate_keeps_in_a_project_is_not_its_code(tmp_path: Path, load: Load) -> None:
    kept = tmp_path / ".perfgate" / "results" / "witnesses" / "sitecustomize.py"
    kept.parent.mkdir(parents=True)
    kept.write_text("x")
    load("sitecustomize", str(kept))
    assert loaded_code(tmp_path) == {}
    assert loaded_code(kept.parent) == {"sitecustomize.py": sha("x")}


def test_loaded_code_is_also_what_is_vendored_in_a_folder_named_as_that_of_installed_packages(
    tmp_path: Path, load: Load
) -> None:
    for name in ("vendor/site-packages/eng.py", "other/site-packages/x.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
        load(name, str(tmp_path / name))
    assert list(loaded_code(tmp_path, ("vendor/site-packages",))) == ["vendor/site-packages/eng.py"]
    assert loaded_code(tmp_path) == {}


def test_loaded_code_is_found_through_links(tmp_path: Path, load: Load) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "model.py").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    load("linked", str(tmp_path / "link" / "model.py"))
    assert loaded_code(tmp_path / "link") == loaded_code(tmp_path / "real") == {"model.py": sha("x")}


@pytest.mark.parametrize("folder", [".venv/lib/python3.11/site-packages/x", "lib/site-packages", "env/dist-packages"])
def test_installed_packages_below_the_project_are_not_its_code(tmp_path: Path, load: Load, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "dep.py").write_text("x")
    load("dep", str(tmp_path / folder / "dep.py"))
    assert loaded_code(tmp_path) == {}


@pytest.mark.parametrize("prefix", ["prefix", "base_prefix", "exec_prefix"])
def test_the_interpreters_own_folder_below_the_project_is_not_its_code(
    tmp_path: Path, load: Load, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env" / "lib").mkdir(parents=True)
    (tmp_path / "env" / "lib" / "json.py").write_text("x")
    load("std", str(tmp_path / "env" / "lib" / "json.py"))
    assert loaded_code(tmp_path) == {"env/lib/json.py": sha("x")}
    monkeypatch.setattr(sys, prefix, str(tmp_path / "env"))
    assert loaded_code(tmp_path) == {}


def test_a_project_that_is_the_interpreters_folder_still_has_code(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "model.py").write_text("x")
    load("model", str(tmp_path / "model.py"))
    assert loaded_code(tmp_path) == {"model.py": sha("x")}


def test_perfgate_is_not_the_code_of_a_project_around_it() -> None:
    package = Path(worker.__file__).parent
    assert not [name for name in loaded_code(package.parent) if name.startswith("perfgate/")]


def test_modules_without_a_file_that_is_there_are_passed_over(tmp_path: Path, load: Load) -> None:
    load("gone", str(tmp_path / "gone.py"))
    load("namespace", None)
    load("odd", 3)
    assert loaded_code(tmp_path) == {}


def test_lazy_modules_are_not_woken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy:
        """Stands in sys.modules for what it has not imported yet."""

        def __getattr__(self, name: str) -> NoReturn:
            raise ImportError(f"woken up for {name}")

    monkeypatch.setitem(sys.modules, "lazy", Lazy())
    monkeypatch.setitem(sys.modules, "none", None)
    assert loaded_code(tmp_path) == {}


def test_versions_are_of_installed_packages() -> None:
    assert package_version("pytest") == pytest.__version__
    assert package_version("no-such-package-of-anybody") is None
