"""Two commits run at once under a real nsys, in turns: whose steps ran when, and what is said where
one side fails."""

from __future__ import annotations

import _thread
import itertools
import json
import os
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import psutil
import pytest
from support.repository import Repository
from support.runs import (
    KEPT,
    ReferenceFailed,
    context_in,
    function,
    pair_in_blocks,
)

from perfgate.execute.context import RunContext, at_commit
from perfgate.execute.run import Measured
from perfgate.execute.worker.steps import SETTLING_TURNS
from perfgate.model.baseline import code_digest
from perfgate.model.errors import PerfgateError, WorkloadFailed, WorkloadTimedOut
from perfgate.model.note import Note, note
from perfgate.model.order import RUN_COOKIE, WorkerReport
from perfgate.model.workload import (
    END_RANGE,
    START_RANGE,
    STEP_RANGE,
    WAIT_RANGE,
    WARMUP_RANGE,
)
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.profilers.nsys.tool import NsysTool

pytestmark = pytest.mark.nsys

CORES = sorted(os.sched_getaffinity(0))
CORE = CORES[-1]
Side = Literal["reference", "candidate"]
SIDES: tuple[Side, ...] = ("reference", "candidate")
WARMUP = 8

LOOP = """\
import json, os, pathlib, time
from perfgate import workload
from proj import core

@workload(steps=4, warmup=8)
def loop(steps):
    core.before()
    spans, cores = [], []
    for turn in steps:
        began = time.monotonic_ns()
        core.work(turn)
        spans.append((turn, began, time.monotonic_ns()))
        cores.append(sorted(os.sched_getaffinity(0)))
    noted = {"word": core.WORD, "spans": spans, "cores": cores}
    noted |= {"after": sorted(os.sched_getaffinity(0))}
    noted |= {"threads": os.environ.get("OMP_NUM_THREADS")}
    folder = pathlib.Path(os.environ["SPANS"])
    (folder / core.WORD).write_text(json.dumps(noted))
"""
CORE_OF = """\
import os, pathlib, signal, sys, time
WORD = {word!r}

def before():
    {before}

def work(turn):
    time.sleep(0.002)
    {work}
"""


def core_of(word: str, *, before: str = "pass", work: str = "pass") -> str:
    return CORE_OF.format(word=word, before=before, work=work)


@dataclass(frozen=True, kw_only=True)
class Noted:
    """What a workload has written of its loop."""

    word: str
    spans: list[list[int]]
    """Of each turn: its number, when it began and when it ended."""
    cores: list[list[int]]
    """Where it might run, at the end of each turn."""
    after: list[int]
    """Where it might run after the loop."""
    threads: str | None
    """OMP_NUM_THREADS, as it saw it."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A repository with two commits, and where its runs lie."""

    repository: Repository
    context: RunContext
    folder: Path

    def commit(self, word: str, *, before: str = "pass", work: str = "pass") -> None:
        """Commit a version that says a word, and does something besides, before the loop or in its
        steps."""
        package = {"proj/__init__.py": "", "proj/core.py": core_of(word, before=before, work=work)}
        ini = (
            '[project]\nname = "proj"\nversion = "1"\n[tool.pytest.ini_options]\naddopts = "-ra"\n'
        )
        self.repository.commit(
            {
                ".gitignore": "__pycache__/\n",
                "pyproject.toml": ini,
                "workloads/loops.py": LOOP,
                **package,
            }
        )

    def pair(
        self,
        *,
        begins: Side = "reference",
        block_steps: int = 3,
        steps: int = 10,
        core: int | None = CORE,
        timeout_s: float = 60,
    ) -> tuple[Measured, Measured]:
        """Run HEAD~1 and the project in turns."""
        workload = function(steps=steps, warmup=WARMUP)
        workload = workload.model_copy(update={"timeout_s": timeout_s})
        folders = self.folder / "reference", self.folder / "candidate"
        with at_commit(self.context, "HEAD~1") as there:
            return pair_in_blocks(
                (there, self.context),
                workload,
                folders,
                candidate_begins=begins == "candidate",
                block_steps=block_steps,
                core=core,
            )

    def noted(self, word: str) -> Noted:
        """What the side of a word has written of its loop."""
        return Noted(**json.loads((self.folder / word).read_text()))

    def ranges(self, side: Side) -> list[str]:
        """The names of the ranges in the kept export of a side, in order of time."""
        ranges = read_timeline(self.folder / side / "capture-0.sqlite").ranges
        return [name for _, name in sorted(zip(ranges.start, ranges.name, strict=True))]

    def running(self) -> list[str]:
        """The processes that still bear the mark of this test."""
        found = []
        for process in psutil.process_iter():
            try:
                if (
                    str(self.folder) in process.environ().get("SPANS", "")
                    and RUN_COOKIE in process.environ()
                ):
                    found.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return found


@pytest.fixture
def stage(nsys_tool: NsysTool, tmp_path: Path) -> Stage:
    repository = Repository(tmp_path / "project")
    folder = tmp_path / "runs"
    folder.mkdir()
    context = context_in(repository, nsys_tool, repository.root, SPANS=str(folder))
    return Stage(repository=repository, context=context, folder=folder)


def order_of(first: list[list[int]], second: list[list[int]]) -> list[str]:
    """Whose spans came when, as `name x number` for each row of the same side's; overlaps are an
    error."""
    spans = sorted(
        [(began, ended, "a") for _, began, ended in first] + [(b, e, "b") for _, b, e in second]
    )
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(spans)), (
        "steps overlap"
    )
    return [
        f"{side} x {len(list(row))}"
        for side, row in itertools.groupby(side for _, _, side in spans)
    ]


@pytest.mark.parametrize("begins", SIDES)
def test_two_commits_take_turns_on_one_core_and_both_captures_hold_all_steps(
    stage: Stage, begins: Side
) -> None:
    stage.commit("old")
    stage.commit("new")
    reference, candidate = stage.pair(begins=begins)
    old, new = stage.noted("old"), stage.noted("new")
    first, second = (old, new) if begins == "reference" else (new, old)
    warm, blocks = ["a x 8", "b x 8"], ["a x 3", "b x 3"] * 3
    assert order_of(first.spans, second.spans) == [*warm, *blocks, "a x 1", "b x 1"]
    free = WARMUP - SETTLING_TURNS
    for shown in (old, new):
        assert shown.cores == [CORES] * free + [[CORE]] * (SETTLING_TURNS + 10)
        assert (shown.after, shown.threads) == (CORES, "1")
    for side, measured in zip(SIDES, (reference, candidate), strict=True):
        # Without a GPU all is captured, so that the warm-up is there as well.
        blocks_drawn = [*[*[STEP_RANGE] * 3, WAIT_RANGE] * 3, STEP_RANGE]
        assert stage.ranges(side) == [
            *[WARMUP_RANGE] * WARMUP,
            START_RANGE,
            *blocks_drawn,
            END_RANGE,
        ]
        (process,) = measured.run.processes
        assert (process.steps, len(process.periods_ms)) == (10, 5)
        assert all(period < 1000 for period in process.periods_ms)
        # The last block is of one step, which has no period.
        assert [block.number for block in process.blocks] == [0, 1, 2]
        assert measured.run.begins == (side == begins)
        assert measured.run.invalid == ()
        assert measured.run.notes == process.notes
        assert measured.worker_report is not None
        assert measured.worker_report.turns == WARMUP + 10
        assert {path.name for path in (stage.folder / side).iterdir()} == KEPT
    assert reference.code.keys() == candidate.code.keys()
    assert code_digest(reference.code) != code_digest(candidate.code)
    assert stage.running() == []
    assert stage.repository.left == []


def test_a_number_of_threads_that_the_user_has_set_is_left(stage: Stage) -> None:
    stage.commit("old")
    stage.commit("new")
    context = replace(stage.context, env={**stage.context.env, "OMP_NUM_THREADS": "3"})
    replace(stage, context=context).pair(steps=4)
    assert (stage.noted("old").threads, stage.noted("new").threads) == ("3", "3")


FAILURES = {
    "raises": ("if turn == 13: raise ValueError('loss is nan')", "raised"),
    "exits": ("if turn == 13: sys.exit(3)", "called-exit"),
    "is gone": ("if turn == 13: os._exit(3)", "process-exited"),
    "is killed": ("if turn == 13: os.kill(os.getpid(), signal.SIGKILL)", "process-killed"),
}


def why(error: PerfgateError) -> str:
    found = error.fields["why"]
    assert isinstance(found, Note)
    return found.code


@pytest.mark.parametrize("way", FAILURES)
def test_a_candidate_that_fails_ends_the_reference_too(stage: Stage, way: str) -> None:
    work, code = FAILURES[way]
    stage.commit("old")
    stage.commit("new", work=work)
    started = time.monotonic()
    with pytest.raises(WorkloadFailed) as failed:
        stage.pair()
    assert time.monotonic() - started < 150
    assert why(failed.value) == code
    assert stage.running() == []
    assert not (stage.folder / "old").exists()


@pytest.mark.parametrize("way", ["raises", "is killed"])
def test_a_reference_that_fails_is_distinguished_from_the_candidate(stage: Stage, way: str) -> None:
    work, code = FAILURES[way]
    stage.commit("old", work=work)
    stage.commit("new")
    with pytest.raises(ReferenceFailed) as failed:
        stage.pair(begins="candidate")
    assert isinstance(failed.value.error, WorkloadFailed)
    assert why(failed.value.error) == code
    assert stage.running() == []


@pytest.mark.parametrize(
    ("side", "before"), [("reference", "raise OSError('no data')"), ("candidate", "os._exit(3)")]
)
def test_a_side_that_never_comes_to_its_loop_does_not_keep_the_other_waiting(
    stage: Stage, side: Side, before: str
) -> None:
    stage.commit("old", before=before if side == "reference" else "pass")
    stage.commit("new", before=before if side == "candidate" else "pass")
    started = time.monotonic()
    error = failure(stage)
    assert time.monotonic() - started < 150
    assert isinstance(error, ReferenceFailed) == (side == "reference")
    assert ("no data" in str(error)) == ("no data" in before)
    assert stage.running() == []


def failure(stage: Stage, **more: float) -> PerfgateError | ReferenceFailed:
    with pytest.raises((PerfgateError, ReferenceFailed)) as failed:
        stage.pair(**more)  # type: ignore[arg-type]  # only numbers are passed on
    assert isinstance(failed.value, PerfgateError | ReferenceFailed)
    return failed.value


@pytest.mark.parametrize("side", SIDES)
def test_the_side_that_hangs_is_the_one_out_of_time(stage: Stage, side: Side) -> None:
    hangs = "if turn == 13: time.sleep(300)"
    stage.commit("old", work=hangs if side == "reference" else "pass")
    stage.commit("new", work=hangs if side == "candidate" else "pass")
    error = failure(stage, timeout_s=9)
    cause = error.error if isinstance(error, ReferenceFailed) else error
    assert isinstance(error, ReferenceFailed) == (side == "reference")
    assert isinstance(cause, WorkloadTimedOut)
    assert (cause.code, cause.fields["limit_s"]) == ("workload-timed-out", 18)
    other = (
        stage.folder / ("candidate" if side == "reference" else "reference") / "worker-report.json"
    )
    waited = WorkerReport.model_validate_json(other.read_text())
    assert waited.why == note("other-side-silent", limit_s=9.0)
    assert stage.running() == []


def test_a_core_that_is_not_there_is_reported(stage: Stage) -> None:
    stage.commit("old")
    stage.commit("new")
    error = failure(stage, core=1023)
    cause = error.error if isinstance(error, ReferenceFailed) else error
    assert why(cause) == "not-pinned"


def test_ctrl_c_ends_both_sides(stage: Stage) -> None:
    slow = "(pathlib.Path(os.environ['SPANS']) / f'{WORD}-began').touch(); time.sleep(0.5)"
    stage.commit("old", work=slow)
    stage.commit("new", work=slow)

    def interrupt() -> None:
        while not all((stage.folder / f"{word}-began").exists() for word in ("old", "new")):
            time.sleep(0.05)
        assert len(stage.running()) >= 4
        _thread.interrupt_main()

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        stage.pair(steps=200, timeout_s=100)
    thread.join()
    assert stage.running() == []
    assert not (stage.folder / "reference" / "turn").exists()
