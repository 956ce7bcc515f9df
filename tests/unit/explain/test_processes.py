"""Of several processes, which one a change is told of: the one that is judged, and the same on both
sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from support import records

from perfgate.explain.attribution import attributions
from perfgate.explain.breakdown import kept
from perfgate.explain.kernels import moved_kernels
from perfgate.explain.moved import moved_operations, moved_ranges
from perfgate.explain.sides import differences, side_of_runs
from perfgate.explain.where import where
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import KernelSample, ProcessSample, RangeSample, SyncSample
from perfgate.model.side import Side
from perfgate.model.verdict import MetricVerdict

M = Metric
SIDES = pytest.mark.parametrize(
    "is_kept", [False, True], ids=["two sets of runs", "a baseline, that keeps one process"]
)


def rank(
    number: int,
    ranges: Mapping[str, Mapping[Metric, float]],
    *,
    step_ms: float = 14.0,
    kernels: Mapping[str, float] | None = None,
    calls: Mapping[str, float] | None = None,
) -> ProcessSample:
    """Build a rank whose values are what its ranges add up to."""
    held = {metric: 0.0 for values in ranges.values() for metric in values}
    for values in ranges.values():
        for metric, value in values.items():
            held[metric] += value
    return records.process(
        {M.STEP_MS: step_ms, **held},
        rank=number,
        ranges=[
            RangeSample(name=name, count=1, cpu_ms=1.0 + number, values=of)
            for name, of in ranges.items()
        ],
        kernels=[
            KernelSample(name=name, count=1, gpu_ms=ms) for name, ms in (kernels or {}).items()
        ],
    ).model_copy(
        update={
            "syncs": tuple(
                SyncSample(call="cudaStreamSynchronize", range=name, count=count, cpu_ms=0.1)
                for name, count in (calls or {}).items()
            )
        }
    )


def side(*ranks: ProcessSample, is_kept: bool = False) -> Side:
    made = side_of_runs("it", [records.run(processes=ranks)] * 3)
    return made.model_copy(update={"breakdown": kept(made.breakdown)}) if is_kept else made


def told(a: Side, b: Side, metric: Metric) -> str | None:
    rows = differences(a, b)
    return where(
        attributions(a.breakdown, b.breakdown, rows, moved=lambda row: row.metric is metric)
    ).get(metric)


def own_kernels(slower: int, more: Sequence[float] = (0.0, 0.0)) -> list[ProcessSample]:
    """Two ranks of which each runs a kernel of its own, in a range of its own; one is slower by a
    microsecond."""
    return [
        rank(
            number,
            {
                "forward": {M.KERNEL_MS: 4.0},
                "backward": {M.KERNEL_MS: base + more[number]},
                of: {M.KERNEL_MS: 1.0},
            },
            kernels={"gemm": 4.0 + base + more[number], f"rank{number}_kernel": 1.0},
            step_ms=14.0 + 0.001 * (slower == number),
        )
        for number, base, of in ((0, 8.0, "evaluate"), (1, 8.03, "shard"))
    ]


@SIDES
@pytest.mark.parametrize("slower", [0, 1])
@pytest.mark.parametrize("slower_before", [0, 1])
def test_a_microsecond_of_one_rank_does_not_make_another_ranks_kernels_new(
    slower: int, slower_before: int, is_kept: bool
) -> None:
    a = side(*own_kernels(slower_before), is_kept=is_kept)
    b = side(*own_kernels(slower, (0.3, 0.3)))
    found = told(a, b, M.KERNEL_MS)
    assert found is not None
    assert found.startswith("+0.3 ms: +0.3 under backward; by kernel: +0.3 gemm (each +2.")
    assert "rank" not in found


@SIDES
def test_what_one_rank_has_gained_is_told_though_another_tells_the_step(is_kept: bool) -> None:
    def ranks(*syncs: float) -> list[ProcessSample]:
        return [
            rank(
                number,
                {"forward": {M.SYNCS: count}},
                calls={"forward": count} if count else {},
                step_ms=14 + number,
            )
            for number, count in enumerate(syncs)
        ]

    assert told(side(*ranks(0, 0), is_kept=is_kept), side(*ranks(1, 0)), M.SYNCS) == (
        "+1: +1 under forward; by call: +1 cudaStreamSynchronize under forward (new)"
    )


def test_what_the_worst_rank_has_lost_is_told_though_it_is_the_worst_no_longer() -> None:
    def ranks(*syncs: float) -> list[ProcessSample]:
        return [
            rank(n, {f"log {n}": {M.SYNCS: count}}, step_ms=14 + n) for n, count in enumerate(syncs)
        ]

    assert told(side(*ranks(3, 1)), side(*ranks(0, 1)), M.SYNCS) == "-3: -3 under log 0"


def test_a_rank_that_had_less_of_a_count_is_told_where_it_is_judged() -> None:
    def ranks(*syncs: float) -> list[ProcessSample]:
        return [rank(n, {f"log {n}": {M.SYNCS: count}}) for n, count in enumerate(syncs)]

    # The highest is 2 before and now: the judge has held the second, which rose, against the
    # second.
    row = MetricVerdict(metric=M.SYNCS, outcome=Outcome.REGRESSED, baseline=0.0, now=2.0)
    made_up = attributions(side(*ranks(2, 0)).breakdown, side(*ranks(2, 2)).breakdown, [row])
    assert where(made_up) == {M.SYNCS: "+2: +2 under log 1"}


def test_equal_ranks_are_told_by_the_lowest() -> None:
    def ranks(ms: float) -> list[ProcessSample]:
        return [rank(n, {f"of {n}": {M.KERNEL_MS: ms}}) for n in range(3)]

    assert told(side(*ranks(9.0)), side(*ranks(9.5)), M.KERNEL_MS) == "+0.5 ms: +0.5 under of 0"


@SIDES
def test_of_the_step_the_rank_is_told_that_explains_it(is_kept: bool) -> None:
    # 3 % of the step: too little to call any rank the one that is waited for.
    before = {
        "load": {M.GAP_MS: 0.5, M.KERNEL_MS: 0.0},
        "forward": {M.GAP_MS: 0.0, M.KERNEL_MS: 12.0},
    }
    late = {**before, "load": {M.GAP_MS: 0.9, M.KERNEL_MS: 0.0}}
    a, b = (
        side(rank(0, before), rank(1, before), is_kept=is_kept),
        side(rank(0, before, step_ms=14.4), rank(1, late, step_ms=14.4)),
    )
    assert told(a, b, M.STEP_MS) == "+0.4 ms: gap_ms +0.4 under load"


def test_jobs_of_unlike_size_are_told_as_they_are() -> None:
    def ranks(number: int, ms: float) -> list[ProcessSample]:
        return [rank(n, {"forward": {M.KERNEL_MS: ms}}) for n in range(number)]

    a, b = side(*ranks(2, 9.0)), side(*ranks(3, 9.5))
    assert told(a, b, M.KERNEL_MS) == "+0.5 ms: +0.5 under forward"
    assert moved_ranges(a.breakdown, b.breakdown) == ()


def test_ranges_and_operations_are_those_of_one_rank() -> None:
    # Whichever is slower, and by how much: what the other rank runs has not moved.
    a, b = (
        side(
            *(
                rank(
                    n,
                    {f"of {n}": {M.KERNEL_MS: 9.0}},
                    kernels={f"kernel{n}": 9.0},
                    step_ms=14.0 + (slower == n),
                )
                for n in range(2)
            )
        )
        for slower in range(2)
    )
    assert moved_ranges(a.breakdown, b.breakdown) == ()
    assert moved_operations(a.breakdown, b.breakdown) == ()


def test_launches_of_the_kernels_that_moved_are_those_of_the_rank_that_is_told() -> None:
    def ranks(shard_ms: float) -> list[ProcessSample]:
        return [
            rank(0, {"forward": {M.KERNEL_MS: 4.0}}, kernels={"gemm": 4.0}),
            rank(
                1,
                {"forward": {M.KERNEL_MS: 5.0 + shard_ms}},
                kernels={"gemm": 5.0, "shard": shard_ms},
            ),
        ]

    a, b = side(*ranks(1.0)), side(*ranks(1.5))
    (moved,) = moved_kernels(a, b, most=3)
    assert (moved.name, moved.change_ms, moved.per_step_before, moved.per_step_now) == (
        "shard",
        0.5,
        1,
        1,
    )


def test_a_single_process_is_told_of_a_baseline_of_several() -> None:
    a, b = side(*own_kernels(0)), side(own_kernels(0, (0.0, 0.3))[1])
    assert told(a, b, M.KERNEL_MS) == (
        "+0.3 ms: +0.3 under backward; by kernel: +0.3 gemm (each +2.49 %)"
    )
