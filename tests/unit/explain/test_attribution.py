"""How a change is made up: by range, kernel, kind of copy and call; the parts add up to the whole,
and what is named of them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import records
from support.breakdowns import BY_NODE, EAGER, WHOLE, copied, kernels, ranges, under
from syrupy.assertion import SnapshotAssertion

from perfgate.explain.attribution import attributions, largest, where
from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.model.diagnosis import Attribution, Axis, Part
from perfgate.model.metric import EXPOSED, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import (
    OTHER_KERNELS,
    OTHER_RANGES,
    OUTSIDE_RANGES,
    Breakdown,
    CopySample,
    KernelSample,
    SyncSample,
)
from perfgate.model.verdict import MetricVerdict
from perfgate.words import say

M = Metric


def moved(metric: Metric, before: float, now: float) -> tuple[MetricVerdict, ...]:
    return (MetricVerdict(metric=metric, outcome=Outcome.REGRESSED, baseline=before, now=now),)


def only(found: tuple[Attribution, ...], axis: Axis) -> Attribution:
    (one,) = (one for one in found if one.axis is axis)
    return one


def parts(found: Attribution) -> list[tuple[str, float, tuple[str, ...]]]:
    return [
        (part.name, round(part.change, 9), tuple(one.code for one in part.notes))
        for part in found.parts
    ]


# By kernel


def test_kernels_are_described_by_what_changed_of_them() -> None:
    before = kernels(gemm=(10, 5.0), gone=(1, 0.5), more=(4, 0.4), slower=(2, 1.0), spin=(1, 0.01))
    now = kernels(gemm=(10, 5.0), more=(6, 0.6), slower=(2, 1.3), spin=(1, 1.0), new=(3, 0.9))
    found = only(attributions(before, now, moved(M.KERNEL_MS, 6.91, 8.8)), Axis.KERNEL)
    assert parts(found) == [
        ("spin", 0.99, ("each-times-as-long",)),
        ("new", 0.9, ("part-new", "launches-a-step")),
        ("gone", -0.5, ("part-gone", "launches-a-step")),
        ("slower", 0.3, ("each-changed",)),
        ("more", 0.2, ("launches-changed",)),
    ]
    spin, new, _, slower, more = (part.notes[-1].fields for part in found.parts)
    assert (spin["times"], new["now"], more["before"], more["now"]) == (100, 3, 4, 6)
    assert slower["change"] == pytest.approx(0.3)


def test_a_kernels_name_is_short_also_against_a_baselines_key() -> None:
    name = "void at::native::fill<(int)4>(float *)"
    before, now = kept(kernels(**{name: (1, 1.0)})), kernels(**{name: (1, 1.5)})
    found = only(attributions(before, now, moved(M.KERNEL_MS, 1.0, 1.5)), Axis.KERNEL)
    assert parts(found) == [("fill<4>", 0.5, ("each-changed",))]


def test_kernels_of_torch_compile_are_those_of_their_operations_since_their_numbers_move() -> None:
    before = kernels(triton_poi_fused_add_1=(1, 2.0), triton_poi_fused_add_3=(1, 3.0))
    now = kernels(triton_poi_fused_add_0=(2, 5.0), triton_poi_fused_add_2=(1, 4.0))
    found = only(attributions(kept(before), now, moved(M.KERNEL_MS, 5.0, 9.0)), Axis.KERNEL)
    assert parts(found) == [("triton_poi_fused_add", 4.0, ("launches-changed", "each-changed"))]


def test_nccls_kernels_are_launches_and_no_part_of_kernel_time() -> None:
    nccl = KernelSample(name="ncclDevKernel", count=2, gpu_ms=9.0, kind="nccl")
    copy = KernelSample(name="CUDA memcpy Host-to-Device", count=1, gpu_ms=9.0, kind="memory")
    now = Breakdown(kernels=(*kernels(k=(1, 2.0)).kernels, nccl, copy))
    before = kernels(k=(1, 1.0))
    for metric, is_now, name in ((M.KERNEL_MS, 2.0, "k"), (M.LAUNCHES, 3.0, "ncclDevKernel")):
        found = only(attributions(before, now, moved(metric, 1.0, is_now)), Axis.KERNEL)
        assert ([part.name for part in found.parts], found.rest) == ([name], 0)


@pytest.mark.parametrize(("before", "now"), [(EAGER, BY_NODE), (BY_NODE, EAGER), (EAGER, WHOLE)])
def test_with_graphs_no_kernel_is_blamed_for_launches(before: Breakdown, now: Breakdown) -> None:
    found = attributions(before, now, moved(M.LAUNCHES, 100, 0))
    assert [one.axis for one in found] == [Axis.RANGE]


def test_whole_graphs_and_what_ran_without_are_taken_apart_by_range_alone() -> None:
    rows = (*moved(M.KERNEL_MS, 0.1, 10.0), *moved(M.H2D_COPIES, 0, 1))
    by_node = BY_NODE.model_copy(update={"copies": (copied("pinned", 1),)})
    assert [one.axis for one in attributions(WHOLE, by_node, rows)] == [Axis.RANGE]


# By range


@pytest.mark.parametrize("metric", EXPOSED)
def test_what_nothing_hides_is_its_ranges_and_so_is_the_step_that_it_lengthens(
    metric: Metric,
) -> None:
    before, now = under(metric, backward=0.8, loss=0.2), under(metric, backward=1.7, loss=0.2)
    rows = (*moved(M.STEP_MS, 10.0, 10.9), *moved(metric, 1.0, 1.9))
    for found in attributions(before, now, rows):
        assert [(part.metric, part.name) for part in found.parts] == [(metric, "backward")]
        assert found.parts[0].change == pytest.approx(0.9)
    # A baseline without these times by range knows nothing of them.
    old = under(M.KERNEL_MS, backward=5.0)
    assert attributions(old, now, moved(metric, 1.0, 1.9)) == ()


def test_a_step_that_uses_no_gpu_is_made_of_the_ranges_own_time() -> None:
    before, now = under(M.STEP_MS, load=4.0, train=6.0), under(M.STEP_MS, load=6.4, train=6.0)
    found = only(attributions(before, now, moved(M.STEP_MS, 10.0, 12.4)), Axis.RANGE)
    assert parts(found) == [("load", 2.4, ())]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(
            {"large": 5.0, OTHER_RANGES: 1.0},
            {"large": 5.5, "small": 0.6, "smaller": 0.4},
            [("large", 0.5, ())],
            id="what may have been among the others is not blamed",
        ),
        pytest.param(
            {"large": 5.0, OTHER_RANGES: 0.2},
            {"large": 5.0, "stall": 2.2},
            [("stall", 2.0, ("part-not-in-baseline",))],
            id="what is more than all others were",
        ),
        pytest.param(
            {"large": 5.0, "least": 1.0, OTHER_RANGES: 8.0},
            {"large": 5.0, "least": 1.0, "grew": 9.5},
            [("grew", 7.5, ("part-not-in-baseline",)), (OTHER_RANGES, -6.0, ())],
            id="what is larger than the smallest that is named",
        ),
        pytest.param(
            {"large": 5.0, "small": 1.0, OTHER_RANGES: 1.0},
            {"large": 5.0, OTHER_RANGES: 2.5},
            [(OTHER_RANGES, 0.5, ())],
            id="what may be among the others now",
        ),
        pytest.param({"a": 1.0}, {"a": 1.0, "b": 2.0}, [("b", 2.0, ("part-new",))], id="new"),
        pytest.param({"a": 1.0, "b": 2.0}, {"a": 1.0}, [("b", -2.0, ("part-gone",))], id="gone"),
    ],
)
def test_nothing_is_blamed_for_what_may_have_been_so_before(
    before: Mapping[str, float],
    now: Mapping[str, float],
    expected: list[tuple[str, float, tuple[str, ...]]],
) -> None:
    row = moved(M.GAP_MS, sum(before.values()), sum(now.values()))
    found = attributions(under(M.GAP_MS, **before), under(M.GAP_MS, **now), row)
    assert parts(only(found, Axis.RANGE)) == expected


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {"a": {M.KERNEL_MS: 1.5}}),
        ({"a": {M.KERNEL_MS: 1.0}}, {}),
        ({"a": {}}, {"a": {M.KERNEL_MS: 1.5}}),
        ({"a": {M.KERNEL_MS: 1.0}}, {"a": {}}),
        ({"a": {M.KERNEL_MS: 1.0}}, {"a": {M.KERNEL_MS: 1.5, M.LAUNCHES: 1.0}}),
    ],
    ids=["none before", "none now", "not measured before", "not measured now", "no calls before"],
)
def test_where_one_side_says_nothing_of_ranges_nothing_is_invented(
    before: Mapping[str, Mapping[Metric, float]], now: Mapping[str, Mapping[Metric, float]]
) -> None:
    assert attributions(ranges(before), ranges(now), moved(M.KERNEL_MS, 1.0, 1.5)) == ()


# By copy and call


@pytest.mark.parametrize(
    ("metric", "change", "expected"),
    [
        (M.PAGEABLE_COPIES, 2, ("Host-to-Device from pageable memory", 2, ("part-new",))),
        (M.D2H_COPIES, 1, ("Device-to-Host to pinned memory", 1, ())),
        (M.H2D_MS, 0.2, ("Host-to-Device from pageable memory", 0.2, ("part-new",))),
        (M.H2D_BYTES, 2000, ("Host-to-Device from pageable memory", 2000, ("part-new",))),
    ],
)
def test_copies_are_named_by_direction_and_memory(
    metric: Metric, change: float, expected: tuple[str, float, tuple[str, ...]]
) -> None:
    def to_host(count: float) -> CopySample:
        return copied("pinned", count, direction="Device-to-Host")

    before = Breakdown(copies=(copied("pinned", 2), to_host(1)))
    now = Breakdown(copies=(copied("pageable", 2), copied("pinned", 2), to_host(2)))
    found = attributions(before, now, moved(metric, 1, 1 + change))
    assert parts(only(found, Axis.COPY)) == [expected]


@pytest.mark.parametrize("metric", [M.MEM_EXPOSED_MS, M.STEP_MS])
def test_other_copies_and_memsets_are_named_by_kind(metric: Metric) -> None:
    def side(d2h: float, set_ms: float) -> Breakdown:
        to_host = copied("pageable", 1, direction="Device-to-Host", gpu_ms=d2h)
        copies = (to_host, copied("pinned", 1, gpu_ms=1 + d2h))
        memsets = KernelSample(name="CUDA memset", count=1, gpu_ms=set_ms, kind="memory")
        return Breakdown(copies=copies, kernels=(memsets,))

    found = only(attributions(side(1.0, 0.5), side(3.0, 0.75), moved(metric, 4.0, 6.25)), Axis.COPY)
    assert [(name, change) for name, change, _ in parts(found)] == [
        ("Device-to-Host to pageable memory", 2.0),
        ("CUDA memset", 0.25),
    ]
    assert found.covers_all is (metric is not M.STEP_MS)


@pytest.mark.parametrize("step", [M.STEP_MS, M.STEP_MEAN_MS])
def test_copies_that_are_as_they_were_say_nothing_of_a_step(step: Metric) -> None:
    side = Breakdown(copies=(copied("pinned", 1, direction="Device-to-Host"),))
    assert attributions(side, side, moved(step, 4.0, 6.0)) == ()


def test_synchronising_calls_are_named_with_their_range() -> None:
    call = SyncSample(call="cudaStreamSynchronize", range="loss_log", count=1, cpu_ms=2.0)
    found = attributions(Breakdown(), Breakdown(syncs=(call,)), moved(M.SYNCS, 0, 1))
    assert parts(only(found, Axis.CALL)) == [
        ("cudaStreamSynchronize under loss_log", 1, ("part-new",))
    ]


# Which metrics, in which order, and of which process


@pytest.mark.parametrize(
    ("change", "budget", "outcome", "is_taken_apart"),
    [
        (0.006, 0.01, Outcome.INCONCLUSIVE, True),
        (0.004, 0.01, Outcome.INCONCLUSIVE, False),
        (None, 0.01, Outcome.INCONCLUSIVE, False),
        (0.5, 0.01, Outcome.PASSED, False),
        (0.5, 0.01, Outcome.NOT_MEASURED, False),
        (0.5, 0.01, None, False),
        (-0.5, 0.01, Outcome.IMPROVED, True),
    ],
)
def test_what_is_judged_to_have_moved_is_taken_apart(
    change: float | None, budget: float | None, outcome: Outcome | None, *, is_taken_apart: bool
) -> None:
    row = MetricVerdict(
        metric=M.GAP_MS, outcome=outcome, baseline=1.0, now=1.5, change=change, budget=budget
    )
    found = attributions(under(M.GAP_MS, a=1.0), under(M.GAP_MS, a=1.5), (row,))
    assert bool(found) is is_taken_apart


@pytest.mark.parametrize(
    ("now", "rank"), [((10.0, 30.0), 1), ((60.0, 40.0), 0)], ids=["the worse now", "the worst now"]
)
def test_of_several_processes_it_is_the_one_whose_value_was_judged(
    now: tuple[float, float], rank: int
) -> None:
    before = (10.0, 20.0)

    def side(times: tuple[float, float]) -> Breakdown:
        processes = [
            records.process(
                {M.STEP_MS: 90.0, M.KERNEL_MS: ms},
                rank=n,
                kernels=[KernelSample(name=f"gemm_{n}", count=1, gpu_ms=ms)],
            )
            for n, ms in enumerate(times)
        ]
        return breakdown_of([records.run(processes=processes)] * 3)

    row = moved(M.KERNEL_MS, max(before), max(now))
    found = only(attributions(side(before), side(now), row), Axis.KERNEL)
    assert (found.process, found.change) == (f"rank {rank}", now[rank] - before[rank])
    assert [part.name for part in found.parts] == [f"gemm_{rank}"]
    # Against a baseline, which keeps one process, the parts are those of the same one.
    against = only(attributions(kept(side(before)), side(now), row), Axis.KERNEL)
    assert against.process == f"rank {rank}"


NAMES = st.sampled_from(["a", "b", "c", "d", OTHER_RANGES])
SIDE = st.dictionaries(NAMES, st.floats(0.001, 100), min_size=1)


@given(SIDE, SIDE)
def test_the_parts_and_the_rest_are_the_whole(
    before: dict[str, float], now: dict[str, float]
) -> None:
    def of(side: dict[str, float]) -> Breakdown:
        named = {OTHER_KERNELS if name == OTHER_RANGES else name: ms for name, ms in side.items()}
        own = kernels(**{name: (1.0, ms) for name, ms in named.items()})
        return under(M.KERNEL_MS, **side).model_copy(update={"kernels": own.kernels})

    whole = moved(M.KERNEL_MS, sum(before.values()), sum(now.values()))
    for found in attributions(of(before), of(now), whole):
        changes = [part.change for part in found.parts]
        assert math.isclose(sum(changes) + found.rest, found.change, abs_tol=1e-9)
        # The rows are all of it, so nothing but the dust of floats is left over.
        assert abs(found.rest) < 1e-6
        assert changes == sorted(changes, key=abs, reverse=True)


# Where it was, as notes


def made_up(
    change: float, parts: Mapping[str, float], *, axis: Axis = Axis.RANGE, metric: Metric = M.SYNCS
) -> Attribution:
    rows = tuple(
        Part(metric=metric, name=name, before=0, now=max(of, 0), change=of)
        for name, of in parts.items()
    )
    rest = change - sum(parts.values())
    return Attribution(metric=metric, axis=axis, change=change, parts=rows, rest=rest)


@pytest.mark.parametrize("axis", Axis)
@pytest.mark.parametrize(
    ("change", "parts", "named"),
    [
        (1.0, {"b": 0.4, "d": 0.3, "c": 0.2, "a": 0.1}, ["b", "d", "c"]),
        (4.1, {"data": 3.9, "forward": 0.1}, ["data"]),
        (1.0, {"a": 1.5, "b": -0.5}, ["a", "b"]),
        (1.0, {"a": 1.05, "b": -0.05}, ["a"]),
        (-2.0, {"a": -2.0, "b": 0.01}, ["a"]),
    ],
    ids=["three", "too small a part", "against it", "about the whole", "for the better"],
)
def test_the_largest_parts_that_went_its_way_are_named(
    change: float, parts: Mapping[str, float], named: list[str], axis: Axis
) -> None:
    assert [part.name for part in largest(made_up(change, parts, axis=axis))] == named


def codes(found: Note) -> list[str]:
    axes = found.fields["axes"]
    assert isinstance(axes, tuple)
    return [one.code for one in axes if isinstance(one, Note)]


@pytest.mark.parametrize(
    ("change", "parts", "code"),
    [
        (1.0, {"a": 1.0}, "where-ranges"),
        (4.1, {"a": 3.9}, "where-ranges-partly"),
        (1.0, {"a": 2.0, "b": -4.0}, "where-ranges-and-rest"),
    ],
)
def test_ranges_are_all_of_it_or_part_of_it_or_more(
    change: float, parts: Mapping[str, float], code: str
) -> None:
    found = where([made_up(change, parts), made_up(change, parts, axis=Axis.CALL)])
    assert codes(found[M.SYNCS]) == [code, "where-by"]


def test_a_metric_without_a_part_that_moved_its_way_has_no_entry() -> None:
    assert where([made_up(1.0, {"a": -1.0}, axis=Axis.CALL), made_up(1.0, {})]) == {}


@pytest.mark.parametrize("step", [M.STEP_MS, M.STEP_MEAN_MS])
def test_a_step_that_takes_longer_while_no_part_of_it_does_is_said_to(step: Metric) -> None:
    assert codes(where([made_up(0.3, {}, metric=step)])[step]) == ["where-in-turn"]
    assert where([made_up(-0.3, {}, metric=step)]) == {}


def test_the_words_of_it(snapshot: SnapshotAssertion) -> None:
    noted = made_up(0.9, {"spin": 0.9}, axis=Axis.KERNEL, metric=M.KERNEL_MS)
    new = noted.parts[0].model_copy(
        update={"notes": (note("part-new"), note("launches-a-step", now=1))}
    )
    of_step = made_up(2.0, {"load": 1.8}, metric=M.STEP_MS)
    gap = of_step.parts[0].model_copy(update={"metric": M.GAP_MS})
    found = [
        made_up(1.0, {"loss_log": 1.0}),
        made_up(1.0, {"cudaStreamSynchronize under loss_log": 1.0}, axis=Axis.CALL),
        noted.model_copy(update={"parts": (new,)}),
        of_step.model_copy(update={"parts": (gap,)}),
        made_up(1572864, {OUTSIDE_RANGES: 1572864}, metric=M.H2D_BYTES),
        made_up(-3e-6, {"log\n::error::": -2e-6, "": -1e-6}, metric=M.LAUNCHES),
    ]
    text = "\n".join(f"{metric}: {say.fact(one)}" for metric, one in where(found).items())
    assert text == snapshot
