"""Runs that are started together and measure one after another: of several, one works at any time.

```
run 1   |start|..|build, steps|.................|end, export, read|      . waits
run 2   |start|................|build, steps|...|end, export, read|
```
Held late, they build and warm up together, and only the steps are taken alone. A pair in blocks
measures as one.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from typing import Final, cast
from uuid import uuid4

from perfgate.execute.context import RunContext
from perfgate.execute.failures import OtherSideEnded, RunEnd
from perfgate.execute.folder import FIFO, held_process
from perfgate.execute.run import Measured, OneRun, ordered
from perfgate.execute.script_hold import DONE, READY, TURN
from perfgate.execute.standby import NotWanted, Standby
from perfgate.machine import Span, sampled
from perfgate.machine.processes import ProcessTable, cpu_s_of
from perfgate.model.errors import PerfgateError, WorkloadFailed
from perfgate.model.machine import Conditions
from perfgate.model.note import Note, note
from perfgate.model.order import RUN_COOKIE, Blocks
from perfgate.model.sample import Form
from perfgate.model.workload import Workload
from perfgate.system.process import OutOfTime, ignore
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
    imports_torch: bool = False
    """Whether it is known to do so: then a worker that has may make it."""


def in_blocks(
    sides: Sequence[Wanted], *, candidate_begins: bool, block_steps: int, core: int | None
) -> list[Wanted]:
    """Both sides of a pair, reference and candidate, taking turns of so many steps on one core.

    Either may take twice its time limit, for it waits for the other; None leaves them where they
    may run.
    """
    fifos, made = [str(one.folder / FIFO) for one in sides], list[Wanted]()
    for number, one in enumerate(sides):
        patience_s = one.workload.timeout_s
        blocks = Blocks(
            steps=block_steps,
            begins=candidate_begins is bool(number),
            own=fifos[number],
            other=fifos[1 - number],
            core=core,
            patience_s=patience_s,
        )
        stretched = one.workload.model_copy(update={"timeout_s": 2 * patience_s})
        made.append(replace(one, workload=stretched, blocks=blocks))
    return made


class RunFailed(Exception):
    """One of several runs came to nothing, by an error that `measure_run` would have raised."""

    def __init__(self, number: int, error: PerfgateError) -> None:
        self.number = number
        """Which of them, from 0."""
        self.error = error
        super().__init__(str(error))


def start_together(
    wanted: Sequence[Wanted],
    form: Form,
    *,
    busy: Callable[[str], Note | None] = lambda _mark: None,
    then: Callable[[], None] = ignore,
    standby: Standby | None = None,
) -> Generator[Measured]:
    """Start runs, which measure one after another once somebody asks for the first of them.

    They come in that order. Both sides of a pair in blocks, one behind the other, measure at the
    same time. Whoever wants no more of them closes it, which ends the others. `busy` waits for a
    GPU on which nothing else works, by the mark of all of them; `then` is called when the last of
    them has measured, while they end and are read. Some may be made by workers on `standby`, of
    which none is left afterwards.

    Raises:
        RunFailed: when one is asked for: it came to nothing; the others have been ended.
    """
    made = _made(wanted, form, busy, then, standby)
    next(made)  # all are started
    return cast("Generator[Measured]", made)


def _made(
    wanted: Sequence[Wanted],
    form: Form,
    busy: Callable[[str], Note | None],
    then: Callable[[], None],
    standby: Standby | None,
) -> Generator[Measured | None]:
    """Start runs, and say so by None; then what each measured."""
    mark, off, runs = uuid4().hex, threading.Event(), list[_Held]()
    with ExitStack() as held:
        if standby is not None:
            mark = standby.mark
            held.callback(standby.close)
        try:
            for number, one in enumerate(wanted):
                order = ordered(
                    one.context,
                    one.workload,
                    one.folder,
                    run_id=f"{mark}:{uuid4().hex}",
                    form=form,
                    blocks=one.blocks,
                    standby=standby if one.imports_torch else None,
                )
                run = _Held(held.enter_context(order), number, off)
                runs.append(held.enter_context(closing(run)))
            if standby is not None:
                standby.end_rest()
            pool = ThreadPoolExecutor(2 * len(runs), thread_name_prefix="perfgate-run")
            held.callback(_end, pool, off)
            for run in runs:
                run.ran = pool.submit(run.one.run, on_tick=run.tick)
        except PerfgateError as refused:
            yield None
            raise RunFailed(len(runs), refused) from refused
        yield None
        began, left = time.monotonic(), iter(runs)
        # Of a pair in blocks both sides measure at the same time.
        turns = [[run] if run.one.blocks is None else [run, next(left)] for run in left]
        for run in runs:
            run.goes_on()
        for run in runs:
            run.wait_for(READY, turns)
        was_busy, gpus = busy(mark), runs[0].one.context.machine.gpus
        with sampled(gpus, run_id=mark, joins=True) as samples:
            for measuring in turns:
                _take_window(measuring, turns, mark)
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


def _end(pool: ThreadPoolExecutor, off: threading.Event) -> None:
    """End runs and what is read of them, unless all have ended."""
    off.set()
    with holding_signals_back():
        pool.shutdown(wait=True, cancel_futures=True)


def _take_window(measuring: Sequence[_Held], turns: Sequence[Sequence[_Held]], mark: str) -> None:
    """Let some measure while the others wait.

    Raises:
        RunFailed: one ended before that, or those that are to wait do something.
    """
    waiting = sum(map(len, turns)) - len(measuring)
    quiet = max(QUIET_CORES, NSYS_CORES * waiting)
    own = {run.id for run in measuring}
    deadline, look_s = time.monotonic() + QUIET_PATIENCE_S, LOOK_S
    while (looked := _used_by_others(mark, own, partial(time.sleep, look_s)))[1] > quiet:
        # What still spins or is written after the last of them measured, or warmed up. A child
        # that starts rests now and then, so that longer looks follow.
        if time.monotonic() > deadline:
            raise _disturbed(measuring[0], *looked)
        look_s = QUIET_LOOK_S
    used, cores = _used_by_others(mark, own, partial(_measure, measuring, turns))
    if cores > quiet and sum(used.values()) > QUIET_S:
        raise _disturbed(measuring[0], used, cores)


def _measure(measuring: Sequence[_Held], turns: Sequence[Sequence[_Held]]) -> None:
    began = time.monotonic()
    for run in measuring:
        run.say(TURN)
    for run in measuring:
        run.wait_for(DONE, turns)
        run.turn = began, time.monotonic()


def _used_by_others(
    mark: str, own: Collection[str], meanwhile: Callable[[], None]
) -> tuple[dict[int, float], float]:
    """CPU time, by process, that all runs but some use meanwhile, and how many cores these keep
    busy; a process that ends takes nothing from what the others used."""
    before, began = cpu_s_of(mark, but=own), time.monotonic()
    meanwhile()
    lasted_s = max(time.monotonic() - began, LOOK_S)
    after = cpu_s_of(mark, but=own)
    used = {pid: more_s for pid in after if (more_s := after[pid] - before.get(pid, 0.0)) > 0}
    return used, sum(used.values()) / lasted_s


def _disturbed(run: _Held, used: dict[int, float], cores: float) -> RunFailed:
    """Why one does not count next to which others used CPU time."""
    busiest = sorted(used, key=used.__getitem__, reverse=True)[:MOST_NAMED]
    table = ProcessTable(run.id)
    return run.failed(note("held-busy", cores=cores, processes=tuple(map(table.describe, busiest))))


def _refuse_failed(turns: Sequence[Sequence[_Held]]) -> None:
    """Refuse all where one came to nothing.

    Raises:
        RunFailed: names it; of two that end together the candidate, and not one that only says that
        the other side of its pair ended first, unless nobody says more.
    """
    for turn in turns:
        ended = [run for run in turn if run.ran.done()]
        failed = [(run, error) for run in ended if (error := run.ran.exception()) is not None]
        blamed = [one for one in failed if not isinstance(one[1], OtherSideEnded)]
        for run, error in reversed(blamed or (failed if len(ended) == len(turn) else [])):
            if isinstance(error, PerfgateError):
                raise RunFailed(run.number, error)
            raise error


class _Held:
    """The gate's end of one run that it holds."""

    ran: Future[RunEnd]
    turn: Span
    """When it worked while the others waited."""

    def __init__(self, one: OneRun, number: int, off: threading.Event) -> None:
        assert one.hold is not None
        self.one = one
        self.number = number
        """Of those that are started together, from 0."""
        self.id = one.spec.env[RUN_COOKIE].rpartition(":")[2]
        self._off = off
        self._hears = os.open(one.hold.other, os.O_RDONLY | os.O_NONBLOCK)
        # Also for reading: what is written before the worker is there is kept for it.
        self._says = os.open(one.hold.own, os.O_RDWR | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._hears, select.POLLIN)
        self._worked_s, self._since = 0.0, inf
        """Since when it works; not while it waits for the gate, as at first until that looks."""
        self._heard: list[bytes] = []

    def close(self) -> None:
        """Let go of it: a worker that waits ends."""
        os.close(self._hears)
        os.close(self._says)

    def goes_on(self) -> None:
        """Count from now on how long it works."""
        self._since = time.monotonic()

    def say(self, word: bytes) -> None:
        """Let it go on."""
        self.goes_on()
        os.write(self._says, word)

    def wait_for(self, word: bytes, turns: Sequence[Sequence[_Held]]) -> None:
        """Wait until it says this, and from then on for the gate; or until it has ended.

        Raises:
            RunFailed: it failed, or another of the runs.
        """
        while word not in self._heard:
            _refuse_failed(turns)
            if self.ran.done() and self.ran.exception() is None:
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
            self._worked_s, self._since = self._working_s(), inf
        else:
            time.sleep(patience_s)  # it ends

    def measured(self, conditions: Conditions, busy: Note | None) -> tuple[Measured, float]:
        """What it measured, once it has ended, and when that was known.

        Raises:
            PerfgateError: it failed.
            RunFailed: it is a script whose steps were not held.
        """
        made = self.one.measured(self.ran.result(), conditions, busy, on_tick=self.end_if_off)
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

    def end_if_off(self) -> None:
        """End what is done for it where it is not wanted any more."""
        if self._off.is_set():
            raise NotWanted

    def tick(self) -> None:
        """End it where it is not wanted any more, or has worked for too long by itself."""
        self.end_if_off()
        if self._working_s() > self.one.workload.timeout_s:
            raise OutOfTime

    def _working_s(self) -> float:
        return self._worked_s + max(time.monotonic() - self._since, 0.0)
