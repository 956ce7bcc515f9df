"""How a change is made up: by range, kernel, kind of copy and call; what is told adds up to the
whole."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.breakdowns import BY_NODE, EAGER, WHOLE, kernels, launching

from perfgate.explain.attribution import attributions
from perfgate.explain.breakdown import ReadableBreakdown, kept
from perfgate.explain.where import where
from perfgate.model.metric import EXPOSED, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import (
    OTHER_KERNELS,
    OTHER_RANGES,
    OUTSIDE_RANGES,
    WHOLE_GRAPHS,
    Breakdown,
    CopySample,
    KernelSample,
    RangeSample,
    SyncSample,
)
from perfgate.model.verdict import Attribution, Axis, MetricVerdict

M = Metric


def moved(metric: Metric, before: float, now: float) -> tuple[MetricVerdict, ...]:
    return (MetricVerdict(metric=metric, outcome=Outcome.REGRESSED, baseline=before, now=now),)


def ranges(metric: Metric, values: Mapping[str, float]) -> tuple[RangeSample, ...]:
    return tuple(
        RangeSample(name=name, count=1.0, cpu_ms=0.0, values={metric: of})
        for name, of in values.items()
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


@pytest.mark.parametrize("metric", EXPOSED)
def test_what_nothing_hides_is_told_by_its_ranges_and_so_is_the_step_that_it_lengthens(
    metric: Metric,
) -> None:
    before = Breakdown(ranges=ranges(metric, {"backward": 0.8, "loss": 0.2}))
    now = Breakdown(ranges=ranges(metric, {"backward": 1.7, "loss": 0.2}))
    rows = (*moved(M.STEP_MS, 10.0, 10.9), *moved(metric, 1.0, 1.9))
    assert where(attributions(before, now, rows)) == {
        M.STEP_MS: f"+0.9 ms: {metric} +0.9 under backward",
        metric: "+0.9 ms: +0.9 under backward",
    }


def test_a_step_that_uses_no_gpu_is_told_by_the_ranges_own_time() -> None:
    before = Breakdown(ranges=ranges(M.STEP_MS, {"load": 4.0, "forward": 6.0}))
    now = Breakdown(ranges=ranges(M.STEP_MS, {"load": 6.4, "forward": 6.0}))
    rows = moved(M.STEP_MS, 10.0, 12.4)
    assert where(attributions(before, now, rows)) == {M.STEP_MS: "+2.4 ms: +2.4 under load"}
    of_older = Breakdown(
        ranges=tuple(row.model_copy(update={"values": {}}) for row in before.ranges)
    )
    assert where(attributions(of_older, now, rows)) == {}


@pytest.mark.parametrize("metric", EXPOSED)
def test_of_a_baseline_without_the_times_that_nothing_hides_by_range_none_has_moved(
    metric: Metric,
) -> None:
    before = Breakdown(ranges=ranges(M.KERNEL_MS, {"backward": 5.0}))
    now = Breakdown(
        ranges=(
            RangeSample(
                name="backward", count=1.0, cpu_ms=0.0, values={M.KERNEL_MS: 5.5, metric: 1.9}
            ),
        )
    )
    rows = (*moved(M.STEP_MS, 10.0, 11.4), *moved(metric, 1.0, 1.9), *moved(M.KERNEL_MS, 5.0, 5.5))
    assert where(attributions(before, now, rows)) == {
        M.STEP_MS: "+1.4 ms, of which kernel_ms +0.5 under backward",
        M.KERNEL_MS: "+0.5 ms: +0.5 under backward",
    }


@pytest.mark.parametrize("metric", [M.MEM_EXPOSED_MS, M.STEP_MS])
def test_other_copies_and_memsets_are_told_by_kind(metric: Metric) -> None:
    def side(d2h: float, set_ms: float) -> Breakdown:
        copies = (
            [CopySample(direction="Device-to-Host", host="pageable", count=1, bytes=8, gpu_ms=d2h)]
            if d2h
            else []
        )
        copies.append(
            CopySample(direction="Host-to-Device", host="pinned", count=1, bytes=8, gpu_ms=1 + d2h)
        )
        memsets = KernelSample(name="CUDA memset", count=1, gpu_ms=set_ms, kind="memory")
        return Breakdown(copies=tuple(copies), kernels=(memsets,))

    found = only(attributions(side(0.0, 0.5), side(2.0, 0.75), moved(metric, 4.0, 6.25)), Axis.COPY)
    assert [(part.name, part.change) for part in found.parts] == [
        ("Device-to-Host to pageable memory", 2.0),
        ("CUDA memset", 0.25),
    ]


def test_of_several_gpus_work_is_part_of_a_step_in_the_mean() -> None:
    """Four GPUs, each of which computes for 0.4 ms longer, and copies to the host for 0.5 ms
    longer."""
    rows = {
        M.STEP_MS: (10.0, 10.9),
        M.KERNEL_MS: (32.0, 33.6),
        M.GAP_MS: (1.75, 1.75),
        M.MEM_EXPOSED_MS: (0.25, 0.75),
    }

    def side(number: int, *, copies: int) -> ReadableBreakdown:
        own = {metric: values[number] for metric, values in rows.items() if metric is not M.STEP_MS}
        forward = RangeSample(name="forward", count=1.0, cpu_ms=0.0, values=own)
        return ReadableBreakdown(
            gpus=4,
            ranges=(forward,),
            copies=(copied("pinned", copies, direction="Device-to-Host"),),
        )

    verdicts = tuple(row for metric, values in rows.items() for row in moved(metric, *values))
    found = where(attributions(side(0, copies=10), side(1, copies=30), verdicts))
    assert found[M.KERNEL_MS] == "+1.6 ms: +1.6 under forward"
    assert (
        found[M.MEM_EXPOSED_MS]
        == "+0.5 ms: +0.5 under forward; by copy: +0.5 Device-to-Host to pinned memory"
    )
    assert found[M.STEP_MS] == (
        "+0.9 ms: mem_exposed_ms +0.5 under forward, kernel_ms +0.4 under forward; "
        "by copy: +0.5 Device-to-Host to pinned memory"
    )


def test_a_kernels_name_is_told_short_also_against_a_baselines_keys() -> None:
    name = "void at::native::fill<(int)4>(int, float *)"
    before = kept(Breakdown(kernels=(KernelSample(name=name, count=1, gpu_ms=1.0),)))
    now = Breakdown(kernels=(KernelSample(name=name, count=1, gpu_ms=1.5),))
    (part,) = only(attributions(before, now, moved(M.KERNEL_MS, 1.0, 1.5)), Axis.KERNEL).parts
    assert (part.name, part.before, part.now, part.note) == ("fill<4>", 1.0, 1.5, "each +50 %")


def test_kernels_of_torch_compile_are_told_by_their_operations_since_their_numbers_move() -> None:
    before = kernels(
        triton_poi_fused_add_1=(1, 2.0),
        triton_poi_fused_add_3=(1, 3.0),
        triton_red_fused_sum_2=(1, 1.0),
    )
    now = kernels(
        triton_poi_fused_add_0=(2, 5.0),
        triton_poi_fused_add_2=(1, 4.0),
        triton_red_fused_sum_1=(1, 1.0),
    )
    (part,) = only(
        attributions(kept(before), now, moved(M.KERNEL_MS, 6.0, 10.0)), Axis.KERNEL
    ).parts
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
def test_the_step_is_told_last_unless_it_holds_what_no_other_metric_shows(
    gap_ms: float, order: list[Metric]
) -> None:
    row = moved(M.STEP_MS, 10.0, 11.0)[0].model_copy(update={"change": 0.1})
    gap = moved(M.GAP_MS, 1.0, 1.0 + gap_ms)[0].model_copy(update={"change": 0.1 * gap_ms})
    before = Breakdown(ranges=ranges(M.GAP_MS, {"wait": 1.0}))
    copied = CopySample(
        direction="Device-to-Device", host=None, count=1, bytes=8, gpu_ms=1.0 - gap_ms
    )
    now = Breakdown(ranges=ranges(M.GAP_MS, {"wait": 1.0 + gap_ms}), copies=(copied,))
    found = attributions(before, now, (row, gap))
    assert list(dict.fromkeys(one.metric for one in found)) == order


def test_copies_within_the_gpu_are_told_before_the_step_that_they_lengthen() -> None:
    def side(gpu_ms: float) -> Breakdown:
        return Breakdown(
            copies=(
                CopySample(
                    direction="Device-to-Device", host=None, count=1, bytes=8, gpu_ms=gpu_ms
                ),
            )
        )

    row = moved(M.STEP_MS, 10.0, 11.0)[0].model_copy(update={"change": 0.1})
    memory = moved(M.MEM_EXPOSED_MS, 0.1, 1.0)[0].model_copy(update={"change": 0.09})
    assert list(where(attributions(side(0.1), side(1.0), (row, memory))).items()) == [
        (M.MEM_EXPOSED_MS, "+0.9 ms; by copy: +0.9 Device-to-Device"),
        (M.STEP_MS, "+1 ms; by copy: +0.9 Device-to-Device"),
    ]


def test_launches_are_told_by_kernel_too() -> None:
    found = attributions(kernels(add=(3, 0.1)), kernels(add=(4, 0.1)), moved(M.LAUNCHES, 3, 4))
    assert where(found) == {M.LAUNCHES: "+1; by kernel: +1 add (3 -> 4 a step, each -25 %)"}


@pytest.mark.parametrize(
    ("before", "now", "change", "notes"),
    [
        (EAGER, BY_NODE, -100, "run by CUDA graphs now"),
        (BY_NODE, EAGER, 100, "run by CUDA graphs before"),
        (EAGER, WHOLE, -100, "perhaps in a graph, 92 a step"),
        (WHOLE, EAGER, 100, "perhaps in a graph, 92 a step"),
    ],
    ids=["into nodes", "out of nodes", "into a whole one", "out of a whole one"],
)
def test_kernels_of_a_graph_are_none_that_were_launched(
    before: Breakdown, now: Breakdown, change: float, notes: str
) -> None:
    row = moved(M.LAUNCHES, 50 - change / 2, 50 + change / 2)
    found = only(attributions(before, now, row), Axis.KERNEL)
    assert [(part.name, part.change) for part in found.parts] == [
        ("add", 0.92 * change),
        ("gemm", 0.08 * change),
    ]
    assert found.parts[0].note == notes
    assert found.rest == 0


def test_where_graphs_and_others_run_the_same_kernels_no_kernel_is_blamed_for_launches() -> None:
    # Of 101 kernels that ran one was launched alone: which, the capture does not tell.
    now = launching({"gemm": 8, "add": 93}, launches=1, graphs=1)
    found = attributions(BY_NODE, now, moved(M.LAUNCHES, 0, 1))
    assert [one.axis for one in found] == [Axis.RANGE]


def test_nccls_launches_are_launches() -> None:
    nccl = KernelSample(name="ncclDevKernel", count=2, gpu_ms=9.0, kind="nccl")
    now = Breakdown(kernels=(*kernels(k=(1, 1.0)).kernels, nccl))
    found = only(attributions(kernels(k=(1, 1.0)), now, moved(M.LAUNCHES, 1, 3)), Axis.KERNEL)
    assert [(part.name, part.change) for part in found.parts] == [("ncclDevKernel", 2)]
    assert found.rest == 0


def test_what_a_whole_graph_may_hold_is_not_called_new_or_gone() -> None:
    both = launching({WHOLE_GRAPHS: 1, "add": 1}, launches=1, graphs=1)
    (part,) = only(attributions(WHOLE, both, moved(M.KERNEL_MS, 0.1, 0.2)), Axis.KERNEL).parts
    assert (part.name, part.note) == ("add", "perhaps in a graph, 1 a step")
    (gone,) = only(attributions(both, WHOLE, moved(M.KERNEL_MS, 0.2, 0.1)), Axis.KERNEL).parts
    assert gone.note == "perhaps in a graph, 1 a step"
    parts = only(attributions(EAGER, WHOLE, moved(M.KERNEL_MS, 10.0, 0.1)), Axis.KERNEL).parts
    assert [(part.name, part.note) for part in parts] == [
        ("add", "perhaps in a graph, 92 a step"),
        ("gemm", "perhaps in a graph, 8 a step"),
        (WHOLE_GRAPHS, "new, 1 a step"),
    ]


def test_copies_that_a_whole_graph_may_hold_are_not_called_gone() -> None:
    before = Breakdown(copies=(copied("pinned", 1), copied("pageable", 2)))
    now = WHOLE.model_copy(update={"copies": (copied("pinned", 1),)})
    (part,) = only(attributions(before, now, moved(M.H2D_COPIES, 3, 1)), Axis.COPY).parts
    assert (part.name, part.note) == ("Host-to-Device from pageable memory", "perhaps in a graph")


def test_whole_graphs_and_nodes_are_told_by_range_alone() -> None:
    rows = (*moved(M.KERNEL_MS, 0.1, 10.0), *moved(M.H2D_COPIES, 0, 1))
    by_node = BY_NODE.model_copy(update={"copies": (copied("pinned", 1),)})
    assert [one.axis for one in attributions(WHOLE, by_node, rows)] == [Axis.RANGE]


def test_a_side_without_ranges_is_not_told_by_range() -> None:
    bare = launching({"gemm": 8, "add": 90}, launches=98, under=OUTSIDE_RANGES)
    assert [one.axis for one in attributions(bare, EAGER, moved(M.LAUNCHES, 98, 100))] == [
        Axis.KERNEL
    ]


def test_without_its_calls_a_side_is_not_told_by_range_but_for_idle_time() -> None:
    row = RangeSample(name="step", count=1, cpu_ms=1.0, values={M.KERNEL_MS: 9.0, M.GAP_MS: 1.5})
    before = Breakdown(kernels=EAGER.kernels, ranges=(row,))
    own = EAGER.ranges[0]
    now = EAGER.model_copy(
        update={"ranges": (own.model_copy(update={"values": {**own.values, M.GAP_MS: 1.0}}),)}
    )
    rows = (*moved(M.KERNEL_MS, 9.0, 10.0), *moved(M.GAP_MS, 1.5, 1.0))
    found = attributions(before, now, rows)
    assert [one.metric for one in found if one.axis is Axis.RANGE] == [M.GAP_MS]


def test_a_kernel_that_takes_many_times_as_long_is_told_by_the_factor() -> None:
    (part,) = only(
        attributions(
            kernels(spin=(1, 0.0007)), kernels(spin=(1, 0.3353)), moved(M.KERNEL_MS, 0.0007, 0.3353)
        ),
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
    return CopySample(
        direction=direction, host=host, count=count, bytes=1000.0 * count, gpu_ms=0.1 * count
    )


@pytest.mark.parametrize(
    ("metric", "before", "now", "text"),
    [
        (M.PAGEABLE_COPIES, 0, 2, "+2; by copy: +2 Host-to-Device from pageable memory (new)"),
        (M.D2H_COPIES, 1, 2, "+1; by copy: +1 Device-to-Host to pinned memory"),
        (M.H2D_MS, 0.2, 0.4, "+0.2 ms; by copy: +0.2 Host-to-Device from pageable memory (new)"),
        (
            M.H2D_BYTES,
            2000,
            4000,
            "+2000 B; by copy: +2000 Host-to-Device from pageable memory (new)",
        ),
    ],
)
def test_copies_are_told_by_direction_and_memory(
    metric: Metric, before: float, now: float, text: str
) -> None:
    blessed = Breakdown(
        copies=(copied("pinned", 2), copied("pinned", 1, direction="Device-to-Host"))
    )
    own = Breakdown(
        copies=(
            copied("pageable", 2),
            copied("pinned", 2),
            copied("pinned", 2, direction="Device-to-Host"),
        )
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
    assert (part.name, part.before, part.note) == (
        "stall",
        None,
        "not among the baseline's largest",
    )
    assert part.change == pytest.approx(2.0)


def test_of_what_is_not_among_a_baselines_largest_nothing_is_blamed_that_may_have_been_so_before() -> (
    None
):
    before = Breakdown(ranges=ranges(M.KERNEL_MS, {"large": 5.0, "least": 2.0, OTHER_RANGES: 3.0}))
    now = Breakdown(
        ranges=ranges(M.KERNEL_MS, {"large": 5.0, "least": 2.0, "stays": 1.9, "grew": 1.5})
    )
    (part,) = only(attributions(before, now, moved(M.KERNEL_MS, 10.0, 10.4)), Axis.RANGE).parts
    assert (part.name, part.note) == (OTHER_RANGES, "not among the baseline's largest")
    assert (part.before, part.now, part.change) == pytest.approx((3.0, 3.4, 0.4))


def test_what_is_larger_than_a_baselines_smallest_was_not_so_among_its_others() -> None:
    before = Breakdown(ranges=ranges(M.KERNEL_MS, {"large": 5.0, "least": 2.0, OTHER_RANGES: 3.0}))
    now = Breakdown(
        ranges=ranges(M.KERNEL_MS, {"large": 5.0, "least": 2.0, "stays": 1.0, "grew": 4.5})
    )
    parts = only(attributions(before, now, moved(M.KERNEL_MS, 10.0, 12.5)), Axis.RANGE).parts
    # It had 2 at most, for all that is known; that it had 2 is why all others had 1.
    assert [(part.name, part.change) for part in parts] == [("grew", 2.5)]


def test_of_others_kernels_how_often_each_ran_is_not_told() -> None:
    before = kernels(large=(1, 5.0), **{OTHER_KERNELS: (7, 3.0)})
    now = kernels(large=(1, 5.0), small=(3, 1.4), smaller=(4, 2.0))
    (part,) = only(attributions(before, now, moved(M.KERNEL_MS, 8.0, 8.4)), Axis.KERNEL).parts
    assert (part.name, part.note) == (OTHER_KERNELS, "not among the baseline's largest")
    assert part.change == pytest.approx(0.4)


def test_what_is_no_longer_among_the_largest_is_not_blamed_for_it() -> None:
    before = Breakdown(ranges=ranges(M.KERNEL_MS, {"large": 5.0, "small": 1.0, OTHER_RANGES: 1.0}))
    now = Breakdown(ranges=ranges(M.KERNEL_MS, {"large": 5.0, "least": 1.2, OTHER_RANGES: 1.5}))
    parts = only(attributions(before, now, moved(M.KERNEL_MS, 7.0, 7.7)), Axis.RANGE).parts
    assert {part.note for part in parts} == {"not among the baseline's largest"}
    assert {part.name: part.change for part in parts} == pytest.approx(
        {"least": 0.2, OTHER_RANGES: 0.5}
    )


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
def test_the_parts_and_the_rest_are_the_whole(
    before: dict[str, float], now: dict[str, float]
) -> None:
    whole = moved(M.GAP_MS, sum(before.values()), sum(now.values()))
    for found in attributions(
        Breakdown(ranges=ranges(M.GAP_MS, before)), Breakdown(ranges=ranges(M.GAP_MS, now)), whole
    ):
        assert math.isclose(
            sum(part.change for part in found.parts) + found.rest, found.change, abs_tol=1e-9
        )
        # Ranges account for all of it, so nothing but the dust of floats is left over.
        assert abs(found.rest) < 1e-6
        assert [abs(part.change) for part in found.parts] == sorted(
            (abs(p.change) for p in found.parts), reverse=True
        )


@given(SIDE, SIDE)
def test_kernels_too(before: dict[str, float], now: dict[str, float]) -> None:
    def of(side: dict[str, float]) -> Breakdown:
        named = {
            OTHER_KERNELS if name == OTHER_RANGES else name: (1.0, ms) for name, ms in side.items()
        }
        return kernels(**named)

    whole = moved(M.KERNEL_MS, sum(before.values()), sum(now.values()))
    for found in attributions(of(before), of(now), whole):
        assert abs(found.rest) < 1e-6


def test_of_a_step_kinds_of_copy_are_not_meant_to_tell_all() -> None:
    a = Breakdown(
        copies=(copied("pinned", 1, direction="Device-to-Host"),),
        ranges=ranges(M.GAP_MS, {"log": 1.0}),
    )
    b = Breakdown(
        copies=(copied("pinned", 2, direction="Device-to-Host"),),
        ranges=ranges(M.GAP_MS, {"log": 1.5}),
    )
    rows = (*moved(M.STEP_MS, 10.0, 12.0), *moved(M.GAP_MS, 1.0, 1.5), *moved(M.D2H_COPIES, 1, 2))
    found = attributions(a, b, rows)
    assert {(one.metric, one.axis): one.tells_all for one in found} == {
        (M.D2H_COPIES, Axis.COPY): True,
        (M.GAP_MS, Axis.RANGE): True,
        (M.STEP_MS, Axis.RANGE): True,
        (M.STEP_MS, Axis.COPY): False,
    }
