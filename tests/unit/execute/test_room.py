"""In which form runs are made, and how many at once: by what is known of earlier ones."""

from __future__ import annotations

import os

import pytest
from support import records
from support.cases import named

from perfgate.execute import plan
from perfgate.execute.plan import MOST, how_to_run
from perfgate.model.baseline import BlessedRun
from perfgate.model.machine import Gpu, Machine
from perfgate.model.metric import Metric
from perfgate.model.order import Needs
from perfgate.model.sample import Form

GIB = 1 << 30
H200 = Machine(gpus=(Gpu(name="NVIDIA H200", uuid="GPU-0", memory_mib=140 * 1024),))
SMALL = Needs(host_bytes=GIB, gpu_bytes=GIB)


@pytest.fixture(autouse=True)
def _large_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "free_bytes", lambda: 100 * GIB)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))


def known(
    needs: Needs | None = SMALL, *, graphs: int = 0, form: Form | None = None, processes: int = 1
) -> BlessedRun:
    return BlessedRun(
        values={Metric.GRAPH_LAUNCHES: graphs}, needs=needs, form=form, processes=processes
    )


@pytest.mark.parametrize(
    ("runs", "expected"),
    named(
        {
            "nothing known": ([], (Form.EARLY, 1)),
            "small": ([known()], (Form.LATE, MOST)),
            "gpu": ([known(Needs(host_bytes=GIB, gpu_bytes=30 * GIB))], (Form.LATE, 3)),
            "host": ([known(Needs(host_bytes=20 * GIB, gpu_bytes=0))], (Form.LATE, 3)),
            "GPU memory not seen": ([known(Needs(host_bytes=GIB))], (Form.LATE, 1)),
            "tunes": ([known(SMALL.model_copy(update={"tunes": True}))], (Form.EARLY, MOST)),
            "graphs, blessed early": ([known(graphs=1, form=Form.EARLY)], (Form.EARLY, MOST)),
            "graphs, blessed one by one": ([known(graphs=1)], (Form.ALONE, 1)),
            "several processes": ([known(processes=2)], (Form.ALONE, 1)),
        }
    ),
)
def test_as_earlier_runs_let_it(runs: list[BlessedRun], expected: tuple[Form, int]) -> None:
    assert how_to_run(records.workload(), H200, runs, asked=None) == expected


def test_a_few_cores_start_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert how_to_run(records.workload(), Machine(), [known()], asked=None) == (Form.LATE, 4)


@pytest.mark.parametrize(
    ("runs", "asked", "expected"),
    [
        ([known()], 1, (Form.ALONE, 1)),
        ([], 3, (Form.EARLY, 3)),
        ([known(Needs(host_bytes=GIB))], 2, (Form.LATE, 2)),
        # Graphs take another time in another form.
        ([known(graphs=1, form=Form.EARLY)], 1, (Form.EARLY, 1)),
        ([known(graphs=1, form=Form.ALONE)], 4, (Form.ALONE, 1)),
    ],
)
def test_as_somebody_wants(runs: list[BlessedRun], asked: int, expected: tuple[Form, int]) -> None:
    assert how_to_run(records.workload(), H200, runs, asked=asked) == expected


@pytest.mark.parametrize(
    ("ahead", "asked", "machine", "runs", "expected"),
    [
        # What a project says of its workloads is not of its scripts.
        pytest.param(None, 4, H200, [known(None)], (Form.ALONE, 1), id="not said"),
        pytest.param(1, 1, H200, [], (Form.ALONE, 1), id="one"),
        pytest.param(5, 5, H200, [], (Form.EARLY, 5), id="five"),
        pytest.param(
            *(None, 4, H200, [known(None, graphs=1, form=Form.EARLY)], (Form.EARLY, 1)),
            id="graphs, blessed early",
        ),
    ],
)
def test_a_script_is_held_where_it_says_so_itself(
    ahead: int | None,
    asked: int,
    machine: Machine,
    runs: list[BlessedRun],
    expected: tuple[Form, int],
) -> None:
    update = {"command": ("python", "train.py"), "ahead": ahead}
    script = records.workload().model_copy(update=update)
    assert how_to_run(script, machine, runs, asked=asked) == expected
