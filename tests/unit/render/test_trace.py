"""Traces: every bar once, nothing that overlaps on one track, times as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import pages

from perfgate.model.outcome import Outcome
from perfgate.render.trace import Slice, _without_overlap, steps_trace

Event = Mapping[str, Any]


def overlapping(slices: list[Slice]) -> list[tuple[Slice, Slice]]:
    """Pairs of which one begins within the other and ends after it."""
    return [
        (a, b)
        for a in slices
        for b in slices
        if a.start_us < b.start_us < a.start_us + a.length_us < b.start_us + b.length_us
    ]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=40))
def test_slices_of_a_lane_nest_or_follow_each_other(times: list[tuple[int, int]]) -> None:
    slices = [Slice("track", start, length, "k") for start, length in times]
    lanes = _without_overlap(slices)
    assert sorted(one.start_us for lane in lanes for one in lane) == sorted(
        one.start_us for one in slices
    )
    assert [pair for lane in lanes for pair in overlapping(lane)] == []


def test_the_typical_step_of_both_sides_begins_at_0_and_lasts_as_long_as_it_does() -> None:
    workload = pages.whole("mlp", Outcome.REGRESSED)
    assert workload.baseline_step is not None
    assert workload.candidate_step is not None
    document = json.loads(steps_trace(pages.page(workload)))
    events: list[Event] = document["traceEvents"]
    titles = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert [title.split(":")[0] for title in titles] == ["mlp, baseline", "mlp, candidate"]
    for pid, view in enumerate((workload.baseline_step, workload.candidate_step), start=1):
        bars = [event for event in events if event["pid"] == pid and event["ph"] == "X"]
        assert len(bars) == view.drawn
        ends = [bar["ts"] + bar["dur"] for bar in bars]
        assert max(ends) == pytest.approx(
            max(bar.start_us + bar.length_us for lane in view.lanes for bar in lane.bars), abs=0.01
        )
