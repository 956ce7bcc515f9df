"""How a change is made up: by range, kernel, kind of copy and call; what is told adds up to the whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.explain.attribution import attributions, moved_operations, moved_ranges
from perfgate.explain.breakdown import kept
from perfgate.explain.where import where
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import (
    OTHER_KERNELS,
    OTHER_RANGES,
    Breakdown,
    CopySample,
    KernelSample,
    RangeSample,
    SyncSample,
)
from perfgate.model.side import Moved
from perfgate.model.verdict import Attribution, Axis, MetricVerdict

M = Metric


def moved(metric: Metric, before: float, now: float) -> tuple[MetricVerdict, ...]:
    return (MetricVerdict(metric=metric, outcome=Outcome.REGRESSED, baseline=before, now=now),)


def ranges(metric: Metric, values: Mapping[str, float]) -> tuple[RangeSample, ...]:
    return tuple(RangeSample(name=name, count=1.0, cpu_ms=0.0, values={metric: of}) for name, of in values.items())


def kernels(**times: tuple[float, float]) -> Breakdown:
    return Breakdown(
        kernels=tuple(KernelSample(name=name, count=count, gpu_ms=ms) for name, (count, ms) in times.items())
    )


def only(found: tuple[Attribution, ...], axis: Axis) -> Attribution:
    (one,) = (one for one in found if one.axis is axis)
    return one


def test_kernels_are_told_by_what_changed_of_them() -> None:
    before = kernels(gemm=(10, 5.0), gone=(1, 0.5), more=(4, 0.4), slower=(2, 1.0), same=(1, 1.0))
    now = kernels(gemm=(10, 5.0), more=(6, 0.6), slower=(2, 1.3), same=(1, 1.0), spin=(1, 0.9))
    found = only(attributions(before, now, moved(M.KERNEL_MS, 7.9, 8.8)), Axis.KERNEL)
    assert [(part.name, round(part.change, 9), part.note) for part in found.parts] == [
        ("spin", 0.9, "new, 1 a step"),
        ("gone", -0.5, "gone, 1 a step"),
        ("slower", 0.3, "each +30 %"),
        ("more", 0.2, "4 -> 6 a step"),
    ]
    assert where((found,)) == {
        M.KERNEL_MS: "+0.9 ms; by kernel: +0.9 spin (new, 1 a step), +0.3 slower (each +30 %), "
        "+0.2 more (4 -> 6 a step)"
    }


def test_a_kernels_name_is_told_short_also_against_a_baselines_keys() -> None:
    name = "void at::native::fill<(int)4>(int, float *)"
    before = kept(Breakdown(kernels=(KernelSample(name=name, count=1, gpu_ms=1.0),)))
    now = Breakdown(kernels=(KernelSample(name=name, count=1, gpu_ms=1.5),))
    (part,) = only(attributions(before, now, moved(M.KERNEL_MS, 1.0, 1.5)), Axis.KERNEL).parts
    assert (part.name, part.before, part.now, part.note) == ("fill<4>", 1.0, 1.5, "each +50 %")


def test_kernels_of_torch_compile_are_told_by_their_operations_since_their_numbers_move() -> None:
    before = kernels(triton_poi_fused_add_1=(1, 2.0), triton_poi_fused_add_3=(1, 3.0), triton_red_fused_sum_2=(1, 1.0))
    now = kernels(triton_poi_fused_add_0=(2, 5.0), triton_poi_fused_add_2=(1, 4.0), triton_red_fused_sum_1=(1, 1.0))
    (part,) = only(attributions(kept(before), now, moved(M.KERNEL_MS, 6.0, 10.0)), Axis.KERNEL).parts
    assert (part.name, part.before, part.now, part.note) == (
        "triton_poi_fused_add",
        5.0,
        9.0,
        "2 -> 3 a step, each +20 %",
    )


@pytest.mark.parametrize(
    ("gap_ms", "order"),
    [(0.6, [M.GAP_MS, M.STEP_MS]), (0.1, [M.STEP_MS, M.GAP_MS])],
    ids=["its parts show it", "its parts do not"],
)
def test_the_step_is_told_last_unless_it_holds_what_no_other_metric_shows(gap_ms: float, order: list[Metric]) -> None:
    row = moved(M.STEP_MS, 10.0, 11.0)[0].model_copy(update={"change": 0.1})
    gap = moved(M.GAP_MS, 1.0, 1.0 + gap_ms)[0].model_copy(update={"change": 0.1 * gap_ms})
    before = Breakdown(ranges=ranges(M.GAP_MS, {"wait": 1.0}))
    copied = CopySample(direction="Device-to-Device", host=None, count=1, bytes=8, gpu_ms=1.0 - gap_ms)
    now = Breakdown(ranges=ranges(M.GAP_MS, {"wait": 1.0 + gap_ms}), copies=(copied,))
    found = attributions(before, now, (row, gap))
    assert list(dict.fromkeys(one.metric for one in found)) == order


def test_launches_are_told_by_kernel_too() -> None:
    found = attributions(kernels(add=(3, 0.1)), kernels(add=(4, 0.1)), moved(M.LAUNCHES, 3, 4))
    assert where(found) == {M.LAUNCHES: "+1; by kernel: +1 add (3 -> 4 a step, each -25 %)"}


def test_a_kernel_that_takes_many_times_as_long_is_told_by_the_factor() -> None:
    (part,) = only(
        attributions(kernels(spin=(1, 0.0007)), kernels(spin=(1, 0.3353)), moved(M.KERNEL_MS, 0.0007, 0.3353)),
        Axis.KERNEL,
    ).parts
    assert part.note == "each 479 times as long"


def test_nccls_kernels_and_copies_are_no_part_of_kernel_time() -> None:
    nccl = KernelSample(name="ncclDevKernel", count=1, gpu_ms=9.0, kind="nccl")
    copy = KernelSample(name="CUDA memcpy Host-to-Device", count=1, gpu_ms=9.0, kind="memory")
    now = Breakdown(kernels=(KernelSample(name="k", count=1, gpu_ms=2.0), nccl, copy))
    found = only(attributions(kernels(k=(1, 1.0)), now, moved(M.KERNEL_MS, 1.0, 2.0)), Axis.KERNEL)
    assert [part.name for part in found.parts] == ["k"]
    assert found.rest == 0


def copied(host: str, count: float, *, direction: str = "Host-to-Device") -> CopySample:
    return CopySample(direction=direction, host=host, count=count, bytes=1000.0 * count, gpu_ms=0.1 * count)


@pytest.mark.parametrize(
    ("metric", "before", "now", "text"),
    [
        (M.PAGEABLE_COPIES, 0, 2, "+2; by copy: +2 Host-to-Device from pageable memory (new)"),
        (M.D2H_COPIES, 1, 2, "+1; by copy: +1 Device-to-Host to pinned memory"),
        (M.H2D_MS, 0.2, 0.4, "+0.2 ms; by copy: +0.2 Host-to-Device from pageable memory (new)"),
        (M.H2D_BYTES, 2000, 4000, "+2000 B; by copy: +2000 Host-to-Device from pageable memory (new)"),
    ],
)
def test_copies_are_told_by_direction_and_memory(metric: Metric, before: float, now: float, text: str) -> None:
    blessed = Breakdown(copies=(copied("pinned", 2), copied("pinned", 1, direction="Device-to-Host")))
    own = Breakdown(
        copies=(copied("pageable", 2), copied("pinned", 2), copied("pinned", 2, direction="Device-to-Host"))
    )
    assert where(attributions(blessed, own, moved(metric, before, now))) == {metric: text}


def test_synchronising_calls_are_told_with_their_range() -> None:
    call = SyncSample(call="cudaStreamSynchronize", range="loss_log", count=1, cpu_ms=2.0)
    found = attributions(Breakdown(), Breakdown(syncs=(call,)), moved(M.SYNCS, 0, 1))
    assert where(found) == {M.SYNCS: "+1; by call: +1 cudaStreamSynchronize under loss_log (new)"}


def test_what_is_not_among_a_baselines_largest_is_not_blamed_for_staying_as_it_was() -> None:
    before = Breakdown(ranges=ranges(M.GAP_MS, {"large": 5.0, OTHER_RANGES: 1.0}))
    now = Breakdown(ranges=ranges(M.GAP_MS, {"large": 5.5, "small": 0.6, "smaller": 0.4}))
    found = only(attributions(before, now, moved(M.GAP_MS, 6.0, 6.5)), Axis.RANGE)
    assert [(part.name, part.change) for part in found.parts] == [("large", 0.5)]
    assert found.rest == pytest.approx(0)


def test_what_is_new_among_them_is_told_as_perhaps_new() -> None:
    before = Breakdown(ranges=ranges(M.GAP_MS, {"large": 5.0, OTHER_RANGES: 0.2}))
    now = Breakdown(ranges=ranges(M.GAP_MS, {"large": 5.0, "stall": 2.2}))
    (part,) = only(attributions(before, now, moved(M.GAP_MS, 5.2, 7.2)), Axis.RANGE).parts
    assert (part.name, part.before, part.note) == ("stall", None, "not among the baseline's largest")
    assert part.change == pytest.approx(2.0)


def test_what_no_part_accounts_for_is_the_rest() -> None:
    before = Breakdown(ranges=ranges(M.KERNEL_MS, {"a": 1.0}))
    now = Breakdown(ranges=ranges(M.KERNEL_MS, {"a": 1.4}))
    found = only(attributions(before, now, moved(M.KERNEL_MS, 1.0, 1.5)), Axis.RANGE)
    assert found.rest == pytest.approx(0.1)


def test_a_side_that_tells_nothing_along_an_axis_leaves_it_out() -> None:
    told = kernels(k=(1, 1.0))
    assert attributions(Breakdown(), told, moved(M.KERNEL_MS, 0.5, 1.0)) == ()
    assert attributions(told, Breakdown(), moved(M.KERNEL_MS, 0.5, 1.0)) == ()


NAMES = st.sampled_from(["a", "b", "c", "d", OTHER_RANGES])
SIDE = st.dictionaries(NAMES, st.floats(0.001, 100), min_size=1)


@given(SIDE, SIDE)
def test_the_parts_and_the_rest_are_the_whole(before: dict[str, float], now: dict[str, float]) -> None:
    whole = moved(M.GAP_MS, sum(before.values()), sum(now.values()))
    for found in attributions(
        Breakdown(ranges=ranges(M.GAP_MS, before)), Breakdown(ranges=ranges(M.GAP_MS, now)), whole
    ):
        assert math.isclose(sum(part.change for part in found.parts) + found.rest, found.change, abs_tol=1e-9)
        # Ranges account for all of it, so nothing but the dust of floats is left over.
        assert abs(found.rest) < 1e-6
        assert [abs(part.change) for part in found.parts] == sorted((abs(p.change) for p in found.parts), reverse=True)


@given(SIDE, SIDE)
def test_kernels_too(before: dict[str, float], now: dict[str, float]) -> None:
    def of(side: dict[str, float]) -> Breakdown:
        named = {OTHER_KERNELS if name == OTHER_RANGES else name: (1.0, ms) for name, ms in side.items()}
        return kernels(**named)

    whole = moved(M.KERNEL_MS, sum(before.values()), sum(now.values()))
    for found in attributions(of(before), of(now), whole):
        assert abs(found.rest) < 1e-6


# Without a metric: all that the GPU ran, and the ranges


def operation(name: str, ms: float, kind: Literal["kernel", "nccl", "memory"] = "kernel") -> KernelSample:
    return KernelSample(name=name, count=1, gpu_ms=ms, kind=kind)


LONG = "void at::native::fill<(int)4>(int, float *)"
MANY = tuple(operation(f"big_{n}", 1.0 + n) for n in range(40))
"""As many as a baseline tells apart."""


def told(found: tuple[Moved, ...]) -> list[tuple[str, float | None, float | None, float, str]]:
    return [(one.name, one.a, one.b, round(one.change, 9), one.note) for one in found]


def test_a_baselines_kernels_are_those_of_a_capture_by_their_keys() -> None:
    a = Breakdown(
        kernels=(operation(LONG, 1.0), operation("nccl_sum", 2.0, "nccl"), operation("memset", 3.0, "memory"))
    )
    b = Breakdown(
        kernels=(operation(LONG, 1.5), operation("nccl_sum", 2.0, "nccl"), operation("memset", 3.25, "memory"))
    )
    assert told(moved_operations(kept(a), b)) == [("fill<4>", 1.0, 1.5, 0.5, ""), ("memset", 3.0, 3.25, 0.25, "")]
    assert told(moved_operations(b, kept(a))) == [("fill<4>", 1.5, 1.0, -0.5, ""), ("memset", 3.25, 3.0, -0.25, "")]
    assert moved_operations(kept(a), a) == ()


def test_a_kernel_that_one_side_lacks_is_none_there() -> None:
    a, b = kernels(same=(1, 1.0), old=(1, 0.5)), kernels(same=(1, 1.0), fresh=(1, 0.75))
    assert told(moved_operations(a, b)) == [("fresh", None, 0.75, 0.75, ""), ("old", 0.5, None, -0.5, "")]


def test_what_is_not_among_a_sides_largest_did_not_move_for_that() -> None:
    whole = Breakdown(kernels=(*MANY, operation("small", 0.5), operation("tiny", 0.25)))
    assert moved_operations(kept(whole), whole) == ()
    assert moved_operations(whole, kept(whole)) == ()
    grown = Breakdown(kernels=(*MANY, operation("small", 1.25)))
    assert told(moved_operations(kept(whole), grown)) == [("small", None, 1.25, 0.5, "not among a's largest")]
    assert told(moved_operations(grown, kept(whole))) == [("small", 1.25, None, -0.5, "not among b's largest")]


def test_others_that_grew_by_more_than_the_missing_are_told() -> None:
    a = Breakdown(kernels=(operation("k", 1.0), operation(OTHER_KERNELS, 1.0)))
    b = Breakdown(kernels=(operation(OTHER_KERNELS, 2.5),))
    assert told(moved_operations(a, b)) == [(OTHER_KERNELS, 1.0, 2.5, 0.5, "")]


def test_ranges_are_told_by_their_time_on_the_cpu() -> None:
    def took(**ms: float) -> Breakdown:
        return Breakdown(
            ranges=tuple(RangeSample(name=name, count=1, cpu_ms=of, values={M.GAP_MS: 9.0}) for name, of in ms.items())
        )

    assert told(moved_ranges(took(step=4.0, log=0.5), took(step=5.0, log=0.5))) == [("step", 4.0, 5.0, 1.0, "")]
    assert moved_ranges(took(step=4.0), Breakdown()) == ()


def test_of_a_step_kinds_of_copy_are_not_meant_to_tell_all() -> None:
    a = Breakdown(copies=(copied("pinned", 1, direction="Device-to-Host"),), ranges=ranges(M.GAP_MS, {"log": 1.0}))
    b = Breakdown(copies=(copied("pinned", 2, direction="Device-to-Host"),), ranges=ranges(M.GAP_MS, {"log": 1.5}))
    rows = (*moved(M.STEP_MS, 10.0, 12.0), *moved(M.GAP_MS, 1.0, 1.5), *moved(M.D2H_COPIES, 1, 2))
    found = attributions(a, b, rows)
    assert {(one.metric, one.axis): one.tells_all for one in found} == {
        (M.D2H_COPIES, Axis.COPY): True,
        (M.GAP_MS, Axis.RANGE): True,
        (M.STEP_MS, Axis.RANGE): True,
        (M.STEP_MS, Axis.COPY): False,
    }
