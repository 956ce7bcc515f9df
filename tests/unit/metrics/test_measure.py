"""Which processes and windows of a capture are measured, and what their samples hold."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.measuring import only
from support.timelines import Op, Range, build, draw

from perfgate.metrics.measure import measure
from perfgate.model.errors import StepsNotFound
from perfgate.model.metric import Metric
from perfgate.model.timeline import SmallInts


def test_h2d_share_of_memory_time_is_over_the_whole_capture() -> None:
    sample = only(
        draw("""
        h2d      |--h--|
        memset          |-s-|
        range                 |step|
        """)
    )
    assert sample.memory_share_h2d == 6 / 10
    assert only(draw("range |step|")).memory_share_h2d is None


def test_without_a_step_the_whole_window_is_measured_in_totals() -> None:
    # First call at 9, last operation ends at 41: 32 ms, busy for 16.
    sample = only(
        draw("""
        range    |-outer---------------------|
        launch   ^a    ^b         ^c
        kernel     |--a--|
        h2d           |--b--|
        kernel                      |--c--|
        """),
        None,
    )
    assert sample.steps == 0
    assert sample.window_ms == 25.0
    assert sample.values[Metric.KERNEL_MS] == 12.0
    assert sample.values[Metric.H2D_MS] == 6.0
    assert sample.values[Metric.H2D_EXPOSED_MS] == 3.0
    assert sample.values[Metric.GAP_MS] == 25.0 - 9.0 - 6.0
    assert sample.values[Metric.LAUNCHES] == 2.0
    assert sample.absent[Metric.STEP_MS].code == "window-as-one"
    assert sample.nvtx_step_ms is None
    assert sum(row.values[Metric.KERNEL_MS] for row in sample.ranges) == 12.0
    assert sum(row.values[Metric.GAP_MS] for row in sample.ranges) == 10.0


def test_a_window_with_no_range_but_an_open_one_is_measured() -> None:
    timeline = build(kernels=[Op(start=10, end=90)], ranges=[Range(start=20, end=20, closed=False)])
    assert only(timeline, step=None).values[Metric.KERNEL_MS] == 80 / 1e6
    with pytest.raises(StepsNotFound):
        measure(timeline, step="step")


def test_names_and_calls_are_found_under_sparse_and_negative_keys() -> None:
    timeline = draw("""
        range   |----step----|  |----step----|  |----step----|
        launch     ^a              ^b              ^c
        kernel      |a|             |b|             |c|
        """)
    keys = dict(zip(sorted(timeline.names), (-1, 5, 2_000_000_000, 7), strict=True))
    kernels, calls = timeline.kernels, timeline.calls

    def renamed(old: SmallInts) -> SmallInts:
        return np.array([keys[key] for key in old.tolist()], np.int32)

    sparse = dataclasses.replace(
        timeline,
        names={keys[key]: name for key, name in timeline.names.items()},
        kernels=dataclasses.replace(
            kernels, name=renamed(kernels.name), correlation=kernels.correlation * 10**7
        ),
        calls=dataclasses.replace(
            calls, name=renamed(calls.name), correlation=calls.correlation * 10**7
        ),
    )
    assert only(sparse) == only(timeline)


def test_what_only_some_far_longer_steps_do_is_no_part_of_a_step() -> None:
    # Nine steps of 5 and one of 25, in which 20 are spent under "validate": it counts as 6, of
    # which 1 is nobody's.
    def own(train: int, validate: int) -> dict[str, float]:
        ranges, begin = [], 0
        for k in range(31):
            more = validate if k % 10 == 9 else 0
            end = begin + train + more
            ranges += [
                Range(start=begin * 10**6, end=end * 10**6, name="step"),
                Range(start=begin * 10**6, end=(begin + train) * 10**6, name="train"),
                *(
                    [Range(start=(end - more) * 10**6, end=end * 10**6, name="validate")]
                    if more
                    else []
                ),
            ]
            begin = end
        (sample,) = measure(build(ranges=ranges), step="step", steps=31)
        long = sum(period > 1.2 * train for period in sample.periods_ms)
        assert long
        assert sample.values[Metric.STEP_MS] == pytest.approx(
            train * (1 + 0.2 * long / len(sample.periods_ms))
        )
        return {row.name: row.values[Metric.STEP_MS] for row in sample.ranges}

    assert own(5, 20) == {"validate": 0.0, "train": 5.0, "step": 0.0}
    assert own(6, 80) == {"validate": 0.0, "train": 6.0, "step": 0.0}


def test_a_sample_shows_how_many_ranges_match_the_pattern_of_its_steps() -> None:
    ranges = [Range(start=t * 100, end=t * 100 + 50, name=f"step {t}") for t in range(9)]
    ranges.append(Range(start=110, end=120, name="step within one"))
    (sample,) = measure(build(ranges=ranges), step="step .*", is_pattern=True, warmup=2, steps=3)
    assert (sample.steps, sample.step_ranges) == (3, 9)
    (sample,) = measure(build(ranges=ranges), step="step 3", is_pattern=False, steps=1)
    assert (sample.steps, sample.step_ranges) == (1, None)
    assert only(build(ranges=ranges), step=None).step_ranges is None


def test_a_sample_shows_the_names_of_its_steps() -> None:
    named = [
        "Batch 1 of 3f2b9c1, loss=-0.12",
        "Batch 20 of 6f1c2a3b-dead-4bee-8fad-facefeedbeef, loss=1e-05",
        "eval [3, 4]",
        "eval [3, 4, 5]",
    ]
    ranges = [Range(start=t * 100, end=t * 100 + 50, name=name) for t, name in enumerate(named)]
    (sample,) = measure(build(ranges=ranges), step=r".*", is_pattern=True, steps=4)
    assert sample.step_names == {"Batch # of #, loss=#": 0.5, "eval [#]": 0.5}
    assert only(build(ranges=ranges), step=None).step_names == {}
