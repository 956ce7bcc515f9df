"""Runs that are started together and measure one after another: of several, one works at any time.

```
run 1   |start|..|build, steps|.................|end, export, read|      . waits
run 2   |start|................|build, steps|...|end, export, read|
```
Held late, they build and warm up together, and only the steps are taken alone.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from perfgate.execute.context import RunContext
from perfgate.execute.run import Measured, OneRun, Ran, conditions_of, ordered
from perfgate.execute.worker.handover import DONE, READY, TURN
from perfgate.machine import Sampler
from perfgate.model.errors import WorkloadFailed
from perfgate.model.machine import Conditions
from perfgate.model.note import note
from perfgate.model.order import RUN_COOKIE
from perfgate.model.sample import Form
from perfgate.model.workload import Workload
from perfgate.system.process import OutOfTime
from perfgate.system.signals import holding_signals_back
from perfgate.system.usage import Marked

LOOK_S: Final = 0.1
"""How often those are looked at of which nothing is heard."""
QUIET_CORES: Final = 0.2
"""CPU cores that all held runs together may keep busy while another one measures."""
QUIET_S: Final = 0.1
"""And CPU time in its window, which is counted in ticks of 10 ms."""
QUIET_PATIENCE_S: Final = 5.0
"""How long they may take to become so quiet: what a library's threads spin for, nsys writes."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One run that is to be made."""

    context: RunContext
    workload: Workload
    folder: Path


class _CalledOff(Exception):
    """Another run has failed, or nobody wants this one any more."""


def measure_ahead(wanted: Sequence[Wanted], form: Form) -> Generator[Measured]:
    """Start runs together, let them measure one after another, and return them in that order.

    Whoever wants no more of them closes the iterator, which ends the others.

    Raises:
        PerfgateError: one of them came to nothing, as `measure_run` says it; the others have been
        ended.
    """
    began, batch = time.monotonic(), uuid4().hex
    context = wanted[0].context
    with ExitStack() as held:
        runs: list[_Held] = []
        for one in wanted:
            run_id = f"{batch}:{uuid4().hex}"
            made = ordered(one.context, one.workload, one.folder, run_id=run_id, form=form)
            alive = held.enter_context(made)
            # Its own time is what it works for; `tick` looks after that.
            limit_s = alive.spec.timeout_s * (len(wanted) + 1)
            alive = replace(alive, spec=replace(alive.spec, timeout_s=limit_s))
            runs.append(held.enter_context(_holding(alive)))
        pool = held.enter_context(_pool(runs))
        with Sampler(context.machine.gpus, run_id=batch) as sampler:
            for run in runs:
                run.ran = pool.submit(run.one.run, on_tick=run.tick)
            _take_windows(runs)
        conditions = conditions_of(context, sampler)
        for run in runs:
            run.say(DONE)
        for read in [pool.submit(run.measured, conditions) for run in runs]:
            measured = read.result()
            share_s = (time.monotonic() - began) / len(runs)
            yield replace(measured, run=measured.run.model_copy(update={"wall_s": share_s}))


def _take_windows(runs: Sequence[_Held]) -> None:
    """Let each measure while the others wait.

    Raises:
        WorkloadFailed: those that are to wait do something.
    """
    for run in runs:
        run.wait_for(READY, runs)
    for run in runs:
        others = [other for other in runs if other is not run]
        deadline = time.monotonic() + QUIET_PATIENCE_S
        # What still spins or is written after the last of them measured, or warmed up.
        while (used := _used_by(others, partial(time.sleep, LOOK_S))).cores > QUIET_CORES:
            if time.monotonic() > deadline:
                raise used.refused(run)
        used = _used_by(others, partial(_measure, run, runs))
        if used.cores > QUIET_CORES and used.cpu_s > QUIET_S:
            raise used.refused(run)


def _measure(run: _Held, runs: Sequence[_Held]) -> None:
    run.say(TURN)
    run.wait_for(DONE, runs)


@dataclass(frozen=True, kw_only=True)
class _Used:
    """What runs that were to wait have used."""

    cpu_s: float
    cores: float

    def refused(self, run: _Held) -> WorkloadFailed:
        """Why one that measures next to them does not count."""
        why = note("held-busy", cores=self.cores)
        return WorkloadFailed("workload-failed", workload=run.one.workload.id, why=why, see=())


def _used_by(others: Sequence[_Held], meanwhile: Callable[[], None]) -> _Used:
    def cpu_s() -> float:
        return sum(other.processes.cpu_s() for other in others if other.processes is not None)

    before, began = cpu_s(), time.monotonic()
    meanwhile()
    used_s = cpu_s() - before
    return _Used(cpu_s=used_s, cores=used_s / max(time.monotonic() - began, LOOK_S))


class _Held:
    """The gate's end of one run that it holds."""

    def __init__(self, one: OneRun) -> None:
        assert one.hold is not None
        self.one = one
        self.ran: Future[Ran] | None = None
        self.is_off = threading.Event()
        self.processes: Marked | None = None
        self._hears = os.open(one.hold.other, os.O_RDONLY | os.O_NONBLOCK)
        # Also for reading: what is written before the worker is there is kept for it.
        self._says = os.open(one.hold.own, os.O_RDWR | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._hears, select.POLLIN)
        self._worked_s, self._since = 0.0, time.monotonic()
        self._waits = False

    def close(self) -> None:
        """Let go of it: a worker that waits ends."""
        os.close(self._hears)
        os.close(self._says)

    def say(self, word: bytes) -> None:
        """Let it go on."""
        self._since, self._waits = time.monotonic(), False
        os.write(self._says, word)

    def wait_for(self, word: bytes, runs: Sequence[_Held]) -> None:
        """Wait until it says this, and from then on for the gate; or until it has ended.

        Raises:
            PerfgateError: it failed, or another of the runs.
        """
        while not any(run.has_failed() for run in runs):
            if self.ran is not None and self.ran.done():
                return
            if self._poll.poll(1000 * LOOK_S):
                heard = os.read(self._hears, 1)
                if heard == word:
                    break
                if not heard:
                    time.sleep(LOOK_S)  # it ends
        self._worked_s += time.monotonic() - self._since
        self._waits = True
        if word == READY:
            self.processes = Marked(self.one.spec.env[RUN_COOKIE].rpartition(":")[2])

    def measured(self, conditions: Conditions) -> Measured:
        """What it measured, once it has ended."""
        assert self.ran is not None
        return self.one.measured(self.ran.result(), conditions, on_tick=self.tick)

    def has_failed(self) -> bool:
        """Whether it ended, and not well, which is raised."""
        return self.ran is not None and self.ran.done() and self.ran.result() is None

    def tick(self) -> None:
        """End it where it is not wanted any more, or has worked for too long by itself."""
        if self.is_off.is_set():
            raise _CalledOff
        if not self._waits:
            worked_s = self._worked_s + time.monotonic() - self._since
            if worked_s > self.one.workload.timeout_s:
                raise OutOfTime


@contextmanager
def _holding(one: OneRun) -> Iterator[_Held]:
    held = _Held(one)
    try:
        yield held
    finally:
        held.close()


@contextmanager
def _pool(runs: Sequence[_Held]) -> Iterator[ThreadPoolExecutor]:
    """Threads for runs and what is read of them, which have all ended afterwards."""
    pool = ThreadPoolExecutor(max_workers=2 * len(runs), thread_name_prefix="perfgate-run")
    try:
        yield pool
    finally:
        for run in runs:
            run.is_off.set()  # does nothing once all have ended
        with holding_signals_back():
            pool.shutdown(wait=True, cancel_futures=True)
