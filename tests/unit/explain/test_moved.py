"""How the times of two captures differ: all that the GPU ran, and the ranges; nothing of what one
side hides."""

from __future__ import annotations

from typing import Literal

from support.breakdowns import BY_NODE, EAGER, WHOLE, kernels, launching

from perfgate.explain.breakdown import kept
from perfgate.explain.moved import moved_operations, moved_ranges
from perfgate.model.metric import Metric
from perfgate.model.sample import (
    OTHER_KERNELS,
    OUTSIDE_RANGES,
    WHOLE_GRAPHS,
    Breakdown,
    KernelSample,
    RangeSample,
)
from perfgate.model.side import Moved

M = Metric


def operation(
    name: str, ms: float, kind: Literal["kernel", "nccl", "memory"] = "kernel"
) -> KernelSample:
    return KernelSample(name=name, count=1, gpu_ms=ms, kind=kind)


LONG = "void at::native::fill<(int)4>(int, float *)"
MANY = tuple(operation(f"big_{n}", 1.0 + n) for n in range(40))
"""As many as a baseline tells apart."""


def told(found: tuple[Moved, ...]) -> list[tuple[str, float | None, float | None, float, str]]:
    return [(one.name, one.a, one.b, round(one.change, 9), one.note) for one in found]


def test_a_baselines_kernels_are_those_of_a_capture_by_their_keys() -> None:
    a = Breakdown(
        kernels=(
            operation(LONG, 1.0),
            operation("nccl_sum", 2.0, "nccl"),
            operation("memset", 3.0, "memory"),
        )
    )
    b = Breakdown(
        kernels=(
            operation(LONG, 1.5),
            operation("nccl_sum", 2.0, "nccl"),
            operation("memset", 3.25, "memory"),
        )
    )
    assert told(moved_operations(kept(a), b)) == [
        ("fill<4>", 1.0, 1.5, 0.5, ""),
        ("memset", 3.0, 3.25, 0.25, ""),
    ]
    assert told(moved_operations(b, kept(a))) == [
        ("fill<4>", 1.5, 1.0, -0.5, ""),
        ("memset", 3.25, 3.0, -0.25, ""),
    ]
    assert moved_operations(kept(a), a) == ()


def test_a_kernel_that_one_side_lacks_is_none_there() -> None:
    a, b = kernels(same=(1, 1.0), old=(1, 0.5)), kernels(same=(1, 1.0), fresh=(1, 0.75))
    assert told(moved_operations(a, b)) == [
        ("fresh", None, 0.75, 0.75, ""),
        ("old", 0.5, None, -0.5, ""),
    ]


def test_what_one_side_did_not_time_did_not_move() -> None:
    copy = operation("CUDA memcpy Host-to-Device", 1.0, "memory")
    row = RangeSample(name="step", count=1, cpu_ms=1.0, values={M.H2D_MS: 1.0})
    untold = Breakdown(kernels=(copy,), ranges=(row,))
    both = row.model_copy(update={"values": {M.H2D_MS: 1.5, M.KERNEL_MS: 1.0}})
    whole = Breakdown(
        kernels=(copy.model_copy(update={"gpu_ms": 1.5}), operation("gemm", 1.0)), ranges=(both,)
    )
    assert told(moved_operations(untold, whole)) == [
        ("CUDA memcpy Host-to-Device", 1.0, 1.5, 0.5, "")
    ]


def test_a_kernel_that_a_whole_graph_may_hold_is_not_none_there() -> None:
    moves = moved_operations(EAGER, WHOLE)
    assert [(one.name, one.b, one.note) for one in moves] == [
        ("add", None, "perhaps in b's graphs"),
        ("gemm", None, "perhaps in b's graphs"),
        (WHOLE_GRAPHS, 0.1, ""),
    ]
    assert moved_operations(WHOLE, EAGER)[0].note == "perhaps in a's graphs"


def test_what_is_not_among_a_sides_largest_did_not_move_for_that() -> None:
    whole = Breakdown(kernels=(*MANY, operation("small", 0.5), operation("tiny", 0.25)))
    assert moved_operations(kept(whole), whole) == ()
    assert moved_operations(whole, kept(whole)) == ()
    grown = Breakdown(kernels=(*MANY, operation("small", 1.25)))
    assert told(moved_operations(kept(whole), grown)) == [
        ("small", None, 1.25, 0.5, "not among a's largest")
    ]
    assert told(moved_operations(grown, kept(whole))) == [
        ("small", 1.25, None, -0.5, "not among b's largest")
    ]


def test_of_several_that_a_side_does_not_tell_none_moved_that_may_have_been_there() -> None:
    whole = Breakdown(kernels=(*MANY, operation("stays", 0.9), operation("small", 0.3)))
    grown = Breakdown(kernels=(*MANY, operation("stays", 0.9), operation("small", 0.7)))
    assert told(moved_operations(kept(whole), grown)) == [(OTHER_KERNELS, 1.2, 1.6, 0.4, "")]
    copies = Breakdown(kernels=(*grown.kernels, operation("CUDA memset", 0.8, "memory")))
    assert told(moved_operations(kept(whole), copies))[0] == ("CUDA memset", None, 0.8, 0.8, "")


def test_others_that_grew_by_more_than_the_missing_are_told() -> None:
    a = Breakdown(kernels=(operation("k", 1.0), operation(OTHER_KERNELS, 1.0)))
    b = Breakdown(kernels=(operation(OTHER_KERNELS, 2.5),))
    assert told(moved_operations(a, b)) == [(OTHER_KERNELS, 2.0, 2.5, 0.5, "")]


def test_ranges_are_told_by_their_time_on_the_cpu() -> None:
    def took(**ms: float) -> Breakdown:
        return Breakdown(
            ranges=tuple(
                RangeSample(name=name, count=1, cpu_ms=of, values={M.GAP_MS: 9.0})
                for name, of in ms.items()
            )
        )

    assert told(moved_ranges(took(step=4.0, log=0.5), took(step=5.0, log=0.5))) == [
        ("step", 4.0, 5.0, 1.0, "")
    ]
    assert moved_ranges(took(step=4.0), Breakdown()) == ()


def test_between_whole_graphs_and_nodes_no_operation_moved() -> None:
    assert moved_operations(WHOLE, BY_NODE) == ()


def test_between_a_side_without_ranges_and_one_with_them_no_range_moved() -> None:
    bare = launching({"gemm": 8, "add": 90}, launches=98, under=OUTSIDE_RANGES)
    assert moved_ranges(bare, EAGER) == moved_ranges(EAGER, bare) == ()
