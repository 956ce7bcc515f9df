"""Steps of a worker on a stand-in for torch or nvtx that notes every call, alone and as the two
sides of an A/B run."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from perfgate.execute.worker import MeasuredSteps
from perfgate.execute.worker.endings import Abandoned
from perfgate.model.order import Blocks, Hold, Order, WorkerReport

WARM = "push perfgate warm-up"
STEP = "push step"
START = "push perfgate start"
WAIT = "push perfgate wait"
OPENING = ["sync 0", "start", START, "pop"]
END = "push perfgate end"
CLOSING = ["sync 0", END, "pop", "stop"]
SOON_S = 5.0
"""Within which everything here happens that does not wait for nothing."""
GONE = "other-side-ended"


class FakeTorch(ModuleType):
    """A CUDA build of torch, as far as a worker uses it."""

    def __init__(
        self, calls: list[str], *, available: bool = True, contexts: tuple[bool, ...] = (True,)
    ) -> None:
        super().__init__("torch")
        self.__version__ = "2.6.0+cu124"
        self.version = SimpleNamespace(cuda="12.4")
        self._C = SimpleNamespace(_cuda_hasPrimaryContext=lambda device: contexts[device])
        runtime = SimpleNamespace(
            cudaProfilerStart=lambda: calls.append("start"),
            cudaProfilerStop=lambda: calls.append("stop"),
        )
        self.cuda = SimpleNamespace(
            is_available=lambda: available,
            is_initialized=lambda: available,
            max_memory_reserved=lambda _device: 0,
            device_count=lambda: len(contexts),
            synchronize=lambda device: calls.append(f"sync {device}"),
            cudart=lambda: runtime,
            nvtx=SimpleNamespace(
                range_push=lambda message: calls.append(f"push {message}"),
                range_pop=lambda: calls.append("pop"),
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
    hold: Hold | None = None,
) -> MeasuredSteps:
    """Steps on a GPU, by default."""
    found = FakeTorch(calls) if torch is None and nvtx is None else torch
    return MeasuredSteps(
        steps=steps,
        warmup=warmup,
        profiled=True,
        hold=hold,
        find_torch=lambda: found,
        find_nvtx=lambda: nvtx,
    )


@dataclass
class ABRun:
    """Two sides of an A/B run in two threads of this process; what they do is noted in one list."""

    folder: Path
    pool: ThreadPoolExecutor
    """Of the thread next to the test's own."""
    done: list[str] = field(default_factory=list)

    def blocks(self, name: str, *, patience_s: float = SOON_S) -> Blocks:
        """The order of side `a`, which begins, or `b`."""
        return Blocks(
            steps=2,
            begins=name == "a",
            own=str(self.folder / name),
            other=str(self.folder / ("b" if name == "a" else "a")),
            patience_s=patience_s,
        )

    def steps(
        self, name: str, *, steps: int = 4, warmup: int = 1, blocks: Blocks | None = None
    ) -> MeasuredSteps:
        """The steps of a side, on a GPU."""
        side = _Side(name, self.done)
        torch = FakeTorch(side)
        return MeasuredSteps(
            steps=steps,
            warmup=warmup,
            profiled=True,
            blocks=blocks or self.blocks(name),
            find_torch=lambda: torch,
            find_nvtx=lambda: None,
        )

    def loop(self, name: str, steps: MeasuredSteps, *, leave_at: int | None = None) -> None:
        """The loop of a side."""
        for turn in steps:
            self.done.append(f"{name} work {turn}")
            time.sleep(0.002)
            assert self.done[-1] == f"{name} work {turn}", "the other side did something meanwhile"
            if turn == leave_at:
                return

    def run_both(self, a: MeasuredSteps, b: MeasuredSteps) -> None:
        """Run both loops to their ends."""
        other = self.pool.submit(self.loop, "b", b)
        self.loop("a", a)
        other.result(SOON_S)
        a.check()
        b.check()

    def abandoned(self, name: str, steps: MeasuredSteps) -> str:
        """Why the loop of a side is abandoned."""
        with pytest.raises(Abandoned) as left:
            self.loop(name, steps)
        with pytest.raises(Abandoned) as again:
            steps.check()
        assert left.value.why == again.value.why
        return left.value.why.code

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


def worker_report_of(order: Order) -> WorkerReport:
    return WorkerReport.model_validate_json(Path(order.worker_report).read_text(encoding="utf-8"))
