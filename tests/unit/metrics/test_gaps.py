"""Where in a process its GPU idles."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.measuring import only
from support.timelines import draw

from perfgate.model.metric import Metric
from perfgate.model.sample import OUTSIDE_RANGES


def test_the_gpu_idles_under_the_launch_of_what_was_queued_and_else_where_the_cpu_was() -> None:
    # Before b the GPU waits for itself: b was launched while a ran. Before c it waits for the CPU.
    as_one = only(
        draw("""
        range    |-fwd-|   |------load------|
        launch    ^a^b                       ^c
        kernel     |--a--|     |b|             |c|
        """),
        step=None,
    )
    gaps = {
        row.name: row.values[Metric.GAP_MS] for row in as_one.ranges if row.values[Metric.GAP_MS]
    }
    assert gaps == {"fwd": 1.0 + 6.0, "load": 11.0, OUTSIDE_RANGES: 3.0}
    assert sum(gaps.values()) == as_one.values[Metric.GAP_MS]


@pytest.mark.parametrize("correlation", [-1, 0, 1])
def test_idle_time_that_a_migration_ends_is_the_cpus_whichever_launch_has_its_id(
    correlation: int,
) -> None:
    drawn = draw("""
        range    |-fwd-| |----host work----|
        launch    ^a      ^b
        kernel     |--a--| |b|
        uvm                         |-m-|
        """)
    copies = dataclasses.replace(drawn.copies, correlation=np.array([correlation], np.int64))
    sample = only(dataclasses.replace(drawn, copies=copies), step=None)
    gaps = {
        row.name: row.values[Metric.GAP_MS] for row in sample.ranges if row.values[Metric.GAP_MS]
    }
    assert gaps == {"fwd": 1.0, "host work": 2.0 + 7.0}
