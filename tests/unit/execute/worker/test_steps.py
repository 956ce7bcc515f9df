"""The loop against a stand-in for torch that notes every call: what is marked and captured, and how
it may be left."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from support.cases import named
from support.sides import CLOSING, END, OPENING, START, STEP, WARM, FakeNvtx, FakeTorch, made

from perfgate.execute.worker import MeasuredSteps, StepsMisused


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
    assert (steps.turns, steps.finished, steps.captured_by) == (5, True, "torch")


def test_torch_that_the_loop_itself_imports_opens_the_capture(calls: list[str]) -> None:
    found: list[ModuleType] = []
    nvtx = FakeNvtx(calls)
    steps = MeasuredSteps(
        steps=3,
        warmup=1,
        profiled=True,
        find_torch=lambda: found[0] if found else None,
        find_nvtx=lambda: nvtx,
    )
    for _ in steps:
        found[:] = [FakeTorch(calls)]
    assert calls == [WARM, "pop", *OPENING, *[STEP, "pop"] * 3, *CLOSING]
    assert steps.captured_by == "torch"


@pytest.mark.usefixtures("no_driver")
def test_without_a_gpu_the_steps_are_marked_and_nothing_else_is_done(calls: list[str]) -> None:
    steps = made(calls, torch=FakeTorch(calls, available=False), nvtx=FakeNvtx(calls))
    list(steps)
    assert calls == [*[WARM, "pop"] * 2, START, "pop", *[STEP, "pop"] * 3, END, "pop"]
    assert steps.captured_by is None


@pytest.mark.parametrize(
    ("step_s", "number"),
    named(
        {
            "nothing": (0.0, 5000),
            "a second": (0.00048, 2100),
            "a good number within two seconds": (0.007, 200),
            "two seconds": (0.019, 110),
            "the fewest": (3.0, 10),
        }
    ),
)
@pytest.mark.usefixtures("no_driver")
def test_a_loop_without_a_number_of_steps_takes_what_is_worth_a_process(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, step_s: float, number: int
) -> None:
    clock = iter((1.0, 1.0 + 5 * step_s))
    monkeypatch.setattr("perfgate.execute.worker.steps.time.perf_counter", lambda: next(clock))
    nvtx = FakeNvtx(calls)
    steps = MeasuredSteps(
        steps=None, warmup=10, profiled=True, find_torch=lambda: None, find_nvtx=lambda: nvtx
    )
    with pytest.raises(TypeError):
        len(steps)
    turns = list(steps)
    steps.check()
    assert len(turns) == len(steps) == steps.turns == 10 + number


@pytest.mark.usefixtures("no_driver")
def test_a_loop_that_ends_before_its_number_of_steps_is_chosen_is_refused(calls: list[str]) -> None:
    nvtx = FakeNvtx(calls)
    steps = MeasuredSteps(
        steps=None, warmup=10, profiled=True, find_torch=lambda: None, find_nvtx=lambda: nvtx
    )
    next(iter(steps))
    with pytest.raises(StepsMisused) as twice:
        iter(steps)
    with pytest.raises(StepsMisused) as left:
        steps.check()
    assert [one.value.why.code for one in (twice, left)] == ["steps-twice", "steps-left"]


# Loops that are left


def left_by_break(steps: MeasuredSteps, last: int) -> None:
    for turn in steps:
        if turn == last:
            break


def left_by_data_after_steps(steps: MeasuredSteps, last: int) -> None:
    for _ in zip(steps, range(last), strict=False):
        pass


def left_by_one_next_a_turn(steps: MeasuredSteps, last: int) -> None:
    turns = iter(steps)
    for _ in range(last + 1):
        next(turns)


LEAVING = [
    left_by_break,
    left_by_data_after_steps,
    left_by_one_next_a_turn,
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
    assert misused.value.why.code == "steps-left"
    assert misused.value.why.fields["turns"] == 4


@pytest.mark.parametrize("leave", LEAVING)
def test_a_loop_that_does_not_come_back_from_the_last_turn_is_reported_how(
    calls: list[str], leave: Callable[[MeasuredSteps, int], object]
) -> None:
    steps = made(calls)
    leave(steps, 4)
    assert calls == [*[WARM, "pop"] * 2, *OPENING, *[STEP, "pop"] * 3, "stop"]
    with pytest.raises(StepsMisused) as misused:
        steps.check()
    assert misused.value.why.code == "steps-last-not-ended"


def test_an_exception_in_the_loop_closes_range_and_capture_and_is_the_one_raised(
    calls: list[str],
) -> None:
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
