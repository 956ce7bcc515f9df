"""Who counts as a neighbour, with and without a container between the driver's process ids and
ours.

Gate is 1, our workload 40, a stranger 51; 900 and up exist nowhere here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from perfgate.machine.processes import NeighbourWatch, Owner, ProcessTable
from perfgate.model.order import RUN_COOKIE

GATE, OURS, STRANGER = 1, 40, 51


@dataclass
class Table(ProcessTable):
    """Processes as a test sets them."""

    owners: Mapping[int, Owner] = field(
        default_factory=lambda: {OURS: Owner.OURS, STRANGER: Owner.FOREIGN}
    )
    names: Mapping[int, str] = field(default_factory=lambda: {OURS: "python", STRANGER: "ollama"})
    ours_on_gpu: int = 1

    def owner(self, pid: int) -> Owner:
        return self.owners.get(pid, Owner.UNKNOWN)

    def describe(self, pid: int) -> str:
        return f"{self.names.get(pid, 'unknown process')} ({pid})"

    def count_ours_on_gpu(self) -> int:
        return self.ours_on_gpu


def watch(before: list[int], *during: list[int], table: Table | None = None) -> NeighbourWatch:
    found = NeighbourWatch(table or Table(), own_pid=GATE)
    found.see_before(before)
    for pids in during:
        found.see(pids)
    return found


@pytest.mark.parametrize(
    ("before", "during", "neighbours"),
    [
        ([], [[], [OURS], [OURS], []], ()),
        ([GATE], [[GATE, OURS]], ()),
        # A stranger is named even if seen once, and so is whatever was there before.
        ([], [[OURS], [OURS, STRANGER], [OURS]], ("ollama (51)",)),
        ([OURS], [[OURS]], ("python (40)",)),
        # In a container our own process has its host's id.
        ([], [[900], [900], [900]], ()),
        ([900], [[900], [900, 901], [900, 901]], ("unknown process (900)",)),
        # Outside of one, an id that exists nowhere is a neighbour when it stays.
        ([], [[OURS, 900], [OURS]], ()),
        ([], [[OURS, 900], [OURS, 900]], ("unknown process (900)",)),
    ],
)
def test_who_is_a_neighbour(
    before: list[int], during: list[list[int]], neighbours: tuple[str, ...]
) -> None:
    assert watch(before, *during).neighbours() == neighbours


def test_in_a_container_two_ranks_of_ours_are_no_neighbours_and_a_third_process_is() -> None:
    assert watch([], [900, 901], [900, 901], table=Table(ours_on_gpu=2)).neighbours() == ()
    assert watch([], [900, 901, 902], [900, 901, 902], table=Table(ours_on_gpu=2)).neighbours() == (
        "1 of 3 processes outside this container",
    )


def test_a_sample_says_whether_one_of_ours_may_be_on_the_gpu() -> None:
    found = NeighbourWatch(Table(), own_pid=GATE)
    found.see_before([STRANGER])
    assert [
        found.see(pids) for pids in ([STRANGER], [STRANGER, 900], [STRANGER, OURS], [STRANGER, 900])
    ] == [
        False,
        True,
        True,
        False,
    ]


SLEEP = "import time; print('up', flush=True); time.sleep(60)"


@pytest.fixture
def strangers() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test starts; ended afterwards."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def start(
    strangers: list[subprocess.Popen[str]], program: str, cookie: str | None
) -> subprocess.Popen[str]:
    env = {name: value for name, value in os.environ.items() if name != RUN_COOKIE}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=env | ({RUN_COOKIE: cookie} if cookie else {}),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    strangers.append(process)
    return process


def reparented(strangers: list[subprocess.Popen[str]], cookie: str | None) -> Iterator[int]:
    """Start a process whose parent ends at once, so that it descends from us no more; yields its
    id."""
    program = (
        "import subprocess, sys; "
        f"child = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], stdout=subprocess.PIPE, "
        f"start_new_session=True);"
        "child.stdout.readline(); print(child.pid, flush=True)"
    )
    launcher = start(strangers, program, cookie)
    assert launcher.stdout is not None
    pid = int(launcher.stdout.readline())
    launcher.wait(timeout=20)
    yield pid
    os.kill(pid, signal.SIGKILL)


def test_a_child_is_ours_whatever_its_cookie(strangers: list[subprocess.Popen[str]]) -> None:
    child = start(strangers, SLEEP, "another-run")
    assert child.stdout is not None
    child.stdout.readline()
    assert ProcessTable("this-run").owner(child.pid) is Owner.OURS


def test_an_orphan_is_ours_by_its_cookie_alone(strangers: list[subprocess.Popen[str]]) -> None:
    for pid in reparented(strangers, "this-run"):
        assert ProcessTable("this-run").owner(pid) is Owner.OURS
        # Another run's process: not ours; and with no GPU open, the driver cannot have meant it.
        assert ProcessTable("other-run").owner(pid) is Owner.UNKNOWN


def test_an_orphan_of_another_run_that_uses_a_gpu_is_foreign(
    strangers: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfgate.machine.processes.opens_gpu", lambda _: True)
    for pid in reparented(strangers, "another-run"):
        assert ProcessTable("this-run").owner(pid) is Owner.FOREIGN
        assert ProcessTable("this-run").describe(pid).endswith(f" ({pid})")
