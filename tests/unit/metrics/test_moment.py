"""What ran in a moment of a capture or was launched in it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.timelines import Call, Op, build

from perfgate.metrics.moment import operations_in
from perfgate.model.timeline import CopyKind, Timeline


def names(timeline: Timeline, start_ns: int = 100, end_ns: int = 200) -> list[str]:
    ops = operations_in(timeline, start_ns, end_ns)
    return [ops.names[name] for name in ops.kernels.name.tolist()]


def test_what_runs_in_the_window_or_is_launched_in_it() -> None:
    # window                 [100          200)
    timeline = build(
        calls=[
            Call(start=at, end=at + 1, correlation=number)
            for number, at in enumerate((10, 20, 30, 120, 130, 99, 200), 1)
        ],
        kernels=[
            Op(start=40, end=100, name="ends with its begin", correlation=1),
            Op(start=50, end=101, name="reaches into it", correlation=2),
            Op(start=60, end=900, name="spans it", correlation=3),
            Op(start=140, end=150, name="inside", correlation=4),
            Op(start=300, end=310, name="launched in it, runs after it", correlation=5),
            Op(start=200, end=300, name="begins as it ends", correlation=6),
            Op(start=210, end=220, name="launched as it ends", correlation=7),
            Op(start=199, end=250, name="no call, inside"),
            Op(start=100, end=100, name="without length, at its begin"),
            Op(start=200, end=200, name="without length, at its end"),
        ],
    )
    assert names(timeline) == [
        "reaches into it",
        "spans it",
        "inside",
        "launched in it, runs after it",
        "no call, inside",
        "without length, at its begin",
    ]


def test_a_driver_call_inside_the_runtime_call_launches_nothing_anew() -> None:
    timeline = build(
        calls=[
            Call(start=90, end=120, correlation=5),
            Call(start=101, end=110, name="cuLaunchKernel", correlation=5),
        ],
        kernels=[Op(start=300, end=301, correlation=5)],
    )
    assert names(timeline) == []


def test_an_id_launches_in_its_own_process_and_stands_for_none_if_many_share_it() -> None:
    other = build(
        calls=[Call(start=110, end=111, correlation=5, pid=1)],
        kernels=[
            Op(start=300, end=301, name="mine", correlation=5, pid=1),
            Op(start=300, end=301, name="the other's", correlation=5, pid=2),
        ],
    )
    shared = build(
        calls=[Call(start=at, end=at + 1, correlation=0) for at in (110, 120, 130)],
        kernels=[Op(start=300, end=301, correlation=0)],
    )
    assert names(other) == ["mine"]
    assert names(shared) == []


def test_moved_managed_memory_was_launched_by_nothing() -> None:
    timeline = build(
        calls=[Call(start=110, end=111, correlation=5)],
        copies=[
            Op(start=300, end=310, correlation=5, kind=CopyKind.UVM_H2D),
            Op(start=150, end=160, correlation=9, kind=CopyKind.UVM_H2D),
        ],
    )
    assert operations_in(timeline, 100, 200).copies.start.tolist() == [150]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 60), st.integers(0, 100))))
def test_every_row_is_taken_or_left_by_its_own_times_and_call(
    rows: list[tuple[int, int, int]],
) -> None:
    timeline = build(
        calls=[Call(start=at, end=at + 2, correlation=i) for i, (_, _, at) in enumerate(rows, 5)],
        graphs=[Op(start=s, end=s + n, correlation=i) for i, (s, n, _) in enumerate(rows, 5)],
    )
    ops = operations_in(timeline, 30, 60)
    wanted = [
        start
        for start, length, at in rows
        if 30 <= at < 60
        or (start < 60 and start + length > 30)
        or (length == 0 and 30 <= start < 60)
    ]
    assert np.array_equal(ops.graphs.start, wanted)
    assert ops.operations == len(wanted)
