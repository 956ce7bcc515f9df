"""Several processes: how far they lie apart, and which one the others wait for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support import records
from support.cases import named
from syrupy.assertion import SnapshotAssertion

from perfgate.explain.breakdown import label, leading, of_each, straggler
from perfgate.explain.ranks import rank_notes
from perfgate.model.metric import Metric
from perfgate.model.sample import (
    WHOLE_GRAPHS,
    DeviceSample,
    KernelSample,
    ProcessSample,
    RangeSample,
    Run,
)
from perfgate.words import say

STEP, GAP, KERNEL = Metric.STEP_MS, Metric.GAP_MS, Metric.KERNEL_MS
NCCL, EXPOSED = Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS


def rank(
    number: int,
    values: Mapping[Metric, float],
    ranges: Mapping[str, tuple[float, Mapping[Metric, float]]] | None = None,
) -> ProcessSample:
    """A rank; of each range its time on the CPU and its values."""
    return ProcessSample(
        pid=100 + number,
        rank=number,
        steps=20,
        values=values,
        window_ms=600.0,
        ranges=tuple(
            RangeSample(name=name, count=1.0, cpu_ms=cpu_ms, values=held)
            for name, (cpu_ms, held) in (ranges or {}).items()
        ),
    )


def run(*processes: ProcessSample) -> Run:
    return records.run().model_copy(update={"processes": processes})


FIRST = rank(
    0,
    {STEP: 30.0, KERNEL: 12.7, GAP: 0.1, NCCL: 17.6, EXPOSED: 16.6},
    {"data": (1.0, {GAP: 0.1}), "backward": (9.0, {GAP: 0.0, KERNEL: 12.7})},
)
LATE = rank(
    1,
    {STEP: 30.1, KERNEL: 12.8, GAP: 5.2, NCCL: 5.6, EXPOSED: 4.6},
    {"data": (6.0, {GAP: 5.0}), "backward": (9.0, {GAP: 0.2, KERNEL: 12.8})},
)


# As recorded on two H200s, with 5 ms of sleep under "get batch" on rank 1: its GPU idles more under
# all that follows.
QUICK = {"step": (33.4, {GAP: 0.1}), "get batch": (0.2, {GAP: 0.0}), "read": (0.1, {GAP: 0.0})}
SLOW = {"step": (38.2, {GAP: 16.9}), "get batch": (5.2, {GAP: 0.3}), "read": (5.1, {})}
LONG_KERNELS = {"data": (1.0, {GAP: 0.1}), "backward": (9.0, {KERNEL: 24.0})}

CASES = {
    "its host": (FIRST, LATE),
    "the innermost range": (rank(0, FIRST.values, QUICK), rank(1, LATE.values, SLOW)),
    "its kernels": (FIRST, rank(1, {**LATE.values, KERNEL: 24.0, GAP: 0.1}, LONG_KERNELS)),
    "no reason that is known": (FIRST, rank(1, {**FIRST.values, EXPOSED: 4.6, NCCL: 5.6})),
    "not late": (FIRST, rank(1, {**LATE.values, EXPOSED: 15.6})),
}


def test_how_far_ranks_lie_apart_and_which_is_late_why(snapshot: SnapshotAssertion) -> None:
    said = {name: list(map(say.fact, rank_notes([run(*ranks)]))) for name, ranks in CASES.items()}
    assert said == snapshot


def test_what_ranks_wait_is_the_median_over_runs_and_over_the_others() -> None:
    third = rank(2, {**FIRST.values, EXPOSED: 12.6})
    chance = rank(1, {**LATE.values, EXPOSED: 16.0})
    found = straggler(of_each([run(FIRST, LATE, third)] * 2 + [run(FIRST, chance, third)]))
    assert found is not None
    assert found.place == 1
    assert found.waited_ms == pytest.approx(10.0)


def nccl(process: ProcessSample, count: float, name: str = "ncclDevKernel") -> ProcessSample:
    row = KernelSample(name=name, count=count, gpu_ms=1.0, kind="nccl")
    return process.model_copy(update={"kernels": (row,)})


@pytest.mark.parametrize(
    "processes",
    named(
        {
            "one process": ((FIRST,),),
            "close": ((FIRST, rank(1, {**LATE.values, EXPOSED: 15.6})),),
            "not measured on all": ((FIRST, rank(1, {STEP: 30.0})),),
            "other NCCL kernels": ((nccl(FIRST, 4), nccl(LATE, 2)),),
            "hidden in a whole graph": ((FIRST, nccl(LATE, 1, WHOLE_GRAPHS)),),
        }
    ),
)
def test_where_nothing_says_who_is_late_nobody_is_named(
    processes: tuple[ProcessSample, ...],
) -> None:
    assert straggler(of_each([run(*processes)])) is None
    assert len(rank_notes([run(*processes)])) == min(len(processes) - 1, 1)


def test_runs_of_other_numbers_of_processes_say_nothing() -> None:
    assert rank_notes([run(FIRST, LATE), run(FIRST)]) == ()
    assert rank_notes([]) == ()


def test_the_leading_process_is_the_late_one_else_the_slowest() -> None:
    assert leading(run(FIRST, LATE)) is LATE
    slow = rank(1, {STEP: 40.0})
    assert leading(run(FIRST, slow)) is slow
    assert leading(run(FIRST, rank(1, {STEP: 30.01}))) is FIRST
    assert leading(run()) is None


def test_a_process_is_called_by_its_rank_its_gpu_or_its_id() -> None:
    alone = rank(3, {}).model_copy(update={"rank": None})
    gpus = tuple(DeviceSample(device=n, ordinal=n) for n in range(2))
    assert label(rank(3, {})) == "rank 3"
    assert label(alone.model_copy(update={"devices": gpus[1:]})) == "the process on GPU 1"
    assert label(alone.model_copy(update={"devices": gpus})) == "process 103"
