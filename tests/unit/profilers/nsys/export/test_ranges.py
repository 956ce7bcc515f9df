"""How NVTX ranges are called, and where they end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.exports import (
    Range,
    execute,
    write_export,
)

from perfgate.profilers.nsys.export.timeline import read_timeline


def test_a_range_has_its_own_text_or_a_registered_one(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path, Range("own", 0, 1), Range("registered", 1, 2, registered=True), Range(None, 2, 3)
        )
    )
    assert list(timeline.ranges.name) == ["own", "registered", ""]


def test_a_range_that_was_never_closed_ends_with_the_last_range(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path, Range("open", 10, None), Range("b", 20, 70), Range("mark", 90, None, event=34)
        )
    )
    assert timeline.ranges.end.tolist() == [70, 70]
    assert timeline.ranges.closed.tolist() == [False, True]


def test_ranges_of_which_none_was_closed_end_with_the_last_that_begins(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Range("open", 10, None), Range("open too", 40, None))
    )
    assert timeline.ranges.end.tolist() == [40, 40]
    assert timeline.ranges.end.dtype == np.int64
    assert timeline.ranges.closed.tolist() == [False, False]


def test_a_mark_changes_no_range_whatever_it_holds(path: Path) -> None:
    write_export(
        path, Range("open", 10, None), Range("b", 20, 70), Range("mark", 30, None, event=34)
    )
    execute(path, "UPDATE NVTX_EVENTS SET start = 99.5, end = 'late' WHERE text = 'mark'")
    timeline = read_timeline(path)
    assert timeline.ranges.end.tolist() == [70, 70]
    assert timeline.ranges.end.dtype == np.int64


def test_start_end_ranges_are_told_from_push_pop_and_marks_are_left_out(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Range("push", 0, 1),
            Range("mark", 1, None, event=34),
            Range("start", 2, 3, event=60),
            Range("text push", 4, 5, event=70),
            Range("text start", 6, 7, event=71),
        )
    )
    assert list(timeline.ranges.name) == ["push", "start", "text push", "text start"]
    assert timeline.ranges.push_pop.tolist() == [True, False, True, False]


def test_a_name_for_every_range_is_read_as_it_is(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, *(Range(f"op {i}", i, i + 1) for i in range(20_000)))
    )
    assert list(timeline.ranges.name) == [f"op {i}" for i in range(20_000)]
