"""A capture as a side: with what `perfgate inspect` says that it lacks."""

from __future__ import annotations

import pytest
from support import records

from perfgate.explain.nvidia import why_blind
from perfgate.explain.sides import (
    differences,
    invalid_of,
    made_up_of,
    side_of_result,
    side_of_samples,
)
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note, quoted
from perfgate.model.sample import NO_NCCL, RangeSample

LOST = note("work-lost", Severity.INVALID, launched=20, lost=2)


def test_a_capture_says_what_it_lacks() -> None:
    sample = records.process(absent={Metric.NCCL_MS: NO_NCCL}).model_copy(
        update={"notes": (LOST, note("cpu-only"))}
    )
    missing = {"ranges": quoted("none were recorded")}
    found = side_of_samples("x.sqlite", [sample], missing=missing)
    assert (found.missing, found.invalid) == (missing, (LOST,))
    assert found.absent[Metric.NCCL_MS] == NO_NCCL
    assert Metric.STEP_MS not in found.absent


def test_a_result_says_what_its_captures_lack() -> None:
    none = {Metric.KERNEL_MS: note("nothing-on-a-gpu")}
    found = side_of_result("x", records.result(measured=[records.run(), records.run(absent=none)]))
    assert found.absent == none
    assert why_blind(found) == ("kernels",)


def test_what_makes_all_processes_invalid_is_said_once() -> None:
    ranks = [
        records.process().model_copy(update={"rank": rank, "notes": (LOST,)}) for rank in (0, 1, 2)
    ]
    assert invalid_of(ranks) == (LOST,)
    assert invalid_of([ranks[0], ranks[1], records.process()]) == (
        note("of-processes", Severity.INVALID, processes=("rank 0", "rank 1"), what=LOST),
    )
    assert invalid_of([]) == ()


@pytest.mark.parametrize(
    ("metric", "was", "now"), [(Metric.GAP_MS, 0.005, 73.1), (Metric.KERNEL_MS, 0.0, 5.0)]
)
def test_what_no_share_can_be_reported_of_is_taken_apart_as_well(
    metric: Metric, was: float, now: float
) -> None:
    # Whole windows have no step, and of nothing there is no share.
    a, b = (
        side_of_samples(
            "x",
            [
                records.process(
                    {metric: value},
                    ranges=[RangeSample(name="load", count=1, cpu_ms=9.0, values={metric: value})],
                )
            ],
        )
        for value in (was, now)
    )
    rows = differences(a, b)
    assert [row.change for row in rows] == [None]
    assert [(part.name, part.change) for one in made_up_of(a, b, rows) for part in one.parts] == [
        ("load", now - was)
    ]
    assert made_up_of(b, b, differences(b, b)) == ()
