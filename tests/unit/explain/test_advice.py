"""What a loop is bound by and what usually helps: told where the figures show it, and not where
they do not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.explain.advice import advise, classify, new_advice
from perfgate.explain.breakdown import ReadableBreakdown
from perfgate.model.advice import Advice, Bound, Topic
from perfgate.model.metric import Metric
from perfgate.model.sample import (
    OTHER_RANGES,
    OUTSIDE_RANGES,
    Breakdown,
    CopySample,
    KernelSample,
    RangeSample,
    SyncSample,
)

M = Metric
STEP = {M.STEP_MS: 10.0, M.KERNEL_MS: 9.0, M.GAP_MS: 0.2, M.LAUNCHES: 100.0}


def under(
    name: str,
    *,
    gap: float = 0.0,
    launches: float = 0.0,
    graphs: float = 0.0,
    h2d: float = 0.0,
    cpu_ms: float = 1.0,
) -> RangeSample:
    values = {M.GAP_MS: gap, M.LAUNCHES: launches, M.GRAPH_LAUNCHES: graphs, M.H2D_MS: h2d}
    return RangeSample(name=name, count=1, cpu_ms=cpu_ms, values=values)


def of(
    *ranges: RangeSample, copies: tuple[CopySample, ...] = (), syncs: tuple[SyncSample, ...] = ()
) -> Breakdown:
    return Breakdown(ranges=ranges, copies=copies, syncs=syncs)


def topics(values: Mapping[Metric, float], breakdown: Breakdown) -> list[Topic]:
    return [one.topic for one in advise(values, breakdown)]


def test_a_gpu_that_computes_most_of_the_step_is_compute_bound() -> None:
    found = classify(STEP, of(under("forward", launches=100)))
    assert found is not None
    assert found.bound is Bound.COMPUTE
    assert found.share == pytest.approx(0.98)
    assert found.evidence == "the GPU computes for 98 % of the step and idles for 2 %"


def test_a_gpu_that_copies_to_the_host_most_of_the_step_is_not_said_to_compute() -> None:
    assert classify({**STEP, M.KERNEL_MS: 0.2}, of(under("forward", launches=100))) is None


LOADING = of(
    under("get batch", gap=6.0, cpu_ms=6.5),
    under("forward", gap=0.5, launches=60),
    under("backward", launches=40),
)


def test_a_gpu_that_idles_while_batches_are_made_is_input_bound() -> None:
    values = {**STEP, M.KERNEL_MS: 3.4, M.GAP_MS: 6.5}
    found = classify(values, LOADING)
    assert found is not None
    assert found.bound is Bound.INPUT
    assert found.evidence == (
        "the GPU idles for 65 % of the step, 92.3 % of that under get batch, which launches next to nothing"
    )
    (told,) = advise(values, LOADING)
    assert (told.topic, told.range) == (Topic.LOADER, "get batch")
    assert (
        told.evidence
        == "get batch takes 6.5 ms a step on the CPU, and the GPU idles for 6 ms of it"
    )
    assert told.usually.startswith("Worker processes (DataLoader(num_workers=...))")


def usually(name: str, **values: float) -> str:
    """What usually helps against a range under which the GPU idles for 60 % of the step."""
    held = {
        M.GAP_MS: 6.0,
        M.LAUNCHES: 0.0,
        **{Metric(metric): value for metric, value in values.items()},
    }
    row = RangeSample(name=name, count=1, cpu_ms=6.5, values=held)
    (told,) = advise(
        {**STEP, M.KERNEL_MS: 3.4, M.GAP_MS: 6.0}, of(row, under("forward", launches=100))
    )
    assert (told.topic, told.range) == (Topic.LOADER, name)
    assert (
        told.evidence == f"{name} takes 6.5 ms a step on the CPU, and the GPU idles for 6 ms of it"
    )
    return told.usually


@pytest.mark.parametrize(
    "name", ["data_load", "getNextBatch", "DataLoader.__next__", "read inputs", "prefetch #"]
)
def test_a_range_that_is_named_for_data_is_helped_by_worker_processes(name: str) -> None:
    assert usually(name).startswith(
        "Worker processes (DataLoader(num_workers=...)) make the next batches"
    )


@pytest.mark.parametrize(
    "name", ["save checkpoint", "log batch", "tokenize", "validate", "upload metadata"]
)
def test_a_range_that_launches_nothing_is_not_taken_for_one_that_makes_data(name: str) -> None:
    assert usually(name) == (
        "The GPU waits for work of the CPU there: what loads or makes data, worker processes "
        "(DataLoader(num_workers=...)) can do meanwhile; what saves or logs can be done more rarely, or in another "
        "thread."
    )


def test_a_range_that_copies_to_the_gpu_makes_data_unless_it_is_named_for_keeping_some() -> None:
    assert usually("tokenize", h2d_copies=1).startswith("Worker processes")
    assert not usually("save", h2d_copies=1).startswith("Worker processes")


def test_a_range_that_the_gpu_does_not_wait_for_all_along_is_not_blamed_for_loading() -> None:
    # The GPU works through what was launched before for most of the 60 ms that the range takes.
    values = {**STEP, M.KERNEL_MS: 3.4, M.GAP_MS: 6.5}
    assert (
        topics(
            values,
            of(under("get batch", gap=6.0, cpu_ms=60.0), under("forward", gap=0.5, launches=100)),
        )
        == []
    )


def test_a_gpu_that_idles_between_launches_is_launch_bound() -> None:
    values = {**STEP, M.KERNEL_MS: 2.0, M.GAP_MS: 7.5, M.LAUNCHES: 500.0}
    breakdown = of(
        under("forward", gap=3.0, launches=200), under("backward", gap=4.5, launches=300)
    )
    found = classify(values, breakdown)
    assert found is not None
    assert found.bound is Bound.LAUNCH
    assert found.evidence == (
        "the GPU idles for 75 % of the step while the CPU launches: 500 kernels of 4 us each, one every 20 us"
    )
    assert topics(values, breakdown) == [Topic.LAUNCHES]


def is_launch_bound(
    gap: float, launches: float, *, name: str = "forward", graphs: float = 0.0
) -> bool:
    """Whether a loop of 10 ms whose GPU idles for `gap` ms under its one range is called
    launch-bound."""
    values = {
        **STEP,
        M.KERNEL_MS: 10 - gap,
        M.GAP_MS: gap,
        M.LAUNCHES: launches,
        M.GRAPH_LAUNCHES: graphs,
    }
    found = classify(values, of(under(name, gap=gap, launches=launches, graphs=graphs)))
    return found is not None and found.bound is Bound.LAUNCH


def test_a_gpu_that_idles_for_longer_than_launching_takes_is_not_launch_bound() -> None:
    assert is_launch_bound(7.5, 500)
    assert is_launch_bound(7.5, 150)
    assert not is_launch_bound(7.5, 149)
    assert not is_launch_bound(7.5, 3, name="step")
    assert not is_launch_bound(7.5, 1, graphs=3)
    assert is_launch_bound(7.5, 1, graphs=149)


def test_where_the_gpu_idles_in_a_range_that_does_more_than_launch_it_is_not_launch_bound() -> None:
    # 20 us of all idle time a launch, but 1.4 ms a launch where most of it lies: the CPU augments
    # there.
    values = {**STEP, M.KERNEL_MS: 2.0, M.GAP_MS: 7.5, M.LAUNCHES: 375.0}
    breakdown = of(under("augment", gap=7.0, launches=5), under("forward", gap=0.5, launches=370))
    assert classify(values, breakdown) is None
    assert topics(values, breakdown) == []


def test_of_several_gpus_idle_time_a_launch_is_that_of_one() -> None:
    # One thread launches on both by turns, 40 us a launch: each GPU idles all along.
    values = {**STEP, M.KERNEL_MS: 4.0, M.GAP_MS: 8.0, M.LAUNCHES: 200.0}
    found = classify(values, on_two_gpus(under("step", gap=8.0, launches=200)))
    assert found is not None
    assert found.bound is Bound.LAUNCH
    values[M.LAUNCHES] = 150.0
    assert classify(values, on_two_gpus(under("step", gap=8.0, launches=150))) is None


@pytest.mark.parametrize(
    ("step_ms", "launches", "graphs", "told"),
    [
        (0.05, 1, 0, "1 kernel of 20 us, one every 50 us"),
        (0.1, 2, 0, "2 kernels of 20 us each, one every 50 us"),
        (10.0, 12345, 0, "12345 kernels of 0.324 us each, one every 0.81 us"),
        (0.1, 1, 1, "1 kernel and 1 CUDA graph a step, a launch every 50 us"),
        (2.5, 30, 2, "30 kernels and 2 CUDA graphs a step, a launch every 78.1 us"),
    ],
)
def test_what_the_cpu_launches_is_counted_and_no_graph_is_taken_for_a_kernel(
    step_ms: float, launches: float, graphs: float, told: str
) -> None:
    idle = 0.6 * step_ms
    values = {M.STEP_MS: step_ms, M.KERNEL_MS: 0.4 * step_ms, M.GAP_MS: idle}
    values |= {M.LAUNCHES: launches, M.GRAPH_LAUNCHES: graphs}
    breakdown = of(under("forward", gap=idle, launches=launches, graphs=graphs))
    found = classify(values, breakdown)
    assert found is not None
    assert found.evidence == f"the GPU idles for 60 % of the step while the CPU launches: {told}"
    (advice,) = advise(values, breakdown)
    assert advice.usually.startswith(
        "What is launched outside the CUDA graphs" if graphs else "CUDA graphs or torch"
    )


def test_graphs_that_only_some_steps_launch_are_none_of_the_kernels_either() -> None:
    values = {**STEP, M.KERNEL_MS: 6.0, M.GAP_MS: 4.0, M.GRAPH_LAUNCHES: 0.0}
    found = classify(values, of(under("forward", gap=4.0, launches=100, graphs=0.25)))
    assert found is not None
    assert found.evidence.endswith(
        "100 kernels and 0.25 CUDA graphs a step, a launch every 99.8 us"
    )


def test_the_length_of_kernels_is_not_told_where_nccls_are_among_those_launched() -> None:
    found = classify(
        {**STEP, M.KERNEL_MS: 2.0, M.NCCL_MS: 1.5, M.GAP_MS: 5.0},
        of(under("f", gap=5.0, launches=100)),
    )
    assert found is not None
    assert found.evidence.endswith("the CPU launches: 100 kernels, one every 100 us")


def test_all_ranges_that_matter_are_named_with_their_share() -> None:
    def evidence(*gaps: tuple[str, float]) -> str:
        whole = sum(gap for _, gap in gaps)
        rows = [under(name, gap=gap) for name, gap in gaps]
        found = classify(
            {**STEP, M.KERNEL_MS: 2.0, M.GAP_MS: whole}, of(*rows, under("forward", launches=100))
        )
        assert found is not None
        return found.evidence.partition(", ")[2]

    thirds = [("fetch", 2.0), ("decode", 2.0), ("collate", 2.0)]
    assert (
        evidence(*thirds)
        == "100 % of that under fetch, decode and collate, which launch next to nothing"
    )
    small = "98.4 % of that under fetch, decode and collate, which launch next to nothing"
    assert evidence(*thirds, ("seed", 0.1)) == small
    many = "100 % of that under fetch, decode, collate and 2 other ranges, which launch next to nothing"
    assert evidence(*thirds, ("pad", 1.0), ("pin", 1.0)) == many
    tiny = "100 % of that under 0, 1, 2 and 17 other ranges, which launch next to nothing"
    assert evidence(*((str(n), 0.3) for n in range(20))) == tiny


def test_a_range_that_was_open_before_the_steps_is_not_said_to_take_no_time() -> None:
    values = {**STEP, M.KERNEL_MS: 3.4, M.GAP_MS: 6.0}
    assert (
        topics(values, of(under("epoch", gap=6.0, cpu_ms=0.0), under("forward", launches=100)))
        == []
    )


def test_the_gpu_does_not_idle_for_longer_than_the_range_that_it_idles_under_takes() -> None:
    # Idle time is of a step of median length, the time on the CPU a mean over all.
    (told,) = advise(
        {**STEP, M.KERNEL_MS: 3.4, M.GAP_MS: 6.0}, of(under("load", gap=6.0, cpu_ms=5.5))
    )
    assert (
        told.evidence == "load takes 5.5 ms a step on the CPU, and the GPU idles for 5.5 ms of it"
    )


def on_two_gpus(*ranges: RangeSample, copies: tuple[CopySample, ...] = ()) -> ReadableBreakdown:
    return ReadableBreakdown(gpus=2, ranges=ranges, copies=copies)


def test_what_several_gpus_do_is_told_of_each() -> None:
    values = {**STEP, M.KERNEL_MS: 12.0, M.GAP_MS: 4.0, M.LAUNCHES: 100.0}
    found = classify(values, on_two_gpus(under("forward", gap=4.0, launches=100)))
    assert found is not None
    assert found.share == pytest.approx(0.4)
    assert found.evidence == (
        "on average each of the 2 GPUs idles for 40 % of the step while the CPU launches: 100 kernels of 120 us each, "
        "one every 100 us"
    )
    found = classify({**values, M.GAP_MS: 0.5}, on_two_gpus())
    assert found is not None
    assert (
        found.evidence
        == "on average each of the 2 GPUs computes for 95 % of the step and idles for 5 %"
    )
    found = classify({**values, M.GAP_MS: 0.5, M.NCCL_EXPOSED_MS: 6.0}, on_two_gpus())
    assert found is not None
    assert found.evidence == (
        "on average over 2 GPUs, NCCL's kernels run for 6 ms of a step of 10 ms while nothing else does"
    )
    (advice,) = advise(
        values, on_two_gpus(under("load", gap=4.0, cpu_ms=4.5), under("forward", launches=100))
    )
    assert advice.evidence == (
        "load takes 4.5 ms a step on the CPU, and on average each of the 2 GPUs idles for 4 ms of it"
    )


def test_copies_to_several_gpus_are_no_share_of_the_step() -> None:
    values = {**STEP, M.KERNEL_MS: 18.0, M.H2D_MS: 3.0, M.H2D_EXPOSED_MS: 1.5}
    (pageable,) = advise(values, on_two_gpus(copies=(copied("pageable", 3.0),)))
    assert pageable.evidence == "1 copy a step (25 MB) from pageable memory: 3 ms"
    (pinned,) = advise(values, on_two_gpus(copies=(copied("pinned", 3.0),)))
    assert (
        pinned.evidence
        == "copies to each of the 2 GPUs take 1.5 ms a step; no kernel runs there for 1.5 ms of it"
    )


def test_copies_side_by_side_are_no_share_of_the_step() -> None:
    (told,) = advise({**STEP, M.H2D_MS: 32.0}, of(copies=(copied("pageable", 32.0),)))
    assert told.evidence == "1 copy a step (25 MB) from pageable memory: 32 ms"


def test_a_baseline_whose_step_holds_more_than_one_gpu_can_do_says_nothing_of_its_gpu() -> None:
    kernels = (KernelSample(name="gemm", count=2, gpu_ms=12.0),)
    values = {**STEP, M.KERNEL_MS: 12.0, M.GAP_MS: 8.0}
    assert (
        classify(
            values, Breakdown(kernels=kernels, ranges=(under("forward", gap=8.0, launches=100),))
        )
        is None
    )
    assert advise(values, Breakdown(kernels=kernels)) == ()


WORST = {**STEP, M.KERNEL_MS: 9.0, M.GAP_MS: 6.0, M.LAUNCHES: 200.0}
"""Of two ranks: rank 0 with kernels 4 and gap 6, rank 1 with kernels 9 and gap 1."""


def test_of_several_ranks_only_the_one_that_the_breakdown_is_of_is_told() -> None:
    own = {**WORST, M.KERNEL_MS: 4.0}
    breakdown = ReadableBreakdown(
        own=own, of="rank 0", gpus=1, ranges=(under("forward", gap=6.0, launches=200),)
    )
    found = classify(WORST, breakdown)
    assert found is not None
    assert found.evidence == (
        "the GPU of rank 0 idles for 60 % of the step while the CPU launches: 200 kernels of 20 us each, "
        "one every 50 us"
    )
    assert advise(WORST, breakdown)[0].evidence == found.evidence
    own = {**WORST, M.GAP_MS: 1.0}
    breakdown = ReadableBreakdown(
        own=own, of="rank 1", gpus=1, ranges=(under("forward", gap=1.0, launches=200),)
    )
    found = classify(WORST, breakdown)
    assert found is not None
    assert found.evidence == "the GPU of rank 1 computes for 90 % of the step and idles for 10 %"
    assert advise(WORST, breakdown) == ()


def test_of_a_baseline_of_several_ranks_what_the_ranges_add_up_to_is_that_of_one() -> None:
    row = RangeSample(
        name="f", count=1, cpu_ms=9.0, values={M.KERNEL_MS: 9.0, M.GAP_MS: 1.0, M.NCCL_MS: 0.5}
    )
    found = classify({**WORST, M.NCCL_MS: 5.0, M.NCCL_EXPOSED_MS: 5.0}, of(row))
    assert found is not None
    assert found.evidence == "the GPU computes for 85 % of the step and idles for 10 %"


def test_what_other_copies_take_is_not_computed() -> None:
    found = classify({**STEP, M.KERNEL_MS: 8.0, M.GAP_MS: 0.5, M.MEM_EXPOSED_MS: 1.5}, of())
    assert found is not None
    assert found.evidence == "the GPU computes for 80 % of the step and idles for 5 %"


def test_where_it_is_not_known_what_was_launched_no_range_is_said_to_launch_nothing() -> None:
    values = {M.STEP_MS: 10.0, M.KERNEL_MS: 4.0, M.GAP_MS: 6.0}
    assert classify(values, of(under("forward", gap=6.0))) is None


@pytest.mark.parametrize(
    ("metric", "bound"),
    [
        (M.H2D_EXPOSED_MS, Bound.COPY),
        (M.NCCL_EXPOSED_MS, Bound.COMMUNICATION),
        (M.MEM_EXPOSED_MS, Bound.COPY),
    ],
)
def test_what_nothing_hides_names_the_bound(metric: Metric, bound: Bound) -> None:
    found = classify({**STEP, M.KERNEL_MS: 5.0, metric: 4.0}, of())
    assert found is not None
    assert found.bound is bound
    assert found.share == pytest.approx(0.4)
    assert "4 ms of a step of 10 ms" in found.evidence


@pytest.mark.parametrize(
    ("values", "breakdown"),
    [
        pytest.param({}, of(), id="nothing measured"),
        pytest.param({**STEP, M.STEP_MS: 0.0}, of(), id="no step"),
        pytest.param({M.STEP_MS: 10.0, M.KERNEL_MS: 5.0}, of(), id="no gap"),
        pytest.param({**STEP, M.GAP_MS: 19.0}, of(), id="gaps of several GPUs"),
        pytest.param(
            {**STEP, M.GAP_MS: 6.0}, of(under(OUTSIDE_RANGES, gap=6.0)), id="idle outside any range"
        ),
        pytest.param(
            {**STEP, M.GAP_MS: 6.0},
            of(under(OTHER_RANGES, gap=6.0)),
            id="idle under ranges too small",
        ),
        pytest.param({**STEP, M.GAP_MS: 6.0}, of(), id="idle under nothing known"),
    ],
)
def test_where_the_figures_do_not_say_nothing_is_said(
    values: Mapping[Metric, float], breakdown: Breakdown
) -> None:
    assert classify(values, breakdown) is None
    assert advise(values, breakdown) == ()


def copied(host: str, ms: float) -> CopySample:
    return CopySample(direction="Host-to-Device", host=host, count=1, bytes=25e6, gpu_ms=ms)


def test_pageable_copies_are_told_with_what_they_cost() -> None:
    values = {**STEP, M.H2D_MS: 2.5, M.H2D_EXPOSED_MS: 2.5}
    (told,) = advise(values, of(under("copy", h2d=2.5), copies=(copied("pageable", 2.5),)))
    assert (told.topic, told.range) == (Topic.PAGEABLE, "copy")
    assert (
        told.evidence
        == "1 copy a step (25 MB) from pageable memory under copy: 2.5 ms, 25 % of the step"
    )


def copies_of(
    name: str, ms: float, *, sent: float = 1, pageable: float = 0, read: float = 0
) -> RangeSample:
    values = {M.H2D_MS: ms, M.H2D_COPIES: sent, M.PAGEABLE_COPIES: pageable, M.D2H_COPIES: read}
    return RangeSample(name=name, count=1, cpu_ms=1.0, values=values)


@pytest.mark.parametrize(
    ("ranges", "named"),
    [
        pytest.param(
            [copies_of("h2d", 2.5), copies_of("optimizer", 0.6, pageable=1)],
            "optimizer",
            id="pinned for longer",
        ),
        pytest.param(
            [copies_of("h2d", 2.5, pageable=1, read=1), copies_of("optimizer", 0.6, pageable=1)],
            "optimizer",
            id="beside one that may be pageable",
        ),
        pytest.param(
            [copies_of("h2d", 2.5, sent=2, pageable=1)],
            "h2d",
            id="beside pinned ones, and nowhere else",
        ),
        pytest.param(
            [copies_of("a", 0.9, sent=2, pageable=1), copies_of("b", 0.9, sent=2, pageable=1)],
            "",
            id="who knows",
        ),
        pytest.param(
            [copies_of(OUTSIDE_RANGES, 0.6, pageable=1), copies_of("h2d", 2.5)],
            "",
            id="outside any range",
        ),
        pytest.param([copies_of("h2d", 0.0)], "", id="outside what is told"),
        pytest.param([], "", id="no ranges"),
    ],
)
def test_pageable_copies_are_told_under_the_range_that_holds_them_and_not_the_pinned_ones(
    ranges: list[RangeSample], named: str
) -> None:
    values = {**STEP, M.H2D_MS: 3.1, M.H2D_EXPOSED_MS: 3.1}
    (told,) = advise(values, of(*ranges, copies=(copied("pinned", 2.5), copied("pageable", 0.6))))
    assert (told.topic, told.range) == (Topic.PAGEABLE, named)
    under = f" under {named}" if named else ""
    assert (
        told.evidence
        == f"1 copy a step (25 MB) from pageable memory{under}: 0.6 ms, 6 % of the step"
    )


@pytest.mark.parametrize(
    ("h2d", "exposed", "told"),
    [(2.5, 2.5, True), (2.5, 1.0, False), (0.1, 0.1, False), (0.0, 0.0, False)],
    ids=["never hidden", "hidden in part", "too short", "none"],
)
def test_pinned_copies_are_told_where_nothing_hides_them(
    h2d: float, exposed: float, told: bool
) -> None:
    values = {**STEP, M.H2D_MS: h2d, M.H2D_EXPOSED_MS: exposed}
    found = topics(values, of(under("copy", h2d=h2d), copies=(copied("pinned", h2d),)))
    assert found == ([Topic.UNHIDDEN_COPIES] if told else [])


def test_calls_that_wait_are_told_with_their_range() -> None:
    syncs = (
        SyncSample(call="cudaStreamSynchronize", range="loss stats", count=2, cpu_ms=4.0),
        SyncSample(call="cudaDeviceSynchronize", range="end", count=1, cpu_ms=0.01),
    )
    (told,) = advise(STEP, of(syncs=syncs))
    assert (told.topic, told.range) == (Topic.SYNCHRONISATION, "loss stats")
    assert (
        told.evidence
        == "the CPU waits 4 ms a step in cudaStreamSynchronize under loss stats, 2 calls"
    )
    assert ".item()" in told.usually


def test_waits_for_copies_to_the_gpu_are_not_taken_for_reads() -> None:
    # As torch copies a batch from pageable memory: cudaMemcpyAsync, then a wait for its stream.
    row = RangeSample(
        name="to device",
        count=1,
        cpu_ms=4.0,
        values={M.H2D_COPIES: 2, M.D2H_COPIES: 0, M.PAGEABLE_COPIES: 2},
    )
    sync = SyncSample(call="cudaStreamSynchronize", range="to device", count=2, cpu_ms=4.0)
    (told,) = advise(STEP, of(row, syncs=(sync,)))
    assert told.evidence == (
        "the CPU waits 4 ms a step in cudaStreamSynchronize under to device, 2 calls, for copies to the GPU from "
        "pageable memory"
    )
    assert "non_blocking=True" in told.usually
    assert "made on the GPU" in told.usually
    assert ".item()" not in told.usually


def test_new_is_what_had_no_reason_before() -> None:
    loader = Advice(topic=Topic.LOADER, range="get batch", evidence="6 ms", usually="Workers help.")
    same = loader.model_copy(update={"evidence": "7 ms"})
    elsewhere = loader.model_copy(update={"range": "augment"})
    assert new_advice([loader], [same, elsewhere]) == (elsewhere,)
    assert new_advice([], [same]) == (same,)


AMOUNT = st.floats(0, 100)


@given(
    st.dictionaries(st.sampled_from(list(Metric)), AMOUNT),
    st.lists(
        st.builds(
            under, st.sampled_from("abc"), gap=AMOUNT, launches=AMOUNT, h2d=AMOUNT, cpu_ms=AMOUNT
        )
    ),
    st.lists(st.builds(copied, st.sampled_from(["pageable", "pinned"]), AMOUNT)),
)
def test_no_figures_make_it_fail_and_every_advice_has_its_evidence(
    values: dict[Metric, float], ranges: list[RangeSample], copies: list[CopySample]
) -> None:
    breakdown = of(*ranges, copies=tuple(copies))
    found = classify(values, breakdown)
    assert found is None or (0 <= found.share <= 1 and found.evidence)
    assert all(one.evidence and one.usually.endswith(".") for one in advise(values, breakdown))
