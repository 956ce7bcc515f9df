"""One core for a process and all that it has started while its loop is measured, and the memory
that is near it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.sides import ABRun

from perfgate.execute.worker import stay_near, steps
from perfgate.execute.worker.pinning import Pinned
from perfgate.execute.worker.steps import SETTLING_TURNS
from perfgate.model.order import Blocks


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


def on_core(ab_run: ABRun, name: str, core: int | None) -> Blocks:
    return ab_run.blocks(name).model_copy(update={"core": core})


def test_a_pinned_process_has_one_core_and_torch_as_many_threads(
    monkeypatch: pytest.MonkeyPatch, affinity: set[int]
) -> None:
    threads: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=threads.append))
    pinned = Pinned(max(affinity))
    assert os.sched_getaffinity(0) == {max(affinity)}
    assert threads == [1]
    pinned.let_go()
    assert os.sched_getaffinity(0) == affinity


def test_threads_that_were_there_are_pinned_and_let_go_and_new_ones_inherit(
    affinity: set[int],
) -> None:
    core = {min(affinity)}
    with ThreadPoolExecutor(max_workers=1) as old, ThreadPoolExecutor(max_workers=1) as new:
        assert old.submit(os.sched_getaffinity, 0).result() == affinity
        pinned = Pinned(*core)
        assert old.submit(os.sched_getaffinity, 0).result() == core
        assert new.submit(os.sched_getaffinity, 0).result() == core
        pinned.let_go()
        assert [pool.submit(os.sched_getaffinity, 0).result() for pool in (old, new)] == [
            affinity,
            affinity,
        ]


CHILD = """\
import subprocess, sys
own = [sys.executable, "-c", "input()"]
with subprocess.Popen(own, stdin=subprocess.PIPE) as grandchild:
    print(grandchild.pid, flush=True)
    input()
"""


def test_children_and_their_children_are_pinned_and_let_go(affinity: set[int]) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=pipe, stdout=pipe, text=True
    ) as child:
        assert child.stdout is not None
        family = [child.pid, int(child.stdout.readline())]
        pinned = Pinned(max(affinity))
        assert [os.sched_getaffinity(pid) for pid in family] == [{max(affinity)}] * 2
        pinned.let_go()
        assert [os.sched_getaffinity(pid) for pid in family] == [affinity] * 2
        child.communicate("\n")


class NotedPin:
    """A stand-in for `Pinned` that notes what is asked of it."""

    def __init__(self, done: list[str], core: int) -> None:
        self._done = done
        done.append(f"a pinned to {core}")

    def let_go(self) -> None:
        self._done.append("a let go")


@pytest.mark.parametrize(
    ("warmup", "free"), [(0, 0), (3, 0), (SETTLING_TURNS, 0), (SETTLING_TURNS + 2, 2)]
)
def test_only_the_last_turns_of_the_warm_up_and_the_steps_are_taken_on_the_core(
    ab_run: ABRun,
    monkeypatch: pytest.MonkeyPatch,
    warmup: int,
    free: int,
) -> None:
    monkeypatch.setattr(steps, "Pinned", partial(NotedPin, ab_run.done))
    a = ab_run.steps("a", steps=2, warmup=warmup, blocks=on_core(ab_run, "a", 3))
    ab_run.run_both(a, ab_run.steps("b", steps=2, warmup=warmup))
    found = [
        what
        for what in ab_run.of("a")
        if what.startswith(("work", "pinned", "let go", "start", "stop"))
    ]
    work = [f"work {turn}" for turn in range(warmup + 2)]
    assert found == [
        *work[:free],
        "pinned to 3",
        *work[free:warmup],
        "start",
        *work[warmup:],
        "let go",
        "stop",
    ]
    # Not before the other side has taken its last step as well.
    assert ab_run.done.index(f"b work {warmup + 1}") < ab_run.done.index("a let go")


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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    here: set[int],
    core: int,
    near: set[int] | None,
) -> None:
    for number, cpus in enumerate(("0-2,3", "4-7", "")):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(f"{cpus}\n")
    asked: list[tuple[int, set[int]]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: here)
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda thread, cores: asked.append((thread, cores))
    )
    stay_near(core, nodes=tmp_path)
    assert asked == ([] if near is None else [(0, near)])
