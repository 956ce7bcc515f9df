"""What runs inside `nsys profile`: the steps of a decorated workload, and the account of how it ended.

With `workload.py` the only code that touches torch or nvtx. It knows nothing of baselines or verdicts.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import json
import os
import resource
import select
import sys
import time
import weakref
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Final, Protocol

from perfgate.model.order import Account, Bouts, Ending, Order, is_installed
from perfgate.model.workload import START_RANGE, STEP_RANGE, WAIT_RANGE, WARMUP_RANGE

SETTLING_TURNS: Final = 5
"""Warm-up turns that are taken on the one core of an interleaved duet (as many as where its spread was measured,
`benchmarks/moods`). What comes before needs all cores: imports, compiling, and the other side's start beside it."""
MEMORY_NODES: Final = Path("/sys/devices/system/node")
_SWEEPS: Final = 3
"""How often threads are looked for that are not on the core yet: one that is not there itself may start another."""


class ToldWhole(Exception):
    """An end whose message says all; a traceback would only show perfgate's own frames."""

    ending: ClassVar[Ending]


class StepsMisused(ToldWhole):
    """The loop took the steps twice, or left before the last turn."""

    ending = Ending.WRONG_STEPS


class Deaf(ToldWhole):
    """No NVTX range of this process can reach the profiler."""

    ending = Ending.DEAF


class NotPinned(ToldWhole):
    """This process may not run on the one core that it was ordered to."""

    ending = Ending.NOT_PINNED


class Abandoned(ToldWhole):
    """The other side of an interleaved duet ended before its last step, or did not hand over in time."""

    ending = Ending.ABANDONED


class Marker(Protocol):
    """Draws NVTX ranges on the calling thread."""

    name: str

    def push(self, message: str) -> None:
        """Open a range."""

    def pop(self) -> None:
        """Close the innermost range."""


class TorchMarker:
    """Ranges through `torch.cuda.nvtx`, which every nsys hears."""

    name = "torch.cuda.nvtx"

    def __init__(self, torch: ModuleType) -> None:
        self._nvtx = torch.cuda.nvtx

    def push(self, message: str) -> None:
        """Open a range."""
        self._nvtx.range_push(message)

    def pop(self) -> None:
        """Close the innermost range."""
        self._nvtx.range_pop()


class PackageMarker:
    """Ranges through the nvtx package, for processes without a CUDA build of torch."""

    name = "nvtx"

    def __init__(self, nvtx: ModuleType) -> None:
        self._nvtx = nvtx

    def push(self, message: str) -> None:
        """Open a range."""
        self._nvtx.push_range(message)

    def pop(self) -> None:
        """Close the innermost range."""
        self._nvtx.pop_range()


def choose_marker(*, torch: ModuleType | None, nvtx: ModuleType | None, profiled: bool) -> Marker:
    """Pick what draws the step ranges.

    Raises:
        Deaf: only the nvtx package is there, and it does not speak to the nsys around this process: since 0.2.12 it
            asks for an NVTX extension that nsys up to 2024.2 refuses, and then silently draws nothing.
    """
    if torch is not None and torch.cuda.is_available():
        return TorchMarker(torch)
    if nvtx is None:
        raise Deaf("neither a CUDA build of torch nor the nvtx package can be imported, so no step can be marked.")
    if profiled and type(nvtx.get_domain(None)).__name__ == "DummyDomain":
        raise Deaf(
            f"nvtx {package_version('nvtx')} does not speak to this nsys: its ranges are silently dropped. "
            'Install an older one (pip install "nvtx<0.2.12") or a newer nsys (2024.6 or later).'
        )
    return PackageMarker(nvtx)


@dataclass(frozen=True, kw_only=True)
class Capture:
    """Starts and stops nsys's capture through the CUDA profiler API, and waits for the GPU."""

    name: str | None
    synchronise: Callable[[], None]
    start: Callable[[], object]
    stop: Callable[[], object]


def choose_capture(*, torch: ModuleType | None) -> Capture:
    """Pick the CUDA profiler API of torch, else of the driver library, else none."""
    if torch is not None and torch.cuda.is_available():
        runtime = torch.cuda.cudart()
        return Capture(
            name="torch",
            synchronise=lambda: _synchronise_torch(torch),
            start=runtime.cudaProfilerStart,
            stop=runtime.cudaProfilerStop,
        )
    driver = _driver_library()
    if driver is not None:
        return Capture(
            name="libcuda",
            synchronise=driver.cuCtxSynchronize,
            start=driver.cuProfilerStart,
            stop=driver.cuProfilerStop,
        )
    return Capture(name=None, synchronise=_nothing, start=_nothing, stop=_nothing)


class Turns:
    """One side's end of the two FIFOs by which the processes of an interleaved duet work in turns.

    ```
    begins      |warm-up|.......|start, bout|...........|bout|....|stop      . waits
    the other   |.......|warm-up|...........|start, bout|....|bout|stop
    ```

    Whoever has taken all its steps waits for the other to have done so too: the end of a process is work as well.
    """

    _TURN: Final = b"t"
    _DONE: Final = b"d"
    """The rest is the other side's, without a turn any more."""
    _LEFT: Final = b"l"
    """The loop was left before its end. A process that is killed says nothing, and is known by the end of the file."""
    _LONGEST_MS: Final = 2**31 - 1
    """What poll can count to."""

    def __init__(self, bouts: Bouts) -> None:
        self._begins = bouts.begins
        self._patience_s = bouts.patience_s
        self._own: int | None = os.open(bouts.own, os.O_RDONLY | os.O_NONBLOCK)
        # Also for reading: that waits for nobody, and what is written before the other side is there is kept for it.
        self._other = os.open(bouts.other, os.O_RDWR | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._own, select.POLLIN)
        self.is_alone = False
        """Whether the other side has taken all its steps."""
        self.abandoned: str | None = None
        """Why no turn is to be expected any more."""
        close = weakref.WeakMethod(self._close)
        # A loader's process that outlives this one would keep the file open; and what it does is no handing over.
        os.register_at_fork(after_in_child=lambda: (bound := close()) and bound())

    def begin(self) -> None:
        """Wait, on the side that does not begin, for the first turn.

        Raises:
            Abandoned: it does not come.
        """
        if not self._begins:
            self._wait()

    def hand_over(self) -> None:
        """Give the turn away and wait for the next; at once where the other side needs none any more.

        Raises:
            Abandoned: it does not come.
        """
        if not self.is_alone:
            self._say(self._TURN)
            self._wait()

    def end(self) -> None:
        """Hand over for good, and keep still until the other side is through as well; how it ends is its own affair."""
        if self._own is not None:
            self._say(self._DONE)
            while not self.is_alone and self._hear() == self._TURN:
                pass
            self._close()

    def leave(self) -> None:
        """Hand over for good before the end; does nothing after `end`."""
        if self._own is not None:
            self._say(self._LEFT)
            self._close()

    def _wait(self) -> None:
        heard = self._hear()
        if heard == self._DONE:
            self.is_alone = True
        elif heard != self._TURN:
            self.abandoned = (
                f"the other side of the duet did not hand over within {self._patience_s:g} s."
                if heard is None
                else "the other side of the duet ended before its last step."
            )
            raise Abandoned(self.abandoned)

    def _hear(self) -> bytes | None:
        """What the other side says next, nothing where it is gone; None if it keeps silent for too long."""
        if self._own is None or not self._poll.poll(min(self._patience_s * 1000, self._LONGEST_MS)):
            return None
        return os.read(self._own, 1)

    def _say(self, word: bytes) -> None:
        os.write(self._other, word)

    def _close(self) -> None:
        if self._own is not None:
            os.close(self._own)
            os.close(self._other)
            self._own = None


class MeasuredSteps:
    """The `steps` of a workload in its worker: warm-up turns, then the measured ones inside the capture.

    ```
    warm-up   |w|w|w|   sync, start   |step|step|step|   sync, stop
    capture                         |------------------|
    ```

    With `bouts`, in turns with another process, which works only where this one waits, and from the last turns of the
    warm-up on one core, if it names one:
    ```
    warm-up   |w|w|w|   sync, wait, start   |step|step|   sync, wait   |step|step|   sync, wait, stop
    one core      |----------------------------------------------------------------------|
    ```
    """

    def __init__(
        self,
        *,
        steps: int,
        warmup: int,
        profiled: bool,
        bouts: Bouts | None = None,
        find_torch: Callable[[], ModuleType | None] | None = None,
        find_nvtx: Callable[[], ModuleType | None] | None = None,
    ) -> None:
        self._steps = steps
        self._warmup = warmup
        self._profiled = profiled
        self._bout_steps = steps if bouts is None else bouts.steps
        # Now, not at the first turn: the other side is to see it if this one does not come that far.
        self._turns = None if bouts is None else Turns(bouts)
        self._core = None if bouts is None else bouts.core
        self._find_torch = find_torch or (lambda: sys.modules.get("torch"))
        self._find_nvtx = find_nvtx or (lambda: _import("nvtx"))
        self._started = False
        self._running: Callable[[], Generator[int] | None] = lambda: None
        self.turns = 0
        """Turns begun so far, warm-up included."""
        self.finished = False
        """Whether the loop ran to the end."""
        self.marked_by: str | None = None
        self.captured_by: str | None = None
        self.cores: float | None = None
        """CPU cores kept busy over the measured steps, on average; None in turns with another process."""
        self.kept_core: int | None = None
        """The core that it was ordered to, if it was still there after its last step."""

    def __len__(self) -> int:
        """Warm-up and measured turns together."""
        return self._warmup + self._steps

    def __iter__(self) -> Iterator[int]:
        """Start the loop.

        Raises:
            StepsMisused: the loop was started before.
            Deaf: no step can be marked; at the first turn.
            NotPinned: it may not run on its one core; at a turn of the warm-up, or the first after it.
            Abandoned: the other side of the duet is gone; at any turn.
        """
        if self._started:
            raise StepsMisused(
                f"the steps were iterated a second time, after {self.turns} of {len(self)} turns. "
                "Iterate over them once, and do one step of work a turn."
            )
        self._started = True
        loop = self._loop()
        # Held weakly: a loop that is left drops its iterator, which then closes the range and the capture at once.
        self._running = weakref.ref(loop)
        return loop

    def close(self) -> None:
        """Close the open range and the capture of a loop that was left while something still holds its iterator.

        A loop that never began hands its turns over as well.
        """
        loop = self._running()
        if loop is not None:
            # A thread that the loop left behind may be in it: then it is not to be closed.
            with contextlib.suppress(ValueError):
                loop.close()
        if self._turns is not None:
            self._turns.leave()

    @property
    def abandoned(self) -> str | None:
        """Why the other side of the duet is not to be waited for any more, whatever the workload made of that."""
        return None if self._turns is None else self._turns.abandoned

    def _loop(self) -> Generator[int]:
        try:
            torch = self._find_torch()
            marker = choose_marker(torch=torch, nvtx=self._find_nvtx(), profiled=self._profiled)
            self.marked_by = marker.name
            if self._turns is not None:
                self._turns.begin()
            settled = min(SETTLING_TURNS, self._warmup)
            for turn in range(self._warmup - settled):
                yield from self._one(marker, WARMUP_RANGE, turn)
            pinned = None if self._core is None else Pinned(self._core)
            for turn in range(self._warmup - settled, self._warmup):
                yield from self._one(marker, WARMUP_RANGE, turn)
            # Torch may have been imported by the loop's own first turn.
            capture = choose_capture(torch=self._find_torch())
            self.captured_by = capture.name
            capture.synchronise()
            if self._turns is not None:
                self._turns.hand_over()
            capture.start()
            try:
                busy = Busy() if self._turns is None else None
                marker.push(START_RANGE)
                marker.pop()
                for number in range(self._steps):
                    if number and number % self._bout_steps == 0:
                        self._wait(marker, capture)
                    yield from self._one(marker, STEP_RANGE, self._warmup + number)
                capture.synchronise()
                if busy is not None:
                    self.cores = busy.cores()
                if self._turns is not None:
                    self._turns.end()
                if pinned is not None:
                    # Neither has a step to take any more: what both still have to do they need not do on one core.
                    self.kept_core = pinned.core if pinned.let_go() else None
            finally:
                capture.stop()
            self.finished = True
        finally:
            if self._turns is not None:
                self._turns.leave()

    def _wait(self, marker: Marker, capture: Capture) -> None:
        """Let the other side have its bout, if it still needs one."""
        if self._turns is None or self._turns.is_alone:
            return
        capture.synchronise()
        marker.push(WAIT_RANGE)
        try:
            self._turns.hand_over()
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
            raise Abandoned(self.abandoned)
        declared = f"{len(self)} turns ({self._warmup} warm-up, {self._steps} measured)"
        if self.turns == len(self):
            # zip(data, steps) with data for exactly all turns, and zip(steps, data) with data for one turn less, look
            # the same from here, and so does one call of next() a turn. In the second the last step is empty, so none
            # counts.
            raise StepsMisused(
                f"the loop began all {declared}, and did not come back for the end of the last one. "
                "Put the steps first, with data for every turn, zip(steps, data), "
                "or call next() once more than there are turns."
            )
        raise StepsMisused(
            f"the loop took {self.turns} of {declared}. "
            "It must go on until the steps are used up: look for a break, a return, or data that ends first."
        )


class Pinned:
    """This process and its children on one core, with all threads that they have and are yet to start.

    Raises:
        NotPinned: the platform refuses.
    """

    def __init__(self, core: int) -> None:
        self.core = core
        try:
            self._before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {core})
        except (AttributeError, OSError) as refused:
            why = (refused.strerror if isinstance(refused, OSError) else None) or "not on this platform"
            raise NotPinned(f"its process cannot be kept on core {core} ({why}).") from refused
        for _ in range(_SWEEPS):
            if not _move({core}, lambda cores: cores != {core}):
                break
        # More threads than cores would spin where they wait for each other. Torch that is imported later counts by
        # OMP_NUM_THREADS, as it did before.
        set_num_threads = getattr(sys.modules.get("torch"), "set_num_threads", None)
        if set_num_threads is not None:
            set_num_threads(1)

    def let_go(self) -> bool:
        """Let all that is still there run where it might before; whether this thread was still there."""
        stayed = os.sched_getaffinity(0) == {self.core}
        _move(self._before, lambda cores: cores == {self.core})
        return stayed


class Busy:
    """Counts the CPU time that this process and all that it has started take from now on."""

    def __init__(self) -> None:
        self._children_ns = _children_ns()
        # Last, and first at the end: looking for children is no work of the steps.
        self._own_ns, self._began_ns = time.process_time_ns(), time.perf_counter_ns()

    def cores(self) -> float:
        """CPU cores kept busy since then, on average."""
        used_ns = time.process_time_ns() - self._own_ns
        used_ns += max(_children_ns() - self._children_ns, 0)
        # Last, or what the children do while they are looked for would count, and its time would not.
        return used_ns / max(time.perf_counter_ns() - self._began_ns, 1)


def _children_ns() -> int:
    """CPU time so far of all that this process has started: what has ended, and what /proc tells of the others."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_ns = int((ended.ru_utime + ended.ru_stime) * 1e9)
    for child in _family() - {os.getpid()}:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{child}/task").iterdir():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    used_ns += int((task / "schedstat").read_text().split()[0])
    return used_ns


def stay_near(core: int, *, nodes: Path = MEMORY_NODES) -> None:
    """Keep this thread, and all that it is yet to start, to those of its CPUs that share their memory with the core.

    Memory lies where it was first written. A process that starts beside another node's memory and is then sent to the
    core would have its own far away, and the other side of the duet perhaps not.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError):
        here = os.sched_getaffinity(0)
        for listed in nodes.glob("node[0-9]*/cpulist"):
            cpus = _cpus(listed.read_text(encoding="utf-8"))
            if core in cpus and not here <= cpus and here & cpus:
                os.sched_setaffinity(0, here & cpus)


def _cpus(listed: str) -> set[int]:
    """The CPUs of a list as the kernel prints it: `0-3,8`."""
    spans = [span.partition("-") for span in listed.strip().split(",") if span]
    return {cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)}


def _move(cores: set[int], wanted: Callable[[set[int]], bool]) -> int:
    """Let those threads run on `cores` of which, by where they may run, it is wanted; how many were.

    Threads that end meanwhile, or belong to a child of another user, are passed over.
    """
    moved = 0
    for thread in _threads():
        with contextlib.suppress(OSError):
            if wanted(os.sched_getaffinity(thread)):
                moved += 1
                os.sched_setaffinity(thread, cores)
    return moved


def _threads() -> list[int]:
    """The threads of this process and of all that it has started, as far as /proc tells."""
    threads: list[int] = []
    for process in _family():
        with contextlib.suppress(OSError):
            threads += [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]
    return threads


def _family() -> set[int]:
    """This process and all that it has started, as far as /proc tells."""
    family, found = {os.getpid()}, 0
    parents = _parents()
    while len(family) > found:
        found = len(family)
        family |= {child for child, parent in parents.items() if parent in family}
    return family


def _parents() -> dict[int, int]:
    """The parent of each process on this machine."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        # The name, in brackets, may hold anything; after it come the state and the parent.
        with contextlib.suppress(OSError, IndexError):
            if folder.name.isdecimal():
                stat = (folder / "stat").read_text(errors="replace")
                parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    return parents


def tell(
    order: Order,
    steps: MeasuredSteps,
    ending: Ending,
    *,
    message: str = "",
    exit_status: int | None = None,
    before: Mapping[str, str] | None = None,
) -> None:
    """Close what the loop left open, and write the worker's account where the order wants it.

    Whatever the workload made of being abandoned, that is how it ended. `before` are the digests of code as it was
    loaded: a file that has another one now gets one that no other run's has.
    """
    steps.close()
    if steps.abandoned is not None:
        ending, message = Ending.ABANDONED, steps.abandoned
    torch = sys.modules.get("torch")
    torch_version = getattr(torch, "__version__", None)
    account = Account(
        ending=ending,
        message=message.encode(errors="backslashreplace").decode(),
        exit_status=exit_status,
        turns=steps.turns,
        pid=os.getpid(),
        torch=None if torch_version is None else str(torch_version),
        cuda=getattr(getattr(torch, "version", None), "cuda", None),
        nvtx=package_version("nvtx"),
        marked_by=steps.marked_by,
        captured_by=steps.captured_by,
        core=steps.kept_core,
        cores=steps.cores,
        code=_as_loaded(before or {}, loaded_code(Path(order.root), order.vendored)),
    )
    if order.witnesses is not None:
        _tell_modules(Path(order.witnesses))
    Path(order.account).write_text(account.model_dump_json(indent=2), encoding="utf-8")


def _tell_modules(folder: Path) -> None:
    """Write the file of each loaded module, as `duet/witness.py` does for processes that perfgate does not touch."""
    files = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str):
            files[str(name)] = str(Path(file).absolute())
    prefixes = sorted({sys.prefix, sys.base_prefix, sys.exec_prefix})
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        told = {"pid": os.getpid(), "prefixes": prefixes, "modules": files}
        (folder / "worker.json").write_text(json.dumps(told), encoding="utf-8")


def _as_loaded(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    return {
        path: digest
        if before.get(path, digest) == digest
        else hashlib.sha256(f"{before[path]} {digest} {os.getpid()}".encode()).hexdigest()
        for path, digest in now.items()
    }


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class ProjectFiles:
    """Tells which files are the project's: no virtual environment inside it, nothing that perfgate keeps there, and not
    perfgate where it gates itself."""

    def __init__(self, root: Path, vendored: Collection[str] = ()) -> None:
        self._root = root.resolve()
        self._vendored = [self._root / folder for folder in vendored]
        prefixes = [Path(prefix).resolve() for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix}]
        self._foreign = [prefix for prefix in prefixes if prefix.is_relative_to(self._root) and prefix != self._root]
        self._foreign += [Path(__file__).resolve().parent, self._root / ".perfgate"]

    def relative(self, file: object) -> Path | None:
        """A file's path relative to the project's root; None of one that is not the project's, or of no path."""
        if not isinstance(file, str):
            return None
        path = Path(file).resolve()
        if not path.is_relative_to(self._root):
            return None
        inner = path.relative_to(self._root)
        if is_installed(inner) and not any(path.is_relative_to(folder) for folder in self._vendored):
            return None
        return None if any(path.is_relative_to(prefix) for prefix in self._foreign) else inner


def loaded_code(root: Path, vendored: Collection[str] = ()) -> dict[str, str]:
    """SHA-256, by path relative to `root`, of the project's files among the loaded modules."""
    files = ProjectFiles(root, vendored)
    digests: dict[str, str] = {}
    for module in list(sys.modules.values()):
        # Not getattr: it would wake up modules that import themselves lazily.
        path = files.relative(getattr(module, "__dict__", {}).get("__file__"))
        if path is not None:
            with contextlib.suppress(OSError):
                digests[path.as_posix()] = digest_of(root / path)
    return dict(sorted(digests.items()))


def package_version(name: str) -> str | None:
    """The installed version of a distribution, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def profiled(environment: Mapping[str, str]) -> bool:
    """Whether nsys is around this process: it sets one of these for every process it starts."""
    return "NSYS_PROFILING_SESSION_ID" in environment or "NVTX_INJECTION64_PATH" in environment


def _nothing() -> None:
    """Stand in for the CUDA profiler API where there is none."""


def _synchronise_torch(torch: ModuleType) -> None:
    # torch.cuda.synchronize creates a context on a device that has none: minutes of start-up on an 8-GPU host.
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", lambda _device: True)
    for device in range(torch.cuda.device_count()):
        if has_context(device):
            torch.cuda.synchronize(device)


def _driver_library() -> ctypes.CDLL | None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
