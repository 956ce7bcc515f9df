"""The loop of a workload in its worker: each turn marked, the measured ones captured, and what
became of them."""

from __future__ import annotations

import math
import os
import sys
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from types import ModuleType
from typing import Final, Self

from perfgate.execute.worker.capturing import CaptureRange, choose_capture, start_cuda
from perfgate.execute.worker.endings import Abandoned, StepsMisused
from perfgate.execute.worker.handover import Handover
from perfgate.execute.worker.marking import Marker, choose_marker, import_nvtx
from perfgate.execute.worker.needs import Busy, needs_of
from perfgate.execute.worker.pinning import Pinned
from perfgate.model.order import Blocks, Hold, Needs
from perfgate.model.workload import (
    END_RANGE,
    START_RANGE,
    STEP_RANGE,
    WAIT_RANGE,
    WARMUP_RANGE,
)

SETTLING_TURNS: Final = 5
"""Warm-up turns that are taken on the one core of an A/B run of blocks (as many as where its spread
was measured, `benchmarks/host-noise`). What comes before needs all cores: imports, compiling, and
the other side's start next to it."""


TIMED_TURNS: Final = 5
"""Last warm-up turns by which the number of steps is chosen."""
WINDOW_S: Final = 1.0
GOOD_STEPS: Final = 200
LONGEST_WINDOW_S: Final = 2.0
FEWEST_STEPS: Final = 10
MOST_STEPS: Final = 5000
"""Of a window whose steps are not declared: what it takes at least, a number that it comes to
within twice that time, and numbers that it has at least and at most."""


def worth_a_process(step_s: float) -> int:
    """How many steps of so many seconds a window has, to be worth the start of its process.

    Their first two digits are kept: it is 2,100, not 2,087.
    """
    step_s = max(step_s, WINDOW_S / MOST_STEPS)
    wanted = max(WINDOW_S / step_s, min(GOOD_STEPS, LONGEST_WINDOW_S / step_s), FEWEST_STEPS)
    digit: int = 10 ** max(len(str(int(wanted))) - 2, 0)
    return digit * math.ceil(wanted / digit)


class MeasuredSteps:
    """The `steps` of a workload in its worker: warm-up turns, then the measured ones inside the
    capture.

    ```
    warm-up   |w|w|w|   sync, start   |step|step|step|   sync, stop
    capture                         |------------------|
    ```

    With `blocks`, in turns with another process, which works only where this one waits, and from
    the last turns of the warm-up on one core, if it names one:
    ```
    warm-up   |w|w|w|  sync, wait, start  |step|step|  sync, wait  |step|step|  sync, wait, stop
    one core      |--------------------------------------------------------------------|
    ```
    Held late, they take turns only from the last turns of the warm-up on, and start the profiler
    before they wait for the first.
    """

    def __init__(
        self,
        *,
        steps: int | None,
        warmup: int,
        profiled: bool,
        blocks: Blocks | None = None,
        hold: Hold | None = None,
        find_torch: Callable[[], ModuleType | None] | None = None,
        find_nvtx: Callable[[], ModuleType | None] | None = None,
    ) -> None:
        self._steps = steps
        self._warmup = warmup
        self._profiled = profiled
        self._block_steps = sys.maxsize if blocks is None else blocks.steps
        # Now, not at the first turn: the other side, or the gate, is to see it if this one does not
        # come that far.
        self._handover = None if blocks is None else Handover(blocks)
        self._gate = None if hold is None else Handover(hold)
        self._waits_for = [one for one in (self._handover, self._gate) if one is not None]
        self._is_held_late = hold is not None and not hold.is_early
        self._core = None if blocks is None else blocks.core
        self._find_torch = find_torch or (lambda: sys.modules.get("torch"))
        self._find_nvtx = find_nvtx or import_nvtx
        self._pid = os.getpid()
        self._started = False
        self._running: Callable[[], Generator[int] | None] = lambda: None
        self.turns = 0
        """Turns of the loop begun so far, warm-up included."""
        self.finished = False
        """Whether the loop ran to the end."""
        self.captured_by: str | None = None
        self.needs: Needs | None = None
        """What it took of the machine."""

    def __len__(self) -> int:
        """Warm-up and measured turns together.

        Raises:
            TypeError: how many they are is still to be chosen.
        """
        if self._steps is None:
            raise TypeError('steps="auto": how many steps there are the last warm-up turns show')
        return self._warmup + self._steps

    def __iter__(self) -> Iterator[int]:
        """Start the loop.

        Raises:
            StepsMisused: the loop was started before. Unmarked: no step can be marked; at the first
            turn. NotPinned: it may not run on its one core; at a turn of the warm-up, or the first
            after it. Abandoned: the other side of the A/B run is gone; at any turn.
        """
        if self._started:
            raise StepsMisused("steps-twice", turns=self.turns, declared=self._declared)
        self._started = True
        loop = self._loop()
        # Held weakly: a loop that is left drops its iterator, which then closes the range and the
        # capture at once.
        self._running = weakref.ref(loop)
        return loop

    def __copy__(self) -> Self:
        """There is one loop, whatever holds it and is copied."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """As `__copy__`."""
        return self

    @property
    def is_here(self) -> bool:
        """Whether this is the process that they are measured in, and none that the workload forked
        from it."""
        return os.getpid() == self._pid

    def hold(self) -> None:
        """Start CUDA, and wait for the turn to go on, where that comes before the workload's code.

        Raises:
            Abandoned: the gate is gone.
        """
        if self._gate is not None and not self._is_held_late:
            start_cuda(self._find_torch())
            self._gate.begin()

    def close(self) -> None:
        """Close the open range and the capture of a loop that was left while something still holds
        its iterator.

        A loop that never began hands its turns over as well.
        """
        loop = self._running()
        if loop is not None:
            # A thread that the loop left behind may be in it: then it is not to be closed.
            with suppress(ValueError):
                loop.close()
        for other in self._waits_for:
            other.leave()

    @property
    def abandoned(self) -> Abandoned | None:
        """Why the other side of the A/B run, or the gate, is not to be waited for any more,
        whatever the workload made of that."""
        return next((one.abandoned for one in self._waits_for if one.abandoned), None)

    @property
    def _declared(self) -> int:
        """Turns of the loop; at least so many while their number is still to be chosen."""
        return self._warmup + (self._steps or FEWEST_STEPS)

    def _loop(self) -> Generator[int]:
        try:
            torch = self._find_torch()
            marker = choose_marker(torch=torch, nvtx=self._find_nvtx(), profiled=self._profiled)
            if self._handover is not None and not self._is_held_late:
                self._handover.begin()
            settled = 0 if self._handover is None else min(SETTLING_TURNS, self._warmup)
            began_s = 0.0
            for turn in range(self._warmup - settled):
                if self._steps is None and turn == self._warmup - TIMED_TURNS:
                    began_s = self._synchronised_s()
                yield from self._one(marker, WARMUP_RANGE, turn)
            if self._steps is None:
                self._steps = worth_a_process((self._synchronised_s() - began_s) / TIMED_TURNS)
            with ExitStack() as opened:
                if self._gate is not None:
                    self._synchronised_s()
                    if self._is_held_late:
                        # It takes half a second, for which no other run has to wait.
                        self._start(choose_capture(torch=self._find_torch()), opened)
                    self._gate.begin()
                if self._handover is not None:
                    self._handover.begin()
                pinned = None if self._core is None else Pinned(self._core)
                for turn in range(self._warmup - settled, self._warmup):
                    yield from self._one(marker, WARMUP_RANGE, turn)
                # Torch may have been imported by the loop's own first turn.
                capture = choose_capture(torch=self._find_torch())
                capture.synchronise()
                if self._handover is not None:
                    self._handover.hand_over()
                if not self._is_held_late:
                    self._start(capture, opened)
                cores: float | None = None
                busy = Busy() if self._handover is None else None
                marker.push(START_RANGE)
                marker.pop()
                for number in range(self._steps):
                    if number and number % self._block_steps == 0:
                        self._wait(marker, capture)
                    yield from self._one(marker, STEP_RANGE, self._warmup + number)
                capture.synchronise()
                marker.push(END_RANGE)
                marker.pop()
                if busy is not None:
                    cores = busy.cores()
                for other in self._waits_for:
                    other.end()
                if pinned is not None:
                    # Neither has a step to take any more: what both still have to do they need not
                    # do on one core.
                    pinned.let_go()
            has_gpu = self.captured_by is not None
            self.needs = needs_of(self._find_torch(), has_gpu=has_gpu, cores=cores)
            self.finished = True
        finally:
            for other in self._waits_for:
                other.leave()

    def _start(self, capture: CaptureRange, opened: ExitStack) -> None:
        """Start the profiler, until what is opened is closed."""
        self.captured_by = capture.name
        opened.callback(capture.stop)
        capture.start()

    def _synchronised_s(self) -> float:
        """The time at which all that was launched is done, s."""
        choose_capture(torch=self._find_torch()).synchronise()
        return time.perf_counter()

    def _wait(self, marker: Marker, capture: CaptureRange) -> None:
        """Let the other side have its block, if it still needs one."""
        if self._handover is None or self._handover.is_alone:
            return
        capture.synchronise()
        marker.push(WAIT_RANGE)
        try:
            self._handover.hand_over()
        finally:
            marker.pop()

    def _one(self, marker: Marker, message: str, turn: int) -> Generator[int]:
        marker.push(message)
        try:
            self.turns += 1
            yield turn
        finally:
            marker.pop()

    def check(self) -> None:
        """Say whether the loop did what it declared, once the workload has returned.

        Raises:
            StepsMisused: it left early, or never started.
            Abandoned: it could not go on, even if it went on to something else.
        """
        if self.finished:
            return
        if self.abandoned is not None:
            raise self.abandoned
        declared = self._declared
        if self.turns == declared:
            # zip(data, steps) with data for exactly all turns, and zip(steps, data) with data for
            # one turn less, look the same from here, and so does one call of next() a turn. In the
            # second the last step is empty, so none counts.
            raise StepsMisused("steps-last-not-ended", declared=declared)
        if self.turns:
            raise StepsMisused(
                "steps-left",
                turns=self.turns,
                declared=declared,
                warmup=self._warmup,
                steps=self._steps or FEWEST_STEPS,
            )
        raise StepsMisused("steps-none", declared=declared)
