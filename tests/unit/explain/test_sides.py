"""A capture as a side: with what `perfgate inspect` says that it lacks."""

from __future__ import annotations

import pytest
from support import records

from perfgate.explain.rules import why_blind
from perfgate.explain.sides import (
    complaints_of,
    differences,
    made_up_of,
    side_of_result,
    side_of_samples,
)
from perfgate.model.metric import Metric
from perfgate.model.sample import RangeSample

LOST = "of 20 kernel launches in the steps the capture lacks 2 kernels"


def test_a_capture_says_what_it_lacks() -> None:
    sample = records.process(absent={Metric.NCCL_MS: "no NCCL kernels"}).model_copy(
        update={"complaints": (LOST,)}
    )
    told = side_of_samples("x.sqlite", [sample], missing={"ranges": "none were recorded"})
    assert (told.missing, told.complaints) == ({"ranges": "none were recorded"}, (LOST,))
    assert told.absent[Metric.NCCL_MS] == "no NCCL kernels"
    assert Metric.STEP_MS not in told.absent


def test_a_result_says_what_its_captures_lack() -> None:
    none = {Metric.KERNEL_MS: "the capture holds no GPU operations"}
    told = side_of_result("x", records.result(measured=[records.run(), records.run(absent=none)]))
    assert told.absent == none
    assert why_blind(told) == "lacks kernels"


def test_what_all_processes_complain_of_is_told_once() -> None:
    ranks = [
        records.process().model_copy(update={"rank": rank, "complaints": (LOST,)})
        for rank in (0, 1, 2)
    ]
    assert complaints_of(ranks) == (LOST,)
    assert complaints_of([ranks[0], ranks[1], records.process()]) == (f"rank 0, rank 1: {LOST}",)
    assert complaints_of([]) == ()


@pytest.mark.parametrize(
    ("metric", "was", "now"), [(Metric.GAP_MS, 0.005, 73.1), (Metric.KERNEL_MS, 0.0, 5.0)]
)
def test_what_no_share_can_be_told_of_is_taken_apart_as_well(
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
