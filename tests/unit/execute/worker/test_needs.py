"""What a run took of the machine, and whether it chose kernels by their times."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from types import ModuleType, SimpleNamespace

import pytest
from support.sides import FakeTorch

from perfgate.execute.worker.needs import CONTEXT_BYTES, Busy, needs_of


@pytest.fixture(autouse=True)
def _nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have compiled something."""
    for name in [name for name in sys.modules if name.endswith(".triton_heuristics")]:
        monkeypatch.delitem(sys.modules, name)


def test_memory_is_that_of_the_process_and_of_what_torch_took() -> None:
    torch = FakeTorch([])
    torch.cuda.max_memory_reserved = lambda _device: 7
    found = needs_of(torch, has_gpu=True, cores=None)
    assert found.host_bytes > 10_000_000
    assert (found.gpu_bytes, found.tunes) == (CONTEXT_BYTES + 7, False)
    assert needs_of(None, has_gpu=True, cores=None).gpu_bytes is None
    assert needs_of(None, has_gpu=False, cores=1.5).gpu_bytes == 0


def test_cudnn_that_tries_kernels_is_known() -> None:
    torch = FakeTorch([])
    torch.backends = SimpleNamespace(  # type: ignore[attr-defined]
        cudnn=SimpleNamespace(benchmark=True)
    )
    assert needs_of(torch, has_gpu=True, cores=None).tunes


class Autotuner:
    """Stands for Triton's."""

    def __init__(self, **cache: int) -> None:
        self.cache = cache
        self.itself = self  # what the garbage collector knows


@pytest.mark.parametrize(("cache", "tunes"), [({"size": 1}, True), ({}, False)])
def test_triton_counts_where_it_has_tuned_and_not_where_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, cache: dict[str, int], *, tunes: bool
) -> None:
    module = ModuleType("triton.runtime.autotuner")
    module.Autotuner = Autotuner  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton.runtime.autotuner", module)
    tuner = Autotuner(**cache)
    assert needs_of(None, has_gpu=False, cores=1.5).tunes is tunes
    tuner.cache.clear()


def test_what_inductor_compiled_for_triton_was_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "torch._inductor.runtime.triton_heuristics"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert needs_of(None, has_gpu=False, cores=1.5).tunes


def test_cores_kept_busy_are_those_of_all_threads_and_children() -> None:
    """Two children that compute, next to this process, which waits."""
    alone = Busy()
    time.sleep(0.1)
    assert alone.cores() < 0.5
    spin = "print(flush=True)\nwhile True: pass"
    with ExitStack() as held:
        children = [
            held.enter_context(subprocess.Popen([sys.executable, "-c", spin], stdout=-1))
            for _ in range(2)
        ]
        for child in children:
            held.callback(child.kill)
            assert child.stdout is not None
            child.stdout.readline()
        busy, began = Busy(), time.monotonic()
        # However little a busy machine lets them have, it is more than this process takes.
        while (cores := busy.cores()) < 0.1 or time.monotonic() < began + 0.2:
            assert time.monotonic() < began + 60
            time.sleep(0.05)
    assert 0.1 <= cores < 2.5


def test_what_a_child_that_has_ended_took_counts_as_well() -> None:
    busy, began = Busy(), time.perf_counter()
    burn = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert busy.cores() * (time.perf_counter() - began) > 0.3
