"""What nsys's rules find next to another capture, which kernels moved, and what a launch is limited
by."""

from __future__ import annotations

import pytest
from support import records

from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.explain.nvidia import (
    limited_by,
    moved_kernels,
    rule_changes,
)
from perfgate.explain.sides import side_of_runs
from perfgate.model.comparison import LaunchFigures, Side
from perfgate.model.metric import Metric
from perfgate.model.reports import PlacedFindings, RuleName
from perfgate.model.sample import KernelSample

ASYNC, SYNC, MEMSET = (
    RuleName.CUDA_MEMCPY_ASYNC,
    RuleName.CUDA_API_SYNC,
    RuleName.CUDA_MEMSET_SYNC,
)


def found(count: float, ms: float) -> PlacedFindings:
    return PlacedFindings(count=count, ms=ms)


def test_rows_are_put_next_to_those_of_the_same_rule_and_range() -> None:
    before = {(MEMSET, "forward"): found(3, 0.5), (SYNC, "log"): found(1, 2.0)}
    now = {
        (MEMSET, "forward"): found(2, 0.4),
        (MEMSET, "load"): found(1, 6.0),
        (ASYNC, "copy"): found(1, 2.5),
    }
    changes = rule_changes(before, now)
    shown = [
        (row.rule, row.range, None if row.before is None else row.before.ms, row.now.ms)
        for row in changes.rows
    ]
    assert shown == [
        (ASYNC, "copy", None, 2.5),
        (MEMSET, "load", None, 6.0),
        (MEMSET, "forward", 0.5, 0.4),
    ]
    assert [changes.is_new(row) for row in changes.rows] == [True, True, False]


def test_where_the_other_side_was_not_asked_nothing_is_new() -> None:
    changes = rule_changes(None, {(ASYNC, "copy"): found(1, 2.5)})
    assert not changes.compared
    assert [changes.is_new(row) for row in changes.rows] == [False]


FILL = "void at::native::fill<(int)4, at::native::Fill<float>>(int, T2)"


def kernel(name: str, gpu_ms: float, *, count: float = 1) -> KernelSample:
    return KernelSample(name=name, count=count, gpu_ms=gpu_ms, kind="kernel")


def side(*kernels: KernelSample) -> Side:
    total = sum(one.gpu_ms for one in kernels)
    process = records.process({Metric.STEP_MS: 12.0, Metric.KERNEL_MS: total}, kernels=kernels)
    return side_of_runs("it", [records.run(processes=[process])] * 3)


def as_kept(one: Side) -> Side:
    """The same as a baseline keeps it: names shortened."""
    return one.model_copy(update={"breakdown": kept(one.breakdown)})


def test_kernels_are_reported_by_how_much_they_moved_and_no_more_than_were_asked_for() -> None:
    a = side(kernel("gemm", 5.0, count=12), kernel("relu", 1.0), kernel("add", 1.0))
    b = side(kernel("gemm", 5.5, count=12), kernel("relu", 1.8), kernel("add", 1.2))
    assert [one.name for one in moved_kernels(a, b, most=2)] == ["relu", "gemm"]
    gemm = moved_kernels(a, b, most=3)[1]
    assert (gemm.change_ms, gemm.per_step_before, gemm.per_step_now) == (0.5, 12, 12)
    assert [one.code for one in gemm.notes] == ["each-changed"]


def test_what_moves_by_next_to_nothing_did_not_move() -> None:
    a = side(kernel("gemm", 5.0), kernel("relu", 1.0))
    b = side(kernel("gemm", 5.0, count=1), kernel("relu", 1.0059))
    assert moved_kernels(a, b, most=3) == ()
    assert moved_kernels(a, a, most=3) == ()
    assert moved_kernels(a.model_copy(update={"breakdown": breakdown_of([])}), a, most=3) == ()


def test_a_new_kernel_was_launched_never_before_and_one_that_is_gone_never_now() -> None:
    a, b = (
        side(kernel("gemm", 5.0), kernel("old", 1.0, count=2)),
        side(kernel("gemm", 5.0), kernel(FILL, 3.0, count=4)),
    )
    new, gone = moved_kernels(a, b, most=3)
    assert (new.name, new.change_ms, new.per_step_before, new.per_step_now) == (FILL, 3.0, 0, 4)
    assert (gone.name, gone.change_ms, gone.per_step_before, gone.per_step_now) == (
        "old",
        -1.0,
        2,
        0,
    )


def test_a_kernel_that_a_baseline_has_by_its_short_name_keeps_its_full_one() -> None:
    a, b = (
        as_kept(side(kernel("gemm", 5.0), kernel(FILL, 1.0))),
        side(kernel("gemm", 5.0), kernel(FILL, 2.0)),
    )
    assert a.breakdown != b.breakdown
    assert [one.name for one in moved_kernels(a, b, most=3)] == [FILL]


def launch(
    compute: float | None, memory: float | None, *, waves: float | None = 12.0
) -> LaunchFigures:
    return LaunchFigures(
        kernel="k",
        device=0,
        grid="(1, 1, 1)",
        block="(1, 1, 1)",
        duration_us=1,
        compute_percent=compute,
        memory_percent=memory,
        waves=waves,
    )


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (launch(85, 2), "limited-by-compute"),
        (launch(31, 91), "limited-by-memory"),
        (launch(60, 40), "limited-by-compute"),
        (launch(75, 70), "limited-by-both"),
        (launch(5, 59), "limited-by-latency"),
        (launch(5, 9, waves=0.25), "limited-by-size"),
        (launch(5, 9, waves=None), "limited-by-latency"),
        (launch(None, 90), None),
        (launch(90, None), None),
    ],
)
def test_what_a_launch_is_limited_by_is_said_only_by_its_figures(
    found: LaunchFigures, code: str | None
) -> None:
    said = limited_by(found)
    assert (None if said is None else said.code) == code
