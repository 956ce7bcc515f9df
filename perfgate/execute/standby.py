"""Workers that are started while pytest still collects: under nsys, with torch imported, waiting to
be one run of the first workload.

```
pytest    |start, import torch, collect|run 1 .. 5 are wanted
standby   |nsys, Python, import torch|.|pytest: CUDA, build, steps      . waits
```
The import takes seconds, which a gate would otherwise spend twice, one after the other.
"""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn
from uuid import uuid4

from perfgate.execute import torch_first
from perfgate.execute.command import start_of
from perfgate.execute.context import RunContext
from perfgate.execute.folder import make_folder, writing
from perfgate.machine.processes import free_bytes
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.profile import profile
from perfgate.profilers.seam import OnTick, ProfileOutcome, ProfileSpec
from perfgate.system.files import underway
from perfgate.system.process import ignore
from perfgate.system.signals import holding_signals_back

BYTES: Final = 1 << 30
"""Room in the host's memory for one: torch's libraries, and nsys."""
UNKNOWN: Final = Workload(id="standby", source="", nodeid="", steps=1, warmup=0)


class Standby:
    """Some such workers, which bear one mark."""

    def __init__(
        self, context: RunContext, folder: Path, number: int, torch: torch_first.FirstImport
    ) -> None:
        """Start as many as there is room for, each in a folder of its own below `folder`.

        Raises:
            StoreFailed: a folder cannot be made.
        """
        self.mark = uuid4().hex
        self._torch = torch
        self._workers: list[ReadyWorker] = []
        cores = len(os.sched_getaffinity(0)) - 1  # pytest imports torch at the same time
        number = max(min(number, cores, free_bytes() // BYTES), 0)
        self._pool = ThreadPoolExecutor(max(number, 1), thread_name_prefix="perfgate-standby")
        try:
            for _ in range(number):
                run_id = f"{self.mark}:{uuid4().hex}"
                worker = ReadyWorker(context, folder / uuid4().hex, run_id)
                self._workers.append(worker)
                worker.start(self._pool)
        except BaseException:
            self.close()
            raise

    def take(self, context: RunContext, workload: Workload, folder: Path) -> ReadyWorker | None:
        """One for a run, in whose folder it leaves what it makes; None where none is left, or they
        do not serve this one, or it is started in another way.

        Raises:
            StoreFailed: the folder cannot be made.
        """
        if not self._torch.serves(str(context.root / workload.source)):
            return None
        taken = (one for one in self._workers if one.becomes(context, workload, folder))
        return next(taken, None)

    def end_rest(self) -> None:
        """Let those end that were not taken."""
        for worker in self._workers:
            if worker.is_free:
                worker.end()

    def close(self) -> None:
        """End all, and take away what is left of them."""
        for worker in self._workers:
            worker.end()
        with holding_signals_back():
            self._pool.shutdown(wait=True)
            for worker in self._workers:
                worker.remove()


class ReadyWorker:
    """One of them, and from when it is taken its run's."""

    _ran: Future[ProfileOutcome]
    _says: int

    def __init__(self, context: RunContext, folder: Path, run_id: str) -> None:
        self.folder = folder.absolute()
        self._context = context
        self._run_id = run_id
        self._of: Path | None = None
        """The folder of its run."""
        self._on_tick: OnTick = ignore
        """What its run does while it lasts."""
        self._held = ExitStack()
        self.spec = self._start_of(context, UNKNOWN)

    @property
    def is_free(self) -> bool:
        """Whether no run has taken it."""
        return self._of is None

    def start(self, pool: ThreadPoolExecutor) -> None:
        """Start it in its folder, which is this process's until it is removed.

        Raises:
            StoreFailed: the folder cannot be made.
        """
        make_folder(self.folder)
        self._held.enter_context(underway(self.folder))
        fifo = str(self.folder / torch_first.FIFO)
        with writing(self.folder):
            os.mkfifo(fifo)
        self._says = os.open(fifo, os.O_RDWR)  # also for reading: nobody need read it yet
        self._held.callback(os.close, self._says)
        spec = replace(self.spec, argv=(self._context.python, "-m", torch_first.NAME, fifo))
        self._ran = pool.submit(profile, self._context.tool, spec, on_tick=self._tick)

    def becomes(self, context: RunContext, workload: Workload, folder: Path) -> bool:
        """Whether it is a run's from now on: it must be free, and have been started just as that.

        Raises:
            StoreFailed: the run's folder cannot be made.
        """
        spec, own = self._start_of(context, workload), self.spec
        is_alike = replace(spec, argv=own.argv, cleaner=own.cleaner) == own
        if not self.is_free or not is_alike or workload.pass_env or self._ran.done():
            return False
        with writing(folder):
            folder.symlink_to(self.folder)  # it goes there when nothing writes into it any more
        self.spec, self._of = spec, folder
        return True

    def profiled(self, *, on_tick: OnTick) -> ProfileOutcome:
        """Let it go on as its run's pytest, to the end."""
        self._on_tick, argv = on_tick, self.spec.argv
        words = argv[argv.index("pytest") + 1 :]
        os.write(self._says, f"{json.dumps(words)}\n".encode())
        return self._ran.result()

    def end(self) -> None:
        """End it if it waits: nobody will let it go on."""
        if self._on_tick is ignore:
            self._on_tick = _refuse

    def remove(self) -> None:
        """Move what it has left to where its run is; nothing is left of one without a run."""
        self._held.close()
        if self._of is not None:
            with suppress(OSError):  # the disk of the results may be another
                self._of.unlink()
                shutil.move(self.folder, self._of)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_of(self, context: RunContext, workload: Workload) -> ProfileSpec:
        return start_of(context, workload, self.folder, run_id=self._run_id, is_held=True)

    def _tick(self) -> None:
        self._on_tick()


class NotWanted(Exception):
    """Nobody wants this run or worker any more."""


def _refuse() -> NoReturn:
    raise NotWanted
