"""Runs that are started together under a real nsys: who works when, and what becomes of them where
one fails or the gate goes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from support.held import NOTING, processes_in, times_of
from support.processes import until
from support.project import Project
from support.runs import PERFGATE, context_of, function

from perfgate.execute import ahead
from perfgate.execute.ahead import RunFailed, Wanted, in_blocks, start_together
from perfgate.execute.failures import RunEnd
from perfgate.model.errors import WorkloadFailed, WorkloadTimedOut
from perfgate.model.note import Note, note
from perfgate.model.sample import Form
from perfgate.profilers.nsys.tool import NsysTool

pytestmark = pytest.mark.nsys

LOOP = (
    NOTING
    + """
from perfgate import workload

@workload(steps=5, warmup=2)
def loop(steps):
    noted("built")
    for number in steps:
        if number == 2:
            noted("began")
        time.sleep(0.02)
        if number == 6:
            noted("ended")
    noted("left")
"""
)


def wanted(
    tool: NsysTool,
    root: Path,
    text: str,
    *,
    runs: int = 3,
    timeout_s: float = 60,
) -> list[Wanted]:
    """Runs of a loop in a project of its own."""
    (root / "workloads").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    (root / "workloads" / "loops.py").write_text(text, encoding="utf-8")
    context = context_of(root, {**os.environ, "PYTHONPATH": str(PERFGATE)}, tool=tool)
    declared = function(steps=5, warmup=2)
    workload = declared.model_copy(update={"timeout_s": timeout_s})
    return [
        Wanted(context=context, workload=workload, folder=root / f"run-{number}")
        for number in range(runs)
    ]


@pytest.mark.parametrize("form", [Form.EARLY, Form.LATE])
def test_runs_start_together_and_measure_one_after_another(
    nsys_tool: NsysTool, tmp_path: Path, form: Form
) -> None:
    root = tmp_path / "project"
    made = list(start_together(wanted(nsys_tool, root, LOOP), form))
    assert [one.run.form for one in made] == [form] * 3
    assert [process.steps for one in made for process in one.run.processes] == [5, 5, 5]
    assert all(one.run.needs is not None and one.run.needs.host_bytes > 0 for one in made)
    times = times_of(root)
    assert len(times) == 3
    # All are there before the first measures, and nobody goes on before the last has.
    assert max(one["imported"] for one in times) < times[0]["began"]
    assert times[-1]["ended"] < min(one["left"] for one in times)
    for before, after in pairwise(times):
        assert before["ended"] < after["began"]
        if form is Form.EARLY:
            assert before["ended"] < after["built"]
        else:
            assert after["built"] < times[0]["began"]
    assert not processes_in(root)
    assert not list(root.glob("run-*/*/nsys")) + list(root.glob("run-*/*/gate"))


def test_what_follows_the_last_run_is_none_of_its_time(nsys_tool: NsysTool, tmp_path: Path) -> None:
    root = tmp_path / "project"

    def then() -> None:
        while processes_in(root):
            time.sleep(0.1)
        time.sleep(4)

    batch = start_together(wanted(nsys_tool, root, LOOP, runs=1), Form.EARLY, then=then)
    began = time.monotonic()
    (made,) = list(batch)
    assert made.run.wall_s < time.monotonic() - began - 1


def test_what_is_started_ends_where_the_gate_is_interrupted_meanwhile(
    nsys_tool: NsysTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, started = tmp_path / "project", list[object]()
    submit: Callable[..., Future[RunEnd]] = ThreadPoolExecutor.submit

    def interrupted(pool: ThreadPoolExecutor, *what: object, **more: object) -> Future[RunEnd]:
        if started:
            raise KeyboardInterrupt
        started.append(what)
        return submit(pool, *what, **more)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    batch = None
    with pytest.raises(KeyboardInterrupt) as held:
        batch = start_together(wanted(nsys_tool, root, LOOP), Form.EARLY)
    assert (batch, len(started)) == (None, 1)
    assert held.tb is not None  # it holds all that is in its frames
    assert not processes_in(root)
    assert not list(root.glob("run-*/gate"))


def test_pairs_in_blocks_are_started_together_and_measure_one_after_another(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    one, other, third, fourth = wanted(nsys_tool, root, LOOP, runs=4)
    pairs = [
        in_blocks(sides, candidate_begins=begins, block_steps=2, core=None)
        for sides, begins in (((one, other), False), ((third, fourth), True))
    ]
    busy, marks, ended = note("gpu-utilised", gpu="GPU-0", percent=50), list[str](), list[bool]()

    def looked(mark: str) -> Note:
        marks.append(mark)
        return busy

    batch = start_together(
        [side for pair in pairs for side in pair],
        Form.EARLY,
        busy=looked,
        then=lambda: ended.append(len(processes_in(root)) > 0),
    )
    made = list(batch)
    assert [one.run.form for one in made] == [Form.BLOCK] * 4
    # What kept the GPU busy before the first of them, all that is not theirs, spoils all.
    assert [[why.fields["why"] for why in one.run.invalid] for one in made] == [[busy]] * 4
    assert len(marks) == 1
    # Called while they end.
    assert ended == [True]
    assert [one.run.begins for one in made] == [True, False, False, True]
    assert [process.steps for one in made for process in one.run.processes] == [5] * 4
    times = times_of(root)
    assert max(one["imported"] for one in times) < times[0]["began"]
    first, second = times[:2], times[2:]
    for pair in (first, second):  # both sides of a pair at once, in turns
        assert max(one["began"] for one in pair) < min(one["ended"] for one in pair)
    assert max(one["ended"] for one in first) < min(one["built"] for one in second)
    assert times[-1]["ended"] < min(one["left"] for one in times)


def test_what_a_workload_does_after_its_window_is_not_measured(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    after = (
        LOOP
        + """
    import nvtx
    for _ in range(3):
        with nvtx.annotate("step"):
            time.sleep(0.5)
"""
    )
    (made,) = list(
        start_together(wanted(nsys_tool, tmp_path / "project", after, runs=1), Form.LATE)
    )
    (process,) = made.run.processes
    assert (process.steps, process.step_ranges) in [(5, None), (5, 5)]
    assert process.window_ms < 400
    assert made.run.invalid == ()


def test_one_that_dies_while_it_is_held_ends_the_others(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    dying = LOOP.replace(
        '    noted("built")\n',
        (
            '    noted("built")\n    if len(list(AT.iterdir())) == 2:\n'
            "        os.kill(os.getpid(), 9)\n"
        ),
    )
    with pytest.raises(RunFailed) as failed:
        list(start_together(wanted(nsys_tool, root, dying), Form.EARLY))
    assert (failed.value.number, type(failed.value.error)) == (1, WorkloadFailed)
    assert "process-killed" in str(failed.value.error.fields["why"])
    assert not processes_in(root)
    # The third was not let go.
    assert len(times_of(root)) == 2


def test_what_keeps_a_core_busy_while_it_waits_is_refused_and_named(
    nsys_tool: NsysTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "QUIET_PATIENCE_S", 1.0)
    spinning = f"""
import subprocess, sys

subprocess.Popen([sys.executable, "-c", "while True: pass"])
{LOOP}"""
    root = tmp_path / "project"
    with pytest.raises(RunFailed) as failed:
        list(start_together(wanted(nsys_tool, root, spinning, runs=2), Form.EARLY))
    why = failed.value.error.fields["why"]
    assert isinstance(why, Note)
    assert why.code == "held-busy"  # of either, by which child gets a core first
    cores, processes = why.fields["cores"], why.fields["processes"]
    assert isinstance(cores, float)
    assert cores > ahead.QUIET_CORES
    assert "python" in str(processes)
    assert not processes_in(root)


def test_what_a_child_used_in_its_own_turn_is_not_held_against_the_next_one(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    burns = "import time\nwhile time.process_time() < 2: pass\nprint(flush=True)\ntime.sleep(99)"
    child = f"""
    child = subprocess.Popen([sys.executable, "-c", {burns!r}], stdout=subprocess.PIPE)
    child.stdout.readline()
"""
    text = LOOP.replace('    noted("built")\n', f'{child}    noted("built")\n')
    ended = text.replace(
        '    noted("left")\n', '    noted("left")\n    child.kill()\n    child.communicate()\n'
    )
    root = tmp_path / "project"
    made = start_together(wanted(nsys_tool, root, f"import subprocess, sys\n{ended}"), Form.EARLY)
    assert len(list(made)) == 3
    assert not processes_in(root)


def test_only_its_own_work_counts_against_a_runs_time_limit(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    slow = LOOP.replace("time.sleep(0.02)", "time.sleep(0.5)")
    made = list(
        start_together(wanted(nsys_tool, tmp_path / "slow", slow, timeout_s=20), Form.EARLY)
    )
    assert len(made) == 3
    root, began = tmp_path / "hanging", time.monotonic()
    hanging = LOOP.replace(
        "        if number == 2:\n",
        "        if number == 3:\n            time.sleep(600)\n        if number == 2:\n",
    )
    with pytest.raises(RunFailed) as failed:
        list(start_together(wanted(nsys_tool, root, hanging, timeout_s=15), Form.EARLY))
    assert isinstance(failed.value.error, WorkloadTimedOut)
    assert time.monotonic() - began < 60
    assert not processes_in(root)


def test_the_one_that_hangs_is_blamed_and_not_those_that_wait_for_it(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    hanging = LOOP.replace(
        "from perfgate import workload\n",
        'if "run-0" in str(sys.argv):\n    time.sleep(600)\nfrom perfgate import workload\n',
    ).replace("import json,", "import sys, json,")
    with pytest.raises(RunFailed) as failed:
        list(start_together(wanted(nsys_tool, root, hanging, runs=2, timeout_s=15), Form.EARLY))
    assert (failed.value.number, type(failed.value.error)) == (0, WorkloadTimedOut)
    assert not processes_in(root)


def test_time_before_anybody_asks_for_them_does_not_count(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    batch = start_together(wanted(nsys_tool, root, LOOP, runs=2, timeout_s=15), Form.LATE)
    time.sleep(17)
    assert all("began" not in one for one in times_of(root))  # they wait for their turns
    made = list(batch)
    assert len(made) == 2
    assert all(one.run.wall_s < 15 for one in made)


def test_whoever_wants_no_more_of_them_ends_the_rest(nsys_tool: NsysTool, tmp_path: Path) -> None:
    root = tmp_path / "project"
    made = start_together(wanted(nsys_tool, root, LOOP, runs=3), Form.LATE)
    next(made)
    made.close()
    assert not processes_in(root)
    assert not list(root.glob("run-*/nsys"))


def test_the_next_workload_starts_while_the_runs_of_this_one_end(
    project: Project, real_nsys: Sequence[str]
) -> None:
    """But measures only after them; nothing is started of one that is skipped."""
    second = LOOP.replace('/ "times"', '/ "next"').replace("loop(", "next_loop(")
    skipped = """
import pytest
from perfgate import workload

@pytest.mark.skip
@workload(steps=3)
def never(steps):
    for _ in steps:
        pass
"""
    project.workload(LOOP, file="a.py")
    project.workload(skipped, file="b.py")
    project.workload(second, file="c.py")
    project.write("pyproject.toml", "[tool.perfgate]\nahead = 2\n")
    assert project.gate("--perfgate-new=allow", "--perfgate-runs=2").status == 0
    before, after = times_of(project.root), times_of(project.root, "next")
    assert len(before) == len(after) == 2
    kept = project.store.results.latest("loop")
    assert kept is not None
    written = (kept.folder / "result.json").stat().st_mtime - (time.time() - time.monotonic())
    assert before[-1]["ended"] < after[0]["imported"] < written < after[0]["built"]
    assert not list(project.root.glob(".perfgate/results/never*"))
    assert not processes_in(project.root)


PORT = """
import socket
from perfgate import workload

@workload(steps=4, warmup=1)
def loop(steps):
    with socket.create_server(("127.0.0.1", {port})):
        for _ in steps:
            sum(range(200_000))
"""


def test_runs_that_want_the_same_port_are_made_one_by_one_and_that_is_said(
    project: Project, real_nsys: Sequence[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    project.workload(PORT.format(port=port))
    project.write("pyproject.toml", "[tool.perfgate]\nahead = 3\n")
    seen = project.gate("--perfgate-new=allow", "--perfgate-runs=3")
    assert seen.status == 0
    assert "ahead-failed" in seen.codes
    kept = project.store.results.latest("loop")
    assert kept is not None
    assert len(kept.result.runs) >= 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_runs_that_are_held_do_not_outlive_their_gate(
    project: Project, real_nsys: Sequence[str], number: signal.Signals
) -> None:
    """The one that measures hangs; the others wait, before it and behind it."""
    text = LOOP.replace(
        '    noted("built")\n',
        '    noted("built")\n    if len(list(AT.iterdir())) == 2:\n        time.sleep(8)\n',
    )
    project.workload(text)
    project.write("pyproject.toml", "[tool.perfgate]\nahead = 3\n")
    with project.start("--perfgate", stdout=subprocess.DEVNULL) as gate:
        until(lambda: len(list((project.root / "times").glob("*"))) == 2)
        below = psutil.Process(gate.pid).children(recursive=True)
        assert len([one for one in below if "--perfgate-worker" in " ".join(one.cmdline())]) >= 3
        gate.send_signal(number)
    until(lambda: not processes_in(project.root), timeout_s=60)  # what measures ends by itself
