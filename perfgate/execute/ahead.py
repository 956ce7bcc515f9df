"""Runs that are started together and measure one after another: of several, one works at any time.

```
run 1   |start|..|build, steps|.................|end, export, read|      . waits
run 2   |start|................|build, steps|...|end, export, read|
```
Held late, they build and warm up together, and only the steps are taken alone. A pair in blocks
measures as one.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Final
from uuid import uuid4

from perfgate.execute.context import RunContext
from perfgate.execute.failures import RunEnd
from perfgate.execute.folder import FIFO, held_process
from perfgate.execute.run import (
    Measured,
    OneRun,
    OtherSideEnded,
    ordered,
)
from perfgate.execute.script_hold import DONE, READY, TURN
from perfgate.machine import Span, sampled
from perfgate.machine.processes import Marked, ProcessTable
from perfgate.model.errors import PerfgateError, WorkloadFailed
from perfgate.model.machine import Conditions
from perfgate.model.note import Note, note
from perfgate.model.order import RUN_COOKIE, Blocks
from perfgate.model.sample import Form
from perfgate.model.workload import Workload
from perfgate.system.process import OutOfTime
from perfgate.system.signals import holding_signals_back

LOOK_S: Final = 0.1
"""How often those are looked at of which nothing is heard."""
QUIET_LOOK_S: Final = 0.5
"""How long those must keep still that did not at first."""
QUIET_CORES: Final = 0.2
"""CPU cores that held runs may keep busy while another one measures, all together."""
NSYS_CORES: Final = 0.07
"""Or so many each, where that is more: each nsys looks after its own run, and seven that waited
kept more than 0.2 cores busy on an H100's host. One thread that spins is beyond either."""
QUIET_S: Final = 0.1
"""And CPU time in its window, which is counted in ticks of 10 ms."""
QUIET_PATIENCE_S: Final = 15.0
"""How long they may take to become so quiet: what a library's threads spin for, nsys writes."""
MOST_NAMED: Final = 5
"""Processes that are named where they do not."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One run that is to be made."""

    context: RunContext
    workload: Workload
    folder: Path
    blocks: Blocks | None = None
    """Of one side of a pair in blocks, whose reference stands just before its candidate."""


def in_blocks(
    sides: tuple[Wanted, Wanted], *, candidate_begins: bool, block_steps: int, core: int | None
) -> tuple[Wanted, Wanted]:
    """Both sides of a pair, reference and candidate, taking turns of so many steps on one core.

    Either may take twice its time limit, for it waits for the other; None leaves them where they
    may run.
    """
    there, here = sides

    def side(one: Wanted, other: Wanted, *, begins: bool) -> Wanted:
        patience_s = one.workload.timeout_s
        blocks = Blocks(
            steps=block_steps,
            begins=begins,
            own=str(one.folder / FIFO),
            other=str(other.folder / FIFO),
            core=core,
            patience_s=patience_s,
        )
        stretched = one.workload.model_copy(update={"timeout_s": 2 * patience_s})
        return replace(one, workload=stretched, blocks=blocks)

    return (
        side(there, here, begins=not candidate_begins),
        side(here, there, begins=candidate_begins),
    )


class RunFailed(Exception):
    """One of several runs came to nothing, by an error that `measure_run` would have raised."""

    def __init__(self, number: int, error: PerfgateError) -> None:
        self.number = number
        """Which of them, from 0."""
        self.error = error
        super().__init__(str(error))


class _CalledOff(Exception):
    """Another run has failed, or nobody wants this one any more."""


class Batch(Iterator[Measured]):
    """Runs that are started together, and measure one after another once somebody asks for them.

    Returns them in that order. Both sides of a pair in blocks, one behind the other, measure at the
    same time. Whoever wants no more of them closes it, which ends the others. `busy` waits for a
    GPU on which nothing else works, by the batch's mark; `then` is called when the last of them has
    measured, while they end and are read.
    """

    def __init__(
        self,
        wanted: Sequence[Wanted],
        form: Form,
        *,
        busy: Callable[[str], Note | None] = lambda _mark: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        self._made = _made(wanted, form, busy, then)
        next(self._made)  # all are started

    def __next__(self) -> Measured:
        """What the next of them measured.

        Raises:
            RunFailed: one of them came to nothing; the others have been ended.
        """
        made = next(self._made)
        assert made is not None
        return made

    def close(self) -> None:
        """End those that are not through."""
        self._made.close()


def _made(
    wanted: Sequence[Wanted],
    form: Form,
    busy: Callable[[str], Note | None],
    then: Callable[[], None],
) -> Generator[Measured | None]:
    """Start runs, and say so by None; then what each measured."""
    mark, runs = uuid4().hex, list[_Held]()
    with ExitStack() as held:
        refused: PerfgateError | None = None
        try:
            for number, one in enumerate(wanted):
                order = ordered(
                    one.context,
                    one.workload,
                    one.folder,
                    run_id=f"{mark}:{uuid4().hex}",
                    form=form,
                    blocks=one.blocks,
                )
                run = _Held(held.enter_context(order), number)
                runs.append(held.enter_context(closing(run)))
            pool = held.enter_context(_pool(runs))
            for run in runs:
                run.ran = pool.submit(run.one.run, on_tick=run.tick)
        except PerfgateError as error:
            refused = error
        yield None
        if refused is not None:
            raise RunFailed(len(runs), refused)
        began, turns = time.monotonic(), _turns_of(runs)
        for run in runs:
            run.time()
        for run in runs:
            run.wait_for(READY, turns)
        was_busy, gpus = busy(mark), runs[0].one.context.machine.gpus
        with sampled(gpus, run_id=mark, joins=True) as samples:
            _take_windows(turns)
        for run in runs:
            run.say(DONE)
        read = [pool.submit(run.measured, samples.conditions(run.turn), was_busy) for run in runs]
        then()
        ended = began
        for number, measured in enumerate(read):
            try:
                made, read_at = measured.result()
            except PerfgateError as failed:
                raise RunFailed(number, failed) from failed
            ended = max(ended, read_at)
            share_s = (ended - began) / len(runs)  # what follows took is not theirs
            yield replace(made, run=made.run.model_copy(update={"wall_s": share_s}))


def _turns_of(runs: Sequence[_Held]) -> list[list[_Held]]:
    """Those that measure at the same time: one alone, or both sides of a pair in blocks."""
    turns: list[list[_Held]] = []
    for run in runs:
        before = turns[-1] if turns else []
        if run.one.blocks is not None and len(before) == 1 and before[0].one.blocks is not None:
            before.append(run)
        else:
            turns.append([run])
    return turns


def _take_windows(turns: Sequence[Sequence[_Held]]) -> None:
    """Let each measure while the others wait.

    Raises:
        RunFailed: one ended before that, or those that are to wait do something.
    """
    runs = [run for turn in turns for run in turn]
    for run in runs:
        run.see_processes()
    for measuring in turns:
        others = [other for other in runs if other not in measuring]
        quiet = max(QUIET_CORES, NSYS_CORES * len(others))
        deadline = time.monotonic() + QUIET_PATIENCE_S
        look_s = LOOK_S
        while (used := _used_by(others, partial(time.sleep, look_s))).cores > quiet:
            # What still spins or is written after the last of them measured, or warmed up. A child
            # that starts rests now and then, so that longer looks follow.
            if time.monotonic() > deadline:
                raise used.refused(measuring[0])
            look_s = QUIET_LOOK_S
        used = _used_by(others, partial(_measure, measuring, turns), anew=True)
        if used.cores > quiet and used.cpu_s > QUIET_S:
            raise used.refused(measuring[0])
        for measured in measuring:
            measured.see_processes()  # also what its own code has started


def _measure(measuring: Sequence[_Held], turns: Sequence[Sequence[_Held]]) -> None:
    began = time.monotonic()
    for run in measuring:
        run.say(TURN)
    for run in measuring:
        run.wait_for(DONE, turns)
        run.turn = began, time.monotonic()


def _refuse_failed(turns: Sequence[Sequence[_Held]]) -> None:
    """Refuse all where one came to nothing.

    Raises:
        RunFailed: names it; of two that end together the candidate, and not one that only says that
        the other side of its pair ended first, unless nobody says more.
    """
    for turn in turns:
        ended = [(run, run.ran) for run in turn if run.ran is not None and run.ran.done()]
        failed = [(run, error) for run, ran in ended if (error := ran.exception()) is not None]
        blamed = [one for one in failed if not isinstance(one[1], OtherSideEnded)]
        for run, error in reversed(blamed or (failed if len(ended) == len(turn) else [])):
            match error:
                case OtherSideEnded(error=why) | (PerfgateError() as why):
                    raise RunFailed(run.number, why)
                case bug:
                    raise bug


@dataclass(frozen=True, kw_only=True)
class _Used:
    """What runs that were to wait have used."""

    by: Mapping[int, float]
    """CPU time of each process that used some, the busiest first."""
    cpu_s: float
    cores: float

    def refused(self, run: _Held) -> RunFailed:
        """Why one that measures next to them does not count."""
        table = ProcessTable(run.one.spec.env[RUN_COOKIE])
        named = tuple(table.describe(pid) for pid in islice(self.by, MOST_NAMED))
        why = note("held-busy", cores=self.cores, processes=named)
        return run.failed(why)


def _used_by(
    others: Sequence[_Held], meanwhile: Callable[[], None], *, anew: bool = False
) -> _Used:
    """What they use meanwhile; a process that ends takes nothing from what the others used."""
    marked = [other.processes for other in others if other.processes is not None]
    before, began = [one.cpu_s() for one in marked], time.monotonic()
    meanwhile()
    lasted_s = max(time.monotonic() - began, LOOK_S)
    used: dict[int, float] = {}
    for one, then in zip(marked, before, strict=True):
        for pid, cpu_s in one.cpu_s(anew=anew).items():
            if (more_s := cpu_s - then.get(pid, 0.0)) > 0:
                used[pid] = more_s
    by_use = sorted(used.items(), key=lambda one: one[1], reverse=True)
    cpu_s = sum(used.values())
    return _Used(by=dict(by_use), cpu_s=cpu_s, cores=cpu_s / lasted_s)


class _Held:
    """The gate's end of one run that it holds."""

    def __init__(self, one: OneRun, number: int) -> None:
        assert one.hold is not None
        # What counts is what it works for; `tick` looks after that.
        self.one = replace(one, spec=replace(one.spec, timeout_s=math.inf))
        self.number = number
        """Of those that are started together, from 0."""
        self.ran: Future[RunEnd] | None = None
        self.turn: Span | None = None
        """When it worked while the others waited."""
        self.is_off = threading.Event()
        self.processes: Marked | None = None
        self._hears = os.open(one.hold.other, os.O_RDONLY | os.O_NONBLOCK)
        # Also for reading: what is written before the worker is there is kept for it.
        self._says = os.open(one.hold.own, os.O_RDWR | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._hears, select.POLLIN)
        self._worked_s, self._since = 0.0, 0.0
        self._waits = True
        """For the gate: at first until it looks after what was started."""
        self._heard: list[bytes] = []

    def see_processes(self) -> None:
        """Know the processes that it has by now."""
        self.processes = Marked(self.one.spec.env[RUN_COOKIE].rpartition(":")[2])

    def close(self) -> None:
        """Let go of it: a worker that waits ends."""
        os.close(self._hears)
        os.close(self._says)

    def time(self) -> None:
        """Count from now on how long it works."""
        self._since, self._waits = time.monotonic(), False

    def say(self, word: bytes) -> None:
        """Let it go on."""
        self.time()
        os.write(self._says, word)

    def wait_for(self, word: bytes, turns: Sequence[Sequence[_Held]]) -> None:
        """Wait until it says this, and from then on for the gate; or until it has ended.

        Raises:
            RunFailed: it failed, or another of the runs.
        """
        while word not in self._heard:
            _refuse_failed(turns)
            if self.ran is not None and self.ran.done() and self.ran.exception() is None:
                if self.one.workload.form == "command":
                    raise self.failed(note("script-not-held"))
                return  # without its steps, which what is read of it says
            for run in chain(*turns):
                run.hear(LOOK_S if run is self else 0.0)

    def hear(self, patience_s: float) -> None:
        """Take in what it says next, if it does so in time: from then on it waits."""
        if not self._poll.poll(1000 * patience_s):
            return
        if heard := os.read(self._hears, 1):
            self._heard.append(heard)
            self._worked_s += time.monotonic() - self._since
            self._waits = True
        else:
            time.sleep(patience_s)  # it ends

    def measured(self, conditions: Conditions, busy: Note | None) -> tuple[Measured, float]:
        """What it measured, once it has ended, and when that was known.

        Raises:
            PerfgateError: it failed, or it is a script whose steps were not held.
        """
        assert self.ran is not None
        ran = self.ran.result()
        made = self.one.measured(ran, conditions, busy, on_tick=self.refuse_if_off)
        took_steps = [process.pid for process in made.run.processes]
        if self.one.workload.form == "command" and took_steps != [held_process(self.one.folder)]:
            raise self.failed(note("script-not-held"))
        return made, time.monotonic()

    def failed(self, why: Note) -> RunFailed:
        """What is said of one that may have measured next to others."""
        workload = self.one.workload.id
        return RunFailed(
            self.number, WorkloadFailed("workload-failed", workload=workload, why=why, see=())
        )

    def refuse_if_off(self) -> None:
        """End what is done for it where it is not wanted any more."""
        if self.is_off.is_set():
            raise _CalledOff

    def tick(self) -> None:
        """End it where it is not wanted any more, or has worked for too long by itself."""
        self.refuse_if_off()
        if not self._waits:
            worked_s = self._worked_s + time.monotonic() - self._since
            if worked_s > self.one.workload.timeout_s:
                raise OutOfTime


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
