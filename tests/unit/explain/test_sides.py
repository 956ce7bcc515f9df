"""A capture as a side: with what `perfgate inspect` says that it lacks."""

from __future__ import annotations

import pytest
from support import records

from perfgate.explain.sides import (
    differences,
    made_up_of,
    side_of_capture,
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
    found = side_of_capture("x.sqlite", records.run(processes=[sample]), missing=missing)
    assert (found.missing, found.invalid) == (missing, (LOST,))
    assert found.absent[Metric.NCCL_MS] == NO_NCCL
    assert Metric.STEP_MS not in found.absent


def test_what_makes_processes_invalid_is_said_once() -> None:
    ranks = [records.process().model_copy(update={"notes": (LOST,)})] * 2
    run = records.run(processes=[*ranks, records.process()])
    assert side_of_capture("x", run).invalid == (LOST,)


@pytest.mark.parametrize(
    ("metric", "was", "now"), [(Metric.GAP_MS, 0.005, 73.1), (Metric.KERNEL_MS, 0.0, 5.0)]
)
def test_what_no_share_can_be_reported_of_is_taken_apart_as_well(
    metric: Metric, was: float, now: float
) -> None:
    # Whole windows have no step, and of nothing there is no share.
    a, b = (
        side_of_capture(
            "x",
            records.run(
                processes=[
                    records.process(
                        {metric: value},
                        ranges=[
                            RangeSample(name="load", count=1, cpu_ms=9.0, values={metric: value})
                        ],
                    )
                ]
            ),
        )
        for value in (was, now)
    )
    rows = differences(a, b)
    assert [row.change for row in rows] == [None]
    assert [(part.name, part.change) for one in made_up_of(a, b, rows) for part in one.parts] == [
        ("load", now - was)
    ]
    assert made_up_of(b, b, differences(b, b)) == ()
